"""Optimal plans: Conflict-Based Search on bit-set layers, and an exhaustive search to check it."""
