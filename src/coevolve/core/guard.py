"""A program that ends with whoever started it, however that ends."""

GUARD = """
import os, signal, subprocess, sys, threading, time
program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, process_group=0)
def follow():
    os.read(0, 1)
    os.killpg(program.pid, signal.SIGTERM)
    time.sleep(3)
    os.killpg(program.pid, signal.SIGKILL)
threading.Thread(target=follow, daemon=True).start()
os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
os.killpg(program.pid, signal.SIGKILL)
code = program.wait()
os._exit(code if code >= 0 else 128 - code)
"""
"""Run with `python -IS -c GUARD PROGRAM ...`, standard input a pipe: once its other end is gone,
the program is told to end, and is killed if it does not; whatever it leaves running is killed."""
