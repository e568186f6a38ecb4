"""The loop. Both papers are settings of it, and a reader should recognise either one here.

    begin                the first policy measured, the first version trained and decided on
    for every generation:
        diagnose         every diagnostic over train and dev rollouts
        propose          engineers look at the lineage; a person may send proposals back
        backtest         on stored rollouts and probes; what is refused stays in the record
        train, measure   the patched harness, and its control, side by side
        decide           kept, pruned or reverted, on tasks that no engineer sees
        learn            skills and diagnostics

Paper 1, the environment engineer: knobs are the only factor, training goes on from the parent, and
a version is kept if it is no worse. Paper 2, EvoTrainer: any factor, every version begins with the
first policy, and is kept if it is better. Where nothing passes its backtest and training goes on
from the parent, the next version trains under the same harness.

Every phase is recorded in the ledger before the next begins, and reads only what is recorded: a run
that is killed anywhere and resumed takes the same decisions.
"""

from coevolve.core.names import typed
from coevolve.evaluation.gate import margin
from coevolve.loop.backtest import backtest, foretold, merge
from coevolve.loop.begin import begin
from coevolve.loop.decide import decide
from coevolve.loop.learn import learn
from coevolve.loop.measure import on_gate
from coevolve.loop.propose import diagnose, propose
from coevolve.loop.run import Run
from coevolve.loop.supervise import Stopped, check_budget
from coevolve.loop.train import train
from coevolve.store.lineage import Lineage, Node
from coevolve.store.paths import generation_place
from coevolve.store.phases import Best, Check

CHECK_AFTER, ROLL_BACK_AFTER = 3, 6
"""Failures in a row after which the measurement is checked, and an older version is grown from."""
MOST_VAIN = 3
"""Generations in a row without anything to train, after which the run waits for better days."""


def run_loop(run: Run) -> Lineage:
    """All versions, from wherever the ledger says that the run is."""
    with run.ledger.writing():
        try:
            begin(run)
            while run.lineage.open:
                generation = run.lineage.next_generation
                check_budget(run, generation_place(generation), "check", "diagnose", "learn")
                if run.vain == MOST_VAIN:
                    raise Stopped(
                        f"nobody proposed anything that can be tried, {MOST_VAIN} times in a row; "
                        f"`{typed('resume', run.ledger.folder)}` asks again"
                    )
                next_generation(run, generation)
            end(run, "done")
        except Stopped as stop:
            run.say(f"stopped: {stop}")
            end(run, "stopped", reason=str(stop))
    return run.lineage


def next_generation(run: Run, generation: int) -> None:
    """Grow whatever comes next, and decide on it."""
    versions = merge(run, generation)
    if not versions:
        parent = parent_of_next(run, generation)
        found = diagnose(run, generation, parent)
        designs, refused = propose(run, generation, found, foretold(run, generation, parent))
        versions = backtest(run, generation, parent, designs, refused)
    train(run, versions)
    decide(run, versions)
    learn(run, generation, versions)


def parent_of_next(run: Run, generation: int) -> int | None:
    """The front version; after many failures the one that it grew from."""
    front, failures = run.lineage.front, run.lineage.failures
    drawn = run.plan.accept == "better" and run.plan.target.temperature > 0
    if front and failures == CHECK_AFTER and drawn:
        check_measurement(run, generation, front)
    elif (doubted := wished(run)) and drawn:
        check_measurement(run, generation, doubted)
    older = front.version.parent if front else None
    if older is not None and failures >= ROLL_BACK_AFTER:
        run.say(f"generation {generation}: rolled back to version {older}, to branch again")
        return older
    return front.number if front else None


def wished(run: Run) -> Node | None:
    """A version that an engineer wants to have measured again, if it was not yet."""
    numbers = (one.measure for _, one in run.lineage.wishes if one.measure is not None)
    judged = (run.lineage.nodes[one] for one in numbers if one < len(run.lineage.nodes))
    return next((one for one in judged if one.gate and not run.lineage.checked(one.number)), None)


def check_measurement(run: Run, generation: int, node: Node) -> None:
    """Measure a version again, with other draws: it may have been lucky."""

    def work() -> Check:
        draw = run.plan.gate.repeats + 1 + generation
        place = run.paths.noise(f"check-{draw:02d}")
        scores = on_gate(run.gauge, node.policy, place, draw)
        rate, before = scores.mean(run.plan.objective.metric), run.lineage.score(node)
        return Check(version=node.number, draw=draw, rate=rate, before=before, spent=scores.spent)

    found = run.phase(generation_place(generation), "check", work)
    off = margin(found.apart, run.plan.objective.metric)
    run.say(
        f"version {node.number}, measured again, is {off} off; later versions are "
        "compared with that"
    )


def end(run: Run, how: str, **facts: str) -> None:
    """Record the end of the run, once."""
    best = run.lineage.best or Best(version=None, words="nothing was trained")
    policy = run.lineage.policy(best.version)
    if run.ledger.last().kind != how:
        run.ledger.note(how, policy=policy, version=best.version, words=best.words, **facts)
