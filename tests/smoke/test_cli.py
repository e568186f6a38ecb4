"""The command line as a user meets it: in a subprocess, with good input and with bad."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import alive, anew, coevolve

from coevolve.cli.main import how_to_go_on


def run(
    *words: object, stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return coevolve(*words, said=stdin, cwd=cwd)


def good(*words: object, **options: object) -> str:
    result = run(*words, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def bad(*words: object, **options: object) -> str:
    """The one line a user gets for a mistake."""
    result = run(*words, **options)
    assert result.returncode == 2, (result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "deep" / "tasks.jsonl"
    good("tasks", "generate", "--count", 20, "--split", "dev", "--output", path)
    return path


TASKS = "generate", "show", "solve", "verify"

LIGHT = """
import sys
import coevolve.cli.main as main
try:
    main.app(["--help"])
except SystemExit:
    pass
heavy = {
    "torch", "numba", "duckdb", "scipy", "matplotlib", "pandas", "polars", "pyarrow", "trl", "ray",
    "transformers", "fastapi", "jinja2", "openai", "datasets",
} & set(sys.modules)
print(len(sys.modules), *heavy)
"""


SIGNALLED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
from coevolve.cli.main import main
main()
"""
BARE = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))  # nobody has installed them
sys.argv[1:] = sys.argv[2:]
from coevolve.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("missing", "words", "said"),
    [
        ("pyarrow", "report nowhere", "this needs pyarrow: pip install 'coevolve[report]'"),
        ("pyarrow", "compare main --dry-run", "pip install 'coevolve[report]'"),
        ("torch", "ask --policy pocket", "this needs torch: pip install 'coevolve[train]'"),
        ("torch,transformers", "train grpo --policy pocket", "pip install 'coevolve[train]'"),
        (
            "transformers",
            "run rounds --set knobs.sizze=1",
            "unknown knob 'sizze'. Known: agentsN.share",
        ),
    ],
)
def test_what_is_not_installed_is_named_with_the_extra_that_brings_it(
    tmp_path, missing, words, said
):
    command = [sys.executable, "-c", BARE, missing, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_light():
    last = subprocess.check_output([sys.executable, "-c", LIGHT], text=True).splitlines()[-1]
    modules, *heavy = last.split()
    assert heavy == []
    assert int(modules) < 600  # what takes the time; numpy alone brings 150


def test_every_command_teaches_itself():
    commands = "evaluate", "check", "domains", "doctor", "tasks"
    for words in ([], *([name] for name in commands), *(["tasks", name] for name in TASKS)):
        assert "Usage:" in good(*words, "--help")


def test_generate_is_the_same_for_any_number_of_workers(tmp_path):
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    good("tasks", "generate", "-n", 600, "--seed", 3, "-o", one, "--workers", 1)
    good("tasks", "generate", "-n", 600, "--seed", 3, "-o", two, "--workers", 2)
    assert one.read_bytes() == two.read_bytes()
    assert len(one.read_text().splitlines()) == 600


def test_show_draws_board_plan_prompt_and_pictures(tasks, tmp_path):
    shown = good("tasks", "show", tasks, "--first", 1, "--prompt", "--picture", tmp_path / "a.svg")
    assert "lake-" in shown
    assert "<answer>" in shown
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    good("tasks", "show", tasks, "--first", 1, "--picture", tmp_path / "a.gif")
    assert (tmp_path / "a.gif").read_bytes()[:3] == b"GIF"
    assert "must end in .svg or .gif" in bad(
        "tasks", "show", tasks, "--picture", tmp_path / "a.bmp"
    )


def test_solve_reads_the_public_format(public_boards):
    for file in sorted(public_boards.glob("*.jsonl")):
        known = [json.loads(line) for line in file.read_text().splitlines()]
        found = [
            json.loads(line)
            for line in good("tasks", "solve", "-d", "lake", file, "--json").splitlines()
        ]
        assert [(f["id"], f["sum_of_costs"]) for f in found] == [
            (k["id"], k["optimal_sum_of_costs"]) for k in known
        ]


def test_solve_says_what_cannot_be_solved_and_goes_on():
    lines = [
        {"id": "a", "rows": ["..."], "starts": [[0, 0], [0, 2]], "goals": [[0, 2], [0, 0]]},
        {"id": "b", "rows": ["..."], "starts": [[0, 0]], "goals": [[0, 2]]},
    ]
    result = run("tasks", "solve", "-", "--json", stdin="\n".join(map(json.dumps, lines)))
    first, second = map(json.loads, result.stdout.splitlines())
    assert result.returncode == 1
    assert "no plan exists" in first["error"]
    assert second["sum_of_costs"] == 2


def test_verify_tells_good_answers_from_bad(tasks, tmp_path):
    loaded = [json.loads(line) for line in tasks.read_text().splitlines()]
    answers = tmp_path / "answers.jsonl"
    lines = [{"id": t["id"], "answer": "|".join(t["data"]["plan"])} for t in loaded]
    lines[1]["answer"] = "U" * 50 + "|W"
    lines[2]["answer"] = "I give up"
    answers.write_text("\n".join(map(json.dumps, lines)))
    found = [
        json.loads(line) for line in good("tasks", "verify", tasks, answers, "--json").splitlines()
    ]
    assert [f["id"] for f in found] == [t["id"] for t in loaded]
    assert found[0] == {
        "id": loaded[0]["id"], "valid": True, "optimal": True, "reward": 0.8,
        "cost": loaded[0]["data"]["cost"], "failure": None, "reason": None,
    }  # fmt: skip
    assert found[1]["failure"] in ("bounds", "hole")
    assert (found[2]["valid"], found[2]["cost"], found[2]["failure"]) == (False, None, "parse")
    assert sum(f["optimal"] for f in found) == 18


def test_evaluate_the_oracle_on_the_benchmark_as_json():
    result = json.loads(
        good("evaluate", "--domain", "lake", "--suite", "benchmark", "--policy", "oracle", "--json")
    )
    assert (result["n"], result["valid"], result["optimal"]) == (3150, 1.0, 1.0)
    assert len(result["buckets"]) == 63
    assert all(b["n"] == 50 and b["valid"]["low"] > 0.9 for b in result["buckets"])


def test_evaluate_prints_tables_and_a_heat_map(tasks, tmp_path):
    shown = good(
        "evaluate",
        "-p",
        "greedy",
        "-p",
        "oracle",
        "--tasks",
        tasks,
        "--heatmap",
        tmp_path / "h.png",
    )
    assert "greedy" in shown
    assert "100.0 [" in shown
    assert (tmp_path / "h.png").stat().st_size > 5_000


def test_domains_and_doctor():
    assert "lake" in json.loads(good("domains", "--json"))
    assert "size8.hole_ratio" in good("domains", "lake")
    assert {f["name"]: f["state"] for f in json.loads(good("doctor", "--json"))}["solver"] == "ok"


BOARD = '{"rows": ["..."], "starts": [[0, 0]], "goals": [[0, 2]]}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOARD + "\n{oops\n", "line 2: not JSON"),
        (BOARD + "\n[1, 2]\n", "line 2: not a JSON object"),
        (BOARD + "\n\n" + BOARD.replace("goals", "gaols") + "\n", "line 3: a board needs"),
        (BOARD.replace("...", "..X"), "line 1: not a board: row 0 holds ['X']"),
        (BOARD.replace("[0, 2]", "[0, 9]"), "line 1: not a board: goal [0, 9] of agent 0"),
        ("[" * 100_000, "line 1: not JSON"),
    ],
)
def test_bad_files_name_line_and_reason(tmp_path, text, message):
    path = tmp_path / "boards.jsonl"
    path.write_text(text)
    assert message in bad("tasks", "solve", path)
    assert message in bad("evaluate", "-p", "oracle", "--tasks", path)


