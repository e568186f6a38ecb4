"""Served models: started, asked, changed, restarted and ended, without vLLM itself."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guessing import GuessingDomain

from coevolve.core.errors import PolicyError, UserError
from coevolve.core.rollout import Message
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.domains.turns import turn_limit
from coevolve.evaluation.attempts import attempts
from coevolve.policies import vllm
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.registry import check_policy, get_policy

FAKE = Path(__file__).parents[1] / "fake_vllm.py"
Log = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv(vllm.PROGRAM, str(program))
    monkeypatch.setenv("FAKE_VLLM", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(vllm, "cache_root", lambda: tmp_path / "cache")

    def told(what: str) -> list[dict[str, Any]]:
        lines = (tmp_path / "log.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["what"] == what]

    yield told
    vllm.end_servers()


def model(folder: Path, **config: Any) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 6, **config}))
    return str(folder)


def adapter(folder: Path, base: str, rank: int = 8) -> str:
    model(folder)
    config = {"base_model_name_or_path": base, "r": rank}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(os.urandom(8))
    return str(folder)


def prompts(count: int) -> list[Prompt]:
    return [Prompt((Message(role="user", content=str(number)),)) for number in range(count)]


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_a_server_is_started_asked_and_ended_with_its_children(log: Log, tmp_path: Path) -> None:
    base = model(tmp_path / "base", coevolve_styles={"lake": "cells"})
    policy, style = get_policy(f"vllm:{base}", get_domain("lake"))
    assert style == "cells"
    said = policy.answer(prompts(3), Sampling(seed=1))
    assert len({one.text for one in said}) == 3
    assert [one.completion_tokens for one in said] == [2, 2, 2]
    assert policy.answer(prompts(3), Sampling(seed=1)) is not None
    (start,) = log("start")
    words = start["words"]
    assert words[:2] == ["serve", base]
    assert words[words.index("--dtype") + 1] == "float32"
    assert words[words.index("--generation-config") + 1] == "vllm"  # no top_p of the model's own
    assert "--enable-lora" not in words
    vllm.end_servers()
    assert gone(start["pid"])
    assert gone(start["child"])


def test_a_server_that_dies_is_started_again_and_nothing_counts_twice(
    log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = vllm.VllmPolicy(f"vllm:{model(tmp_path / 'base')}")
    expected = [one.text for one in policy.answer(prompts(8), Sampling(seed=1))]
    (tmp_path / "die").touch()
    assert [one.text for one in policy.answer(prompts(8), Sampling(seed=1))] == expected
    assert len(log("start")) == 2
    assert policy.usage.completion_tokens == 2 * 8 * 2
    assert "starting it again" in capsys.readouterr().err


def test_adapters_change_while_the_server_runs(log: Log, tmp_path: Path) -> None:
    base = model(tmp_path / "base")
    first, second = (adapter(tmp_path / name, base) for name in ("first", "second"))
    one, other = vllm.VllmPolicy(f"vllm:{first}"), vllm.VllmPolicy(f"vllm:{base}+{second}")
    names = [policy.answer(prompts(1), Sampling())[0].text.split()[0] for policy in (one, other)]
    assert len(set(names)) == 2
    one.answer(prompts(1), Sampling())
    assert [line["path"] for line in log("adapter")] == [first, second]
    (start,) = log("start")
    assert "--enable-lora" in start["words"]
    plain = vllm.VllmPolicy(f"vllm:{base}")
    assert plain.answer(prompts(1), Sampling())[0].text.startswith("base ")
    assert len(log("start")) == 1


def test_other_weights_take_another_server_and_the_first_comes_back(
    log: Log, tmp_path: Path
) -> None:
    one = vllm.VllmPolicy(f"vllm:{model(tmp_path / 'one')}")
    vllm.VllmPolicy(f"vllm:{model(tmp_path / 'other')}").answer(prompts(1), Sampling())
    one.answer(prompts(1), Sampling())
    starts = log("start")
    assert [Path(line["words"][1]).name for line in starts] == ["one", "other", "one"]
    assert all(gone(line["child"]) for line in starts[:2])


def test_a_server_that_is_up_already_takes_adapters(log: Log, tmp_path: Path) -> None:
    base = model(tmp_path / "base")
    running = vllm.Server(base, 16)
    try:
        name = f"vllm:{running.url}#base+{adapter(tmp_path / 'mine', base)}"
        policy = vllm.VllmPolicy(name)
        assert policy.answer(prompts(1), Sampling())[0].text.startswith("adapter-")
        vllm.end_servers()
        assert running.answers()
        (tmp_path / "mine").rename(tmp_path / "moved")
        elsewhere = vllm.Server(f"{running.url}#base", 0)
        with pytest.raises(PolicyError, match="--enable-lora"):
            elsewhere.serve(str(tmp_path / "mine"))
    finally:
        running.end()


def test_what_cannot_be_served_is_said(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = model(tmp_path / "base")
    (tmp_path / "fail").touch()
    with pytest.raises(PolicyError, match="this model does not fit"):
        vllm.VllmPolicy(f"vllm:{base}")
    lake = get_domain("lake")
    for name, said in (
        (f"vllm:{base}+{tmp_path}", "no adapter_config.json"),
        ("vllm:http://127.0.0.1:9/v1", "names no model"),
        (f"vllm:{adapter(tmp_path / 'big', base, 4096)}", "rank 512, not 4096"),
    ):
        with pytest.raises(UserError, match=said):
            get_policy(name, lake)
    monkeypatch.setenv(vllm.PROGRAM, "/nowhere/vllm")
    with pytest.raises(UserError, match="pip install vllm"):
        check_policy(f"vllm:{base}", lake)


def test_gpus_are_shared_as_heads_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = model(tmp_path / "base")
    for given, count in (("0,1,2,3", 4), ("", 0), ("-1", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
        assert vllm.devices() == count
    words = vllm.options(base, 0, 4)
    assert words[words.index("--tensor-parallel-size") + 1] == "3"  # of 6 heads
    assert words[words.index("--dtype") + 1] == "bfloat16"


def test_plans_say_who_draws(tmp_path: Path) -> None:
    lake = get_domain("lake")
    base = model(tmp_path / "base")
    mine = adapter(tmp_path / "mine", base)
    up = "http://host:8000/v1#m"
    for generator, name, found in (
        ("local", mine, mine),
        ("vllm", mine, f"vllm:{mine}"),
        ("vllm", "greedy", "greedy"),
        (up, base, f"vllm:{up}"),
        (up, mine, f"vllm:{up}+{mine}"),
    ):
        assert vllm.drawn_by(generator, name, base, lake) == found
    with pytest.raises(UserError, match=r"recipe\.lora"):
        vllm.drawn_by(up, model(tmp_path / "stage"), base, lake)


def test_a_run_measures_through_vllm_and_trains_without_it(log: Log, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from coevolve.harness.plan import make_plan
    from coevolve.loop.create import create
    from coevolve.loop.loop import run_loop

    values = {
        "versions": 1, "engineers": ["fixed"], "generator": "vllm",
        "recipe": {"steps": 1, "tasks": 2, "group": 2, "max_tokens": 32},
        "target": {"dev": 8, "gate": 8, "max_tokens": 32},
    }  # fmt: skip
    lineage = run_loop(create(make_plan(values, "test"), tmp_path / "run"))
    assert lineage.nodes[0].train is not None
    starts = [line["words"][1] for line in log("start")]
    assert len(starts) == 2  # the policy it begins with, then what was trained
    assert starts[1].endswith("versions/00/stage/policy")
    assert all(gone(line["pid"]) for line in log("start")[:1])
    assert len(log("asked")) == 3 * 8


def test_a_run_of_adapters_is_probed_and_opened_through_vllm(log: Log, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    from coevolve.harness.plan import make_plan
    from coevolve.loop.create import create
    from coevolve.loop.loop import run_loop
    from coevolve.start import final

    values = {
        "versions": 2, "engineers": ["uniform"], "generator": "vllm",
        "start_from": "parent",
        "recipe": {"steps": 1, "tasks": 2, "group": 2, "max_tokens": 32, "lora": 4},
        "target": {"dev": 8, "gate": 8, "max_tokens": 32},
        "backtest": {"tasks": 16, "samples": 2},
        "gate": {"on": False},
    }  # fmt: skip
    lineage = run_loop(create(make_plan(values, "test"), tmp_path / "run"))
    assert len(lineage.nodes) == 2
    probes = list((tmp_path / "run").glob("versions/00/probes/*/evaluation.json"))
    assert probes
    before = len(log("asked"))
    assert len({line["model"] for line in log("asked")}) == 3  # the base, and two adapters
    final(tmp_path / "run", tasks=8)
    assert len(log("asked")) == before + 3 * 8  # untrained, and both versions
    assert all(gone(line["child"]) for line in log("start")[:-1])


def test_dialogues_are_played_with_a_served_model(log: Log, tmp_path: Path) -> None:
    domain = GuessingDomain()
    tasks = list(domain.generate(domain.space.parse({}), 3, 1, Split.DEV))
    policy = vllm.VllmPolicy(f"vllm:{model(tmp_path / 'base')}")
    (tmp_path / "die").write_text("5")  # messages: in the third turn
    found = list(attempts(domain, policy, tasks, Sampling(seed=1)))
    assert [one.task_id for one in found] == [task.id for task in tasks]
    for one, task in zip(found, tasks, strict=True):
        said = [turn.content for turn in one.messages if turn.role == "assistant"]
        assert len(said) == turn_limit(domain, task)
        assert said[2].startswith("base ")
        assert said[2].endswith("<answer>9006</answer>")  # after a system prompt and two turns
        assert one.completion_tokens == 2 * len(said)
    assert len(log("start")) == 2
