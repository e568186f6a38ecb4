"""Pictures of boards: text is exact, SVG is well-formed for any plan, GIFs end as they should."""

import random
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from coevolve.core.errors import UserError
from coevolve.domains.lake import checks
from coevolve.domains.lake.board import Board, Plan
from coevolve.domains.lake.draw import draw_gif, draw_svg, draw_text
from coevolve.domains.lake.draw.look import MARK, edge_of, fill_of
from coevolve.domains.lake.draw.scene import letters, scene_of

SVG = "{http://www.w3.org/2000/svg}"
BOARD = Board(rows=("...", ".O.", "..."), starts=((0, 0), (0, 2)), goals=((0, 2), (2, 0)))
GOOD: Plan = (
    ((0, 0), (0, 0), (0, 1), (0, 2)),
    ((0, 2), (1, 2), (2, 2), (2, 1), (2, 0)),
)
SHARED: Plan = (((0, 0), (0, 1), (0, 2)), ((0, 2), (0, 1), (0, 0), (1, 0), (2, 0)))
BROKEN: dict[str, Plan] = {
    "agents": GOOD[:1],
    "agents, none": (),
    "agents, too many": (*GOOD, GOOD[0]),
    "start": (GOOD[0][2:], GOOD[1]),
    "start, zero-length": ((), GOOD[1]),
    "start, all zero-length": ((), ()),
    "step": (((0, 0), (0, 2)), ((0, 2), (2, 0))),
    "step, far away": (((0, 0), (-1, 0), (-5, 0), (10**30, -(10**30))), GOOD[1]),
    "bounds": (((0, 0), (-1, 0), (-2, 0), (-1, 0), (0, 0), (0, 1), (0, 2)), GOOD[1]),
    "hole": (((0, 0), (0, 1), (1, 1), (1, 2), (0, 2)), GOOD[1]),
    "conflict": SHARED,
    "goal": (GOOD[0][:3], GOOD[1]),
}


