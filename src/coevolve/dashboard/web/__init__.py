"""The dashboard: pages over a folder of runs, read-only but for the answers that people give.

Invariant: only runs that were found below the folder can be named, so no address leads out of it.
"""
