"""Training in several processes: this module is started once per process by torchrun."""

import os
import subprocess
import sys
import time
from pathlib import Path

from coevolve.core.errors import EngineError
from coevolve.core.exit import follow_input
from coevolve.engines.base import Observe, Result, Stage
from coevolve.engines.stage import Follower
from coevolve.engines.trl.folder import StageFolder

LOOK_EVERY_S = 0.5


def launch(stage: Stage, folder: StageFolder, observe: Observe | None) -> Result:
    """Start the processes, pass their progress on, and wait for the result."""
    log = folder.path / "processes.log"
    folder.forget_failure()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(stage.processes), "--module", __spec__.name]
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(
            [*command, str(folder.path)], stdin=subprocess.PIPE, stdout=output, stderr=output
        ) as running,
    ):
        try:
            follower = Follower(folder.steps, stage.recipe.steps, observe)
            while running.poll() is None:
                time.sleep(LOOK_EVERY_S)
                follower.look()
        finally:
            running.terminate()
    result = folder.result()
    if result is None:
        if failure := folder.failure():
            raise EngineError(failure)
        last = log.read_text("utf-8", errors="replace").strip().splitlines()[-1:]
        raise EngineError(f"training ended with {running.returncode}, see {log}: {last}")
    return result


def main() -> None:
    """One of the processes; it ends with the one that launched it."""
    follow_input()
    import torch

    from coevolve.engines.trl.engine import TrlEngine
    from coevolve.policies.hardware import pick_device

    folder = StageFolder(Path(sys.argv[1]))
    try:
        stage, tasks = folder.load()
        if pick_device(stage.device).type == "cuda":
            take_gpu(int(os.environ["LOCAL_RANK"]), torch.cuda.device_count())
        TrlEngine().run(stage, tasks, folder, None)
    except Exception as error:
        folder.note_failure(error)
        raise


def take_gpu(number: int, there: int) -> None:
    """Each process computes on a GPU of its own, and loads nothing onto others."""
    import torch

    if number >= there:
        raise EngineError(f"processes are more than the {there} GPUs; lower processes to {there}")
    torch.cuda.set_device(number)


if __name__ == "__main__":
    main()
