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
from itertools import combinations
from math import prod
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from datalog_gate.analysis.policy import Level
from datalog_gate.analysis.slices import slice_for
from datalog_gate.base.diagnostics import shorten
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.base.expression import Expression
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.unknown import EQUALITY
from datalog_gate.base.values import FALSE, SECRET, TRUE, ResourceId, Unknown, Value, bases, show
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.engine.budget import Budget
from datalog_gate.facts.factset import FactSet
from datalog_gate.stack.model import Stack, sizes
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
MOST = 3
"""The maximum number of unknowns, values or cases that are listed."""
LONGEST = 80
"""The maximum number of characters of an expression or value that are shown."""
MERGED = 64
"""The maximum number of cases that are compared with each other to merge them."""
VERBS = {"deny": "denied", "warn": "warned of", "record": "recorded"}

Case = Mapping[Unknown, Value]
"""Values of unknowns: an assumption."""
IMPOSSIBLE = "group-size"
"""The code of a diagnostic: Heat refuses the stack with these values, so the case cannot occur."""
MergedCase = dict[Unknown, frozenset[Value]]


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
    """Judges the stacks under assumptions, each case once for all findings. `judge` judges stacks by some of the rules,
    without settling. All of it together may use the budget of one group of policies, each try a share."""

    def __init__(
        self,
        rules: PolicySet,
        stacks: Sequence[Stack],
        facts: FactSet,
        certain: Sequence[Violation],
        undetermined: Sequence[Violation],
        budget: Budget,
        reread: Reread,
        judge: JudgeAgain,
    ) -> None:
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


