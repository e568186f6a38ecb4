"""Training versions: each is a job in its own folder, done here or anywhere else.

    versions/NN/job.json     what is to be done
    versions/NN/stage, dev, gate
    versions/NN/result.json  what came of it
    branches/NN-NAME/        the same of a branch: the first steps of a version that may come

Invariant: all versions of a run draw equally many rollouts in training, and what a version becomes
follows from its job alone.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import coevolve
from coevolve.core.rollout import Value
from coevolve.core.seeds import derive, digest
from coevolve.core.splits import Split
from coevolve.core.task import Task
from coevolve.domains.base import Domain
from coevolve.domains.change import version_words
from coevolve.engineering.lessons import with_lessons
from coevolve.engines.base import Engine, Observe, Stage
from coevolve.engines.registry import get_engine
from coevolve.harness.budget import Spent
from coevolve.harness.harness import Harness
from coevolve.harness.plan import Plan
from coevolve.harness.recipe import Recipe
from coevolve.harness.version import Version
from coevolve.loop.measure import on_dev, on_gate
from coevolve.loop.run import Run
from coevolve.policies.models import weights_of
from coevolve.policies.vllm import end_servers
from coevolve.store.gauge import Gauge, gauge_of
from coevolve.store.jobs import RESULT, Work, finish, give, job_of, result_of
from coevolve.store.lineage import lineage_of
from coevolve.store.paths import Paths, version_place
from coevolve.store.phases import Dev, Grown, Scores, Train
from coevolve.store.stages import stage_cells

CODE = (".py", ".toml")
WORK = "coevolve.loop.train:train_version"  # for a cluster
NOTHING = Spent()


class Job(Value):
    """Everything that a version follows from."""

    number: int
    plan: Plan
    harness: Harness
    policy: str
    """What training starts from, as it is recorded."""
    seed: int
    paid: Spent = NOTHING
    """What its part of the probes has drawn of its training."""
    branch: bool = False
    """Only a few steps, that are not measured."""

    @property
    def recipe(self) -> Recipe:
        found = equal(self.plan, self.harness.recipe, self.paid)
        first = self.plan.first_steps if self.number == 0 else 0
        most = self.plan.backtest.steps if self.branch else first or found.steps
        return found.model_copy(update={"steps": min(found.steps, most)})


class Branched(Value):
    """What came of a branch."""

    train: Train


class Done(Branched):
    """What came of a version."""

    dev: Dev
    gate: Scores


def train(run: Run, versions: Sequence[Version], twins: Mapping[Path, Job] | None = None) -> None:
    """All new versions, side by side where there is a cluster, and measured."""
    jobs = {run.paths.version(one.number): job(run, one) for one in versions} | dict(twins or {})

    def trained(number: int) -> Train:
        version, space = run.lineage.versions[number], run.gauge.domain.space
        words = version_words(version, run.lineage.harness(version.parent), space)
        what = f"{version.author} changed: {words}" if version.patch else words
        run.say(f"version {number}: training; {what}{shortened(jobs[run.paths.version(number)])}")
        if twins:
            run.say(f"and again from other seeds, to see what chance does: {len(twins)} times")
        do(run.work, jobs)
        return done(run, number).train

    for one in versions:
        place = version_place(one.number)
        run.phase(place, "train", lambda one=one: trained(one.number))  # type: ignore[misc]
        run.phase(place, "dev", lambda one=one: done(run, one.number).dev)  # type: ignore[misc]


def shortened(job: Job) -> str:
    """How much training trying changes has cost a version, in words."""
    whole, left = equal(job.plan, job.harness.recipe, NOTHING).steps, job.recipe.steps
    if left >= whole or not job.paid.rollouts or not job.number:
        return ""
    return f"; {left} of {whole} steps: {job.paid.rollouts:,} rollouts went to trying changes"


@cache
def code_hash() -> str:
    """Of everything in the package that decides something."""
    folder = Path(coevolve.__file__).parent
    files = sorted(path for path in folder.rglob("*") if path.suffix in CODE)
    parts = [part for file in files for part in (str(file.relative_to(folder)), file.read_bytes())]
    return digest(*parts).hex()


def grow(run: Run, version: Version) -> Version:
    """Record a version before it is trained."""
    place = version_place(version.number)
    run.phase(place, "version", lambda: Grown(version=version, code=code_hash()))
    return run.lineage.versions[version.number]


def done(run: Run, number: int) -> Done:
    found = result_of(run.paths.version(number), Done)
    assert found is not None
    return found


def job(run: Run, version: Version, twin: int = 0) -> Job:
    """What is to be done for a version; a twin of it differs by its seed."""
    start = version.parent if run.plan.start_from == "parent" else None
    own = branch_of(run, version)
    return Job(
        number=version.number,
        plan=run.plan,
        harness=version.harness,
        policy=own.result.policy if own else run.lineage.policy(start),
        seed=seed_of(run.plan, version.generation, twin),
        paid=paid(run, version, own),
    )


def branch(run: Run, generation: int, parent: int | None, harness: Harness) -> tuple[Path, Train]:
    """The first steps under a harness, from a parent, and where they are kept."""
    folder = run.paths.branch(generation, harness.digest())
    seed = derive(seed_of(run.plan, generation), "branch")
    own = Job(
        number=parent or 0, plan=run.plan, harness=harness, policy=run.lineage.policy(parent),
        seed=seed, branch=True,
    )  # fmt: skip
    do(run.work, {folder: own})
    found = result_of(folder, Branched)
    assert found
    return folder, found.train


def branch_of(run: Run, version: Version) -> Train | None:
    """The branch that a version goes on from, if its harness was tested with one."""
    folder = run.paths.branch(version.generation, version.harness.digest())
    found = result_of(folder, Branched) if version.generation else None
    return found.train if found else None


def paid(run: Run, version: Version, own: Train | None) -> Spent:
    """What was drawn before a version begins: by its own branch, or its part of all that the probes
    of its generation have drawn, where that counts."""
    if not run.plan.pay_probes or version.generation >= len(run.lineage.generations):
        return own.spent.model_copy(update={"seconds": 0.0}) if own else NOTHING
    spent = run.lineage.generations[version.generation].probed
    among = sum(one.generation == version.generation for one in run.lineage.versions)
    return Spent(rollouts=spent.rollouts // among, tokens=spent.tokens // among)


def seed_of(plan: Plan, generation: int, twin: int = 0) -> int:
    """What the training of a generation is drawn from. Versions that begin with the same policy
    share a seed, so that they differ by their patch; twins differ by their seed."""
    if twin:
        return derive(plan.seed, "version", twin)
    if plan.start_from == "parent":
        return derive(plan.seed, "round", generation)
    again = plan.control and generation > 0  # parent and patch are both trained anew
    return derive(plan.seed, *(("generation", generation) if again else ("version",)))


def do(work: Work, jobs: Mapping[Path, Job]) -> None:
    """Have jobs done; those that are, are left alone."""
    waiting = [folder for folder in jobs if not (folder / RESULT).exists()]
    for folder in waiting:
        give(folder, jobs[folder])
    if waiting:
        work(waiting)


def retrain(run: Run) -> list[int]:
    """Train again every version whose checkpoint is gone, in order; what was measured stays."""
    lineage, found = lineage_of(run.ledger), list[int]()
    for node in lineage.nodes:
        folder, there = run.paths.version(node.number), Path(run.paths.find(node.policy)).exists()
        spoiled = run.ledger.clear(folder) if node.train else []
        if not node.train or (there and not spoiled):
            continue
        run.say(f"version {node.number}: its checkpoint or evidence is lost; making it again")
        whole = there and not any(path.is_relative_to(folder / "stage") for path in spoiled)
        begun = Path(run.paths.find(given.policy if (given := job_of(folder, Job)) else ""))
        lost = not begun.exists() and begun.is_relative_to(run.paths.branches)
        for place in (begun.parents[1], folder) if lost else (folder,):
            if not whole:
                shutil.rmtree(place / "stage", ignore_errors=True)
            (place / RESULT).unlink(missing_ok=True)
            run.work([place])
            run.ledger.seal(again=place)
        found.append(node.number)
        again = weights_of(run.paths.find(node.policy))
        if again != node.train.weights:
            run.say(f"version {node.number}: its weights are not those of the first time")
    return found


def train_version(folder: Path) -> None:
    """Do the job of a folder, with the engine that its plan names."""
    found = job_of(folder, Job)
    assert found is not None
    do_job(folder, get_engine(found.plan.engine), None, None)


def one_by_one(engine: Engine, gauge: Gauge, observe: Observe | None) -> Work:
    """In this process, one version after the other."""

    def work(folders: Sequence[Path]) -> None:
        for folder in folders:
            do_job(folder, engine, gauge, observe)

    return work


def do_job(folder: Path, engine: Engine, gauge: Gauge | None, observe: Observe | None) -> None:
    """Do what is left of the job of a folder."""
    if (folder / RESULT).exists():
        return
    found = job_of(folder, Job)
    assert found is not None
    paths = Paths(folder.parents[1])
    gauge = gauge or gauge_of(found.plan, paths)
    train = train_stage(engine, gauge.domain, found, folder / "stage", paths, observe)
    if found.branch:
        finish(folder, Branched(train=train))
        return
    policy = train.result.policy
    dev = on_dev(gauge, policy, folder / "dev", found.number)
    finish(folder, Done(train=train, dev=dev, gate=on_gate(gauge, policy, folder / "gate")))


def train_stage(
    engine: Engine, domain: Domain, job: Job, folder: Path, paths: Paths, observe: Observe | None
) -> Train:
    """Generate the tasks of a version and train on them.

    Lessons in engineering among them are trained on, but are no evidence about the domain.
    """
    began, plan = time.monotonic(), job.plan
    recipe = job.recipe
    own = own_tasks(domain, job.harness.knobs, recipe, job.seed, plan.lessons)
    tasks = with_lessons(own, recipe.distinct, derive(job.seed, "tasks"))
    stage = Stage(
        kind="grpo", model=paths.need(job.policy), recipe=recipe, reward=job.harness.reward,
        filters=job.harness.filters, wording={domain.name: job.harness.wording}, style=plan.style,
        processes=plan.all_processes, cluster=plan.cluster, sharding=plan.sharding,
        limits=plan.watch, seed=job.seed, folder=folder, root=paths.folder,
    )  # fmt: skip
    if plan.generator == "vllm":
        end_servers()  # training needs their memory
    found = engine.train(stage, tasks, observe)
    spent = Spent(rollouts=found.rollouts, tokens=found.tokens, seconds=time.monotonic() - began)
    return Train(
        result=found.model_copy(update={"policy": paths.name(found.policy)}),
        weights=weights_of(found.policy),
        cells=tuple(stage_cells(folder, own)),
        spent=spent,
    )


def equal(plan: Plan, recipe: Recipe, paid: Spent = NOTHING) -> Recipe:
    """A recipe that draws what the first version draws, at most, less what was paid before: as many
    rollouts, or tokens where those are limited."""
    each, tokens = recipe.tasks * recipe.group, plan.recipe.tokens
    if tokens:
        left = max(1, tokens - paid.tokens)
        return recipe.model_copy(update={"steps": max(1, plan.rollouts // each), "tokens": left})
    steps = max(1, (plan.rollouts - paid.rollouts) // each)
    return recipe.model_copy(update={"steps": steps})


def own_tasks(
    domain: Domain, knobs: Mapping[str, float], recipe: Recipe, seed: int, lessons: float = 0.0
) -> list[Task]:
    """What a stage with this seed trains on, but for lessons; a `KnobError` if that cannot be."""
    count, workers = recipe.distinct, os.cpu_count() or 1
    wanted, drawn = count - round(lessons * count), derive(seed, "tasks")
    return list(domain.generate(domain.space.parse(knobs), wanted, drawn, Split.TRAIN, workers))
