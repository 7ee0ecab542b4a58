"""The comparison of a case's expectations with its findings.

A report has lines for people: `-` is expected, `+` is found, both in the notation of the test file, then the
explanation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.unknowns import possible
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.decision import Violation
from datalog_gate.decision.judgement import Judgement
from datalog_gate.explain.explanation import Explanation, format_lines
from datalog_gate.schema.declaration import RelationRef

Expected = Mapping[str, Any]
LISTS = ("violations", "undetermined", "diagnostics")
FAILING = 5
"""The maximum number of reported rules that derive no row."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """A finding of a case: a member of the list `violations`, `undetermined` or `diagnostics`."""

    list: str
    name: str
    """The id of the policy, or the code of the diagnostic."""
    place: Span | None
    message: str
    resource: ResourceId | None = None
    violation: Violation | None = field(default=None, compare=False, repr=False)
    policy: str = field(default="", compare=False)
    """The id of the policy, also for a diagnostic; empty for a diagnostic about input."""

    def fits(self, expected: Expected) -> bool:
        """Whether it has the values that the test file gives. A resource may be given without the root's id."""
        return self.is_of(expected) and not self.differences(expected)

    def is_of(self, expected: Expected) -> bool:
        """Whether it has the expected policy or code."""
        return bool(self.name == expected.get("policy", expected.get("code")))

    def differences(self, expected: Expected) -> dict[str, Any]:
        """Its values of the keys that differ from the test file."""
        own = {"resource": self.short, "line": (self.place and self.place.line) or None, "change": self.change}
        path = self.resource.path if self.resource else ""
        if expected.get("resource") == path:
            del own["resource"]
        return {key: value for key, value in own.items() if key in expected and expected[key] != value}

    @property
    def short(self) -> str:
        return (self.resource.local_path or self.resource.path) if self.resource else ""

    @property
    def change(self) -> str | None:
        """Introduced or preexisting, if the case has an older state."""
        return self.violation.change if self.violation else None

    def expectation(self) -> dict[str, Any]:
        """The entry of a test file that matches it completely."""
        is_diagnostic = self.list == "diagnostics"
        whole = {
            "code" if is_diagnostic else "policy": self.name,
            "resource": None if is_diagnostic else self.short or None,
            "line": (self.place and self.place.line) or None,
            "change": self.change,
        }
        return {key: value for key, value in whole.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case."""

    findings: tuple[CaseFinding, ...]
    rows: Mapping[str, Sequence[Sequence[object]]]
    """The certain rows of the relations that the case names, as plain data."""
    judgement: Judgement | None = None
    """None for unreadable input."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An expectation that no finding meets, a finding that is not expected, or both for the same policy."""

    list: str
    expected: Expected | None
    finding: CaseFinding | None


def find_mismatches(expect: Expected, findings: Sequence[CaseFinding]) -> Iterator[Mismatch]:
    """Compare expectations with findings, list by list. Each finding meets one expectation. A list that the test file
    leaves out is expected to be empty."""
    for name in LISTS:
        rest = [finding for finding in findings if finding.list == name]
        unmet: list[tuple[int, Expected]] = []
        # the most exact expectation chooses first
        for at, expected in sorted(enumerate(expect.get(name, ())), key=lambda pair: -len(pair[1])):
            met = next((finding for finding in rest if finding.fits(expected)), None)
            if met:
                rest.remove(met)
            else:
                unmet.append((at, expected))
        for _, expected in sorted(unmet, key=lambda pair: pair[0]):
            near = [finding for finding in rest if finding.is_of(expected)]
            nearest = min(near, key=lambda finding: len(finding.differences(expected)), default=None)
            if nearest:
                rest.remove(nearest)
            yield Mismatch(name, expected, nearest)
        yield from (Mismatch(name, None, finding) for finding in rest)


def report(expect: Expected, result: CaseResult, policies: Mapping[str, Policy]) -> str:
    """Report the mismatches as lines, with explanations of unexpected and missing findings; empty if there are none.
    `rows` are compared as sets."""
    lines: list[str] = []
    explanation = Explanation(result.judgement) if result.judgement else None
    for mismatch in find_mismatches(expect, result.findings):
        expected, finding = mismatch.expected, mismatch.finding
        if expected is not None:
            lines.append(f"  - {mismatch.list}: {flow(expected)}")
        if finding:
            lines.append(f"  + {mismatch.list}: {flow(finding.expectation())}")
            other = finding.differences(expected or {})
            lines += [f"      {key}: {value}, not {(expected or {})[key]}" for key, value in other.items()]
            lines += [f"      {text}" for text in (finding.message, *_explain_unexpected(finding, explanation))]
        elif expected is not None:
            lines += [f"      {text}" for text in _explain_missing(mismatch, result, policies, explanation)]
    for relation, (missing, unexpected) in row_differences(expect, result).items():
        if relation not in result.rows:
            hint = "write its full name, such as net:ssh:open_ssh; it may also take too much"
            lines.append(f"  - rows: {relation}: nothing derives it: {hint}")
        for row in missing:
            lines.append(f"  - rows: {relation}: {json.dumps(row, ensure_ascii=False)}")
            lines += [f"      {text}" for text in _name_failures(explanation, relation, row)]
        lines += [f"  + rows: {relation}: {json.dumps(row, ensure_ascii=False)}" for row in unexpected]
    return "\n".join(lines)


def row_differences(expect: Expected, result: CaseResult) -> dict[str, tuple[list[Any], list[Any]]]:
    """The missing and the unexpected rows, by relation, for relations whose rows differ."""
    differences = {}
    for relation, rows in expect.get("rows", {}).items():
        expected = {json.dumps(row): row for row in rows}
        derived = {json.dumps(row): row for row in result.rows.get(relation, ())}
        missing = [expected[key] for key in sorted(expected.keys() - derived)]
        unexpected = [derived[key] for key in sorted(derived.keys() - expected)]
        if missing or unexpected or relation not in result.rows:
            differences[relation] = missing, unexpected
    return differences


def flow(data: Any) -> str:
    """Write plain data as YAML in one line."""
    match data:
        case dict():
            return "{" + ", ".join(f"{flow(key)}: {flow(value)}" for key, value in data.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(flow, data))}]"
        case str() if _PLAIN.fullmatch(data) and data.lower() not in _WORDS:
            return data
    return json.dumps(data, ensure_ascii=False)


