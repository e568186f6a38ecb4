"""Skills: patch patterns with their record, and the readable files that they are kept in."""

from typing import Any

from coevolve.core.errors import UserError
from coevolve.dashboard.text import written
from coevolve.dashboard.web.site import Address, Page, Site
from coevolve.engineers.library import as_toml, read_file
from coevolve.harness.skill import Skill

MOST = 500
LARGEST = 200_000
"""Files of a folder, and bytes of a file, that are read."""


def show(site: Site, address: Address) -> Page:
    """Every skill of every TOML file of the folder `skills`, those that held first."""
    folder = site.folders.root / "skills"
    files = [file for file in sorted(folder.glob("*.toml")) if not file.is_symlink()]
    found: list[Skill] = []
    problems = []
    for file in files[:MOST]:
        try:
            if file.stat().st_size > LARGEST:
                raise UserError(f"it is larger than {LARGEST:,} bytes")
            found += read_file(file).values()
        except (UserError, OSError, RecursionError) as error:
            reason = str(error).removeprefix(f"{file}: ").removeprefix(f"{file}, ")
            problems.append(written(f"{file.name} cannot be used: {reason}"))
    found.sort(key=lambda skill: (-skill.held(), skill.failed(), skill.name))
    runs = site.folders.runs()
    values = {
        "skills": [shown(skill, runs.keys()) for skill in found],
        "problems": problems,
        "folder": str(folder),
    }
    return Page("web/skills.html", "Skills", values)


def shown(skill: Skill, runs: Any) -> dict[str, Any]:
    """A skill with its record; `runs` are those whose versions can be opened."""
    return {
        **{name: written(getattr(skill, name)) for name in (
            "name", "summary", "trigger", "factor", "hypothesis", "provenance")},
        "negative": skill.negative,
        "learned": skill.learned,
        "kept": skill.held(),
        "not_kept": skill.failed(),
        "trials": [
            {**one.model_dump(), "run": written(one.run), "known": one.run in runs}
            for one in skill.evidence
        ],
        "text": written(as_toml([skill]).decode()),
    }  # fmt: skip
