"""Cases that two policy sets judge differently."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedRule
from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.examples.case_building import Case
from datalog_gate.examples.effort import Effort
from datalog_gate.examples.example_search import (
    MOST_REFUSED,
    STEPS,
    STEPS_FOR_EXAMPLE,
    CaseOrigin,
    ExampleSearch,
    PolicyExamples,
)
from datalog_gate.examples.judge import Judge
from datalog_gate.examples.literals import Aim, contradict, list_texts
from datalog_gate.examples.rule_forms import Forms, describe_relations, describe_rule, join_results
from datalog_gate.examples.variations import add_or_remove, change_values, shrink

MOST_RIVALS = 3
"""The maximum number of texts of another version from which one is told apart."""


@dataclass(frozen=True, slots=True)
class RuleDifference:
    """A case that only one of two policy sets denies: the newer one, or else the older one. With a message, both deny
    it, and only that one with this message."""

    policy: str
    newly: bool
    case: Case
    message: str = ""


def find_differences(old: PolicySet, new: PolicySet, ids: Collection[str] = ()) -> Iterator[RuleDifference]:
    """Find cases that only one of the sets denies, by all policies or by those with the ids: at most one for each
    policy that is newly denied, and one that no longer is. They are examples of the policies, or are searched from the
    conditions that only one set has. If there is none, both may deny a case with other messages. Policies whose rules
    have the same form are not searched."""
    sets = [
        (rules, {policy.id: policy for policy in rules.policies}, describe_relations(rules.program))
        for rules in (old, new)
    ]
    for identifier in sorted(ids or {identifier for _, policies, _ in sets for identifier in policies}):
        versions = [
            _Version(rules, policies[identifier], forms) if identifier in policies else None
            for rules, policies, forms in sets
        ]
        yield from _find_differences(identifier, *versions)


def _find_differences(identifier: str, old: _Version | None, new: _Version | None) -> Iterator[RuleDifference]:
    if old and new:
        if old.form == new.form:
            return
        old.compare(new)
        new.compare(old)
        old.take_rivals(new)
        new.take_rivals(old)
    cases = [case for version in (old, new) if version for case in list_cases(version.find())]
    found: list[RuleDifference] = []
    for newly, denying, passing in ((True, new, old), (False, old, new)):
        case = next((case for case in cases if denying and denying.only_denies(case)), None)
        if case is None and denying and passing:
            case = denying.find_difference(passing, denying.only_denies)
            case = case or denying.find_nearby(cases, denying.only_denies)
        if denying and case is not None:
            found.append(RuleDifference(identifier, newly, denying.shrink(case, denying.only_denies)))
    yield from found
    if old and new and not found:
        for newly, saying, other in ((True, new, old), (False, old, new)):
            case = next((case for case in cases if saying.only_says(case)), None)
            case = case or saying.find_difference(other, saying.says_more)
            if case is not None:
                case = saying.shrink(case, saying.says_more)
                yield RuleDifference(identifier, newly, case, saying.only_says(case)[0])


class _Version(ExampleSearch):
    """A policy in one of the sets, which may be compared with its other version."""

    def __init__(self, rules: PolicySet, policy: Policy, forms: Forms) -> None:
        super().__init__(rules, policy)
        unlocks = {(unlock.service, forms[unlock.relation]) for unlock in self.judge.rules.unlocks}
        self.form = forms[policy.relation], policy.on, unlocks
        self._generated = {name: form for name, form in forms.items() if rules.program.relations[name].generated}
        self._rules: Sequence[tuple[object, str]] = ()
        """The forms of the rules, in which all relations but generated ones stand for themselves."""
        self._other: Judge | None = None
        self._wanted: Callable[[Case], bool] | None = None
        self._uses: Mapping[int, int] = {}

    def compare(self, other: _Version) -> None:
        """Take the other version to compare with, the rows that only its rules read, and what values it asks for."""
        self._rules = [
            (self._generated.get(rule.relation, rule.relation), describe_rule(rule, self._generated))
            for rule in self.unfolder.rules
        ]
        self.judge.accept(other.judge)
        self.unfolder.program = self.judge.rules.program
        columns = dict.fromkeys((*self.hints, *other.hints))
        self.hints = {
            column: tuple(dict.fromkeys((*self.hints.get(column, ()), *other.hints.get(column, ()))))
            for column in columns
        }
        self._other = Judge(other.judge.rules, other.policy, Effort(STEPS))
        self._other.accept(self.judge)

    def take_rivals(self, other: _Version) -> None:
        """Tell texts that only the rules of this version have from those that only the other one's have."""
        own, others = (
            dict.fromkeys(
                text for number in version.list_own_rules(rival) for text in list_texts(version.unfolder.rules[number])
            )
            for version, rival in ((self, other), (other, self))
        )
        rivals = [text for text in others if text not in own][:MOST_RIVALS]
        self.rivals = {text: rivals for text in own if text not in others}

    def only_denies(self, case: Case) -> bool:
        """Whether this version denies the case and the other one, if there is one, does not."""
        return self.judge.denies(case) and (self._other is None or self._other.tolerates(case))

    def only_says(self, case: Case) -> list[str]:
        """The messages of this version that the other one, whose messages have the same words, does not give."""
        own, other = self.judge.judge(case), self._other and self._other.judge(case)
        if not self._other or self._other.policy.message != self.policy.message or not own or not other or other.fails:
            return []
        return sorted(own.messages - other.messages)

    def says_more(self, case: Case) -> bool:
        return bool(self.only_says(case))

    def find(self) -> PolicyExamples:
        """The examples of this version."""
        found = super().find()
        self._uses = dict(self.unfolder.uses)
        return found

    def find_difference(self, other: _Version, wanted: Callable[[Case], bool]) -> Case | None:
        """A case of the kind that is wanted, from the rules that only one version has. It is searched among rules that
        the examples use little, and then among all alike."""
        for is_new in (True, False):
            for version in (self, other):
                version.effort.left = STEPS
                version.unfolder.uses = {rule: times * is_new for rule, times in version._uses.items()}
            for case in chain(
                (self._find_case(aim, wanted) for aim in self._list_aims(other)),
                (other._find_case(aim, wanted, rules) for aim, rules in other._list_ways(self)),
            ):
                if case:
                    return case
        return None

    def _find_case(self, aim: Aim, wanted: Callable[[Case], bool], rules: frozenset[int] = frozenset()) -> Case | None:
        """A case of the kind that is wanted, from a part of a rule. Where there is a choice, the `rules` lead."""
        self._wanted = wanted
        self.effort.begin(STEPS_FOR_EXAMPLE)
        cases = [case for case, _ in islice(self._cases(aim, CaseOrigin(0, self.tops[0], rules, {})), MOST_REFUSED)]
        return min(cases, key=lambda case: bool(self.judge.refusals(case)), default=None)

    def shrink(self, case: Case, wanted: Callable[[Case], bool]) -> Case:
        """The case without what it does not need to be of the kind that is wanted."""
        refused = self.judge.refusals(case)
        return shrink(case, self.catalogue, lambda less: wanted(less) and self.judge.refusals(less) <= refused)

    def list_own_rules(self, other: _Version) -> list[int]:
        """The numbers of the rules that the other version does not have."""
        return [number for number, form in enumerate(self._rules) if form not in other._rules]

    def _list_goals(self, other: _Version) -> list[tuple[int, CheckedRule]]:
        """For each rule that it holds, and that in a rule of only the other version a condition does not; then for each
        rule of only this version that it holds."""
        rivals = [join_results(other.unfolder.rules[number]) for number in other.list_own_rules(self)]
        rules = list(enumerate(self.unfolder.rules))
        goals = [
            (number, replace(joined, body=body))
            for number, joined in [(number, join_results(rule)) for number, rule in rules]
            for rival in rivals
            if rival.relation == joined.relation
            for body in contradict(joined, rival)
        ]
        return goals + [rules[number] for number in self.list_own_rules(other)]

    def _list_aims(self, other: _Version) -> Iterator[Aim]:
        """The goals that this version has, and the other one not."""
        for number, goal in self._list_goals(other):
            yield Aim(goal.span, "", goal.span, True, {}, {number: goal})

    def _list_ways(self, other: _Version) -> Iterator[tuple[Aim, frozenset[int]]]:
        """For each rule of only this version: that a negation is false, and the rules that lead from it to the rule;
        then the same for the goals that this version has, and the other one not."""
        own = ((number, None) for number in self.list_own_rules(other))
        for number, goal in (*own, *self._list_goals(other)):
            for condition in self.conditions:
                if number in self.unfolder.reach_of(condition.false):
                    aim = replace(condition, goals={number: goal}, through=condition.goals) if goal else condition
                    yield aim, self.unfolder.leading_to(number)

    def find_nearby(self, cases: Sequence[Case], wanted: Callable[[Case], bool]) -> Case | None:
        """A case of the kind that is wanted, with one difference from one of the cases."""
        self.effort.left = STEPS
        self.effort.begin(STEPS)
        near = (
            other
            for vary in (add_or_remove, change_values)
            for case in cases
            for other in vary(case, self.catalogue, self.hints)
        )
        return next((case for case in takewhile(lambda _: self.effort.is_left, near) if wanted(case)), None)

    def _shows(self, aim: Aim, case: Case) -> bool:
        return self._wanted(case) if self._wanted else super()._shows(aim, case)


def list_cases(found: PolicyExamples) -> list[Case]:
    """The cases of all examples, those that are denied and those that pass."""
    return [case for example in found.examples for case in (example.case, *(flip.case for flip in example.flips))]
