"""The two answers that a run opens with, and what fell: from lineages made by hand."""

import pytest
from synthetic import judged

from coevolve.dashboard.answers import answers_of
from coevolve.dashboard.effect import Trial, by_controls, foretold
from coevolve.domains.change import knob_words, patch_words
from coevolve.domains.lake.knobs import SPACE
from coevolve.engineering.table import is_table
from coevolve.evaluation.difference import Difference
from coevolve.evaluation.falls import falls
from coevolve.harness.backtest import Backtest, Measure
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
from coevolve.harness.plan import Plan
from coevolve.harness.proposal import Proposal
from coevolve.harness.version import Version
from coevolve.loop.backtest import NOT_NEEDED
from coevolve.store.cells import Cell
from coevolve.store.lineage import Generation, Lineage, Node
from coevolve.store.phases import Beside, Best, Diagnose, Propose, Scores, Train, Tried
from coevolve.store.phases import Tests as Backtests

BACKTEST = Backtest(passed=True, words="so", prediction="up")


def change(mean: float, reach: float = 0.02) -> Difference:
    return Difference(mean=mean, low=mean - reach, high=mean + reach, p=0.5, n=200)


def scores(valid: int, optimal: int) -> Scores:
    return Scores(n=200, valid=valid, optimal=optimal, reward=0.0)


def beside(valid: float, optimal: float) -> Beside:
    metrics = {"valid": change(valid), "optimal": change(optimal)}
    return Beside(better=valid > 0.02, words="so", change=metrics["valid"], metrics=metrics)


def lineage(gain: float, verdict: str = "kept", refused: str = "", **plan: object) -> Lineage:
    """A first version that gained 5 points, and a patch of it that gained `gain`; optimal answers
    fall by 4 points either way."""
    found = Lineage(Plan(**{"versions": 2, **plan}), base=scores(100, 90))
    root = Version(number=0, parent=None, harness=Harness(), verdict="kept")
    patch = Patch(factor="recipe.temperature", value=0.9, hypothesis="it helps", author="rule")
    best = Best(version=0, words="version 0 was kept last")
    gate = judged("kept", None, scores=scores(110, 82), base=beside(0.05, -0.04), best=best)
    found.nodes.append(Node(root, gate=gate))
    tried = Tried(author="rule", patch=patch, refused=refused, backtest=BACKTEST)
    found.generations = [
        Generation(0),
        Generation(
            1, diagnose=Diagnose(parent=0, failures=0),
            proposed=[Propose(proposals={"rule": (Proposal(patch=patch),)})],
            tests=Backtests(words="so", tried=(tried,)),
        ),
    ]  # fmt: skip
    if refused:
        return found
    one = Version(
        number=1, generation=1, parent=0, patch=patch, harness=patched(Harness(), patch),
        author="rule", verdict=verdict,
    )  # fmt: skip
    kept = 1 if verdict == "kept" else 0
    gate = judged(
        verdict, 0, scores=scores(round(110 + 200 * gain), 82), change=change(gain),
        base=beside(0.05 + gain, -0.04), since=change(gain), best=Best(version=kept, words="so"),
    )  # fmt: skip
    found.nodes.append(Node(one, gate=gate))
    return found


@pytest.mark.parametrize(
    ("gain", "verdict", "plan", "answer"),
    [
        (0.05, "kept", {}, "unclear"),  # training went on as well
        (0.00, "kept", {}, "unclear"),
        (-0.05, "kept", {}, "no"),
        (0.05, "reverted", {}, "unclear"),  # nothing of theirs is left
        (0.05, "kept", {"control": True}, "unclear"),  # one pair may be lucky
        (0.05, "kept", {"start_from": "base", "accept": "better"}, "yes"),
        (0.01, "kept", {"start_from": "base", "accept": "better"}, "unclear"),
        (0.05, "kept", {"start_from": "base"}, "unclear"),  # luck in training was not measured
        (0.05, "pruned", {"start_from": "base", "accept": "better"}, "unclear"),
    ],
)
def test_engineers_helped_only_against_what_trained_as_long(
    gain: float, verdict: str, plan: dict[str, object], answer: str
) -> None:
    found = answers_of(lineage(gain, verdict, **plan), None)
    assert found.helped.answer == answer
    assert found.learned.answer == "yes" or gain == -0.05
    (trial,) = found.helped.trials
    assert (trial.version, trial.verdict, trial.foretold) == (1, verdict, "valid up")
    assert trial.outcome == change(gain)
    assert trial.changed == "temperature 1 → 0.9"
    assert found.helped.counts["kept"] == (verdict == "kept")


