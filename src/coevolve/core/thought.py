"""Answers of models that think aloud first: `<think>...</think>`, and then what they say."""

OPEN, CLOSE = "<think>", "</think>"


def spoken(text: str) -> str | None:
    """What a text says after it has thought, all of it where it does not; None if it ends while it
    thinks. The opening tag may be missing: some prompts end with it."""
    opened, closed = text.rfind(OPEN), text.rfind(CLOSE)
    if opened > closed:
        return None
    return text[closed + len(CLOSE) :] if closed >= 0 else text
