"""What `swift_grpo.py` has ms-swift load: the stage's judge as a reward, and prompts as they are.

Runs where ms-swift is installed and needs nothing of coevolve there: the judge is a process of the
Python that runs coevolve. Every attempt is noted in swift/attempts-RANK.jsonl, with its reward.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from swift.model import ModelMeta, register_model
from swift.rewards import ORM, orms
from swift.template import TemplateMeta, register_template

# The chat template is applied already, so nothing is put around a prompt.
register_template(TemplateMeta("stage", prefix=[], prompt=["{{QUERY}}"], chat_sep=None))
register_model(ModelMeta("stage", [], template="stage"))


class StageJudge(ORM):
    """Pays what `python -m coevolve.engines.score FOLDER` says."""

    def __init__(self, args: Any = None, **more: Any) -> None:
        super().__init__(args, **more)
        python, folder = os.environ["COEVOLVE_PYTHON"], os.environ["COEVOLVE_STAGE"]
        self.judge = subprocess.Popen(
            [python, "-m", "coevolve.engines.score", folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.notes = Path(folder) / "swift" / f"attempts-{os.environ.get('RANK', 0)}.jsonl"

    def __call__(
        self, completions: list[str], task: list[str], row: list[int],
        response_token_ids: list[list[int]], finish_reason: list[str], **_: Any,
    ) -> list[float]:  # fmt: skip
        """`task` and `row` are columns of the training data."""
        rows = zip(completions, task, row, response_token_ids, finish_reason, strict=True)
        noted = [
            {
                "task_id": task_id, "row": number, "text": text, "tokens": len(ids),
                "stop": "length" if reason == "length" else "end",
            }
            for text, task_id, number, ids, reason in rows
        ]  # fmt: skip
        for one in noted:
            one["reward"] = self.ask({name: one[name] for name in one if name != "row"})
        with self.notes.open("a", encoding="utf-8") as lines:
            lines.write("".join(json.dumps(one) + "\n" for one in noted))
        return [one["reward"] for one in noted]

    def ask(self, attempt: dict[str, Any]) -> float:
        """What the judge says of an attempt."""
        assert self.judge.stdin is not None
        assert self.judge.stdout is not None
        print(json.dumps(attempt), file=self.judge.stdin, flush=True)
        said = json.loads(self.judge.stdout.readline() or '{"error": "the judge has ended"}')
        if "error" in said:
            raise RuntimeError(f"no reward for {attempt}: {said['error']}")
        return float(said["reward"])


orms["stage"] = StageJudge
