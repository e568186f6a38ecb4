"""The tree, with scripts for policies: what is kept, pruned, reverted, rejected, merged."""

from pathlib import Path
from typing import Any

import pytest
from trees import Listed, make_tree, temperature

from coevolve.core.errors import EvidenceError, UserError
from coevolve.dashboard.facts import facts_of
from coevolve.dashboard.web.glance import glance_of
from coevolve.dashboard.web.places import Place
from coevolve.engineers.trainer import Lineage, Suggestion
from coevolve.evidence.diagnostic import load_suite
from coevolve.evidence.health import Diagnosis, Finding, Health
from coevolve.evidence.lineage import versions_of
from coevolve.evolution import isolation
from coevolve.evolution.evolving import Evolving
from coevolve.evolution.final import final
from coevolve.evolution.generation import merge
from coevolve.evolution.isolation import code_hash
from coevolve.evolution.judging import check_asked
from coevolve.evolution.learning import proposed
from coevolve.ledger import approval
from coevolve.ledger.ledger import Ledger

GOOD, BAD, SAME = temperature(0.9), temperature(0.8), temperature(0.7)


def test_better_is_kept_worse_reverted_the_same_pruned(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "run", Listed(SAME, BAD, GOOD))
    best = tree.run()
    assert [version.verdict for version in tree.versions] == ["root", "pruned", "reverted", "kept"]
    assert best.version == 3
    assert "better than no training" in best.words
    assert tree.ledger.state() == "done"
    assert {version.parent for version in tree.versions[1:]} == {0}
    assert "not better beyond chance" in tree.versions[1].words
    rows = {row["version"]: row for row in versions_of(tmp_path / "run")}
    assert [rows[n]["verdict"] for n in range(4)] == ["root", "pruned", "reverted", "kept"]
    assert rows[3]["parent"] == 0
    assert rows[3]["factor"] == "recipe.temperature"
    hashes = tree.recorded(3, "patch")["hashes"]
    assert hashes["harness"] == tree.versions[3].harness.digest()
    assert hashes["code"] == code_hash()
    with Diagnosis(tmp_path / "run") as diagnosis:
        told = str(diagnosis.locked.ask("SELECT * FROM versions"))
    assert "kept" in told
    assert "n 60" not in told
    with Diagnosis(tmp_path / "run", blind=True) as diagnosis:
        assert "kept" not in str(diagnosis.locked.ask("SELECT verdict FROM versions"))


def test_a_version_grows_from_the_best(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path / "run", Listed(GOOD, {"factor": "recipe.kl", "value": 0.1}), versions=3
    )
    tree.run()
    assert [version.parent for version in tree.versions] == [None, 0, 1]
    assert tree.versions[2].harness.recipe.temperature == 0.9
    assert tree.versions[2].harness.recipe.kl == 0.1
    assert tree.versions[2].verdict == "pruned"


def test_a_better_score_for_another_reason_is_pruned(tmp_path: Path) -> None:
    wrong = temperature(0.9, metric="reward", direction="down")
    tree = make_tree(tmp_path / "run", Listed(wrong), versions=2)
    tree.run()
    assert tree.versions[1].verdict == "pruned"
    assert "not for the stated reason" in tree.versions[1].words


def test_what_cannot_be_tried_is_refused_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    tree = make_tree(
        tmp_path / "run",
        Listed(
            {"factor": "recipe.steps", "value": 9},
            {"factor": "reward", "value": "no_such_component"},
            {"factor": "knobs", "value": {"size3.hole_ratio": 7}},
            {"factor": "recipe.loss", "value": "cispo"},
            temperature(1.0),
            GOOD,
        ),
        versions=2,
    )
    tree.say = said.append
    tree.run()
    assert [version.verdict for version in tree.versions] == ["root", "kept"]
    refused = [line for line in said if "refused" in line]
    assert len(refused) == 5
    for part in ("recipe.steps", "no_such_component", "hole_ratio", "cispo", "changes nothing"):
        assert any(part in line for line in refused), part


def test_a_backtest_rejects_before_anything_is_trained(tmp_path: Path) -> None:
    brevity = {"factor": "reward", "value": "0 - tokens"}
    tree = make_tree(tmp_path / "run", Listed(brevity, GOOD), versions=2)
    tree.run()
    assert [version.verdict for version in tree.versions] == ["root", "rejected", "kept"]
    assert not (tmp_path / "run" / "rounds" / "01" / "stage").exists()


def test_knobs_that_make_no_tasks_are_rejected(tmp_path: Path) -> None:
    tight = {"size3.data_ratio": 1.0, "agents2.share": 1.0, "detour.min": 2, "detour.max": 2}
    tree = make_tree(
        tmp_path / "run", Listed({"factor": "knobs", "value": tight}, GOOD), versions=2
    )
    tree.run()
    assert [version.verdict for version in tree.versions] == ["root", "rejected", "kept"]
    assert "its tasks cannot be made: these knobs" in tree.versions[1].words


