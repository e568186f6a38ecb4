"""Seeds by hashing names, never by adding numbers, so that no two uses of a seed can meet."""

from hashlib import blake2b


def digest(*parts: str | int | bytes, size: int = 16) -> bytes:
    """A hash of parts that no other list of parts shares: each is tagged and length-prefixed."""
    state = blake2b(digest_size=size)
    for part in parts:
        tag, data = (
            (b"b", part)
            if isinstance(part, bytes)
            else (b"s" if isinstance(part, str) else b"i", str(part).encode())
        )
        state.update(tag + str(len(data)).encode() + b":" + data)
    return state.digest()


def derive(seed: int, *names: str | int) -> int:
    """A new seed in 0 .. 2**63 - 1 for the use that `names` spell out."""
    return int.from_bytes(digest(seed, *names, size=8), "big") >> 1
