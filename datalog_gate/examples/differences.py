"""Cases that two policy sets judge differently."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedRule, Const
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
from datalog_gate.examples.literals import (
    Aim,
    Rules,
    add_absent,
    contradict,
    contradict_all,
    list_conditions,
    list_texts,
)
from datalog_gate.examples.rule_forms import Forms, describe_relations, describe_rule, join_results
from datalog_gate.examples.variations import shrink

STEPS_IN_BRIEF, MOST_STEPS = 20_000, 1_000_000
"""The maximum numbers of steps for each number of negations at first, and for a thorough search for all policies."""
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
    policy that is newly denied, and one that no longer is. They are searched from the conditions that only one set has,
    or are examples of the policies. If there is none, both may deny a case with other messages. Policies whose rules
    have the same form are not searched, and only briefly those after the search has taken very many steps."""
    sets = [
        (rules, {policy.id: policy for policy in rules.policies}, describe_relations(rules.program))
        for rules in (old, new)
    ]
    spent = 0
    for identifier in sorted(ids or {identifier for _, policies, _ in sets for identifier in policies}):
        older, newer = (
            _Version(rules, policies[identifier], forms) if identifier in policies else None
            for rules, policies, forms in sets
        )
        yield from _find_differences(identifier, older, newer, spent > MOST_STEPS)
        spent += sum(version.effort.spent for version in (older, newer) if version)


def _find_differences(
    identifier: str, old: _Version | None, new: _Version | None, is_brief: bool
) -> Iterator[RuleDifference]:
    if not old or not new:
        version = old or new
        assert version
        case = next((case for case in list_cases(version.find()) if version.only_denies(case)), None)
        if case is not None:
            yield RuleDifference(identifier, bool(new), version.shrink(case, version.only_denies))
        return
    if old.form != new.form:
        old.compare(new)
        new.compare(old)
        old.take_rivals(new)
        new.take_rivals(old)
        found = _compare(identifier, old, new, [], STEPS_IN_BRIEF)
        if not found and not is_brief:
            cases = [case for version in (old, new) for case in list_cases(version.find())]
            found = _compare(identifier, old, new, cases, STEPS)
        yield from found


