"""When a new diagnostic is wanted: none explains what is seen, or what they say is not what the
score says."""

from collections.abc import Sequence

from coevolve.diagnostics.health import Health
from coevolve.diagnostics.separation import labels_of, least_p_value, separations
from coevolve.harness.diagnostic import Finding
from coevolve.harness.rules import DiagnosticRule
from coevolve.harness.version import Version

SCORES = ("score_change",)
"""Diagnostics beside the score layer that are the score itself, and so explain nothing."""


def needs_diagnostic(
    health: Health, versions: Sequence[Version], rule: DiagnosticRule | None = None
) -> str:
    """Why a new diagnostic is wanted, in words; empty if none is."""
    return nothing_tells(health, versions, rule or DiagnosticRule()) or disagreement(
        health, versions
    )


def nothing_tells(health: Health, versions: Sequence[Version], rule: DiagnosticRule) -> str:
    """No diagnostic tells good versions from bad ones, though there are enough of both to tell."""
    labels = labels_of(versions)
    if least_p_value(labels) > rule.level:
        return ""
    asked = [one for one in health.findings if explains(one) and one.readings]
    alone = []
    for one in asked:
        values = {reading.version: reading.value for reading in one.readings}
        alone += separations([(values, one.diagnostic.direction)], labels, 0)
    if any(one.p_value <= rule.level for one in alone):
        return ""
    good = sum(labels.values())
    reason = f"no diagnostic tells the {good} good versions from the {len(labels) - good} bad ones"
    if not asked:
        return reason
    nearest = max(range(len(asked)), key=lambda place: alone[place].auc)
    return (
        f"{reason}; nearest is {asked[nearest].diagnostic.name} (AUC {alone[nearest].auc:.2f}, "
        f"p {alone[nearest].p_value:.2g})"
    )


def disagreement(health: Health, versions: Sequence[Version]) -> str:
    """The newest version that was judged, but for the root: kept in spite of an alarm, or bad
    without any."""
    labels = labels_of(versions)
    judged = [one for one in versions if one.number in labels and one.patch]
    if not judged:
        return ""
    newest = max(judged, key=lambda one: one.number)
    explaining = {one.diagnostic.name for one in health.findings if explains(one)}
    alarms = [
        alarm
        for alarm in health.alarms
        if alarm.version == newest.number and alarm.diagnostic in explaining
    ]
    critical = [alarm for alarm in alarms if alarm.level == "critical"]
    if newest.valid and critical:
        return f"version {newest.number} was kept in spite of an alarm: {critical[0].words}"
    if not newest.valid and not alarms:
        return f"version {newest.number} turned out bad, and nothing but the score says so"
    return ""


def explains(finding: Finding) -> bool:
    """Whether it says more than that the score is good or bad."""
    return finding.diagnostic.layer != "score" and finding.diagnostic.name not in SCORES
