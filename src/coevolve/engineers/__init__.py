"""What proposes the next training environment: models, rules and baselines."""