class Noting(Listed):
    """Remembers what people asked for."""

    def __init__(self, *patches: dict[str, Any]) -> None:
        super().__init__(*patches)
        self.notes: list[str] = []

    def propose(self, lineage: Lineage, seed: int) -> list[Suggestion]:
        self.notes.append(lineage.note)
        return super().propose(lineage, seed)


def test_what_people_say_at_a_backtest_and_at_completion_counts(tmp_path: Path) -> None:
    trainer = Noting(SAME, BAD, GOOD)
    tree = make_tree(tmp_path / "run", trainer, versions=3, approval=["backtest", "completion"])
    answers = iter(
        [("revise", "not colder"), ("approve", ""), ("revise", "warmer, please"), ("approve", ""),
         ("approve", "")]
    )  # fmt: skip

    def answering(line: str) -> None:
        if "waiting" in line:
            approval.answer(tree.ledger, *next(answers))  # type: ignore[arg-type]

    tree.say = answering
    tree.run()
    assert [one.verdict for one in tree.versions] == ["root", "rejected", "reverted", "kept"]
    assert tree.versions[1].words == "rejected by a person: not colder"
    assert trainer.notes[-1] == "warmer, please"


class Asking(Listed):
    """Proposes a question besides its patches."""

    def propose(self, lineage: Lineage, seed: int) -> list[Suggestion]:
        sql = "SELECT version, avg(reward) AS value, count(*) AS n FROM rollouts GROUP BY version"
        own = {"name": "paid", "question": "What does it earn?", "layer": "score", "sql": sql}
        first, *others = super().propose(lineage, seed)
        return [first.model_copy(update={"diagnostics": (own,)}), *others]


def test_what_trainers_ask_waits_for_its_trial(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "run", Asking(SAME), versions=2)
    tree.run()
    assert [one.name for one in proposed(tree)] == ["paid"]


def test_a_run_goes_on_from_its_own_weights_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path / "run", Listed(), versions=1).run()
    monkeypatch.setattr(isolation, "code_hash", lambda: "another")
    said: list[str] = []
    again = make_tree(tmp_path / "run", Listed(), versions=1)
    again.say = said.append
    again.run()
    assert any("the code has changed" in line for line in said)
    monkeypatch.setattr(isolation, "weights_of", lambda policy: "another")
    with pytest.raises(UserError, match="not those that this run began with"):
        again.run()


def test_nothing_is_judged_while_a_blocking_question_cannot_be_asked() -> None:
    questions = load_suite().diagnostics
    fine = Finding(diagnostic=questions["score_change"], error="out of memory")
    check_asked(Health([], [fine], []))
    bad = Finding(diagnostic=questions["contamination"], error="out of memory")
    with pytest.raises(EvidenceError, match="'contamination' blocks promotion and cannot be asked"):
        check_asked(Health([], [fine, bad], []))


def test_nothing_left_to_try_ends_the_run(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "run", Listed(BAD))
    assert tree.run().version is None
    assert tree.ledger.state() == "stopped"


def test_a_trainer_that_breaks_is_recorded(tmp_path: Path) -> None:
    class Broken:
        name = "broken"

        def propose(self, lineage: Lineage, seed: int) -> list[Suggestion]:
            raise RuntimeError("no idea")

    tree = make_tree(tmp_path / "run", Broken())
    tree.run()
    proposed = tree.ledger.phase(1, "propose", dict)
    assert "no idea" in proposed["suggestions"]["broken"][0]["failure"]


def test_siblings_that_are_kept_are_merged(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path / "run",
        Listed(GOOD, {"factor": "recipe.kl", "value": 0.1}, SAME),
        width=2, versions=3,
    )  # fmt: skip
    tree.run()
    assert [version.parent for version in tree.versions] == [None, 0, 0]
    tree.versions[2] = tree.versions[2].model_copy(update={"verdict": "kept"})
    with tree.ledger.writing():
        united = merge(tree)
    assert united is not None
    assert united.merged == (1, 2)
    assert united.parent == 1
    assert (united.harness.recipe.temperature, united.harness.recipe.kl) == (0.9, 0.1)
    with tree.ledger.writing():
        assert merge(tree) is None


