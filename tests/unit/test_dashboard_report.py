"""The page itself: nothing that a model wrote gets out of its place, and nothing is loaded."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pretended import HOSTILE, Saying, make_run
from served import PATCHES, tree_run

from coevolve.dashboard.boards import still
from coevolve.dashboard.facts import Facts, facts_of
from coevolve.dashboard.report import SCRIPTS, STATIC, fingerprint, render, write_report
from coevolve.harness.harness import Harness
from coevolve.harness.version import Version
from coevolve.loop.loop import run_loop
from coevolve.store.ledger import Ledger
from coevolve.store.phases import Grown

LOADING = {"img", "iframe", "object", "embed", "link", "base", "form", "video", "audio", "image",
           "use", "foreignobject"}  # fmt: skip


class Page(HTMLParser):
    """What a browser would make of a page, in lists."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.words.append(data)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """A run whose policy and engineer write markup."""
    folder = tmp_path_factory.mktemp("runs") / "a <b> & 'c'"
    run = make_run(folder, Saying(HOSTILE), ("prioritised", "greedy"), policy="hostile")
    run_loop(run)
    run.ledger.note("stopped", reason=HOSTILE + "\ud800")
    run.ledger.close()
    return facts_of(folder)._replace(name=HOSTILE, problems=(HOSTILE,))


@pytest.fixture(scope="module")
def text(hostile: Facts) -> str:
    return render(hostile)


def test_markup_is_shown_as_text(text: str, hostile: Facts) -> None:
    page = Page(text)
    assert len(page.scripts) == 2
    assert json.loads(page.scripts[0])["curves"][1]["steps"] == hostile.curves.curves[1].steps
    assert "alert(" not in page.scripts[0] + page.scripts[1]
    assert not LOADING.intersection(page.tags)
    assert [name for name, _ in page.attributes if name.startswith("on")] == []
    words = "".join(page.words)
    # The name, a problem, the reason, explanations, failures, and answers: all are there as text.
    assert words.count("<script>alert(1)</script>") >= 8
    assert "{{ 7 * 7 }}" in words
    assert "<script>alert" not in text


def test_hidden_and_half_characters_do_no_harm(hostile: Facts, tmp_path: Path) -> None:
    assert "\u202e" not in hostile.generations[0].attempts[0].said[0].explanation
    facts = write_report(Path(hostile.folder), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert facts.reason.startswith(HOSTILE[:40])
    assert "alert(1)" in page


def test_nothing_is_loaded(text: str) -> None:
    page = Page(text)
    assert {value[0] for name, value in page.attributes if name in ("href", "xlink:href")} == {"#"}
    assert not [value for name, value in page.attributes if name in ("src", "srcset", "action")]
    assert not [value for name, value in page.attributes if name == "style"]
    style = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    assert "@import" not in style
    assert "url(" not in style
    own = (STATIC / "page.js").read_text("utf-8")
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|import\(", own)
    assert len(page.ids) == len(set(page.ids))
    targets = {value[1:] for name, value in page.attributes if name == "href"}
    assert targets <= set(page.ids)


def test_the_policy_names_exactly_the_script_and_the_style(text: str) -> None:
    policy = dict(Page(text).attributes)["content"]
    policy = next(v for n, v in Page(text).attributes if n == "content" and "default-src" in v)
    script, style = Page(text).scripts[1], re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0]
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src '{fingerprint(script)}'" in policy
    assert f"style-src '{fingerprint(style)}'" in policy
    assert "unsafe" not in policy
    assert "</script" not in "".join((STATIC / name).read_text("utf-8") for name in SCRIPTS)
    assert "Copyright (c) 2022 Leon Sorokin" in script


def test_every_section_is_there_and_small_enough(text: str) -> None:
    page = Page(text)
    sections = {"headline", "training", "boards", "knobs", "versions", "version-0", "version-1",
                "generation-1", "time"}  # fmt: skip
    assert sections <= set(page.ids)
    assert len(text) < 2_000_000
    assert page.tags.count("svg") > 10


@pytest.mark.parametrize(
    "inner",
    [
        "<script>alert(1)</script>",
        '<image href="http://example.org/a.png"/>',
        '<rect onclick="alert(1)"/>',
        '<a href="javascript:alert(1)"><rect/></a>',
        '<rect style="fill: url(http://example.org)"/>',
        '<rect fill="url(http://example.org)"/>',
        '<foreignObject><b xmlns="http://www.w3.org/1999/xhtml">x</b></foreignObject>',
        '<animate attributeName="href" values="javascript:alert(1)" to="x"/>',
        "<rect>",
    ],
)
def test_pictures_that_could_do_anything_are_left_out(inner: str) -> None:
    assert still(f'<svg xmlns="http://www.w3.org/2000/svg">{inner}</svg>') == ""


def test_pictures_that_only_show_are_kept() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><text>&lt;script&gt;</text></svg>'
    assert still(svg) == "<svg><text>&lt;script&gt;</text></svg>"


def test_a_page_of_almost_nothing(tmp_path: Path) -> None:
    with Ledger.create(tmp_path, {"name": "empty"}) as ledger:
        ledger.phase("versions/00", "gate", dict)
    words = "".join(Page(render(facts_of(tmp_path))).words)
    assert "the plan is lost" in words
    assert "No version has begun" in words
    assert "No training step was written down" in words


def test_a_version_that_has_only_begun_says_what_is_not_there(tmp_path: Path) -> None:
    with make_run(tmp_path / "run").ledger as ledger:
        grown = Grown(version=Version(number=0, parent=None, harness=Harness()), code="")
        ledger.phase("versions/00", "version", lambda: grown.model_dump(mode="json"))
    words = "".join(Page(render(facts_of(tmp_path / "run"))).words)
    assert "Not recorded: train, dev, gate" in words


def test_a_tree_says_what_each_version_changed(tmp_path: Path) -> None:
    tree_run(tmp_path / "tree")
    facts = facts_of(tmp_path / "tree")
    words = "".join(Page(render(facts)).words)
    patched = [one for one in facts.versions if one.version.patch]
    assert [one.version.patch.factor for one in patched] == [one for one, _ in PATCHES.values()]
    assert patched[0].changed == "temperature 1 → 0.7"
    for one in patched:
        assert f"Proposal{one.changed}, by rules" in words.replace("\n", "").replace("  ", "")
    assert "Nobody" not in words
    assert "less signal" in words  # why one was refused
    assert "size5.data_ratio" in words
    assert words.count("size4.hole_ratio") == 0  # what did not change is not listed
