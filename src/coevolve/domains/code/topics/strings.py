"""Texts: runs, ciphers, windows, words."""

import random
from typing import Any

from coevolve.domains.code.template import Argument, Template, letters

LOWER = "abcdefghijklmnopqrstuvwxyz"
TEXT = Argument("text", "text")


def window(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    text = letters(rng, size, kind, LOWER[:12])
    width = len(text) // 2 if kind == "large" else rng.randint(1, max(1, len(text)))
    return [text, max(1, width)]


def words(rng: random.Random, size: int, kind: str, _p: Any) -> list[Any]:
    count = 1 if kind == "edge" else size
    lengths = (rng.randint(1, 1 if kind == "edge" else 9) for _ in range(count))
    return [" ".join("".join(rng.choices(LOWER, k=length)) for length in lengths)]


TEMPLATES = (
    Template(
        name="run_lengths",
        takes=(TEXT,),
        gives="text",
        draw=lambda rng: {
            "t": rng.randint(2, 6),
            "mark": rng.choice("*#+~^"),
            "first": rng.choice((True, False)),
        },
        statement=(
            "Find the runs of equal letters. A run of {t} or more letters is written as "
            "[first:its length, `{mark}` and the letter|the letter, `{mark}` and its length]. "
            "Shorter runs stay as they are. The result is the text that this gives."
        ),
        reference="""\
def core(text):
    parts, i = [], 0
    while i < len(text):
        j = i
        while j < len(text) and text[j] == text[i]:
            j += 1
        if j - i < <<t>>:
            parts.append(text[i:j])
        elif <<first>>:
            parts.append(str(j - i) + <<mark>> + text[i])
        else:
            parts.append(text[i] + <<mark>> + str(j - i))
        i = j
    return "".join(parts)
""",
        inputs=lambda rng, size, kind, p: [letters(rng, size, kind, "aab")],
        large=40_000,
    ),
    Template(
        name="two_ciphers",
        takes=(TEXT,),
        gives="text",
        draw=lambda rng: dict(zip("ab", rng.sample(range(1, 26), 2), strict=True)),
        statement=(
            "The text has only lower-case letters. Move every vowel (a, e, i, o, u) {a} places on "
            "in the alphabet and every other letter {b} places on, beginning again at a after z. "
            "The result is the new text."
        ),
        reference="""\
def core(text):
    def moved(letter):
        places = <<a>> if letter in "aeiou" else <<b>>
        return chr((ord(letter) - 97 + places) % 26 + 97)

    return "".join(map(moved, text))
""",
        inputs=lambda rng, size, kind, p: [letters(rng, size, kind, LOWER)],
        large=40_000,
    ),
    Template(
        name="distinct_windows",
        takes=(TEXT, Argument("width", "int")),
        draw=lambda rng: {"d": rng.randint(2, 9), "c": rng.randint(1, 20)},
        statement=(
            "Look at every window of `width` letters that follow one another (`width` is at most "
            "the length of the text). The result is {c} times the number of windows with at least "
            "{d} different letters, plus the number of windows with fewer."
        ),
        reference="""\
def core(text, width):
    counts, different, rich, total = {}, 0, 0, 0
    for i, letter in enumerate(text):
        counts[letter] = counts.get(letter, 0) + 1
        different += counts[letter] == 1
        if i >= width:
            old = text[i - width]
            counts[old] -= 1
            different -= counts[old] == 0
        if i >= width - 1:
            total += 1
            rich += different >= <<d>>
    return <<c>> * rich + total - rich
""",
        brute="""\
def core(text, width):
    rich = total = 0
    for i in range(len(text) - width + 1):
        different = []
        for letter in text[i : i + width]:
            if letter not in different:
                different.append(letter)
        total += 1
        rich += len(different) >= <<d>>
    return <<c>> * rich + total - rich
""",
        inputs=window,
        large=30_000,
    ),
    Template(
        name="long_words",
        takes=(TEXT,),
        gives="text",
        draw=lambda rng: {
            "k": rng.randint(2, 8),
            "mark": rng.choice("-_.:/"),
            "cut": rng.randint(1, 6),
        },
        statement=(
            "The text is made of words between single blanks. Words of at least {k} letters are "
            "written backwards; of the others only the first {cut} letters are kept. The result "
            "is the words in their order with `{mark}` between them."
        ),
        reference="""\
def core(text):
    words = text.split()
    return <<mark>>.join(w[::-1] if len(w) >= <<k>> else w[:<<cut>>] for w in words)
""",
        inputs=words,
        large=8_000,
    ),
)
