"""What `coevolve evaluate` says: one JSON object or tables. Every rate carries n and interval."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from coevolve.cli.choice import TaskList
from coevolve.cli.show import PLAIN, begin_table, notes, out, percent
from coevolve.dashboard.numbers import points
from coevolve.evaluation.difference import Difference, paired
from coevolve.evaluation.tally import Summary, Tally
from coevolve.policies.base import Sampling

ONCE = "95 % Wilson intervals"
SEVERAL = f"{ONCE} at the effective sample size"
WHY = (
    "n = {tasks} tasks x {samples} samples, and attempts at one task are not independent: "
    + SEVERAL
)


class Measured(NamedTuple):
    """One policy's attempts, and how they were drawn."""

    counts: Tally
    sampling: Sampling
    style: str


def report(
    found: TaskList, results: dict[str, Measured], as_json: bool, heatmap: Path | None
) -> None:
    """Print what was measured, and draw it where asked."""
    if as_json:
        objects = [as_object(found, name, measured) for name, measured in results.items()]
        for one, changes in zip(objects[1:], apart(results).values(), strict=True):
            one["from_first"] = {name: change.model_dump() for name, change in changes.items()}
        print(json.dumps(objects[0] if len(objects) == 1 else objects))
    else:
        print_tables(found, results)
    if heatmap:
        from coevolve.evaluation.heatmap import draw_heatmap

        counts = {name: measured.counts for name, measured in results.items()}
        draw_heatmap(counts, found.domain.panels, heatmap)
        notes.print(f"drew {heatmap}")


def as_object(found: TaskList, policy: str, measured: Measured) -> dict[str, Any]:
    """Everything measured of one policy, as plain JSON values."""
    counts = measured.counts
    whole = counts.by([])[0]
    n, seconds = whole.valid.n, counts.seconds
    return {
        "domain": found.domain.name,
        "suite": found.name,
        "source": found.origin,
        "policy": policy,
        "style": measured.style,
        **measured.sampling.model_dump(include={"temperature", "max_tokens", "seed"}),
        "n": n,
        "tasks": len(found.tasks),
        "different_tasks": len({task.id for task in found.tasks}),
        "samples": counts.samples,
        "valid": whole.valid.value,
        "optimal": whole.optimal.value,
        "valid_interval": [whole.valid.low, whole.valid.high],
        "optimal_interval": [whole.optimal.low, whole.optimal.high],
        "pass_at": {str(k): estimate.as_json() for k, estimate in counts.pass_at().items()},
        "mean_reward": whole.reward,
        "mean_reward_interval": counts.reward_interval(),
        "failures": whole.failures,
        "mean_prompt_tokens": counts.prompt_tokens / n,
        "mean_completion_tokens": counts.completion_tokens / n,
        "seconds": seconds,
        "tokens_per_second": counts.completion_tokens / seconds if seconds else 0.0,
        "buckets": [group.as_json() for group in counts.by(found.domain.panels)],
    }


def print_tables(found: TaskList, results: dict[str, Measured]) -> None:
    """One table over all policies, and one by each label; of several policies, the valid rate."""
    samples = max(measured.counts.samples for measured in results.values())
    rows = [(name, measured.counts.by([])[0]) for name, measured in results.items()]
    table = rate_table(f"{found.domain.name}, {found.name}", "policy", rows)
    if samples > 1:
        table.caption = WHY.format(tasks=len(found.tasks), samples=samples)
    out.print(table)
    different = len({task.id for task in found.tasks})
    if different < len(found.tasks):
        again = len(found.tasks) - different
        out.print(f"{different:,} different tasks; {again:,} were drawn once more", **PLAIN)
    for name, changes in apart(results).items():
        words = "; ".join(
            f"{metric} {points(one.mean)} points [{points(one.low)}, {points(one.high)}]"
            for metric, one in changes.items()
        )
        out.print(
            f"{name} - {next(iter(results))}: {words}, paired, n {different:,} tasks", **PLAIN
        )
    if samples > 1:
        out.print(pass_table(len(found.tasks), results))
    for label in found.domain.panels:
        groups = {
            name: {
                str(group.labels[label]): group
                for group in measured.counts.by([label])
                if group.labels[label] is not None
            }
            for name, measured in results.items()
        }
        if not any(groups.values()):
            continue
        if len(groups) > 1:
            table = side_by_side(label, groups)
        else:
            (own,) = groups.values()
            table = rate_table(f"by {label}", label, list(own.items()))
        table.caption = SEVERAL if samples > 1 else ONCE
        out.print(table)


def apart(results: dict[str, Measured]) -> dict[str, dict[str, Difference]]:
    """Every other policy beside the first one, task by task."""
    first, *others = results
    found = {}
    for name in others:
        found[name] = {
            metric: paired(*aligned(results[first].counts, results[name].counts, metric))
            for metric in ("valid", "optimal")
        }
    return found


def aligned(one: Tally, other: Tally, metric: str) -> tuple[list[float], list[float]]:
    """The same tasks in the same order."""
    before, after = one.by_task(metric), other.by_task(metric)
    return [before[task] for task in after], list(after.values())


def side_by_side(label: str, groups: dict[str, dict[str, Summary]]) -> Table:
    """The valid rates of several policies, by one label."""
    first = next(iter(groups.values()))
    columns = ("n", *groups)
    table = begin_table(label, *columns, right=columns, title=f"valid % by {label}")
    for value, summary in first.items():
        rates = (percent(own[value].valid) if value in own else "-" for own in groups.values())
        table.add_row(value, str(summary.valid.n), *rates)
    return table


def pass_table(tasks: int, results: dict[str, Measured]) -> Table:
    """pass@k of every policy."""
    found = {name: measured.counts.pass_at() for name, measured in results.items()}
    ks = [f"k = {k}" for k in next(iter(found.values()))]
    caption = f"chance of a valid answer in k; {tasks} tasks"
    table = begin_table("policy", *ks, right=ks, title="pass@k %", caption=caption)
    for name, estimates in found.items():
        table.add_row(name, *map(percent, estimates.values()))
    return table


def rate_table(title: str, key: str, rows: list[tuple[str, Summary]]) -> Table:
    """One line per group: n, valid and optimal rate with 95 % intervals, commonest failures."""
    numbers = ("n", "valid %", "optimal %")
    table = begin_table(key, *numbers, "failures", right=numbers, title=title, caption=ONCE)
    for label, summary in rows:
        failures = ", ".join(f"{name} {count}" for name, count in summary.failures.items())
        table.add_row(
            label, str(summary.valid.n), percent(summary.valid), percent(summary.optimal), failures
        )
    return table
