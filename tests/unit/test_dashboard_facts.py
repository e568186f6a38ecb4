"""The facts of a report: every number equals what the rollouts and the ledger say by themselves."""

import shutil
from pathlib import Path

import pytest
from pretended import STEPS, TREE, Listed, make_run, metrics, temperature
from pyarrow import parquet
from test_gate import attempt

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, Rollout
from coevolve.core.splits import Split
from coevolve.dashboard.boards import boards_of
from coevolve.dashboard.curves import curves_of, mean
from coevolve.dashboard.durations import gaps
from coevolve.dashboard.facts import Facts, facts_of
from coevolve.dashboard.knobs import knobs_of
from coevolve.dashboard.numbers import setting, wished
from coevolve.dashboard.record import Record, read_record
from coevolve.dashboard.tasks import held_out
from coevolve.evaluation.difference import paired
from coevolve.harness.budget import Spent
from coevolve.harness.plan import Plan
from coevolve.harness.proposal import Proposal
from coevolve.loop.loop import run_loop
from coevolve.store import approval
from coevolve.store.cells import Cell
from coevolve.store.events import Event
from coevolve.store.gauge import Gauge
from coevolve.store.ledger import Ledger
from coevolve.store.lineage import Lineage, lineage_of
from coevolve.store.payload import LARGE
from coevolve.store.phases import Dev, Propose
from coevolve.store.spent import spent_so_far


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run: better, then worse and reverted, then the same again. The engineer's knobs
    are taken, since there is no backtest to refuse them."""
    folder = tmp_path_factory.mktemp("runs") / "made"
    run = make_run(folder)
    run_loop(run)
    run.ledger.close()
    return folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in which every version begins again: one is better, two are worse."""
    folder = tmp_path_factory.mktemp("runs") / "tree"
    patches = [temperature(0.9), temperature(0.8), temperature(0.7)]
    run = make_run(folder, Listed(*patches), **{**TREE, "width": 2})
    run_loop(run)
    run.ledger.close()
    return folder


