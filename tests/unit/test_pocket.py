"""The pocket policy: its words, its demonstrations, its batches, and a model built in three steps.

Torch and transformers are used on a CPU, with the smallest model there can be.
"""

import hashlib
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from coevolve import pocket
from coevolve.cli.pocket import app
from coevolve.core.errors import UserError
from coevolve.core.seeds import derive
from coevolve.core.splits import Split
from coevolve.domains.lake.board import Board
from coevolve.domains.lake.checks import check_plan
from coevolve.domains.lake.domain import LakeDomain
from coevolve.domains.lake.knobs import SPACE
from coevolve.domains.registry import get_domain
from coevolve.pocket import arrays, vocabulary
from coevolve.pocket.demonstrations import make_demonstrations, to_arrays

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from coevolve.pocket.batches import IGNORED, Draw, draw, make_batch, to_device  # noqa: E402
from coevolve.pocket.build import build, rate_share  # noqa: E402
from coevolve.pocket.vocabulary import make_tokenizer  # noqa: E402

DOMAIN = LakeDomain()
LESSONS = get_domain("engineering")
TOKENIZER = make_tokenizer()


def lake_tasks(size, agents, hole_ratio, seed, count=1, split=Split.TRAIN):
    knobs = SPACE.project(
        {f"size{other}.data_ratio": float(other == size) for other in range(3, 33)}
        | {f"agents{other}.share": float(other == agents) for other in range(1, 9)}
        | {f"size{size}.hole_ratio": hole_ratio}
    )
    return list(DOMAIN.generate(knobs, count, seed, split))


@pytest.fixture(scope="module")
def tasks():
    """Two tasks of each size and number of agents."""
    return [
        task
        for size in range(3, 11)
        for agents in range(2, 6)
        for task in lake_tasks(size, agents, 0.05 * (size + agents), seed=size, count=2)
    ]


@pytest.fixture(scope="module")
def demonstrations(tasks):
    made = to_arrays(tasks, len(tasks))
    assert made.total == len(tasks)
    return made


@pytest.fixture(scope="module")
def demonstrations_file(demonstrations, tmp_path_factory):
    path = tmp_path_factory.mktemp("demonstrations") / "demos.npz"
    arrays.write(demonstrations, path)
    return path


@pytest.fixture(scope="module")
def built(demonstrations_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pocket") / "model"
    said = []
    record = small_build(
        folder, demonstrations_file, seed=1, snapshots=(2, 3), progress=said.append
    )
    return folder, record, said


def small_build(folder, demonstrations, **options):
    settings = {"steps": 3, "batch": 8, "width": 32, "layers": 1, "seed": 0}
    return build(folder, demonstrations=demonstrations, **{**settings, **options})


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def read_prompt(text):
    """The board a prompt of the cells style describes."""
    size_word, rest = text.split(" ", 1)
    assert rest.startswith("holes ")
    assert rest.endswith(" plan")
    size = int(size_word.split("x")[0])
    holes, starts, goals = (
        [tuple(map(int, cell.split(","))) for cell in part.split()]
        for part in rest.removeprefix("holes")
        .removesuffix("plan")
        .replace("goals", "starts")
        .split("starts")
    )
    rows = ["".join("O" if (r, c) in holes else "." for c in range(size)) for r in range(size)]
    return Board(rows=tuple(rows), starts=tuple(starts), goals=tuple(goals))


# --- words


def test_ids_never_move():
    words = vocabulary.words()
    known = "\n".join(words[:117]).encode()
    assert hashlib.sha256(known).hexdigest() == (
        "13e8341ea4215c3cd530c19224700976d038c9e0fad213072492997221671422"
    )
    assert len(set(words)) == len(words)
    assert words[vocabulary.UNKNOWN] == "<unk>"
    assert words[vocabulary.FIRST_SIZE] == "3x3"
    assert words[vocabulary.FIRST_CELL + 42] == "4,2"
    assert TOKENIZER.convert_tokens_to_ids(list(words)) == list(range(len(words)))


@settings(max_examples=60)
@given(
    size=st.integers(3, 10),
    agents=st.integers(2, 5),
    hole_ratio=st.floats(0, 0.45),
    seed=st.integers(0, 2**40),
)
def test_prompts_and_answers_survive_the_tokenizer(size, agents, hole_ratio, seed):
    (task,) = lake_tasks(size, agents, hole_ratio, seed)
    messages = [message.model_dump() for message in DOMAIN.prompt(task, "cells")]
    prompt, answer = messages[0]["content"], DOMAIN.oracle(task, "cells")
    for text in (prompt, answer):
        ids = TOKENIZER.encode(text)
        assert TOKENIZER.decode(ids) == text
        assert len(ids) == len(text.split())
        assert vocabulary.UNKNOWN not in ids
    for generation in (True, False):
        shown = TOKENIZER.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=generation
        )
        assert shown == prompt


