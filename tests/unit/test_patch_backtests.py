"""Backtests of patches on stored rollouts: the published cases, and what must always hold."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from populations import keep_training, mixed, patch, root

from coevolve.backtests.bets import Bench
from coevolve.backtests.patch import backtest_patch, replayed
from coevolve.backtests.recipe import dead_curve, extrapolated
from coevolve.backtests.replay import read_stored
from coevolve.backtests.reward import measured, pairs_of, violations
from coevolve.core.errors import UserError
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.domains.registry import get_domain
from coevolve.harness.backtest import Backtest
from coevolve.harness.filters import SpreadFilter, TopFilter, TruncationFilter
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch
from coevolve.harness.recipe import Recipe
from coevolve.harness.reward import facts_of
from coevolve.harness.rules import BacktestRule
from coevolve.harness.version import Version
from coevolve.policies.script import ScriptedPolicy

CODE, LAKE = get_domain("code"), get_domain("lake")
Groups = list[list[dict[str, Any]]]


def tried(folder: Path, change: Patch, parent: Version | None = None, **rule: Any) -> Backtest:
    def probe(knobs: Knobs) -> list[Any]:
        raise AssertionError("only knobs are probed")

    found = probed(change, parent or root(), folder, CODE, probe, BacktestRule(**rule))
    assert Backtest.model_validate_json(found.model_dump_json()) == found
    assert found.words
    return found


def probed(
    change: Patch,
    parent: Version,
    folder: Path,
    domain: Domain,
    probe: Callable[[Knobs], list[Any]],
    rule: BacktestRule,
) -> Backtest:
    """The backtest of a patch of a version; knobs are compared by their signal."""

    def never(*_: object) -> Any:
        raise AssertionError("neither dev tasks nor branches tell the signal")

    policy = ScriptedPolicy(LAKE, "greedy")
    bench = Bench("signal", "valid", 1.0, domain.space, policy, never, probe, never)
    return backtest_patch(change, parent.harness, parent.number, folder, domain, bench, rule, 0)


def value(found: Backtest, name: str) -> float:
    return found.measures[name].value


def test_columns_are_what_training_saw(tmp_path: Path) -> None:
    kept = keep_training(tmp_path, mixed(random.Random(0), 40))
    stored = read_stored(tmp_path, 0, CODE.components)
    for name, expected in facts_of(kept, CODE.components).items():
        assert np.array_equal(stored.facts[name], expected), name
    names = [one.group for one in kept]
    assert [names.index(name) // 8 for name in names] == stored.group.tolist()
    assert stored.step.tolist() == [one.step for one in kept]
    assert read_stored(tmp_path, 1, CODE.components).n == 0
    keep_training(tmp_path, [[{"split": Split.GATE}, {}]], version=1)
    assert read_stored(tmp_path, 1, CODE.components).n == 1


def test_files_of_many_processes_keep_their_order(tmp_path: Path) -> None:
    kept = keep_training(tmp_path, mixed(random.Random(0), 12), per_step=12)
    from coevolve.store.rollouts import write

    place = tmp_path / "versions/00/stage/rollouts"
    (place / "step-000000-0.parquet").unlink()
    for process in range(12):
        write(kept[process * 8 : process * 8 + 8], place / f"step-000000-{process}.parquet")
    tokens = read_stored(tmp_path, 0, CODE.components).facts["tokens"]
    assert tokens.tolist() == [one.completion_tokens for one in kept]


GROUPS = st.lists(
    st.lists(
        st.fixed_dictionaries(
            {
                "valid": st.booleans(),
                "optimal": st.booleans(),
                "reward": st.sampled_from([0.0, 0.3, 1.0]),
                "tokens": st.integers(1, 400),
                "truncated": st.booleans(),
                "components": st.fixed_dictionaries({"tests": st.sampled_from([0.0, 0.5, 1.0])}),
            }
        ),
        min_size=2,
        max_size=4,
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=15)
@given(GROUPS)
def test_the_same_reward_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, groups: Groups
) -> None:
    folder = tmp_path_factory.mktemp("run")
    keep_training(folder, groups)
    stored = read_stored(folder, 0, CODE.components)
    _, before = replayed(stored, Harness())
    _, after = replayed(stored, Harness(reward="reward * 3 + 1"))
    found = measured(patch("reward", "reward * 3 + 1"), stored, (before, before), CODE)
    assert found["revived"].value == found["killed"].value == found["advantage_change"].value == 0
    assert found["violations_after"] == found["violations_before"]
    assert found["push"].value == 0
    assert np.array_equal(before.live, after.live)
    assert np.abs(before.advantages - after.advantages).max() < 1e-2
    pairs = list(pairs_of(stored, CODE.components))
    assert violations(pairs, stored.facts["valid"] * 10 + stored.facts["optimal"]).value == 0


def better(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a result is better, as people would say it."""
    if one["valid"] != other["valid"]:
        return bool(one["valid"])
    if one["optimal"] != other["optimal"]:
        return bool(one["optimal"])
    return bool(one["components"]["tests"] > other["components"]["tests"])


