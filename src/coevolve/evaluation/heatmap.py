"""Rates by bucket as a picture: one panel per policy, rows and columns two of the labels."""

from collections.abc import Sequence
from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.evaluation.tally import Summary, Tally, str_key


def draw_heatmap(results: dict[str, Tally], labels: Sequence[str], path: Path) -> None:
    """Valid rate over the first two labels, one panel per policy and value of the third."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("heat maps need matplotlib: pip install 'coevolve[draw]'") from None
    across, down, *rest = labels[:3]
    panels: dict[str, list[Summary]] = {}
    for name, counts in results.items():
        for group in counts.by(labels[:3]):
            value = group.labels[rest[0]] if rest else None
            title = name if value is None else f"{name}, {rest[0]} {value}"
            panels.setdefault(title, []).append(group)
    columns = len({title.split(", ", 1)[-1] for title in panels}) if rest else 1
    columns = max(1, min(columns, len(panels)))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(1.2 + 4.2 * columns, 0.8 + 2.0 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    image = None
    for axis, (title, groups) in zip(axes.flat, panels.items(), strict=False):
        xs = sorted({group.labels[across] for group in groups}, key=str_key)
        ys = sorted({group.labels[down] for group in groups}, key=str_key)
        cells = [[float("nan")] * len(xs) for _ in ys]
        for group in groups:
            x, y = xs.index(group.labels[across]), ys.index(group.labels[down])
            cells[y][x] = group.valid.value
            shade = "white" if group.valid.value < 0.6 else "black"
            text = f"{100 * group.valid.value:.0f}\nn={group.valid.n}"
            axis.text(x, y, text, ha="center", va="center", fontsize=6.5, color=shade)
        image = axis.imshow(cells, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axis.set_xticks(range(len(xs)), [str(x) for x in xs])
        axis.set_yticks(range(len(ys)), [str(y) for y in ys])
        axis.set_xlabel(across, fontsize=8)
        axis.set_ylabel(down, fontsize=8)
        axis.set_title(title, fontsize=9, loc="left")
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    if image is not None:
        figure.colorbar(image, ax=axes, label="valid rate", shrink=0.8)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write {path}: {error}") from None
