"""Repositories that need other packages: wheels by hash, read-only in the sandbox."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from coevolve.core.errors import UserError
from coevolve.domains.swe import fetch, source
from coevolve.domains.swe.box import run_command, run_tests
from coevolve.domains.swe.fetch import RegistryError
from coevolve.domains.swe.needs import Wheel, install
from coevolve.domains.swe.repository import repository
from coevolve.domains.swe.source import Source, content_of

NAME = "helper-1.0-py3-none-any.whl"
TREE = {
    "shop.py": b"from helper import double\n\n\ndef total(x):\n    return double(x) + 1\n",
    "test_shop.py": b"from shop import total\n\n\ndef test_total():\n    assert total(2) == 5\n",
}


def packed(place: Path, files: dict[str, str]) -> Wheel:
    """A wheel of some files."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return Wheel(file=place.name, sha256=hashlib.sha256(place.read_bytes()).hexdigest())


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """A wheel that a registry of this machine has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "simple" / "helper"
    files = {
        "helper/__init__.py": "def double(x):\n    return 2 * x\n",
        "helper-1.0.dist-info/METADATA": "Name: helper\nVersion: 1.0\n",
        "helper-1.0.data/scripts/run": "#!/bin/sh\n",
        "../outside.py": "x = 1\n",
    }
    made = packed(folder / NAME, files)
    (folder / "index.html").write_text(f'<a href="{NAME}#sha256={made.sha256}">{NAME}</a>')
    monkeypatch.setattr(fetch, "indexes", lambda: ((tmp_path / "simple").as_uri(),))
    return made


def test_what_tests_need_is_there_and_cannot_be_changed(wheel: Wheel, tmp_path: Path) -> None:
    assert run_tests(TREE, ["test_shop.py"]).broken
    needs = install((wheel,))
    assert needs is not None
    assert run_tests(TREE, ["test_shop.py"], needs=needs).passed == {"test_shop.py::test_total"}
    shown = run_command(TREE, "python -m pytest -q && touch /opt/needs/helper/x", needs=needs)
    assert "1 passed" in shown.output
    assert "Read-only file system" in shown.output
    assert sorted(path.name for path in needs.iterdir()) == ["helper", "helper-1.0.dist-info"]
    assert not list(tmp_path.rglob("outside.py"))


def test_wheels_are_fetched_once(wheel: Wheel, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = install((wheel,))
    monkeypatch.setattr(fetch, "indexes", lambda: ("file:///nowhere",))
    assert install((wheel,)) == needs
    assert install(()) is None


def test_wheels_that_are_not_what_was_asked_for(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=f"{NAME} at .* has the SHA-256 {wheel.sha256}, not 0"):
        install((Wheel(file=NAME, sha256="0" * 64),))
    with pytest.raises(RegistryError, match=r"no wheel helper-2\.0-py3-none-any\.whl"):
        install((Wheel(file=NAME.replace("1.0", "2.0"), sha256="0" * 64),))
    with pytest.raises(ValueError, match="string_pattern_mismatch"):
        Wheel(file="helper-1.0-cp311-cp311-linux_x86_64.whl", sha256="0" * 64)
    kept = tmp_path / "cache" / "coevolve" / "swe" / "wheels" / "torn-1.0-py3-none-any.whl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(b"no zip")
    torn = Wheel(file=kept.name, sha256=hashlib.sha256(b"no zip").hexdigest())
    with pytest.raises(UserError, match=r"the wheel torn-.* does not unpack"):
        install((torn,))
    assert not list((tmp_path / "cache" / "coevolve" / "swe" / "needs").iterdir())


def test_a_package_does_not_need_itself(wheel: Wheel, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Source(name="helper==0.9", package="Helper", version="0.9", wheels=(wheel,))
    monkeypatch.setattr(source, "shipped", lambda: (known,))
    monkeypatch.setattr("coevolve.domains.swe.repository.tree_of", lambda _: TREE)
    with pytest.raises(UserError, match=r"is helper==0\.9 itself and would give faults away"):
        repository("helper==0.9")


def test_what_is_needed_belongs_to_the_content(wheel: Wheel) -> None:
    assert content_of(TREE, (wheel,)) != content_of(TREE)