def test_other_mistakes_get_one_clear_line(tmp_path, tasks):
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"rows": "\xe9"}\n')
    assert "not UTF-8" in bad("tasks", "solve", latin)
    assert "cannot read" in bad("tasks", "solve", tmp_path / "none.jsonl")
    assert "cannot read" in bad("tasks", "solve", tmp_path)
    assert "did you mean 'lake'" in bad("tasks", "generate", "-d", "lak")
    assert "did you mean 'greedy'" in bad("evaluate", "-p", "gredy")
    assert "did you mean 'benchmark'" in bad("evaluate", "--suite", "bench")
    assert "unknown split 'valid'" in bad("tasks", "generate", "--split", "valid")
    assert "is not NAME=NUMBER" in bad("tasks", "generate", "-k", "size8.hole_ratio")
    assert "did you mean 'size8.hole_ratio'" in bad(
        "tasks", "generate", "-k", "size8.hole_ration=0.1"
    )
    assert "leaves no room" in bad(
        "tasks",
        "generate",
        "-k",
        "size3.data_ratio=1",
        "-k",
        "agents5.share=1",
        "-k",
        "size3.hole_ratio=0.5",
    )
    assert "cannot write" in bad("tasks", "generate", "-n", 1, "-o", "/proc/x/y.jsonl")
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": "nobody", "answer": "R"}\n')
    assert "line 1: no task 'nobody'" in bad("tasks", "verify", tasks, answers)
    answers.write_text('{"id": "nobody", "answer": 7}\n')
    assert "line 1: needs a text `answer`" in bad("tasks", "verify", tasks, answers)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"data": 5}', "`data` is 5, not an object"),
        ('{"id": [1], "data": {}}', "`id` is [1]; use printable text"),
        ('{"id": "\\ud800"}', "`id` is '\\ud800'; use printable text"),
    ],
)
def test_strange_lines_are_named(line, message):
    assert f"line 1: {message}" in bad("tasks", "solve", "-", stdin=line).replace("-, ", "")


