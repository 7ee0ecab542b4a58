"""Waivers: violations that an operator tolerates until a day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.taint import Cell
from datalog_gate.analysis.violation_key import computed_cells, key_columns
from datalog_gate.base.diagnostics import Diagnostic, closest, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import ResourceId, Row, Value
from datalog_gate.decision.decision import WRITTEN, Waiver, read_instant
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.engine.builtins import EvaluationError, compare

if TYPE_CHECKING:
    from datalog_gate.language.ast import Comparison
    from datalog_gate.template.document import Document

TEXTS = (*WRITTEN, "while")
KEYS = (*TEXTS, "key")
NEEDED = ("id", "policy", "owner", "reason", "expires")
BOUNDS = ("subject", "key", "project", "while")
"""The keys of which a waiver needs at least one, since it would otherwise disable its policy."""


def read_waivers(document: Document, rules: PolicySet) -> tuple[Waiver, ...]:
    """The waivers of a document, in its order. Errors: InputError."""
    reader = _Reader(document, {policy.id: policy for policy in rules.policies}, computed_cells(rules.program))
    waivers = tuple(reader.waivers())
    if reader.problems:
        raise InputError(reader.problems, {document.file: document.text or ""})
    return waivers


def waiver_of(
    waivers: Sequence[Waiver],
    columns: Sequence[str],
    row: Row,
    subject: ResourceId | None,
    project: str | None,
    now: datetime,
) -> tuple[Waiver | None, str]:
    """Find the first of a policy's waivers that applies to this row, else the last that matches but is not in force,
    with the reason. Waivers cannot name unknown or hidden values."""
    lapsed: tuple[Waiver | None, str] = None, ""
    named = dict(zip(columns, row, strict=True))
    for waiver in waivers:
        same = all(name in named and _is(named[name], value) for name, value in waiver.key)
        if (
            not same
            or (waiver.subject and not _is(subject, waiver.subject))
            or (waiver.project and waiver.project != project)
        ):
            continue
        if now >= waiver.until:
            lapsed = waiver, f"expired {waiver.expires}"
        elif waiver.bound and not _is_bounded(waiver.bound, named):
            lapsed = waiver, f"holds only while {waiver.bound}"
        else:
            return waiver, ""
    return lapsed


def _is_bounded(text: str, named: Mapping[str, Value]) -> bool:
    """Whether a bound certainly holds. Values that cannot be compared do not satisfy it."""
    from datalog_gate.language.ast import Constant

    bound = _read_bound(text)
    if isinstance(bound, str):
        return False
    terms = (bound.left, bound.right)
    left, right = (term.value if isinstance(term, Constant) else named.get(getattr(term, "name", "")) for term in terms)
    try:
        return compare(bound.comparator, left, right, False, Constant(None) in terms)
    except EvaluationError:
        return False


def _read_bound(text: str) -> Comparison | str:
    """Parse a bound, such as ``n <= 120``: a column of the head compared with a constant or another column. Returns an
    error message otherwise."""
    from datalog_gate.language.ast import Comparison, Constant, Variable  # few waivers have a bound
    from datalog_gate.language.parser import parse_query

    body, problems = parse_query(f":- {text}")
    match body:
        case (Comparison(_, Variable() | Constant() as left, Variable() | Constant() as right) as comparison,):
            if Variable not in (type(left), type(right)):
                return "it names no column"
            same = isinstance(left, Variable) and isinstance(right, Variable) and left.name == right.name
            return "both sides are the same" if same else comparison
    return problems[0].message if problems else "it is not a comparison of a column"


def _is(value: Value, wanted: Value) -> bool:
    """Whether a value is the one that a waiver names: a resource by its path, with or without the root's id."""
    if isinstance(value, ResourceId):
        return wanted in (value.path, value.local_path)
    return value == wanted


