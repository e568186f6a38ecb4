"""The beginning of a lineage: the first policy measured, the first version trained and decided on.

Where better is asked for, that version is trained and measured again: what sets trainings apart
that differ by their seed alone is noise, which later versions have to exceed.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

from coevolve.core.errors import UserError
from coevolve.core.names import typed
from coevolve.core.rollout import Rollout, StopReason
from coevolve.core.splits import Split
from coevolve.diagnostics.grown import begin_grown
from coevolve.domains import capture
from coevolve.domains.base import Domain, tasks_in
from coevolve.domains.change import start_words
from coevolve.engineers.library import SkillLibrary
from coevolve.engines.stage import CUT
from coevolve.evaluation.difference import shift
from coevolve.evaluation.gate import change_of, margin
from coevolve.evaluation.spread import spread_of
from coevolve.harness.budget import Spent
from coevolve.harness.plan import Plan
from coevolve.harness.version import Version
from coevolve.loop.decide import decide
from coevolve.loop.measure import in_clean_room, on_gate, spent_on
from coevolve.loop.run import Run, first_harness
from coevolve.loop.supervise import check_budget
from coevolve.loop.train import Done, code_hash, grow, job, train
from coevolve.policies.models import weights_of
from coevolve.store.jobs import result_of
from coevolve.store.paths import RUN, version_place
from coevolve.store.phases import Begin, Noise

SHOWN = 120
"""Characters of an answer that is shown."""


def begin(run: Run) -> None:
    """The first policy, the first version, and the noise between trainings."""
    hold_to_weights(run)
    fresh = not run.is_recorded(RUN, "base")
    target, harness = run.plan.target, first_harness(run.plan, run.gauge)
    if fresh:
        knobs = run.gauge.domain.space.project(harness.knobs)
        run.say(f"training begins with these tasks: {start_words(knobs)}")
        answers = "one answer" if target.samples == 1 else f"{target.samples} answers"
        tasks = min(target.gate, tasks_in(run.gauge.domain, Split.GATE) or target.gate)
        run.say(f"measuring the untrained policy on {tasks} tasks, {answers} each")
    base = run.phase(RUN, "base", lambda: on_gate(run.gauge, run.plan.policy, run.paths.base_gate))
    if fresh:
        run.say(f"untrained: {base.valid} of {base.n} attempts at held-out tasks are valid")
        if base.n < target.gate * target.samples:
            tasks = base.n // target.samples
            run.say(
                f"the gate has {tasks} tasks: there are no more different ones of {target.gate}"
            )
        for words in doubts(run.gate(None), run.plan, run.gauge.domain):
            run.say(f"beware: {words}")
    if run.plan.target.clean and run.gauge.clean:
        work = partial(in_clean_room, run.gauge, run.plan.policy, run.paths.clean(None))
        run.phase(RUN, "clean", work)
    check_budget(run, version_place(0), "version", "train")
    first = Version(number=0, parent=None, harness=harness)
    first = grow(run, first)
    asks_better = run.plan.accept == "better"
    count = run.plan.gate.twins if asks_better else 0
    twins = {run.paths.twin(number): job(run, first, number) for number in range(1, count + 1)}
    train(run, [first], twins)
    if asks_better:
        run.say(run.phase(RUN, "noise", lambda: noise(run, list(twins))).words)
    decide(run, [first])


def doubts(rollouts: Sequence[Rollout], plan: Plan, domain: Domain) -> Iterator[str]:
    """Why training may come to nothing, by the answers of the untrained policy, and what to do."""
    failures = Counter(one.outcome.failure for one in rollouts if one.outcome.failure)
    cut = sum(one.stop is StopReason.LENGTH for one in rollouts)
    if rollouts and cut >= CUT * len(rollouts):
        yield (
            f"{cut} of {len(rollouts)} answers are cut off after {plan.target.max_tokens} tokens; "
            "raise target.max_tokens and recipe.max_tokens"
        )
    if any(one.outcome.valid for one in rollouts) or not failures:
        return
    ((worst, count),) = failures.most_common(1)
    meaning = capture.meaning(domain, worst)
    first = next(one for one in rollouts if one.outcome.failure == worst)
    yield (
        f"no answer is valid; {count} of {len(rollouts)} fail by {worst}"
        f"{f' ({meaning})' if meaning else ''}, such as {first.messages[-1].content[:SHOWN]!r}"
    )
    warm = typed("train", "warm", "-p", plan.policy, "-d", plan.domain)
    yield (
        "where nothing succeeds, nothing is learned by trial: show the policy solved tasks first "
        f"({warm}), ask it in another style (`style`), take a stronger one, or easier tasks "
        "(`target.knobs`, `knobs`)"
    )


def hold_to_weights(run: Run) -> None:
    """Refuse to go on from other weights than the run began with; say so where the code is
    another. The skills that a run begins with are its own copy, so that what others learn
    meanwhile does not disturb it."""
    weights = weights_of(run.plan.policy)

    def work() -> Begin:
        library = run.plan.skills or run.paths.library
        if library.exists() and not library.is_dir():
            raise UserError(f"{library} is not a folder; skills are kept as files in one")
        found = SkillLibrary(library).copied(run.paths.skills)
        begin_grown(run.paths.grown, run.paths.diagnostics)
        return Begin(code=code_hash(), weights=weights, skills=tuple(sorted(found.skills)))

    begun = run.phase(RUN, "begin", work)
    if begun.weights != weights:
        raise UserError(
            f"the weights of {run.plan.policy} are not those that this run began with; put them "
            "back, or begin another run"
        )
    if begun.code != code_hash():
        run.say("the code has changed since this run was begun: versions may differ by that, too")


def noise(run: Run, twins: Sequence[Path]) -> Noise:
    """What repeating the first version changes. Greedy answers are the same every time: they are
    not drawn again."""
    began, gate, plan = time.monotonic(), run.gauge.gate, run.plan
    draws = range(1, plan.gate.repeats + 1) if plan.target.temperature else ()
    repeated = [repeat(run, draw) for draw in draws]
    spent = [spent_on([one for rollouts in repeated for one in rollouts], began)]
    trained, training = [], list[Spent]()
    for folder in twins:
        twin = result_of(folder, Done)
        assert twin is not None
        spent += [twin.train.spent, twin.dev.spent, twin.gate.spent]
        training.append(twin.train.spent)
        trained.append(run.gauge.measure(twin.train.result.policy, gate, folder / "gate"))
    found = noise_of(run.gate(0), repeated, trained, plan.seed, plan.objective.metric)
    update = {"spent": sum(spent, Spent()), "trained": tuple(training)}
    return found.model_copy(update=update)


def noise_of(
    first: Sequence[Rollout],
    repeats: Sequence[Sequence[Rollout]],
    twins: Sequence[Sequence[Rollout]],
    seed: int,
    metric: str = "valid",
) -> Noise:
    """What repeated evaluations, and repeated trainings, of the first version differ by."""
    repeated = tuple(change_of(first, again, seed, metric) for again in repeats)
    trained = tuple(change_of(first, again, seed, metric) for again in twins)
    among = tuple(change_of(one, other, seed, metric) for one, other in combinations(twins, 2))
    spread = spread_of((*trained, *among))
    told, same = (
        ", ".join(shift(one.mean, metric) for one in many) for many in (trained, repeated)
    )
    words = (
        f"training again with another seed changes {metric} by {told or 'none'}: taken for a "
        f"spread of {margin(spread.value, metric)} (evaluated again: {same or 'the same'})"
    )
    return Noise(spread=spread.value, words=words, repeats=repeated, twins=trained, among=among)


def repeat(run: Run, draw: int) -> list[Rollout]:
    """The first version on the gate tasks again, with other draws."""
    place = run.paths.noise(f"{draw:02d}")
    return run.gauge.measure(run.lineage.policy(0), run.gauge.gate, place, draw)
