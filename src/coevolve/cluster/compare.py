"""Running a comparison: what is finished is read, what is not is done, and all of it is told.

OUTPUT/ARM/seed-N/        the run of an arm; `untrained` stands beside the arms
OUTPUT/comparison.json    everything that was measured, and the command that did it
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from coevolve.cluster.base import LOG, Cluster
from coevolve.core.errors import UserError
from coevolve.core.names import lookup
from coevolve.core.splits import Split
from coevolve.domains.base import tasks_in
from coevolve.domains.files import SUITE
from coevolve.domains.registry import get_domain
from coevolve.engines.registry import get_engine
from coevolve.evaluation.arms import ArmResult
from coevolve.harness.comparison import Comparison, Job
from coevolve.harness.plan import SMALL
from coevolve.loop.compare import WORK
from coevolve.loop.create import Refuse, check, found_anywhere
from coevolve.loop.run import decided
from coevolve.loop.small import with_small
from coevolve.policies.models import anywhere, check_trainable, weights_of
from coevolve.store.jobs import give, job_of, result_of
from coevolve.store.payload import differences
from coevolve.store.watch import finished_phases

Say = Callable[[str, float | None], None]
"""Takes a line, and how many seconds are left, where that can be said."""


class Outcome(NamedTuple):
    """What a comparison has so far."""

    results: list[ArmResult]
    failures: dict[str, str]
    """Why arms failed, by name."""


def run_comparison(
    comparison: Comparison, output: Path, cluster: Cluster, say: Say, work: str = WORK,
    refuse: Refuse = check_trainable,
) -> Outcome:  # fmt: skip
    """Every arm with every seed; what an earlier command finished is not run again."""
    output = output.resolve()  # work may be done by processes that stand elsewhere
    check_arms(comparison, refuse)
    jobs = {output / job.name: job for job in on_disk(comparison.jobs(), output.parent, say)}
    results = {folder: found for folder, job in jobs.items() if (found := begun(folder, job))}
    waiting = [folder for folder in jobs if folder not in results]
    if results:
        say(f"{len(results)} of {len(jobs)} were finished before", None)
    for folder in waiting:
        give(folder, jobs[folder])
    progress, failures = Progress({folder: jobs[folder] for folder in waiting}, say), {}
    with closing(cluster.run(work, waiting, progress.look)) as ended:
        for folder, failure in ended:
            job, found = jobs[folder], None if failure else result_of(folder, ArmResult)
            if found is None:
                failures[job.name] = failure or "it left no result"
                progress.end(folder, f"failed: {failures[job.name]} (see {folder / LOG})")
            else:
                results[folder] = found
                rate = sum(found.valid) / len(found.valid)
                progress.end(folder, f"finished, {rate:.1%} valid of {len(found.valid)}")
    return Outcome([results[folder] for folder in jobs if folder in results], failures)


def check_arms(comparison: Comparison, refuse: Refuse = check_trainable) -> None:
    """Refuse what no arm can go by, before anything is begun."""
    for job in comparison.jobs():
        domain = check(job.plan, refuse)
        there, target = tasks_in(domain, Split.DEV), job.plan.target
        left = None if there is None or target.tasks else max(there - target.dev, 0)
        if left is not None and not comparison.final and left < comparison.tasks:
            raise UserError(
                f"tasks = {comparison.tasks}: {domain.name} has {there} dev tasks, {target.dev} of "
                f"which engineers see (target.dev), so that {left} are left to compare arms on; "
                "lower `tasks` or target.dev, or name other tasks (`final`)"
            )
    suite = comparison.final.removeprefix(SUITE)
    if suite != comparison.final:
        lookup("suite", suite, domain.suites)
    elif suite and not Path(suite).is_file():
        raise UserError(f"final = {suite!r} is not a file; name one, or suite:NAME")


def on_disk(jobs: list[Job], runs: Path, say: Say) -> list[Job]:
    """The same jobs with models that other machines and folders find too, and what is in the one
    that they begin with. A small policy is made beside the comparison, once for all arms."""
    plan, final = jobs[0].plan, jobs[0].final
    domain = get_domain(plan.domain)
    if plan.policy == SMALL:
        engine = get_engine(plan.engine)
        plan = with_small(plan, domain, runs, engine, None, lambda line: say(line, None))
    policy = anywhere(plan.policy)
    weights = weights_of(policy) if Path(policy).is_absolute() else ""
    if final and not final.startswith(SUITE):
        final = str(Path(final).resolve())
    shared = {"weights": weights, "final": final}
    return [
        job.model_copy(update={"plan": decided(found_anywhere(own, domain)), **shared})
        for job in jobs
        for own in [job.plan.model_copy(update={"policy": policy})]
    ]


def begun(folder: Path, job: Job) -> ArmResult | None:
    """The result of an arm, if it is finished; an error if the folder is another arm's."""
    found = job_of(folder, Job)
    if found is None:
        return None
    wanted = Job.model_validate_json(job.model_dump_json())  # numbers as they come from a file
    old, new = (one.model_dump(mode="json") for one in (found, wanted))
    if other := differences(old, new):
        raise UserError(
            f"{folder} holds another arm: {'; '.join(other)}; name a new --output, or repeat the "
            "command that began it"
        )
    return result_of(folder, ArmResult)


class Progress:
    """A line for every phase that ends, by what is in the folders."""

    def __init__(self, jobs: dict[Path, Job], say: Say) -> None:
        self.jobs, self.say = jobs, say
        self.known: dict[Path, set[Path]] = {folder: set() for folder in jobs}
        self.ahead = {folder: Counter(job.phases) for folder, job in jobs.items()}
        self.seconds: dict[str, list[float]] = {}
        for folder in jobs:
            for _, phase, _ in finished_phases(folder, self.known[folder]):
                self.ahead[folder][phase] -= 1  # by an earlier command
        self.began = time.monotonic()

    def look(self) -> None:
        """Tell what was finished since the last look."""
        for folder in self.ahead:
            self.look_at(folder)

    def look_at(self, folder: Path) -> None:
        name = self.jobs[folder].name
        for place, phase, seconds in finished_phases(folder, self.known[folder]):
            self.ahead[folder][phase] -= 1
            self.seconds.setdefault(phase, []).append(seconds)
            self.say(f"{name}: {place}, {phase}, {seconds:.1f} s", self.left())

    def end(self, folder: Path, words: str) -> None:
        self.look_at(folder)
        del self.ahead[folder]
        self.say(f"{self.jobs[folder].name}: {words}", self.left())

    def left(self) -> float | None:
        """Seconds, by how long each phase took so far; None before a training was seen."""
        if "train" not in self.seconds:
            return None
        ahead = sum(
            max(0, count) * self.usual(phase)
            for counts in self.ahead.values()
            for phase, count in counts.items()
        )
        passed = sum(map(sum, self.seconds.values()))
        return ahead * (time.monotonic() - self.began) / passed

    def usual(self, phase: str) -> float:
        """Mean seconds of a phase; the last measurement takes about as long as the gate's."""
        seen = self.seconds.get(phase) or self.seconds.get("gate") or [0.0]
        return sum(seen) / len(seen)