def _compare(identifier: str, old: _Version, new: _Version, cases: Sequence[Case], steps: int) -> list[RuleDifference]:
    """The differences in what is denied, or else in messages: some of the cases, or such as are searched."""
    found: list[RuleDifference] = []
    for by_message in (False, True):
        for newly, own, other in ((True, new, old), (False, old, new)):
            wanted = own.says_more if by_message else own.only_denies
            case = next((case for case in cases if wanted(case)), None)
            case = case or own.find_difference(other, wanted, STEPS_IN_BRIEF if found else steps)
            if case is not None:
                case = own.shrink(case, wanted)
                found.append(RuleDifference(identifier, newly, case, own.only_says(case)[0] if by_message else ""))
        if found:
            break
    return found


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
        self._ways: list[list[tuple[Rules, Collection[int]]]] = [[({}, self.unfolder.reach(policy.relation))]]
        """For each number of negations, the rules that need what these forbid, and the rules below them."""

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
        self.effort.left, self._wanted = STEPS, None
        return super().find()

    def find_difference(self, other: _Version, wanted: Callable[[Case], bool], steps: int) -> Case | None:
        """A case of the kind that is wanted, from the rules that only one version has, below up to two negations."""
        for depth, (version, rival) in enumerate(((self, other), (other, self), (self, other))):
            version.effort.left, version.unfolder.uses = steps, dict.fromkeys(version.unfolder.uses, 0)
            for aim, rules in version._list_aims(rival, depth):
                if case := version._find_case(aim, wanted, rules):
                    return case
        return None

    def _find_case(self, aim: Aim, wanted: Callable[[Case], bool], rules: frozenset[int]) -> Case | None:
        """A case of the kind that is wanted, from a part of a rule. Where there is a choice, the `rules` lead."""
        self._wanted = wanted
        self.effort.begin(min(STEPS_FOR_EXAMPLE, self.effort.left // 3))
        cases = [case for case, _ in islice(self._cases(aim, CaseOrigin(0, self.tops[0], rules, {})), MOST_REFUSED)]
        return min(cases, key=lambda case: bool(self.judge.refusals(case)), default=None)

    def shrink(self, case: Case, wanted: Callable[[Case], bool]) -> Case:
        """The case without what it does not need to be of the kind that is wanted."""
        refused = self.judge.refusals(case)
        return shrink(case, self.catalogue, lambda less: wanted(less) and self.judge.refusals(less) <= refused)

    def list_own_rules(self, other: _Version) -> list[int]:
        """The numbers of the rules that the other version does not have."""
        known = {*other._rules}
        return [number for number, form in enumerate(self._rules) if form not in known]

    def _list_goals(self, other: _Version) -> list[tuple[int, CheckedRule]]:
        """For each rule of only this version: that it holds, and no rule of the other version does; that it holds, and
        that a condition does not in one of them; and that it holds."""
        goals = []
        changed = [other.unfolder.rules[number] for number in other.list_own_rules(self)]
        for number in self.list_own_rules(other):
            rule = join_results(self.unfolder.rules[number])
            rivals, own = (
                [join_results(rival) for rival in rules if _may_both_hold(rule, rival)]
                for rules in (other.unfolder.rules, changed)
            )
            bodies = [
                *contradict_all(rule, rivals),
                *(way for rival in own for way in contradict(rule, rival)),
                rule.body,
            ]
            goals += [(number, replace(rule, body=body)) for body in dict.fromkeys(bodies)]
        return goals

    def _list_aims(self, other: _Version, depth: int) -> Iterator[tuple[Aim, frozenset[int]]]:
        """The goals below some negations, with the rules that lead to each; at first so that what others of their
        relations ask to be absent is there."""
        for number, goal in self._list_goals(other):
            leading = self.unfolder.leading_to(number)
            for through in self._list_ways(number, depth):
                plain = {**{at: self.unfolder.rules[at] for at in leading}, **through, number: goal}
                alone = {
                    at: add_absent(rule, self.unfolder.rules[at], self.unfolder.groups.get(rule.relation, ()))
                    for at, rule in plain.items()
                }
                for rules in (alone, plain) if alone != plain else (plain,):
                    yield Aim(goal.span, "", goal.span, True, {}, {number: rules[number]}, rules), leading

    def _list_ways(self, number: int, depth: int) -> Iterator[Rules]:
        """The rules that need what some negations forbid, each below another one, on the ways to a rule."""
        while len(self._ways) <= depth:
            ways: list[tuple[Rules, Collection[int]]] = []
            for through, reached in self._ways[-1]:
                rules = {at: self.unfolder.rules[at] for at in sorted(reached)}
                for condition in list_conditions(rules, self.unfolder.program.relations, self.sources):
                    if below := self.unfolder.reach_of(condition.false):
                        ways.append(({**through, **condition.goals}, below))
            self._ways.append(ways)
        return (through for through, reached in self._ways[depth] if number in reached)

    def _shows(self, aim: Aim, case: Case) -> bool:
        return self._wanted(case) if self._wanted else super()._shows(aim, case)


def list_cases(found: PolicyExamples) -> list[Case]:
    """The cases of all examples, those that are denied and those that pass."""
    return [case for example in found.examples for case in (example.case, *(flip.case for flip in example.flips))]


def _may_both_hold(rule: CheckedRule, rival: CheckedRule) -> bool:
    """Whether two rules may derive the same row."""
    pairs = zip(rule.arguments, rival.arguments, strict=False)
    return rule.relation == rival.relation and not any(
        isinstance(own, Const) and isinstance(other, Const) and own != other for own, other in pairs
    )
