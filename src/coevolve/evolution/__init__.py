"""The outer loop: what is tried, what it is judged by, and what is kept."""
