"""Writes test files (layer 5): a case of what the policies say of a stack, and expectations as they are found.

In: the text of a test file, and answers. Out: its new text. Only what changes is written: comments, order and layout of
the rest stay. What can't be changed so, because it is shared by an anchor or stands among comments in brackets, is
refused: each new text is read again, and must say what it should.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.policytest.comparison import LISTS, Answer, Finding, differences, flow, row_differences
from datalog_gate.template.document import Document, read_document

Steps = tuple[str | int, ...]
Edit = tuple[int, int, str]
"""Offsets of what is replaced, and by what."""


def with_case(text: str, file: str, name: str, given: Mapping[str, Any], found: Sequence[Finding]) -> str:
    """The text of a test file, which may be empty, with one more case at its end. Errors: InputError, UsageError."""
    expect: dict[str, list[dict[str, Any]]] = {
        key: [finding.expectation() for finding in found if finding.list == key] for key in LISTS
    }
    wanted = {key: some for key, some in expect.items() if some} or {"violations": []}
    old = read_document(text, file) if text.strip() else None
    data: Any = old.data if old and isinstance(old.data, dict) else {}
    cases = data.get("cases") or []
    if name in [case["name"] for case in cases]:
        raise UsageError(f"{file} has a case {name} already")
    place = old.place(("cases", 0)) if old and cases else None
    indent = " " * (_dash(text, place) if place else 2)
    lines = [f"{indent}- name: {flow(name)}", *(f"{indent}  {key}: {flow(value)}" for key, value in given.items())]
    lines += [f"{indent}  expect:", *_block(f"{indent}    ", wanted)]
    head = text.rstrip("\n") + "\n\n" if cases else text.rstrip("\n") + "\n" * bool(text.strip()) + "cases:\n"
    new = head + "\n".join(lines) + "\n"
    _assert_says(new, file, {**data, "cases": [*cases, {"name": name, **given, "expect": wanted}]})
    return new


def updated(text: str, file: str, answers: Sequence[Answer | None]) -> str:
    """The text of a test file with the expectations of each case as they were found; None leaves a case as it is.
    Errors: UsageError."""
    document = read_document(text, file)
    data: Any = document.data
    edits: list[Edit] = []
    wanted = []
    for at, (case, answer) in enumerate(zip(data["cases"], answers, strict=True)):
        expect = dict(case["expect"])
        if answer:
            editor = _Editor(document, text, ("cases", at, "expect"))
            expect = editor.update(expect, answer)
            edits += editor.edits
        wanted.append({**case, "expect": expect})
    new = text
    for start, end, instead in sorted(dict.fromkeys(edits[::-1]), key=lambda one: one[:2], reverse=True):
        new = new[:start] + instead + new[end:]
    _assert_says(new, file, {**data, "cases": wanted})
    return new


def _assert_says(text: str, file: str, data: Any) -> None:
    try:
        said = read_document(text, file).data
    except InputError:
        said = None
    if said != data:
        raise UsageError(f"{file} is written in a way that is better edited by hand: with anchors, or in brackets")


def _block(indent: str, data: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for key, some in data.items():
        yield f"{indent}{flow(key)}:" + (" []" if not some else "")
        yield from (f"{indent}  - {flow(one)}" for one in some)


def _dash(text: str, place: Span) -> int:
    """The column of the dash before an item."""
    line = text.splitlines()[place.line - 1]
    return line.rindex("-", 0, place.column - 1) if "-" in line[: place.column - 1] else place.column - 1


class _Editor:
    """Collects what is to change in the expectations of one case."""

    def __init__(self, document: Document, text: str, path: Steps) -> None:
        self.edits: list[Edit] = []
        self._document, self._text, self._path = document, text, path
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def update(self, expect: dict[str, Any], answer: Answer) -> dict[str, Any]:
        """The expectations as they are found."""
        changes = list(differences(expect, answer.found))
        for name in dict.fromkeys(change.list for change in changes):
            items = list(expect.get(name, ()))
            changed: dict[int, dict[str, Any]] = {}
            removed, added = [], []
            for difference in (change for change in changes if change.list == name):
                other = difference.found.other(difference.expected) if difference.found and difference.expected else {}
                if difference.at is not None and other and all(other.values()):
                    changed[difference.at] = other
                    items[difference.at] = {**items[difference.at], **other}
                    continue
                removed += [] if difference.at is None else [difference.at]
                added += [difference.found.expectation()] if difference.found else []
            self._items((name,), expect, removed, added, changed)
            expect[name] = [one for at, one in enumerate(items) if at not in removed] + added
        for relation, (missing, unexpected) in row_differences(expect, answer).items():
            rows = expect["rows"][relation]
            removed = [at for at, row in enumerate(rows) if row in missing]
            self._items(("rows", relation), expect["rows"], removed, unexpected)
            kept = [row for row in rows if row not in missing]
            expect["rows"] = {**expect["rows"], relation: kept + unexpected}
        return expect

    def _items(
        self,
        steps: Steps,
        parent: Mapping[Any, Any],
        removed: Sequence[int],
        added: Sequence[Any],
        changed: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """A list of the parent without some items, with others behind them, and with other values of keys."""
        if steps[-1] not in parent:
            self._key(str(steps[-1]), parent, added)
            return
        items, start = parent[steps[-1]], self._offsets(steps)[0]
        if self._text[start] == "[" and (removed or added):
            self._bracketed(steps, items, removed, added, changed)
            return
        for at, values in changed.items():
            self.edits += [(*self._offsets((*steps, at, key)), flow(value)) for key, value in values.items()]
        if self._text[start] == "-":
            self._lined(steps, len(items), removed, added)

    def _bracketed(
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
            block = "".join(f"\n{' ' * (key.column + 1)}- {flow(one)}" for one in added)
            self.edits.append((start - 1, end, block))
        elif "#" not in self._text[start:end]:
            kept = [
                flow({**one, **changed[at]}) if at in changed else self._text[slice(*self._offsets((*steps, at)))]
                for at, one in enumerate(items)
                if at not in removed
            ]
            self.edits.append((start, end, f"[{', '.join([*kept, *map(flow, added)])}]"))

    def _lined(self, steps: Steps, count: int, removed: Sequence[int], added: Sequence[Any]) -> None:
        """The same of a list with a line or more for each item."""
        for at in removed:
            start = self._lines[self._place((*steps, at)).line - 1]
            self.edits.append((start, self._lines[self._last((*steps, at))], ""))
        if added:
            indent = " " * _dash(self._text, self._place((*steps, 0)))
            self._insert(self._last((*steps, count - 1)), [f"{indent}- {flow(one)}" for one in added])
        elif len(removed) == count:
            key = self._document.key_place((*self._path, *steps))
            assert key
            behind = self._offset(key.end_line, key.end_column) + 1
            self.edits.append((behind, behind, " []"))

    def _key(self, name: str, expect: Mapping[str, Any], added: Sequence[Any]) -> None:
        """A list that is not there yet."""
        place = self._place(())
        start, end = self._offsets(())
        if self._text[start] == "{":
            self.edits.append((end - 1, end - 1, f"{', ' if expect else ''}{name}: {flow(added)}"))
        else:
            self._insert(self._last(()), list(_block(" " * (place.column - 1), {name: added})))

    def _insert(self, line: int, lines: Sequence[str]) -> None:
        behind = self._lines[line]
        broken = self._text[behind - 1 : behind] == "\n"
        self.edits.append((behind, behind, "\n" * (not broken) + "".join(f"{line}\n" for line in lines)))

    def _last(self, steps: Steps) -> int:
        """The last line of what stands there. By its place, what has no brackets ends where the next thing begins."""
        data: Any = self._document.data
        for step in (*self._path, *steps):
            data = data[step]
        if not data or not isinstance(data, dict | list) or self._text[self._offsets(steps)[0]] in "[{":
            return self._place(steps).end_line
        return max(self._last((*steps, one)) for one in (data if isinstance(data, dict) else range(len(data))))

    def _offsets(self, steps: Steps) -> tuple[int, int]:
        place = self._place(steps)
        return self._offset(place.line, place.column), self._offset(place.end_line, place.end_column)

    def _offset(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column - 1

    def _place(self, steps: Steps) -> Span:
        place = self._document.place((*self._path, *steps))
        assert place
        return place
