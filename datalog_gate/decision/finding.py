"""What a decision holds (layer 4): findings of policies, errors that they met, grants; each with its JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from typing import Literal as OneOf

from datalog_gate.analysis.policy import Level
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import ResourceId, Row, Unknown, Value, from_python, to_json

Mode = OneOf["enforce", "warn", "record"]
Change = OneOf["introduced", "preexisting"]
WRITTEN = ("id", "policy", "subject", "project", "owner", "reason", "ticket", "expires")
"""The texts of a waiver, as its file has them; `while` is one besides."""
SOON = timedelta(days=14)
"""How long before its end people are told of a waiver."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """An operator's word that what a policy finds shall be, until a day. Empty texts name nothing; `bound` is a
    comparison of the policy's columns, in the language of rules, beyond which the word does not go."""

    id: str
    policy: str
    owner: str
    reason: str
    expires: str
    subject: str = ""
    key: tuple[tuple[str, Value], ...] = ()
    project: str = ""
    ticket: str = ""
    bound: str = ""

    @property
    def until(self) -> datetime:
        """When it ends (UTC). A date is good through the day before it, as with grants."""
        return instant(self.expires)

    def left(self, now: datetime) -> str:
        """How long it still holds, in words."""
        days = -((now - self.until) // timedelta(days=1))
        return f"{days} day{'' if days == 1 else 's'} left"

    def ends_soon(self, now: datetime) -> bool:
        """Whether it ends within `SOON`."""
        return now < self.until <= now + SOON

    def __str__(self) -> str:
        who = f"{self.owner}, {self.ticket}" if self.ticket else self.owner
        return f"{self.id} until {self.expires}: {self.reason} ({who})"

    def to_json(self) -> dict[str, object]:
        """As JSON data: the entry of a `waivers.yaml`."""
        entry = {name: getattr(self, name) for name in WRITTEN}
        entry |= {"key": {name: to_json(value) for name, value in self.key}, "while": self.bound}
        return {name: value for name, value in entry.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Waiver:
        """The waiver of an entry that is well formed."""
        texts = {name: value for name, value in data.items() if name not in ("key", "while")}
        key = tuple((name, from_python(value)) for name, value in data.get("key", {}).items())
        return cls(**texts, key=key, bound=data.get("while", ""))


@dataclass(frozen=True, slots=True)
class Violation:
    """One row of a policy. `because` holds the unknowns that decide it, empty if it is certain, and `depends` says
    how. One that is waived has a `waiver`; one that a waiver names that is not in force has it in `lapsed`. `change`
    says whether an older state had it already, None if none was given; one that is `tolerated` was there, and so stops
    nothing."""

    policy: str
    level: Level
    mode: Mode
    message: str
    hint: str
    relation: str
    row: Row
    resource: ResourceId | None
    place: Span | None
    because: tuple[Unknown, ...] = ()
    on_unknown: str = "defer"
    waiver: Waiver | None = None
    lapsed: Waiver | None = None
    change: Change | None = None
    tolerated: bool = False
    depends: str = ""

    def to_json(self) -> dict[str, object]:
        """The violation as JSON data."""
        data: dict[str, object] = {
            "policy": self.policy,
            "level": self.level,
            "mode": self.mode,
            "message": self.message,
            "hint": self.hint,
            "relation": self.relation,
            "row": [to_json(value) for value in self.row],
            "resource": self.resource.path if self.resource else None,
            "place": _place(self.place),
            "change": self.change,
            "because": [{"expression": unknown.expression, "place": _place(unknown.place)} for unknown in self.because],
        }
        return {**data, "waiver": self.waiver.to_json()} if self.waiver else data

    @property
    def said(self) -> str:
        """The message, and on what the finding hangs."""
        return f"{self.message}: {self.depends}" if self.depends else self.message

    @property
    def enforced(self) -> bool:
        """Whether it can stop an operation."""
        return self.level == "deny" and self.mode == "enforce" and not self.tolerated


@dataclass(frozen=True, slots=True)
class PolicyError:
    """A policy that could not be evaluated: the first error that it met."""

    policy: str
    message: str
    place: Span | None
    enforced: bool
    code: str = "evaluation"

    def to_json(self) -> dict[str, object]:
        """As JSON data: code, policy, message, place."""
        return {"code": self.code, "policy": self.policy, "message": self.message, "place": _place(self.place)}


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant of the template: whether it unlocks its service, and why or why not."""

    grant: ResourceId
    service: str
    unlocked: bool
    reason: str

    def to_json(self) -> dict[str, object]:
        """As JSON data: grant, service, unlocked, reason."""
        return {
            "grant": self.grant.path,
            "service": self.service,
            "unlocked": self.unlocked,
            "reason": self.reason,
        }


def instant(text: str) -> datetime:
    """The time that a text in ISO 8601 says, in UTC where it names no zone. Errors: ValueError."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _place(span: Span | None) -> dict[str, object] | None:
    return span.to_json() if span else None
