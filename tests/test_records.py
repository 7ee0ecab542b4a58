"""The dataclasses of the package against those of the standard library."""

from __future__ import annotations

import dataclasses
from copy import copy
from typing import Any

from datalog_gate.base.records import dataclass


def _define(decorator: Any) -> Any:
    @decorator(frozen=True, slots=True)
    class Row:
        name: str
        size: int = 1
        place: str = dataclasses.field(default="", compare=False, repr=False)

    return Row


def test_a_record_is_made_compared_and_shown_as_a_dataclass() -> None:
    ours, theirs = (
        [
            row("a"),
            row("a", 2) == row("a", size=2, place="there"),
            row("a", 2) == row("b", 2),
            row("a") == "a",
            hash(row("a")) == hash(row("a", 1, "there")),
            {row("a"), row("a", 1, "there")},
            dataclasses.replace(row("a"), size=3),
            copy(row("a", 4)),
            row.__match_args__,
        ]
        for row in map(_define, (dataclass, dataclasses.dataclass))
    )
    assert str(ours) == str(theirs)
