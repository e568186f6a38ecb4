"""What every engine promises, asked of those that come with the package; and what becomes of
programs that do not keep the contract of the engine `command`."""

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="training needs the extra `train`")

from training import Guessing, lake_tasks, stage

from coevolve.core.entry import offers
from coevolve.core.errors import EngineError, SplitError, UserError
from coevolve.core.splits import Split
from coevolve.domains.registry import get_domain
from coevolve.engines import command
from coevolve.engines.check import RECIPE, REWARD, Subject, check_engine
from coevolve.engines.command import CommandEngine, StageFolder
from coevolve.engines.registry import ENGINES, get_engine
from coevolve.engines.score import Attempt
from coevolve.harness.filters import TopFilter
from coevolve.policies.models import hash_of_weights
from coevolve.store.stages import stage_rollouts

TESTS = Path(__file__).parents[1]
EXAMPLE = f"command:{TESTS.parent / 'examples' / 'plain_grpo.py'}"
SHORT = {"steps": 2, "tasks": 2, "group": 2}

PROGRAM = """
import json, os, shutil, sys
folder = sys.argv[-1]

def path(name):
    return os.path.join(folder, name)

stage = json.load(open(path("stage.json")))
prompts = [json.loads(line) for line in open(path("prompts.jsonl"))]
recipe = stage["recipe"]

def save():
    shutil.copytree(stage["model_folder"], path("policy"), dirs_exist_ok=True)

def attempts(steps=recipe["steps"], **more):
    count = recipe["tasks"]
    for step in range(steps):
        for group, index in enumerate(stage["order"][step * count : (step + 1) * count]):
            for _ in range(recipe["group"]):
                yield {"task_id": prompts[index]["id"], "step": step, "group": group,
                       "text": "0,0", "tokens": 3, **more}

def write(lines, name="rollouts.jsonl"):
    with open(path(name), "w") as file:
        for line in lines:
            file.write((line if isinstance(line, str) else json.dumps(line)) + "\\n")

"""


def program(folder: Path, body: str) -> CommandEngine:
    """An engine whose program saves the policy that it was given, and does what else it is told."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "program.py"
    file.write_text(PROGRAM + body)
    return CommandEngine(str(file), domains={"guessing": Guessing()})


def train(tmp_path: Path, body: str, **changes: Any) -> Any:
    engine = program(tmp_path, body)
    return engine.train(
        stage(tmp_path / "stage", **{"recipe": SHORT, **changes}),
        changes.get("tasks") or lake_tasks(4),
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the suite trains the example's stages, so that later tests find them done."""
    return tmp_path_factory.mktemp("command") / "stages"


