"""Searches what a policy denies, and near cases that pass.

All that is shown was judged: a case that is denied, and one that passes and is denied without the condition it names.
The search takes a limited number of steps, so it may miss an example.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedRule, Fold, Match
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.examples.case_building import Case, build_case
from datalog_gate.examples.column_hints import collect_hints
from datalog_gate.examples.judge import Judge
from datalog_gate.examples.literals import Dropped, list_conditions, quote
from datalog_gate.examples.unfolding import Unfolder
from datalog_gate.examples.valuation import Valuation
from datalog_gate.examples.variations import shrink, vary
from datalog_gate.schema.declaration import RelationRef

SEEDS = 4
UNFOLDING_STEPS, VALUE_STEPS = 1500, 150
MOST_SKETCHES, MOST_CASES = 25, 30
"""The maximum numbers for a rule and a seed."""
PER_SKETCH = 3
SHRINKING_STEPS = 60
MOST_FLIPPING = 400
MOST_EXAMPLES = 4
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


@dataclass(frozen=True, slots=True)
class PolicyExamples:
    policy: Policy
    examples: tuple[Example, ...]
    conditions: int
    """The number of conditions that a flip was searched for."""
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
        self.judge = Judge(rules, policy)
        self.sources = rules.sources
        self.catalogue = rules.catalogue
        self.unfolder = Unfolder(self.judge.rules.program)
        self.hints = collect_hints(self.judge.rules.program)

    def find(self) -> PolicyExamples:
        examples: list[Example] = []
        open_ = list(self._conditions())
        searched = len(open_)
        for rule in self.unfolder.groups.get(self.policy.relation, ()):
            example = self._example(rule, open_) if len(examples) < MOST_EXAMPLES else None
            if example and all(example.case != other.case for other in examples):
                examples.append(example)
        _, literal = self.unfolder.furthest
        if examples or literal is None:
            return PolicyExamples(self.policy, tuple(examples), searched)
        return PolicyExamples(self.policy, (), searched, quote(literal, self.sources), literal.span)

    def _example(self, rule: CheckedRule, open_: list[Dropped]) -> Example | None:
        """The example of a rule, if possible one that Heat accepts, with flips for conditions that have none yet."""
        found = list(islice(self._denied(rule), MOST_REFUSED))
        if not found:
            return None
        first = min(found, key=lambda case: bool(self.judge.refusals(case)))
        refused = self.judge.refusals(first)
        case = shrink(
            first,
            self.catalogue,
            lambda smaller: self.judge.denies(smaller) and self.judge.refusals(smaller) <= refused,
            SHRINKING_STEPS,
        )
        verdict = self.judge.judge(case)
        if verdict is None:
            return None
        flips = tuple(self._flips(case, refused, open_))
        return Example(case, verdict.message, verdict.resource, rule.span, flips)

    def _denied(self, rule: CheckedRule) -> Iterator[Case]:
        """Cases that the policy denies, found from one of its rules; the last is the first that Heat accepts."""
        for seed in range(SEEDS):
            tried = 0
            for sketch in islice(self.unfolder.unfold(rule, seed, UNFOLDING_STEPS), MOST_SKETCHES):
                values = Valuation(self.unfolder, sketch, self.hints, VALUE_STEPS).solutions()
                for bindings in islice(values, PER_SKETCH):
                    tried += 1
                    case = build_case(self.unfolder, self.catalogue, sketch, bindings)
                    if self.judge.denies(case):
                        yield case
                        if not self.judge.refusals(case):
                            return
                if tried >= MOST_CASES:
                    break

    def _flips(self, case: Case, refused: frozenset[str], open_: list[Dropped]) -> Iterator[Flip]:
        """The nearest passing cases, one for each condition. Those that are found are no longer open."""
        left = MOST_FLIPPING
        for other in vary(case, self.catalogue, self.hints):
            left -= 1
            if left <= 0 or not open_:
                return
            if not self.judge.passes(other) or not self.judge.refusals(other) <= refused:
                continue
            for condition in open_:
                left -= 1
                if self.judge.variant({condition.number: condition.rule}).denies(other):
                    open_.remove(condition)
                    yield Flip(other, condition.text, condition.span)
                    break

    def _conditions(self) -> Iterator[Dropped]:
        """The conditions of the rules that add rows to the policy, but for those through negations."""
        relations = self.judge.rules.program.relations
        waiting: list[RelationRef] = [self.policy.relation]
        known = set(waiting)
        while waiting:
            for rule in self.unfolder.groups.get(waiting.pop(0), ()):
                yield from list_conditions(self.unfolder.ids[id(rule)], rule, relations, self.sources)
                literals = [*rule.body, *(inner for fold in rule.body if isinstance(fold, Fold) for inner in fold.body)]
                for literal in literals:
                    if isinstance(literal, Match) and literal.relation not in known:
                        known.add(literal.relation)
                        waiting.append(literal.relation)
