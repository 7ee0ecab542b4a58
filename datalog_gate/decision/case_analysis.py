"""The case analysis of undetermined findings.

It tries every value of the unknowns that have a domain, and judges the stacks again with each. For an unknown that is
computed from others, it tries the values of these, since two conditions on one parameter depend on each other. A branch
is a case (values of some unknowns) in which the finding is certain or impossible. The branches cover all values: a
finding that is certain in each of them holds, and one that is impossible in each does not. A finding is not settled if
a branch can't be read, meets an error, or exceeds the limits below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from datalog_gate.analysis.slices import slice_for
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import SECRET, Unknown, Value, bases
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.decision.dependence import Case, Dependence, merge_cases
from datalog_gate.decision.findings import FindingReader
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.engine.budget import Budget
from datalog_gate.stack.model import Stack
from datalog_gate.template.tree import Steps

TRIES = 256
"""The maximum number of combinations of values tried for one finding."""
WORK = 250_000
"""The maximum number of facts, resources and findings judged again for all findings of a decision: about a
second."""
LARGEST = WORK // 8
"""The maximum work of one try. For a larger stack only few findings would be settled."""
ALWAYS = 100
"""The minimum work of one try."""
PER_FINDING = 5
"""The work of locating one finding."""
WORDINGS = 3
"""The maximum number of messages that are joined if a finding holds in each case for another reason."""
KNOWLEDGE = "heat:unknown"
"""The relation of unknown values. A policy that reads it judges what is known, which trying values does not change."""
JudgeAgain = Callable[[PolicySet, Sequence[Stack], Budget], Decision]
Reread = Callable[[Stack, Mapping[Unknown, Value], Steps], Stack]
"""Reads a stack again with given values for unknowns, within a budget that all readings share, such as
`template.reader.read_assuming`. Errors: InputError."""
T = TypeVar("T")
CaseOutcome = tuple[T, Sequence[Unknown] | None]
"""The result in a case, and the unknowns that it still depends on, or None."""
IMPOSSIBLE = "group-size"
"""The code of a diagnostic: Heat refuses the stack with these values, so the case cannot occur."""


@dataclass(slots=True)
class Settlement:
    """The result of settling undetermined findings."""

    violations: list[Violation] = field(default_factory=list)
    waived: list[Violation] = field(default_factory=list)
    undetermined: list[Violation] = field(default_factory=list)
    origins: list[tuple[Violation, Violation]] = field(default_factory=list)
    """Each new finding with the undetermined finding it replaces."""
    identity: list[str] = field(default_factory=list)
    """Texts that differ between decisions that were settled differently."""


class Unsettled(Exception):  # noqa: N818 - an answer, not an error
    """The finding can't be settled, or not with the remaining work."""


class _Branch(NamedTuple):
    """A branch in which the finding is no longer open: the case, and its violations and waived findings."""

    case: Case
    violations: list[Violation]
    waived: list[Violation]