def test_the_tokenizer_adds_and_hides_nothing():
    assert TOKENIZER.encode("3x3 what, plan") == [
        vocabulary.FIRST_SIZE,
        vocabulary.UNKNOWN,
        vocabulary.PLAN,
    ]
    messages = [
        {"role": "user", "content": "3x3 plan"},
        {"role": "assistant", "content": "0,1 / 0,2"},
    ]
    assert TOKENIZER.apply_chat_template(messages, tokenize=False) == "3x3 plan 0,1 / 0,2"
    padded = TOKENIZER(["plan", "3x3 plan"], padding=True)
    assert padded["input_ids"][0] == [vocabulary.PAD, vocabulary.PLAN]
    assert set(padded) == {"input_ids", "attention_mask"}
    ended = [vocabulary.STILL, vocabulary.END]
    assert TOKENIZER.decode(ended) == "- <end>"
    assert TOKENIZER.decode(ended, skip_special_tokens=True) == "-"
    assert TOKENIZER.model_max_length == 512


# --- demonstrations


def test_demonstrations_are_of_all_kinds_and_the_same_for_a_seed():
    said = []
    made = make_demonstrations(1_200, 0, seed=3, workers=1, progress=said.append)
    assert 1_190 <= made.total <= 1_200
    agents = (made.plan[:, 0] != arrays.NONE).sum(1)
    shares = np.bincount(agents, minlength=6) / made.total
    assert shares[2:] == pytest.approx([0.4, 0.25, 0.2, 0.15], abs=0.05)
    sizes = np.bincount(made.size, minlength=11) / made.total
    assert sizes[3:] == pytest.approx([1 / 8] * 8, abs=0.05)
    holes = (made.holes != arrays.NONE).sum(1) / made.size.astype(int) ** 2
    assert holes.min() < 0.06
    assert holes.max() > 0.43
    assert [(p.stage, p.done, p.total) for p in said] == [
        ("demonstrations", 1_000, 1_200),
        ("demonstrations", 1_200, 1_200),
    ]
    again, other = (make_demonstrations(60, 5, seed, workers=1) for seed in (3, 4))
    assert again.digest() == make_demonstrations(60, 5, 3, workers=1).digest() != other.digest()


def test_demonstrations_are_read_back(demonstrations, demonstrations_file):
    assert arrays.read(demonstrations_file).digest() == demonstrations.digest()
    assert list(demonstrations_file.parent.iterdir()) == [demonstrations_file]


@pytest.mark.parametrize("kind", ["missing", "text", "empty", "single", "other", "shapes"])
def test_what_holds_no_demonstrations_is_refused(tmp_path, kind):
    path = tmp_path / "demos.npz"
    if kind == "text":
        path.write_text("size, holes, plan")
    elif kind == "empty":
        path.touch()
    elif kind == "single":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif kind != "missing":
        names = ("size", "holes", "plan") if kind == "shapes" else ("boards",)
        np.savez(path, **{name: np.zeros(3, np.uint8) for name in names})
    with pytest.raises(UserError, match="coevolve pocket demonstrations"):
        arrays.read(path)


# --- batches


@pytest.mark.parametrize("turn", range(8))
def test_batches_hold_valid_prompts_and_optimal_plans(tasks, demonstrations, turn):
    rows = demonstrations.total
    generator = torch.Generator().manual_seed(turn)
    pick = torch.arange(rows)
    order = torch.rand((rows, 5), generator=generator)
    drawn = Draw(pick, torch.full((rows,), turn), order, torch.zeros(0, dtype=torch.long))
    tokens, labels = make_batch(to_device(demonstrations, "cpu"), drawn)
    assert tokens.shape == labels.shape
    for task, ids, learned in zip(tasks, tokens.tolist(), labels.tolist(), strict=True):
        begin, end = ids.index(vocabulary.PLAN) + 1, ids.index(vocabulary.END)
        assert set(ids[end + 1 :]) <= {vocabulary.PAD}
        assert learned == [IGNORED] * begin + ids[begin : end + 1] + [IGNORED] * (
            len(ids) - end - 1
        )
        prompt, answer = TOKENIZER.decode(ids[:begin]), TOKENIZER.decode(ids[begin:end])
        board = read_prompt(prompt)
        posed = task.model_copy(update={"data": {**task.data, **board.model_dump()}})
        assert DOMAIN.prompt(posed, "cells")[0].content == prompt
        assert DOMAIN.fingerprint(posed) == DOMAIN.fingerprint(task)
        assert DOMAIN.verify(posed, answer).optimal
        assert check_plan(board, DOMAIN.read(posed, answer)) == ([], task.data["cost"])


