"""coevolve runs the outer loop of LLM reinforcement learning."""

__version__ = "0.1.0"
