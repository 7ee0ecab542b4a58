"""Searches what a policy denies, and near cases that pass.

All that is shown was judged: a case that is denied, and passes without the rule it names; and one that passes, and is
stopped without the condition it names, or is denied but for one difference, which makes the condition false. The
search takes a limited number of steps, so it may miss an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import NULL, Const
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import ResourceId, Value
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.examples.case_building import Case, build_case
from datalog_gate.examples.column_hints import Columns, collect_hints
from datalog_gate.examples.conditions import Bindings, resolve
from datalog_gate.examples.effort import Effort
from datalog_gate.examples.judge import CaseVerdict, Judge
from datalog_gate.examples.literals import (
    Aim,
    contradict,
    join_branches,
    list_bounds,
    list_branches,
    list_conditions,
    list_inner,
    quote,
    show_below,
    show_rule,
)
from datalog_gate.examples.unfolding import Sketch, Unfolder, list_matches
from datalog_gate.examples.valuation import Valuation
from datalog_gate.examples.variations import (
    add_or_remove,
    approach,
    change_choices,
    change_types,
    change_values,
    count_differences,
    distance,
    leave_out,
    shrink,
    take_away,
    without_rows,
)
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import relation_name
from datalog_gate.schema.resource_types import SAME_KIND

SEEDS = 4
STEPS = 100_000
"""The maximum number of steps for a policy."""
STEPS_FOR_FLIPS = 50_000
"""How many steps are kept for flips while rules wait for their example."""
STEPS_FOR_EXAMPLE, STEPS_FOR_VARIATIONS, STEPS_FOR_FLIP = 14_000, 4_000, 4_000
"""The maximum numbers of steps for the example of a rule, for its variations, and for the flip of a condition."""
MOST_SKETCHES, MOST_CASES = 25, 30
"""The maximum numbers for a rule and a seed."""
PER_SKETCH = 3
MOST_MISSED = 3
"""How many cases that another rule denies are varied until they pass."""
MOST_REFUSED = 4
"""How many cases that Heat would refuse are found before one of them is shown."""
UNTRIED = "the search took all of its steps"
REFUSED = "Heat would refuse the stacks that were found"
DENIED = "the stacks that were found are denied all the same"
NONE_FOUND = "no stack was found in which it alone is false"
"""Why a condition has no flip."""
Vary = Callable[[Case, Catalogue, Mapping[Columns, Sequence[Value]]], Iterator[Case]]


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
    alike: tuple[str, ...] = ()
    """Of the first example: the properties that may have other values that Heat accepts, and these."""
    refused: tuple[str, ...] = ()
    """The codes of what Heat would refuse about the case."""


class UnshownCondition(NamedTuple):
    """A condition without a flip."""

    condition: str
    span: Span
    reason: str


class CaseOrigin(NamedTuple):
    """How a case was found: the seed, the rule of the policy, and all rules that were unfolded."""

    seed: int
    top: int
    rules: frozenset[int]
    values: Mapping[Columns, Sequence[Value]]
    """The values of the columns."""


@dataclass(slots=True)
class _ExampleDraft:
    """An example, with the rules that it shows."""

    case: Case
    verdict: CaseVerdict
    span: Span
    refused: frozenset[str]
    shown: set[int]
    origin: CaseOrigin
    new: set[int] = field(default_factory=set)
    """The rules that no example before it shows."""
    flips: list[Flip] = field(default_factory=list)
    alike: tuple[str, ...] = ()

    def example(self) -> Example:
        flips = tuple(sorted(self.flips, key=lambda flip: flip.span))
        verdict, refused = self.verdict, tuple(sorted(self.refused))
        return Example(self.case, verdict.message, verdict.resource, self.span, flips, self.alike, refused)


@dataclass(frozen=True, slots=True)
class PolicyExamples:
    policy: Policy
    examples: tuple[Example, ...]
    conditions: int
    """The number of conditions of the rules that the examples show."""
    unshown: tuple[UnshownCondition, ...] = ()
    """Those of them without a flip."""
    furthest: str = ""
    """Without an example: the condition at which the furthest attempt failed."""
    span: Span | None = None
    """The place of `furthest`."""


def find_examples(rules: PolicySet, policy: Policy) -> PolicyExamples:
    """Find an example from each rule of the policy, if possible."""
    return ExampleSearch(rules, policy).find()


class ExampleSearch:
    """A search for examples of a policy."""

    def __init__(self, rules: PolicySet, policy: Policy) -> None:
        self.policy = policy
        self.effort = Effort(STEPS)
        self.judge = Judge(rules, policy, self.effort)
        self.sources = rules.sources
        self.catalogue = rules.catalogue
        program = self.judge.rules.program
        fixed = {rule.relation for rule in program.rules if rule.span.file == policy.span.file}
        self.unfolder = Unfolder(program, self.effort, fixed)
        self.hints = collect_hints(program)
        self.rivals: Mapping[str, Sequence[str]] = {}
        """Texts of another version that are in place of those of this one."""
        self.tops = [self.unfolder.ids[id(rule)] for rule in self.unfolder.groups.get(policy.relation, ())]
        reached = {number: self.unfolder.rules[number] for number in sorted(self.unfolder.reach(policy.relation))}
        self.branches = list_branches(reached, rules.sources)
        self.conditions = list_conditions(reached, program.relations, rules.sources)
        self.bounds = list_bounds(reached, rules.sources)
        self.inner = list_inner(reached, program.relations, rules.sources)
        self.open = list(self.conditions)
        self.read = {relation_name(name) for rule in self.unfolder.rules for name in rule.mentioned}
        self.met: set[int] = set()
        self.tried: set[int] = set()
        self.opened: set[int] = set()
        self.missed: list[Case] = []
        self.nearest: Case | None = None
        """A case that passes although it was built from a rule of the policy."""
        self.reasons: dict[tuple[Span, str], str] = {}
        self.drafts: list[_ExampleDraft] = []

    def find(self) -> PolicyExamples:
        """The examples, each with near cases that pass."""
        waiting = sorted(self.branches, key=lambda aim: aim.goals.keys().isdisjoint(self.tops))
        while waiting and self.effort.left > STEPS_FOR_FLIPS:
            self._show(waiting.pop(0))
        if not self.drafts:  # each of its rules denies what another one does
            self._show(join_branches([aim for aim in self.branches if not aim.goals.keys().isdisjoint(self.tops)]))
        for draft in list(self.drafts):
            self._add_flips(draft)
        for aim in waiting:
            for draft in self._show(aim):
                self._add_flips(draft)
        for draft in self.drafts:
            self._add_variations(draft, add_or_remove)
            self._add_absences(draft)
        for draft in self.drafts:
            for condition in [aim for aim in self.open if aim.goals.keys() & draft.shown]:
                self._add_flip_alone(condition, draft)
        for draft in self.drafts:
            self._add_ways(draft)
        for draft in list(self.drafts):
            self._add_left_out(draft)
        self._add_alternatives()
        for draft in list(self.drafts):
            self._add_below(draft)
        for draft in self.drafts[:1]:
            draft.alike = tuple(self._list_alike(draft))
        examples = tuple(draft.example() for draft in self._without_copies())
        _, literal = self.unfolder.furthest
        if examples or literal is None:
            searched = {(aim.span, aim.text) for aim in self.conditions if not aim.goals.keys().isdisjoint(self.met)}
            shown = {(flip.span, flip.condition) for example in examples for flip in example.flips}
            unshown = [
                UnshownCondition(text, span, self.reasons.get((span, text), UNTRIED))
                for span, text in sorted(searched - shown)
            ]
            return PolicyExamples(self.policy, examples, len(searched), tuple(unshown))
        failing = (
            aim for aim in self.conditions if self.nearest and self.judge.variant(aim.without).denies(self.nearest)
        )
        text, span = next(((aim.text, aim.span) for aim in failing), (quote(literal, self.sources), literal.span))
        return PolicyExamples(self.policy, (), 0, furthest=text, span=span)

    def _without_copies(self) -> list[_ExampleDraft]:
        """The drafts; those of the same case as one."""
        found: list[_ExampleDraft] = []
        for draft in self.drafts:
            known = next((other for other in found if other.case == draft.case), None)
            if known:
                known.flips += draft.flips
            else:
                found.append(draft)
        return found

    def _show(self, aim: Aim) -> list[_ExampleDraft]:
        """Add the example of a rule, unless others show it; the example, if there is one."""
        if self.met.issuperset(aim.goals) or not any(rule.body for rule in aim.goals.values()):
            return []
        draft = self._find_example(aim)
        if not draft:
            return []
        draft.new = draft.shown - self.met
        self.met |= draft.new
        self.drafts.append(draft)
        return [draft]

    def _add_flips(self, draft: _ExampleDraft) -> None:
        """Add flips for the conditions of the rules that an example is the first to show, and examples at bounds."""
        self._add_variations(draft, change_values)
        for condition in list(self.open):
            if condition.goals.keys() & draft.new and self._add_flip(condition, draft.origin):
                self.open.remove(condition)
        for bound in self.bounds:
            if not bound.goals.keys().isdisjoint(draft.new):
                self._add_bound(bound, draft, draft.origin)

    def _find_example(self, aim: Aim) -> _ExampleDraft | None:
        """The example of a rule, if possible one that Heat accepts."""
        self.effort.begin(STEPS_FOR_EXAMPLE)
        entries = list(islice(self._cases(aim), MOST_REFUSED))
        if not entries:
            return None
        first, origin = min(entries, key=lambda entry: bool(self.judge.refusals(entry[0])))
        refused = self.judge.refusals(first)
        case = shrink(
            first,
            self.catalogue,
            lambda smaller: self._shows(aim, smaller) and self.judge.refusals(smaller) <= refused,
        )
        verdict = self.judge.judge(case)
        assert verdict
        shown = {
            number
            for other in self.branches
            if len(other.goals) == 1 and self._shows(other, case)
            for number in other.goals
        }
        return _ExampleDraft(case, verdict, aim.span, refused, shown | (aim.goals.keys() & origin.rules), origin)

    def _shows(self, aim: Aim, case: Case) -> bool:
        """Whether the case is judged as the aim says, and otherwise without the part."""
        without = self.judge.variant(aim.without)
        if aim.denies:
            return self.judge.denies(case) and without.passes(case)
        return self.judge.passes(case) and (without.denies(case) if aim.is_alone else without.stops(case))

    def _cases(self, aim: Aim, near: CaseOrigin | None = None) -> Iterator[tuple[Case, CaseOrigin]]:
        """Cases that show what is aimed at; the last is the first that Heat accepts. The search begins `near` another
        case."""
        for seed in sorted(range(SEEDS), key=lambda seed: bool(near and near.seed != seed)):
            tried = 0
            for top in sorted(self.tops, key=lambda top: bool(near and near.top != top)):
                sketches = self.unfolder.unfold(top, seed, aim.goals, near.rules if near else frozenset(), aim.through)
                for sketch in islice(sketches, MOST_SKETCHES):
                    values = Valuation(
                        self.unfolder, self.catalogue, sketch, self.hints, near.values if near else {}, self.rivals
                    ).solutions()
                    for bindings in islice(values, PER_SKETCH):
                        tried += 1
                        case = self._build(sketch, bindings)
                        if "against" in case and not self._shows(aim, case):  # a count that grew
                            case = self._build(sketch, bindings, from_nothing=True)
                        if self._shows(aim, case):
                            yield case, CaseOrigin(seed, top, sketch.rules, self._values(sketch, bindings))
                            if not self.judge.refusals(case):
                                return
                        elif aim.denies and self.judge.passes(case):
                            self.nearest = self.nearest or case
                        elif len(self.missed) < MOST_MISSED and not aim.denies and self.judge.denies(case):
                            self.missed.append(case)
                    if tried >= MOST_CASES:
                        break

    def _build(self, sketch: Sketch, bindings: Bindings, from_nothing: bool = False) -> Case:
        """The case of a sketch, with an action of the policy."""
        case = build_case(self.unfolder, self.catalogue, sketch, bindings, from_nothing)
        if ("update" if "against" in case else "create") not in self.policy.on:
            case.setdefault("action", min(self.policy.on))
        return case

    def _values(self, sketch: Sketch, bindings: Bindings) -> Mapping[Columns, Sequence[Value]]:
        constants: dict[Columns, list[Value]] = {}
        for relation, terms in sketch.rows:
            for column, term in zip(self.unfolder.columns(relation), terms, strict=True):
                term = resolve(term, bindings)
                if isinstance(term, Const):
                    constants.setdefault((relation_name(relation), column.name), []).append(term.value)
        return constants

    def _add_variations(self, draft: _ExampleDraft, vary: Vary) -> None:
        """Add the variations of an example that are flips. Their conditions are no longer open."""
        self.effort.begin(STEPS_FOR_VARIATIONS)
        for other in vary(draft.case, self.catalogue, self.hints):
            conditions = [aim for aim in self.open if aim.goals.keys() & draft.shown]
            if not conditions or not self.effort.is_left:
                return
            if not self.judge.passes(other) or not self.judge.refusals(other) <= draft.refused:
                continue
            for aim in conditions:
                if self._shows(aim, other):
                    self.open.remove(aim)
                    draft.flips.append(Flip(other, aim.text, aim.span))
                    break

    def _add_absences(self, draft: _ExampleDraft) -> None:
        """Add for each relation that a rule of the example reads the case without its rows, if it passes."""
        known = {(flip.condition, flip.span) for other in self.drafts for flip in other.flips}
        bodies = [self.unfolder.rules[number].body for number in sorted(draft.shown)]
        for literal in [literal for body in bodies for literal in list_matches(body)]:
            text, relation = quote(literal, self.sources), relation_name(literal.relation)
            for other in self._without_rows(draft.case, relation):
                is_new = (
                    self.effort.is_left
                    and text
                    and (text, literal.span) not in known
                    and all(flip.case != other for flip in draft.flips)
                )
                if is_new and self.judge.passes(other) and self.judge.refusals(other) <= draft.refused:
                    draft.flips.append(Flip(other, text, literal.span))
                    break

    def _without_rows(self, case: Case, relation: str) -> Iterator[Case]:
        """The case without what fills a relation, or with a type that builds the same and that no rule reads."""
        yield from without_rows(case, relation, self.catalogue)
        kind = self.catalogue.owner(relation) or ""
        other = self.catalogue.type(SAME_KIND.get(kind, ""))
        if other and other.relation not in self.read:
            self.read.add(other.relation)  # one of the type is enough
            yield change_types(case, kind, other, self.catalogue)

    def _add_flip(self, aim: Aim, origin: CaseOrigin) -> bool:
        """Add a flip that is found from its condition, to the nearest example of its rule; whether there is one."""
        self.effort.begin(STEPS_FOR_FLIP)
        self.missed.clear()
        is_refused = False
        drafts = [draft for draft in self.drafts if aim.goals.keys() & draft.shown]
        for case in chain((case for case, _ in self._cases(aim, origin)), self._repaired(aim)):
            nearest = min(drafts, key=lambda draft: distance(case, draft.case))
            if self.judge.refusals(case) <= nearest.refused:
                nearest.flips.append(Flip(self._approach(case, nearest, aim), aim.text, aim.span))
                return True
            is_refused = True
        if self.effort.left > 0:
            reason = REFUSED if is_refused else DENIED if self.missed else NONE_FOUND
            self.reasons[aim.span, aim.text] = reason
        return False

    def _add_ways(self, draft: _ExampleDraft) -> None:
        """Add a flip for each rule that makes a negation of the example false, unless there is one."""
        for condition in [aim for aim in self.conditions if aim.goals.keys() & draft.shown]:
            for number in self.unfolder.reach_of(condition.false) - self.met - self.tried:
                rule = self.unfolder.rules[number]
                if not rule.body:  # one row of a list is like another
                    continue
                aim = show_rule(condition, number, rule)
                flips = [flip.case for other in self.drafts for flip in other.flips]
                self.tried.add(number)
                if self.effort.is_left and not any(self._shows(aim, case) for case in flips):
                    rules = draft.origin.rules | self.unfolder.leading_to(number)
                    self._add_flip(aim, draft.origin._replace(rules=rules))

    def _add_left_out(self, draft: _ExampleDraft) -> None:
        """Add for each flip with another value in a property the case without it, if that is a flip of the same
        condition: a property that is left out may mean everything, or nothing."""
        self.effort.begin(STEPS_FOR_VARIATIONS)
        for flip in list(draft.flips):
            aims = [aim for aim in self.conditions if (aim.span, aim.text) == (flip.span, flip.condition)]
            for case in leave_out(draft.case, flip.case, self.catalogue):
                if not self.effort.is_left:
                    return
                is_new = all(case != other.case for other in draft.flips)
                is_refused = not self.judge.refusals(case) <= draft.refused
                if is_new and not is_refused and any(self._shows(aim, case) for aim in aims):
                    draft.flips.insert(draft.flips.index(flip), replace(flip, case=case))

    def _add_alternatives(self) -> None:
        """Add for each alternative of a rule an example in which the others do not hold, unless there is one."""
        for aim in self.branches:
            for number, rule in aim.goals.items() if len(aim.goals) == 1 else ():
                rivals = [other for other in self.unfolder.rules if other.span == rule.span and other is not rule]
                bodies = (body for rival in rivals for body in contradict(rule, rival))
                is_shown = any(self._shows(aim, draft.case) for draft in self.drafts)
                for body in () if is_shown else bodies:
                    draft = self._find_example(replace(aim, goals={number: replace(rule, body=body)}))
                    if draft:
                        self.drafts.append(draft)
                        break

    def _list_alike(self, draft: _ExampleDraft) -> Iterator[str]:
        """The properties of an example whose other values are denied too, and these values."""
        tried: dict[str, list[str]] = {}
        denied: dict[str, list[str]] = {}
        for name, value, case in change_choices(draft.case, self.catalogue, self.read):
            tried.setdefault(name, []).append(value)
            if self.judge.denies(case) and self.judge.refusals(case) <= draft.refused:
                denied.setdefault(name, []).append(value)
        for name, values in denied.items():
            yield f"any {name}" if values == tried[name] else f"{name} {' or '.join(values)}"

    def _repaired(self, aim: Aim) -> Iterator[Case]:
        """Variations that pass of cases that another rule denies."""
        self.effort.begin(STEPS_FOR_FLIP)
        for case in self.missed:
            added = add_or_remove(case, self.catalogue, self.hints)
            for other in chain(added, change_values(case, self.catalogue, self.hints)):
                if not self.effort.is_left:
                    return
                if self._shows(aim, other):
                    yield other

    def _add_flip_alone(self, condition: Aim, near: _ExampleDraft) -> None:
        """Add a flip by one difference, in which the condition is false, and perhaps others that need its variables."""
        top = near.origin.top
        head = tuple(NULL for _ in self.unfolder.rules[top].arguments)
        for number, rule in condition.alone.items():
            if number not in near.shown:
                continue
            goals = {top: replace(self.unfolder.rules[top], arguments=head, body=rule.body)}
            aim = replace(condition, without=goals, goals=goals)
            self.effort.begin(STEPS_FOR_FLIP)
            less = (case for case in take_away(near.case, self.catalogue) if self._still_shows(aim, case))
            for case in chain(less, (self._approach(case, near, aim) for case, _ in self._cases(aim, near.origin))):
                is_near = count_differences(case, near.case) == 1 and self.judge.refusals(case) <= near.refused
                if is_near and self.effort.is_left:
                    self.open.remove(condition)
                    near.flips.append(Flip(case, aim.text, aim.span))
                    return

    def _add_below(self, draft: _ExampleDraft) -> None:
        """Add for each condition and bound below a negation or an aggregate of the example a case that shows it."""
        for aim in self.inner:
            if not aim.goals.keys().isdisjoint(draft.new):
                self._add_bound(aim, draft, draft.origin)
        program = self.unfolder.program
        for negation in [aim for aim in self.conditions if aim.goals.keys() & draft.shown]:
            for number in sorted(self.unfolder.reach_of(negation.false) - self.met - self.opened):
                self.opened.add(number)
                rules = draft.origin.rules | self.unfolder.leading_to(number)
                part = {number: self.unfolder.rules[number]}
                conditions = list_conditions(part, program.relations, self.sources)
                for aim in (*conditions, *list_bounds(part, self.sources)):
                    self._add_bound(show_below(aim, negation), draft, draft.origin._replace(rules=rules))

    def _add_bound(self, aim: Aim, near: _ExampleDraft, start: CaseOrigin) -> None:
        """Add an example at a bound, or below a negation, unless there is one."""
        self.effort.begin(STEPS_FOR_FLIP)
        shown = (near.case, *(flip.case for flip in near.flips))
        if not self.effort.is_left or any(self._shows(aim, case) for case in shown):
            return
        for case, origin in self._cases(aim, start):
            if not self.judge.refusals(case) <= near.refused:
                continue
            case = self._approach(case, near, aim)
            verdict = self.judge.judge(case)
            if aim.denies and verdict:
                self.drafts.append(_ExampleDraft(case, verdict, aim.span, near.refused, set(), origin))
            else:
                near.flips.append(Flip(case, aim.text, aim.span))
            return

    def _still_shows(self, aim: Aim, case: Case) -> bool:
        return self.effort.is_left and self._shows(aim, case)

    def _approach(self, case: Case, near: _ExampleDraft, aim: Aim) -> Case:
        """The case with no difference from an example that it does not need, or that Heat needs."""
        return approach(
            case,
            near.case,
            self.catalogue,
            lambda other: self._still_shows(aim, other) and self.judge.refusals(other) <= near.refused,
        )