def test_repeated_tasks_and_numeric_ids_are_fine(tmp_path):
    boards, answers = tmp_path / "boards.jsonl", tmp_path / "answers.jsonl"
    board = BOARD.replace("{", '{"id": 5, ', 1)
    boards.write_text(f"{board}\n{board}\n")
    answers.write_text('{"id": 5, "answer": "RR"}\n')
    assert "5  optimal  cost 2" in good("tasks", "verify", boards, answers)
    boards.write_text(board + "\n" + board.replace("...", "...."))
    assert "line 2: id '5' is another task's, on line 1" in bad("tasks", "verify", boards, answers)


def test_outputs_that_cannot_be_written_are_named(tasks, tmp_path):
    (tmp_path / "file").write_text("x")
    for target in (tmp_path, tmp_path / "file" / "x.jsonl", ""):
        assert "cannot write" in bad("tasks", "generate", "-n", 1, "-o", target)
    assert "cannot write" in bad("tasks", "show", tasks, "--picture", tmp_path / "no" / "x.svg")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "holds no task" in bad("evaluate", "--tasks", empty, "-p", "greedy")


def test_a_link_keeps_pointing_to_what_is_written(tmp_path):
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old\n")
    link.symlink_to(real)
    good("tasks", "generate", "-n", 2, "-o", link)
    assert link.is_symlink()
    assert len(real.read_text().splitlines()) == 2


def test_termination_leaves_no_workers_and_no_half_file(tmp_path):
    words = f"tasks generate -n 200000 --workers 2 -o {tmp_path / 't.jsonl'}".split()
    command = [sys.executable, "-m", "coevolve", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not list(tmp_path.iterdir()) or len(children.read_text().split()) < 3:
            time.sleep(0.05)  # until there is a file, two workers, and what counts their resources
        started = [*map(int, children.read_text().split())]
        process.terminate()
        said = process.stderr.read().decode()
        assert process.wait(timeout=60) == 143, said
    assert list(tmp_path.iterdir()) == []
    while any(map(alive, started)):  # they end by themselves, or the test's time does
        time.sleep(0.05)


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m coevolve tasks generate -n 3000 --workers 1 | head -1"
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
    )
    assert result.stderr == ""
    assert json.loads(result.stdout)["domain"] == "lake"


def test_a_failed_command_leaves_no_half_file(tmp_path):
    target = tmp_path / "t.jsonl"
    target.write_text("precious\n")
    bad(
        "tasks",
        "generate",
        "-n",
        5,
        "-k",
        "size3.data_ratio=1",
        "-k",
        "path_length.min=20",
        "-o",
        target,
    )
    assert [p.name for p in tmp_path.iterdir()] == ["t.jsonl"]
    assert target.read_text() == "precious\n"


def test_a_full_disk_under_the_output_is_said() -> None:
    with open("/dev/full", "w") as full:
        done = anew("domains", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write the output: No space left on device")


@pytest.mark.parametrize(
    ("begun", "names"),
    [
        (["run", "ro"], {"rounds"}),
        (["run", "tree", "-e", "bad"], set()),
        (["evaluate", "-d", "la"], {"lake"}),
        (["train", "grpo", "-r", "learning"], {"learning_rate="}),
        (["compare", "cli"], {"climb"}),
        (["status", "runs/m"], {"runs/mine"}),
    ],
)
def test_a_shell_completes_names(tmp_path, begun, names):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "ledger.db").touch()
    words = ["coevolve", *begun]
    asked = {
        "_COEVOLVE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    program = Path(sys.executable).with_name("coevolve")
    found = subprocess.run(
        [program], cwd=tmp_path, env={**os.environ, **asked}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert set(found.stdout.split()) == names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "-o", "my run"], "goes on from where it was: coevolve run -o 'my run'"),
        (["evaluate", "--output=kept"], "coevolve evaluate --output=kept"),
        (["evaluate", "-p", "greedy"], "stopped"),
        (["serve", "runs"], ""),
    ],
)  # fmt: skip
def test_how_to_go_on_after_an_interruption(words: list[str], said: str) -> None:
    told = how_to_go_on(words)
    assert told.endswith(said) if said != "stopped" else told == said


def test_commands_that_are_told_can_be_typed(tmp_path: Path) -> None:
    folder = tmp_path / "my domain"
    done = coevolve("new-domain", "cards", "-o", str(folder))
    assert f"coevolve run '{folder}/plan.toml'" in done.stdout


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SIGNALLED, "run", "-o", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("measuring the untrained policy"):
                running.send_signal(signal.SIGINT)
                break
        rest = running.stderr.read()
    assert running.returncode == 130
    assert "Traceback" not in rest
    assert rest.splitlines()[-1].startswith("stopped; this goes on from where it was: coevolve run")
