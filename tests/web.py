"""The dashboard over a folder of runs, asked without a browser."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi", reason="the dashboard needs the extra `serve`")
from fastapi.testclient import TestClient

from coevolve.dashboard.web.app import make_app


def client(root: Path) -> TestClient:
    """A browser of the dashboard over a folder of runs."""
    return TestClient(make_app(root), base_url="http://localhost")  # type: ignore[arg-type]


def as_json(web: TestClient, path: str, **query: str) -> dict[str, Any]:
    """The twin of a page."""
    asked = urlencode({**query, "format": "json"})
    answer = web.get(f"{path}{'&' if '?' in path else '?'}{asked}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found
