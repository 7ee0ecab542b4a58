"""The dataclasses of the package against those of the standard library."""

from __future__ import annotations

import dataclasses
from copy import copy
from dataclasses import KW_ONLY
from typing import Any

import pytest

from datalog_gate.base import records


def _define(library: Any) -> Any:
    @library.dataclass(frozen=True, slots=True)
    class Row:
        name: str
        size: int = 1
        place: str = library.field(default="", compare=False, repr=False)

    return Row


def _define_keyed(library: Any) -> Any:
    @library.dataclass(frozen=True, slots=True)
    class Base:
        name: str
        place: str = library.field(default="here", kw_only=True)

    @library.dataclass(frozen=True, slots=True)
    class Row(Base):
        size: int = 1
        _: KW_ONLY
        tags: tuple[str, ...] = ()

    return Row


def _define_frozen(library: Any) -> Any:
    @library.dataclass(frozen=True)
    class Row:
        name: str
        size: int = 1
        place: str = library.field(default="here", init=False)

    return Row


def _define_made(library: Any) -> Any:
    @library.dataclass()
    class Row:
        name: str
        tags: list[str] = library.field(default_factory=list)
        missing: int = 0
        seen: set[str] = library.field(default_factory=set, init=False)
        color: str = library.field(default="blue", init=False)
        length: int = library.field(init=False)

        def __post_init__(self) -> None:
            self.length = len(self.name)

    return Row


def _define_made_with_slots(library: Any) -> Any:
    @library.dataclass(slots=True, kw_only=True)
    class Row:
        name: str
        color: str = library.field(default="blue", init=False)
        tags: list[str] = library.field(default_factory=list, compare=False)

    return Row


def _define_empty(library: Any) -> Any:
    @library.dataclass(slots=True, weakref_slot=True)
    class Row:
        pass

    return Row


def _call(row: Any, *arguments: object, **named: object) -> str:
    try:
        return repr(row(*arguments, **named))
    except TypeError as error:
        return str(error).replace(row.__qualname__, "Row")


@pytest.mark.parametrize("define", [_define, _define_keyed, _define_made, _define_made_with_slots, _define_empty])
def test_init_takes_what_that_of_a_dataclass_takes(define: Any) -> None:
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = [
        ((), {}),
        (("a",), {}),
        (("a", 2), {}),
        (("a", 2, "there"), {}),
        (("a", 2, "there", 3), {}),
        ((), {"name": "a"}),
        (("a",), {"size": 2, "place": "there"}),
        (("a",), {"tags": ("x",)}),
        (("a",), {"color": "red"}),
        (("a",), {"name": "b"}),
    ]
    ours, theirs = map(define, (records, dataclasses))
    assert [_call(ours, *given, **named) for given, named in calls] == [
        _call(theirs, *given, **named) for given, named in calls
    ]


@pytest.mark.parametrize("define", [_define, _define_keyed, _define_frozen])
def test_a_frozen_record_is_frozen_in_tests(define: Any) -> None:
    for row in (define(library)("a") for library in (records, dataclasses)):
        before = repr(row)
        for name in ("name", "place", "size"):
            with pytest.raises(AttributeError, match=f"^cannot assign to field '{name}'$"):
                setattr(row, name, "b")
            with pytest.raises(AttributeError, match=f"^cannot delete field '{name}'$"):
                delattr(row, name)
        assert (repr(row), repr(copy(row))) == (before, before)


def test_a_record_is_made_compared_and_shown_as_a_dataclass() -> None:
    ours, theirs = (
        [
            row("a"),
            row("a", 2) == row("a", size=2, place="there"),
            row("a", 2) == row("b", 2),
            row("a") == "a",
            hash(row("a")) == hash(row("a", 1, "there")),
            {row("a"), row("a", 1, "there")},
            *(change(row("a"), size=3) for change in (records.replace, dataclasses.replace)),
            *([field.name for field in list_fields(row("a"))] for list_fields in (records.fields, dataclasses.fields)),
            dataclasses.asdict(row("a")),
            copy(row("a", 4)),
            row.__match_args__,
        ]
        for row in map(_define, (records, dataclasses))
    )
    assert str(ours) == str(theirs)


@pytest.mark.parametrize("define", [_define, _define_keyed, _define_made, _define_made_with_slots, _define_empty])
def test_the_members_of_a_record_are_those_of_a_dataclass(define: Any) -> None:
    ours, theirs = (
        {
            "fields": [str(field) for field in dataclasses.fields(row)],
            "match": row.__match_args__,
            "members": sorted(str(value) for name, value in vars(row).items() if name[:2] != "__"),
            "slots": list(vars(row).get("__slots__", ())),
            "hashable": row.__hash__ is not None,
        }
        for row in map(define, (records, dataclasses))
    )
    assert ours == theirs