@settings(max_examples=15)
@given(GROUPS)
def test_pairs_are_those_that_people_would_name(
    tmp_path_factory: pytest.TempPathFactory, groups: Groups
) -> None:
    folder = tmp_path_factory.mktemp("run")
    for group in groups:
        for one in group:  # passing tests is all that these components tell
            one["components"]["solved"] = 0.0
    keep_training(folder, groups)
    stored = read_stored(folder, 0, CODE.components)
    found = violations(list(pairs_of(stored, CODE.components)), stored.facts["reward"])
    pairs = [
        (one["reward"], other["reward"])
        for group in groups
        for one in group
        for other in group
        if better(one, other)
    ]
    assert found.n == len(pairs)
    assert round(found.value * found.n) == sum(one < other for one, other in pairs)


def test_a_scaled_reward_is_a_no_op(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(1), 60))
    found = tried(tmp_path, patch("reward", "2 * reward + 1"))
    assert not found.passed
    assert "nothing changes" in found.words


def dead_and_alive(rng: random.Random, dead: int, revived: int) -> Groups:
    """All dead groups fail; in some of them the answers differ in the tests that pass."""
    groups: Groups = [[{"valid": sample < 4} for sample in range(8)] for _ in range(4)]
    for number in range(dead):
        passed = [rng.choice((0.0, 0.25, 0.5)) for _ in range(6)] + [0.0, 0.5]
        groups.append(
            [
                {"tokens": rng.randint(20, 300), "components": {"tests": share}}
                for share in (passed if number < revived else [0.0] * 8)
            ]
        )
    return groups


def test_a_component_revives_9_of_20_dead_groups(tmp_path: Path) -> None:
    keep_training(tmp_path, dead_and_alive(random.Random(2), 20, 9))
    change = patch(
        "reward", "reward + 0.3 * tests",
        hypothesis="if partial credit is paid, dead groups come to life", metric="dead_groups",
        direction="down",
    )  # fmt: skip
    found = tried(tmp_path, change)
    assert found.passed, found.words
    assert value(found, "revived") == 9
    assert (value(found, "revived_share"), found.measures["revived_share"].n) == (0.45, 20)
    assert value(found, "killed") == 0
    assert value(found, "violations_after") == 0
    assert found.prediction == "down"
    assert tried(tmp_path, change.model_copy(update={"metric": "valid"})).prediction == "up"