@pytest.fixture(scope="module")
def facts(made: Path) -> Facts:
    return facts_of(made)


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A run to damage."""
    return Path(shutil.copytree(made, tmp_path / "copied"))


def attempts(folder: Path, metric: str) -> dict[str, bool]:
    """Task by task, straight from the files."""
    rows = [row for path in sorted(folder.glob("*.parquet")) for row in parquet.read_table(
        path, columns=["task_id", metric]).to_pylist()]  # fmt: skip
    return {row["task_id"]: row[metric] for row in rows}


def valid(folder: Path) -> dict[str, bool]:
    return attempts(folder, "valid")


def test_the_headline_is_what_the_rollouts_say(made: Path, facts: Facts) -> None:
    base, final = valid(made / "base" / "gate"), valid(made / "versions" / "02" / "gate")
    head = facts.headline
    assert (head.base.successes, head.base.n) == (sum(base.values()), 60)
    assert (head.final.successes, head.final.n) == (sum(final.values()), 60)
    change = head.standing.change
    expected = paired([float(base[task]) for task in base], [float(final[task]) for task in base])
    assert (change.mean, change.n, change.p) == (expected.mean, 60, expected.p)
    assert change.low <= expected.low  # it allows for the choice among three versions
    assert change.high >= expected.high
    with Ledger.open(made) as ledger:
        assert change == lineage_of(ledger).nodes[2].gate.base.change
    assert head.answers.learned.answer == "yes"
    assert f"n {change.n}" in head.answers.learned.sentence
    assert (head.kept, head.judged, head.planned, head.standing.version) == (2, 3, 3, 2)
    assert head.policy == "run:versions/02/stage/policy"
    with Ledger.open(made) as ledger:
        rollouts = spent_so_far(ledger).rollouts
    assert rollouts >= 60 + 3 * (32 + 60)
    limited = {name: (used, limit) for name, (used, limit) in head.spent.items() if limit}
    assert limited == {"rollouts": (rollouts, 10_000)}


def test_whether_engineers_helped_is_told_apart_from_training(facts: Facts, tree: Path) -> None:
    helped = facts.headline.answers.helped
    assert helped.answer == "unclear"  # the gain came before anybody proposed anything
    assert helped.before.versions == 2  # the first, and the change that was taken back
    assert helped.before.total.mean == pytest.approx(0.4)
    assert helped.after.each == helped.after.total  # one version
    assert helped.after.total.mean == 0
    assert helped.counts == {"made": 4, "unusable": 2, "refused": 0, "passed over": 0,
                             "trained": 2, "kept": 1}  # fmt: skip
    assert helped.proposals == "4 proposals: 2 trained (1 of them kept), 2 unusable"
    assert helped.unlisted == 4 - len(helped.trials)
    assert [(one.version, one.verdict) for one in helped.trials] == [(1, "reverted"), (2, "kept")]
    assert "more cells that are holes on 3x3 boards" in helped.trials[0].changed
    helped = facts_of(tree).headline.answers.helped
    assert helped.answer == "yes"  # against what trained as long
    assert (helped.before, helped.after) == (None, None)
    assert [one.verdict for one in helped.trials if one.version == 1] == ["kept"]
    assert helped.trials[0].changed == "temperature 1 → 0.9"


def test_valid_and_optimal_are_told_side_by_side(made: Path, facts: Facts) -> None:
    learned = facts.headline.answers.learned
    assert [one.metric for one in learned.metrics] == ["valid", "optimal"]
    for one in learned.metrics:
        before, after = (
            attempts(made / place, one.metric) for place in ("base/gate", "versions/02/gate")
        )
        assert (one.before.successes, one.after.successes) == (
            sum(before.values()), sum(after.values()),
        )  # fmt: skip
        difference = paired(
            [float(before[task]) for task in before], [float(after[task]) for task in before]
        )
        assert one.change.mean == pytest.approx(difference.mean)
    assert [one.optimal.n for one in facts.versions] == [60, 60, 60]


def test_boards_are_those_that_failed_and_now_succeed(made: Path, facts: Facts) -> None:
    base, final = valid(made / "base" / "gate"), valid(made / "versions" / "02" / "gate")
    fixed = {task for task in base if not base[task] and final[task]}
    lost = {task for task in base if base[task] and not final[task]}
    boards = facts.boards
    assert (boards.fixed.successes, boards.fixed.n) == (len(fixed), 60 - sum(base.values()))
    assert (boards.lost.successes, boards.lost.n) == (len(lost), sum(base.values()))
    assert 0 < len(boards.pairs) <= 6
    assert {pair.task_id for pair in boards.pairs} <= fixed
    for pair in boards.pairs:
        assert "animate" in pair.after.svg
        assert 'class="violation"' in pair.before.svg
        assert 'class="violation"' not in pair.after.svg


def test_versions_say_what_the_ledger_says(made: Path, facts: Facts) -> None:
    assert [one.verdict for one in facts.versions] == ["kept", "reverted", "kept"]
    assert [one.version.parent for one in facts.versions] == [None, 0, 0]
    for one in facts.versions:
        rates = valid(made / "versions" / f"{one.number:02d}" / "gate")
        assert (one.gate.successes, one.gate.n) == (sum(rates.values()), len(rates))
        dev = valid(made / "versions" / f"{one.number:02d}" / "dev")
        assert (one.dev.successes, one.dev.n) == (sum(dev.values()), len(dev))
        table = one.evidence[0]
        assert sum(total[1] for _, _, total in table.rows) == one.dev.n
        cells = [pair for _, counts, _ in table.rows for pair in counts if pair]
        assert (sum(c[0] for c in cells), sum(c[1] for c in cells)) == one.dev[:2]
        assert sum(n for _, n in table.failures) == one.dev.n - one.dev.successes
        assert not one.missing
    first = facts.versions[0].evidence[0]
    assert (first.down, first.across) == ("size × holes", "agents × wait")


def test_what_a_version_changed_is_told_and_nothing_else(facts: Facts, tree: Path) -> None:
    assert [one.label for one in facts.versions] == ["the start", "knobs", "knobs"]
    assert [one.name for one in facts.versions[1].knobs] == ["size3.hole_ratio", "size4.hole_ratio"]
    assert (
        facts.versions[1].knobs[0].words == "more cells that are holes on 3x3 boards (20 % → 28 %)"
    )
    assert facts.versions[1].diffs == ()
    assert facts.versions[0].knobs == ()
    grown = facts_of(tree).versions
    assert [one.changed for one in grown[1:3]] == ["temperature 1 → 0.9", "temperature 1 → 0.8"]
    assert [line.text for line in grown[1].diffs[0][1][1:]] == ["-1.0", "+0.9"]
    assert [one.against for one in grown] == [
        "the first policy", "version 0", "version 0", "version 1",
    ]  # fmt: skip
    assert grown[1].backtest.passed


def test_a_version_that_was_trained_on_changed_nothing(tmp_path: Path) -> None:
    backtest = {"tasks": 8, "samples": 2, "confidence": 1.0}
    run = make_run(tmp_path / "run", backtest=backtest)
    run_loop(run)
    facts = facts_of(tmp_path / "run")
    assert [one.changed for one in facts.versions[1:]] == ["no change: more training"] * 2
    assert [one.knobs for one in facts.versions] == [(), (), ()]
    assert not any(any(one.changed) for f in facts.levels.families for one in f.levels)
    ((tried, version, _),) = facts.generations[0].tried
    assert (version, tried.author) == (None, "saying")
    assert tried.refused.startswith("rejected by its backtest")
    assert facts.generations[0].versions == (1,)


def test_proposals_are_shown_as_they_were_projected(made: Path, facts: Facts) -> None:
    first, second = facts.generations[0].attempts[0].said
    assert first.explanation == "more holes"
    assert second.failure.startswith("had no second idea")
    asked = {one.knob: one for one in first.asked}
    with Ledger.open(made) as ledger:
        before, after = (one.harness.knobs for one in lineage_of(ledger).versions[:2])
    for name in ("size3.hole_ratio", "size4.hole_ratio"):
        assert asked[name].before == before[name]
        assert asked[name].after == pytest.approx(after[name])
        assert float(asked[name].wish) == pytest.approx(before[name] + 0.075)
        assert wished(asked[name].wish, asked[name].unit) == "27.5 %"
    assert wished("many", "share of tasks") == "many"
    assert asked["no.such"].before is None
    ((_, version, _),) = facts.generations[0].tried
    assert version == 1


def test_knobs_are_those_of_the_versions(made: Path, facts: Facts) -> None:
    knobs = knobs_of(read_record(made))
    levels = {one.name: one for family in facts.levels.families for one in family.levels}
    holes = levels["size3.hole_ratio"]
    assert holes.values == [one["size3.hole_ratio"] for one in knobs]
    assert holes.values[0] == 0.2
    assert holes.changed == [False, True, True]  # both grew from the first
    assert holes.trail == [0.2, *holes.values[1:]]
    assert "size20.hole_ratio" not in levels
    assert "path_length.min = 1" in facts.levels.still
    units = {one.title: one.unit for one in facts.levels.families}
    assert setting(holes.values[1], units["hole ratio"]) == "27.5 %"
    assert setting(4, "cells") == "4"


def test_curves_of_training_that_goes_on_are_laid_end_to_end(facts: Facts) -> None:
    curves = facts.curves
    assert not curves.again
    assert curves.total == 3 * STEPS
    assert [one.steps[0] for one in curves.curves] == [1, STEPS + 1, 2 * STEPS + 1]
    reward = curves.curves[1].values["reward"]
    assert reward[1] == pytest.approx(metrics(1, 2)["reward"])
    assert set(curves.curves[0].values["speed"]) == {2000.0}
    assert "32 rollouts per step" in curves.panels[0].of


def test_curves_of_versions_that_begin_again_share_their_steps(tree: Path) -> None:
    curves = curves_of(read_record(tree))
    assert curves.again
    assert [one.version for one in curves.curves] == [0, 1, 2, 3]
    assert {tuple(one.steps) for one in curves.curves} == {tuple(range(1, STEPS + 1))}


def event(number: int, kind: str, at: float, **more: object) -> Event:
    time = f"2026-01-01T00:00:{at:06.3f}+00:00"
    values = {"place": "run", "phase": None, "started": None, "seconds": None, "payload": {},
              **more}  # fmt: skip
    return Event(number=number, kind=kind, time=time, **values)


def test_time_between_phases_waiting_and_broken_off() -> None:
    events = (
        event(1, "created", 0), event(2, "began", 1), event(3, "phase", 5, phase="base"),
        event(4, "warning", 5.5), event(5, "asked", 6), event(6, "answered", 16),
        event(7, "began", 16.5), event(8, "failed", 20), event(9, "began", 30),
        event(10, "phase", 33, phase="train"), event(11, "done", 33.25),
    )  # fmt: skip
    assert gaps(events) == pytest.approx((1 + 1 + 0.25, 10.5, 3.5 + 10))


def test_versions_that_train_together_are_one_part_of_the_time(tree: Path) -> None:
    timing = facts_of(tree).timing
    assert not timing.bound
    with Ledger.open(tree) as ledger:
        seconds = sum(one.seconds for one in ledger.events("phase"))
    assert timing.running_s == pytest.approx(seconds + timing.between_s)
    assert timing.share == pytest.approx(1 - sum(timing.kinds.values()) / timing.running_s)
    parts = {one.where: one for one in timing.parts}
    assert parts["version 0"].phases == ("version", "train", "dev", "noise", "gate")
    assert parts["versions 1 to 2"].phases == ("version", "train", "dev", "gate")
    assert set(parts["versions 1 to 2"].work) == {"generate and train", "evaluate"}


def test_what_a_person_sent_back_is_shown_with_the_note(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", scripts=("greedy", "greedy"), approval=["design"])
    answers = iter([("revise", "fewer, please"), ("approve", "")])

    def answering(line: str) -> None:
        if "waiting" in line:
            with Ledger.open(tmp_path / "run") as ledger:
                approval.answer(ledger, *next(answers))

    run.say = answering
    run_loop(run)
    facts = facts_of(tmp_path / "run")
    assert [attempt.note for attempt in facts.generations[0].attempts] == ["", "fewer, please"]
    assert facts.headline.answers.learned.answer == "unclear"


def test_what_a_model_was_shown_is_shown(tmp_path: Path) -> None:
    said = Proposal(words="so", shown="By size: 3 of 9")
    with make_run(tmp_path / "run").ledger as ledger:
        phase = Propose(proposals={"policy": (said,)})
        ledger.phase("generations/01", "propose", lambda: phase.model_dump(mode="json"))
    (generation,) = facts_of(tmp_path / "run").generations
    (attempt,) = generation.attempts
    assert attempt.context == {"policy": "By size: 3 of 9"}
    assert [said.engineer for said in attempt.said] == ["policy"]


class Broken(Exception):
    """Stands for whatever ends a run."""


def test_an_unfinished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Gauge, *_: object) -> None:
        raise Broken("no more memory")

    monkeypatch.setattr(Gauge, "probe", fail)
    run = make_run(tmp_path / "run", backtest={"tasks": 8, "samples": 2}, explore=0)
    with pytest.raises(Broken):
        run_loop(run)
    facts = facts_of(tmp_path / "run")
    assert (facts.state, facts.reason) == ("failed", "Broken: no more memory")
    assert facts.headline.standing.version == 0
    (generation,) = facts.generations
    assert generation.attempts
    assert (generation.tried, generation.versions) == ((), ())
    assert facts.levels.versions == [0]


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    make_run(tmp_path / "run").ledger.close()
    facts = facts_of(tmp_path / "run")
    assert (facts.headline.answers.learned.answer, facts.versions, facts.boards) == (
        "unknown",
        (),
        None,
    )
    assert facts.headline.standing.line == "no evidence"
    assert facts.timing.share is None


def test_half_a_parquet_file(copied: Path) -> None:
    (part,) = (copied / "versions" / "02" / "gate").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:500])
    facts = facts_of(copied)
    assert facts.headline.answers.learned.answer == "yes"  # the ledger has what it says
    assert facts.boards is None
    assert any("02/gate/part-00000.parquet cannot be read" in text for text in facts.problems)


def test_lost_files(copied: Path) -> None:
    shutil.rmtree(copied / "versions" / "01" / "stage")
    shutil.rmtree(copied / "base")
    facts = facts_of(copied)
    assert facts.headline.base.n == 60  # the ledger has it, too
    said = "\n".join(facts.problems)
    for part in ("base/gate", "checkpoint of version 1", "version 1 has no steps.jsonl"):
        assert part in said
    assert facts.curves.total == 2 * STEPS


def test_metrics_that_are_not_what_was_recorded_are_left_out(copied: Path) -> None:
    steps = copied / "versions" / "00" / "stage" / "steps.jsonl"
    steps.write_text(steps.read_text()[:-30])
    facts = facts_of(copied)
    assert facts.curves.total == 2 * STEPS
    assert any("steps.jsonl" in text and "changed" in text for text in facts.problems)


def test_a_payload_that_was_changed_is_not_used(made: Path, tmp_path: Path) -> None:
    """The rest of the run is shown, and what is lost is named."""
    with make_run(tmp_path / "run").ledger as ledger, Ledger.open(made) as whole:
        for one in whole.events("phase"):
            payload = one.payload
            if (one.place, one.phase) == ("versions/00", "dev"):
                cells = [Cell(labels={"size": n}, n=1, valid=1, optimal=0, reward=1.0)
                         for n in range(LARGE // 90)]  # fmt: skip
                payload = Dev(cells=tuple(cells), cases=()).model_dump(mode="json")
            ledger.phase(one.place, one.phase, lambda payload=payload: payload)
    for file in (tmp_path / "run" / "files").iterdir():
        file.write_text("{}")
    facts = facts_of(tmp_path / "run")
    assert any("was changed after it was recorded" in text for text in facts.problems)
    assert facts.versions[0].missing == ("dev",)
    assert [one.verdict for one in facts.versions] == ["kept", "reverted", "kept"]


def test_what_follows_a_changed_event_is_not_used(copied: Path) -> None:
    import sqlite3

    with sqlite3.connect(copied / "ledger.db") as database:
        database.execute("DROP TRIGGER nothing_changes")
        found = database.execute(
            "SELECT number FROM events WHERE place = 'versions/01' AND phase = 'gate' "
            "AND kind = 'phase'"
        ).fetchone()
        database.execute("UPDATE events SET seconds = 1.5 WHERE number = ?", found)
    facts = facts_of(copied)
    assert facts.state == "broken"
    assert [one.verdict for one in facts.versions] == ["kept", ""]
    assert any(f"event {found[0]}" in text for text in facts.problems)


def test_without_its_ledger_a_run_is_read_from_the_copies(copied: Path) -> None:
    (copied / "ledger.db").write_bytes(b"no ledger" * 1000)
    facts = facts_of(copied)
    assert facts.state == "unknown"
    assert [one.verdict for one in facts.versions] == ["kept", "reverted", "kept"]
    assert facts.headline.answers.learned.answer == "yes"
    assert facts.plan is not None  # from the job of the first version
    assert facts.timing.share is None
    assert any("the ledger cannot be read" in text for text in facts.problems)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        facts_of(tmp_path)


def test_held_out_tasks_are_made_again(made: Path) -> None:
    record = read_record(made)
    assert held_out(record, Split.GATE).keys() == valid(made / "base" / "gate").keys()
    assert held_out(record, Split.DEV).keys() == valid(made / "versions/00/dev").keys()
    assert record.problems == []


def test_a_film_is_of_the_attempt_whose_failure_is_told() -> None:
    def tried(valid: bool, words: str) -> list[Rollout]:
        return [
            attempt(1, valid).model_copy(
                update={
                    "sample": sample,
                    "messages": (Message(role="assistant", content=f"{words} {sample}"),),
                    "outcome": attempt(1, valid).outcome.model_copy(
                        update={"details": {"reason": f"why {sample}"}}
                    ),
                }
            )
            for sample in range(2)
        ]

    record = Record(Path(), (), None, Lineage(Plan()), None, "done", {}, Spent(), "", [])
    found = boards_of(record, tried(False, "before"), tried(True, "after"))
    assert found is not None
    (pair,) = found.pairs
    assert (pair.reason, pair.before.text, pair.after.text) == ("why 0", "before 0", "after 0")


def test_curves_leave_out_what_is_no_number() -> None:
    lines = [{"loss": float("nan")}, {"loss": 2.0}, {"loss": float("inf")}, {}]
    assert mean(lines, "loss") == 2.0
    assert mean(lines[:1], "loss") is None
