"""The checks of the command `doctor`, and the result of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from datalog_gate.base.diagnostics import Span, printable

Level = Literal["finding", "note", "ok"]
SCHEMA = "datalog-gate/doctor/1"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A finding (something is wrong), a note, or the confirmation that something is in order."""

    level: Level
    about: str
    """What was checked: door, engine, rules, ..."""
    message: str
    place: Span | None = None
    fix: str = ""
    """What to write or do."""

    def __str__(self) -> str:
        place = f"{self.place.file}:{self.place.line}: " if self.place else ""
        text = printable(f"{place}{self.level}[{self.about}] {self.message}")
        return text + (f"\n  fix   {printable(self.fix)}" if self.fix else "")

    def to_json(self) -> dict[str, object]:
        """The result as JSON data."""
        place = {"file": self.place.file, "line": self.place.line} if self.place else None
        return {"level": self.level, "about": self.about, "message": self.message, "place": place, "fix": self.fix}


def format_results(results: Sequence[CheckResult], form: str) -> str:
    """Format the results as text or json."""
    if form == "json":
        data = {"schema": SCHEMA, "signs": [result.to_json() for result in results]}
        return json.dumps(data, ensure_ascii=False) + "\n"
    findings, notes, in_order = (sum(result.level == level for result in results) for level in get_args(Level))
    counts = [f"{findings} finding{'' if findings == 1 else 's'}", f"{notes} note{'' if notes == 1 else 's'}"]
    return "\n".join([*map(str, results), ", ".join([*counts, f"{in_order} in order"])]) + "\n"
