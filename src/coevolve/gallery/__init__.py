"""The rogues' gallery: faults that pay, put through the tree beside a loop that only looks at the
score, and real gains that must be kept."""
