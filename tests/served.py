"""Folders of runs to serve: rounds, a tree of versions, one that failed, and comparisons."""

import json
import random
from pathlib import Path
from typing import Any

import synthetic
from runs import HOSTILE, make_run, metrics

from coevolve.core.splits import Split
from coevolve.evidence.cells import cells_of
from coevolve.evidence.store import write
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
from coevolve.harness.version import Version
from coevolve.ledger.ledger import Ledger

PARENTS: dict[int, int | None] = {0: None, 1: 0, 2: 0, 3: 1, 4: 1, 5: 3}
VERDICTS = {0: "root", 1: "kept", 2: "pruned", 3: "kept", 4: "rejected", 5: "reverted"}
PATCHES: dict[int, tuple[str, Any]] = {
    1: ("recipe.temperature", 0.7),
    2: ("reward", "reward - 0.1 * length"),
    3: ("recipe.group", 16),
    4: ("recipe.kl", 0.5),
    5: ("knobs", {"size5.data_ratio": 1.0}),
}
SKILL = """[cool_down]
summary = "Draw closer to what is likely"
factor = "recipe.temperature"
hypothesis = "If the temperature goes from {old} to {new}, then more is valid."
template = { kind = "scale", by = 0.7, low = 0.1, high = 2.0 }
evidence = [
    { run = "deep/tree", domain = "lake", version = 1, verdict = "kept", gain = 0.05, n = 40 },
    { run = "gone", domain = "lake", version = 3, verdict = "pruned", gain = 0.0, n = 40 },
]
"""


def rounds_run(folder: Path, words: str = "more holes", **changes: Any) -> None:
    """A finished run of three rounds, the second of which is reverted."""
    rounds = make_run(folder, words=words, **changes)
    rounds.run()
    rounds.ledger.close()


def harnesses() -> dict[int, tuple[Harness, Patch | None]]:
    """The harness of every version of the tree, each one patch away from its parent's."""
    found: dict[int, tuple[Harness, Patch | None]] = {0: (Harness(), None)}
    for number, (factor, value) in PATCHES.items():
        words = f"if {factor} is {value}, more is valid, because so"
        patch = Patch(factor=factor, value=value, hypothesis=words, least=0.01, author="rules")
        parent = PARENTS[number]
        assert parent is not None
        found[number] = patched(found[parent][0], patch), patch
    return found


def tree_run(folder: Path, text: str = "") -> None:
    """A tree of six versions as its ledger has it; `text` is put wherever a model may write."""
    rng = random.Random(3)
    config = {"name": "tree", "domain": "lake", "policy": "pocket", "versions": 6, "seed": 1}
    with Ledger.create(folder, config) as ledger, ledger.writing():
        base = [synthetic.rollout(rng, f"g{task}", split=Split.GATE) for task in range(40)]
        write(base, folder / "base" / "gate" / "part-00000.parquet")
        valid = sum(one.outcome.valid for one in base)
        ledger.phase(0, "base", lambda: {"valid": valid, "n": len(base)})
        for number, (harness, patch) in harnesses().items():
            verdict = VERDICTS[number]
            if patch and text:
                patch = patch.model_copy(update={"hypothesis": text, "author": text})
            version = Version(number=number, parent=PARENTS[number], patch=patch, harness=harness)
            made = {**version.model_dump(mode="json"), "author": text or "rules",
                    "skill": text or "cool down", "digest": harness.digest()}  # fmt: skip
            ledger.phase(number, "patch", lambda made=made: made)
            tested = {
                "words": f"backtest: {text or 'as predicted'}", "passed": verdict != "rejected",
                "prediction": "up",
                "measures": {"dead_after": {"value": 0.125, "n": 64, "low": 0.06, "high": 0.23}},
            }  # fmt: skip
            ledger.phase(number, "backtest", lambda tested=tested: tested)
            if verdict == "rejected":
                continue
            place = folder / "rounds" / f"{number:02d}"
            drawn = [
                synthetic.rollout(
                    rng, f"t{number}-{task}", tools=task % 2 == 1, sample=sample, step=task,
                    group=f"{task}",
                )
                for task in range(8)
                for sample in range(4)
            ]  # fmt: skip
            write(drawn, place / "stage" / "rollouts" / "step-000000-0.parquet")
            dev = [synthetic.rollout(rng, f"d{task}", split=Split.DEV) for task in range(40)]
            write(dev, place / "dev" / "part-00000.parquet")
            gate = [synthetic.rollout(rng, f"g{task}", split=Split.GATE) for task in range(40)]
            write(gate, place / "gate" / "part-00000.parquet")
            steps = [json.dumps({**metrics(number, step), "step": step}) for step in range(1, 9)]
            (place / "stage" / "steps.jsonl").write_text("\n".join(steps) + "\n")
            result = {"policy": f"p{number}", "steps": 8, "rollouts": 32, "tokens": 900,
                      "seconds": 1.5}  # fmt: skip
            ledger.phase(number, "train", lambda result=result: {"result": result})
            cells = [cell.model_dump() for cell in cells_of(dev)]
            ledger.phase(number, "dev", lambda cells=cells: {"cells": cells, "cases": []})
            change = {"mean": 0.05, "low": 0.01, "high": 0.09, "p": 0.02, "n": 40}
            judged = {
                "words": f"{verdict}: {text or 'so'}", "verdict": verdict, "change": change,
                "keep": verdict in ("kept", "root"),
                "base": {"better": verdict == "kept", "words": text or "so", "change": change},
                "best": {"version": 1, "words": f"version 1 is the best {text}"},
                "blocking": [{"words": f"critical: hacked_reward 0.2 > 0.1 {text}"}]
                if verdict == "reverted" else [],
            }  # fmt: skip
            ledger.phase(number, "gate", lambda judged=judged: judged)
        ledger.note("done")


def failed_run(folder: Path, words: str = "the disk is full") -> None:
    """A run that broke off in its first training."""
    rounds = make_run(folder)

    class Broken:
        name = "broken"

        def train(self, *_: Any) -> None:
            raise RuntimeError(words)

    rounds.engine = Broken()  # type: ignore[assignment]
    try:
        rounds.run()
    except RuntimeError:
        rounds.ledger.close()


def hostile_folder(root: Path) -> Path:
    """Markup in prompts, answers, SQL names, notes, skills and the names of runs."""
    name = "a <img src=x onerror=alert(9)> & 'b'"
    folder = root / name
    rounds_run(folder, words=HOSTILE, policy="hostile")
    with Ledger.open(folder) as ledger:
        ledger.note(HOSTILE[:60], words=HOSTILE)
        ledger.note("failed", error=HOSTILE)
    (folder / "diagnostics").mkdir()
    sql = "SELECT version, 1.0 AS value, count(*) AS n FROM rollouts GROUP BY version"
    (folder / "diagnostics" / "own.toml").write_text(
        f"[own]\nquestion = {json.dumps(HOSTILE[:90])}\nlayer = 'score'\nprovenance = 'a model'\n"
        f"sql = '''{sql} -- </pre><script>alert(4)</script>'''\n"
        "rollouts = '''reward >= 0 OR failure = '<script>alert(5)</script>' '''\n"
    )
    tree_run(root / "tree", HOSTILE[:200])
    (root / "skills").mkdir()
    (root / "skills" / "bad.toml").write_text(f"name = {json.dumps(HOSTILE[:80])}\n")
    (root / "skills" / "<b>.toml").write_text("this is <script>alert(6)</script> no TOML")
    return folder
