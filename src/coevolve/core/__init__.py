"""What every other package builds on: errors, seeds, splits, tasks, rollouts. No heavy imports."""
