"""HTML of pages, by templates.

They escape every text, and no page runs a script or loads anything.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import cycle
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from datalog_gate.base.diagnostics import format_count, printable, split_numbers
from datalog_gate.pages.decision_page import FEW, LEAST, DecisionPage, FailedPage, name_file
from datalog_gate.pages.drawing import HEADINGS, QUIET, SIGNS
from datalog_gate.pages.layout import HEIGHT

LONGEST = 1000
"""The maximum length of a text; parts of pages cut theirs shorter."""
LARGEST = 100_000
"""The number of bytes from which on a page, or each of several decisions, has fewer details."""
DETAILS = (3, 2, 1, 0)
"""With 2, only lines with findings; with 1, one graph, and no line in findings that are folded; with 0, in no finding,
and shorter texts."""
TONES = 6
"""The number of colours of tags."""
UNBUILT = "error"
OUTCOMES = {
    "deny": "Denied",
    "indeterminate": "Not decided",
    "allow_with_warnings": "Allowed, with warnings",
    "allow": "Allowed",
}
"""The most severe first."""


def render_decisions(pages: Sequence[DecisionPage | FailedPage]) -> str:
    """Render the pages of decisions, the most severe first, as one document that needs no other file."""
    severest = sorted(pages, key=lambda page: ([UNBUILT, *OUTCOMES].index(_outcome(page)), split_numbers(page.title)))
    found = Counter(map(_outcome, severest))
    texts = {UNBUILT: "can't be built or judged", **OUTCOMES}
    tallies = [(word, texts[word].lower(), number) for word, number in found.items()]
    shown = [(page, isinstance(page, FailedPage)) for page in severest]
    return render_document("decisions.html", LARGEST * len(pages), pages=shown, tallies=tallies)


def _outcome(page: DecisionPage | FailedPage) -> str:
    """The outcome of the page, or `UNBUILT`."""
    return UNBUILT if isinstance(page, FailedPage) or "refused" in page.counts else page.outcome


def render_document(template: str, largest: int = LARGEST, **values: object) -> str:
    """Render a page with one of the templates as one document that needs no other file."""
    style = read_style()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return render(template, largest, **values, style=style, digest=digest)


def render(template: str, largest: int = LARGEST, **values: object) -> str:
    """Render a page with one of the templates, with as many of `DETAILS` as `largest` bytes take."""
    page = ""
    for detail in DETAILS:
        page = _environment().get_template(template).render(values, detail=detail)
        if len(page.encode()) <= largest:
            break
    return page


@cache
def read_style() -> str:
    """Read the style sheet of all pages."""
    return files(__package__).joinpath("templates/style.css").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("datalog_gate.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(age=_age, block=_block, breakable=_breakable, count=format_count, data=_data, part=part)
    environment.globals.update(name_cells=_name_cells, tag_tone=_tone, url_part=part)
    environment.globals.update(few=FEW, least=LEAST, headings=HEADINGS, height=int(HEIGHT), outcomes=OUTCOMES)
    environment.globals.update(quiet=QUIET, signs=SIGNS)
    environment.globals["place"] = _place
    return environment


def _show(value: object) -> object:
    """A text without characters that change how other text reads, such as direction marks; tabs become blanks."""
    return printable(value[:LONGEST].replace("\t", " ")) if type(value) is str else value


def _tone(tag: str) -> int:
    """The number of the colour of a tag in a graph."""
    return (ord(tag) - ord("A") if tag.isalpha() else int(tag)) % TONES


def _breakable(text: str) -> Markup:
    """The text with line breaks allowed in lists without blanks."""
    return Markup(re.sub(r",(?! )", ",<wbr>", escape(_show(text))))


def _name_cells(table: str) -> Markup:
    """The rows of a table, each cell with the name of its column, which narrow screens show before it."""
    names = cycle(re.findall("<th [^>]*>([^<]*)", table))
    return Markup(re.sub("<td", lambda _: f'<td data-label="{next(names)}"', table))


def part(text: str) -> str:
    """The text as one part of a URL path."""
    return quote(text, safe="")


def _data(value: object) -> str:
    """A JSON value, or a text, as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _block(text: str) -> Markup:
    """A text of several lines in a field, with its tabs and line ends."""
    lines = (printable(line.replace("\t", "    ")) for line in text.split("\n"))
    return Markup("\n") + escape("\n".join(lines))


def _place(place: Mapping[str, Any] | None) -> str:
    if not place:
        return ""
    return f"{name_file(place['file'])}:{place['line']}" if place["line"] else place.get("path") or ""


def _age(seconds: float | None) -> str:
    """A duration as people say it: ``3 hours``."""
    if seconds is None or seconds < 0:  # the writer's clock may be ahead
        return "not known"
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}s"
    return format_count(int(seconds), "second")
