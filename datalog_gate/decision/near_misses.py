"""Policies without a finding, whose values stacks have in another form.

``flavor="M1.Huge"`` is a valid rule. Only a stack that asks for `m1.huge` shows that it is a mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import LONGEST, takes_given
from datalog_gate.base.diagnostics import Diagnostic, Span, in_order
from datalog_gate.base.values import ResourceId, Value, print_value
from datalog_gate.decision.forms import MOST_ROWS, Asked, OtherForm, find_conditions, find_form
from datalog_gate.decision.judgement import Judgement
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import RelationRef, is_old

_BY_RELATION = ir.ProgramCache[dict[RelationRef, list[ir.CheckedRule]]]()
_MATCHES = ir.ProgramCache[dict[int, tuple[ir.Match, ...]]]()
_QUESTIONS = ir.ProgramCache["dict[int, list[_Question]]"]()


def find_near_misses(judgement: Judgement, shipped: Collection[str]) -> tuple[Diagnostic, ...]:
    """Warn about rules of policies without a finding or error if a row differs from what they require only by case, by
    kind, or as a resource does from its name. Rules of `shipped` files are not reported."""
    review = _MissReview(judgement)
    known = {warning.span for warning in judgement.reader.rules.warnings}
    rules = (rule for rule in review.find_rules() if rule.span.file not in shipped)
    warnings = [warning for rule in rules for warning in review.find_warnings(rule)]
    return in_order([warning for warning in warnings if warning.span not in known])


class _OtherName(NamedTuple):
    """A join with a literal's column `own`, beside which `other` names the same thing; `at` is the joined column."""

    literal: ir.Match
    own: str
    other: str
    own_at: int
    other_at: int
    at: int


class _Question(NamedTuple):
    """What a body requires of the rows of a match. It is the same for all stacks."""

    match: ir.Match
    columns: Sequence[Asked]
    conditions: Sequence[tuple[int, ir.Call]]
    joins: Sequence[_OtherName]