def _explain_unexpected(finding: CaseFinding, explanation: Explanation | None) -> Iterator[str]:
    if finding.violation is None or explanation is None:
        return
    for unknown in finding.violation.unknowns:
        yield f"  unknown  {unknown.expression}{f'   {unknown.place}' if unknown.place else ''}"
    if finding.list == "violations":
        yield from format_lines(explanation.why(finding.violation))


def _explain_missing(
    mismatch: Mismatch, result: CaseResult, policies: Mapping[str, Policy], explanation: Explanation | None
) -> Iterator[str]:
    """Explain why a finding is missing: it is in another list, or each rule fails at some literal."""
    expected = mismatch.expected or {}
    policy = policies.get(expected.get("policy", ""))
    if policy is None or explanation is None:
        return
    same = [finding for finding in result.findings if finding.is_of(expected)]
    lists = {finding.list for finding in same if "resource" not in finding.differences(expected)}
    if elsewhere := lists - {mismatch.list}:
        yield f"  fails it stands under {' and '.join(sorted(elsewhere))}"
        return
    judgement = explanation.judgement
    action = judgement.decision.action
    if action not in policy.on:
        yield f"  fails {policy.id} judges {', '.join(sorted(policy.on))}, not {action}"
        return
    relation: RelationRef = policy.relation
    if mismatch.list == "undetermined":
        relation = possible(relation, judgement.reader.evaluation.program)
    row: list[object] = [...] * len(policy.columns)
    if policy.subject is not None and "resource" in expected:
        path = expected["resource"]
        stacks = [stack for root in judgement.reader.stacks for stack in root.walk()]
        known = {resource.id.path for stack in stacks for resource in stack.resources}
        row[policy.subject] = path if path in known else f"{judgement.decision.stacks[0]}/{path}"
    yield from _name_failures(explanation, relation, row)


def _name_failures(explanation: Explanation | None, relation: RelationRef, row: Sequence[object]) -> Iterator[str]:
    """Name the literal at which each rule fails; nothing if there is such a row, or if it would take too long."""
    if explanation is None:
        return
    try:
        lines = dict.fromkeys(explanation.why_not(relation, row))
    except (EngineError, LookupError, ValueError):  # rows in a test file may have any relation and width
        return
    yield from format_lines(list(lines)[:FAILING], "fails")
