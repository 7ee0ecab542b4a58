"""HTML of pages, by templates.

They escape every text, and no page runs a script or loads anything.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from datalog_gate.base.diagnostics import printable
from datalog_gate.pages.decision_page import FEW, HEADINGS, DecisionPage
from datalog_gate.pages.layout import HEIGHT

SIGNS = {
    "deny": "✕",
    "error": "✕",
    "undetermined": "?",
    "warn": "!",
    "record": "i",
    "preexisting": "=",
    "waived": "~",
}
"""A sign for what a finding is, beside its colour."""
LONGEST = 4000
"""The most characters of any text; parts of pages cut theirs to less."""


@dataclass(frozen=True, slots=True)
class FailedPage:
    """Templates that could not be read or judged, and why."""

    title: str
    problem: str
    """The diagnostics, as `check` prints them."""


def render_decisions(pages: Sequence[DecisionPage | FailedPage]) -> str:
    """Make one document, which needs no other file, of the pages of decisions."""
    style = files(__package__).joinpath("templates/style.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    failed = [isinstance(page, FailedPage) for page in pages]
    return (
        _environment()
        .get_template("decisions.html")
        .render(pages=list(zip(pages, failed, strict=True)), style=style, digest=digest)
    )


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
    environment.globals.update(headings=HEADINGS, signs=SIGNS, count=_count, few=FEW, height=int(HEIGHT))
    return environment


def _show(value: object) -> object:
    """A text without characters that change how other text reads, such as marks of direction; a tab is a blank."""
    return printable(value[:LONGEST].replace("\t", " ")) if type(value) is str else value


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
