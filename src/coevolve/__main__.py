"""`python -m coevolve` is the command line."""

from coevolve.cli.main import main

main()
