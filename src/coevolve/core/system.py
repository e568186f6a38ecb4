"""What only some operating systems have. Tasks, plans, scripted policies and reading runs work on
all of them."""

POSIX_MODULES = frozenset({"fcntl", "grp", "posix", "pwd", "resource", "termios"})
"""Modules of the standard library that Windows lacks."""
NEEDS_POSIX = "needs Linux or macOS; on Windows, run it in WSL"
