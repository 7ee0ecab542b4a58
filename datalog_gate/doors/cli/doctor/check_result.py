"""What the doctor says of one thing that it looked at (layer 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from datalog_gate.base.diagnostics import Span, printable

Level = Literal["finding", "note", "ok"]


@dataclass(frozen=True, slots=True)
class Sign:
    """A finding is something that the operator believes in and that is not so; it says what to write where."""

    level: Level
    about: str
    message: str
    place: Span | None = None
    fix: str = ""

    def __str__(self) -> str:
        where = f"{self.place.file}:{self.place.line}: " if self.place else ""
        said = printable(f"{where}{self.level}[{self.about}] {self.message}")
        return said + (f"\n  fix   {printable(self.fix)}" if self.fix else "")

    def to_json(self) -> dict[str, object]:
        """As JSON data."""
        place = {"file": self.place.file, "line": self.place.line} if self.place else None
        return {"level": self.level, "about": self.about, "message": self.message, "place": place, "fix": self.fix}
