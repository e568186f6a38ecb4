"""The lake passes the official checkers of PettingZoo and Gymnasium, and its demo is solvable."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

from coevolve.core.errors import UserError
from coevolve.domains.lake.board import Board
from coevolve.domains.lake.environments import (
    DEMO_BOARDS,
    NAME,
    LakeEnv,
    LakeParallelEnv,
    register,
)

SOLUTIONS = (
    ("rrr", "lll"),
    ("rrddrwww", "rwwwruur"),
    ("drdrrd", "dllddl"),
)
"""A plan for each demo board: one letter per step and agent."""
LETTERS = "udlrw"
ROOM = Board(rows=("...", "..."), starts=((0, 0), (1, 2)), goals=((0, 2), (1, 0)))


def actions_of(solution: tuple[str, str]) -> np.ndarray:
    """(T, 2)"""
    return np.array([[LETTERS.index(letter) for letter in plan] for plan in solution]).T


def test_gymnasium_checker_has_no_complaint() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(NAME, render_mode="ansi")
        check_env(env.unwrapped)
        register()
    assert isinstance(env.unwrapped, LakeEnv)


@pytest.mark.parametrize("boards", [None, [ROOM]])
def test_pettingzoo_checkers_have_no_complaint(boards: list[Board] | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = LakeParallelEnv(boards)
        for _ in range(20):
            parallel_api_test(env, num_cycles=100)
        parallel_seed_test(lambda: LakeParallelEnv(boards), num_cycles=50)
    assert env.agents == []


def test_vector_environments_work() -> None:
    envs = gymnasium.make_vec(NAME, num_envs=3)
    envs.reset(seed=0)
    for _ in range(30):
        observations, *_ = envs.step(envs.action_space.sample())
    assert observations["grid"].shape == (3, 4, 4)


@pytest.mark.parametrize("number", range(len(DEMO_BOARDS)))
def test_demo_boards_are_solved_in_both(number: int) -> None:
    one = LakeEnv([DEMO_BOARDS[number]])
    apart = LakeParallelEnv([DEMO_BOARDS[number]])
    one.reset()
    apart.reset()
    for row in actions_of(SOLUTIONS[number]):
        assert apart.agents == ["agent_0", "agent_1"]
        seen, reward, over, late, info = one.step(row)
        views, rewards, ends, cuts, infos = apart.step(dict(zip(apart.agents, row, strict=True)))
        assert set(rewards.values()) == {reward}
        assert (set(ends.values()), set(cuts.values())) == ({over}, {late})
        assert list(infos.values()) == [info, info]
        assert (views["agent_0"]["positions"] == seen["positions"]).all()
        assert (views["agent_1"]["positions"] == seen["positions"][::-1]).all()
        assert (views["agent_1"]["goal"] == seen["goals"][1]).all()
    assert (reward, over, late, info["failure"]) == (1, True, False, None)
    assert (seen["positions"] == seen["goals"]).all()
    assert apart.agents == []


def test_the_seed_chooses_the_board() -> None:
    env = LakeEnv()
    chosen = [env.reset(seed=seed)[1]["board"] for seed in range(30)]
    assert set(chosen) == {0, 1, 2}
    assert chosen == [env.reset(seed=seed)[1]["board"] for seed in range(30)]
    assert len({env.reset()[1]["board"] for _ in range(30)}) == 3


def test_observations_are_not_overwritten_by_later_steps() -> None:
    env = LakeEnv([ROOM])
    first, _ = env.reset()
    kept = first["grid"].copy()
    second, *_ = env.step(np.array([3, 2]))
    assert (first["grid"] == kept).all()
    assert (second["grid"] != kept).any()


def test_failure_terminates_and_is_named() -> None:
    env = LakeEnv([ROOM])
    env.reset()
    _, reward, over, late, info = env.step(np.array([0, 4]))
    assert (reward, over, late, info["failure"]) == (0, True, False, "bounds")
    with pytest.raises(UserError, match="reset"):
        env.step(np.array([4, 4]))


def test_the_time_limit_truncates() -> None:
    env = LakeParallelEnv([ROOM], time_limit=2)
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 4))
    _, rewards, ends, cuts, infos = env.step(dict.fromkeys(env.agents, 4))
    assert set(rewards.values()) == {0}
    assert (set(ends.values()), set(cuts.values())) == ({False}, {True})
    assert infos["agent_0"]["failure"] is None
    assert env.agents == []


def test_rendering() -> None:
    env = LakeParallelEnv([DEMO_BOARDS[1]], render_mode="ansi")
    env.reset()
    assert env.render() == "A..b\nOO.O\nB..a\n.O..\n"
    env.step({"agent_0": 3, "agent_1": 3})
    assert env.render() == ".A.b\nOO.O\n.B.a\n.O..\n"
    with pytest.raises(UserError, match="'human'"):
        LakeEnv(render_mode="human")


def test_every_agent_must_act_and_boards_must_be_alike() -> None:
    env = LakeParallelEnv()
    env.reset(seed=0)
    with pytest.raises(UserError, match="agent_1"):
        env.step({"agent_0": 4})
    with pytest.raises(UserError, match="board 1 is 2x3"):
        LakeEnv([DEMO_BOARDS[0], ROOM])
