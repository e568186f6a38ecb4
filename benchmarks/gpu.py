"""Everything that is claimed of one GPU, in one command of at most ten minutes.

    python benchmarks/gpu.py FOLDER [--quick] [--only paces pocket smollm2]

Alone on the GPU: tokens per second of generation (benchmarks/generation.py), and GRPO steps of the
pocket policy beside bare TRL's (benchmarks/engine.py), and of eight trainings side by side
(benchmarks/side_by_side.py). Then, side by side, through NVIDIA's MPS
where it is installed: GRPO of the pocket policy over five seeds (benchmarks/gain.py), and a warm
start of SmolLM2-135M, a fifth of it lessons in engineering, and GRPO from it. All are measured on
the dev split and in the exam. Writes FOLDER/gpu.json.
--quick goes through the same steps in small.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from command import coevolve

HERE = Path(__file__).parent
PARTS = ("paces", "pocket", "smollm2")
SMALL = [
    word
    for knob in ("size3.data_ratio=0.3", "size4.data_ratio=0.3", "size5.data_ratio=0.4")
    for word in ("--knob", knob)
]
"""Boards that a language model learns within minutes: two agents, 3x3 to 5x5."""


def share_gpu() -> None:
    """Let processes compute at the same time instead of taking turns."""
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
        os.environ.setdefault(name, tempfile.mkdtemp())
    with contextlib.suppress(OSError):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], capture_output=True, check=False)


def timed(*words: str) -> Any:
    """A command of ours, timed; a failure is part of the report."""
    began = time.perf_counter()
    try:
        return coevolve(*words)
    except SystemExit as error:
        print(error, flush=True)
        return {"error": str(error)}
    finally:
        print(f"{time.perf_counter() - began:6.0f} s  coevolve {' '.join(words)}", flush=True)


def script(output: Path, name: str, *words: str) -> Any:
    """What a benchmark of this folder wrote, timed; a failure is part of the report."""
    command = [sys.executable, str(HERE / name), "--json", str(output), *words]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, said = time.perf_counter() - began, done.stdout + done.stderr[-3000:]
    print(f"{seconds:6.0f} s  {name} {' '.join(words)}\n{said}", flush=True)
    return json.loads(output.read_text()) if output.exists() else {"error": done.stderr[-3000:]}


def recipe(**fields: Any) -> list[str]:
    return [word for name, value in fields.items() for word in ("--recipe", f"{name}={value}")]


def exam(count: int) -> list[str]:
    """Words that measure how well policies engineer."""
    return ["--count", str(min(count, 300)), "--domain", "engineering", "--temperature", "0"]


def boards(count: int, temperature: int) -> list[str]:
    """Words that measure how well policies solve small boards."""
    return ["--count", str(count), "--seed", "5", *SMALL, "--temperature", str(temperature)]


def measured(policies: dict[str, str], kinds: dict[str, list[str]]) -> dict[str, Any]:
    """Rates of policies on the dev split, in several ways at once."""
    found: dict[str, Any] = {name: {} for name in policies}
    names = [word for policy in policies.values() for word in ("--policy", policy)]
    common = [*names, "--split", "dev", "--max-tokens", "128", "--batch", "1024"]
    keep = ("valid", "valid_interval", "optimal", "mean_reward", "mean_reward_interval", "n")
    with ThreadPoolExecutor(len(kinds)) as pool:
        rates = pool.map(lambda words: timed("evaluate", *common, *words), kinds.values())
    for kind, rated in zip(kinds, rates, strict=True):
        for name, one in zip(policies, rated if isinstance(rated, list) else [], strict=False):
            found[name][kind] = {key: one[key] for key in keep}
    return found


def steps_of(folder: Path) -> dict[str, Any]:
    """Pace and outcome of a stage, from its own record."""
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    later = lines[2:] or lines
    seconds = sum(line["seconds"] for line in later)
    drawing = sum(line.get("drawing_s", 0.0) for line in later)
    tokens = lines[-1].get("tokens", 0) - (lines[1].get("tokens", 0) if len(lines) > 2 else 0)
    return {
        "steps": len(lines),
        "seconds_per_step": seconds / len(later),
        "drawing_share": drawing / seconds,
        "tokens_per_second": tokens / seconds,
        "training_tokens_per_second": tokens / max(seconds - drawing, 1e-9),
        "first": lines[0],
        "last": lines[-1],
    }


def smollm2(folder: Path, quick: bool) -> dict[str, Any]:
    """A warm start, then GRPO."""
    count = 8 if quick else 1000
    warm = {"steps": 2, "tasks": 8} if quick else {"steps": 120, "tasks": 192, "micro_batch": 96}
    grpo = (
        {"steps": 2, "tasks": 2, "group": 4}
        if quick
        else {"steps": 24, "tasks": 32, "group": 16, "micro_batch": 256}
    )
    report: dict[str, Any] = {}
    report["warm"] = timed(
        "train", "warm", "--policy", "smollm2", "--output", str(folder / "warm"), *SMALL,
        "--lessons", "0.2", "--style", "cells,engineering=table",
        *recipe(**warm, learning_rate=5e-4, replay=0.3, max_tokens=128),
    )  # fmt: skip
    if "error" in report["warm"]:
        return report
    report["warm_steps"] = steps_of(folder / "warm")
    report["grpo"] = timed(
        "train", "grpo", "--policy", report["warm"]["policy"], "--output", str(folder / "grpo"),
        *SMALL, *recipe(**grpo, learning_rate=3e-5, max_tokens=128),
    )  # fmt: skip
    if "error" in report["grpo"]:
        return report
    report["grpo_steps"] = steps_of(folder / "grpo")
    policies = {kind: report[kind]["policy"] for kind in ("warm", "grpo")}
    kinds = {"greedy": boards(count, 0), "drawn": boards(count, 1), "exam": exam(count)}
    report["rates"] = measured(policies, kinds)
    return report


def pocket(folder: Path, quick: bool) -> dict[str, Any]:
    """GRPO over five seeds."""
    fields = (
        ["steps=2", "tasks=2", "group=4", "max_tokens=128"]
        if quick
        else ["steps=190", "tasks=64", "group=16", "learning_rate=1e-4", "max_tokens=128"]
    )
    count = 8 if quick else 1000
    report = script(
        folder / "gain.json", "gain.py", "--seeds", "2" if quick else "5", "--at-once", "6",
        "--count", str(count), "--folder", str(folder), "--recipe", *fields,
    )  # fmt: skip
    stages = [path.parent for path in sorted(folder.glob("*/stage/result.json"))]
    report["steps"] = [steps_of(stage) for stage in stages]
    policies = {"base": "pocket", **{one.parent.name: str(one / "policy") for one in stages}}
    return {**report, "exam": measured(policies, {"exam": exam(count)})}


def paces(folder: Path, quick: bool) -> dict[str, Any]:
    """Tokens per second of generation beside transformers', and of GRPO beside bare TRL's."""
    batch, most = ("4", "16") if quick else ("1024", "128")
    few = ["--steps", "2", "--turns", "1", "--tasks", "2", "--group", "4"]
    many = ["--steps", "12", "--turns", "1", "--tasks", "64", "--group", "16"]
    commands = {
        f"generation-{model}": [
            "generation.py", "--model", model, "--batch", batch, "--max-tokens", most,
            "--repeats", "1",
        ]
        for model in ("pocket", "smollm2")
    }  # fmt: skip
    commands["engine-pocket"] = ["engine.py", *(few if quick else many)]
    least = ["--trainings", "2", "--steps", "4", "--tasks", "2", "--group", "4"]
    commands["side-by-side"] = ["side_by_side.py", *(least if quick else [])]
    return {name: script(folder / f"{name}.json", *words) for name, words in commands.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"date": time.strftime("%Y-%m-%d")}

    def keep(name: str, found: Any) -> None:
        report[name] = found
        (arguments.folder / "gpu.json").write_text(json.dumps(report, indent=1))

    share_gpu()
    if "paces" in arguments.only:
        keep("paces", paces(arguments.folder, arguments.quick))  # alone on the GPU
    with ThreadPoolExecutor(2) as pool:
        arms = {
            pool.submit(arm, arguments.folder / arm.__name__, arguments.quick): arm.__name__
            for arm in (smollm2, pocket)
            if arm.__name__ in arguments.only
        }
        for arm in as_completed(arms):
            keep(arms[arm], arm.result())


if __name__ == "__main__":
    main()
