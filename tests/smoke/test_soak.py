"""The soak itself: it sees what differs and what is lost, and a short one finds nothing of it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="engineers behind an address need the extra `endpoint`")
from coevolve.core.rollout import Message
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.endpoint import EndpointPolicy
from coevolve.store.ledger import Ledger

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import soak as found

    return found


def made(folder: Path, verdict: str = "kept", phases: int = 3) -> Path:
    """A record of so many phases, made just now."""
    with Ledger.create(folder, {"name": "run"}) as ledger:
        for number in range(phases):
            facts = {"verdict": verdict, "spent": {"seconds": time.monotonic()}, "weights": "ab"}
            ledger.phase(f"versions/{number:02d}", "gate", lambda facts=facts: facts)
        ledger.note("done", version=1)
    return folder


def test_what_differs_is_named_and_times_are_not(soak: Any, tmp_path: Path) -> None:
    one = soak.decisions(made(tmp_path / "one"))
    assert soak.differences(one, soak.decisions(made(tmp_path / "same"))) == []
    found = soak.differences(one, soak.decisions(made(tmp_path / "other", "reverted")))
    assert len(found) == 3
    assert found[0] == "/versions/00/gate/verdict: 'kept' and 'reverted'"
    found = soak.differences(one, soak.decisions(made(tmp_path / "short", phases=2)))
    assert [place.partition(":")[0] for place in found] == ["/versions/02/gate"]


def test_events_that_are_gone_are_missed(soak: Any, tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    before = soak.events(folder)
    assert soak.lost(folder, before, before) == []
    fewer = soak.events(made(tmp_path / "other", phases=2))
    assert len(soak.lost(folder, before, {n: before[n] for n in fewer})) == 2
    assert len(soak.lost(folder, before, {**before, 3: ("phase", None, None, "")})) == 1
    assert soak.events(tmp_path / "none") == {}


def ask(address: str, key: str, model: str) -> str:
    policy = EndpointPolicy(address, model, api_key=key, timeout_s=20, backoff_s=0.01)
    prompt = Prompt((Message(role="user", content="what next?"),), None, 0)
    (found,) = policy.answer([prompt], Sampling(max_tokens=9))
    policy.close()
    return found.text


def test_an_engineer_that_fails_says_what_it_would_have_said(soak: Any) -> None:
    with soak.engineers(seed=3, hang_s=0.05, endless=False) as server:
        calm = ask(server.address, "calm", "steady")
        assert server.faults.total() == 0
        assert {ask(server.address, soak.STORMY, "steady") for _ in range(12)} == {calm}
        assert server.faults.total() >= 2
        assert server.answers == 12
    tries = [server.fault("x") for _ in range(3_000)]
    assert 0.2 < sum(map(bool, tries)) / len(tries) < 0.4
    assert set(tries) == {"", *soak.FAULTS}


@pytest.mark.parametrize("mounted", [True, False])
def test_a_disk_is_full_for_a_while(soak: Any, tmp_path: Path, mounted: bool) -> None:
    with soak.disk(tmp_path / "disk") as place:
        if mounted and not place.mounted:
            pytest.skip("no file system can be mounted here")
        place.mounted = mounted
        script = f"open({str(place.place / 'x')!r}, 'w').write('x' * 9999)"
        words = [sys.executable, "-c", f"input(); {script}"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with place.full(process.pid):
            _, said = process.communicate("\n", timeout=60)
        assert "OSError" in said
        (place.place / "y").write_text("y" * 9_999)


@pytest.mark.slow
def test_a_short_soak_finds_nothing(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="training needs the extra `train`")
    words = ["--minutes", "0.5", "--seed", "4", "--json", tmp_path / "facts.json"]
    command = [sys.executable, BENCHMARKS / "soak.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["runs"] >= 1
    assert facts["fillings"] == 2
    assert facts["kills"] + facts["runs"] >= 2
