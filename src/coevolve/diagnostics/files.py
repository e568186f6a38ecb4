"""Where trials are kept: accepted diagnostics as TOML that the run's suite is read from, refused
ones as data with their reason.

    RUN/diagnostics/NAME.toml                 accepted, with its validation
    RUN/diagnostics/refused/NAME-HASH.json    refused, a whole trial
"""

from collections.abc import Sequence
from pathlib import Path

from coevolve.core.files import replace_file
from coevolve.core.seeds import digest
from coevolve.harness.diagnostic import Diagnostic, DiagnosticTrial

FOLDER, REFUSED = "diagnostics", "refused"


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
    return [DiagnosticTrial.model_validate_json(file.read_bytes()) for file in files]


def as_toml(diagnostic: Diagnostic) -> str:
    """A diagnostic as the file that it is read from."""
    import tomli_w

    values = diagnostic.model_dump(mode="json", exclude={"name", "built_in"}, exclude_none=True)
    return tomli_w.dumps({diagnostic.name: values})
