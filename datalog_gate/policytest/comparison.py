"""What a case expects beside what was found (layer 5).

In: the expectations of a test file, the answer to its case. Out: where they differ, as values for who rewrites the
file, and as lines for people: `-` is expected, `+` is found, both in the words of the test file, then why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.unknowns import possible
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.decision import Violation
from datalog_gate.decision.judgement import Judgement
from datalog_gate.explain.explanation import Explanation, explain, told
from datalog_gate.schema.declaration import RelationRef

Expected = Mapping[str, Any]
LISTS = ("violations", "undetermined", "diagnostics")
FAILING = 5
"""How many of the rules that give no row are told, at most."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True, slots=True)
class Finding:
    """A member of the list `violations`, `undetermined` or `diagnostics`; `name` is the policy's id or the code. A
    diagnostic is of a `policy` too, or else of the input."""

    list: str
    name: str
    place: Span | None
    message: str
    resource: ResourceId | None = None
    violation: Violation | None = field(default=None, compare=False, repr=False)
    policy: str = field(default="", compare=False)

    def fits(self, expected: Expected) -> bool:
        """Whether it is the one expected, as far as the test file says: a resource with or without the root's id."""
        return self.near(expected) and not self.other(expected)

    def near(self, expected: Expected) -> bool:
        """Whether it is of the same policy, or has the same code."""
        return bool(self.name == expected.get("policy", expected.get("code")))

    def other(self, expected: Expected) -> dict[str, Any]:
        """What it has in the place of what the test file says of it, by key."""
        own = {"resource": self.short, "line": self.place.line if self.place else None, "change": self.change}
        path = self.resource.path if self.resource else ""
        return {
            key: value
            for key, value in own.items()
            if key in expected and expected[key] != value and (key != "resource" or expected[key] != path)
        }

    @property
    def short(self) -> str:
        """The resource's path without the root's id; empty if it is of no resource."""
        path = self.resource.path if self.resource else ""
        return path.partition("/")[2] or path

    @property
    def change(self) -> str | None:
        """Introduced or preexisting, where the case has an older state."""
        return self.violation.change if self.violation else None

    def expectation(self) -> dict[str, Any]:
        """All that a test file can say of it."""
        line = self.place.line if self.place else None
        whole = {"resource": self.short or None, "line": line, "change": self.change}
        name = {"code" if self.list == "diagnostics" else "policy": self.name}
        if self.list == "diagnostics":
            del whole["resource"]
        return name | {key: value for key, value in whole.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a case: what was found, and the certain rows by relation, as plain data. `judgement` is None for
    input that can't be read."""

    found: tuple[Finding, ...]
    rows: Mapping[str, Sequence[Sequence[object]]]
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """An expectation that nothing meets, a finding that nothing expects, or both where they are of one policy. `at` is
    where the expectation stands in its list."""

    list: str
    at: int | None
    expected: Expected | None
    found: Finding | None


def differences(expect: Expected, found: Sequence[Finding]) -> Iterator[Difference]:
    """Where they differ, a list after the other. Each finding meets one expectation. A list that the test file leaves
    out is expected to be empty."""
    for name in LISTS:
        rest = [finding for finding in found if finding.list == name]
        unmet: list[tuple[int, Expected]] = []
        for at, expected in sorted(enumerate(expect.get(name, ())), key=lambda one: -len(one[1])):
            met = next(
                (finding for finding in rest if finding.fits(expected)), None
            )  # the most exact one chooses first
            if met:
                rest.remove(met)
            else:
                unmet.append((at, expected))
        for at, expected in sorted(unmet, key=lambda one: one[0]):
            near = [finding for finding in rest if finding.near(expected)]
            nearest = min(near, key=lambda finding: len(finding.other(expected)), default=None)
            if nearest:
                rest.remove(nearest)
            yield Difference(name, at, expected, nearest)
        yield from (Difference(name, None, None, finding) for finding in rest)


def report(expect: Expected, answer: Answer, policies: Mapping[str, Policy]) -> str:
    """The differences as lines, with why what is unexpected was found, and why what is missing was not; empty if there
    are none. `rows` are compared as sets."""
    lines: list[str] = []
    explanation = explain(answer.judgement) if answer.judgement else None
    for difference in differences(expect, answer.found):
        lines += [f"  - {difference.list}: {flow(difference.expected)}"] if difference.expected is not None else []
        if difference.found:
            lines.append(f"  + {difference.list}: {flow(difference.found.expectation())}")
            keys = difference.found.other(difference.expected or {})
            lines += [f"      {key}: {value}, not {(difference.expected or {})[key]}" for key, value in keys.items()]
            lines += [f"      {text}" for text in (difference.found.message, *_why(difference.found, explanation))]
        elif difference.expected is not None:
            lines += [f"      {text}" for text in _why_not(difference, answer, policies, explanation)]
    for relation, (missing, unexpected) in row_differences(expect, answer).items():
        if relation not in answer.rows:
            hint = "write its full name, net:ssh:open_ssh, or it takes too much"
            lines.append(f"  - rows: {relation}: nothing derives it: {hint}")
        for row in missing:
            lines.append(f"  - rows: {relation}: {json.dumps(row, ensure_ascii=False)}")
            lines += [f"      {text}" for text in _fails(explanation, relation, row)]
        lines += [f"  + rows: {relation}: {json.dumps(row, ensure_ascii=False)}" for row in unexpected]
    return "\n".join(lines)


def row_differences(expect: Expected, answer: Answer) -> dict[str, tuple[list[Any], list[Any]]]:
    """For each relation whose rows differ those that are missing and those that are unexpected."""
    found = {}
    for relation, wanted in expect.get("rows", {}).items():
        want, have = ({json.dumps(row): row for row in some} for some in (wanted, answer.rows.get(relation, ())))
        missing = [want[key] for key in sorted(want.keys() - have)]
        unexpected = [have[key] for key in sorted(have.keys() - want)]
        if missing or unexpected or relation not in answer.rows:
            found[relation] = missing, unexpected
    return found


def flow(data: Any) -> str:
    """Plain data as YAML in one line."""
    match data:
        case dict():
            return "{" + ", ".join(f"{flow(key)}: {flow(value)}" for key, value in data.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(flow, data))}]"
        case str() if _PLAIN.fullmatch(data) and data.lower() not in _WORDS:
            return data
    return json.dumps(data, ensure_ascii=False)