def test_a_board_is_shown_in_all_its_symmetries_and_orders(demonstrations):
    data = to_device(demonstrations, "cpu")
    last = demonstrations.total - 1
    assert (demonstrations.plan[last, 0] != arrays.NONE).sum() == 5
    drawn = draw(data, 400, torch.Generator().manual_seed(0))
    tokens, _ = make_batch(data, drawn._replace(pick=torch.full((400,), last)))
    boards = [
        read_prompt(TOKENIZER.decode(ids[: ids.index(vocabulary.PLAN) + 1]))
        for ids in tokens.tolist()
    ]
    assert len({board.rows for board in boards}) == 8
    assert len({board.starts for board in boards if board.rows == boards[0].rows}) > 30
    assert len(set(drawn.pick.tolist())) > 0.9 * demonstrations.total


def test_one_row_in_three_is_a_lesson_as_it_was_made():
    made = make_demonstrations(20, 12, seed=1, workers=1)
    data = to_device(made, "cpu")
    tokens, labels = make_batch(data, draw(data, 24, torch.Generator().manual_seed(0)))
    assert tokens.shape == labels.shape
    assert len(tokens) == 24
    lessons = {
        (LESSONS.prompt(task, "table")[0].content, LESSONS.oracle(task, "table"))
        for task in LESSONS.generate(
            LESSONS.space.defaults(), 12, derive(1, "lessons", 0), Split.TRAIN
        )
    }
    edits = vocabulary.words().index("edits")
    shown = [(ids, label) for ids, label in zip(tokens.tolist(), labels.tolist(), strict=True)
             if edits in ids]  # fmt: skip
    assert len(shown) == 8
    for ids, label in shown:
        begin, end = ids.index(edits) + 1, ids.index(vocabulary.END)
        assert (TOKENIZER.decode(ids[:begin]), TOKENIZER.decode(ids[begin:end])) in lessons
        assert label[:begin] == [IGNORED] * begin
        assert label[begin : end + 1] == ids[begin : end + 1]
        assert set(label[end + 1 :]) <= {IGNORED}


# --- building


def test_a_built_folder_is_a_transformers_model(built, tasks):
    folder, record, _ = built
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.num_parameters() == record["parameters"] > 0
    prompts = [[m.model_dump() for m in DOMAIN.prompt(task, "cells")] for task in tasks[:3]]
    inputs = tokenizer.apply_chat_template(
        prompts, add_generation_prompt=True, padding=True, return_dict=True, return_tensors="pt"
    )
    assert (
        tokenizer.decode(inputs["input_ids"][0], skip_special_tokens=True)
        == (prompts[0][0]["content"])
    )
    made = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    assert made.shape[1] <= inputs["input_ids"].shape[1] + 6
    assert model.generation_config.eos_token_id == vocabulary.END
    assert model.generation_config.pad_token_id == vocabulary.PAD
    assert json.loads((folder / "build.json").read_text()) == record


def test_padding_on_the_left_changes_no_answer(built, tasks):
    folder, _, _ = built
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    texts = [DOMAIN.prompt(task, "cells")[0].content for task in (tasks[0], tasks[-1])]
    alone = model.generate(
        **TOKENIZER(texts[0], return_tensors="pt"), max_new_tokens=5, do_sample=False
    )
    both = model.generate(
        **TOKENIZER(texts, padding=True, return_tensors="pt"), max_new_tokens=5, do_sample=False
    )
    length = len(texts[0].split())
    assert alone[0, length:].tolist() == both[0, -5:].tolist()[: alone.shape[1] - length]


