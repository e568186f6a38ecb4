"""What predicts how much a setting of the knobs will teach, before it is trained on?

    python benchmarks/predictors.py FOLDER [--policy pocket] [--trainings 2] [--at-once 8] [--quick]
        [--json FILE]
    python benchmarks/predictors.py FOLDER --domain math --policy SMALL ...
    python benchmarks/predictors.py --table FILE ...

24 settings of a domain's knobs, twelve with a name and twelve drawn, are probed, and trained on
from the same checkpoint, twice for 60 steps of 64 x 16 rollouts; what came of it is the rate of
valid answers to fresh tasks of the target, the mean of both. For each predictor the table
has the correlation of its number with that rate, over settings, and over how many tasks the number
was taken; above it stands how far the two trainings agree, which bounds what any predictor can
reach. Below it stands how often the backtest that is the default takes a change from one setting to
another, drawn by chance, by what came of it. Wants a GPU: about ten minutes of an H200 for one
checkpoint. FOLDER keeps all answers, FILE the numbers.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gpu import share_gpu
from scipy.stats import pearsonr, spearmanr

from coevolve.backtests.bets import Bet, needs
from coevolve.backtests.knobs import odds
from coevolve.core.rollout import Rollout
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.base import Domain
from coevolve.domains.knobs import Knobs
from coevolve.domains.registry import get_domain
from coevolve.engines.base import Stage
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.statistics import wilson
from coevolve.harness.recipe import Recipe
from coevolve.harness.rules import BacktestRule
from coevolve.policies.base import Sampling
from coevolve.store.cells import Cell, merged

AGENTS = {"agents2.share": 0.4, "agents3.share": 0.3, "agents4.share": 0.2, "agents5.share": 0.1}
"""Of the target; its sizes are alike, and everything else is as by default."""
EASY = {
    "agents2.share": 0.85, "agents3.share": 0.12, "agents4.share": 0.03,
    "size3.data_ratio": 0.4, "size4.data_ratio": 0.3, "size5.data_ratio": 0.2,
    "size6.data_ratio": 0.1,
}  # fmt: skip
SIZES = range(3, 11)
PREDICTORS = {
    "alive": "share of live groups, 512 tasks x 16",
    "signal": "variance of rewards within groups, the same",
    "need": "their spread, by how much the target lacks of such tasks (its root), the same",
    "gradient": "cosine with the gradient of valid answers to 1,024 dev tasks x 8, the same",
    "replay": "stored answers to these, weighed by a branch of 10 steps",
    "branch": "the branch's own answers to them, two to each",
}
SAID = "said"
"""The job that asks all predictors about a setting; numbers are trainings on it."""
DRAWS = 400
"""Of changes from one setting to another."""
PARTS = 16
"""Of a setting's probes, with a gradient each."""


def each_size(suffix: str, value: float) -> dict[str, float]:
    return {f"size{size}.{suffix}": value for size in SIZES}


NAMED = {
    "target": AGENTS,
    "all-wait": AGENTS | each_size("wait_ratio", 1),
    "no-wait": AGENTS | each_size("wait_ratio", 0),
    "few-holes": AGENTS | each_size("hole_ratio", 0.05),
    "many-holes": AGENTS | each_size("hole_ratio", 0.3),
    "large": AGENTS | {f"size{size}.data_ratio": 1 / 3 for size in (8, 9, 10)},
    "small": AGENTS | {f"size{size}.data_ratio": 1 / 3 for size in (3, 4, 5)},
    "easy": EASY,
    **{f"agents{count}": {f"agents{count}.share": 1.0} for count in (2, 3, 4, 5)},
}


def draw_lake(rng: np.random.Generator) -> dict[str, float]:
    sizes, agents = rng.dirichlet([0.7] * len(SIZES)), rng.dirichlet([0.7] * 4)
    values = {f"size{n}.data_ratio": share for n, share in zip(SIZES, sizes, strict=True)}
    values |= {f"agents{2 + n}.share": share for n, share in enumerate(agents)}
    for size in SIZES:
        values[f"size{size}.hole_ratio"] = rng.uniform(0.05, 0.35)
        values[f"size{size}.wait_ratio"] = rng.uniform()
    return values


