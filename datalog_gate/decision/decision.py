"""The decision: the answer to one request, as data.

Its JSON has the schema ``datalog-gate/decision/1`` and is identical for the same inputs. A denial is an answer, not an
exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, get_args
from typing import Literal as OneOf

from datalog_gate.analysis.policy import LEVELS, Level
from datalog_gate.base.diagnostics import Diagnostic, Severity, Span, format_count, printable, shorten
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.unknown import EQUALITY
from datalog_gate.base.values import ResourceId, Row, Unknown, Value, from_python, row_key, to_json

SCHEMA = "datalog-gate/decision/1"
Outcome = OneOf["allow", "allow_with_warnings", "deny", "indeterminate"]
Mode = OneOf["enforce", "warn", "record"]
Change = OneOf["introduced", "preexisting"]
WRITTEN = ("id", "policy", "subject", "project", "owner", "reason", "ticket", "expires")
"""The keys of a waiver's entry that are fields of the same name; `while` is the `bound`."""
HeldCase = frozenset[tuple[Unknown, frozenset[Value]]]
"""A case in which a finding holds: some unknowns, each with the values it may have."""
LISTS = ("violations", "undetermined", "waived", "errors", "grants")
SOON = timedelta(days=14)
"""The time before its end from which a waiver is reported."""
SHORT = 6
"""The number of characters of a decision's id that people see."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of the gate. It lists all findings, whatever the outcome, sorted by policy and row."""

    id: str
    """The digest of all inputs of the decision."""
    outcome: Outcome
    action: str
    stacks: tuple[str, ...]
    """The ids of the stacks, sorted."""
    violations: tuple[Violation, ...]
    """The certain findings that no waiver waives."""
    undetermined: tuple[Violation, ...]
    """The findings that depend on unknowns."""
    waived: tuple[Violation, ...]
    """The certain findings that a waiver disables; in a check, also findings that a template's comment ignores."""
    errors: tuple[PolicyError, ...]
    grants: tuple[Grant, ...]
    digests: Mapping[str, str]
    """The digests of `rules` and `facts`."""
    counts: Mapping[str, int]
    """The number of `policies` that judged, and of `facts`."""
    derived: Mapping[str, Sequence[Row]]
    """The rows of every derived relation, as far as the budgets allowed, for tests and queries. Not in the JSON."""
    sources: Mapping[str, str]
    """The texts of rules and templates by file, for excerpts; not in the JSON."""
    now: datetime = field(compare=False)
    """The time of the request; not in the JSON."""
    waivers: tuple[Waiver, ...] = ()
    """The waivers that match a finding, in force or not. The decision depends on no others. Not in the JSON."""
    compared: bool = False
    """Whether there was an older state, so that each finding has a `change`; not in the JSON."""
    skipped: tuple[str, ...] = ()
    """The ids of policies that were not judged because they need a whole cloud. The JSON has only their number, in
    `counts`."""
    near_misses: tuple[Diagnostic, ...] = field(default=(), compare=False)
    """Warnings about policies without a finding, if requested, and of a check about its templates. Not in the JSON."""

    def to_json(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "id": self.id,
            "outcome": self.outcome,
            "action": self.action,
            "stacks": list(self.stacks),
            **{name: [entry.to_json() for entry in getattr(self, name)] for name in LISTS},
            "digests": dict(self.digests),
            "counts": {**self.counts, "skipped": len(self.skipped)} if self.skipped else dict(self.counts),
        }

    @property
    def flagged(self) -> frozenset[str]:
        """The ids of the policies with a finding or an error."""
        findings = (*self.violations, *self.undetermined, *self.waived)
        return frozenset(
            [error.policy for error in self.errors] + [name for finding in findings for name in finding.policies]
        )

    def rows(self, relation: str) -> list[list[object]]:
        """The certain rows of a derived relation, by its full name, as sorted plain data. Errors: KeyError."""
        return [[to_json(value) for value in row] for row in sorted(self.derived[relation], key=row_key)]


def compute_outcome(
    violations: Sequence[Violation], undetermined: Sequence[Violation], errors: Sequence[PolicyError]
) -> Outcome:
    """Compute the outcome, in this order: a certain violation denies; an error leaves it undecided; an undetermined
    violation denies if its policy says so; other findings of warnings and denials warn."""
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


