"""Diagnostics by version, with alarms, and the rollouts behind each reading."""

from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.dashboard.text import written
from coevolve.dashboard.web.filter import whole
from coevolve.dashboard.web.folders import RunFolder
from coevolve.dashboard.web.health import behind
from coevolve.dashboard.web.site import Address, Missing, Page, Site
from coevolve.diagnostics.suite import load_suite
from coevolve.store.layout import version_folders

COLUMNS = 10
"""Versions on one page."""
LIMIT = 50
"""Rollouts behind a reading."""


def show(site: Site, run: RunFolder, address: Address) -> Page:
    """The matrix, or one diagnostic."""
    if address.rest:
        return one(site, run, address)
    stamp = site.folders.stamp(run)
    asked = site.health.of(run, stamp)
    if asked.health is None:
        values: dict[str, Any] = {
            "heading": "Diagnostics", "busy": asked.busy,
            "problems": [asked.error] * bool(asked.error),
            "words": "Asking every diagnostic of every version; a large run takes half a minute …",
        }  # fmt: skip
        return Page("web/waiting.html", f"{run.name}: diagnostics", values, draft=asked.busy)
    health = asked.health
    only = address.query.get("only", "")
    until = whole(address.query, "until")
    key = (run.name, "matrix", until, only)
    values = site.cache.get(key, asked.ended, lambda: matrix(health, until, only))
    values = {**values, "busy": asked.busy, "seconds": asked.ended - asked.began}
    old = asked.busy or asked.stamp != stamp
    return Page("web/diagnostics.html", f"{run.name}: diagnostics", values, draft=old)


def matrix(health: dict[str, Any], until: int | None, only: str) -> dict[str, Any]:
    """Rows of readings for some of the versions, the last of them `until`."""
    findings = health["findings"]
    versions = sorted({r["version"] for one in findings for r in one["readings"]})
    shown = [version for version in versions if until is None or version <= until][-COLUMNS:]
    rows, silent = [], []
    for finding in findings:
        readings = {reading["version"]: reading for reading in finding["readings"]}
        diagnostic = finding["diagnostic"]
        if not readings and not finding["error"]:
            silent.append(diagnostic["name"])
            continue
        if only == "alarms" and not any(readings[v]["level"] for v in shown if v in readings):
            continue
        rows.append(
            {
                "name": diagnostic["name"], "layer": diagnostic["layer"],
                "question": diagnostic["question"], "blocks": diagnostic["blocks"],
                "error": written(finding["error"]), "trend": finding["trend"],
                "cells": [readings.get(version) for version in shown],
                "behind": bool(diagnostic["rollouts"]),
            }
        )  # fmt: skip
    at = versions.index(shown[0]) if shown else 0
    later = [version for version in versions if shown and version > shown[-1]]
    return {
        "rows": rows, "versions": shown, "all_versions": len(versions), "only": only,
        "alarms": raised([one for one in health["alarms"] if one["version"] in shown]),
        "all_alarms": len(health["alarms"]), "silent": silent,
        "earlier": versions[at - 1] if at > 0 else None,
        "later": later[min(len(later), COLUMNS) - 1] if later else None,
        "problems": [f"{one['file']} cannot be read: {one['reason']}" for one in health["broken"]],
    }  # fmt: skip


def raised(alarms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Alarms by diagnostic, the critical ones first, then those of most versions."""
    found: dict[str, list[dict[str, Any]]] = {}
    for alarm in alarms:
        found.setdefault(alarm["diagnostic"], []).append(alarm)
    groups = [
        {
            "name": name,
            "level": "critical" if any(a["level"] == "critical" for a in own) else "warn",
            "each": sorted(own, key=lambda one: one["version"]),
        }
        for name, own in found.items()
    ]
    return sorted(
        groups, key=lambda one: (one["level"] != "critical", -len(one["each"]), one["name"])
    )


def one(site: Site, run: RunFolder, address: Address) -> Page:
    """One diagnostic: what it asks, its readings, and the rollouts behind one of them."""
    try:
        diagnostic = load_suite(run.folder).diagnostics[address.rest]
    except KeyError:
        raise Missing(f"unknown diagnostic '{address.rest:.60}'") from None
    except CoevolveError as error:
        raise Missing(str(error)) from None
    asked = site.health.of(run, site.folders.stamp(run))
    findings = asked.health["findings"] if asked.health else []
    finding = next((f for f in findings if f["diagnostic"]["name"] == diagnostic.name), None)
    readings = finding["readings"] if finding else []
    version = whole(address.query, "version")
    if version is None:
        alarming = [r["version"] for r in readings if r["level"]]
        versions = [number for number, _ in version_folders(run.folder)]
        version = (alarming or versions or [0])[-1]
    found, problem = None, ""
    if diagnostic.rollouts:
        try:
            found = site.of(
                run, ("behind", diagnostic.name, version),
                lambda: behind(run.folder, diagnostic, version, LIMIT),
            )  # fmt: skip
        except CoevolveError as error:
            problem = str(error)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows] if found else []
    values = {
        "diagnostic": diagnostic,
        "readings": readings,
        "version": version,
        "rollouts": rows,
        "limit": LIMIT,
        "busy": asked.busy,
        "problems": [problem] if problem else [],
    }
    return Page("web/diagnostic.html", f"{run.name}: {diagnostic.name}", values)
