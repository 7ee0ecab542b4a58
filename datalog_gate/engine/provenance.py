"""Why a row holds (layer 3): its first derivation.

In: a program, its finished model, a row. Out: derivations in which no row supports itself: within a recursive stratum
a row rests on rows of earlier rounds only. They are chosen by the place of the rule, then by the order of rows, those
of the literal first that fewest fit: neither the engine nor any order of rules, literals and facts changes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from datalog_gate.analysis.cache import Kept
from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Compare, Const, Match, Operand, Stratum, Var
from datalog_gate.analysis.safety import Scoped, binds
from datalog_gate.base.values import Row, in_order
from datalog_gate.engine.assignments import Assignments, Binding, head_row
from datalog_gate.engine.budget import Watch
from datalog_gate.engine.model import Model
from datalog_gate.engine.native import Rounds, errors_of, rounds

Fact = tuple[str, Row]


@dataclass(frozen=True, slots=True)
class Derivation:
    """The rule, the values of its variables, and the rows that its matches matched, in the order of the body."""

    rule: CheckedRule
    binding: Binding
    matched: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule, its body, its matches and the variables that these bind. `steps` are the matches that tell more than the
    head does, one after the other, each with the terms that are known by then. `rest` are equations that, after these,
    give all variables that neither the head nor a match has; None if they do not."""

    rule: CheckedRule
    body: Sequence[Scoped]
    matches: tuple[Match, ...]
    matched: frozenset[Var]
    steps: tuple[tuple[Match, tuple[tuple[int, Operand], ...]], ...]
    rest: tuple[tuple[Var, Operand], ...] | None

    @staticmethod
    def of(rule: CheckedRule, body: Sequence[Scoped]) -> _Rule:
        matches = tuple(literal for literal in rule.body if isinstance(literal, Match))
        matched = frozenset(argument for match in matches for argument in match.arguments if isinstance(argument, Var))
        needed = frozenset[Var]().union(*(one.needs.union(binds(one.literal)) for one in body))
        told: set[Operand] = {*matched, *rule.arguments}
        equations = [literal for literal in rule.body if isinstance(literal, Compare) and literal.comparator == "="]
        pairs = [(equation.left, equation.right) for equation in equations if not equation.when_unknown]
        pairs += [(right, left) for left, right in pairs]
        rest: list[tuple[Var, Operand]] = []
        for _ in pairs:  # each round tells one more at least
            for var, by in pairs:
                if isinstance(var, Var) and var not in told and (isinstance(by, Const) or by in told):
                    rest.append((var, by))
                    told.add(var)
        return _Rule(rule, body, matches, matched, _steps(rule, matches), tuple(rest) if needed <= told else None)

    def may_give(self, row: Row) -> bool:
        """Whether the constants of the head are the row's."""
        pairs = zip(self.rule.arguments, row, strict=True)
        return all(isinstance(term, Var) or term.value == value for term, value in pairs)


_RULES = Kept[dict[str, tuple[Stratum, tuple[_Rule, ...]]]]()
"""By relation its stratum, and its rules in order of place."""


