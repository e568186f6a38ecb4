"""The facts of a report: every number equals what the rollouts and the ledger say by themselves."""

import shutil
from pathlib import Path

import pytest
from pyarrow import parquet
from runs import STEPS, make_run, metrics
from test_gate import attempt
from trees import Listed, make_tree

from coevolve.core.errors import UserError
from coevolve.core.rollout import Message, Rollout
from coevolve.dashboard.boards import boards_of
from coevolve.dashboard.curves import mean
from coevolve.dashboard.decisions import probe_of
from coevolve.dashboard.facts import Facts, facts_of
from coevolve.dashboard.record import Record, read_record
from coevolve.dashboard.timing import gaps, phase_time, timing_of
from coevolve.evaluation.paired import paired
from coevolve.evolution.measuring import Measuring
from coevolve.ledger import approval
from coevolve.ledger.budget import spent_so_far
from coevolve.ledger.events import Event
from coevolve.ledger.ledger import Ledger
from coevolve.ledger.payload import LARGE


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run: better, then worse and reverted, then the same again."""
    folder = tmp_path_factory.mktemp("runs") / "made"
    rounds = make_run(folder, backtest={"tasks": 8, "samples": 2, "confidence": 0.5})
    rounds.run()
    rounds.ledger.close()
    return folder


@pytest.fixture(scope="module")
def facts(made: Path) -> Facts:
    return facts_of(made)


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A run to damage."""
    return Path(shutil.copytree(made, tmp_path / "copied"))


def valid(folder: Path) -> dict[str, bool]:
    """Task by task, straight from the files."""
    rows = [row for path in sorted(folder.glob("*.parquet")) for row in parquet.read_table(
        path, columns=["task_id", "valid"]).to_pylist()]  # fmt: skip
    return {row["task_id"]: row["valid"] for row in rows}


def test_the_headline_is_what_the_rollouts_say(made: Path, facts: Facts) -> None:
    base, final = valid(made / "base" / "gate"), valid(made / "rounds" / "02" / "gate")
    head = facts.headline
    assert (head.base.successes, head.base.n) == (sum(base.values()), 60)
    assert (head.final.successes, head.final.n) == (sum(final.values()), 60)
    change = sum(final[task] - base[task] for task in base) / 60
    assert head.change.mean == pytest.approx(change)
    expected = paired([float(base[task]) for task in base], [float(final[task]) for task in base])
    assert head.change == expected
    assert head.answer == "yes"
    assert f"n {head.change.n}" in head.sentence
    assert (head.kept, head.finished, head.planned, head.final_round) == (2, 3, 3, 2)
    with Ledger.open(made) as ledger:
        rollouts = spent_so_far(ledger).rollouts
    assert rollouts >= 60 + 3 * (32 + 60)
    assert [(one.name, one.used, one.limit) for one in head.spent if one.limit] == [
        ("rollouts", rollouts, 1000)
    ]


def test_boards_are_those_that_failed_and_now_succeed(made: Path, facts: Facts) -> None:
    base, final = valid(made / "base" / "gate"), valid(made / "rounds" / "02" / "gate")
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


def test_rounds_say_what_the_ledger_says(made: Path, facts: Facts) -> None:
    assert [one.verdict.keep for one in facts.rounds] == [True, False, True]
    for one in facts.rounds:
        rates = valid(made / "rounds" / f"{one.number:02d}" / "gate")
        assert (one.gate.successes, one.gate.n) == (sum(rates.values()), len(rates))
        dev = valid(made / "rounds" / f"{one.number:02d}" / "dev")
        assert (one.dev.successes, one.dev.n) == (sum(dev.values()), len(dev))
        table = one.evidence[0]
        assert sum(total[1] for _, _, total in table.rows) == one.dev.n
        cells = [pair for _, counts, _ in table.rows for pair in counts if pair]
        assert (sum(c[0] for c in cells), sum(c[1] for c in cells)) == one.dev[:2]
        assert sum(n for _, n in table.failures) == one.dev.n - one.dev.successes
        assert not one.missing
    assert (facts.rounds[0].evidence[0].down, facts.rounds[0].evidence[0].across) == (
        "size × holes", "agents × wait",
    )  # fmt: skip


def test_proposals_are_shown_as_they_were_projected(made: Path, facts: Facts) -> None:
    first, second = facts.rounds[0].attempts[0].said
    assert first.explanation == "more holes"
    assert second.failure.startswith("had no second idea")
    asked = {one.knob: one for one in first.asked}
    with Ledger.open(made) as ledger:
        probes = ledger.find("phase/0/backtest").payload["probes"]
    assert [probe["name"] for probe in probes] == ["incumbent", "saying"]
    for name in ("size3.hole_ratio", "size4.hole_ratio"):
        assert asked[name].wish == "raise"
        assert asked[name].before == probes[0]["knobs"][name]
        assert asked[name].after == pytest.approx(probes[1]["knobs"][name])
    assert asked["no.such"].before is None
    assert [probe.changed for probe in facts.rounds[0].choice.probes] == [0, 2]
    assert sum(probe.taken for probe in facts.rounds[0].choice.probes) == 1


