"""What an engineer asked, noted and proposed in earlier generations, and what became of it."""

from collections import Counter

from coevolve.core.fence import cut
from coevolve.harness.patch import Patch
from coevolve.harness.proposal import Proposal
from coevolve.store.lineage import Generation, Lineage

MOST_NOTE = 800
"""Characters of a note that are read again."""


def notebooks(lineage: Lineage) -> dict[str, tuple[str, ...]]:
    """By engineer, the newest generation last: only of those that asked or noted anything."""
    found: dict[str, list[str]] = {}
    for generation in lineage.generations:
        for name, said in generation.proposed[-1].proposals.items() if generation.proposed else ():
            if any(one.calls or one.notes for one in said):
                found.setdefault(name, []).append(page(lineage, generation, said))
    return {name: tuple(pages) for name, pages in found.items()}


def page(lineage: Lineage, generation: Generation, said: tuple[Proposal, ...]) -> str:
    """One generation."""
    used = Counter(call["tool"] or "unreadable" for one in said for call in one.calls)
    lines = [
        f"generation {generation.number}: you called "
        + ", ".join(f"{tool} {count} times" for tool, count in used.items())
    ]
    lines += [f"- you noted: {cut(note, MOST_NOTE)}" for one in said for note in one.notes]
    for one in said:
        if one.patch:
            lines.append(f"- you proposed {one.patch.factor}: {became(lineage, generation, one)}")
        elif one.failure:
            lines.append(f"- nothing of it could be used: {cut(one.failure, MOST_NOTE)}")
        elif one.stop or one.measure is not None:
            lines.append(f"- you wished: {one.stop or f'measure version {one.measure} again'}")
        for written in one.diagnostics:
            name = str(written.get("name", ""))
            lines.append(f"- you wrote the diagnostic {name}: {tried(lineage, name)}")
    return "\n".join(lines)


def became(lineage: Lineage, generation: Generation, said: Proposal) -> str:
    """What came of a patch, without a number of the gate's."""
    for version in lineage.versions:
        if version.generation == generation.number and alike(version.patch, said.patch):
            return f"version {version.number}, {version.verdict or 'not judged yet'}"
    for other in generation.tests.tried if generation.tests else ():
        if alike(other.patch, said.patch):
            return cut(other.words, MOST_NOTE)
    return "not tried"


def tried(lineage: Lineage, diagnostic: str) -> str:
    """What came of a diagnostic."""
    for generation in lineage.generations:
        for trial in generation.learn.trials if generation.learn else ():
            if trial.diagnostic.name == diagnostic and trial.accepted:
                return f"it is asked from version {trial.diagnostic.since} on"
            if trial.diagnostic.name == diagnostic:
                return f"refused: {cut(trial.reason, MOST_NOTE)}"
    return "not tried yet: that is done once no diagnostic explains what became of the versions"


def alike(one: Patch | None, other: Patch | None) -> bool:
    """Whether it is the same patch, of which reach may have left less."""
    if one is None or other is None:
        return False
    return (one.factor, one.hypothesis) == (other.factor, other.hypothesis)