def test_a_reward_that_tells_results_no_longer_apart_is_refused(tmp_path: Path) -> None:
    shares = (0.0, 0.25, 0.5, 0.5)
    graded: Groups = [
        [{"reward": 0.4 * share, "components": {"tests": share}} for share in shares]
        for _ in range(20)
    ]
    keep_training(tmp_path / "graded", graded)
    found = tried(tmp_path / "graded", patch("reward", "solved"))
    assert not found.passed
    assert "newly earn the same" in found.words
    assert (value(found, "blurred"), found.measures["blurred"].n) == (1.0, 20)
    lengths: Groups = [[{"valid": True, "tokens": 20 * n} for n in range(1, 5)] for _ in range(20)]
    keep_training(tmp_path / "lengths", [*lengths, *mixed(random.Random(5), 20)])
    paid = root(reward="reward + 0.001 * tokens")
    simpler = tried(tmp_path / "lengths", patch("reward", "reward"), paid)
    assert simpler.passed, simpler.words
    assert value(simpler, "killed") >= 20
    assert value(simpler, "blurred") < 0.05


def test_brevity_ranks_worse_results_above_better_ones(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(3), 60))
    found = tried(tmp_path, patch("reward", "reward - 0.01 * tokens"))
    assert not found.passed
    assert "ranked above" in found.words
    assert value(found, "violations_before") == 0
    assert value(found, "violations_after") > 0.1
    assert value(found, "tokens_pay_after") < -0.9
    assert found.prediction == "down"
    assert tried(
        tmp_path, patch("reward", "reward - 0.01 * tokens", metric="answer_tokens")
    ).prediction == "down"  # fmt: skip


def test_revival_by_length_alone_is_refused(tmp_path: Path) -> None:
    rng = random.Random(4)
    groups: Groups = [
        [
            {"valid": number % 2 and sample < 4, "tokens": rng.randint(20, 300)}
            for sample in range(8)
        ]
        for number in range(40)
    ]
    keep_training(tmp_path, groups)
    brief = "where(valid, reward, 0.1 - 0.0003 * tokens)"
    found = tried(tmp_path, patch("reward", brief))
    assert not found.passed
    assert "nothing but length" in found.words
    assert tried(tmp_path, patch("reward", brief, metric="truncation", direction="down")).passed


def test_paying_for_turns_is_refused(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(5), 60))
    found = tried(tmp_path, patch("reward", "reward + 0.05 * turns"))
    assert not found.passed
    assert "pays for more turns" in found.words


def test_a_bonus_that_everybody_earns_is_a_no_op(tmp_path: Path) -> None:
    rng = random.Random(6)
    groups = mixed(rng, 100)
    for group in groups:
        for one in group:
            one["components"] = {**one["components"], "format": 0.0 if rng.random() < 0.99 else -1}
    keep_training(tmp_path, groups)
    found = tried(tmp_path, patch("reward", "reward + 0.2 * (1 + format)"))
    assert not found.passed
    assert "earn the same from the change" in found.words
    assert value(found, "paid_alike") > 0.98
    assert value(found, "normalised_away") > 0.95
    assert value(found, "flat.format") > 0.9
    assert found.prediction == "unclear"


def test_a_patch_for_signal_must_bring_signal(tmp_path: Path) -> None:
    keep_training(tmp_path, dead_and_alive(random.Random(7), 20, 0))
    change = patch("reward", "reward + 0.5 * optimal", metric="dead_groups", direction="down")
    found = tried(tmp_path, change)
    assert not found.passed
    assert "no more groups are alive" in found.words


def test_over_filtered_data_are_refused(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(8), 200))
    parent = root(filters=[SpreadFilter(least=0.1)])
    strict = patch("filters", [{"kind": "spread", "least": 0.49}])
    found = tried(tmp_path, strict, parent)
    assert not found.passed
    assert "too little is left" in found.words
    assert value(found, "data_left") < 0.5
    assert found.prediction == "down"
    mild = tried(tmp_path, patch("filters", [{"kind": "top", "share": 0.7}]), parent)
    assert mild.passed, mild.words
    assert 0.8 < value(mild, "data_left") < 1


def test_leaving_out_what_is_dead_changes_nothing(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(9), 100))
    found = tried(tmp_path, patch("filters", [{"kind": "spread", "least": 0.01}]))
    assert not found.passed
    assert "carries no signal" in found.words
    assert value(found, "data_left") == 1
    assert value(found, "rollouts_kept") < 1


