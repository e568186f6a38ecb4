"""What other installed packages add to this one, read from their entry points.

Groups are `coevolve.domains`, `coevolve.engines` and `coevolve.engineers`. Invariant: reading a
group imports nothing and never fails, so that one broken package spoils nothing but its own names;
why it is broken is told by `problem`, and raised once it is asked for.
"""

from collections.abc import Iterable
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any, NamedTuple

from coevolve.core.errors import CoevolveError, UserError

FILE = "entry_points.txt"


class Offer(NamedTuple):
    """A name that a package adds to a group."""

    group: str
    name: str
    package: str
    point: EntryPoint | None = None
    error: str = ""
    """Why there is nothing behind the name, where that is known without importing it."""

    def load(self) -> Any:
        """What the name stands for, mostly a class."""
        if self.point is None:
            raise self.broken(self.error)
        try:
            return self.point.load()
        except (Exception, SystemExit) as error:  # whatever somebody's module does when imported
            raise self.broken(f"{type(error).__name__}: {error}") from error

    def make(self, *values: Any) -> Any:
        """What comes of calling it."""
        maker = self.load()
        try:
            return maker(*values)
        except CoevolveError:
            raise
        except Exception as error:  # whatever somebody's class does when made
            raise self.broken(f"{type(error).__name__}: {error}") from error

    def problem(self) -> str:
        """Why it cannot be loaded, for lists of what there is; empty if it can."""
        try:
            self.load()
        except UserError as error:
            return str(error)
        return ""

    def broken(self, why: str) -> UserError:
        kind = self.group.rpartition(".")[2].removesuffix("s")
        return UserError(
            f"{kind} '{self.name}' of the package '{self.package}' cannot be loaded: {why}; "
            f"repair the package, or remove it: pip uninstall {self.package}"
        )


def offers(group: str, packages: Iterable[Distribution] | None = None) -> dict[str, Offer]:
    """Everything that installed packages add to a group, by name."""
    found: dict[str, Offer] = {}
    seen: set[str] = set()
    installed = distributions() if packages is None else packages
    listed = [(package, mentions(package, group)) for package in installed]
    if not any(named for _, named in listed):
        return found  # as mostly; to ask all packages for their names takes a tenth of a second
    for package, named in listed:
        title = title_of(package)
        if title in seen:  # found twice on the path: the first one is the one that is imported
            continue
        seen.add(title)
        for offer in offers_of(package, title, group) if named else ():
            earlier = found.get(offer.name)
            if earlier is not None:
                both = f"'{earlier.package}' and '{title}' both offer it"
                offer = Offer(group, offer.name, title, None, both)
            found[offer.name] = offer
    return found


def mentions(package: Distribution, group: str) -> bool:
    """Whether a package lists anything in a group."""
    try:
        text = package.read_text(FILE) or ""
    except (OSError, ValueError):
        return False
    return f"[{group}]" in text.replace(" ", "")


def offers_of(package: Distribution, title: str, group: str) -> list[Offer]:
    """What one package adds; one whose list cannot be read is an offer that cannot be loaded."""
    try:
        points = [point for point in package.entry_points if point.group == group]
    except Exception as error:  # the standard library has no error of its own for broken lists
        why = f"its {FILE} cannot be read ({type(error).__name__}: {error})"
        return [Offer(group, title, title, None, why)]
    return [Offer(group, point.name, title, point) for point in points]


def title_of(package: Distribution) -> str:
    """The name of a package, or where it lies if it does not tell."""
    try:
        name: str | None = package.metadata["Name"]
    except Exception:  # metadata that is missing or no text
        name = None
    return name or str(package.locate_file(""))
