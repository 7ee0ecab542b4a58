"""The reader of a `test.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic, Span, closest, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass
from datalog_gate.files.templates import read_text
from datalog_gate.template.document import Document, read_document

Steps = tuple[str | int, ...]
Shape = dict[str, Any] | list[Any] | tuple[type, ...]
FINDING: Shape = {"policy": (str,), "resource": (str,), "line": (int,), "change": (str,)}
EXPECT: Shape = {
    "violations": [FINDING],
    "undetermined": [FINDING],
    "diagnostics": [{"code": (str,), "line": (int,)}],
    "rows": (dict,),
}
CASE: dict[str, Shape] = {
    **dict.fromkeys(("name", "action", "now"), (str,)),
    **dict.fromkeys(("stack", "against", "inventory"), (str, dict)),
    **dict.fromkeys(("environment", "caller"), (dict,)),
    "modules": {"*": (str, dict)},
    "projects": {"*": (str,)},
    "live": {"*": {"status": (str,), "id": (str,), "updated": (str,)}},
    "services": [(str,)],
    "waivers": (list,),
    "expect": EXPECT,
}
TOP: Shape = {"cases": [CASE]}
"""The shape of a test file: a mapping by key (`*`: any), a list by its items, else any of some types."""
NEEDED = frozenset({"cases", "name", "stack", "expect", "policy", "code"})
WORDS = {str: "a string", dict: "a mapping", list: "a list", int: "a number"}


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a test file."""

    name: str
    line: int
    """The line where it starts."""
    given: Mapping[str, Any]
    """The inputs: files are paths, and `now` is a time. An inline template is its text, moved down to its line in the
    test file, so that both have the same line numbers. `modules` are stacks by name that are judged together with the
    one of the case: these are its whole cloud, and `projects` those of its stacks by name. `live` says by id how Heat
    has resources of these."""
    expect: Mapping[str, Any]
    policies: tuple[tuple[str, Span | None], ...] = ()
    """The ids of the expected policies, with their places."""


def read_cases(file: Path, text: str | None = None) -> tuple[Case, ...]:
    """Read the cases of a test file, or of an editor's text. Errors: InputError."""
    document = read_document(read_text(file) if text is None else text, str(file))
    sources = {document.file: document.text or ""}
    if diagnostics := list(_check(document, (), document.data, TOP)):
        raise InputError(diagnostics, sources)
    data: Any = document.data
    names = [case["name"] for case in data["cases"]]
    repeated = [at for at, name in enumerate(names) if name in names[:at]]
    if repeated:
        places = [document.place(("cases", at, "name")) for at in repeated]
        raise InputError([_bad("another case has this name", place) for place in places], sources)
    return tuple(_case(document, file.parent, at, case) for at, case in enumerate(data["cases"]))


def _check(document: Document, path: Steps, data: Any, shape: Shape) -> Iterator[Diagnostic]:
    match shape:
        case dict() if isinstance(data, dict):
            for key, value in data.items():
                if inner := shape.get(key, shape.get("*")):
                    yield from _check(document, (*path, key), value, inner)
                else:
                    suggestion = suggest_name(closest(str(key), shape), "one of " + ", ".join(shape))
                    yield _bad(f"there is no key `{key}` here", document.key_place((*path, key)), suggestion)
            for key in NEEDED & shape.keys() - data.keys():
                yield _bad(f"`{key}` is missing here", document.place(path))
        case list() if isinstance(data, list):
            for at, item in enumerate(data):
                yield from _check(document, (*path, at), item, shape[0])
            if path == ("cases",) and not data:
                yield _bad("a test file must have at least one case", document.place(path))
        case tuple() if isinstance(data, shape) and not isinstance(data, bool):
            if path[-1] == "now" and _time(str(data)) is None:
                yield _bad("`now` must be an ISO time like 2027-03-01T12:00", document.place(path))
        case _:
            what = f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this"
            types = shape if isinstance(shape, tuple) else (type(shape),)
            kinds = " or ".join(WORDS[type_] for type_ in types)
            keys = " of " + ", ".join(shape) if isinstance(shape, dict) else ""
            yield _bad(f"{what} must be {kinds}{keys}", document.place(path))


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
    if "modules" in given:
        given["modules"] = {
            name: folder / source
            if isinstance(source, str)
            else _inline(document, ("cases", at, "modules", name), source)
            for name, source in given["modules"].items()
        }
    if "now" in given:
        given["now"] = _time(given["now"])
    place = document.place(("cases", at))
    policies = tuple(
        (expected["policy"], document.place(("cases", at, "expect", key, index, "policy")))
        for key in ("violations", "undetermined")
        for index, expected in enumerate(case["expect"].get(key, ()))
    )
    return Case(case["name"], place.line if place else 1, given, case["expect"], policies)


def _inline(document: Document, path: Steps, data: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """The text of the template, or its data if the text uses anchors from outside."""
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
