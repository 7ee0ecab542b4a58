"""Writes proved fixes into templates: `check --fix`, and `--diff`.

Each fix is judged again as text, with the fixes before it, before the next one is searched. A value that is an example
is not written: its user has to choose one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from io import StringIO
from pathlib import Path

from datalog_gate.analysis.policy import LEVELS
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import EngineError
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.doors.cli.common import replace_file
from datalog_gate.doors.cli.reports.entries import ReportEntry, make_relative
from datalog_gate.editing.template_edits import apply_edits, write_change
from datalog_gate.files.root_templates import RootTemplate
from datalog_gate.files.templates import read_text, resolve

BOM = b"\xef\xbb\xbf"
Judge = Callable[[list[RootTemplate]], ReportEntry]


class Fixing:
    """Fixes groups of templates, each judged together, by a function that judges and explains a group."""

    def __init__(self, groups: Sequence[list[RootTemplate]], judge: Judge) -> None:
        self._groups, self._judge = groups, judge
        self.before = [judge(group) for group in groups]
        """The entries of the groups without fixes."""
        self._entries = list(self.before)
        self._texts: dict[str, tuple[str, str]] = {}
        """The old and new text of each changed file."""
        self.lines: list[str] = []
        """A line about each fix."""
        for at in range(len(groups)):
            self._fix_group(at)

    @property
    def groups(self) -> list[list[RootTemplate]]:
        """The groups with the new texts."""
        return self._with_texts({file: new for file, (_, new) in self._texts.items()})

    def format_diff(self) -> str:
        """The differences of all files, as `patch` reads them."""
        return "".join(_format_diff(file, old, new) for file, (old, new) in self._texts.items())

    def write(self) -> None:
        """Write each changed file atomically. Errors: UsageError."""
        for file, (_, new) in self._texts.items():
            with open(file, "rb") as old:
                mark = old.read(len(BOM)) == BOM
            replace_file(Path(file), f"\ufeff{new}" if mark else new)

    def _fix_group(self, at: int) -> None:
        """Fix findings of a group, one by one, until no further one has a fix."""
        tried = set[str]()
        while violation := next(self._find_open(at, tried), None):
            entry = self._entries[at]
            key = entry.keys[violation.policy, violation.row]
            tried.add(key)
            assert isinstance(entry.answer, ExplainedDecision)
            try:
                change = entry.answer.explanation.of(violation).change
            except EngineError:
                continue
            if change is None or change.is_example or change.place is None or not os.path.isfile(change.place.file):
                continue
            file = change.place.file
            text = self._texts[file][1] if file in self._texts else read_text(file)  # that of a decision is masked
            for edit in write_change(text, file, change):
                new = apply_edits({file: text}, [edit])[file]
                if self._try(at, key, file, new):
                    self._texts[file] = self._texts.get(file, (text, ""))[0], new
                    self.lines.append(printable(f"{change.place}: fixed[{violation.policy}] {change.text}"))
                    break

    def _find_open(self, at: int, tried: set[str]) -> Iterator[Violation]:
        """The findings of a group that nothing tolerates, denials first, without those that were tried."""
        answer, keys = self._entries[at].answer, self._entries[at].keys
        findings = (*answer.violations, *answer.undetermined) if isinstance(answer, Decision) else ()
        for violation in sorted(findings, key=lambda violation: LEVELS.index(violation.level)):
            if not violation.tolerated and keys[violation.policy, violation.row] not in tried:
                yield violation

    def _try(self, at: int, key: str, file: str, text: str) -> bool:
        """Judge a text of a file. Keep it if it fixes the finding of a group, and adds none to any that reads it."""
        groups = self._with_texts({name: new for name, (_, new) in self._texts.items()} | {file: text})
        entries = list(self._entries)
        for other, entry in enumerate(self._entries):
            if isinstance(entry.answer, Decision) and file in entry.answer.sources:
                entries[other] = self._judge(groups[other])
                if not _count_problems(entries[other]) <= _count_problems(entry):
                    return False
        if _count_problems(entries[at])["", key] >= _count_problems(self._entries[at])["", key]:
            return False
        self._entries = entries
        return True

    def _with_texts(self, texts: Mapping[str, str]) -> list[list[RootTemplate]]:
        unsaved = {resolve(file): text for file, text in texts.items()}
        return [[root._replace(unsaved={**root.unsaved, **unsaved}) for root in group] for group in self._groups]


def _count_problems(entry: ReportEntry) -> Counter[tuple[str, str]]:
    """Count the findings of an entry by key, and its errors, refusals and warnings by code and message."""
    answer = entry.answer
    if not isinstance(answer, Decision):
        return Counter([("unread", str(answer))])
    findings = (*answer.violations, *answer.undetermined)
    counts = Counter(("", entry.keys[finding.policy, finding.row]) for finding in findings)
    counts.update((error.policy, error.message) for error in answer.errors)
    counts.update((problem.code, problem.message) for problem in (*entry.refusals, *answer.near_misses))
    return counts


def _format_diff(file: str, old: str, new: str) -> str:
    """The difference of a file. A last line without an end is followed by the line that says so."""
    name = make_relative(file)
    before, after = (StringIO(text, newline="\n").readlines() for text in (old, new))
    lines = unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