class Dependence:
    """Describes what an undetermined finding depends on, such as "denied if parameter az is nova-2". Conditions,
    parameters and attributes are shown by name, other unknowns as written."""

    def __init__(self, stacks: Sequence[Stack]) -> None:
        self._roots = {stack.id for stack in stacks}
        self._conditions: dict[object, str] = {}
        self._negated: dict[object, str] = {}
        self._sizes: dict[object, dict[str, None]] = {}
        self._crowds: set[object] = set()
        for stack in (nested for root in stacks for nested in root.walk()):
            for name, truth in stack.conditions.items():
                if isinstance(truth, Unknown):
                    where = "" if stack.id in self._roots else f" of {stack.id}"
                    self._conditions.setdefault(truth.source, f"condition {name}{where}")
                    if truth.source.function in ("not", "Fn::Not"):
                        self._negated.setdefault(truth.source.arguments, f"condition {name}{where}")
            for resource in stack.apart.others.values():
                for unknown in sizes(resource):
                    self._sizes.setdefault(unknown.source, {})[self._short(resource.id)] = None
                    if unknown == resource.open_members:
                        self._crowds.add(unknown.source)

    def format_unknowns(self, because: Sequence[Unknown]) -> str:
        """Describe the unknowns that a finding depends on, if the values for which it holds are not known."""
        if len(because) == 1 and because[0].source in self._sizes:
            crowd = ", too many to list each" if because[0].source in self._crowds else ""
            return f"depends on {self._size(because[0], ', which')}{crowd}"
        words = list(dict.fromkeys(self._name(part) for unknown in because for part in self._split_unknown(unknown)))
        return f"depends on {_join(words, ' and ')}" if words else ""

    def format_cases(self, level: Level, cases: Sequence[MergedCase]) -> tuple[tuple[Unknown, ...], str]:
        """Describe when a finding holds exactly in these cases; also return the unknowns that decide it."""
        because = _in_order({unknown for case in cases for unknown in case})
        clauses = [" and ".join(self._clause(unknown, case[unknown]) for unknown in _in_order(case)) for case in cases]
        causes = [self._size(unknown) for unknown in because if unknown.source in self._sizes and unknown.of]
        return tuple(because), "; ".join([f"{VERBS[level]} if {_join(clauses, '; or if ')}", *causes])

    def _clause(self, unknown: Unknown, values: frozenset[Value]) -> str:
        name = self._name(unknown)
        negated = unknown.source in self._negated and unknown.source not in self._conditions
        if name == self._condition(unknown) and unknown.domain == (FALSE, TRUE):
            return f"{name} {'holds' if (TRUE in values) != negated else 'does not hold'}"
        among = [shorten(show(value), LONGEST) for value in unknown.domain if value in values]
        return f"{name} is {_join(among, ' or ')}"

    def _split_unknown(self, unknown: Unknown) -> tuple[Unknown, ...]:
        whole = unknown.source in self._conditions or unknown.source.function == EQUALITY
        return (unknown,) if whole or not unknown.of else unknown.of

    def _size(self, unknown: Unknown, link: str = "") -> str:
        """The sentence about an unknown that decides how many members groups have, with `link` before its verb."""
        deciding = list(dict.fromkeys(self._name(part) for part in unknown.of or (unknown,)))
        groups = list(self._sizes[unknown.source])
        verbs = "decides" if len(deciding) == 1 else "decide", "has" if len(groups) == 1 else "have"
        return f"{_join(deciding, ' and ')}{link} {verbs[0]} how many members {_join(groups, ' and ')} {verbs[1]}"

    def _short(self, resource: ResourceId) -> str:
        return resource.name if resource.stack in self._roots else resource.path

    def _condition(self, unknown: Unknown) -> str | None:
        return self._conditions.get(unknown.source) or self._negated.get(unknown.source)

    def _name(self, unknown: Unknown) -> str:
        if unknown.hidden:
            return "a hidden value"
        if unknown.of and unknown.source in self._sizes:
            return f"the number of members of {_join(list(self._sizes[unknown.source]), ' and ')}"
        if condition := self._condition(unknown):
            return condition
        source = unknown.source
        match source.function, source.arguments:
            case fn, tuple(sources) if fn == EQUALITY:
                names = [self._name(Unknown(part)) for part in sources if isinstance(part, Expression)]
                equal = [f"{left} is {right}" for left, right in zip(names[::2], names[1::2], strict=True)]
                return f"{EQUALITY} {_join(equal, ' and ')}"
            case "get_param", str(name):
                return f"parameter {name}{self._home(source.stack, ' of ')}"
            case "get_attr" | "Fn::GetAtt", [str(name), *keys] if all(isinstance(key, str | int) for key in keys):
                return f"{'.'.join(map(str, keys)) or 'the name'} of `{name}`{self._home(source.stack, ' in ')}"
        return shorten(unknown.expression, LONGEST)

    def _home(self, stack: str, between: str) -> str:
        return "" if stack in self._roots else f"{between}{stack}"


def _in_order(unknowns: Iterable[Unknown]) -> list[Unknown]:
    return sorted(unknowns, key=lambda unknown: unknown.expression)


def merge_cases(cases: Sequence[Case]) -> list[MergedCase]:
    """Merge cases that differ in only one unknown, and drop unknowns that may have any value."""
    merged: list[MergedCase] = [{unknown: frozenset({value}) for unknown, value in case.items()} for case in cases]
    if len(merged) <= MERGED:
        while _merge_two(merged):
            pass
    return merged


def _merge_two(cases: list[MergedCase]) -> bool:
    """Merge the first two cases that can be merged; return whether there were any."""
    for case, other in combinations(cases, 2):
        differing = [unknown for unknown in case.keys() | other.keys() if case.get(unknown) != other.get(unknown)]
        if len(differing) == 1 and differing[0] in case and differing[0] in other:
            unknown = differing[0]
            case[unknown] |= other[unknown]
            cases.remove(other)
            if case[unknown].issuperset(unknown.domain):
                del case[unknown]
            return True
    return False


def _join(words: Sequence[str], between: str) -> str:
    more = [f"{len(words) - MOST} more"] if len(words) > MOST else []
    return between.join([*words[:MOST], *more])
