"""Numbers that open the rollouts behind them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from markupsafe import Markup


def opens(
    shown: "str | Markup",
    rollouts_at: str,
    labels: Mapping[str, str] | None = None,
    **query: object,
) -> "str | Markup":
    """A link to the rollouts that something is counted from; without an address of rollouts, as in
    a report, what is shown alone."""
    from markupsafe import Markup

    if not rollouts_at or not shown:
        return shown
    named = {f"label.{name}": value for name, value in (labels or {}).items()}
    return Markup('<a class="opens" href="{}?{}">{}</a>').format(
        rollouts_at, urlencode(query | named), shown
    )