def test_a_build_says_what_it_does(built, demonstrations):
    folder, record, said = built
    assert [(p.stage, p.done, p.total) for p in said] == [("training", n, 3) for n in (1, 2, 3)]
    assert all(3 < p.loss < 7 for p in said)
    expected = {"seed": 1, "steps": 3, "batch": 8, "width": 32, "layers": 1, "step": 3}
    assert expected.items() <= record.items()
    assert record["loss"] == pytest.approx(said[-1].loss, abs=1e-4)
    assert record["demonstrations_sha256"] == demonstrations.digest()
    assert record["torch"] == torch.__version__
    names = sorted(path.name for path in folder.parent.iterdir())
    assert names == ["model", "model-step2", "model-step3"]
    snapshots = [folder.with_name(f"model-step{step}") for step in (2, 3)]
    assert [json.loads((s / "build.json").read_text())["step"] for s in snapshots] == [2, 3]
    assert weights(snapshots[0]) != weights(snapshots[1]) == weights(folder)


def test_a_seed_determines_the_weights(built, demonstrations_file, tmp_path):
    torch.manual_seed(random.Random(0).randrange(2**32))
    before = torch.random.get_rng_state()
    small_build(tmp_path / "same", demonstrations_file, seed=1)
    assert torch.equal(before, torch.random.get_rng_state())
    small_build(tmp_path / "other", demonstrations_file, seed=2)
    assert weights(tmp_path / "same") == weights(built[0]) != weights(tmp_path / "other")


def test_it_learns(demonstrations_file, tmp_path):
    losses = {}
    small_build(
        tmp_path / "model",
        demonstrations_file,
        steps=60,
        learning_rate=0.05,
        progress=lambda said: losses.update({said.done: said.loss}),
    )
    assert losses[60] < losses[1] - 0.3


def test_the_learning_rate_goes_up_and_down():
    shares = [rate_share(step, 600, 0.1) for step in range(600)]
    assert shares[0] == pytest.approx(1 / 200)
    assert shares[199] == 1.0 == max(shares)
    assert shares[399] == pytest.approx(0.55)
    assert shares[599] == pytest.approx(0.1)
    assert rate_share(2, 3, 0.1) == pytest.approx(3 / 200)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"width": 100}, "multiple of 32"),
        ({"steps": 0}, "steps = 0"),
        ({"snapshots": (4,)}, "from 1 to 3"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"final_rate": 2.0}, "from 0 to 1"),
    ],
)
def test_a_recipe_that_cannot_be_trained_is_refused(tmp_path, options, complaint):
    with pytest.raises(UserError, match=complaint):
        small_build(tmp_path / "model", tmp_path / "none.npz", **options)


def test_nothing_is_replaced_unasked(demonstrations_file, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    small_build(folder, demonstrations_file)  # an empty folder is free
    first = weights(folder)
    with pytest.raises(UserError, match="--force"):
        small_build(folder, demonstrations_file, seed=2)
    assert weights(folder) == first
    small_build(folder, demonstrations_file, seed=2, force=True)
    assert weights(folder) != first
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("years of work")
    with pytest.raises(UserError, match="name another folder"):
        small_build(other, demonstrations_file, force=True)
    assert (other / "chapter1.tex").exists()


# --- command line


def test_the_commands_build_and_say_so(tmp_path):
    demos, folder = tmp_path / "demos.npz", tmp_path / "model"
    runner = CliRunner()
    made = runner.invoke(
        app, ["demonstrations", "--count", "40", "--lessons", "9", "-o", str(demos)]
    )
    assert made.exit_code == 0
    assert arrays.read(demos).total == 40
    options = ["--steps", "2", "--batch", "4", "--width", "32", "--layers", "1"]
    command = ["build", "-o", str(folder), "--demonstrations", str(demos), *options]
    done = runner.invoke(app, [*command, "--snapshot", "1", "--json"])
    assert done.exit_code == 0
    record = json.loads(done.stdout)
    assert record["folder"] == str(folder)
    assert {k: record[k] for k in ("steps", "batch", "snapshots")} == {
        "steps": 2,
        "batch": 4,
        "snapshots": [1],
    }
    assert (tmp_path / "model-step1" / "model.safetensors").is_file()
    refused = runner.invoke(app, command)
    assert isinstance(refused.exception, UserError)


def test_info_tells_of_the_shipped_model(built, tmp_path, monkeypatch):
    monkeypatch.setattr(pocket, "files", lambda _name: tmp_path)
    runner = CliRunner()
    missing = runner.invoke(app, ["info"])
    assert isinstance(missing.exception, UserError)
    assert "coevolve pocket build" in str(missing.exception)
    (tmp_path / "weights").symlink_to(built[0])
    found = runner.invoke(app, ["info", "--json"])
    assert json.loads(found.stdout)["build"] == built[1]
    assert json.loads(found.stdout)["rates"] is None
    plain = runner.invoke(app, ["info"]).stdout
    assert "  parameters  " in plain
    assert "no rates.json" in plain
