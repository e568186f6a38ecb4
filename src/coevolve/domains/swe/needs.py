"""What the tests of a repository need beside it: wheels, unpacked before anything runs.

Invariant: the folder of some wheels follows from their hashes alone. It is made ahead of every
episode and read-only in the sandbox; nothing is built, and nothing of a wheel runs here.
"""

import os
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from pydantic import Field

from coevolve.core.errors import UserError
from coevolve.core.files import cache_root
from coevolve.core.rollout import Value
from coevolve.core.seeds import digest
from coevolve.domains.swe.fetch import fetch_wheel, plain

MOST_FILES, MOST_BYTES = 4_000, 64 << 20
"""Of one wheel, unpacked."""


class Wheel(Value):
    """A wheel of pure Python."""

    file: str = Field(pattern=r"^[A-Za-z0-9_.]+-[A-Za-z0-9_.!+]+-[a-z0-9.]+-none-any\.whl$")
    """Its name in the registry: `six-1.17.0-py2.py3-none-any.whl`."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def package(self) -> str:
        return plain(self.file.partition("-")[0])


def install(wheels: tuple[Wheel, ...]) -> Path | None:
    """The folder with all that is in some wheels, fetched and unpacked if need be."""
    if not wheels:
        return None
    folder = cache_root() / "swe" / "needs" / digest(*sorted(one.sha256 for one in wheels)).hex()
    if not folder.is_dir():
        fetched = [fetch_wheel(one.file, one.sha256) for one in wheels]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as name:
            made = Path(name) / "made"
            made.mkdir()
            for kept in fetched:
                unpack(kept, made)
            open_to_all(made)
            try:
                os.rename(made, folder)
            except OSError:  # another process was first
                if not folder.is_dir():
                    raise
    return folder


def unpack(kept: Path, folder: Path) -> None:
    """Put the files of a wheel into a folder, without scripts and whatever else it has beside."""
    count = size = 0
    try:
        with zipfile.ZipFile(kept) as archive:
            for member in archive.infolist():
                parts = PurePosixPath(member.filename).parts
                odd = member.filename.startswith("/") or ".." in parts or "\\" in member.filename
                if member.is_dir() or odd or parts[0].endswith(".data"):
                    continue
                count, size = count + 1, size + member.file_size
                if count > MOST_FILES or size > MOST_BYTES:
                    raise ValueError(f"more than {MOST_FILES} files or {MOST_BYTES >> 20} MB")
                place = folder.joinpath(*parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, place.open("xb") as file:
                    shutil.copyfileobj(packed, file)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, NotImplementedError) as error:
        raise UserError(f"the wheel {kept.name} does not unpack: {error}") from None


def open_to_all(folder: Path) -> None:
    """Let the user of a sandbox read everything, and nobody change it by mistake."""
    for place, _, names in os.walk(folder):
        os.chmod(place, 0o755)
        for name in names:
            os.chmod(os.path.join(place, name), 0o444)
