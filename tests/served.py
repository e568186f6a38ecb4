"""Folders of runs to serve: rounds, a tree of versions, one that failed, and what is hostile."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import synthetic
from pretended import HOSTILE, Saying, make_run, metrics
from synthetic import judged, record

from coevolve.core.splits import Split
from coevolve.engines.base import Result
from coevolve.harness.backtest import Backtest, Measure
from coevolve.harness.budget import Spent
from coevolve.harness.diagnostic import Alarm
from coevolve.harness.harness import Harness
from coevolve.harness.patch import Patch, patched
from coevolve.harness.plan import make_plan
from coevolve.harness.proposal import Proposal
from coevolve.harness.version import Verdict, Version
from coevolve.loop.loop import run_loop
from coevolve.store.cells import cells_of
from coevolve.store.ledger import Ledger
from coevolve.store.paths import RUN, generation_place, version_place
from coevolve.store.phases import (
    Best,
    Dev,
    Diagnose,
    Grown,
    Learn,
    Propose,
    Tests,
    Train,
    Tried,
    scores_of,
)
from coevolve.store.rollouts import write

PARENTS: dict[int, int | None] = {0: None, 1: 0, 2: 0, 3: 1, 4: 3}
GENERATIONS = {0: 0, 1: 1, 2: 1, 3: 2, 4: 3}
VERDICTS: dict[int, Verdict] = {0: "root", 1: "kept", 2: "pruned", 3: "kept", 4: "reverted"}
PATCHES: dict[int, tuple[str, Any]] = {
    1: ("recipe.temperature", 0.7),
    2: ("reward", "reward - 0.1 * length"),
    3: ("recipe.group", 16),
    4: ("knobs", {"size5.data_ratio": 1.0}),
}
REFUSED = ("recipe.kl", 0.5)
"""A patch of generation 2 that its backtest refused."""
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
    """A finished run of three versions, one after the other; the second is reverted."""
    run = make_run(folder, Saying(words), **changes)
    run_loop(run)
    run.ledger.close()


def patch_of(factor: str, value: Any, text: str = "") -> Patch:
    words = text or f"if {factor} is {value}, more is valid, because so"
    return Patch(
        factor=factor, value=value, hypothesis=words, least=0.01, author=text[:90] or "rules"
    )


def versions(text: str = "") -> list[Version]:
    """Every version of the tree, each one patch away from its parent."""
    found = [Version(number=0, parent=None, harness=Harness())]
    for number, (factor, value) in PATCHES.items():
        patch, parent = patch_of(factor, value, text), PARENTS[number]
        assert parent is not None
        harness = patched(found[parent].harness, patch)
        found.append(
            Version(
                number=number, generation=GENERATIONS[number], parent=parent, patch=patch,
                harness=harness, author=patch.author, skill=text or "cool down",
            )
        )  # fmt: skip
    return found


def tree_run(folder: Path, text: str = "") -> None:
    """A tree of five versions as its ledger has it; `text` is put wherever a model may write."""
    rng = random.Random(3)
    values = {
        "name": "tree", "versions": 5, "width": 2, "start_from": "base", "accept": "better",
        "engineers": ["rules"], "factors": ["all"], "seed": 1,
    }  # fmt: skip
    plan = make_plan(values, "test")
    with Ledger.create(folder, plan.model_dump(mode="json")) as ledger, ledger.writing():
        base = [synthetic.rollout(rng, f"g{task}", split=Split.GATE) for task in range(40)]
        write(base, folder / "base" / "gate" / "part-00000.parquet")
        record(ledger, RUN, "base", scores_of(base, Spent(rollouts=40)))
        every = versions(text)
        for generation in range(4):
            grown = [one for one in every if one.generation == generation]
            if generation:
                propose(ledger, generation, grown, text)
            for one in grown:
                record(ledger, version_place(one.number), "version", Grown(version=one, code="c"))
            for one in grown:
                train(ledger, rng, one, text)
            if generation:
                record(ledger, generation_place(generation), "learn", Learn())
        ledger.note("done")


def propose(ledger: Ledger, generation: int, grown: Sequence[Version], text: str) -> None:
    """What was said and tried before versions were trained."""
    place = generation_place(generation)
    tested = Backtest(
        passed=True, words=f"backtest: {text or 'as predicted'}", prediction="up",
        measures={"dead_after": Measure(value=0.125, n=64, low=0.06, high=0.23)},
    )  # fmt: skip
    tried = [
        Tried(author=one.author, patch=one.patch, skill=one.skill, backtest=tested)
        for one in grown
        if one.patch
    ]
    if generation == 2:
        refused = patch_of(*REFUSED, text)
        why = f"rejected by its backtest: {text or 'less signal'}"
        tried.append(Tried(author=refused.author, patch=refused, refused=why, backtest=tested))
    said = [Proposal(patch=one.patch, words=one.patch.hypothesis, shown=text) for one in tried]
    record(ledger, place, "diagnose", Diagnose(parent=grown[0].parent, failures=0, alarms=(text,)))
    record(ledger, place, "propose", Propose(note=text, proposals={"rules": tuple(said)}))
    record(ledger, place, "backtest", Tests(words=text or "taken: rules", tried=tuple(tried)))


def train(ledger: Ledger, rng: random.Random, version: Version, text: str) -> None:
    """A version's rollouts, phases and verdict."""
    number, place = version.number, ledger.folder / version_place(version.number)
    drawn = [
        synthetic.rollout(
            rng, f"t{number}-{task}", tools=task % 2 == 1, sample=sample, step=task, group=f"{task}"
        )
        for task in range(8)
        for sample in range(4)
    ]
    write(drawn, place / "stage" / "rollouts" / "step-000000-0.parquet")
    dev = [synthetic.rollout(rng, f"d{task}", split=Split.DEV) for task in range(40)]
    write(dev, place / "dev" / "part-00000.parquet")
    gate = [synthetic.rollout(rng, f"g{task}", split=Split.GATE) for task in range(40)]
    write(gate, place / "gate" / "part-00000.parquet")
    steps = [json.dumps(metrics(number, step)) for step in range(1, 9)]
    (place / "stage" / "steps.jsonl").write_text("\n".join(steps) + "\n")
    result = Result(policy=f"p{number}", steps=8, rollouts=32, tokens=900, seconds=1.5)
    alarm = Alarm(
        diagnostic="hacked_reward", layer="score", version=number, level="critical", value=0.2,
        threshold=0.1, direction="above", n=32, blocks=True,
    )  # fmt: skip
    verdict = VERDICTS[number]
    judgement = judged(
        verdict, version.parent, words=f"{verdict}: {text or 'so'}",
        scores=scores_of(gate, Spent(rollouts=40)),
        best=Best(version=1 if number else None, words=f"version 1 is the best {text}"),
        blocking=(alarm,) if verdict == "reverted" else (),
    )  # fmt: skip
    where = version_place(number)
    record(ledger, where, "train", Train(result=result, cells=tuple(cells_of(drawn))))
    record(ledger, where, "dev", Dev(cells=tuple(cells_of(dev)), cases=()))
    record(ledger, where, "gate", judgement)


