"""Data sets of one's own as domains."""
