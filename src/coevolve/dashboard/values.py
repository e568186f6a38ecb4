"""Values as JSON: what a page or a report shows, for scripts."""

import math
from pathlib import Path
from typing import Any

from pydantic import BaseModel


def plain(value: Any) -> Any:
    """Any value of a page as JSON values; numbers that JSON has no word for become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if hasattr(value, "as_json"):
        return plain(value.as_json())
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [plain(member) for member in value]
    return str(value) if isinstance(value, Path) else repr(value)
