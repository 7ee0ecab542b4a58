"""A decision (layer 4): the answer to one request, as a value. Denied is an answer, not an exception.

Out: JSON data of the schema ``datalog-gate/decision/1``, the same byte for byte for the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal as OneOf

from datalog_gate.base.values import Row, row_key, to_json
from datalog_gate.decision.finding import Grant, PolicyError, Violation, Waiver

SCHEMA = "datalog-gate/decision/1"
Outcome = OneOf["allow", "allow_with_warnings", "deny", "indeterminate"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate answers. All findings are listed whatever the outcome, sorted by policy and row.

    `derived` holds the rows of every relation that rules derive, as far as the budgets went, for tests and queries; it
    is no part of the JSON. `waived` are certain findings that do nothing; `now` is the time of the request, and
    `waivers` are those that a finding met, in force or not: with these alone it is the same decision. `compared` says
    that there was an older state, so that each finding has a `change`. `statistics` say what it took, and are no part
    of the JSON: how many rules were `rewritten` because of unknowns.
    """

    id: str
    outcome: Outcome
    action: str
    stacks: tuple[str, ...]
    violations: tuple[Violation, ...]
    undetermined: tuple[Violation, ...]
    waived: tuple[Violation, ...]
    errors: tuple[PolicyError, ...]
    grants: tuple[Grant, ...]
    digests: Mapping[str, str]
    counts: Mapping[str, int]
    derived: Mapping[str, Sequence[Row]]
    sources: Mapping[str, str]
    now: datetime = field(compare=False)
    waivers: tuple[Waiver, ...] = ()
    compared: bool = False
    statistics: Mapping[str, int] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, object]:
        """The decision as JSON data."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "outcome": self.outcome,
            "action": self.action,
            "stacks": list(self.stacks),
            "violations": [violation.to_json() for violation in self.violations],
            "undetermined": [violation.to_json() for violation in self.undetermined],
            "waived": [violation.to_json() for violation in self.waived],
            "errors": [error.to_json() for error in self.errors],
            "grants": [grant.to_json() for grant in self.grants],
            "digests": dict(self.digests),
            "counts": dict(self.counts),
        }

    def rows(self, relation: str) -> list[list[object]]:
        """The certain rows of a derived relation by its full name, as plain data, sorted. Errors: KeyError."""
        return [[to_json(value) for value in row] for row in sorted(self.derived[relation], key=row_key)]


def outcome_of(
    violations: Sequence[Violation], undetermined: Sequence[Violation], errors: Sequence[PolicyError]
) -> Outcome:
    """The outcome by order of precedence: a certain violation denies; else an error leaves the gate undecided; else an
    undetermined one denies if its policy says so; else findings, but for records, warn."""
    if any(violation.enforced for violation in violations):
        return "deny"
    if any(error.enforced for error in errors):
        return "indeterminate"
    if any(violation.enforced and violation.on_unknown == "deny" for violation in undetermined):
        return "deny"
    deferred = [violation for violation in undetermined if violation.on_unknown != "allow"]
    if errors or any(
        violation.level != "record" and violation.mode != "record" for violation in (*violations, *deferred)
    ):
        return "allow_with_warnings"
    return "allow"
