"""The sections of the page of benches."""

from __future__ import annotations

import re

from bench.run import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
LAST = "Versions"
"""The section that others come before."""


def with_section(page: str, title: str, text: str) -> str:
    """The page with a section, in place of the one with its title, or else before the last."""
    parts = _sections(page)
    before = title in parts
    names = list(parts)
    place = names.index(title if before else LAST)
    texts = list(parts.values())
    texts[place : place + before] = [text.rstrip() + "\n\n"]
    return "".join(texts).rstrip() + "\n"


def find_section(page: str, title: str) -> str | None:
    """The section of the page with a title."""
    return _sections(page).get(title)


def _sections(page: str) -> dict[str, str]:
    """The sections by title; what comes before the first has none."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return {"": parts[0], **{part.partition("\n")[0].removeprefix("## "): part for part in parts[1:]}}
