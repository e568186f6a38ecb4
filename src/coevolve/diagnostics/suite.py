"""The suite of diagnostics of a run, read from TOML: the built-in ones, then the `diagnostics/`
folder of the run, where a name that exists already replaces it. What trials accept goes there too;
what they refuse stays beside it as data, with the reason.

    RUN/diagnostics/NAME.toml                 accepted, with its validation
    RUN/diagnostics/refused/NAME-HASH.json    refused, a whole trial
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from coevolve.core.errors import UserError
from coevolve.core.files import read_regular, replace_file
from coevolve.core.seeds import digest
from coevolve.harness.check import read_tables
from coevolve.harness.diagnostic import LAYERS, Diagnostic, DiagnosticTrial

BUILT_IN = Path(__file__).parent / "built_in"
FOLDER, REFUSED = "diagnostics", "refused"


class Suite(NamedTuple):
    """Diagnostics by name."""

    diagnostics: dict[str, Diagnostic]

    def of(self, domains: Iterable[str]) -> list[Diagnostic]:
        """Those about a run with these domains, layer by layer."""
        chosen = [one for one in self.diagnostics.values() if one.applies(domains)]
        return sorted(chosen, key=lambda one: LAYERS.index(one.layer))


def load_suite(run: Path | None = None) -> Suite:
    """The built-in suite, and over it what a run has of its own."""
    own = read_folder(run / FOLDER) if run else {}
    return Suite(read_folder(BUILT_IN, built_in=True) | own)


def read_folder(folder: Path, built_in: bool = False) -> dict[str, Diagnostic]:
    """All diagnostics of the TOML files in a folder by name, in the order of the files' names."""
    found: dict[str, Diagnostic] = {}
    places: dict[str, Path] = {}
    for file in sorted(folder.glob("*.toml")):
        for one in read_file(file, built_in):
            if one.name in found:
                raise UserError(f"{file}: '{one.name}' is in {places[one.name]} too; rename one")
            found[one.name], places[one.name] = one, file
    return found


def read_file(file: Path, built_in: bool = False) -> list[Diagnostic]:
    """One table per diagnostic, named after it."""
    return read_tables(Diagnostic, file, built_in=built_in)


def keep_trials(folder: Path, trials: Sequence[DiagnosticTrial]) -> list[Path]:
    """Write what became of diagnostics; the same trials are written to the same files."""
    written = []
    for trial in trials:
        name = trial.diagnostic.name
        if trial.accepted:
            path, text = folder / FOLDER / f"{name}.toml", as_toml(trial.diagnostic)
        else:
            plain = trial.diagnostic.model_copy(update={"built_in": False})
            text = trial.model_copy(update={"diagnostic": plain}).model_dump_json(indent=1)
            path = folder / FOLDER / REFUSED / f"{name}-{digest(text, size=4).hex()}.json"
        replace_file(path, text.encode("utf-8"))
        written.append(path)
    return written


def refused_trials(folder: Path) -> list[DiagnosticTrial]:
    """Everything that was refused in a run, by name."""
    files = sorted((folder / FOLDER / REFUSED).glob("*.json"))
    return [DiagnosticTrial.model_validate_json(read_regular(file)) for file in files]


def as_toml(diagnostic: Diagnostic) -> str:
    """A diagnostic as the file that it is read from."""
    import tomli_w

    values = diagnostic.model_dump(mode="json", exclude={"name", "built_in"}, exclude_none=True)
    return tomli_w.dumps({diagnostic.name: values})
