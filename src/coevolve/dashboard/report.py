"""One run as one HTML page: everything inlined, nothing loaded, safe to pass on.

Invariant: whatever a model wrote is escaped, and the page's own policy lets nothing run or load
but the script and the style that are hashed into it.
"""

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.core.errors import UserError
from coevolve.core.files import replace_file
from coevolve.dashboard import charts, numbers
from coevolve.dashboard.effect import foretold
from coevolve.dashboard.facts import Facts, facts_of
from coevolve.dashboard.glossary import term
from coevolve.dashboard.links import opens
from coevolve.dashboard.proposals import in_words
from coevolve.dashboard.text import alarm_words, ticked, written

if TYPE_CHECKING:
    from jinja2 import Environment

STATIC = Path(__file__).parent / "static"
STYLES = ("uPlot.min.css", "page.css")
SCRIPTS = ("uPlot.iife.min.js", "page.js")
LICENCE = STATIC / "uPlot.LICENSE"


@cache
def templates() -> "Environment":
    """The templates of reports and of every other page; what they show is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise UserError("reports need jinja2: pip install 'coevolve[report]'") from None
    environment = Environment(
        loader=PackageLoader("coevolve.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        numbers.FILTERS | charts.FILTERS,
        written=written,
        ticked=ticked,
        alarm_words=alarm_words,
        term=term,
        in_words=in_words,
        foretold=foretold,
        opens=opens,
    )
    return environment


def render(facts: Facts) -> str:
    """The page."""
    from markupsafe import Markup

    licence = "".join(f"{line}\n" for line in LICENCE.read_text("utf-8").splitlines() if line)
    style = "\n".join((STATIC / name).read_text("utf-8") for name in STYLES)
    script = f"/* uPlot:\n{licence}*/\n"
    script += "\n".join((STATIC / name).read_text("utf-8") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{fingerprint(script)}'; style-src '{fingerprint(style)}'"
        "; base-uri 'none'; form-action 'none'"
    )
    page = templates().get_template("report.html")
    return page.render(
        facts=facts,
        version_at="#version-",
        rollouts_at="",
        charts=facts.curves.as_json(),
        config=json.dumps(facts.settings, indent=2, ensure_ascii=False),
        policy=policy,
        style=Markup(style),
        script=Markup(script),
    )


def fingerprint(text: str) -> str:
    """How a content security policy names an inlined script or style."""
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"


def write_report(folder: Path, output: Path) -> Facts:
    """Read a run and write its report, whole or not at all."""
    facts = facts_of(folder)
    # Half characters, which a model may write and UTF-8 cannot hold, become question marks.
    page = render(facts).encode("utf-8", "replace")
    try:
        replace_file(output, page)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from None
    return facts