def test_a_reward_that_decides_is_told_as_it_is_and_rates_in_points() -> None:
    objective = {"metric": "reward", "protect": []}
    told = answers_of(lineage(0.05, objective=objective), None)
    assert told.learned.standing.line == "version 1: +0.100 [+0.080, +0.120], n 200"
    assert "points" not in told.learned.sentence + told.helped.sentence
    rates = answers_of(lineage(0.05), None)
    assert rates.learned.standing.line == "version 1: +10.0 points [+8.0, +12.0], n 200"
    same = change(0.0, 0.0)
    assert same.told() == same.told("reward") == "no task differs, n 200"


@pytest.mark.parametrize(
    ("gain", "dead", "answer"),
    [(0.05, 40, "yes"), (0.05, 38, "yes"), (0.05, 30, "unclear"), (0.01, 40, "unclear"),
     (-0.05, 40, "no")],
)  # fmt: skip
def test_engineers_helped_where_there_was_nothing_to_learn_from_before(
    gain: float, dead: int, answer: str
) -> None:
    found = lineage(gain)
    cells = (Cell(labels={}, n=320, valid=0, optimal=0, reward=0.0, groups=40, dead=dead),)
    found.nodes[0].train = Train.model_construct(cells=cells)
    assert answers_of(found, None).helped.answer == answer
    if answer == "yes":  # no claim that the first answer does not make
        gate = found.nodes[1].gate
        assert gate
        found.nodes[1].gate = gate.model_copy(update={"base": beside(0.01, -0.04)})
        told = answers_of(found, None)
        assert (told.learned.answer, told.helped.answer) == ("unclear", "unclear")
        answer, reason = told.helped.parts
        assert answer == "No evidence that they did."
        assert reason.startswith("Since their first kept change +5.0 points")


@pytest.mark.parametrize(
    ("gains", "answer"),
    [
        ((0.05, 0.06, 0.04), "yes"), ((0.05, -0.04, 0.01), "unclear"), ((-0.05, -0.06), "unclear"),
        ((-0.05, -0.06, -0.04), "no"),
    ],
)  # fmt: skip
def test_every_pair_of_a_change_and_its_control_is_one_observation(
    gains: tuple[float, ...], answer: str
) -> None:
    trials = [
        Trial(at, at, "rule", "a change", "valid up", change(gain), f"control {at}", "kept", "")
        for at, gain in enumerate(gains)
    ]
    assert by_controls(trials)[0] == answer
    assert by_controls(trials[:1])[0] == "unclear"


def test_the_gain_of_each_version_before_and_after_the_first_change() -> None:
    helped = answers_of(lineage(0.01), None).helped
    assert helped.before.versions == helped.after.versions == 1
    assert helped.before.total.mean == 0.05
    assert helped.after.total.mean == 0.01
    assert "coevolve compare" in answers_of(lineage(0.05), None).helped.sentence


def test_what_became_of_all_proposals_adds_up() -> None:
    found = lineage(0.01)
    first, asked = found.generations[1], found.generations[1].proposed[0].proposals["rule"]
    others = [
        Patch(factor="recipe.group", value=size, hypothesis="x", author="rule") for size in (4, 16)
    ]
    said = (*asked, *(Proposal(patch=one) for one in others), Proposal(failure="no answer"))
    first.proposed = [Propose(proposals={"rule": said})]
    tried = (*first.tests.tried, Tried(author="rule", patch=others[0]))
    first.tests = Backtests(words="so", tried=tried)
    helped = answers_of(found, None).helped
    assert helped.proposals == (
        "4 proposals: 1 trained (1 of them kept), 1 sent back, 1 not tried, 1 unusable"
    )
    assert len(helped.trials) + helped.unlisted == 4


@pytest.mark.parametrize(
    ("why", "word"), [("rejected: no signal", "refused"), (NOT_NEEDED, "passed over")]
)
def test_nothing_that_was_not_trained_can_have_helped(why: str, word: str) -> None:
    found = answers_of(lineage(0.0, refused=why), None)
    assert found.helped.answer == "unclear"
    assert {name for name, n in found.helped.counts.items() if n} == {"made", word}
    assert [(one.version, one.verdict) for one in found.helped.trials] == [(None, word)]
    assert found.helped.proposals == f"1 proposal: 1 {word}"
    empty = answers_of(Lineage(Plan()), None)
    assert (empty.learned.answer, empty.helped.answer) == ("unknown", "unknown")


def test_a_fall_of_the_other_metric_is_told() -> None:
    learned = answers_of(lineage(0.05), None).learned
    assert [one.metric for one in learned.metrics] == ["valid", "optimal"]
    (fall,) = learned.falls
    assert (fall.metric, fall.before, fall.after, fall.protected) == ("optimal", 0.45, 0.41, True)
    assert fall.words.startswith("optimal fell from 45.0 % to 41.0 %")