def test_one_of_several_proposals_of_an_engineer_is_taken(made: Path) -> None:
    with Ledger.open(made) as ledger:
        value = ledger.find("phase/0/backtest").payload
    knobs = {"chosen": "saying", "knobs": value["probes"][1]["knobs"]}
    other = {**value["probes"][1], "knobs": value["probes"][0]["knobs"]}
    assert probe_of(value["probes"][1], knobs, None).taken
    assert not probe_of(other, knobs, None).taken
    assert not probe_of(value["probes"][0], knobs, None).taken


def test_knobs_follow_the_choices(made: Path, facts: Facts) -> None:
    with Ledger.open(made) as ledger:
        chosen = [ledger.find(f"phase/{n}/backtest").payload["knobs"] for n in (0, 1)]
    levels = {one.name: one for family in facts.levels.families for one in family.levels}
    holes = levels["size3.hole_ratio"]
    assert holes.values[1:] == [knobs["size3.hole_ratio"] for knobs in chosen]
    assert holes.values[0] == 0.2
    assert holes.changed[1] == (chosen[0]["size3.hole_ratio"] != 0.2)
    assert "size20.hole_ratio" not in levels
    assert "path_length.min = 1" in facts.levels.still


def test_curves_run_over_all_rounds(facts: Facts) -> None:
    curves = {curve.key: curve.values for curve in facts.curves.curves}
    assert facts.curves.total == 3 * STEPS
    assert facts.curves.bounds == [(0.5, 0), (STEPS + 0.5, 1), (2 * STEPS + 0.5, 2)]
    assert curves["reward"][STEPS + 1] == pytest.approx(metrics(1, 2)["reward"])
    assert set(curves["speed"]) == {2000.0}
    assert "32 rollouts per step" in facts.curves.curves[0].of


def event(number: int, kind: str, at: float, **more: object) -> Event:
    time = f"2026-01-01T00:00:{at:06.3f}+00:00"
    values = {"round": 0, "phase": None, "started": None, "seconds": None, "payload": {}, **more}
    return Event(number=number, kind=kind, time=time, **values)


def test_time_between_phases_waiting_and_broken_off() -> None:
    events = (
        event(1, "created", 0), event(2, "began", 1), event(3, "phase", 5, phase="base"),
        event(4, "warning", 5.5), event(5, "asked", 6), event(6, "answered", 16),
        event(7, "began", 16.5), event(8, "failed", 20), event(9, "began", 30),
        event(10, "phase", 33, phase="train"), event(11, "done", 33.25),
    )  # fmt: skip
    assert gaps(events) == pytest.approx((1 + 1 + 0.25, 10.5, 3.5 + 10))


def test_work_inside_phases_is_what_they_recorded(facts: Facts, made: Path) -> None:
    spent = {"spent": {"rollouts": 8, "seconds": 9.0}}
    whole = phase_time(event(1, "phase", 10, phase="train", seconds=10.0, payload=spent), 0.0)
    assert (whole.recorded, whole.rest) == (True, 1.0)
    only = phase_time(event(1, "phase", 10, phase="dev", seconds=10.0), 4.0)
    assert (only.recorded, only.work, only.rest) == (False, {"draw": 4.0}, 6.0)
    before = phase_time(event(1, "phase", 10, phase="dev", seconds=1.0), 4.0)
    assert before.rest == 0.0
    timing = facts.timing
    assert not timing.bound
    with Ledger.open(made) as ledger:
        seconds = sum(one.seconds for one in ledger.events("phase"))
    assert timing.running_s == pytest.approx(seconds + timing.between_s)
    assert timing.share == pytest.approx(1 - sum(timing.kinds.values()) / timing.running_s)


def test_a_share_that_was_recorded_whole_is_no_bound(tmp_path: Path) -> None:
    with Ledger.create(tmp_path, {}) as ledger:
        ledger.phase(0, "train", lambda: {"spent": {"seconds": 0.0}})
    timing = timing_of(read_record(tmp_path), {})
    assert not timing.bound
    assert timing.share == pytest.approx(1.0)


def test_what_a_person_sent_back_is_shown_with_the_note(tmp_path: Path) -> None:
    rounds = make_run(tmp_path / "run", ("greedy", "greedy"), approval=["proposal"])
    answers = iter([("revise", "fewer, please"), ("approve", "")])

    def answering(line: str) -> None:
        if "waiting" in line:
            with Ledger.open(tmp_path / "run") as ledger:
                approval.answer(ledger, *next(answers))

    rounds.say = answering
    rounds.run()
    attempts = facts_of(tmp_path / "run").rounds[0].attempts
    assert [attempt.note for attempt in attempts] == ["", "fewer, please"]
    assert facts_of(tmp_path / "run").headline.answer == "unclear"


