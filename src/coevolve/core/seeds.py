"""Seeds by hashing names, never by adding numbers, so that no two uses of a seed can meet."""

from collections.abc import Iterable
from hashlib import blake2b

Part = str | int | bytes


def written(parts: Iterable[Part]) -> bytes:
    """Parts as no other list of parts is written: each is tagged and length-prefixed."""
    found = bytearray()
    for part in parts:
        if isinstance(part, bytes):
            tag, data = "b", part
        else:
            tag, data = "s" if isinstance(part, str) else "i", str(part).encode()
        found += f"{tag}{len(data)}:".encode() + data
    return bytes(found)


def digest(*parts: Part, size: int = 16) -> bytes:
    """A hash of parts that no other list of parts shares."""
    return blake2b(written(parts), digest_size=size).digest()


def derive(seed: int, *names: str | int) -> int:
    """A new seed in 0 .. 2**63 - 1 for the use that `names` spell out."""
    return int.from_bytes(digest(seed, *names, size=8), "big") >> 1


def derive_all(seed: int, *names: str | int, ends: Iterable[tuple[str | int, ...]]) -> list[int]:
    """Seeds for uses whose names begin alike; that beginning is hashed once."""
    begun = blake2b(written((seed, *names)), digest_size=8)
    found = []
    for end in ends:
        state = begun.copy()
        state.update(written(end))
        found.append(int.from_bytes(state.digest(), "big") >> 1)
    return found