@dataclass(slots=True)
class Provenance:
    """The derivations of one model. It remembers them and the rounds of recursive strata: ask one about many rows."""

    program: CheckedProgram
    model: Model
    watch: Watch = field(default_factory=Watch)
    _rounds: dict[tuple[str, ...], Rounds] = field(default_factory=dict, init=False)
    _known: dict[Fact, Derivation | None] = field(default_factory=dict, init=False)
    _search: Assignments = field(init=False)

    def __post_init__(self) -> None:
        self._search = Assignments(self.model.tables, errors_of(self.model), self.watch, ordered=True)

    def derive(self, relation: str, row: Row) -> Derivation | None:
        """The first derivation of a row; None for a fact. Errors: BudgetError."""
        fact = relation, row
        if fact not in self._known:
            self._known[fact] = self._first(relation, row)
        return self._known[fact]

    def _first(self, relation: str, row: Row) -> Derivation | None:
        ruled = _RULES.get(self.program, (), dict)
        if relation not in ruled:
            stratum = next((stratum for stratum in self.program.strata if relation in stratum.relations), None)
            if stratum is None:
                return None
            rules = sorted(
                (rule for rule in stratum.rules if rule.relation == relation),
                key=lambda checked_rule: checked_rule.span,
            )
            ruled[relation] = stratum, tuple(_Rule.of(rule, self._search.body(rule)) for rule in rules)
        stratum, known = ruled[relation]
        reached = self._reached(stratum)
        latest = reached.get(relation, {}).get(row, 0)
        fitting = [rule for rule in known if rule.may_give(row)]
        for rule in fitting:
            alone = rule is fitting[-1] and row in self.model.rows(relation)
            for binding in self._bindings(rule, row, alone):
                matched = [fact for match in rule.matches for fact in self._matched(match, binding, reached, latest)]
                if len(matched) == len(rule.matches):
                    return Derivation(rule.rule, binding, tuple(matched))
        return None

    def _bindings(self, rule: _Rule, row: Row, alone: bool) -> Iterator[Binding]:
        """The bindings that give the row, in order. If no other rule gives it and each match has but one row that
        fits, that is the one: nothing is evaluated. Else the row tells what the matches bind; a null would join with
        nothing there."""
        pairs = zip(rule.rule.arguments, row, strict=True)
        told: Binding = {var: value for var, value in pairs if isinstance(var, Var)}
        if alone and rule.rest is not None and (only := self._only(rule, told)) is not None:
            for var, by in rule.rest:
                only[var] = by.value if isinstance(by, Const) else only[by]
            yield only
            return
        known: Binding = {var: value for var, value in told.items() if var in rule.matched and value is not None}
        for binding, cause in self._search.of_body(rule.body, known):
            if not cause and row == head_row(rule.rule, binding):
                yield binding

    def _only(self, rule: _Rule, told: Binding) -> Binding | None:
        """The values of the variables, if each match has but one row that fits what is known by then."""
        known = dict(told)
        for match, fixed in rule.steps:
            key = tuple([term.value if isinstance(term, Const) else known[term] for _, term in fixed])
            rows = self._search.rows(match.relation, tuple([column for column, _ in fixed]), key)
            if len(rows) != 1:
                return None
            (row,) = rows
            known |= {term: row[column] for column, term in match.said if isinstance(term, Var)}
        return known

    def _reached(self, stratum: Stratum) -> Rounds:
        """The rounds of a recursive stratum."""
        if stratum.recursive and stratum.relations not in self._rounds:
            self._rounds[stratum.relations] = rounds(stratum, self.model, self._search.errors)
        return self._rounds.get(stratum.relations, {})

    def _matched(self, match: Match, binding: Binding, reached: Rounds, latest: int) -> Iterator[Fact]:
        """The first row that fits the match and was there before round `latest`, if there is one."""
        key = tuple([term.value if isinstance(term, Const) else binding[term] for _, term in match.said])
        rows = self._search.rows(match.relation, match.columns, key)
        if match.relation in reached:
            rounds_of = reached[match.relation]
            rows = [row for row in rows if rounds_of.get(row, 0) < latest]  # another engine may have other rows
        if rows:
            yield match.relation, next(iter(rows)) if len(rows) == 1 else in_order(rows)[0]


def _steps(rule: CheckedRule, matches: Sequence[Match]) -> tuple[tuple[Match, tuple[tuple[int, Operand], ...]], ...]:
    """As the rule's `steps`: those first of which something is known."""
    known: set[Operand] = {argument for argument in rule.arguments if isinstance(argument, Var)}
    waiting = [match for match in matches if any(isinstance(term, Var) and term not in known for _, term in match.said)]
    steps = []
    while waiting:
        match = next((match for match in waiting if any(term in known for _, term in match.said)), waiting[0])
        waiting = [one for one in waiting if one is not match]
        fixed = tuple((column, term) for column, term in match.said if isinstance(term, Const) or term in known)
        known |= {term for _, term in match.said if isinstance(term, Var)}
        steps.append((match, fixed))
    return tuple(steps)