def _why(finding: Finding, explanation: Explanation | None) -> Iterator[str]:
    """What decides a finding that is undetermined, and what another rests on."""
    if finding.violation is None or explanation is None:
        return
    for unknown in finding.violation.because:
        yield f"  unknown  {unknown.expression}{f'   {unknown.place}' if unknown.place else ''}"
    if finding.list == "violations":
        yield from told(explanation.why(finding.violation))


def _why_not(
    difference: Difference, answer: Answer, policies: Mapping[str, Policy], explanation: Explanation | None
) -> Iterator[str]:
    """Why a finding is not there: it is of another kind, or the literal at which each rule fails."""
    expected = difference.expected or {}
    policy = policies.get(expected.get("policy", ""))
    if policy is None or explanation is None:
        return
    lists = {
        finding.list for finding in answer.found if finding.near(expected) and "resource" not in finding.other(expected)
    }
    if elsewhere := lists - {difference.list}:
        yield f"  fails it stands under {' and '.join(sorted(elsewhere))}"
        return
    judgement = explanation.judgement
    action = judgement.decision.action
    if action not in policy.on:
        yield f"  fails {policy.id} judges {', '.join(sorted(policy.on))}, not {action}"
        return
    relation: RelationRef = policy.relation
    if difference.list == "undetermined":
        relation = possible(relation, judgement.evaluation.program)
    row: list[object] = [...] * len(policy.columns)
    if policy.subject is not None and "resource" in expected:
        path = expected["resource"]
        stacks = [stack for root in judgement.stacks for stack in root.walk()]
        known = {resource.id.path for stack in stacks for resource in stack.resources}
        row[policy.subject] = path if path in known else f"{judgement.decision.stacks[0]}/{path}"
    yield from _fails(explanation, relation, row)


def _fails(explanation: Explanation | None, relation: RelationRef, row: Sequence[object]) -> Iterator[str]:
    """The literal at which each rule fails; nothing if there is such a row, or if it would take too long."""
    if explanation is None:
        return
    try:
        lines = dict.fromkeys(explanation.why_not(relation, row))
    except (EngineError, LookupError, ValueError):  # of a test file, rows may be of any relation and width
        return
    yield from told(list(lines)[:FAILING], "fails")
