"""The health of a run: every diagnostic of its suite, asked of every version, and what is alarming.

Each alarm names its diagnostic, its threshold and the value that passed it, and the rollouts behind
it are one statement away. Built-in diagnostics run here; those that came later run locked.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from coevolve.core.errors import EvidenceError, UserError
from coevolve.core.names import lookup
from coevolve.diagnostics.connection import Answer, Bounds, Locked
from coevolve.diagnostics.suite import Suite, load_suite
from coevolve.diagnostics.views import Evidence, connect, gather, quoted
from coevolve.harness.diagnostic import Alarm, Diagnostic, Finding, Reading, Trend
from coevolve.store.layout import Broken

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN = (
    "id, version, source, step, task_id, sample, reward, valid, failure, stop, "
    "completion_tokens, turns"
)
"""What is shown of the rollouts behind an alarm."""


class Health(NamedTuple):
    """The report on a run."""

    versions: list[dict[str, Any]]
    findings: list[Finding]
    broken: list[Broken]

    @property
    def alarms(self) -> list[Alarm]:
        """All of them, the newest version first, critical before warn."""
        found = [
            alarm
            for finding in self.findings
            for reading in finding.readings
            if (alarm := finding.diagnostic.alarm(reading))
        ]
        return sorted(found, key=lambda alarm: (-alarm.version, alarm.level != "critical"))

    def blocking(self, version: int) -> list[Alarm]:
        """What keeps a version from being promoted."""
        return [alarm for alarm in self.alarms if alarm.version == version and alarm.blocks]

    def check(self) -> None:
        """A version is not judged while something that could block it cannot be asked."""
        for finding in self.findings:
            if finding.diagnostic.blocks and finding.error:
                raise EvidenceError(
                    f"diagnostic '{finding.diagnostic.name}' blocks promotion and cannot be asked: "
                    f"{finding.error}; the run goes on with `coevolve resume` once it can"
                )

    def as_json(self) -> dict[str, Any]:
        return {
            "versions": self.versions,
            "findings": [finding.model_dump(mode="json") for finding in self.findings],
            "alarms": [{**alarm.model_dump(), "words": alarm.words} for alarm in self.alarms],
            "broken": [{"file": str(one.file), "reason": one.reason} for one in self.broken],
        }


def readings_at(findings: Iterable[Finding], version: int) -> dict[str, float]:
    """What every diagnostic says of a version, where it says anything."""
    return {
        finding.diagnostic.name: reading.value
        for finding in findings
        for reading in finding.readings
        if reading.version == version
    }


class Diagnosis:
    """Asks diagnostics of a run; use it as a context manager."""

    def __init__(
        self,
        folder: Path,
        suite: Suite | None = None,
        bounds: Bounds | None = None,
        condition: str = "",
        blind: bool = False,
    ) -> None:
        """`blind`: verdicts are not to be seen, since what is asked is tried against them."""
        self.evidence: Evidence = gather(folder)._replace(condition=condition)
        if blind:
            rows = [{**row, "verdict": None} for row in self.evidence.versions]
            self.evidence = self.evidence._replace(versions=rows)
        if not self.evidence.parts:
            raise UserError(f"{folder} holds no rollouts that can be read{left_out(self.evidence)}")
        self.suite = suite or load_suite(folder)
        self.locked = Locked(self.evidence, bounds)
        self.connection: DuckDBPyConnection | None = None

    def health(self, only: Iterable[str] | None = None) -> Health:
        """The whole suite, or the named diagnostics."""
        chosen = (
            self.suite.of(self.domains())
            if only is None
            else [lookup("diagnostic", name, self.suite.diagnostics) for name in only]
        )
        findings = [self.finding(diagnostic) for diagnostic in chosen]
        return Health(self.evidence.versions, findings, self.evidence.broken)

    def domains(self) -> list[str]:
        found = self.trusted("SELECT DISTINCT domain FROM rollouts ORDER BY domain")
        return [row[0] for row in found.rows]

    def finding(self, diagnostic: Diagnostic) -> Finding:
        try:
            if diagnostic.built_in:
                readings = readings_of(diagnostic, self.trusted(diagnostic.sql))
            else:
                readings = readings_alone(diagnostic, self.locked)
        except EvidenceError as error:
            return Finding(diagnostic=diagnostic, error=str(error))
        return Finding(diagnostic=diagnostic, readings=readings, trend=trend_of(readings))

    def behind(self, name: str, version: int | None = None, limit: int = 20) -> Answer:
        """The rollouts behind a diagnostic's alarm, of all versions or of one."""
        diagnostic = lookup("diagnostic", name, self.suite.diagnostics)
        if not diagnostic.rollouts:
            raise UserError(
                f"'{name}' is about all rollouts of a version, not about some; look at them with "
                '--sql "SELECT ... FROM rollouts"'
            )
        sql = behind_sql(diagnostic, version, limit)
        return self.trusted(sql) if diagnostic.built_in else self.locked.ask(sql)

    def texts(self, ids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
        """Roles and texts of all messages of some rollouts."""
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in ids}
        listed = ", ".join(map(quoted, found)) or "NULL"
        rows = self.trusted(
            f"SELECT id, role, text FROM messages WHERE id IN ({listed}) ORDER BY id, position"
        ).rows
        for name, role, text in rows:
            found[name].append((role, text))
        return found

    def trusted(self, sql: str) -> Answer:
        """Run a statement of ours. A file that turns out to be damaged is named and left out."""
        import duckdb

        try:
            return self.fetch(sql)
        except duckdb.OutOfMemoryException as error:
            raise EvidenceError(" ".join(str(error).split())) from None
        except duckdb.Error as error:
            before = len(self.evidence.files)
            self.evidence = self.evidence.checked()
            if len(self.evidence.files) == before:
                raise EvidenceError(" ".join(str(error).split())) from None
            self.close()
            self.locked = Locked(self.evidence, self.locked.bounds)
            return self.fetch(sql)

    def fetch(self, sql: str) -> Answer:
        if self.connection is None:
            self.connection = connect(self.evidence, in_memory=True)
        result = self.connection.execute(sql)
        columns = [column[0] for column in result.description or ()]
        return Answer(columns, [list(row) for row in result.fetchall()])

    def close(self) -> None:
        self.locked.close()
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def readings_of(diagnostic: Diagnostic, answer: Answer) -> tuple[Reading, ...]:
    """Rows of an answer as readings, by version; one that breaks the contract is an error."""
    if missing := {"version", "value", "n"} - set(answer.columns):
        raise EvidenceError(f"its SQL gives no column {', '.join(sorted(missing))}")
    found: dict[int, Reading] = {}
    for values in answer.rows:
        row = dict(zip(answer.columns, values, strict=True))
        reading = reading_of(diagnostic, row)
        if reading is None or reading.version < diagnostic.since:
            continue
        if reading.version in found:
            raise EvidenceError(f"its SQL gives several rows for version {reading.version}")
        found[reading.version] = reading
    if answer.cut:
        raise EvidenceError("its SQL gives too many rows; group by version")
    return tuple(found[version] for version in sorted(found))


