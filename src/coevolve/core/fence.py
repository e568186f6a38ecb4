"""Text that nobody here wrote, made safe to show to a model.

Invariant: outside of fences a model reads our own words only. What is inside cannot end its fence,
hides no characters, holds no mark that a chat template would take for the next message, and is of
bounded length; a text that is cut keeps its fences whole.
"""

import re
import unicodedata

FENCE = "```"
END = f"\n{FENCE}"
TICKS = str.maketrans(dict.fromkeys("\uff40\u1fef\u02cb\u2035", "'"))
"""What looks like the characters of a fence."""
PLAIN = re.compile("[\n -~]*")
"""Text that needs no cleaning."""
MARKS = re.compile(
    r"<\||\|>|</?s>|<</?SYS>>|\[/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS)\]|"
    r"</?(?:bos|eos|start_of_turn|end_of_turn|tool_call|tool_response)>|<｜|｜>",
    re.IGNORECASE,
)
"""What begins and ends messages in the templates of common models."""


def clean(text: str) -> str:
    """Without control, formatting, private and half characters; all gaps but line breaks are
    plain spaces."""
    if PLAIN.fullmatch(text):
        return text
    return "".join(map(shown, text.replace("\r\n", "\n")))


def shown(character: str) -> str:
    if character == "\n":
        return character
    kind = unicodedata.category(character)[0]
    return " " if kind == "Z" or character == "\t" else "" if kind == "C" else character


def cut(text: str, most: int) -> str:
    """At most `most` characters, with a mark where something was left out; a fence that would stay
    open is closed."""
    if len(text) <= most:
        return text
    for end in ("", END):
        kept = text[: max(most - 2 - len(end), 0)].rstrip("`")
        if bool(end) is bool(kept.count(FENCE) % 2):
            return (kept + " …" + end)[: max(most, 0)]
    return (kept + " …")[: max(most, 0)]


def harmless(text: str, most: int) -> str:
    """The text without anything that could end a fence or a message, cut."""
    # Cut before and after: cleaning a huge text takes long, and it never grows by more than marks.
    safe = clean(text[: 4 * max(most, 0)]).translate(TICKS).replace(FENCE, "'''")
    return cut(MARKS.sub(lambda mark: " ".join(mark[0]), safe), most)


def fenced(text: str, most: int) -> str:
    """The text as data between two fences."""
    return f"{FENCE}\n{harmless(text, most)}{END}"