def failed_run(folder: Path, words: str = "the disk is full") -> None:
    """A run that broke off in its first training."""
    run = make_run(folder)

    def broken(folders: Sequence[Path]) -> None:
        raise RuntimeError(words)

    run.work = broken
    try:
        run_loop(run)
    except RuntimeError:
        run.ledger.close()


def hostile_folder(root: Path) -> Path:
    """Markup in prompts, answers, SQL names, notes, skills and the names of runs."""
    name = "a <img src=x onerror=alert(9)> & 'b'"
    folder = root / name
    rounds_run(folder, words=HOSTILE, policy="hostile")
    with Ledger.open(folder) as ledger:
        ledger.note(HOSTILE[:60], words=HOSTILE)
        ledger.note("failed", error=HOSTILE)
    (folder / "diagnostics").mkdir(exist_ok=True)
    sql = "SELECT version, 1.0 AS value, count(*) AS n FROM rollouts GROUP BY version"
    (folder / "diagnostics" / "own.toml").write_text(
        f"[own]\nquestion = {json.dumps(HOSTILE[:90])}\nlayer = 'score'\nprovenance = 'a model'\n"
        f"sql = '''{sql} -- </pre><script>alert(4)</script>'''\n"
        "rollouts = '''reward >= 0 OR failure = '<script>alert(5)</script>' '''\n"
    )
    tree_run(root / "tree", HOSTILE[:200])
    (root / "skills").mkdir(exist_ok=True)
    (root / "skills" / "bad.toml").write_text(f"name = {json.dumps(HOSTILE[:80])}\n")
    (root / "skills" / "<b>.toml").write_text("this is <script>alert(6)</script> no TOML")
    return folder