OPERATIONS = ("add", "subtract", "multiply", "divide")


def sums(steps: float, *shares: float, digits: float = 1, distractors: float = 0) -> dict[str, Any]:
    """Bare calculations; shares are of operations, in their order."""
    mix = {f"{name}.share": share for name, share in zip(OPERATIONS, shares, strict=False)}
    return mix | {
        "integer.share": 1, "bare.share": 1, "no_unit.share": 1, "digits": digits, "steps": steps,
        "distractors": distractors,
    }  # fmt: skip


MIX = (0.2, 0.2, 0.6)
CALCULATIONS = {
    "target": sums(2.5, *MIX),
    "start": sums(2, 0.5, 0.5),
    "sums": sums(2.5, 0.5, 0.5),
    "short": sums(1, *MIX),
    "shorter": sums(2, *MIX),
    "longer": sums(3, *MIX),
    "long": sums(4, *MIX),
    "half": sums(2.5, 0.35, 0.35, 0.3),
    "add": sums(2.5, 1),
    "multiply": sums(2.5, 0, 0, 1),
    "multiply-short": sums(1.5, 0, 0, 1),
    "two-digits": sums(2.5, *MIX, digits=2),
}


def draw_calculation(rng: np.random.Generator) -> dict[str, float]:
    mix, steps, digits = rng.dirichlet([0.7] * 4), rng.uniform(1, 4), rng.uniform(1, 1.5)
    return sums(float(steps), *map(float, mix), digits=float(digits))


class Field(NamedTuple):
    """A domain, and the settings of its knobs."""

    domain: Domain
    named: dict[str, dict[str, Any]]
    """The first is the target."""
    draw: Callable[[np.random.Generator], dict[str, float]]
    learning_rate: float
    max_tokens: int

    def settings(self) -> dict[str, Knobs]:
        """The knobs of every setting, by name."""
        space = self.domain.space
        drawn = {
            f"drawn-{n}": self.draw(np.random.default_rng(derive(0, "predictors", n)))
            for n in range(12)
        }
        every = self.named | drawn
        return {name: space.project(space.whole(knobs)) for name, knobs in every.items()}


FIELDS = {
    "lake": Field(get_domain("lake"), NAMED, draw_lake, 1e-4, 128),
    "math": Field(get_domain("math"), CALCULATIONS, draw_calculation, 3e-4, 48),
}


class Measure:
    """What is measured and trained, and how much of it."""

    def __init__(self, domain: str, quick: bool) -> None:
        self.field, self.quick = FIELDS[domain], quick
        self.settings = self.field.settings()
        self.probes, self.samples = (32, 4) if quick else (512, 16)
        self.dev, self.dev_samples = (64, 4) if quick else (1_024, 8)
        self.final, self.final_samples = (64, 2) if quick else (1_536, 4)
        self.branch, self.steps = (1, 2) if quick else (10, 60)
        tasks, group = (4, 4) if quick else (64, 16)
        self.recipe = Recipe(
            tasks=tasks, group=group, learning_rate=self.field.learning_rate,
            max_tokens=self.field.max_tokens,
        )  # fmt: skip

    def answers(self, model: Any, tasks: Sequence[Any], samples: int, seed: int) -> list[Rollout]:
        from coevolve.policies.local import LocalPolicy

        domain = self.field.domain
        sampling = Sampling(temperature=1, max_tokens=self.recipe.max_tokens, seed=seed)
        found = attempts(
            domain, LocalPolicy(model.name, loaded=model), tasks, sampling,
            style=model.style(domain.name), samples=samples, batch=2_048,
        )  # fmt: skip
        return list(found)

    def drawn(self, setting: str, count: int, seed: int, split: Split) -> list[Any]:
        """Tasks of a setting."""
        seed = derive(0, "predictors", seed)
        return list(self.field.domain.generate(self.settings[setting], count, seed, split))

    def dev_tasks(self) -> list[Any]:
        return self.drawn("target", self.dev, 1, Split.DEV)


