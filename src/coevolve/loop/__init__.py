"""The loop: diagnose, propose, backtest, train, decide, learn. Both papers are settings."""
