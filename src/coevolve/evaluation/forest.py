"""The arms of a comparison as a picture: rates and differences, each with its interval."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve.core.errors import UserError
from coevolve.evaluation.arms import Row
from coevolve.evaluation.seeds import chance
from coevolve.harness.comparison import UNTRAINED

INK, SOFT, MAIN, BETTER, WORSE = "#26323d", "#9aa7b2", "#1f6f9f", "#2a8f5b", "#b5473c"


def draw_forest(rows: Sequence[Row], title: str, reference: str, path: Path) -> None:
    """Valid rate of every arm, and its difference from the reference, best arm on top."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("pictures need matplotlib: pip install 'coevolve[draw]'") from None
    arms = [row for row in rows if row.arm != UNTRAINED]
    base = next((row for row in rows if row.arm == UNTRAINED), None)
    figure = Figure(figsize=(9.6, 1.9 + 0.42 * len(arms)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for place, row in enumerate(arms):
        y = len(arms) - 1 - place
        if row.valid.over == "seeds":
            left.scatter(
                [100 * rate for rate in row.by_seed], [y - 0.24] * len(row.by_seed),
                s=16, color=SOFT, linewidths=0, zorder=2,
            )  # fmt: skip
        bar(left, y, row.valid, INK if row.arm == reference else MAIN)
        if row.valid_change is not None:
            change = row.valid_change
            colour = BETTER if change.low > 0 else WORSE if change.high < 0 else SOFT
            bar(right, y, change, colour)
            text = f"{100 * change.mean:+.1f}   p {chance(change.p)}".replace("-", "\u2212")
            right.annotate(
                text, (1.02, y), xycoords=("axes fraction", "data"), va="center", fontsize=8,
                color=INK, annotation_clip=False,
            )  # fmt: skip
    most = str(max(len(row.seeds) for row in arms))
    labels = [row.arm + (f" (n {row.counted})" if row.counted != most else "") for row in arms]
    left.set_yticks(range(len(arms)), labels[::-1])
    left.set_ylim(-0.6, len(arms) - 0.4)
    left.set_xlabel("valid % on fresh held-out tasks")
    right.set_xlabel(f"difference from {reference}, points")
    right.axvline(0, color=INK, linewidth=0.8)
    if base is not None:
        value = 100 * base.valid.mean
        left.axvline(value, color=WORSE, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        left.annotate(
            f"untrained {value:.1f}", (value, 1.0), xycoords=("data", "axes fraction"),
            xytext=(3, 3), textcoords="offset points", fontsize=8, color=WORSE,
        )  # fmt: skip
    for axis in (left, right):
        plain(axis)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    figure.supxlabel(caption(arms), x=0.01, ha="left", fontsize=8, color="#5c6a75")
    try:
        figure.savefig(path, dpi=140)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write {path}: {error}") from None


def caption(arms: Sequence[Row]) -> str:
    """What the intervals are, and of how many."""
    counts = sorted({len(row.seeds) for row in arms})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    tasks = arms[0].tasks
    if counts[-1] == 1:
        return f"n = 1 seed x {tasks} tasks; 95 % intervals over tasks: Wilson, paired bootstrap"
    words = (
        f"n = {seeds} seeds x {tasks} tasks; small dots are seeds; 95 % Student intervals over "
        "seeds, differences paired by seed"
    )
    return f"{words}; of one seed, over tasks" if counts[0] == 1 else words


def bar(axis: Any, y: float, estimate: Any, colour: str) -> None:
    """A mean with its interval, in percent."""
    axis.plot(
        [100 * estimate.low, 100 * estimate.high], [y, y],
        color=colour, linewidth=2.2, solid_capstyle="round", zorder=3,
    )  # fmt: skip
    axis.plot(
        [100 * estimate.mean], [y], "o", color=colour, markersize=7, markeredgecolor="white",
        zorder=4,
    )  # fmt: skip


def plain(axis: Any) -> None:
    """No frame, a light grid to read values by."""
    axis.grid(axis="x", color="#e3e8ec", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(length=0, labelsize=9, colors=INK)
    axis.xaxis.label.set(color=INK, fontsize=9)
    for side in axis.spines.values():
        side.set_visible(False)