@dataclass(frozen=True, slots=True)
class Waiver:
    """An exception by an operator: findings of a policy are waived until a day. Empty fields restrict nothing."""

    id: str
    policy: str
    owner: str
    reason: str
    expires: str
    """The first day, or the time, at which it no longer holds, in ISO 8601."""
    subject: str = ""
    """The path of the resource, with or without the root's id."""
    key: tuple[tuple[str, Value], ...] = ()
    """Values of the policy's key columns."""
    project: str = ""
    ticket: str = ""
    bound: str = ""
    """A comparison of the policy's columns, in the rule language, that must hold for the waiver to apply."""

    @property
    def until(self) -> datetime:
        """The time at which it ends, in UTC. It holds through the day before its date, as grants do."""
        return read_instant(self.expires)

    def left(self, now: datetime) -> str:
        """The remaining days, in words."""
        days = -((now - self.until) // timedelta(days=1))
        return f"{format_count(days, 'day')} left"

    def ends_soon(self, now: datetime) -> bool:
        return now < self.until <= now + SOON

    def __str__(self) -> str:
        owner = f"{self.owner}, {self.ticket}" if self.ticket else self.owner
        return f"{self.id} until {self.expires}: {self.reason} ({owner})"

    def to_json(self) -> dict[str, object]:
        """As JSON data: the entry of a `waivers.yaml`."""
        entry = {name: getattr(self, name) for name in WRITTEN}
        entry |= {"key": {name: to_json(value) for name, value in self.key}, "while": self.bound}
        return {name: value for name, value in entry.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Waiver:
        texts = {name: value for name, value in data.items() if name not in ("key", "while")}
        key = tuple((name, from_python(value)) for name, value in data.get("key", {}).items())
        return cls(**texts, key=key, bound=data.get("while", ""))


@dataclass(frozen=True, slots=True)
class Violation:
    """A row of a policy: certain, undetermined or waived."""

    policy: str
    level: Level
    mode: Mode
    message: str
    hint: str
    relation: str
    """The relation of the policy."""
    row: Row
    """The row, with secrets masked."""
    resource: ResourceId | None
    """The resource that the policy blames."""
    place: Span | None
    because: tuple[Unknown, ...] = ()
    """The unknowns that decide whether it holds; empty if it is certain."""
    on_unknown: str = "defer"
    """The effect if it is undetermined: `allow`, `defer` or `deny`."""
    waiver: Waiver | None = None
    """The waiver that applies."""
    lapsed: Waiver | None = None
    """A waiver that matches but is not in force."""
    change: Change | None = None
    """Whether an older state had it already; None without one."""
    tolerated: bool = False
    """Whether it existed before, and so stops nothing."""
    depends: str = ""
    """`because` in words: what decides it, or for which values it holds."""
    cases: frozenset[HeldCase] = frozenset()
    """The cases in which it holds, if they are known; not in the JSON."""
    also: tuple[str, ...] = ()
    """The other policies that hold in the same cases, or that depend on the same templates that were not read."""
    refused: tuple[ResourceId, ...] = ()
    """The grants that do not count, as the hint says; not in the JSON."""

    def to_json(self) -> dict[str, object]:
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
        if self.waiver:
            data["waiver"] = self.waiver.to_json()
        if self.also:
            data["also"] = list(self.also)
        return data

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The unknowns of `because`. For equality of unknowns, the unknowns compared."""
        apart = [unknown.of if unknown.source.function == EQUALITY else (unknown,) for unknown in self.because]
        return tuple(dict.fromkeys(unknown for unknowns in apart for unknown in unknowns))

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies of the finding, including `also`."""
        return (self.policy, *self.also)

    @property
    def severity(self) -> Severity:
        """How severe it is for those who read of it: a deny in warn mode is a warning."""
        severities: tuple[Severity, ...] = get_args(Severity)
        return severities[max(LEVELS.index(self.level), ("enforce", "warn", "record").index(self.mode))]

    @property
    def full_message(self) -> str:
        """The message, with what the finding depends on and the number of other policies."""
        also = f"; so do {format_count(len(self.also), 'more policy', 'more policies')}" if self.also else ""
        return f"{self.message}: {self.depends}{also}" if self.depends else self.message

    @property
    def enforced(self) -> bool:
        """Whether it can stop an operation."""
        return self.level == "deny" and self.mode == "enforce" and not self.tolerated


@dataclass(frozen=True, slots=True)
class PolicyError:
    """A policy that could not be evaluated, with its first error."""

    policy: str
    message: str
    place: Span | None
    """The place of the stack's value that an expression can't use, else of the expression in the rule."""
    enforced: bool
    code: str = "evaluation"
    resource: ResourceId | None = None
    """The resource that the value belongs to, if any."""
    blames_stack: bool = False
    """Whether a value of the stack is involved, so that its author can change it."""

    def to_json(self) -> dict[str, object]:
        return {"code": self.code, "policy": self.policy, "message": self.message, "place": _place(self.place)}


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant of a template: whether it unlocks its service, and why or why not."""

    grant: ResourceId
    service: str
    unlocked: bool
    reason: str
    undecided: bool = False
    """Whether it may unlock its service once more is known. A door refuses any other that unlocks nothing."""

    @property
    def refusal(self) -> str:
        """The message that it unlocks nothing, and why, for its author; empty if it does, or may later."""
        if self.unlocked or self.undecided:
            return ""
        return f"the grant {self.grant.path} does not unlock {self.service}: {self.reason}"

    def to_json(self) -> dict[str, object]:
        return {"grant": self.grant.path, "service": self.service, "unlocked": self.unlocked, "reason": self.reason}


def format_denial(decision: Decision, limit: int) -> str:
    """Format why the decision denies, in one line of at most `limit` characters: every finding, or if they do not fit
    the first of each policy and the number of others; grants that unlock nothing, which may be the reason; and the
    start of the id."""
    enforced = [violation for violation in decision.violations if violation.enforced]
    enforced += [
        violation for violation in decision.undetermined if violation.enforced and violation.on_unknown == "deny"
    ]
    reasons: dict[str, list[str]] = {}
    named: set[ResourceId] = set()
    for violation in enforced:
        if violation.policy not in reasons:
            named.update(violation.refused)
        reasons.setdefault(violation.policy, []).append(_format_reason(violation))
    for error in decision.errors:
        if error.enforced:
            reasons.setdefault(error.policy, []).append(_format_error(error))
    for grant in decision.grants:
        if grant.refusal and grant.grant not in named:
            reasons[grant.grant.path] = [grant.refusal]
    end = f" [decision {decision.id[:SHORT]}]"
    room = limit - len(end)
    text = "; ".join(chain.from_iterable(reasons.values()))
    if len(text) > room:
        text = _format_first(reasons, room)
    return printable(shorten(text, room)) + end


def _format_first(reasons: Mapping[str, Sequence[str]], room: int) -> str:
    """Format the first reason of each policy with the number of its others, then the policies that do not fit."""
    text, names = "", list(reasons)
    for at, (policy, texts) in enumerate(reasons.items()):
        more = f"; and {len(texts) - 1} more{f' of {policy}' if names[1:] else ''}" if texts[1:] else ""
        longer = f"{text}; {texts[0]}{more}" if text else f"{texts[0]}{more}"
        rest = ", ".join(f"{name} ({len(reasons[name])})" for name in names[at + 1 :])
        if text and len(longer) + len(rest) + 6 * bool(rest) > room:
            return f"{text}; and {policy} ({len(texts)}){rest and ', '}{rest}"
        text = longer
    return text


def _format_reason(violation: Violation) -> str:
    """Format a finding with its place, or with its resource if it has none."""
    where = violation.place.readable if violation.place else violation.resource and violation.resource.path
    hint = f" ({violation.hint})" if violation.hint else ""
    return f"{violation.policy}: {violation.full_message}{f' at {where}' if where else ''}{hint}"


def _format_error(error: PolicyError) -> str:
    where = error.place.readable if error.place else error.resource and error.resource.path
    where = where if error.blames_stack else ""
    return f"{error.policy} could not be evaluated: {error.message}{f' at {where}' if where else ''}"


def read_instant(text: str) -> datetime:
    """Read a time in ISO 8601, in UTC if it has no zone. Errors: ValueError."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _place(span: Span | None) -> dict[str, object] | None:
    return span.to_json() if span else None
