"""A decision (layer 4): the answer to one request, as a value. Denied is an answer, not an exception.

Out: JSON data of the schema ``datalog-gate/decision/1``, the same byte for byte for the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from datalog_gate.base.values import Row, row_key, to_json
from datalog_gate.decision.finding import Grant, PolicyError, Violation, Waiver

if TYPE_CHECKING:
    from datalog_gate.explain.explanation import Explanation

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
    `explanation` is there where it was asked for: each finding then has `why` in the JSON, and `clean` has how many
    rows there were for each policy that found nothing.
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
    explanation: Explanation | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """The decision as JSON data."""
        data: dict[str, object] = {
            "schema": SCHEMA,
            "id": self.id,
            "outcome": self.outcome,
            "action": self.action,
            "stacks": list(self.stacks),
            "violations": [self._finding(violation) for violation in self.violations],
            "undetermined": [self._finding(violation) for violation in self.undetermined],
            "waived": [self._finding(violation) for violation in self.waived],
            "errors": [error.to_json() for error in self.errors],
            "grants": [grant.to_json() for grant in self.grants],
            "digests": dict(self.digests),
            "counts": dict(self.counts),
        }
        if self.explanation:
            data["clean"] = self.clean()
        return data

    def clean(self) -> dict[str, dict[str, int]]:
        """How many rows of each relation of facts there were for each policy that found nothing, by its id; nothing if
        no explanation was asked for."""
        found = {one.policy for some in (self.violations, self.undetermined, self.waived, self.errors) for one in some}
        return self.explanation.clean(found) if self.explanation else {}

    def _finding(self, violation: Violation) -> dict[str, object]:
        return violation.to_json() | ({"why": self.explanation.of(violation).to_json()} if self.explanation else {})

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
