"""Judging and recording a step: all answers together, beside the same answers one by one.

    python benchmarks/judging.py [--tasks 64] [--group 16] [--repeats 9] [--json FILE]

The answers are drawn by the pocket policy. Together is what the trainer waits for
(`Recorder.score`), and with it all that the writer does; one by one is a rollout after another, and
the same file. CPU time of this process, in turns, medians.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engines.trl.recorder import Attempt, Recorder, Tried
from coevolve.evaluation.judge import judge, said
from coevolve.evaluation.shape import shaped
from coevolve.policies.base import Prompt, Sampling
from coevolve.policies.local import LocalPolicy
from coevolve.store.rollouts import write
from coevolve.store.shards import read

LEAST = 4.0
"""How many times sooner the trainer goes on."""


def drawn(tasks: int, group: int) -> list[Attempt]:
    """Answers of the pocket policy, as the trainer has them."""
    domain, policy = get_domain("lake"), LocalPolicy("pocket")
    style = policy.loaded.style("lake")
    made = domain.generate(domain.space.parse({}), tasks, 1, Split.TRAIN)
    prompts = [
        Prompt(domain.prompt(task, style), task, sample) for task in made for sample in range(group)
    ]
    answers = policy.answer(prompts, Sampling(max_tokens=128))
    return [Attempt(*pair, said(pair[1])) for pair in zip(prompts, answers, strict=True)]


def spent(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    domain = get_domain("lake")
    attempts = drawn(arguments.tasks, arguments.group)
    groups = [place // arguments.group for place in range(len(attempts))]
    times: dict[str, list[float]] = {"waited": [], "together": [], "one by one": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorder = Recorder({"lake": domain}, folder / "together", "pocket", 0, "reward")

        def alone() -> None:
            found = [judge(domain, [a.prompt], [a.completion], "pocket")[0] for a in attempts]
            rewards = shaped("reward", found, domain.components).values.tolist()
            rollouts = [
                one.model_copy(update={"step": 0, "shaped": reward, "group": f"0/{group}"})
                for one, reward, group in zip(found, rewards, groups, strict=True)
            ]
            write(rollouts, folder / "alone" / "step-000000-0.parquet")

        def scored() -> None:
            tried = Tried()
            recorder.score(tried, attempts, groups)
            recorder.record(tried, 0)

        for turn in range(arguments.repeats + 1):
            waited = spent(scored)
            written = spent(recorder.flush)
            one_by_one = spent(alone)
            if turn:  # the first is for compiling
                times["waited"].append(waited)
                times["together"].append(waited + written)
                times["one by one"].append(one_by_one)
        recorder.close()
        if not read(folder / "together").equals(read(folder / "alone")):
            raise SystemExit("what was recorded differs")
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio, whole = (medians["one by one"] / medians[name] for name in ("waited", "together"))
    print(f"{len(attempts)} answers of pocket, CPU milliseconds, medians of {arguments.repeats}")
    for name, value in medians.items():
        print(f"  {name:10} {1000 * value:6.1f}")
    print(f"one by one / waited for: {ratio:.1f} (at least {LEAST}); / together: {whole:.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"ratio": ratio, "whole": whole, **medians}))
    if ratio < LEAST:
        raise SystemExit("a limit was missed")


if __name__ == "__main__":
    main()