@dataclass(slots=True)
class _Reader:
    """Reads the entries of a document. `problems` collects what is wrong with them."""

    document: Document
    policies: Mapping[str, Policy]
    worked_out: Set[Cell]
    problems: list[Diagnostic] = field(default_factory=list)

    def waivers(self) -> Iterator[Waiver]:
        data: Any = self.document.data
        entries = data.get("waivers", ()) if isinstance(data, dict) else ()
        if not isinstance(data, dict) or list(data) != ["waivers"] or not isinstance(entries, list | None):
            self._bad(
                "the file must have a single key, `waivers`, with a list",
                (),
                "write `waivers:`, and each waiver with a dash",
            )
            return
        ids = Counter(str(entry["id"]) for entry in entries or () if isinstance(entry, dict) and "id" in entry)
        for at, entry in enumerate(entries or ()):
            before = len(self.problems)
            self._check(at, entry)
            if isinstance(entry, dict) and ids[str(entry.get("id"))] > 1:
                self._bad(f"{entry['id']} is the id of more than one waiver", (at, "id"), "give each its own id")
            if len(self.problems) == before:
                yield Waiver.from_json(entry)

    def _check(self, at: int, entry: Any) -> None:
        if not isinstance(entry, dict):
            self._bad("a waiver must be a mapping", (at,), f"with the keys {', '.join(KEYS)}")
            return
        for key, value in entry.items():
            if key not in KEYS:
                known = "one of " + ", ".join(KEYS)
                self._bad(f"a waiver has no key `{key}`", (at, key), suggest_name(closest(str(key), KEYS), known), True)
            elif key == "key" and not isinstance(value, dict):
                self._bad("`key` must be a mapping of columns to values", (at, key))
            elif key in TEXTS and (not isinstance(value, str) or not value):
                self._bad(f"`{key}` must be a string", (at, key), f'write "{value}" in quotes' if value else None)
        for key in NEEDED:
            if key not in entry:
                more = ": a waiver must end" if key == "expires" else ""
                self._bad(f"`{key}` is missing here{more}", (at,))
        if not any(entry.get(key) for key in BOUNDS):
            self._bad(
                "it would waive everything that the policy finds", (at,), f"give at least one of {', '.join(BOUNDS)}"
            )
        if isinstance(date := entry.get("expires"), str):
            try:
                read_instant(date)
            except ValueError:
                self._bad(
                    f"{date} is not a date",
                    (at, "expires"),
                    "write one like 2027-03-01, the first day on which it no longer holds",
                )
        name = entry.get("policy")
        if policy := self.policies.get(name) if isinstance(name, str) else None:
            self._check_by(policy, at, entry)
        elif isinstance(name, str):
            self._bad(f"there is no policy {name}", (at, "policy"), suggest_name(closest(name, self.policies)))

    def _check_by(self, policy: Policy, at: int, entry: Mapping[str, Any]) -> None:
        if "subject" in entry and policy.subject is None:
            self._bad(f"{policy.id} blames no resource", (at, "subject"), "remove `subject`")
        columns = [name for name in policy.columns if name]
        keys = key_columns(policy, self.worked_out)
        given = entry.get("key")
        for name, value in given.items() if isinstance(given, dict) else ():
            if name in columns and name not in keys:
                why = f"{name} is not a key column of {policy.id}: the violation stays the same when it changes"
                self._bad(why, (at, "key", name), f'bound it instead, `while: "{name} <= {value}"`', True)
            elif name not in keys:
                suggestion = suggest_name(closest(str(name), keys), f"its key columns are {', '.join(keys) or 'none'}")
                self._bad(f"{policy.id} has no column {name}", (at, "key", name), suggestion, True)
            elif isinstance(value, dict | list):
                self._bad(f"`{name}` must be a string, a number, true, false or null", (at, "key", name))
        if isinstance(text := entry.get("while"), str) and text:
            bound = _read_bound(text)
            if isinstance(bound, str):
                self._bad(f"`while` can't be `{text}`: {bound}", (at, "while"), 'write one like `while: "n <= 120"`')
                return
            for name in (getattr(term, "name", "") for term in (bound.left, bound.right)):
                if name and name not in columns:
                    known = f"the columns of {policy.id} are {', '.join(columns) or 'none'}"
                    suggestion = suggest_name(closest(name, columns), known)
                    self._bad(f"{policy.id} has no column {name}", (at, "while"), suggestion)

    def _bad(self, what: str, path: tuple[str | int, ...], suggestion: str | None = None, key: bool = False) -> None:
        if self.document.text is None and path:
            what = f"waivers[{path[0]}]: {what}"
        place = self.document.key_place if key else self.document.place
        self.problems.append(Diagnostic("bad-waiver", what, place(("waivers", *path) if path else ()), suggestion))
