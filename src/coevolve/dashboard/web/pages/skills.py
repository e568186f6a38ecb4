"""Skills: patch patterns that held, as the readable files that they are."""

import tomllib
from pathlib import Path
from typing import Any

from coevolve.dashboard.proposals import written
from coevolve.dashboard.web.site import Address, Page, Site

MOST = 500
LARGEST = 200_000


def show(site: Site, address: Address) -> Page:
    """Every TOML file of the folder `skills`."""
    folder = site.places.root / "skills"
    files = [file for file in sorted(folder.glob("*.toml")) if not file.is_symlink()]
    values = {"skills": [skill_of(file) for file in files[:MOST]], "folder": str(folder)}
    return Page("web/skills.html", "Skills", values)


def skill_of(file: Path) -> dict[str, Any]:
    """What a file says; one that cannot be read says why."""
    try:
        text = file.read_bytes()[:LARGEST].decode("utf-8", "replace")
        values = tomllib.loads(text)
        problem = ""
    except (OSError, tomllib.TOMLDecodeError, RecursionError) as error:
        text, values, problem = "", {}, f"{file.name} cannot be read: {error}"
    patch = values.get("patch")
    evidence = values.get("evidence")
    factor = values.get("factor") or (patch.get("factor") if isinstance(patch, dict) else "")
    return {
        "name": written(values.get("name", file.stem)),
        "trigger": written(spelled(values.get("trigger", ""))),
        "factor": written(factor or ""),
        "evidence": len(evidence) if isinstance(evidence, list | dict) else evidence,
        "text": written(text),
        "file": file.name,
        "problem": problem,
    }


def spelled(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {member}" for name, member in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