def readings_alone(diagnostic: Diagnostic, locked: Locked) -> tuple[Reading, ...]:
    """Readings of a diagnostic that nobody here wrote, asked of one version at a time: it is not
    told which one that is, and sees no other but its parent."""
    found, evidence = [], locked.evidence
    plain = diagnostic.model_copy(update={"since": 0, "revised": 0})
    for version in sorted({part.version for part in evidence.parts if part.version >= 0}):
        if version < diagnostic.since:
            continue
        for one in readings_of(plain, locked.ask(diagnostic.sql, evidence.of(version))):
            if one.version == 1:
                level = one.level if version >= diagnostic.revised else None
                found.append(one.model_copy(update={"version": version, "level": level}))
    return tuple(found)


def reading_of(diagnostic: Diagnostic, row: dict[str, Any]) -> Reading | None:
    """A row as a reading; None where there is no value."""
    try:
        value = number(row["value"])
        if value is None or row["version"] is None:
            return None
        n = int(row["n"])
        low, high = number(row.get("low")), number(row.get("high"))
        version = int(row["version"])
        level = diagnostic.level(value, n) if version >= diagnostic.revised else None
        return Reading(version=version, value=value, n=n, low=low, high=high, level=level)
    except (TypeError, ValueError, OverflowError):
        raise EvidenceError(f"its SQL gives a row that is not a reading: {row!r:.120}") from None


def number(value: Any) -> float | None:
    """A finite number, or none; without the last digits, in which sums differ that several threads
    add up in whatever order."""
    found = math.nan if value is None else float(value)
    return float(f"{found:.12g}") if math.isfinite(found) else None


def trend_of(readings: tuple[Reading, ...]) -> Trend | None:
    """How the readings moved; None for fewer than two."""
    if len(readings) < 2:
        return None
    at = [reading.version for reading in readings]
    values = [reading.value for reading in readings]
    middle, mean = sum(at) / len(at), sum(values) / len(values)
    slope = sum((x - middle) * (y - mean) for x, y in zip(at, values, strict=True)) / sum(
        (x - middle) ** 2 for x in at
    )
    return Trend(
        first=values[0],
        last=values[-1],
        change=values[-1] - values[0],
        slope=slope,
        versions=len(values),
    )


def behind_sql(diagnostic: Diagnostic, version: int | None, limit: int) -> str:
    """The statement that lists the rollouts behind an alarm."""
    where = f"({diagnostic.rollouts})" + ("" if version is None else f" AND version = {version}")
    return (
        f"SELECT {SHOWN} FROM rollouts WHERE {where} "
        f"ORDER BY version, source, step, task_id, sample LIMIT {limit}"
    )


def left_out(evidence: Evidence) -> str:
    """The damaged files, for an error."""
    if not evidence.broken:
        return "; has it trained yet?"
    first = evidence.broken[0]
    return f": {len(evidence.broken)} files are damaged, such as {first.file} ({first.reason})"