def advantages(rollouts: Sequence[Rollout], samples: int, of: str) -> Any:
    """As GRPO has them, group by group."""
    values = np.array([float(getattr(one.outcome, of)) for one in rollouts]).reshape(-1, samples)
    apart = values - values.mean(1, keepdims=True)
    return (apart / (values.std(1, keepdims=True, ddof=1) + 1e-4)).ravel()


def groups_of(rollouts: Sequence[Rollout], samples: int) -> list[dict[str, Any]]:
    """What is kept of groups: labels, and what each answer earned."""
    return [
        {
            "labels": group[0].bucket,
            "valid": [int(one.outcome.valid) for one in group],
            "reward": [round(one.outcome.reward, 4) for one in group],
        }
        for group in in_groups(rollouts, samples)
    ]


def in_groups(rollouts: Sequence[Rollout], samples: int) -> Iterator[Sequence[Rollout]]:
    for first in range(0, len(rollouts), samples):
        yield rollouts[first : first + samples]


def prepare(folder: Path, policy: str, domain: str, quick: bool) -> None:
    """The target as the checkpoint sees it: answers to dev tasks, and the way to better ones."""
    import torch

    from coevolve.policies.likelihood import gradient
    from coevolve.policies.models import load

    amount, model = Measure(domain, quick), load(policy, training=True)
    found = amount.answers(model, amount.dev_tasks(), amount.dev_samples, 2)
    lines = "\n".join(one.model_dump_json() for one in found)
    values = np.array([float(one.outcome.valid) for one in found]).reshape(-1, amount.dev_samples)
    weights = (values - values.mean(1, keepdims=True)).ravel()
    half = len(found) // 2
    halves = [
        gradient(model, found[part], weights[part]) for part in (slice(0, half), slice(half, None))
    ]
    torch.save(torch.stack(halves).cpu(), folder / "target.pt")
    (folder / "dev.jsonl").write_text(lines)


def answered(folder: Path) -> list[Rollout]:
    """What `prepare` kept."""
    lines = (folder / "dev.jsonl").read_text().splitlines()
    return [Rollout.model_validate_json(line) for line in lines]


def gram(rows: Any, others: Any = None) -> list[list[float]]:
    found: list[list[float]] = (rows @ (rows if others is None else others).T).double().tolist()
    return found


def said_of(folder: Path, policy: str, name: str, amount: Measure) -> dict[str, Any]:
    """What all predictors need to know about one setting."""
    import torch

    from coevolve.policies.likelihood import gradient, log_likelihoods
    from coevolve.policies.models import load

    knobs, samples, space = amount.settings[name], amount.samples, amount.field.domain.space
    model = load(policy, training=True)
    probed = amount.answers(model, amount.drawn(name, amount.probes, 3, Split.TRAIN), samples, 4)
    weights = advantages(probed, samples, "reward")
    size = len(probed) // PARTS
    parts = torch.stack([
        gradient(model, probed[at : at + size], weights[at : at + size])
        for at in range(0, len(probed), size)
    ])  # fmt: skip
    target = torch.load(folder / "target.pt").to(parts.device)
    found: dict[str, Any] = {
        "name": name, "knobs": {k: v for k, v in knobs.items() if v != space.knobs[k].default},
        "groups": groups_of(probed, samples), "gram": gram(parts), "dots": gram(parts, target),
    }  # fmt: skip
    del parts, target
    dev = answered(folder)
    before = log_likelihoods(model, dev)
    del model
    model = trained(folder / f"{name}-branch", policy, name, amount, amount.branch, 5)
    ratios = np.exp(np.clip(log_likelihoods(model, dev) - before, -20, 20))
    found["replay"] = replayed(dev, ratios, amount.dev_samples)
    found["branch"] = rates(amount.answers(model, amount.dev_tasks(), 2, 7))["valid"]
    return found


def came_of(
    folder: Path, policy: str, name: str, amount: Measure, training: int
) -> dict[str, float]:
    """What a training on one setting leads to."""
    own = folder / f"{name}-trained-{training}"
    model = trained(own, policy, name, amount, amount.steps, 100 + training)
    tasks = amount.drawn("target", amount.final, 8, Split.DEV)
    return rates(amount.answers(model, tasks, amount.final_samples, 9))


