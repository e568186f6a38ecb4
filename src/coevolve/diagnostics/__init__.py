"""Diagnostics that a run grows: when one is wanted, and what it must show to be believed."""