@settings(max_examples=15)
@given(GROUPS)
def test_the_same_filters_keep_the_same(
    tmp_path_factory: pytest.TempPathFactory, groups: Groups
) -> None:
    folder = tmp_path_factory.mktemp("run")
    kept = keep_training(folder, groups, per_step=3)
    stored = read_stored(folder, 0, CODE.components)
    harness = Harness(filters=(TopFilter(share=0.5, warm_up=1), TruncationFilter()))
    keep, signal = replayed(stored, harness)
    assert keep.tolist() == replayed(stored, harness)[0].tolist()
    assert not any(flag and one.stop == "length" for flag, one in zip(keep, kept, strict=True))
    assert not signal.advantages[keep == 0].any()


def test_limits_of_tokens(tmp_path: Path) -> None:
    groups = mixed(random.Random(11), 100)
    uncut = mixed(random.Random(12), 100, truncated=0)
    for one in (one for group in (*groups, *uncut) for one in group):
        one["turns"] = 1
        if one["truncated"]:
            one["tokens"] = 300
    keep_training(tmp_path, groups)
    parent = root(recipe={"max_tokens": 300})
    shorter = tried(tmp_path, patch("recipe.max_tokens", 150), parent)
    assert not shorter.passed
    assert shorter.prediction == "down"
    assert value(shorter, "successes_cut") == pytest.approx(150 / 281, abs=0.06)
    longer = tried(tmp_path, patch("recipe.max_tokens", 600, metric="truncation"), parent)
    assert longer.passed
    assert longer.prediction == "down"
    assert 0.5 < value(longer, "would_fit") < 1
    keep_training(tmp_path, uncut, version=1)
    other = parent.model_copy(update={"number": 1})
    assert not tried(tmp_path, patch("recipe.max_tokens", 600), other).passed


def test_of_dialogues_only_the_sum_of_tokens_is_known(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(11), 20))
    found = tried(tmp_path, patch("recipe.max_tokens", 150), root(recipe={"max_tokens": 300}))
    assert found.passed
    assert found.prediction == "unclear"


def test_sizes_of_groups(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(13), 1_500), per_step=500)
    found = tried(tmp_path, patch("recipe.group", 2, metric="dead_groups"))
    # Tasks of every difficulty: the chance that m answers agree is 2 / (m + 1).
    assert value(found, "dead_expected") == pytest.approx(2 / 3, abs=0.03)
    assert not found.passed
    assert found.prediction == "up"
    larger = tried(tmp_path, patch("recipe.group", 16))
    assert value(larger, "dead_expected") == pytest.approx(2 / 17, abs=0.03)
    assert larger.prediction == "up"
    curve = dead_curve(read_stored(tmp_path, 0, CODE.components), np.ones(12_000))
    assert set(curve.values()) == {1.0}
    assert extrapolated(curve, 16) == pytest.approx(1.0, abs=0.01)


def test_dead_groups_that_are_drawn_again(tmp_path: Path) -> None:
    groups = mixed(random.Random(13), 1_500)
    keep_training(tmp_path, groups, per_step=500)
    found = tried(tmp_path, patch("recipe.redraw", 2, metric="dead_groups"))
    dead = value(found, "dead_before")
    assert dead == pytest.approx(2 / 9, abs=0.03)
    assert value(found, "live_expected") == pytest.approx(1 - dead**3)
    assert value(found, "steps_expected") == pytest.approx(1 / (1 + dead + dead**2))
    assert (found.passed, found.prediction) == (True, "unclear")
    alike = [len({one["valid"] for one in group}) == 1 for group in groups]
    for version, which, said in ((1, True, "all groups are dead"), (2, False, "hardly any")):
        own = [group for group, same in zip(groups, alike, strict=True) if same is which]
        keep_training(tmp_path, own, version=version)
        parent = root().model_copy(update={"number": version})
        refused = tried(tmp_path, patch("recipe.redraw", 2), parent)
        assert not refused.passed
        assert said in refused.words


