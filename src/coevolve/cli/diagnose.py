"""`coevolve diagnose`: the health of a run, the rollouts behind an alarm, or an answer in SQL."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevolve.core.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from coevolve.diagnostics.connection import Answer
    from coevolve.diagnostics.health import Diagnosis, Health
    from coevolve.harness.diagnostic import Finding, Reading

COLOURS = {"critical": "bold red", "warn": "yellow", None: ""}
MARKS = {"critical": "!!", "warn": "!", None: ""}
TEXT = 400
"""Characters of a message that are shown."""
NARROW, WIDE = 24, 50
"""Characters for a version's column, and for all the others."""


def diagnose(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or of a training stage.")],
    version: Annotated[int | None, typer.Option(min=0, help="Only this version.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this diagnostic; repeatable.")
    ] = None,
    rollouts: Annotated[
        str, typer.Option("--rollouts", help="Show the rollouts behind this diagnostic.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many rollouts to show.")] = 10,
    sql: Annotated[
        str, typer.Option("--sql", help="Ask the rollouts one SELECT; see docs/evidence.md.")
    ] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on any alarm.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Show the health of a run: diagnostics by version, trends and alarms.

    Gate and test rollouts are never read.

    Examples: coevolve diagnose runs/rounds;  coevolve diagnose runs/rounds --rollouts dead_groups

    coevolve diagnose runs/rounds --sql "SELECT version, avg(reward) FROM rollouts GROUP BY version"
    """
    if sum(map(bool, (only, rollouts, sql))) > 1:
        raise UserError("--only, --rollouts and --sql answer different questions; name one of them")
    from coevolve.cli.show import PLAIN, notes
    from coevolve.diagnostics.health import Diagnosis

    if not folder.is_dir():
        raise UserError(f"{folder} is not the folder of a run; `coevolve list` shows the runs")
    with Diagnosis(folder) as diagnosis:
        known = [row["version"] for row in diagnosis.evidence.versions]
        if version is not None and version not in known:
            raise UserError(
                f"there is no version {version}; there are {', '.join(map(str, known))}"
            )
        for broken in diagnosis.evidence.broken:
            notes.print(f"left out: {broken.file}: {broken.reason}", **PLAIN)
        if sql:
            show_answer(diagnosis.locked.ask(sql), as_json)
            return
        if rollouts:
            show_rollouts(diagnosis, rollouts, version, limit, as_json)
            return
        health = diagnosis.health(only or None)
    if version is not None:
        health = of_version(health, version)
    if as_json:
        print(json.dumps(health.as_json()))
    else:
        show_health(health, folder)
    if strict and health.alarms:
        raise typer.Exit(1)


def of_version(health: "Health", version: int) -> "Health":
    """What is known of one version."""
    findings = []
    for finding in health.findings:
        kept = tuple(reading for reading in finding.readings if reading.version == version)
        findings.append(finding.model_copy(update={"readings": kept, "trend": None}))
    rows = [row for row in health.versions if row["version"] == version]
    return health._replace(findings=findings, versions=rows)


def show_health(health: "Health", folder: Path) -> None:
    """Tables for people: versions, diagnostics, alarms."""
    from coevolve.cli.show import PLAIN, out

    for row in health.versions:
        verdict = row["reason"] or "not judged yet"
        parent = "the start" if row["parent"] is None else f"version {row['parent']}"
        out.print(f"version {row['version']}: from {parent}; {verdict}", **PLAIN)
    asked = [finding for finding in health.findings if finding.readings]
    out.print(table_of(asked, max(2, (out.width - WIDE) // NARROW)))
    for finding in health.findings:
        if finding.error:
            out.print(f"{finding.diagnostic.name}: {finding.error}", highlight=False, markup=False)
    silent = [one.diagnostic.name for one in health.findings if not (one.readings or one.error)]
    if silent:
        out.print(f"no data for: {', '.join(silent)}", highlight=False)
    alarms = health.alarms
    out.print(f"{len(alarms)} alarms" if alarms else "no alarms", highlight=False)
    behind = {one.diagnostic.name for one in health.findings if one.diagnostic.rollouts}
    for alarm in alarms:
        out.print(f"  {alarm.words}", style=COLOURS[alarm.level], highlight=False, soft_wrap=True)
        if alarm.diagnostic in behind:
            hint = f"coevolve diagnose {folder} --rollouts {alarm.diagnostic}"
            out.print(f"    {hint} --version {alarm.version}", highlight=False, soft_wrap=True)


def table_of(findings: list["Finding"], most: int) -> "Table":
    """A line per diagnostic, a column per version; the last ones, where there are too many."""
    from rich import box
    from rich.table import Table

    known = sorted({reading.version for one in findings for reading in one.readings})
    versions = known[-most:]
    table = Table(header_style="bold", caption_justify="left", box=box.SIMPLE_HEAD)
    table.caption = "value ± half of its 95 % interval; trend per version; ! warn, !! critical"
    if len(known) > most:
        table.caption += f"\nversions before {versions[0]}: in a wider window, or --version, --json"
    table.add_column("diagnostic", no_wrap=True)
    for version in versions:
        table.add_column(f"version {version}", justify="right", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("trend", justify="right", no_wrap=True)
    layer = ""
    for finding in findings:
        readings = {reading.version: reading for reading in finding.readings}
        shown = [readings.get(version) for version in versions]
        sizes = ", ".join(f"{reading.n:,}" for reading in shown if reading)
        trend = f"{finding.trend.slope:+.2g}" if finding.trend else ""
        if finding.diagnostic.layer != layer:
            layer = finding.diagnostic.layer
            table.add_row(f"[bold]{layer}")
        table.add_row(f"  {finding.diagnostic.name}", *map(cell_of, shown), sizes, trend)
    return table


def cell_of(reading: "Reading | None") -> str:
    """A value with its interval, marked where it is alarming."""
    if reading is None:
        return ""
    text = f"{MARKS[reading.level]} {reading.value:.3g}".strip()
    if reading.low is not None and reading.high is not None:
        text += f" ±{(reading.high - reading.low) / 2:.1g}"
    colour = COLOURS[reading.level]
    return f"[{colour}]{text}[/]" if colour else text


def show_answer(answer: "Answer", as_json: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from coevolve.cli.show import notes, out

    if as_json:
        print(json.dumps({"columns": answer.columns, "rows": answer.rows, "cut": answer.cut}))
        return
    table = Table(header_style="bold")
    for column in answer.columns:
        table.add_column(escape(column))
    for row in answer.rows:
        table.add_row(*(escape("" if value is None else str(value)[:TEXT]) for value in row))
    out.print(table)
    if answer.cut:
        notes.print(f"only the first {len(answer.rows):,} rows", highlight=False)


def show_rollouts(
    diagnosis: "Diagnosis", name: str, version: int | None, limit: int, as_json: bool
) -> None:
    """The rollouts behind an alarm, with what was said."""
    from coevolve.cli.show import PLAIN, out

    answer = diagnosis.behind(name, version, limit)
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    texts = diagnosis.texts([row["id"] for row in rows])
    if as_json:
        for row in rows:
            row["messages"] = [{"role": role, "text": text} for role, text in texts[row["id"]]]
        print(json.dumps({"diagnostic": name, "rollouts": rows}))
        return
    question = diagnosis.suite.diagnostics[name].question
    out.print(f"{name}: {question} ({len(rows)} rollouts)", highlight=False, markup=False)
    for row in rows:
        facts = "  ".join(f"{key} {value}" for key, value in row.items() if key != "id")
        out.print(f"\n{row['id']}\n  {facts}", **PLAIN)
        for role, text in texts[row["id"]]:
            short = text if len(text) <= TEXT else f"{text[:TEXT]} … ({len(text):,} characters)"
            out.print(f"  {role}: {short}", **PLAIN)
