"""Measuring policies on frozen suites, with intervals."""
