"""Searches what a policy denies, and near cases that pass.

All that is shown was judged: a case that is denied, and passes without the rule it names; and one that passes, and is
denied without the condition it names. The search takes a limited number of steps, so it may miss an example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedRule
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.examples.case_building import Case, build_case
from datalog_gate.examples.column_hints import collect_hints
from datalog_gate.examples.effort import Effort
from datalog_gate.examples.judge import CaseVerdict, Judge
from datalog_gate.examples.literals import Aim, list_branches, list_conditions, quote
from datalog_gate.examples.unfolding import Unfolder
from datalog_gate.examples.valuation import Valuation
from datalog_gate.examples.variations import approach, count_differences, shrink, vary

SEEDS = 4
STEPS = 120_000
"""The maximum number of steps for a policy."""
STEPS_FOR_EXAMPLE, STEPS_FOR_FLIP = 20_000, 10_000
"""The maximum numbers of steps to find an example of a rule, and a flip of a condition."""
MOST_SKETCHES, MOST_CASES = 25, 30
"""The maximum numbers for a rule and a seed."""
PER_SKETCH = 3
MOST_REFUSED = 4
"""How many cases that Heat would refuse are found before one of them is shown."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A near case that passes, with the condition that fails in it."""

    case: Case
    condition: str
    span: Span


@dataclass(frozen=True, slots=True)
class Example:
    """A case that the policy denies, with the near ones that pass."""

    case: Case
    message: str
    resource: ResourceId | None
    span: Span
    """The rule that it was found from."""
    flips: tuple[Flip, ...]


@dataclass(slots=True)
class _Found:
    """An example, with the rules that it shows."""

    case: Case
    verdict: CaseVerdict
    span: Span
    refused: frozenset[str]
    shown: set[int]
    flips: list[Flip] = field(default_factory=list)

    def example(self) -> Example:
        return Example(self.case, self.verdict.message, self.verdict.resource, self.span, tuple(self.flips))


@dataclass(frozen=True, slots=True)
class PolicyExamples:
    policy: Policy
    examples: tuple[Example, ...]
    conditions: int
    """The number of conditions of the rules that the examples show."""
    furthest: str = ""
    """Without an example: the condition at which the furthest attempt failed."""
    span: Span | None = None
    """The place of `furthest`."""


def find_examples(rules: PolicySet, policy: Policy) -> PolicyExamples:
    """Find an example from each rule of the policy, if possible."""
    return _ExampleSearch(rules, policy).find()


class _ExampleSearch:
    def __init__(self, rules: PolicySet, policy: Policy) -> None:
        self.policy = policy
        self.effort = Effort(STEPS)
        self.judge = Judge(rules, policy, self.effort)
        self.sources = rules.sources
        self.catalogue = rules.catalogue
        self.unfolder = Unfolder(self.judge.rules.program, self.effort)
        self.hints = collect_hints(self.judge.rules.program)
        self.tops = [self.unfolder.ids[id(rule)] for rule in self.unfolder.groups.get(policy.relation, ())]
        self.found: list[_Found] = []

    def find(self) -> PolicyExamples:
        numbered = self._numbered(self.unfolder.reach(self.policy.relation))
        branches = list_branches(numbered, self.sources)
        conditions = list_conditions(numbered, self.judge.rules.program.relations, self.sources)
        open_ = list(conditions)
        searched: set[int] = set()
        met: set[int] = set()
        for is_top in (True, False):
            before = len(self.found)
            for aim in branches:
                (number,) = aim.goals
                if (number in self.tops) is is_top and number not in met and aim.goals[number].body:
                    met |= self._add_example(aim, branches)
            for found in self.found[before:]:
                self._add_variations(found, open_)
            for aim in [aim for aim in open_ if aim.goals.keys() & met and id(aim) not in searched]:
                self._add_flip(aim, open_)
                searched.add(id(aim))

        conditions_met = sum(bool(aim.goals.keys() & met) for aim in conditions)
        _, literal = self.unfolder.furthest
        examples = tuple(found.example() for found in self.found)
        if examples or literal is None:
            return PolicyExamples(self.policy, examples, conditions_met)
        return PolicyExamples(self.policy, (), 0, quote(literal, self.sources), literal.span)

    def _numbered(self, numbers: Iterable[int]) -> dict[int, CheckedRule]:
        return {number: self.unfolder.rules[number] for number in sorted(numbers)}

    def _add_example(self, aim: Aim, branches: Sequence[Aim]) -> set[int]:
        """Add the example of a rule, if possible one that Heat accepts. Return the rules that it shows."""
        self.effort.begin(STEPS_FOR_EXAMPLE)
        found = list(islice(self._cases(aim), MOST_REFUSED))
        if not found:
            return set()
        first = min(found, key=lambda case: bool(self.judge.refusals(case)))
        refused = self.judge.refusals(first)
        case = shrink(
            first,
            self.catalogue,
            lambda smaller: self._shows(aim, smaller) and self.judge.refusals(smaller) <= refused,
        )
        verdict = self.judge.judge(case)
        assert verdict
        shown = {number for other in branches for number in other.goals if self._shows(other, case)}
        self.found.append(_Found(case, verdict, aim.span, refused, shown))
        return shown

    def _shows(self, aim: Aim, case: Case) -> bool:
        """Whether the case is judged as the aim says, and otherwise without the part."""
        without = self.judge.variant(aim.without)
        if aim.denies:
            return self.judge.denies(case) and without.passes(case)
        return self.judge.passes(case) and without.denies(case)

    def _cases(self, aim: Aim) -> Iterator[Case]:
        """Cases that show what is aimed at; the last is the first that Heat accepts."""
        for seed in range(SEEDS):
            tried = 0
            for top in self.tops:
                sketches = self.unfolder.unfold(top, seed, aim.goals, aim.preferred)
                for sketch in islice(sketches, MOST_SKETCHES):
                    values = Valuation(self.unfolder, sketch, self.hints).solutions()
                    for bindings in islice(values, PER_SKETCH):
                        tried += 1
                        case = build_case(self.unfolder, self.catalogue, sketch, bindings)
                        usual = "update" if "against" in case else "create"
                        if usual not in self.policy.on:
                            case.setdefault("action", min(self.policy.on))
                        if self._shows(aim, case):
                            yield case
                            if not self.judge.refusals(case):
                                return
                    if tried >= MOST_CASES:
                        break

    def _add_variations(self, found: _Found, open_: list[Aim]) -> None:
        """Add the variations of an example that are flips. Their conditions are no longer open."""
        self.effort.begin(STEPS_FOR_EXAMPLE)
        for other in vary(found.case, self.catalogue, self.hints):
            conditions = [aim for aim in open_ if aim.goals.keys() & found.shown]
            if not conditions or not self.effort.is_left:
                return
            if not self.judge.passes(other) or not self.judge.refusals(other) <= found.refused:
                continue
            for aim in conditions:
                if self._shows(aim, other):
                    open_.remove(aim)
                    found.flips.append(Flip(other, aim.text, aim.span))
                    break

    def _add_flip(self, aim: Aim, open_: list[Aim]) -> None:
        """Add a flip that is found from its condition, to the example that it is nearest to."""
        self.effort.begin(STEPS_FOR_FLIP)
        for case in self._cases(aim):
            nearest = min(self.found, key=lambda found: count_differences(case, found.case))
            if not self.judge.refusals(case) <= nearest.refused:
                continue
            case = approach(case, nearest.case, lambda other: self._shows(aim, other))
            open_.remove(aim)
            nearest.flips.append(Flip(case, aim.text, aim.span))
            return
