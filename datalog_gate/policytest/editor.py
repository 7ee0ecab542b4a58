"""The editor of test files: adds a case and updates expectations.

Only changes are written: the comments, order and layout of the rest stay. Each new text is parsed and compared with the
intended data. A change that does not work this way, for example because an anchor is shared, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.policytest.comparison import LISTS, CaseFinding, CaseResult, find_mismatches, flow, row_differences
from datalog_gate.template.document import Document, read_document

Steps = tuple[str | int, ...]
Edit = tuple[int, int, str]
"""The offsets of the replaced text, and the new text."""


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
    """Update the expectations of each case in a test file's text to its result; None leaves a case unchanged. Errors:
    UsageError."""
    document = read_document(text, file)
    data: Any = document.data
    edits: list[Edit] = []
    wanted = []
    for at, (case, result) in enumerate(zip(data["cases"], results, strict=True)):
        expect = dict(case["expect"])
        if result:
            editor = _Editor(document, text, ("cases", at, "expect"))
            expect = editor.update(expect, result)
            edits += editor.edits
        wanted.append({**case, "expect": expect})
    new = text
    for start, end, replacement in sorted(dict.fromkeys(edits[::-1]), key=lambda edit: edit[:2], reverse=True):
        new = new[:start] + replacement + new[end:]
    _check_data(new, file, {**data, "cases": wanted})
    return new


def _check_data(text: str, file: str, data: Any) -> None:
    """Check that the new text parses to the data. Errors: UsageError."""
    try:
        written = read_document(text, file).data
    except InputError:
        written = None
    if written != data:
        raise UsageError(f"{file} must be edited by hand, since it uses anchors or brackets")


def _format_block(indent: str, data: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for key, items in data.items():
        yield f"{indent}{flow(key)}:" + (" []" if not items else "")
        yield from (f"{indent}  - {flow(item)}" for item in items)


def _find_dash(text: str, place: Span) -> int:
    line = text.splitlines()[place.line - 1]
    return line.rindex("-", 0, place.column - 1) if "-" in line[: place.column - 1] else place.column - 1


class _Editor:
    """Collects the edits of the expectations of one case."""

    def __init__(self, document: Document, text: str, path: Steps) -> None:
        self.edits: list[Edit] = []
        self._document, self._text, self._path = document, text, path
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def update(self, expect: dict[str, Any], result: CaseResult) -> dict[str, Any]:
        """Update the expectations to the result, and collect the necessary edits."""
        changes = list(find_mismatches(expect, result.findings))
        for name in dict.fromkeys(change.list for change in changes):
            items = list(expect.get(name, ()))
            changed: dict[int, dict[str, Any]] = {}
            removed, added = [], []
            for change in changes:
                if change.list != name:
                    continue
                other = change.finding.differences(change.expected) if change.finding and change.expected else {}
                if change.at is not None and other and all(other.values()):
                    changed[change.at] = other
                    items[change.at] = {**items[change.at], **other}
                    continue
                if change.at is not None:
                    removed.append(change.at)
                if change.finding:
                    added.append(change.finding.expectation())
            self._edit_list((name,), expect, removed, added, changed)
            expect[name] = [item for at, item in enumerate(items) if at not in removed] + added
        for relation, (missing, unexpected) in row_differences(expect, result).items():
            rows = expect["rows"][relation]
            removed = [at for at, row in enumerate(rows) if row in missing]
            self._edit_list(("rows", relation), expect["rows"], removed, unexpected)
            kept = [row for row in rows if row not in missing]
            expect["rows"] = {**expect["rows"], relation: kept + unexpected}
        return expect

    def _edit_list(
        self,
        steps: Steps,
        parent: Mapping[Any, Any],
        removed: Sequence[int],
        added: Sequence[Any],
        changed: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Edit a list of the parent: remove some items, append others, and change values of keys."""
        if steps[-1] not in parent:
            self._add_list(str(steps[-1]), parent, added)
            return
        items, start = parent[steps[-1]], self._offsets(steps)[0]
        if self._text[start] == "[" and (removed or added):
            self._edit_bracketed(steps, items, removed, added, changed)
            return
        for at, values in changed.items():
            self.edits += [(*self._offsets((*steps, at, key)), flow(value)) for key, value in values.items()]
        if self._text[start] == "-":
            self._edit_lines(steps, len(items), removed, added)

    def _edit_bracketed(
        self,
        steps: Steps,
        items: Sequence[Any],
        removed: Sequence[int],
        added: Sequence[Any],
        changed: Mapping[int, Mapping[str, Any]],
    ) -> None:
        start, end = self._offsets(steps)
        key = self._document.key_place((*self._path, *steps))
        assert key
        alone = not self._text[self._lines[key.line - 1] : self._offset(key.line, key.column)].strip()
        if not items and alone and start == self._offset(key.end_line, key.end_column) + 2:
            block = "".join(f"\n{' ' * (key.column + 1)}- {flow(item)}" for item in added)
            self.edits.append((start - 1, end, block))
        elif "#" not in self._text[start:end]:
            kept = [
                flow({**item, **changed[at]}) if at in changed else self._text[slice(*self._offsets((*steps, at)))]
                for at, item in enumerate(items)
                if at not in removed
            ]
            self.edits.append((start, end, f"[{', '.join([*kept, *map(flow, added)])}]"))

    def _edit_lines(self, steps: Steps, count: int, removed: Sequence[int], added: Sequence[Any]) -> None:
        for at in removed:
            start = self._lines[self._place((*steps, at)).line - 1]
            self.edits.append((start, self._lines[self._last_line((*steps, at))], ""))
        if added:
            indent = " " * _find_dash(self._text, self._place((*steps, 0)))
            self._insert(self._last_line((*steps, count - 1)), [f"{indent}- {flow(item)}" for item in added])
        elif len(removed) == count:
            key = self._document.key_place((*self._path, *steps))
            assert key
            behind = self._offset(key.end_line, key.end_column) + 1
            self.edits.append((behind, behind, " []"))

    def _add_list(self, name: str, expect: Mapping[str, Any], added: Sequence[Any]) -> None:
        place = self._place(())
        start, end = self._offsets(())
        if self._text[start] == "{":
            self.edits.append((end - 1, end - 1, f"{', ' if expect else ''}{name}: {flow(added)}"))
        else:
            self._insert(self._last_line(()), list(_format_block(" " * (place.column - 1), {name: added})))

    def _insert(self, line: int, lines: Sequence[str]) -> None:
        behind = self._lines[line]
        broken = self._text[behind - 1 : behind] == "\n"
        self.edits.append((behind, behind, "\n" * (not broken) + "".join(f"{line}\n" for line in lines)))

    def _last_line(self, steps: Steps) -> int:
        """The last line of the data at the steps. The place of data without brackets ends at the next item."""
        data: Any = self._document.data
        for step in (*self._path, *steps):
            data = data[step]
        if not data or not isinstance(data, dict | list) or self._text[self._offsets(steps)[0]] in "[{":
            return self._place(steps).end_line
        return max(self._last_line((*steps, step)) for step in (data if isinstance(data, dict) else range(len(data))))

    def _offsets(self, steps: Steps) -> tuple[int, int]:
        place = self._place(steps)
        return self._offset(place.line, place.column), self._offset(place.end_line, place.end_column)

    def _offset(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column - 1

    def _place(self, steps: Steps) -> Span:
        place = self._document.place((*self._path, *steps))
        assert place
        return place
