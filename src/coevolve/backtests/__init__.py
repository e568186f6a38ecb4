"""Patches tried on stored rollouts, before anything is trained under them."""
