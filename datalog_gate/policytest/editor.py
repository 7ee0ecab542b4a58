"""The editor of test files: adds a case and updates expectations.

The expectations of a case that differ are written anew, and everything else stays. Each new text is parsed and compared
with the intended data. A change that does not work this way, for example because an anchor is shared, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.policytest.comparison import LISTS, CaseFinding, CaseResult, find_mismatches, flow, row_differences
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


def update_expectations(text: str, file: str, results: Sequence[CaseResult | None]) -> str:
    """Update the expectations of cases in a test file's text to their results, but for None. Errors: UsageError."""
    document = read_document(text, file)
    data: Any = document.data
    parts: list[str] = []
    behind = 0
    wanted = []
    for at, (case, result) in enumerate(zip(data["cases"], results, strict=True)):
        expect = _update(case["expect"], result) if result else case["expect"]
        wanted.append({**case, "expect": expect})
        if expect != case["expect"]:
            place = document.place(("cases", at, "expect"))
            assert place
            start, end = _bounds(text, place)
            lines = [flow(expect)] if text[start] == "{" else _format_block(" " * (place.column - 1), expect)
            parts += [text[behind:start], "\n".join(lines).lstrip()]
            behind = end
    new = "".join([*parts, text[behind:]])
    _check_data(new, file, {**data, "cases": wanted})
    return new


def _update(expect: Mapping[str, Any], result: CaseResult) -> dict[str, Any]:
    """The expectations that the result meets. An entry for the same policy keeps the keys that its author chose."""
    lists: dict[str, list[dict[str, Any] | None]] = {name: list(expect.get(name, ())) for name in LISTS}
    for change in find_mismatches(expect, result.findings):
        found = change.finding.expectation() if change.finding else None
        if change.at is None:
            lists[change.list].append(found)
        else:
            lists[change.list][change.at] = found and {key: found[key] for key in change.expected or () if key in found}
    updated = {**expect, **{name: list(filter(None, entries)) for name, entries in lists.items() if entries}}
    for relation, (missing, unexpected) in row_differences(expect, result).items():
        rows = [row for row in expect["rows"][relation] if row not in missing]
        updated["rows"] = {**updated["rows"], relation: rows + unexpected}
    return updated


def _bounds(text: str, place: Span) -> tuple[int, int]:
    """The offsets of data, without the comments behind it: the place of data without brackets ends at the next item."""
    lines = text.splitlines(keepends=True)
    start = len("".join(lines[: place.line - 1])) + place.column - 1
    end = len("".join(lines[: place.end_line - 1])) + place.end_column - 1
    own = text[start:end].splitlines(keepends=True)
    while not own[-1].strip() or own[-1].lstrip().startswith("#"):
        own.pop()
    return start, start + len("".join(own).rstrip())


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
