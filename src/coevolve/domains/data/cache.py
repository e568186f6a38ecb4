"""What was worked out of rows before, in a file of its own; a file that is damaged is none."""

import json
from pathlib import Path
from typing import Any

from coevolve.core.files import cache_root, replace_file
from coevolve.core.seeds import digest


def cached(*content: str) -> Path:
    """Where what follows from this content is kept."""
    return cache_root() / "data" / f"{digest(*content).hex()}.json"


def recall(file: Path) -> list[Any] | None:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) else None


def keep(file: Path, values: list[Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps(values).encode("utf-8"))