def test_what_a_model_was_shown_is_shown(tmp_path: Path) -> None:
    edit = {"knob": "detour.max", "action": "raise"}
    said = {"explanation": "so", "edits": [edit], "shown": "By size: 3 of 9"}
    proposed = {"proposals": {"policy": [said]}}
    with Ledger.create(tmp_path, {}) as ledger:
        ledger.phase(0, "propose", lambda: proposed)
    (attempt,) = facts_of(tmp_path).rounds[0].attempts
    assert attempt.context == {"policy": "By size: 3 of 9"}
    assert [said.engineer for said in attempt.said] == ["policy"]


class Broken(Exception):
    """Stands for whatever ends a run."""


def test_an_unfinished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Measuring, *_: object) -> None:
        raise Broken("no more memory")

    monkeypatch.setattr(Measuring, "probe", fail)
    rounds = make_run(tmp_path / "run", backtest={"tasks": 8, "samples": 2})
    with pytest.raises(Broken):
        rounds.run()
    facts = facts_of(tmp_path / "run")
    assert (facts.state, facts.reason) == ("failed", "Broken: no more memory")
    assert facts.headline.final_round == 0
    assert facts.rounds[0].missing == ("backtest",)
    assert facts.levels.rounds == [0]


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    make_run(tmp_path / "run").ledger.close()
    facts = facts_of(tmp_path / "run")
    assert (facts.headline.answer, facts.rounds, facts.boards) == ("unknown", (), None)
    assert facts.timing.share is None


def test_half_a_parquet_file(copied: Path) -> None:
    (part,) = (copied / "rounds" / "02" / "gate").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:500])
    facts = facts_of(copied)
    assert facts.headline.answer == "unknown"
    assert facts.headline.base.n == 60
    assert facts.rounds[2].gate is None
    assert facts.rounds[2].verdict.keep
    assert any("02/gate/part-00000.parquet cannot be read" in text for text in facts.problems)


def test_lost_files(copied: Path) -> None:
    shutil.rmtree(copied / "rounds" / "01" / "stage")
    shutil.rmtree(copied / "base")
    facts = facts_of(copied)
    assert facts.headline.base.n == 60  # the ledger has it, too
    assert facts.headline.change is None
    said = "\n".join(facts.problems)
    for part in ("base/gate", "checkpoint of round 1", "round 1 has no steps.jsonl"):
        assert part in said
    assert facts.curves.total == 2 * STEPS


def test_a_cut_off_line_of_metrics(copied: Path) -> None:
    steps = copied / "rounds" / "00" / "stage" / "steps.jsonl"
    steps.write_text(steps.read_text()[:-30])
    facts = facts_of(copied)
    assert facts.curves.total == 3 * STEPS - 1
    assert any("line 4 is cut off" in text for text in facts.problems)


def test_a_lost_payload_and_one_that_was_changed(tmp_path: Path) -> None:
    with Ledger.create(tmp_path, {}) as ledger:
        large = {"words": "kept: better", "keep": True, "rest": "x" * LARGE}
        ledger.phase(0, "gate", lambda: large)
        ledger.phase(0, "dev", lambda: {**large, "keep": False})
    for file in (tmp_path / "files").iterdir():
        file.write_text("{}")
    with Ledger.open(tmp_path) as ledger:
        events, problems = ledger.salvage()
    assert [e.payload.get("words") for e in events if e.kind == "phase"] == ["kept: better"] * 2
    assert len(problems) == 2
    assert "was changed after it was recorded" in problems[0]
    facts = facts_of(tmp_path)
    assert facts.rounds[0].verdict.words == "kept: better"
    assert set(problems) <= set(facts.problems)


def test_without_its_ledger_a_run_is_read_from_the_copies(copied: Path) -> None:
    (copied / "ledger.db").write_bytes(b"no ledger" * 1000)
    facts = facts_of(copied)
    assert facts.state == "unknown"
    assert [one.verdict.keep for one in facts.rounds] == [True, False, True]
    assert facts.headline.answer == "yes"
    assert facts.timing.share is None
    assert any("the ledger cannot be read" in text for text in facts.problems)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        facts_of(tmp_path)


def test_the_configuration_of_a_tree_is_understood(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "run", Listed(), approval=["design"])
    tree.ledger.close()
    record = read_record(tmp_path / "run")
    assert record.problems == []
    assert record.experiment is not None
    assert record.experiment.recipe.group == 4


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

    record = Record(Path(), (), {}, None, None, "done", [], {})
    found = boards_of(record, tried(False, "before"), tried(True, "after"))
    assert found is not None
    (pair,) = found.pairs
    assert (pair.reason, pair.before.text, pair.after.text) == ("why 0", "before 0", "after 0")


def test_curves_leave_out_what_is_no_number() -> None:
    lines = [{"loss": float("nan")}, {"loss": 2.0}, {"loss": float("inf")}, {}]
    assert mean(lines, "loss") == 2.0
    assert mean(lines[:1], "loss") is None
