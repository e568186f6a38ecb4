"""Text that nobody here wrote, made safe to show to a model.

Invariant: what is inside a fence cannot end it, hides no characters, and is of bounded length.
"""

import unicodedata

FENCE = "```"


def clean(text: str) -> str:
    """Without control, formatting, private and half characters; all gaps but line breaks are
    plain spaces."""
    return "".join(map(shown, text.replace("\r\n", "\n")))


def shown(character: str) -> str:
    if character == "\n":
        return character
    kind = unicodedata.category(character)[0]
    return " " if kind == "Z" or character == "\t" else "" if kind == "C" else character


def cut(text: str, most: int) -> str:
    """At most `most` characters, with a mark where something was left out."""
    return text if len(text) <= most else text[: max(most - 2, 0)] + " …"[: max(most, 0)]


def fenced(text: str, most: int) -> str:
    """The text as data between two fences."""
    # Cut before and after: cleaning a huge text takes long, and it never grows.
    safe = cut(clean(text[: 4 * max(most, 0)]), most).replace(FENCE, "'''")
    return f"{FENCE}\n{safe}\n{FENCE}"
