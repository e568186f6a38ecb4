"""The suite of diagnostics of a run, read from TOML: the built-in ones, then the `diagnostics/`
folder of the run, where a name that exists already replaces it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from coevolve.core.errors import UserError
from coevolve.harness.check import checked, read_toml
from coevolve.harness.diagnostic import LAYERS, Diagnostic

BUILT_IN = Path(__file__).parent / "built_in"


class Suite(NamedTuple):
    """Diagnostics by name."""

    diagnostics: dict[str, Diagnostic]

    def of(self, domains: Iterable[str]) -> list[Diagnostic]:
        """Those about a run with these domains, layer by layer."""
        chosen = [one for one in self.diagnostics.values() if one.applies(domains)]
        return sorted(chosen, key=lambda one: LAYERS.index(one.layer))


def load_suite(run: Path | None = None) -> Suite:
    """The built-in suite, and over it what a run has of its own."""
    found = {one.name: one for one in read_folder(BUILT_IN, built_in=True)}
    if run is not None:
        found |= {one.name: one for one in read_folder(run / "diagnostics")}
    return Suite(found)


def read_folder(folder: Path, built_in: bool = False) -> list[Diagnostic]:
    """All diagnostics of the TOML files in a folder, in the order of their names."""
    found: dict[str, Path] = {}
    read: list[Diagnostic] = []
    for file in sorted(folder.glob("*.toml")):
        for diagnostic in read_file(file, built_in):
            if diagnostic.name in found:
                raise UserError(
                    f"{file}: '{diagnostic.name}' is in {found[diagnostic.name]} too; rename one"
                )
            found[diagnostic.name] = file
            read.append(diagnostic)
    return read


def read_file(file: Path, built_in: bool = False) -> list[Diagnostic]:
    """One table per diagnostic, named after it."""
    read = []
    for name, values in read_toml(file).items():
        if not isinstance(values, dict):
            raise UserError(f"{file}: {name} = {values!r:.60} is no diagnostic; begin with [NAME]")
        whole = {**values, "name": name, "built_in": built_in}
        read.append(checked(Diagnostic, whole, f"{file}, [{name}]"))
    return read
