"""Attacks are counted: `held(area, ...)` is one try, and the table at the end has all of them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

Held = Callable[..., None]


@pytest.fixture
def held(request: pytest.FixtureRequest) -> Held:
    """Counts a try in an area, and fails where it came through."""

    def one(area: str, safe: Any, said: object = "") -> None:
        request.node.user_properties.append(("try", (area, bool(safe))))
        assert safe, f"{area}: {said}"

    return one


def pytest_terminal_summary(terminalreporter: Any) -> None:
    tries, through = Counter[str](), Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, found in report.user_properties:
                if name == "try" and report.when == "call":
                    tries[found[0]] += 1
                    through[found[0]] += not found[1]
    if tries:
        terminalreporter.section("attacks")
        for area in [*sorted(tries), ""]:
            count, lost = (tries[area], through[area]) if area else (tries.total(), through.total())
            terminalreporter.line(f"{area or 'all':40} {count:6} tries {count - lost:6} held")
