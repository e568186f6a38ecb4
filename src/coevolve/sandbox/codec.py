"""Plain Python values as text, in both directions, without trusting the writer.

Only built-in types cross the border of a sandbox: what arrives is built anew from text, so no
object of a program (with a comparison of its own, say) ever reaches whoever judges it.

The same text of this module runs inside the sandbox, so it imports nothing that is slow to load.
"""

TYPE_CHECKING = False  # `typing` and `collections` take as long as starting an interpreter
if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 10**15
"""Whole numbers from here on are written in hexadecimal, which takes linear time."""


def encode(value: object) -> str:
    """JSON text for a plain value; subclasses of plain types become the plain type."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        whole = int.__int__(value)
        return repr(whole) if -LARGE < whole < LARGE else f'{{"i":"{hex(whole)}"}}'
    if isinstance(value, float):
        return f'{{"f":"{float.hex(value)}"}}'
    if isinstance(value, str):
        text = str.__str__(value)
        if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
            return f'"{text}"'
        return f'{{"u":"{text.encode("utf-8", "surrogatepass").hex()}"}}'
    if isinstance(value, list):
        return "[" + ",".join(map(encode, list.__iter__(value))) + "]"
    if isinstance(value, tuple):
        return '{"t":[' + ",".join(map(encode, tuple.__iter__(value))) + "]}"
    if isinstance(value, dict):
        pairs = (f"[{encode(key)},{encode(item)}]" for key, item in dict.items(value))
        return '{"d":[' + ",".join(pairs) + "]}"
    if isinstance(value, set | frozenset):
        mark = "s" if isinstance(value, set) else "z"
        return f'{{"{mark}":[' + ",".join(map(encode, value)) + "]}"
    if isinstance(value, bytes | bytearray):
        return f'{{"b":"{bytes(value).hex()}"}}'
    if isinstance(value, complex):
        return f'{{"c":["{value.real.hex()}","{value.imag.hex()}"]}}'
    raise TypeError(f"a value of type {type(value).__name__} cannot be compared")


MOST_HASHED = 20_000
"""Keys and members of sets in one value. Whole numbers can be chosen so that each of them is
compared with all that came before, so building a set may take the square of its size."""
MOST_ALIKE = 16
"""Keys or members with one and the same hash, which are compared in full."""


def decode(text: str) -> object:
    """The value in a text of `encode`; ValueError for anything else."""
    import json

    hashed = 0

    def checked(members: list[object]) -> list[object]:
        """Members that a set can be built of in little time."""
        nonlocal hashed
        hashed += len(members)
        if hashed > MOST_HASHED:
            raise ValueError(f"sets and dictionaries with more than {MOST_HASHED} members")
        marks = sorted(map(hash, members))
        if any(low == high for low, high in zip(marks, marks[MOST_ALIKE:], strict=False)):
            raise ValueError(f"more than {MOST_ALIKE} members of a set with the same hash")
        return members

    try:
        return build(json.loads(text), checked)
    except (RecursionError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"not a plain value: {error}") from None


def build(node: object, checked: "Callable[[list[object]], list[object]]") -> object:
    """The value that a parsed JSON text stands for."""
    if isinstance(node, list):
        return [build(item, checked) for item in node]
    if not isinstance(node, dict):
        if isinstance(node, float):
            raise ValueError("a bare float")
        return node
    if len(node) != 1:
        raise ValueError("an object with other than one mark")
    ((mark, inner),) = node.items()
    if mark == "u":
        return bytes.fromhex(inner).decode("utf-8", "surrogatepass")
    if mark == "i":
        return int(inner, 16)
    if mark == "f":
        return float.fromhex(inner)
    if mark == "t":
        return tuple([build(item, checked) for item in inner])
    if mark == "d":
        keys = checked([build(key, checked) for key, _ in inner])
        return dict(zip(keys, [build(item, checked) for _, item in inner], strict=True))
    if mark == "s":
        return set(checked([build(item, checked) for item in inner]))
    if mark == "z":
        return frozenset(checked([build(item, checked) for item in inner]))
    if mark == "b":
        return bytes.fromhex(inner)
    if mark == "c":
        real, imaginary = inner
        return complex(float.fromhex(real), float.fromhex(imaginary))
    raise ValueError(f"an unknown mark {mark!r:.20}")
