"""Whatever answers: scripts, local weights, endpoints."""