def test_after_failures_the_measurement_is_checked_and_people_are_asked(tmp_path: Path) -> None:
    patches = [{"factor": "recipe.kl", "value": value} for value in (0.1, 0.2, 0.3, 0.4)]
    tree = make_tree(tmp_path / "run", Listed(*patches), versions=5)
    tree.run()
    assert tree.failures == 4
    assert tree.recorded(4, "check")["version"] == 0
    assert tree.recorded(4, "check")["spent"]["rollouts"] == 60
    waiting = make_tree(tmp_path / "other", Listed(*patches), versions=5, asks_after=2)
    waited: list[str] = []

    def answer(line: str) -> None:
        if "waiting" in line:
            waited.append(line)
            approval.answer(waiting.ledger, "abort", "enough")

    waiting.say = answer
    waiting.run()
    assert len(waited) == 1
    assert waiting.ledger.state() == "stopped"
    assert len(waiting.trained) == 3


def test_the_test_split_is_opened_once(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "run", Listed(GOOD), versions=2)
    with pytest.raises(UserError, match="opened once"):
        final(tree.ledger, tree.measuring, 40)
    tree.run()
    found = final(tree.ledger, tree.measuring, 40)
    assert found["change"]["valid"]["mean"] > 0
    assert found["last"]["valid"]["n"] == 40
    assert final(tree.ledger, tree.measuring, 80) == found
    assert tree.ledger.state() == "done"


def test_a_tree_ends_with_no_training_unless_a_version_is_better(tmp_path: Path) -> None:
    """The root unlearns; its child makes up for that and is kept, which is no gain over nothing."""
    tree = make_tree(tmp_path / "run", Listed(GOOD), versions=2, policy="prioritised")
    best = tree.run()
    assert [version.verdict for version in tree.versions] == ["root", "kept"]
    assert tree.strongest.number == 1
    assert (best.version, tree.best_policy) == (None, "prioritised")
    assert best.words.startswith("no version is better than no training: ")
    assert "of 60 attempts" in best.words
    assert "version 1, the strongest" in best.words
    gates = [tree.recorded(number, "gate") for number in (0, 1)]
    assert [gate["base"]["better"] for gate in gates] == [False, False]
    assert gates[0]["base"]["words"].startswith("worse: ")
    assert gates[1]["base"]["change"]["n"] == 60
    end = tree.ledger.last()
    assert (end.kind, end.payload["policy"], end.payload["version"]) == (
        "done", "prioritised", None,
    )  # fmt: skip
    found = final(tree.ledger, tree.measuring, 40)
    assert found["words"] == best.words
    assert found["first"] == found["last"]
    assert found["spent"]["rollouts"] == 40
    assert [one.name for one in (tmp_path / "run" / "final").iterdir()] == ["first"]
    tree.ledger.close()
    facts = facts_of(tmp_path / "run")
    assert all("steps.jsonl" in one for one in facts.problems)  # which nobody pretends to write
    assert (facts.headline.answer, facts.headline.final_round) == ("no", None)
    assert facts.headline.final_policy == "prioritised"
    assert "no version is better than no training" in facts.headline.sentence
    assert glance_of(Place("run", tmp_path / "run")).lines()["best"] == best.words


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Evolving:
    """A tree that is its root, never killed."""
    tree = make_tree(tmp_path_factory.mktemp("trees") / "whole", Listed(), versions=1)
    tree.run()
    return tree


@pytest.mark.parametrize("phase", ["base", "noise", "gate"])
def test_a_tree_killed_while_it_is_planted_comes_to_the_same(
    tmp_path: Path, planted: Evolving, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed with a phase done and not yet recorded, which is the worst instant."""
    record = Ledger.append

    def die(self: Ledger, kind: str, payload: Any, **facts: Any) -> Any:
        if kind == "phase" and facts["phase"] == phase:
            raise KeyboardInterrupt
        return record(self, kind, payload, **facts)

    killed = make_tree(tmp_path / "killed", Listed(), versions=1)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "append", die)
        with pytest.raises(KeyboardInterrupt):
            killed.run()
    killed.ledger.close()
    resumed = make_tree(tmp_path / "killed", Listed(), versions=1)
    assert resumed.run() == planted.best
    names = [[e.phase for e in tree.ledger.events("phase")] for tree in (planted, resumed)]
    assert names[0] == names[1]
    assert names[0][:4] == ["hashes", "skills", "base", "patch"]


def test_a_used_up_budget_ends_a_tree_and_it_stays_what_it_is(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"budget": {"rollouts": 500}}
    tree = make_tree(tmp_path / "run", Listed(SAME, GOOD, BAD), **changes)
    best = tree.run()
    assert tree.ledger.state() == "stopped"
    assert [version.verdict for version in tree.versions] == ["root", "pruned", "kept"]
    again = make_tree(tmp_path / "run", Listed(SAME, GOOD, BAD), **changes)
    assert again.run() == best
    assert again.versions == tree.versions
    assert len(again.ledger.events("stopped")) == 1
