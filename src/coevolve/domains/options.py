"""Options behind a domain's name: `FAMILY:MEMBER?name=value&other=value`."""

import json
from typing import Any
from urllib.parse import parse_qsl


def read_options(query: str) -> dict[str, Any]:
    """Values by name, as JSON where they can be read as such."""
    return {name: read_value(value) for name, value in parse_qsl(query, keep_blank_values=True)}


def read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