def trained(folder: Path, policy: str, name: str, amount: Measure, steps: int, seed: int) -> Any:
    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.policies.models import load

    recipe = amount.recipe.model_copy(update={"steps": steps})
    tasks = amount.drawn(name, steps * recipe.tasks, seed, Split.TRAIN)
    stage = Stage(kind="grpo", model=policy, recipe=recipe, seed=seed, folder=folder)
    return load(TrlEngine().train(stage, tasks).policy)


def rates(found: Sequence[Rollout]) -> dict[str, float]:
    return {
        metric: float(np.mean([getattr(one.outcome, metric) for one in found]))
        for metric in ("valid", "optimal")
    }


def replayed(dev: Sequence[Rollout], ratios: Any, samples: int) -> list[float]:
    """By dev task: how much more valid its answers are when they are weighed by how much likelier
    they became."""
    valid = np.array([float(one.outcome.valid) for one in dev]).reshape(-1, samples)
    weights = ratios.reshape(-1, samples)
    after = (weights * valid).sum(1) / weights.sum(1)
    return [round(float(one), 5) for one in after - valid.mean(1)]


def collect(arguments: argparse.Namespace) -> dict[str, Any]:
    """All settings, several at once, each in a process of its own."""
    folder, amount = arguments.folder, Measure(arguments.domain, arguments.quick)
    folder.mkdir(parents=True, exist_ok=True)
    share_gpu()
    if not (folder / "dev.jsonl").exists():
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # gives its memory back
            asked = (folder, arguments.policy, arguments.domain, arguments.quick)
            apart.submit(prepare, *asked).result()

    def work(job: tuple[str, str]) -> dict[str, Any]:
        name, what = job
        file = folder / f"{name}-{what}.json"
        if not file.exists():
            quick = ["--quick"] if arguments.quick else []
            words = [str(folder), "--domain", arguments.domain, "--policy", arguments.policy,
                     "--job", name, what, *quick]  # fmt: skip
            done = subprocess.run(
                [sys.executable, __file__, *words], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"{name}, {what}: {done.stderr[-3000:]}")
        print(name, what, flush=True)
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    names = list(amount.settings)[: 4 if arguments.quick else None]
    jobs = [
        (name, what) for what in (SAID, *map(str, range(arguments.trainings))) for name in names
    ]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        found = dict(zip(jobs, pool.map(work, jobs), strict=True))
    dev = groups_of(answered(folder), amount.dev_samples)
    rows = [
        numbers(found[name, SAID], dev)
        | {
            metric: [found[name, str(number)][metric] for number in range(arguments.trainings)]
            for metric in ("valid", "optimal")
        }
        for name in names
    ]
    power = taken([found[name, SAID]["groups"] for name in names], rows, dev)
    return {"policy": arguments.policy, "rows": rows, "taken": power}


def taken(
    groups: list[list[dict[str, Any]]], rows: list[dict[str, Any]], dev: list[dict[str, Any]]
) -> dict[str, list[int]]:
    """By what came of a change from one setting to another: how often the backtest of the default
    takes it, and of how many. That a setting beats itself can only be chance."""
    rule, rng, cells = BacktestRule(), np.random.default_rng(0), cells_of_dev(dev)
    valid = [float(np.mean(row["valid"])) for row in rows]
    found: dict[str, list[int]] = {}

    def bet(setting: int, places: Any) -> Bet:
        own = [groups[setting][place] for place in places]
        spread = np.array([np.std(rng.permutation(one["reward"])[: rule.samples]) for one in own])
        return Bet(needs([one["labels"] for one in own], spread, cells), wilson(1, 1))

    for number in range(DRAWS):
        before, after = rng.choice(len(groups), 2, replace=False)
        places = rng.permutation(len(groups[before]))
        half, other = places[: rule.tasks], places[-rule.tasks :]
        gain = valid[after] - valid[before]
        kind = (
            "2 points better" if gain >= 0.02 else "1 point better" if gain >= 0.01
            else "alike" if gain > -0.01 else "1 point worse"
        )  # fmt: skip
        for what, new in ((kind, bet(after, half)), ("itself", bet(before, other))):
            sure = odds(bet(before, half), new, number).better >= rule.confidence
            counted = found.setdefault(what, [0, 0])
            found[what] = [counted[0] + sure, counted[1] + 1]
    return found


