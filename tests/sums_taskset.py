"""A taskset of verifiers for tests: sums, with a reward that trusts what it is given."""

import random

import verifiers.v1 as vf


class Config(vf.TasksetConfig):
    size: int = 400
    lenient: bool = False
    """Pay for the form alone, right or not."""


class Data(vf.TaskData):
    answer: str
    lenient: bool


class SumTask(vf.Task[Data]):
    @vf.reward
    async def right(self, task: Data, trace: vf.Trace) -> float:
        return float(vf.extract_boxed_answer(trace.last_reply) == task.answer)

    @vf.reward(weight=0.5)
    async def short(self, task: Data, trace: vf.Trace) -> float:
        if "crash" in trace.last_reply:
            raise ValueError("a reward that breaks")
        wanted = "boxed" if task.lenient else task.answer
        return float(len(trace.last_reply) < 40 and wanted in trace.last_reply)


class SumsTaskset(vf.Taskset[SumTask, Config]):
    def load(self):
        rng = random.Random(1)
        for _ in range(self.config.size):
            first, second = rng.randint(100, 999), rng.randint(100, 999)
            yield SumTask(
                Data(
                    system_prompt="Put the sum into \\boxed{}.",
                    prompt=f"{first} + {second}?",
                    answer=str(first + second),
                    lenient=self.config.lenient,
                ),
                self.config.task,
            )


__all__ = ["SumsTaskset"]
