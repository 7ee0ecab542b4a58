"""What a decision holds (layer 4): findings of policies, errors that they met, grants; each with its JSON data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from datalog_gate.analysis.policy import Level
from datalog_gate.diagnostics import Span
from datalog_gate.values import ResourceId, Row, Unknown, to_json

Mode = OneOf["enforce", "warn", "record"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One row of a policy. `because` holds the unknowns that decide it; empty if it is certain."""

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

    def to_json(self) -> dict[str, object]:
        """The violation as JSON data. There is no older state to compare with, so `change` is null."""
        return {
            "policy": self.policy,
            "level": self.level,
            "mode": self.mode,
            "message": self.message,
            "hint": self.hint,
            "relation": self.relation,
            "row": [to_json(value) for value in self.row],
            "resource": self.resource.path if self.resource else None,
            "place": _place(self.place),
            "change": None,
            "because": [{"expression": one.expression, "place": _place(one.place)} for one in self.because],
        }

    @property
    def enforced(self) -> bool:
        """Whether it can stop an operation."""
        return self.level == "deny" and self.mode == "enforce"


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


def _place(span: Span | None) -> dict[str, object] | None:
    return span.to_json() if span else None
