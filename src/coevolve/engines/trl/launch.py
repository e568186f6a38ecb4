"""Training in several processes: this module is started once per process by torchrun."""

import json
import subprocess
import sys
import time
from pathlib import Path

from coevolve.core.errors import CoevolveError, EngineError
from coevolve.core.leaving import follow_input
from coevolve.engines.base import Observe, Progress, Result, Stage
from coevolve.engines.trl.folder import StageFolder

LOOK_EVERY_S = 0.5


def launch(stage: Stage, folder: StageFolder, observe: Observe | None) -> Result:
    """Start the processes, pass their progress on, and wait for the result."""
    log = folder.path / "processes.log"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(stage.processes), "--module", __spec__.name]
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(
            [*command, str(folder.path)], stdin=subprocess.PIPE, stdout=output, stderr=output
        ) as running,
    ):
        try:
            seen, began = len(folder.lines()), time.perf_counter()
            first = seen
            while running.poll() is None:
                time.sleep(LOOK_EVERY_S)
                lines = folder.lines()
                for line in lines[seen:]:
                    step = int(line.pop("step"))
                    pace = (time.perf_counter() - began) / max(1, len(lines) - first)
                    left = pace * (stage.recipe.steps - step)
                    if observe:
                        observe(Progress(step, stage.recipe.steps, line, left))
                seen = max(seen, len(lines))
        finally:
            running.terminate()
    result = folder.result()
    if result is None:
        failure = folder.path / "failure.json"
        if failure.exists():
            raise EngineError(json.loads(failure.read_text("utf-8"))["error"])
        last = log.read_text("utf-8", errors="replace").strip().splitlines()[-1:]
        raise EngineError(f"training ended with {running.returncode}, see {log}: {last}")
    return result


def main() -> None:
    """One of the processes; it ends with the one that launched it."""
    follow_input()
    from coevolve.engines.trl.engine import TrlEngine

    folder = StageFolder(Path(sys.argv[1]))
    failure = folder.path / "failure.json"
    failure.unlink(missing_ok=True)
    stage, tasks = folder.load()
    try:
        TrlEngine().run(stage, tasks, folder, None)
    except CoevolveError as error:
        failure.write_text(json.dumps({"error": str(error)}), "utf-8")
        sys.exit(2)


if __name__ == "__main__":
    main()
