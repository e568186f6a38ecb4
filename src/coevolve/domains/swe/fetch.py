"""Sdists and wheels from the registry that pip is set up for, fetched once and checked by their
hash.

Invariant: nothing of a package runs here. pip would run its build only to learn its name, so the
registry's own list of files is read instead.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import Request

from coevolve.core.errors import UserError
from coevolve.core.files import cache_root, replace_file
from coevolve.core.web import patient, whole

PUBLIC = "https://pypi.org/simple"
ENDINGS = (".tar.gz", ".zip")
TIMEOUT_S, PATIENCE_S = 60, 600
"""Until a registry that sends nothing is given up, and one that has not sent everything."""
LARGEST, LARGEST_PAGE = 64 << 20, 16 << 20


class RegistryError(UserError):
    """The registry cannot be reached, or does not have what was asked for."""


class Links(HTMLParser):
    """The addresses on a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


@cache
def indexes() -> tuple[str, ...]:
    """The registries that pip is set up to use, the main one first."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    settings: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = value.strip("'\"")
    more = settings.get("extra-index-url", "").replace("\\n", " ").split()
    return (settings.get("index-url", PUBLIC), *more)


def fetch(name: str, version: str, sha256: str = "") -> Path:
    """The sdist of a package, from the cache or the registry; a hash must hold if it is given."""
    folder = cache_root() / "swe" / "sdists"
    for ending in ENDINGS:
        kept = folder / f"{plain(name)}-{version}{ending}"
        if kept.is_file() and hash_of(kept.read_bytes()) == (sha256 or listed_hash(kept)):
            return kept
    address, stated, ending = find(name, version)
    data = read_held(address, f"the sdist of {name} {version}", sha256, stated)
    kept = folder / f"{plain(name)}-{version}{ending}"
    replace_file(kept, data)
    replace_file(kept.with_name(kept.name + ".sha256"), hash_of(data).encode())
    return kept


def fetch_wheel(file: str, sha256: str) -> Path:
    """A wheel by its file name, from the cache or the registry; its hash must hold."""
    kept = cache_root() / "swe" / "wheels" / file
    if kept.is_file() and hash_of(kept.read_bytes()) == sha256:
        return kept
    for address, stated, listed in links(file.partition("-")[0]):
        if listed == file:
            replace_file(kept, read_held(address, file, sha256, stated))
            return kept
    raise RegistryError(f"no wheel {file} at {', '.join(indexes())}")


def read_held(address: str, what: str, *hashes: str) -> bytes:
    """What lies at an address, held to the hashes that are known of it."""
    data = read(address)
    found = hash_of(data)
    for wanted in hashes:
        if wanted and found != wanted:
            raise RegistryError(f"{what} at {address} has the SHA-256 {found}, not {wanted}")
    return data


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def listed_hash(kept: Path) -> str:
    """The hash that was written down when a file was fetched."""
    beside = kept.with_name(kept.name + ".sha256")
    return beside.read_text() if beside.is_file() else ""


def plain(name: str) -> str:
    """A package name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find(name: str, version: str) -> tuple[str, str, str]:
    """Address, stated hash and ending of an sdist."""
    seen: list[str] = []
    for address, stated, file in links(name):
        ending = next((one for one in ENDINGS if file.endswith(one)), "")
        stem, _, found = file.removesuffix(ending).rpartition("-")
        if not ending or plain(stem) != plain(name):
            continue
        if found == version:
            return address, stated, ending
        seen.append(found)
    if not seen:
        raise RegistryError(f"no sdist of a package '{name}' at {', '.join(indexes())}")
    raise RegistryError(
        f"no sdist of {name} {version}; there is one of {', '.join(sorted(set(seen))[-8:])}"
    )


def links(name: str) -> Iterator[tuple[str, str, str]]:
    """Address, stated hash and name of every file that registries list for a package."""
    answered = False
    for index in indexes():
        page = f"{index.rstrip('/')}/{plain(name)}/"
        try:
            where = page + "index.html" if page.startswith("file:") else page
            text = read(where, LARGEST_PAGE).decode("utf-8", "replace")
        except RegistryError as error:
            answered = answered or isinstance(error.__cause__, HTTPError)
            continue
        answered = True
        for link in Links(text).found:
            address, mark = linked(page, link)
            if may_lead(page, address):
                yield address, mark.removeprefix("sha256="), unquote(address.rpartition("/")[2])
    if not answered:
        raise RegistryError(f"cannot reach the registry at {', '.join(indexes())}")


def linked(page: str, link: str) -> tuple[str, str]:
    """The address that a link means, and what follows its `#`; empty if it means none."""
    try:
        address, mark = urldefrag(urljoin(page, link))
        return address, mark
    except ValueError:
        return "", ""


def may_lead(here: str, there: str) -> bool:
    """Whether what lies at one address may name another: never a file of this machine, unless it is
    one itself, and nothing that anybody on the way could have changed, unless it is such, too."""
    schemes = {"file": ("file",), "http": ("http", "https"), "https": ("https",)}
    return urlsplit(there).scheme in schemes.get(urlsplit(here).scheme, ())


def read(address: str, most: int = LARGEST) -> bytes:
    request = Request(address, headers={"Accept-Encoding": "identity"})
    try:
        with (
            patient(PATIENCE_S, may_lead) as opener,
            opener.open(request, timeout=TIMEOUT_S) as answer,
        ):
            data = whole(answer, most)
    except (OSError, ValueError, HTTPException) as error:  # URLError is an OSError
        reason = error.reason if isinstance(error, URLError) else error
        raise RegistryError(f"cannot read {address}: {reason!s:.200}") from error
    if data is None:
        raise RegistryError(f"{address} is larger than {most >> 20} MB")
    return data
