"""HTML of pages, by templates.

They escape every text, and no page runs a script or loads anything.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from datalog_gate.base.diagnostics import format_count, printable
from datalog_gate.pages.decision_page import FEW, DecisionPage, FailedPage, name_file
from datalog_gate.pages.drawing import HEADINGS, SIGNS
from datalog_gate.pages.layout import HEIGHT

LONGEST = 1000
"""The maximum length of a text; parts of pages cut theirs shorter."""
TONES = 6
"""The number of colours of tags."""
OUTCOMES = {
    "deny": "Denied",
    "allow": "Allowed",
    "allow_with_warnings": "Allowed, with warnings",
    "indeterminate": "Not decided",
}


def render_decisions(pages: Sequence[DecisionPage | FailedPage]) -> str:
    """Render the pages of decisions as one document that needs no other file."""
    failed = [isinstance(page, FailedPage) for page in pages]
    tallies = list(_count_outcomes(pages))
    return render_document("decisions.html", pages=list(zip(pages, failed, strict=True)), tallies=tallies)


def _count_outcomes(pages: Sequence[DecisionPage | FailedPage]) -> Iterator[tuple[str, str, int]]:
    """The class, the text and the number of each outcome that occurs."""
    unbuilt = [page for page in pages if isinstance(page, FailedPage) or "refused" in page.counts]
    if unbuilt:
        yield "error", "can't be built or judged", len(unbuilt)
    outcomes = [page.outcome for page in pages if isinstance(page, DecisionPage) and "refused" not in page.counts]
    yield from ((word, text.lower(), outcomes.count(word)) for word, text in OUTCOMES.items() if word in outcomes)


def render_document(template: str, **values: object) -> str:
    """Render a page with one of the templates as one document that needs no other file."""
    style = read_style()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return render(template, **values, style=style, digest=digest)


def render(template: str, **values: object) -> str:
    """Render a page with one of the templates."""
    return _environment().get_template(template).render(values)


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
    environment.globals.update(tag_tone=_tone, url_part=part)
    environment.globals.update(few=FEW, headings=HEADINGS, height=int(HEIGHT), outcomes=OUTCOMES, signs=SIGNS)
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
    return escape(_show(text)).replace(",", Markup(",<wbr>"))


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
