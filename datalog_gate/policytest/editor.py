"""The editor of test files: adds a case, and changes nothing else.

Each new text is parsed and compared with the intended data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.policytest.comparison import LISTS, CaseFinding, flow
from datalog_gate.template.document import read_document


def add_case(text: str, file: str, name: str, given: Mapping[str, Any], findings: Sequence[CaseFinding]) -> str:
    """Add a case to the end of a test file's text, which may be empty. Errors: InputError, UsageError."""
    expect: dict[str, list[dict[str, Any]]] = {
        key: [finding.expectation() for finding in findings if finding.list == key] for key in LISTS
    }
    wanted = {key: entries for key, entries in expect.items() if entries} or {"violations": []}
    old = read_document(text, file) if text.strip() else None
    data: Any = old.data if old and isinstance(old.data, dict) else {}
    cases = data.get("cases") or []
    if name in [case["name"] for case in cases]:
        raise UsageError(f"{file} already has a case {name}")
    place = old.place(("cases", 0)) if old and cases else None
    indent = " " * (_find_dash(text, place) if place else 2)
    lines = [f"{indent}- name: {flow(name)}", *(f"{indent}  {key}: {flow(value)}" for key, value in given.items())]
    lines += [f"{indent}  expect:", *_format_block(f"{indent}    ", wanted)]
    head = text.rstrip("\n") + "\n\n" if cases else text.rstrip("\n") + "\n" * bool(text.strip()) + "cases:\n"
    new = head + "\n".join(lines) + "\n"
    _check_data(new, file, {**data, "cases": [*cases, {"name": name, **given, "expect": wanted}]})
    return new


def _check_data(text: str, file: str, data: Any) -> None:
    """Check that the new text parses to the data. Errors: UsageError."""
    try:
        written = read_document(text, file).data
    except InputError:
        written = None
    if written != data:
        raise UsageError(f"{file} must be edited by hand, since it uses anchors")


def _format_block(indent: str, data: Mapping[str, Any]) -> Iterator[str]:
    for key, items in data.items():
        yield f"{indent}{flow(key)}:" + ("" if items else f" {flow(items)}")
        if isinstance(items, dict):
            yield from (f"{indent}  {flow(name)}: {flow(item)}" for name, item in items.items())
        else:
            yield from (f"{indent}  - {flow(item)}" for item in items)


def _find_dash(text: str, place: Span) -> int:
    line = text.splitlines()[place.line - 1]
    return line.rindex("-", 0, place.column - 1) if "-" in line[: place.column - 1] else place.column - 1
