"""What decisions on versions teach: skills that held or failed, and at times a new diagnostic.

A run follows its own copy of the skills, which nobody else writes, and tells the library that runs
share what it found. Invariant: files are written from what is recorded, so that a run which is
broken off in between writes the same.
"""

from collections.abc import Sequence

from coevolve.core.seeds import digest
from coevolve.diagnostics.grid import from_grid
from coevolve.diagnostics.grown import grown, keep_grown, share_grown
from coevolve.diagnostics.health import Health
from coevolve.diagnostics.need import needs_diagnostic
from coevolve.diagnostics.separation import labels_of
from coevolve.diagnostics.suite import keep_trials
from coevolve.diagnostics.trials import Occasion, try_diagnostics, try_threshold
from coevolve.engineers.distill import distil
from coevolve.engineers.library import SkillLibrary
from coevolve.engineers.situation import situation_of
from coevolve.evaluation.clean import CLEAN_ROOM
from coevolve.harness.diagnostic import Diagnostic, DiagnosticTrial
from coevolve.harness.plan import Plan
from coevolve.harness.skill import Skill
from coevolve.harness.version import Version
from coevolve.loop.run import Run
from coevolve.store.paths import generation_place
from coevolve.store.phases import Learn


def learn(run: Run, generation: int, versions: Sequence[Version]) -> None:
    """Add what became of versions to the skills behind them, and try diagnostics where none
    explains it."""
    found = run.phase(
        generation_place(generation), "learn", lambda: learned(run, generation, versions)
    )
    own = SkillLibrary(run.paths.skills)
    for skill in found.skills:
        own.absorb(skill)
        SkillLibrary(run.plan.skills or run.paths.library).absorb(skill)
    keep_trials(run.ledger.folder, found.trials)
    keep_grown(run.paths.diagnostics, found.grown)
    share_grown(run.paths.grown, found.grown)
    for one in found.grown:
        run.say(f"diagnostic from the clean room ({one.record}): {one.question}")
    for trial in found.trials:
        if trial.accepted:
            first = len(run.lineage.nodes)
            run.say(f"new diagnostic from version {first} on: {trial.diagnostic.question}")


def learned(run: Run, generation: int, versions: Sequence[Version]) -> Learn:
    """Everything that a generation teaches, before any file is written."""
    if not run.plan.learn:
        return Learn()
    own = SkillLibrary(run.paths.skills).in_memory()
    skills = {one.name: own.absorb(one) for _, said in run.lineage.wishes for one in said.skills}
    for version in versions:
        for skill in distilled(run, generation, own, run.lineage.versions[version.number]):
            skills[skill.name] = own.absorb(skill)
    health = run.health()
    reason = needs_diagnostic(health, run.lineage.versions, run.plan.diagnostic)
    trials = tried(run, health) if reason else []
    return Learn(
        skills=tuple(skills.values()), reason=reason, trials=tuple(trials),
        grown=tuple(grown_by(run, health, versions)),
    )  # fmt: skip


def grown_by(run: Run, health: Health, versions: Sequence[Version]) -> list[Diagnostic]:
    """What the clean room's word on versions teaches about diagnostics."""
    nodes = [one for one in run.lineage.nodes if one.gate and one.gate.clean]
    honest = {
        one.number: all(alarm.diagnostic != CLEAN_ROOM for alarm in one.gate.blocking)
        for one in nodes
        if one.gate
    }
    new = [one.number for one in versions if one.number in honest]
    return grown(health, occasion_of(run), honest, new, identity(run.plan))


def distilled(run: Run, generation: int, library: SkillLibrary, version: Version) -> list[Skill]:
    """The skills that a version speaks for or against, with this trial in their evidence."""
    if version.parent is None or version.patch is None:
        return []
    diagnosed = run.lineage.generations[generation].diagnose
    assert diagnosed
    gate, domain = run.lineage.nodes[version.number].gate, run.gauge.domain
    parent = run.lineage.versions[version.parent]
    return distil(
        library.skills,
        version,
        parent,
        situation_of(diagnosed.findings, run.lineage.versions, parent.number),
        gate.change if gate else None,
        domain.space,
        run=identity(run.plan),
        domain=domain.name,
        components=domain.components,
        skill=version.skill,
    )


def identity(plan: Plan) -> str:
    """The name of a run, and a hash of its plan: the same again is no further evidence."""
    text = plan.model_dump_json(exclude={"skills"})
    return f"{plan.name}-{digest(text, size=4).hex()}"


def tried(run: Run, health: Health) -> list[DiagnosticTrial]:
    """New questions, and other thresholds for the alarms of the newest version."""
    occasion = occasion_of(run)
    names = {alarm.diagnostic for alarm in health.alarms if alarm.version == occasion.since - 1}
    new = {one.name: one for one in (*from_grid(occasion), *proposed(run))}
    revised = [try_threshold(name, occasion, len(names)) for name in sorted(names)]
    return [
        *try_diagnostics(list(new.values()), occasion),
        *(trial for trial in revised if trial is not None),
    ]


def occasion_of(run: Run) -> Occasion:
    generations = [one.learn for one in run.lineage.generations if one.learn]
    return Occasion(
        folder=run.ledger.folder,
        labels=labels_of(run.lineage.versions),
        since=len(run.lineage.nodes),
        rule=run.plan.diagnostic,
        seed=run.plan.seed,
        earlier=sum(bool(one.trials) for one in generations),
    )


def proposed(run: Run) -> list[Diagnostic]:
    """What engineers have proposed and was not tried yet."""
    known = {
        trial.diagnostic.name
        for one in run.lineage.generations
        if one.learn
        for trial in one.learn.trials
    }
    found: dict[str, Diagnostic] = {}
    for generation in run.lineage.generations:
        for phase in generation.proposed:
            every = (one for listed in phase.proposals.values() for one in listed)
            for values in (values for one in every for values in one.diagnostics):
                made = Diagnostic.model_validate(values)
                if made.name not in known:
                    found[made.name] = made
    return list(found.values())
