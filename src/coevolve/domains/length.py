"""The charge for long answers that the rewards of several domains share."""

SHORT_TOKENS = 1_500
LONG_TOKENS = 4_096


def length(tokens: int) -> float:
    """0 up to 1,500 tokens, then linearly down to -1 at 4,096."""
    over = (tokens - SHORT_TOKENS) / (LONG_TOKENS - SHORT_TOKENS)
    return -min(max(over, 0.0), 1.0)
