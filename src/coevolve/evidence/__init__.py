"""Rollouts as evidence: how they are kept and read."""