class CaseAnalysis:
    """Judges the stacks of a reader under assumptions, each case once for all its findings. `judge` judges stacks by
    some of the rules, without settling. All of it together may use the budget of one group of policies, each try a
    share."""

    def __init__(
        self,
        reader: FindingReader,
        certain: Sequence[Violation],
        undetermined: Sequence[Violation],
        reread: Reread,
        judge: JudgeAgain,
    ) -> None:
        rules, stacks, budget = reader.rules, reader.stacks, reader.request.budget
        facts = reader.evaluation.facts
        ready = {violation.policy for violation in undetermined if _bases(violation.because)}
        ready -= {policy.id for policy in rules.policies if KNOWLEDGE in rules.reads[policy.relation]}
        policies = tuple(policy for policy in rules.policies if policy.id in ready)
        wanted = frozenset(policy.relation for policy in policies)
        self._rules = replace(rules, program=slice_for(rules.program, wanted), policies=policies, unlocks=())
        self._size = ALWAYS + sum(len(facts.rows.get(name, ())) for name in self._rules.program.inputs)
        self._size += sum(len(stack.resources) for root in stacks for stack in root.walk())
        self._size += sum(PER_FINDING for violation in (*certain, *undetermined) if violation.policy in ready)
        self._stacks, self._undetermined = stacks, undetermined
        self._reread, self._judge = reread, judge
        self._known = {(violation.policy, violation.row) for violation in certain if SECRET not in violation.row}
        self._subjects = {
            (violation.policy, violation.resource) for violation in (*certain, *undetermined) if violation.resource
        }
        tries = max(1, WORK // self._size)
        seconds = None if budget.seconds is None else budget.seconds / tries
        self._ready, self._budget = ready, replace(budget, seconds=seconds)
        self._judged: dict[frozenset[tuple[Unknown, Value]], Decision | Unsettled | None] = {}
        self._left = WORK
        self._steps = Steps()

    def settle(self) -> Settlement:
        """Settle the undetermined findings if possible, and describe when the others hold."""
        settlement = Settlement()
        dependence = Dependence(self._stacks)
        for finding in self._undetermined:
            branches = self._find_branches(finding)
            if branches is None:
                settlement.undetermined.append(finding)
                continue
            held = [branch for branch in branches if branch.violations]
            if len(held) == len(branches):
                result = _merge_findings([branch.violations for branch in branches])
                settlement.violations.append(result)
            elif held:
                cases = merge_cases([branch.case for branch in held])
                because, words = dependence.format_cases(finding.level, cases)
                merged = _merge_findings([branch.violations for branch in held])
                result = replace(
                    finding,
                    message=merged.message,
                    place=merged.place,
                    because=because,
                    depends=words,
                    cases=frozenset(frozenset(case.items()) for case in cases),
                    change=merged.change,
                    tolerated=merged.tolerated,
                )
                settlement.undetermined.append(result)
            elif all(branch.waived for branch in branches):
                result = _merge_findings([branch.waived for branch in branches])
                settlement.waived.append(result)
            else:
                settlement.identity.append(f"never {finding.policy} {finding.resource}")
                continue
            settlement.origins.append((result, finding))
            settlement.identity.append(f"{result.policy} {result.resource} {result.depends or result.message}")
        return settlement

    def _find_branches(self, finding: Violation) -> list[_Branch] | None:
        """Find all branches of a finding; None if it can't be settled."""
        if finding.policy not in self._ready or prod(len(base.domain) for base in _bases(finding.because)) > TRIES:
            return None
        try:
            branches = list(filter(None, find_branches(finding.because, partial(self._judge_cases, finding))))
            return branches or None
        except Unsettled:
            return None

    def _judge_cases(self, finding: Violation, cases: Sequence[Case]) -> Iterator[CaseOutcome[_Branch | None]]:
        """Judge the finding in each case; None in a case that Heat refuses. Errors: Unsettled."""
        work = self._size * sum(_case_key(case) not in self._judged for case in cases)
        if work > self._left or self._size > LARGEST:
            raise Unsettled
        for case in cases:
            decision = self._judge_case(case)
            if decision is None:
                yield None, None
                continue
            if any(error.policy == finding.policy for error in decision.errors):
                raise Unsettled
            violations = [violation for violation in decision.violations if self._matches(violation, finding)]
            waived = [violation for violation in decision.waived if self._matches(violation, finding)]
            still = [violation for violation in decision.undetermined if self._matches(violation, finding)]
            because = [unknown for violation in still for unknown in violation.because]
            yield _Branch(case, violations, waived), because if still and not violations else None

    def _judge_case(self, case: Case) -> Decision | None:
        """The decision in a case; None if Heat refuses the case. Errors: Unsettled."""
        key = _case_key(case)
        if key not in self._judged:
            self._left -= self._size
            self._judged[key] = self._judge_again(dict(key))
        decision = self._judged[key]
        if isinstance(decision, Unsettled):
            raise Unsettled
        return decision

    def _judge_again(self, values: Case) -> Decision | Unsettled | None:
        try:
            stacks = [replace(self._reread(stack, values, self._steps), live=stack.live) for stack in self._stacks]
            return self._judge(self._rules, stacks, self._budget)
        except InputError as error:
            refused = all(diagnostic.code == IMPOSSIBLE for diagnostic in error.diagnostics)
            return None if refused else Unsettled()
        except EngineError:
            return Unsettled()

    def _matches(self, violation: Violation, finding: Violation) -> bool:
        """Whether a violation under assumptions corresponds to the finding: it is about the same resource or, since
        members of a group may have no name yet, about a resource without findings."""
        if violation.policy != finding.policy or (violation.policy, violation.row) in self._known:
            return False
        return violation.resource == finding.resource or not (
            finding.resource or (violation.policy, violation.resource) in self._subjects
        )


def _merge_findings(branches: Sequence[Sequence[Violation]]) -> Violation:
    """Merge the findings of all branches into one: their common row, else the first one with all messages. It is
    tolerated if all are."""
    rows = set.intersection(*({violation.row for violation in branch} for branch in branches))
    result = next((violation for violation in branches[0] if violation.row in rows), None)
    if result is None:
        messages = dict.fromkeys(branch[0].message for branch in branches)
        more = ["..."] if len(messages) > WORDINGS else []
        result = replace(branches[0][0], message="; or ".join([*list(messages)[:WORDINGS], *more]))
    new = next((violation for branch in branches for violation in branch if not violation.tolerated), result)
    return replace(result, change=new.change, tolerated=new.tolerated)


def find_branches(
    because: Sequence[Unknown],
    judge: Callable[[Sequence[Case]], Iterable[CaseOutcome[T]]],
    under: Case = MappingProxyType({}),
    tries: int = 1,
) -> Iterator[T]:
    """Find the outcomes under a case in all branches of a finding that depends on these unknowns. `judge` computes the
    outcome for each value of one unknown. Errors: Unsettled."""
    chosen = min(
        (base for base in _bases(because) if base not in under), key=lambda unknown: unknown.expression, default=None
    )
    if chosen is None:
        raise Unsettled
    tries *= len(chosen.domain)
    if tries > TRIES:
        raise Unsettled
    cases = [{**under, chosen: value} for value in chosen.domain]
    for case, (outcome, still) in zip(cases, judge(cases), strict=True):
        if still is None:
            yield outcome
        else:
            yield from find_branches(still, judge, case, tries)


def _case_key(case: Case) -> frozenset[tuple[Unknown, Value]]:
    return frozenset(case.items())


def _bases(unknowns: Sequence[Unknown]) -> tuple[Unknown, ...]:
    """The unknowns whose values decide all of these; none if one has no domain."""
    deciding = bases(unknowns)
    return deciding if all(unknown.domain for unknown in deciding) else ()