@pytest.mark.parametrize(
    ("valid", "optimal", "reach", "protect", "expected"),
    [
        (0.05, -0.04, 0.02, (), ["optimal"]),
        (0.05, -0.04, 0.05, (), []),  # within noise, and nobody protects it
        (0.05, -0.04, 0.05, ("optimal",), ["optimal"]),  # by more than the margin
        (0.05, -0.01, 0.05, ("optimal",), []),
        (-0.05, -0.04, 0.02, (), []),  # nothing hides it
        (-0.05, 0.04, 0.02, (), ["valid"]),
        (-0.05, -0.04, 0.02, ("optimal",), ["optimal"]),
    ],
)
def test_what_counts_as_a_fall(
    valid: float, optimal: float, reach: float, protect: tuple[str, ...], expected: list[str]
) -> None:
    changes = {"valid": change(valid, reach), "optimal": change(optimal, reach)}
    before = {"valid": 0.5, "optimal": 0.4}
    after = {"valid": 0.5 + valid, "optimal": 0.4 + optimal}
    assert [one.metric for one in falls(before, after, changes, protect, 0.02)] == expected


def test_the_version_that_is_not_the_highest_is_named() -> None:
    found = lineage(-0.01)
    assert "version 0 had a higher" in answers_of(found, None).learned.remark
    assert answers_of(lineage(0.01), None).learned.remark == ""


@pytest.mark.parametrize(
    ("chance", "words"), [(1.0, "over 99 %"), (0.94, "94 %"), (0.0, "under 1 %")]
)
def test_a_bet_is_told_by_its_chance_and_never_in_its_own_unit(chance: float, words: str) -> None:
    patch = Patch(factor="knobs", value={}, hypothesis="x")
    measures = {
        "gain": Measure(value=0.12, n=40, low=0.03, high=0.2),
        "better": Measure(value=chance, n=40),
    }
    bet = BACKTEST.model_copy(update={"measures": measures})
    assert foretold(patch, bet) == f"better with a chance of {words}, n 40"
    assert foretold(patch, BACKTEST) == "valid up"
    assert foretold(patch, None) == "not tried"


def test_knobs_are_told_by_their_largest_changes() -> None:
    before = SPACE.parse({"agents2.share": 0.85, "agents3.share": 0.14, "agents4.share": 0.01})
    after = SPACE.parse({"agents2.share": 0.4, "agents3.share": 0.4, "agents4.share": 0.2,
                         "size3.hole_ratio": 0.3})  # fmt: skip
    assert knob_words(before, after, 2) == (
        "fewer tasks with 2 agents (85 % → 40 %), more with 3 agents (14 % → 40 %), "
        "and 2 more changes"
    )
    assert knob_words(before, after, 9).endswith(
        "more cells that are holes on 3x3 boards (20 % → 30 %)"
    )
    holes = SPACE.project({f"size{size}.hole_ratio": 0.25 for size in range(3, 11)})
    assert knob_words(SPACE.defaults(), holes) == (
        "more cells that are holes on 3x3 boards (20 % → 25 %) and 7 like it"
    )
    idle = SPACE.parse({"size20.hole_ratio": 0.1})
    assert knob_words(SPACE.defaults(), idle) == "no knob that is in use"
    for digits, value in (("50 % → 51 %", 0.51), ("50.0 % → 50.4 %", 0.504)):
        small = SPACE.parse({"size3.wait_ratio": value})
        assert digits in knob_words(SPACE.defaults(), small)


def test_a_patch_is_told_whatever_it_changes() -> None:
    patch = Patch(
        factor="knobs", value={"agents2.share": 0.5, "agents3.share": 0.5}, hypothesis="x"
    )
    assert patch_words(patch, Harness(), SPACE).startswith("fewer tasks with 2 agents")
    assert patch_words(patch, Harness(), None) == "2 knobs"
    strange = patch.model_copy(update={"value": "all of them"})
    assert patch_words(strange, Harness(), SPACE) == "knobs that cannot be read"
    reward = Patch(factor="reward", value="valid + optimal", hypothesis="x")
    assert patch_words(reward, Harness(), SPACE) == "reward: valid + optimal, before: reward"
    unknown = Patch(factor="no.such", value=1, hypothesis="x")
    assert "no.such" in patch_words(unknown, Harness(), SPACE)


def test_tables_of_small_models_are_told_from_words() -> None:
    assert is_table("size3 0 up up / size4 9 same same / agents2 3")
    for text in ("", "more holes", "up / down", "size3 9 up / because it is solved"):
        assert not is_table(text)
