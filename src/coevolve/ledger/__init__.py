"""The record of a run: what happened, what it cost, and what a person decided."""
