"""The text of a `test.yaml` as cases (layer 5): in, its path; out, `Case` values, or what is wrong and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from datalog_gate.diagnostics import Diagnostic, Span, closest
from datalog_gate.errors import InputError
from datalog_gate.sources import read_text
from datalog_gate.template.document import Document, read_document

Keys = Mapping[str, tuple[type, ...]]
TOP: Keys = {"cases": (list,)}
CASE: Keys = {
    **dict.fromkeys(("name", "action", "now"), (str,)),
    **dict.fromkeys(("stack", "against", "inventory"), (str, dict)),
    **dict.fromkeys(("environment", "caller", "expect"), (dict,)),
    **dict.fromkeys(("services", "waivers"), (list,)),
}
FINDING: Keys = {"policy": (str,), "resource": (str,), "line": (int,)}
DIAGNOSTIC: Keys = {"code": (str,), "line": (int,)}
LISTED = {"violations": FINDING, "undetermined": FINDING, "diagnostics": DIAGNOSTIC}
EXPECT: Keys = {**dict.fromkeys(LISTED, (list,)), "rows": (dict,)}
NEEDED = frozenset({"cases", "name", "stack", "expect", "policy", "code"})
WORDS = {str: "a text", dict: "a mapping", list: "a list", int: "a number"}


@dataclass(frozen=True, slots=True)
class Case:
    """A case: its name, the line that it starts on, what it gives, what it expects.

    In `given` files are paths and `now` is a time. An inline template is its text, pushed down to where it stands in
    the test file, so that both count the same lines.
    """

    name: str
    line: int
    given: Mapping[str, Any]
    expect: Mapping[str, Any]


def read_cases(file: Path) -> tuple[Case, ...]:
    """The cases of a test file. Errors: InputError."""
    document = read_document(read_text(file), str(file))
    if wrong := list(_wrong(document)):
        raise InputError(wrong, {document.file: document.text or ""})
    data: Any = document.data
    return tuple(_case(document, file.parent, at, case) for at, case in enumerate(data["cases"]))


def _wrong(document: Document) -> Iterator[Diagnostic]:
    yield from _mapping(document, (), document.data, TOP)
    for at, case in _items(document.data, "cases"):
        yield from _mapping(document, ("cases", at), case, CASE)
        expect = case.get("expect") if isinstance(case, dict) else None
        if isinstance(expect, dict):
            yield from _mapping(document, ("cases", at, "expect"), expect, EXPECT)
        for name, keys in LISTED.items():
            for index, one in _items(expect, name):
                yield from _mapping(document, ("cases", at, "expect", name, index), one, keys)


def _items(data: object, key: str) -> Iterator[tuple[int, object]]:
    listed = data.get(key) if isinstance(data, dict) else None
    yield from enumerate(listed if isinstance(listed, list) else ())


def _mapping(document: Document, path: tuple[str | int, ...], data: object, keys: Keys) -> Iterator[Diagnostic]:
    if not isinstance(data, dict):
        yield _bad(f"here stands a mapping of {', '.join(keys)}", document.place(path))
        return
    for key, value in data.items():
        if key not in keys:
            near = closest(str(key), keys)
            help_ = f"did you mean `{near}`?" if near else "one of " + ", ".join(keys)
            yield _bad(f"there is no key `{key}` here", document.key_place((*path, key)), help_)
        elif not isinstance(value, keys[key]) or isinstance(value, bool):
            words = " or ".join(WORDS[one] for one in keys[key])
            yield _bad(f"`{key}` is {words}", document.place((*path, key)))
        elif message := _refused(key, value):
            yield _bad(message, document.place((*path, key)))
    for key in keys:
        if key in NEEDED and key not in data:
            yield _bad(f"`{key}` is missing here", document.place(path))


def _refused(key: str, value: Any) -> str | None:
    """What is wrong with a value of the right type."""
    match key:
        case "cases" if not value:
            return "a test file holds at least one case"
        case "services" if not all(isinstance(one, str) for one in value):
            return "`services` is a list of texts"
        case "now" if _time(value) is None:
            return "`now` is an ISO time like 2027-03-01T12:00"
    return None


def _bad(message: str, span: Span | None, suggestion: str | None = None) -> Diagnostic:
    return Diagnostic("bad-test", message, span, suggestion)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _case(document: Document, folder: Path, at: int, case: Mapping[str, Any]) -> Case:
    given = {key: value for key, value in case.items() if key not in ("name", "expect")}
    for key in ("stack", "against", "inventory"):
        if isinstance(given.get(key), str):
            given[key] = folder / given[key]
        elif key in given and key != "inventory":
            given[key] = _inline(document, ("cases", at, key), given[key])
    if "now" in given:
        given["now"] = _time(given["now"])
    place = document.place(("cases", at))
    return Case(case["name"], place.line if place else 1, given, case["expect"])


def _inline(document: Document, path: tuple[str | int, ...], data: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """The text of the template; its data if the text leans on anchors that stand outside."""
    span = document.place(path)
    assert span is not None
    lines = [*(document.text or "").splitlines(), ""][: span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[span.line - 1] = " " * (span.column - 1) + lines[span.line - 1][span.column - 1 :]
    text = "\n" * (span.line - 1) + "\n".join(lines[span.line - 1 :]) + "\n"
    try:
        return text if read_document(text, document.file).data == data else data
    except InputError:
        return data