@pytest.mark.parametrize(
    ("factor", "new"),
    [
        ("learning_rate", 0.01), ("kl", 0.01), ("loss", "grpo"), ("epochs", 2), ("iterations", 2),
        ("schedule", "linear"),
    ],
)  # fmt: skip
def test_what_only_training_can_tell_is_unclear(tmp_path: Path, factor: str, new: Any) -> None:
    keep_training(tmp_path, mixed(random.Random(14), 20))
    found = tried(tmp_path, patch(f"recipe.{factor}", new))
    assert (found.passed, found.prediction) == (True, "unclear")
    assert found.measures["entropy"].n == 160
    assert value(found, "entropy") == pytest.approx(0.5)


@pytest.mark.parametrize("factor", ["clip_low", "clip_high"])
def test_what_is_never_clipped_cannot_be_clipped_otherwise(tmp_path: Path, factor: str) -> None:
    keep_training(tmp_path, mixed(random.Random(14), 20))
    found = tried(tmp_path, patch(f"recipe.{factor}", 0.4))
    assert not found.passed
    assert "used once" in found.words
    assert found.measures["entropy"].n == 160
    twice = root().model_copy(update={"harness": Harness(recipe=Recipe(iterations=2))})
    found = tried(tmp_path, patch(f"recipe.{factor}", 0.4), twice)
    assert (found.passed, found.prediction) == (True, "unclear")


def test_temperature_moves_entropy(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(15), 20))
    for change, metric, expected in (
        (1.3, "entropy", "up"), (0.7, "entropy", "down"), (1.3, "token_logprob", "down"),
        (1.3, "valid", "unclear"),
    ):  # fmt: skip
        found = tried(tmp_path, patch("recipe.temperature", change, metric=metric))
        assert found.prediction == expected


def test_knobs_are_probed_under_the_harness_reward(tmp_path: Path) -> None:
    from test_backtest import answers

    easy = dict(LAKE.space.parse({"size3.data_ratio": 1.0}))
    asked: list[Knobs] = []

    def probe(knobs: Knobs) -> list[Any]:
        asked.append(knobs)
        return answers({3: 0.95} if knobs["size3.data_ratio"] == 1 else {4: 0.5}, 40, 5)

    hard = dict(LAKE.space.parse({"size4.data_ratio": 1.0}))
    parent, rule = root(knobs=easy), BacktestRule()
    change = patch("knobs", hard, metric="dead_groups", direction="down")
    found = probed(change, parent, tmp_path, LAKE, probe, rule)
    assert len(asked) == 2
    assert found.passed, found.words
    assert found.prediction == "down"
    assert value(found, "dead_after") < value(found, "dead_before")
    back = probed(patch("knobs", easy), root(knobs=hard), tmp_path, LAKE, probe, rule)
    assert (back.passed, back.prediction) == (False, "down")
    flat = root(knobs=easy, reward="tokens")
    assert not probed(change, flat, tmp_path, LAKE, probe, rule).passed


def test_what_cannot_be_tried_is_told(tmp_path: Path) -> None:
    keep_training(tmp_path, mixed(random.Random(16), 4))
    with pytest.raises(UserError, match=r"'test' in .* did you mean 'tests'"):
        tried(tmp_path, patch("reward", "test + 1"))
    with pytest.raises(UserError, match="changes nothing"):
        tried(tmp_path, patch("reward", "reward"))
    with pytest.raises(UserError, match="same for every rollout"):
        tried(tmp_path, patch("reward", "1 + 1"))
    other = root().model_copy(update={"number": 7})
    found = tried(tmp_path, patch("reward", "tests"), other)
    assert (found.passed, found.prediction) == (True, "unclear")
    assert "no stored rollouts" in found.words
    assert "off" in tried(tmp_path, patch("reward", "tests"), on=False).words