@pytest.mark.parametrize("name", ["trl", EXAMPLE])
def test_conformance(
    name: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = trained if name == EXAMPLE else tmp_path / "stages"
    findings = check_engine(get_engine(name), "pocket", get_domain("lake"), folder)
    assert len(findings) == 14
    assert [finding for finding in findings if not finding.passed] == []
    assert "learned from twice" in findings[-1].message


class Forgetful(CommandEngine):
    """Knows nothing of what it did before, and takes what it is given."""

    def check(self, model: str, scripts: object) -> None:
        pass

    def train(self, stage: Any, tasks: Any, observe: Any = None) -> Any:
        (stage.folder / "stage.json").unlink(missing_ok=True)
        for file in ("log.txt", "done.json", "rollouts.jsonl", "steps.jsonl"):
            (stage.folder / file).unlink(missing_ok=True)
        for name in ("policy", "rollouts"):
            for file in (stage.folder / name).glob("*"):
                file.unlink()
            if (stage.folder / name).exists():
                (stage.folder / name).rmdir()
        return super().train(stage, tasks, observe)


def test_the_suite_finds_out_a_bad_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = "save(); write(attempts()); open('litter', 'w')"
    engine = Forgetful(program(tmp_path / "bin", body).command)
    findings = check_engine(engine, "pocket", get_domain("lake"), tmp_path / "stages")
    failed = {finding.name: finding.message for finding in findings if not finding.passed}
    assert set(failed) == {
        "scripts are refused, models are not",
        "nothing is written outside the folder",
        "a finished stage is not trained again",
        "another stage in its folder is refused",
        "a stage ends when its tokens are used up",
        "several updates on a batch draw it once",
    }
    assert "litter" in failed["nothing is written outside the folder"]
    broken = check_engine(program(tmp_path, "sys.exit(3)"), "pocket", get_domain("lake"), tmp_path)
    assert sum("ended with 3" in finding.message for finding in broken) == 12


BAD = {
    "fails": ("print('no memory left'); sys.exit(1)", "ended with 1, see .*\n.*no memory left"),
    "no policy": ("write(attempts())", "policy holds no weights"),
    "no rollouts": ("save()", "has left no .*rollouts.jsonl"),
    "no JSON": ("save(); write([*attempts()][:2] + ['{oops'])", "rollouts.jsonl, line 3: Invalid"),
    "no field": ("save(); write([{'step': 0}])", "rollouts.jsonl, line 1: task_id: Field required"),
    "odd field": ("save(); write(attempts(prize=1))", "line 1: prize: Extra inputs"),
    "not finite": ("save(); write(attempts(reward=float('nan')))", "line 1: reward: Input should"),
    "unknown task": ("save(); write(attempts(task_id='lake-0'))", "line 1: .*no task 'lake-0'"),
    "two turns": (
        "turn = {'role': 'assistant', 'content': 'x'}\n"
        "save(); write(attempts(messages=[turn, turn]))",
        "line 1: 2 messages, but the task has one turn",
    ),
    "small group": (
        "save(); write([*attempts()][1:])",
        "line 3: step 0 has 3 attempts in 2 groups, and the recipe says tasks = 2, group = 2",
    ),
    "mixed group": (
        "lines = [*attempts()]; lines[0]['task_id'] = lines[-1]['task_id']; save(); write(lines)",
        "line 4: a group of step 0 has attempts at two tasks",
    ),
    "late step": ("save(); write([*attempts()][4:])", "line 4: step 1 comes where step 0 of 2"),
    "too few steps": ("save(); write(attempts(1))", "holds 1 of 2 steps; .* as `stopped`"),
    "broken steps": (
        "save(); write(attempts()); write([{'step': 1}, 'oops'], 'steps.jsonl')",
        "steps.jsonl, line 2: no JSON object",
    ),
    "broken config": (
        "save(); write(attempts()); write(['oops'], 'policy/config.json')",
        "config.json is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_programs_are_told_what_is_wrong(name: str, tmp_path: Path) -> None:
    body, words = BAD[name]
    with pytest.raises(EngineError, match=f"(?s){words}"):
        train(tmp_path, body)
    # Nothing counts as done, and the program is started again once it is right.
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + "save(); write(attempts()); write([{'step': 2}], 'steps.jsonl')")
    engine = CommandEngine(str(file))
    assert engine.train(stage(tmp_path / "stage", recipe=SHORT), lake_tasks(4)).rollouts == 8


def test_no_program_is_believed(tmp_path: Path) -> None:
    """What it says that it earned is not evidence, nor what it makes of the tasks."""
    body = (
        "save(); write(attempts(reward=1.0)); write(['{}'], 'tasks.jsonl'); "
        "write(['{}'], 'prompts.jsonl'); write(['{}'], 'stage.json')"
    )
    result = train(tmp_path, body, reward="reward + 0.25")
    assert result.metrics["valid"] == 0.0
    assert result.metrics["reward_gap"] >= 0.75
    for one in stage_rollouts(tmp_path / "stage", lake_tasks(4)):
        assert not one.outcome.valid
        assert one.outcome.reward <= 0
        assert one.shaped == one.outcome.reward + 0.25
    lines = (tmp_path / "stage" / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line)["valid"] for line in lines] == [0.0, 0.0]


def test_stages_that_end_early_and_warm_starts(tmp_path: Path) -> None:
    early = "save(); write(attempts(1)); write([{'step': 1, 'stopped': 'NaN'}], 'steps.jsonl')"
    result = train(tmp_path / "early", early)
    assert (result.steps, result.stopped, result.rollouts) == (1, "NaN", 4)
    warm = "save(); assert all(prompt['answer'] for prompt in prompts)"
    result = train(tmp_path / "warm", warm, kind="warm", style="compact")
    assert (result.steps, result.rollouts) == (2, 0)
    config = json.loads((tmp_path / "warm" / "stage" / "policy" / "config.json").read_text())
    assert config["coevolve_styles"] == {"lake": "compact", "engineering": "table"}


DIALOGUE = """
def said(text):
    return {"role": "assistant", "content": text}

heard = {"role": "user", "content": "plan again"}
save()
"""


def test_dialogues_are_held_again(tmp_path: Path) -> None:
    tasks = Guessing().tasks(4)

    def play(name: str, turns: str, **more: Any) -> Any:
        body = f"{DIALOGUE}\nwrite(attempts(text='', messages={turns}, stop='{more['stop']}'))"
        engine = program(tmp_path / name, body)
        return engine.train(stage(tmp_path / name / "stage", recipe=SHORT), tasks)

    turns = "[said('a'), heard, said('bb'), heard, said('ccc')]"
    assert play("whole", turns, stop="turns").rollouts == 8
    (first, *_) = stage_rollouts(tmp_path / "whole" / "stage", tasks)
    assert first.outcome.components == {"turns": 3.0}
    assert first.stop == "turns"
    with pytest.raises(EngineError, match=r"step 0, group 0, .*another reply to turn 1"):
        play("other", "[said('a'), {**heard, 'content': 'x'}, said('b')]", stop="length")
    with pytest.raises(EngineError, match="ends after 1 turns, but the task goes on"):
        play("early", "[said('a')]", stop="end")
    with pytest.raises(EngineError, match="every other turn must be the assistant's"):
        play("open", "[said('a'), heard]", stop="end")


def test_what_cannot_be_trained_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    engine = CommandEngine("true")
    with pytest.raises(UserError, match=r"other things than a stage \(thesis.txt\)"):
        engine.train(stage(tmp_path / "other"), lake_tasks(2))
    with pytest.raises(UserError, match="'nonsense' in 'nonsense' is not a reward component"):
        engine.train(stage(tmp_path / "a", reward="nonsense"), lake_tasks(2))
    with pytest.raises(SplitError):
        engine.train(stage(tmp_path / "b"), lake_tasks(2, Split.DEV))
    assert not (tmp_path / "b" / "log.txt").exists()
    for words, problem in (
        (" ", "needs a program"),
        ("no.py", "no program 'no.py'"),
        ("'", "read"),
    ):
        with pytest.raises(UserError, match=problem):
            CommandEngine(words).check("pocket", ())


ENGINE = """
import os, signal, sys
from pathlib import Path
from training import lake_tasks, stage
from coevolve.engines.command import CommandEngine

signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
CommandEngine(sys.argv[1]).train(stage(Path(sys.argv[2])), lake_tasks(2))
"""
HANGS = """
import signal
if os.path.exists(path("begun")):
    save()
    write(attempts())
    sys.exit()
write([], "begun")
pipe = open(sys.argv[1], "w")
pipe.write("begun\\n")
pipe.flush()
signal.pause()
"""


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_the_program_ends_with_its_engine(
    blow: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, begun = tmp_path / "pipe", stage(tmp_path / "stage")
    os.mkfifo(pipe)
    engine = CommandEngine(f"{program(tmp_path, HANGS).command} {pipe}")
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE, engine.command, str(begun.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with pipe.open() as heard, process:
        assert heard.readline() == "begun\n"
        with monkeypatch.context() as patched:
            patched.setattr(command, "PATIENCE_S", 0.0)
            with pytest.raises(UserError, match="is going on in another process"):
                engine.train(begun, lake_tasks(2))
        process.send_signal(blow)
        assert heard.read() == ""  # comes when nobody is left who could write
    assert process.returncode in (-blow, 1)
    assert engine.train(begun, lake_tasks(2)).rollouts == 32


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import signal\nsignal.pause()")
    engine = CommandEngine(str(tmp_path / "hangs.py"), limit_s=0.0)
    with pytest.raises(EngineError, match=r"took longer than 0 s"):
        engine.train(stage(tmp_path / "stage"), lake_tasks(2))


KILLED = """
import os, runpy, signal, sys
from coevolve.engines.score import StageFolder

def record(self, step, attempts):
    scored = recorded(self, step, attempts)
    if step == 1 and not os.path.exists(sys.argv[-1] + "/killed"):
        open(sys.argv[-1] + "/killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return scored

recorded, StageFolder.record = StageFolder.record, record
runpy.run_path(sys.argv[1])
"""


def test_killed_and_resumed_is_as_if_never_killed(trained: Path, tmp_path: Path) -> None:
    whole = Subject(get_engine(EXAMPLE), "pocket", get_domain("lake"), trained, RECIPE).result
    (tmp_path / "killed.py").write_text(KILLED)
    engine = CommandEngine(f"{tmp_path / 'killed.py'} {EXAMPLE.removeprefix('command:')}")
    subject = Subject(engine, "pocket", get_domain("lake"), tmp_path, RECIPE)
    seen: list[int] = []
    with pytest.raises(EngineError, match="ended with 137"):
        engine.train(
            subject.stage("first"), subject.tasks, lambda progress: seen.append(progress.step)
        )
    result = engine.train(
        subject.stage("first"), subject.tasks, lambda progress: seen.append(progress.step)
    )
    assert seen == [1, 2]
    assert result.rollouts == 16
    policies = [Path(one.policy) for one in (whole, result)]
    assert hash_of_weights(policies[0]) == hash_of_weights(policies[1])
    one, other = (
        [rollout.messages for rollout in stage_rollouts(policy.parent, subject.tasks)]
        for policy in policies
    )
    assert one == other


def test_programs_score_as_the_engine_does(tmp_path: Path) -> None:
    train(tmp_path, "save(); write(attempts())", reward=REWARD)
    work = StageFolder(tmp_path / "stage")
    lake, (task, *_) = get_domain("lake"), work.tasks.values()
    right = lake.oracle(task, "cells")
    assert work.score(task.id, right, tokens=7) == 2 * lake.verify(task, right, 7).reward - 0.007
    with pytest.raises(UserError, match="has no task 'lake-1'"):
        work.score("lake-1", "")
    asked = [{"task_id": task.id, "text": right, "tokens": 7}, {"text": ""}, {"task_id": "lake-1"}]
    lines = "".join(json.dumps(line) + "\n" for line in asked) + "oops\n[]\n"
    done = subprocess.run(
        [sys.executable, "-m", "coevolve.engines.score", str(tmp_path / "stage")],
        input=lines, capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, *others = map(json.loads, done.stdout.splitlines())
    reward = work.score(task.id, right, tokens=7)
    assert first == {"reward": reward, "valid": True, "optimal": True, "failure": None}
    assert [list(line) for line in others] == [["error"]] * 4


def test_filters_remember_what_a_killed_program_has_seen(tmp_path: Path) -> None:
    filters = (TopFilter(share=0.5, warm_up=1),)
    train(tmp_path, "save(); write(attempts())", filters=filters)

    def attempts(work: StageFolder, step: int) -> list[Attempt]:
        right = {
            ask.id: get_domain("lake").oracle(work.tasks[ask.id], "cells") for ask in work.asks
        }
        return [
            Attempt(
                task_id=ask.id, step=step, group=group, tokens=5,
                text=right[ask.id] if sample and group else "0,0",
            )
            for group, ask in enumerate(work.batch(step))
            for sample in range(2)
        ]  # fmt: skip

    work = StageFolder(tmp_path / "stage")
    work.record(0, attempts(work, 0))
    whole = work.record(1, attempts(work, 1))
    work.tell(2, loss=0.5)
    again = StageFolder(tmp_path / "stage")
    assert again.record(1, attempts(again, 1)) == whole
    assert whole.weights == [0, 0, 1, 1]
    assert [len(step) for step in again.attempts()] == [4, 4]
    again.tell(1, loss=0.25)
    lines = (tmp_path / "stage" / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"step": 1, "loss": 0.25}]


def test_a_reward_may_follow_from_the_steps_before(tmp_path: Path) -> None:
    body = "save(); write(line | {'tokens': 2000 * line['step'] + 1500} for line in attempts())"
    recipe = {**SHORT, "steps": 3}
    train(tmp_path, body, recipe=recipe, reward="10 * short")
    work = StageFolder(tmp_path / "stage")
    found = [one.shaped for one in stage_rollouts(work.path, list(work.tasks.values()))]
    assert found == [10.0] * 8 + [pytest.approx(9.0)] * 4
    steps = list(work.attempts())
    for step in (0, 1):
        work.record(step, steps[step])
    again = StageFolder(tmp_path / "stage")  # as after a kill
    assert again.record(2, steps[2]).rewards == found[8:]
    with pytest.raises(UserError, match="names `short`"):
        again.score(steps[0][0].task_id, "0,0")


def package(folder: Path, name: str, points: str) -> None:
    """Something like an installed package."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(points)


def test_engines_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text(
        "from coevolve.engines.command import CommandEngine\n"
        "def engine():\n    return CommandEngine('true')\n"
        "def sad():\n    raise KeyError('sad')\n"
    )
    (tmp_path / "leaves.py").write_text("raise SystemExit('no')")
    package(
        tmp_path, "good", "[coevolve.engines]\nmade = made:engine\ntrl = made:sad\nsad = made:sad"
    )
    package(tmp_path, "bad", "[coevolve.engines]\ngone = gone:engine\nleaves = leaves:engine")
    package(tmp_path, "worse", "[coevolve.engines]\nno equals sign\n")
    package(tmp_path, "twin", "[coevolve.engines]\nsad = made:engine")
    package(tmp_path, "other", "[console_scripts]\nother = made:engine")
    shipped = type(get_engine("trl"))  # imported now: torch reads everybody's entry points, too
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(get_engine("made"), CommandEngine)
    for name, words in {
        "gone": "engine 'gone' of the package 'bad' cannot be loaded: ModuleNotFoundError",
        "leaves": "SystemExit: no; repair the package, or remove it: pip uninstall bad",
        "worse": "'worse' cannot be loaded: its entry_points.txt cannot be read",
        "mode": "unknown engine 'mode'; did you mean 'made'",
        "tlr": "did you mean 'trl'.* Known: command, command:PROGRAM, gone, ",
        "command": "needs a program; write command:PROGRAM",
    }.items():
        with pytest.raises(UserError, match=words):
            get_engine(name)
    assert type(get_engine("trl")) is shipped  # no package can take its place
    infos = sorted(tmp_path.glob("*.dist-info"))
    found = offers("coevolve.engines", [PathDistribution(info) for info in infos])
    problems = {name: offer.problem() for name, offer in found.items()}
    assert [name for name, problem in problems.items() if not problem] == ["made", "trl"]
    assert "'good' and 'twin' both offer it" in problems["sad"]
    with pytest.raises(UserError, match="KeyError: 'sad'"):
        found["trl"].make()


def test_naming_an_engine_does_not_import_torch() -> None:
    script = (
        "import sys; from coevolve.engines.registry import get_engine, names; "
        "names(); get_engine('command:true').check('pocket', ()); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert set(ENGINES) == {"trl", "command"}