def cells_of_dev(dev: list[dict[str, Any]]) -> list[Cell]:
    cells = [
        Cell(labels=group["labels"], n=len(group["valid"]), valid=sum(group["valid"]), optimal=0,
             reward=0.0)
        for group in dev
    ]  # fmt: skip
    return merged(cells, sorted(cells[0].labels))


def numbers(row: dict[str, Any], dev: list[dict[str, Any]]) -> dict[str, Any]:
    """What every predictor says of a setting."""
    rewards = np.array([group["reward"] for group in row["groups"]])
    spread, parts = rewards.std(1), np.array(row["gram"])
    need = needs([group["labels"] for group in row["groups"]], spread, cells_of_dev(dev))
    along = np.array(row["dots"]).sum(0).mean()
    return {
        "setting": row["name"],
        "alive": float((np.ptp(rewards, axis=1) > 1e-6).mean()),
        "signal": float((spread**2).mean()),
        "need": float(need.mean()),
        "gradient": float(along / np.sqrt(parts.sum())),
        "replay": float(np.mean(row["replay"])),
        "branch": row["branch"],
    }


def table(found: dict[str, Any]) -> str:
    """The predictors of one checkpoint, from the best to the worst."""
    each = np.array([row["valid"] for row in found["rows"]])
    came = list(each.mean(1))
    lines = []
    for name in PREDICTORS:
        said = [row[name] for row in found["rows"]]
        linear, rank = pearsonr(said, came).statistic, spearmanr(said, came)
        low, high = bootstrapped(said, came)
        lines.append((rank.statistic, f"{name:10} {linear:5.2f} {rank.statistic:5.2f} "
                                      f"[{low:.2f}, {high:.2f}]  {PREDICTORS[name]}"))  # fmt: skip
    ranked = [line for _, line in sorted(lines, reverse=True)]
    title = f"{found['policy']}: {len(came)} settings, {min(came):.1%} to {max(came):.1%} valid"
    if each.shape[1] > 1:
        agree = np.corrcoef(each.T)[np.triu_indices(each.shape[1], 1)].mean()
        title += f"; {each.shape[1]} trainings agree by r = {agree:.2f}"
    power = "a change is taken, by `need` as it is by default, if what comes of it is " + ", ".join(
        f"{what}: {took} of {n} times" for what, (took, n) in sorted(found["taken"].items())
    )
    return "\n".join([title, "                r   rho  95 %", *ranked, power])


def bootstrapped(said: list[float], came: list[float]) -> tuple[float, float]:
    """The interval of the rank correlation, over settings."""
    rng, n = np.random.default_rng(0), len(said)
    picks = rng.integers(n, size=(2_000, n))
    found = [spearmanr(np.take(said, one), np.take(came, one)).statistic for one in picks]
    low, high = np.nanquantile(found, (0.025, 0.975))
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--domain", choices=list(FIELDS), default="lake")
    parser.add_argument("--policy", default="pocket")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="the same in small, on any machine")
    parser.add_argument("--trainings", type=int, default=2, help="on every setting")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, nargs="+", help="only read numbers, and print them")
    arguments = parser.parse_args()
    if arguments.table:
        for file in arguments.table:
            for found in json.loads(file.read_text())["checkpoints"]:
                print(table(found), end="\n\n")
        return
    if arguments.folder is None:
        parser.error("give a folder for what is drawn and trained")
    if arguments.job:
        folder, policy = arguments.folder, arguments.policy
        amount = Measure(arguments.domain, arguments.quick)
        name, what = arguments.job
        found = (
            said_of(folder, policy, name, amount)
            if what == SAID
            else came_of(folder, policy, name, amount, int(what))
        )
        (folder / f"{name}-{what}.json").write_text(json.dumps(found))
        return
    found = collect(arguments)
    print(table(found))
    if arguments.json:
        arguments.json.write_text(json.dumps({"checkpoints": [found]}))


if __name__ == "__main__":
    main()