class _MissReview:
    def __init__(self, judgement: Judgement) -> None:
        reader = judgement.reader
        self._program, self._secrets = reader.rules.program, reader.secrets
        self._rows = reader.evaluation.facts.rows
        flagged = judgement.decision.flagged
        self._clean = [policy for policy in judgement.policies if policy.id not in flagged]
        self._by_relation = _BY_RELATION.get(self._program, None, lambda: ir.group_rules(self._program.rules))
        self._questions = _QUESTIONS.get(self._program, None, dict)
        """The questions of each rule, by the rule's id."""
        self._matches = _MATCHES.get(
            self._program, None, lambda: {id(rule): tuple(_matches(rule.body)) for rule in self._program.rules}
        )
        """The matches of each rule outside of a `not`, by the rule's id."""

    def find_rules(self) -> Iterator[ir.CheckedRule]:
        """The rules that could have given a policy without a finding one, and that read existing facts; not those that
        a `not` reads."""
        waiting: list[RelationRef] = [policy.relation for policy in self._clean]
        seen = set(waiting)
        while waiting:
            for rule in self._by_relation.get(waiting.pop(), ()):
                relations = {match.relation for match in self._matches[id(rule)]}
                waiting += relations - seen
                seen |= relations
                if not relations.isdisjoint(self._rows):
                    yield rule

    def find_warnings(self, rule: ir.CheckedRule) -> Iterator[Diagnostic]:
        """Review a rule."""
        if id(rule) not in self._questions:  # the program keeps the rule alive
            self._questions[id(rule)] = list(self._find_questions(rule.body, ()))
        for question in self._questions[id(rule)]:
            if question.match.relation in self._rows:
                yield from self._compare_rows(question)
                for join in question.joins:
                    yield from self._other_name(question.match, join)

    def _find_questions(
        self, body: Sequence[ir.CheckedLiteral], outer: Sequence[ir.CheckedLiteral]
    ) -> Iterator[_Question]:
        """The questions of a body inside outer ones."""
        around = (*outer, *body)
        if len(around) > LONGEST:
            return
        for literal in body:
            if isinstance(literal, ir.Fold):
                yield from self._find_questions(literal.body, around)
            elif isinstance(literal, ir.Match) and not is_old(literal.relation):
                described = self._program.relations[literal.relation].columns
                columns = [
                    Asked(at, described[at], self._given(term, literal, around)) for at, term in literal.column_terms
                ]
                conditions = [
                    (at, condition)
                    for at, term in literal.column_terms
                    for condition in find_conditions(described[at], term, around)
                ]
                asked = [column for column in columns if column.given]
                yield _Question(literal, asked, conditions, list(self._find_joins(literal, around)))

    def _compare_rows(self, question: _Question) -> Iterator[Diagnostic]:
        match, columns, conditions, _ = question
        if not columns and not conditions:
            return
        described = self._program.relations[match.relation].columns
        reported: set[tuple[Span, Value]] = set()
        for row in islice(self._rows[match.relation], MOST_ROWS):
            missed = [column for column in columns if row[column.at] not in column.given]
            forms: Sequence[OtherForm] = ()
            if len(missed) == 1:
                forms = missed[0].find_forms(row[missed[0].at])
            elif not missed:
                by_condition = (find_form(at, literal, row[at], bool(columns)) for at, literal in conditions)
                forms = [form for form in by_condition if form]
            for form in forms:
                shown = self._secrets.row(match.relation, row)[form.at] == row[form.at]
                if shown and (form.span, form.asked) not in reported:
                    reported.add((form.span, form.asked))
                    where = f" in {row[0].path}" if isinstance(row[0], ResourceId) else ""
                    yield _near_miss(f"{described[form.at].name}{where} {form.message}", form.span, form.advice)

    def _given(self, term: ir.Operand, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> dict[Value, Span]:
        """The values that the body requires of a column: constants, and the values of relations that hold only
        facts."""
        facts = BodyFacts(around, lists=self._lists)
        stated = (given for operand in facts.defaults(term) for given in facts.stated(operand, match.span))
        return {constant.value: span for constant, span in stated}

    @cached_property
    def _lists(self) -> Mapping[RelationRef, Sequence[ir.CheckedRule]]:
        """The facts of the relations that hold only facts."""
        facts = {name: [rule for rule in rules if not takes_given(rule)] for name, rules in self._by_relation.items()}
        return {name: rules for name, rules in facts.items() if not any(rule.body for rule in rules)}

    def _find_joins(self, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> Iterator[_OtherName]:
        """The joins of a row of the stack that may have used the other name."""
        if cloud.relation(str(match.relation)):
            return
        for literal in around:
            if not isinstance(literal, ir.Match) or literal is match:
                continue
            positions = self._program.relations[literal.relation].positions
            if cloud.relation(str(literal.relation)):
                other = {"id": "name", "name": "id"}
            elif "_id" in positions:
                other = {"name": "_id"}
            else:
                continue
            for own in other.keys() & positions.keys():
                term, twin = literal.arguments[positions[own]], positions.get(other[own])
                if isinstance(term, ir.Var) and term in match.arguments and twin is not None:
                    yield _OtherName(literal, own, other[own], positions[own], twin, match.arguments.index(term))

    def _other_name(self, match: ir.Match, join: _OtherName) -> Iterator[Diagnostic]:
        """Warn about a join with the ids of an inventory table if the stack gives names, or vice versa; and about one
        with the names of resources if the stack refers to them."""
        at, relation, span = join.at, join.literal.relation, join.literal.span
        inventory = self._rows.get(relation, {})
        if not inventory:
            return
        known = {row[join.own_at] for row in inventory}
        folded = {value.casefold(): value for value in known if isinstance(value, str)}
        names = {row[join.other_at] for row in inventory if row[join.other_at] is not None}
        column = self._program.relations[match.relation].columns[at].name
        for row in islice(self._rows[match.relation], MOST_ROWS):
            shown = self._secrets.row(match.relation, row)[at] == row[at]
            value = row[at]
            if shown and isinstance(value, str) and value not in known and value.casefold() in folded:
                message = f"{column} is {print_value(value)}, but {join.own} of {relation} is"
                message = f"{message} {print_value(folded[value.casefold()])}"
                advice = f"join on lower case of both, `lower({column}, low)`"
                yield _near_miss(message, span, advice)
                break
            if shown and value in names and value not in known:
                message = f"{column} is {print_value(value)}, the {join.other} of a row of {relation}"
                advice = f"join it with {join.other} too: a template may use either"
                yield _near_miss(f"{message}, but the rule asks for the {join.own}", span, advice)
                break


def _matches(body: Sequence[ir.CheckedLiteral]) -> Iterator[ir.Match]:
    """The matches of a body and its aggregates."""
    for literal in body:
        if isinstance(literal, ir.Match):
            yield literal
        elif isinstance(literal, ir.Fold):
            yield from _matches(literal.body)


def _near_miss(message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic("near-miss", message, span, suggestion, "warning")
