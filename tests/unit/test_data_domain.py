"""Data sets as domains: files of all kinds, judges, labels as knobs, splits by families of rows."""

import csv
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from answering import chat, serving

pytest.importorskip("datasketch", reason="data sets need the extra `data`")

from coevolve.core.errors import KnobError, UserError
from coevolve.core.splits import Split, split_of
from coevolve.domains.base import Domain, tasks_in
from coevolve.domains.check import conformance
from coevolve.domains.data.kin import families, mark_of
from coevolve.domains.registry import get_domain
from coevolve.evaluation.attempts import attempts
from coevolve.evaluation.statistics import wilson
from coevolve.evaluation.validate import tried
from coevolve.policies.base import Sampling
from coevolve.policies.script import ScriptedPolicy
from coevolve.store.rollouts import write

BEGIN = ("Bel", "Dor", "Fen", "Gal", "Hol", "Kir")
END = ("aria", "den", "ford", "ham", "land", "mark", "mont", "nia", "stan", "ton")
NAMES = [one + other for one in BEGIN for other in END]


def rows(count: int = 240) -> list[dict[str, Any]]:
    """Questions of two levels that do not resemble each other."""
    words = [NAMES[n % 60] + "esia"[: n // 60] for n in range(count)]
    return [
        {
            "question": f"{word}: what comes {'soon ' * (n % 3)}after {n} in {word[::-1]}?",
            "answer": n + 1,
            "level": "hard" if n % 4 == 0 else "easy",
        }
        for n, word in enumerate(words)
    ]


def lines(path: Path, listed: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in listed))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return lines(tmp_path / "rows.jsonl", rows())


def opened(text: object) -> Domain:
    return get_domain(f"data:{text}")


@pytest.mark.parametrize("judge", ["math", "exact"])
def test_a_data_set_passes_the_conformance_suite(file: Path, judge: str) -> None:
    findings = list(conformance(opened(f"{file}?judge={judge}&labels=level")))
    assert [one.name for one in findings if not one.passed] == []


def test_every_kind_of_file_is_read_alike(tmp_path: Path, file: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    listed = rows()
    (tmp_path / "a.json").write_text(json.dumps(listed))
    parquet.write_table(pyarrow.Table.from_pylist(listed), tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)
    lines(tmp_path / "folder" / "one.jsonl", listed[:120])
    lines(tmp_path / "folder" / "deep" / "two.jsonl", listed[120:])
    wanted = {task.id for task in opened(file).tasks()}  # type: ignore[attr-defined]
    for name in ("a.json", "a.parquet", "a.csv", "folder"):
        found = opened(tmp_path / name)
        assert {task.id for task in found.tasks()} == wanted, name  # type: ignore[attr-defined]
    assert "file" in found.buckets


def test_labels_are_knobs_and_shares_are_kept(file: Path) -> None:
    domain = opened(f"{file}?labels=level")
    assert {name: knob.default for name, knob in domain.space.knobs.items()} == {
        "level_easy.share": 0.75, "level_hard.share": 0.25,
    }  # fmt: skip
    knobs = domain.space.parse({"level_hard.share": 0.8, "level_easy.share": 0.2})
    tasks = list(domain.generate(knobs, 400, 1, Split.TRAIN))
    assert sum(task.bucket["level"] == "hard" for task in tasks) == pytest.approx(320, abs=30)
    seen = Counter(task.id for task in tasks if task.bucket["level"] == "hard")
    assert max(seen.values()) - min(seen.values()) <= 1  # all come before any comes again
    assert {task.split for task in tasks} == {Split.TRAIN}
    alone = domain.space.parse({"level_hard.share": 1.0})
    assert {task.bucket["level"] for task in domain.generate(alone, 50, 1, Split.DEV)} == {"hard"}


def test_rows_are_asked_once_unless_more_are_wanted(file: Path) -> None:
    from typer.testing import CliRunner

    from coevolve.cli.main import app

    domain = opened(f"{file}?labels=level")
    dev = tasks_in(domain, Split.DEV)
    assert dev is not None
    tasks = domain.generate(domain.space.defaults(), 2 * dev, 1, Split.DEV)
    assert set(Counter(task.id for task in tasks).values()) == {2}
    words = ["evaluate", "-d", f"data:{file}", "-p", "oracle", "--split", "dev", "--json"]
    for more, asked in (([], dev), (["--count", str(dev + 3)], dev + 3)):
        found = CliRunner().invoke(app, [*words, *more], catch_exceptions=False)
        assert (f"the split 'dev' has {dev} tasks; all are asked" in found.stderr) == (not more)
        counted = json.loads(found.stdout)
        assert (counted["tasks"], counted["different_tasks"]) == (asked, dev)
    aspect = tried(domain, ScriptedPolicy(domain, "silent"), "", Sampling(), 2 * dev, 2)
    assert f"of {2 * dev} attempts at {dev} tasks" in aspect.words
    assert aspect.figures["high"] == pytest.approx(wilson(0, dev).high)


def test_without_labels_they_are_made(file: Path, tmp_path: Path) -> None:
    assert opened(file).buckets == ("length",)
    solved = [
        {**row, "answer": f"{'<<1+1=2>>' * (n % 3)} #### {n}"} for n, row in enumerate(rows())
    ]
    domain = opened(lines(tmp_path / "solved.jsonl", solved))
    assert domain.buckets == ("length", "steps")
    assert "judge math" in domain.summary


def test_how_often_a_policy_solved_a_task_can_be_a_label(file: Path, tmp_path: Path) -> None:
    plain = opened(file)
    tasks = list(plain.tasks())  # type: ignore[attr-defined]
    right, wrong = tasks[:100], tasks[100:]
    for name, own in (("oracle", right), ("silent", wrong)):
        policy = ScriptedPolicy(plain, name)
        write(list(attempts(plain, policy, own, Sampling())), tmp_path / f"e/{name}.parquet")
    domain = opened(f"{file}?rates={tmp_path / 'e'}")
    assert Counter(task.bucket["rate"] for task in domain.tasks()) == {  # type: ignore[attr-defined]
        "mostly": 100, "never": 140,
    }  # fmt: skip
    assert domain.space.knobs["rate_never.share"].harder == 1


@pytest.mark.parametrize("name", ["length", "rate", "steps"])
def test_a_column_may_have_the_name_of_a_label_that_is_made(tmp_path: Path, name: str) -> None:
    own = [{**row, name: "abc"[n % 3]} for n, row in enumerate(rows())]
    domain = opened(f"{lines(tmp_path / 'own.jsonl', own)}?labels={name}")
    assert list(domain.space.knobs) == [f"{name}_{value}.share" for value in "abc"]


def test_near_duplicates_stay_together() -> None:
    base = (
        "Ann has 3 apples and buys 4 more at the market on a sunny day, while Bob, who has none at "
        "all, borrows two of hers for a pie that he bakes. How many apples does Ann have left?"
    )
    kin = [base, base.replace("sunny", "rainy"), base.replace("pie", "cake").upper()]
    others = [f"What is the {n}th word of the poem about {word}?" for n, word in enumerate(NAMES)]
    marks = families([*kin, *others])
    assert len(set(marks[:3])) == 1
    assert len(set(marks[3:])) == len(others)
    assert families([*kin, *others][::-1]) == marks[::-1]
    assert mark_of("How  many? ") == mark_of("how many")
    form = "Read the rules of the game with great care before you begin to answer the question. "
    assert len(set(families([form + one for one in others]))) == len(others)


def test_a_row_and_a_whole_task_are_loaded_into_their_splits(file: Path) -> None:
    domain = opened(file)
    task = next(domain.generate(domain.space.defaults(), 1, 5, Split.GATE))
    again = domain.load(json.loads(task.model_dump_json()))
    assert again == task
    row = next(one for one in rows() if one["question"] == task.data["question"])
    assert domain.load(row).split is Split.GATE
    assert split_of(domain.fingerprint(task)) is Split.GATE
    assert pickle.loads(pickle.dumps(domain)).name == domain.name


def test_choices_are_asked_by_letter(tmp_path: Path) -> None:
    listed = [
        {"question": row["question"], "choices": ["red", "green", f"blue {n}"],
         "answer": ["green", "B", 1, f"blue {n}"][n % 4]}
        for n, row in enumerate(rows())
    ]  # fmt: skip
    domain = opened(lines(tmp_path / "c.jsonl", listed))
    for task in list(domain.tasks())[:40]:  # type: ignore[attr-defined]
        right = task.data["answer"]
        assert right == ("C" if right == "C" else "B")
        assert "B) green" in domain.prompt(task)[-1].content
        assert domain.verify(task, f"<answer>({right.lower()})</answer>").valid
        assert domain.verify(task, "<answer>A</answer>").failure == "wrong"
    findings = {one.name: one for one in conformance(domain)}
    assert findings["the oracle earns full reward"].passed


def test_a_function_of_ones_own_judges(tmp_path: Path, file: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(
        "def judge(row, answer):\n    return 1 - abs(int(answer) - row['answer']) / 4\n"
    )
    domain = opened(f"{file}?judge={code}")
    task = next(iter(domain.tasks()))  # type: ignore[attr-defined]
    key = int(task.data["answer"])
    assert domain.verify(task, f"<answer>{key}</answer>").valid
    near = domain.verify(task, f"<answer>{key + 1}</answer>")
    assert (near.valid, near.reward) == (False, 0.75)
    code.write_text("x = 1\n")
    with pytest.raises(UserError, match="has no function `def judge"):
        opened(f"{file}?judge={code}").verify(task, "<answer>1</answer>")


def test_a_model_behind_an_address_judges(file: Path) -> None:
    pytest.importorskip("openai", reason="addresses need the extra `endpoint`")

    def behave(_: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        shown = json.loads(body["messages"][-1]["content"])
        same = shown["right"] == shown["answer"]
        return 200, {}, chat(json.dumps({"reason": "compared", "correct": same}))

    with serving(behave) as server:
        domain = opened(f"{file}?judge={server.url}%23judge")
        task = next(iter(domain.tasks()))  # type: ignore[attr-defined]
        assert domain.verify(task, f"<answer>{task.data['answer']}</answer>").valid
        assert domain.verify(task, "<answer>none</answer>").failure == "wrong"
        assert domain.verify(task, "none").failure == "format"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nowhere.jsonl", "there is no file or folder nowhere.jsonl"),
        ("{file}?judges=math", "there is no option 'judges'"),
        ("{file}?judge=maths", "did you mean 'math'"),
        ("{file}?judge=nowhere.py", "there is no such file"),
        ("{file}?question=ask", "line 1: there is no column 'ask' for the question; this row has"),
        ("{file}?labels=topic", "there is no column 'topic' for the label.*labels=COLUMN"),
        ("{folder}", "has no data in it"),
        ("{folder}/few.jsonl", "8 rows are too few"),
        ("{folder}/empty.jsonl", "has no rows"),
        ("{folder}/bad.jsonl", "line 3: a math task needs its answer"),
        (
            "{folder}/gaps.csv",
            "line 4: the answer .answer. is empty .faults in 2 of 3 rows: line 4, line 5;",
        ),
        ("{folder}/bad.txt", "give a file that ends in"),
    ],
)
def test_what_is_wrong_is_named(file: Path, tmp_path: Path, text: str, why: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if not text.endswith("{folder}"):
        lines(folder / "few.jsonl", rows(8))
        lines(folder / "empty.jsonl", [])
        lines(folder / "bad.jsonl", [*rows(2), {"question": "What?"}, *rows(60)])
        (folder / "bad.txt").write_text("x")
        gaps = "question,answer\nWho?,Ada\n,\nWhere?,\nWhen?,\n"
        (folder / "gaps.csv").write_text(gaps)
    with pytest.raises(UserError, match=why):
        opened(text.format(file=file, folder=folder))


def test_labels_that_a_split_lacks_are_a_matter_of_knobs(tmp_path: Path) -> None:
    listed = [{**row, "level": "rare" if n == 7 else "usual"} for n, row in enumerate(rows())]
    domain = opened(f"{lines(tmp_path / 'r.jsonl', listed)}?labels=level")
    knobs = domain.space.parse({"level_rare.share": 1.0})
    home = next(one.split for one in domain.tasks() if one.bucket["level"] == "rare")  # type: ignore[attr-defined]
    other = next(one for one in Split if one is not home)
    with pytest.raises(KnobError, match="no rows with these labels"):
        list(domain.generate(knobs, 4, 1, other))


def test_a_plan_for_another_domain_takes_no_knobs_along(file: Path) -> None:
    from coevolve.harness.plan import explained, load_plan

    changes = {"domain": f"data:{file}", "engineers": ["aim"]}
    plan = load_plan("rounds", changes)
    assert (plan.knobs, plan.target.knobs) == ({}, {})
    assert load_plan("rounds", {}).target.knobs
    where = {one.setting: one.where for one in explained("rounds", changes)}
    assert (where["domain"], where["target.knobs"]) == ("command line", "default")


def test_choices_that_are_the_same_and_keys_that_count_from_one_are_refused(tmp_path: Path) -> None:
    def made(name: str, keys: list[Any], last: str = "blue") -> str:
        listed = [
            {"question": row["question"], "choices": ["red", "green", last], "answer": key}
            for row, key in zip(rows(), keys, strict=False)
        ]
        return str(lines(tmp_path / f"{name}.jsonl", listed))

    with pytest.raises(UserError, match="two of its choices are the same, 'red'"):
        opened(made("same", ["A"] * 60, last="red"))
    with pytest.raises(UserError, match="count choices from 1"):
        opened(f"{made('beyond', [1, 2, 3] * 20)}?faults=skip")
    assert "60 rows" in opened(made("right", [0, 1, 2] * 20)).summary
    assert "60 rows" in opened(made("letters", ["B", "C"] * 30)).summary


def test_choices_in_tables_are_lists_in_text_or_columns(tmp_path: Path) -> None:
    plain = [(row["question"], ["red", "green", f"blue {n}"]) for n, row in enumerate(rows())]
    told = {
        "json": [{"ask": q, "options": json.dumps(o), "key": "B"} for q, o in plain],
        "bars": [{"ask": q, "options": " | ".join(o), "key": "green"} for q, o in plain],
        "columns": [{"ask": q, **dict(zip("ABC", o, strict=True)), "key": "B"} for q, o in plain],
        "named": [{"ask": q, **dict(zip("xyz", o, strict=True)), "key": "1"} for q, o in plain],
    }
    for name, listed in told.items():
        with (tmp_path / f"{name}.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, list(listed[0]), delimiter=";" if name == "bars" else ",")
            writer.writeheader()
            writer.writerows(listed)
        more = "&choices=x,y,z" if name == "named" else ""
        domain = opened(f"{tmp_path / name}.csv?question=ask&answer=key{more}")
        task = next(iter(domain.tasks()))  # type: ignore[attr-defined]
        assert "judge choice" in domain.summary
        assert "B) green" in domain.prompt(task)[-1].content
        assert domain.verify(task, "<answer>B</answer>").valid


def test_rows_that_contradict_each_other_are_left_out_and_told(tmp_path: Path) -> None:
    listed = [*rows(), rows()[0], {**rows()[1], "answer": 77}]
    domain = opened(lines(tmp_path / "twice.jsonl", listed))
    assert "239 rows" in domain.summary
    assert "left out: 1 repeated, 2 that contradict each other" in domain.summary


def test_a_file_that_has_changed_is_not_taken_for_the_one_it_was(file: Path) -> None:
    name = opened(file).name
    assert get_domain(name).name == name
    text = file.read_text()
    lines(file, rows()[:200])
    with pytest.raises(UserError, match="has other rows than when this began"):
        get_domain(name)
    file.write_text(text)
    assert get_domain(name).name == name


def test_a_judge_is_found_from_anywhere(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_it.py").write_text("LIMIT = 3\n")
    (tmp_path / "mine.py").write_text(
        "from beside_it import LIMIT\ndef judge(row, answer):\n    return LIMIT\n"
    )
    monkeypatch.chdir(tmp_path)
    name = opened("rows.jsonl?judge=mine.py").name
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    domain = get_domain(name)
    task = next(iter(domain.tasks()))  # type: ignore[attr-defined]
    assert domain.verify(task, "<answer>x</answer>").reward == 1


def test_labels_that_rows_lack_or_have_too_many_of(tmp_path: Path, file: Path) -> None:
    some = [{k: v for k, v in row.items() if n % 5 or k != "level"} for n, row in enumerate(rows())]
    domain = opened(f"{lines(tmp_path / 'some.jsonl', some)}?labels=level")
    assert "level_none.share" in domain.space.knobs
    with pytest.raises(UserError, match="answer has 240 values"):
        opened(f"{file}?labels=answer")
    alike = [{"question": f"Say {n:04d}.", "answer": "yes"} for n in range(240)]
    domain = opened(lines(tmp_path / "alike.jsonl", alike))
    assert domain.space.knobs == {}
    assert len(list(domain.generate(domain.space.defaults(), 5, 1, Split.DEV))) == 5


def test_rates_of_other_rows_are_refused_and_unmeasured_rows_come_as_often_as_before(
    file: Path, tmp_path: Path
) -> None:
    plain = opened(file)
    tasks = [task for task in plain.tasks() if task.split == Split.TRAIN]  # type: ignore[attr-defined]
    for name, own in (("oracle", tasks[:40]), ("silent", tasks[40:60])):
        policy = ScriptedPolicy(plain, name)
        write(list(attempts(plain, policy, own, Sampling())), tmp_path / f"e/{name}.parquet")
    domain = opened(f"{file}?rates={tmp_path / 'e'}")
    defaults = domain.space.defaults()
    assert dict(defaults) == pytest.approx({"rate_never.share": 1 / 3, "rate_mostly.share": 2 / 3})
    knobs = domain.space.parse({"rate_never.share": 0, "rate_mostly.share": 1})
    drawn = [one.bucket["rate"] for one in domain.generate(knobs, 600, 1, Split.TRAIN)]
    assert set(drawn) == {"mostly", "other"}
    rest = (len(tasks) - 60) / len(tasks)  # 60 that are all of one kind now, as many as before
    assert drawn.count("other") / 600 == pytest.approx(rest, abs=0.08)
    assert len(list(domain.generate(defaults, 5, 1, Split.DEV))) == 5
    others = lines(
        tmp_path / "o.jsonl", [{"question": f"Name {n}", "answer": n} for n in range(99)]
    )
    with pytest.raises(UserError, match="none of these rows was asked there"):
        opened(f"{others}?rates={tmp_path / 'e'}")


def test_people_see_a_question_once_and_need_not_name_the_domain(
    file: Path, tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from coevolve.cli.main import app

    def said(*words: object) -> str:
        found = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert found.exit_code == 0
        return found.stdout

    shown = said("ask", "-d", f"data:{file}", "-p", "oracle", "--json")
    asked = json.loads(shown)["prompt"][-1]["content"]
    assert said("ask", "-d", f"data:{file}", "-p", "oracle").count(asked) == 1
    out = tmp_path / "tasks.jsonl"
    said("tasks", "generate", "-d", f"data:{file}", "-n", 2, "-o", out)
    assert "what comes" in said("tasks", "show", out)


def test_a_file_and_a_package_that_are_no_domain_yet_get_the_next_step(tmp_path: Path) -> None:
    file = lines(tmp_path / "rows.jsonl", rows(8))
    with pytest.raises(UserError, match="as a data set it is data:"):
        get_domain(str(file))
    (tmp_path / "pyproject.toml").touch()
    with pytest.raises(UserError, match="pip install -e"):
        get_domain(str(tmp_path))


def test_an_answer_in_words_among_numbers_is_a_mistake(tmp_path: Path) -> None:
    listed = rows(90)
    listed[0]["answer"] = "about six or so"
    listed[17]["answer"] = "nobody knows"
    listed[20]["answer"] = "blue"
    for place, formula in enumerate(("x^2", "\\frac{1}{2}", "2 apples", "\\pi", "ab"), 30):
        listed[place]["answer"] = formula
    file = lines(tmp_path / "words.jsonl", listed)
    with pytest.raises(
        UserError, match=r"line 1: .*in words.*in 3 of 90.*: line 1, line 18, line 21;"
    ):
        get_domain(f"data:{file}")
    assert get_domain(f"data:{file}?judge=exact")
    assert "left out: 3 with faults" in opened(f"{file}?faults=skip").summary


def test_all_rows_with_faults_are_named(tmp_path: Path) -> None:
    listed = rows(40)
    for place in (10, 11, 30):
        listed[place].pop("answer")
    file = lines(tmp_path / "faults.jsonl", listed)
    with pytest.raises(UserError, match="faults in 3 of 40 rows: line 11, line 12, line 31;"):
        get_domain(f"data:{file}")


def test_rows_with_faults_can_be_left_out(tmp_path: Path) -> None:
    listed = rows(90)
    for place in range(12):
        listed[place].pop("answer")
    file = lines(tmp_path / "faults.jsonl", listed)
    with pytest.raises(UserError, match=r"line 10 and 2 more; data:FILE\?faults=skip leaves"):
        opened(file)
    domain = opened(f"{file}?faults=skip")
    assert "78 rows" in domain.summary
    assert "left out: 12 with faults" in domain.summary
    assert get_domain(domain.name).summary == domain.summary
    with pytest.raises(UserError, match="rows with faults can only be left out: faults=skip"):
        opened(f"{file}?faults=keep")
    none = lines(tmp_path / "none.jsonl", listed[:12])
    with pytest.raises(UserError, match=r"in 12 of 12 rows: line 1, .* and 2 more\)"):
        opened(f"{none}?faults=skip&judge=exact")


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_lines_that_cannot_be_read_are_left_out_alike(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"broken.{kind}"
    if kind == "csv":
        good = [f"{row['question']},{row['answer']}" for row in rows(90)]
        text = "\n".join(["question,answer", *good[:9], "What, then?,4", *good[9:]])
    else:
        good = [json.dumps(row) for row in rows(90)]
        text = "\n".join([*good[:10], '{"question": "What', *good[10:]])
    file.write_text(text)
    with pytest.raises(UserError, match=r"line 11: .*in 1 of 91 rows: line 11; .*faults=skip"):
        opened(file)
    assert "90 rows" in opened(f"{file}?faults=skip").summary
    assert "left out: 1 with faults" in opened(f"{file}?faults=skip").summary
    file.write_text("question,answer\na,b,c\n" if kind == "csv" else "{")
    with pytest.raises(UserError, match=r"line [12]: (more values|not JSON)"):
        opened(f"{file}?faults=skip")


def test_an_empty_column_is_called_by_its_name(tmp_path: Path) -> None:
    listed = [{"ask": row["question"], "key": row["answer"]} for row in rows(40)]
    listed[3]["ask"], listed[8]["key"] = " ", ""
    file = lines(tmp_path / "named.jsonl", listed)
    with pytest.raises(UserError, match=r"line 4: the question \(ask\) is empty .*line 4, line 9;"):
        opened(f"{file}?question=ask&answer=key")
    usual = lines(tmp_path / "usual.jsonl", [*rows(40), {"question": "", "answer": "3"}])
    with pytest.raises(UserError, match=r"line 41: .* here question is ''"):
        opened(usual)


def test_what_is_wrong_with_the_judge_is_not_told_of_a_line(file: Path) -> None:
    with pytest.raises(UserError, match=r"^judge = \S+nowhere\.py: there is no such file"):
        opened(f"{file}?judge=nowhere.py")


def test_a_row_with_more_values_than_names_is_told(tmp_path: Path) -> None:
    file = tmp_path / "more.csv"
    file.write_text("question,answer\nWho?,Ada\nWho, then?,Bob\n")
    with pytest.raises(
        UserError, match=r"line 3: more values than the 2 names.*put texts that hold ','"
    ):
        opened(file)


def test_checked_answers_tell_of_rewards_in_part(file: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from coevolve.cli.main import app

    code, tasks, said = tmp_path / "mine.py", tmp_path / "tasks.jsonl", tmp_path / "said.jsonl"
    code.write_text("def judge(row, answer):\n    return float(answer)\n")
    name = f"data:{file}?judge={code}"
    asked = [task.model_dump(mode="json") for task in list(get_domain(name).tasks())[:3]]  # type: ignore[attr-defined]
    lines(tasks, asked)
    given = zip(asked, ("1", "0.25", "0"), strict=True)
    lines(said, [{"id": one["id"], "answer": f"<answer>{text}</answer>"} for one, text in given])
    words = ["tasks", "verify", str(tasks), str(said), "-d", name]
    plain, as_json = (
        CliRunner().invoke(app, [*words, *more], catch_exceptions=False).stdout.splitlines()
        for more in ([], ["--json"])
    )
    assert ["reward 0.25" in line for line in plain] == [False, True, False]
    assert sum("reward" in line for line in plain) == 1
    assert [json.loads(line)["reward"] for line in as_json] == [1, 0.25, 0]


@pytest.mark.parametrize("word", ["p.jsonl", "data:p.jsonl"])
def test_data_in_the_place_of_a_plan_is_told_how_it_is_named(word: str) -> None:
    from coevolve.harness.plan import load_plan

    with pytest.raises(UserError, match=r"tasks are named by -d: coevolve run -d data:p.jsonl"):
        load_plan(word)
