"""The loop: diagnose, propose, backtest, train, measure, judge, learn. Both papers are settings."""