def random_case(seed: int, side: int, agents: int) -> tuple[Board, Plan]:
    """A board and paths that walk, jump and leave it at random."""
    source = random.Random(seed)
    cells = [(row, column) for row in range(side) for column in range(side)]
    source.shuffle(cells)
    holes = set(cells[agents : agents + len(cells) // 8])
    free = [cell for cell in cells if cell not in holes]
    board = Board(
        rows=tuple(
            "".join("O" if (row, column) in holes else "." for column in range(side))
            for row in range(side)
        ),
        starts=tuple(free[:agents]),
        goals=tuple(source.sample(free, agents)),
    )
    paths = []
    for start in board.starts:
        path = [start]
        for _ in range(source.randrange(12)):
            row, column = path[-1]
            path.append((row + source.randint(-1, 1), column + source.choice((0, 0, 1, -1, 9))))
        paths.append(tuple(path))
    return board, tuple(paths)


def shuttle() -> tuple[Board, Plan]:
    """Eight agents on an 8x8 board, each moving in every one of 20 steps: the largest film."""
    columns = [*range(8), *range(6, -1, -1), *range(1, 7)]
    board = Board(
        rows=("........",) * 8,
        starts=tuple((row, 0) for row in range(8)),
        goals=tuple((row, 6) for row in range(8)),
    )
    return board, tuple(tuple((row, column) for column in columns) for row in range(8))


def frames_of(path: Path) -> list[set[tuple[int, ...]]]:
    """The colours of each frame."""
    image = pytest.importorskip("PIL.Image")
    found = []
    with image.open(path) as film:
        assert film.format == "GIF"
        for number in range(film.n_frames):
            film.seek(number)
            found.append({tuple(colour) for _, colour in film.convert("RGB").getcolors(256)})
    return found


def shows_mark(colours: set[tuple[int, ...]]) -> bool:
    mark = tuple(bytes.fromhex(MARK[1:]))
    return any(max(abs(a - b) for a, b in zip(c, mark, strict=True)) < 8 for c in colours)


def test_text_of_a_board() -> None:
    assert draw_text(BOARD) == (
        "A . B\n. # .\nb . .\n\n. free  # hole  A-B agents 0-1  a-b their goals\na lies under B\n"
    )


def test_text_of_a_plan() -> None:
    text = draw_text(BOARD, GOOD)
    assert text.removeprefix(draw_text(BOARD)) == (
        "\nA  WRR   cost 3\nB  DDLL  cost 4\nsum of costs 7\n"
    )


def test_text_at_a_time() -> None:
    assert draw_text(BOARD, GOOD, 2).splitlines()[:4] == ["time step 2", ". A a", ". # .", "b . B"]
    assert draw_text(BOARD, GOOD, 99).splitlines()[1:4] == [". . A", ". # .", "B . ."]
    with pytest.raises(UserError, match="time step is -1"):
        draw_text(BOARD, GOOD, -1)


def test_text_of_a_collision_names_both_agents() -> None:
    lines = draw_text(BOARD, SHARED, 1).splitlines()
    assert lines[1] == ". * a"
    assert "* at row 0, column 1: A B" in lines


@pytest.mark.parametrize("name", BROKEN)
def test_text_of_a_broken_plan_says_what_fails(name: str) -> None:
    text = draw_text(BOARD, BROKEN[name])
    violations, _ = checks.check_plan(BOARD, BROKEN[name])
    assert violations[0].check == name.split(",")[0]
    assert text.isascii()
    assert [violation.describe() in text for violation in violations] == [True] * len(violations)


def test_letters_do_not_run_out() -> None:
    names = [letters(agent) for agent in range(4096)]
    assert names[:3] == ["A", "B", "C"]
    assert names[25:28] == ["Z", "AA", "AB"]
    assert len(set(names)) == 4096


def test_sixty_four_agents_look_different() -> None:
    assert len({(fill_of(agent), edge_of(agent)) for agent in range(64)}) == 64


@pytest.mark.parametrize(("board", "plan"), [(BOARD, None), (BOARD, GOOD), shuttle()])
def test_svg_of_a_valid_plan_has_no_mark(board: Board, plan: Plan | None) -> None:
    picture = draw_svg(board, plan)
    root = ElementTree.fromstring(picture)
    assert MARK not in picture
    assert root.findall(".//*[@class='violation']") == []
    moving = {element.tag for element in root.iter() if "animate" in element.tag}
    assert moving == (set() if plan is None else {f"{SVG}animate", f"{SVG}animateTransform"})


@pytest.mark.parametrize("name", BROKEN)
def test_svg_of_a_broken_plan_is_marked_and_explained(name: str) -> None:
    root = ElementTree.fromstring(draw_svg(BOARD, BROKEN[name]))
    (group,) = root.findall(".//*[@class='violation']")
    assert MARK in {element.get("stroke") for element in group}
    words = " ".join(element.text or "" for element in root.iter(f"{SVG}text"))
    violations, _ = checks.check_plan(BOARD, BROKEN[name])
    assert [violation.describe() in words for violation in violations] == [True] * len(violations)


@pytest.mark.parametrize(("side", "agents"), [(3, 1), (8, 8), (32, 64)])
@pytest.mark.parametrize("seed", range(3))
def test_svg_stays_inside_its_frame(side: int, agents: int, seed: int) -> None:
    board, plan = random_case(seed, side, agents)
    root = ElementTree.fromstring(draw_svg(board, plan))
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    motions = list(root.iter(f"{SVG}animateTransform"))
    places = [place for motion in motions for place in motion.attrib["values"].split(";")]
    for line in root.iter(f"{SVG}polyline"):
        places += [place.replace(",", " ") for place in line.attrib["points"].split()]
    places += [
        f"{r.attrib['x']} {r.attrib['y']}" for r in root.iter(f"{SVG}rect") if "x" in r.attrib
    ]
    assert len(places) > 2
    outside = [
        place
        for place in places
        for x, y in [map(float, place.split())]
        if not (0 <= x <= width and 0 <= y <= height)
    ]
    assert outside == []
    assert bool(root.findall(".//*[@class='violation']")) == bool(scene_of(board, plan).violations)


def test_animation_keys_match_its_values() -> None:
    root = ElementTree.fromstring(draw_svg(BOARD, SHARED))
    films = [element for element in root.iter() if "animate" in element.tag]
    assert len(films) == BOARD.agents + 1
    for film in films:
        keys = [float(key) for key in film.attrib["keyTimes"].split(";")]
        assert keys == sorted(keys)
        assert (keys[0], keys[-1]) == (0.0, 1.0)
        assert len(film.attrib["values"].split(";")) == len(keys)
        assert len(film.attrib["keySplines"].split(";")) == len(keys) - 1


def test_hostile_words_stay_words(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = '</text><script>alert("1")</script>&amp;\x00]]>'
    monkeypatch.setitem(checks.MEANING, "conflict", hostile)
    picture = draw_svg(BOARD, SHARED)
    root = ElementTree.fromstring(picture)
    assert "<script" not in picture
    assert root.findall(f".//{SVG}script") == []
    assert 'alert("1")' in (root.findtext(f"{SVG}title") or "")


def test_hostile_coordinates_are_refused() -> None:
    hostile: Plan = ((("0<script>", 0),), GOOD[1])  # type: ignore[assignment]
    with pytest.raises(TypeError):
        draw_svg(BOARD, hostile)


def test_svg_holds_no_script_and_fetches_nothing() -> None:
    picture = draw_svg(BOARD, GOOD).replace("http://www.w3.org/2000/svg", "")
    assert [word for word in ("script", "http", "href", "url(", "onload") if word in picture] == []


def test_gif_of_a_valid_plan(tmp_path: Path) -> None:
    draw_gif(BOARD, GOOD, tmp_path / "good.gif")
    frames = frames_of(tmp_path / "good.gif")
    assert len(frames) == 1 + 4 * 4
    assert [shows_mark(colours) for colours in frames] == [False] * len(frames)


@pytest.mark.parametrize("name", BROKEN)
def test_gif_of_a_broken_plan_ends_with_the_mark(name: str, tmp_path: Path) -> None:
    draw_gif(BOARD, BROKEN[name], tmp_path / "broken.gif")
    assert shows_mark(frames_of(tmp_path / "broken.gif")[-1])


def test_gif_stops_just_before_a_collision(tmp_path: Path) -> None:
    draw_gif(BOARD, SHARED, str(tmp_path / "shared.gif"))
    assert scene_of(BOARD, SHARED).end == 0.65
    assert len(frames_of(tmp_path / "shared.gif")) == 1 + 3


def test_gif_holds_its_last_frame(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    draw_gif(BOARD, SHARED, tmp_path / "shared.gif")
    with image.open(tmp_path / "shared.gif") as film:
        film.seek(film.n_frames - 1)
        assert film.info["duration"] >= 1000


def test_gif_is_small(tmp_path: Path) -> None:
    board, plan = shuttle()
    assert checks.check_plan(board, plan)[0] == []
    draw_gif(board, plan, tmp_path / "large.gif")
    assert len(frames_of(tmp_path / "large.gif")) == 1 + 4 * 20
    assert (tmp_path / "large.gif").stat().st_size < 300_000


def test_gif_without_pillow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "coevolve.domains.lake.draw.frames", raising=False)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError) as caught:
        draw_gif(BOARD, GOOD, tmp_path / "none.gif")
    assert str(caught.value) == "drawing GIFs needs Pillow: pip install coevolve[draw]"
    assert not (tmp_path / "none.gif").exists()
