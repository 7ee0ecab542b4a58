"""Why a row holds (layer 3): its first derivation, and the facts that it rests on.

In: a program, its finished model, a row. Out: derivations in which no row supports itself: within a recursive stratum
a row rests on rows of earlier rounds only. They are chosen by the place of the rule, then by the order of rows, so
neither the engine nor the order of facts changes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Const, Match, Stratum, Var
from datalog_gate.engine.assignments import Assignments, Binding, Cause, Errors, head_row
from datalog_gate.engine.model import Model
from datalog_gate.engine.native import rounds
from datalog_gate.values import Row, row_key

Fact = tuple[str, Row]


@dataclass(frozen=True, slots=True)
class Derivation:
    """The rule, the values of its variables, and the rows that its matches matched, in the order of the body."""

    rule: CheckedRule
    binding: Binding
    matched: tuple[Fact, ...]


@dataclass(slots=True)
class Provenance:
    """The derivations of one model. It remembers the rounds of recursive strata: ask one about many rows."""

    program: CheckedProgram
    model: Model
    _rounds: dict[tuple[str, ...], dict[Fact, int]] = field(default_factory=dict, init=False)
    _search: Assignments = field(init=False)

    def __post_init__(self) -> None:
        errors: Errors = {}
        for one in self.model.errors:
            errors.setdefault(one.relation, {}).setdefault(one.row, set()).add(Cause(one.span, one.message))
        self._search = Assignments(self.model.tables, errors, ordered=True)

    def derive(self, relation: str, row: Row) -> Derivation | None:
        """The first derivation of a row; None for a fact."""
        stratum = next((one for one in self.program.strata if relation in one.relations), None)
        if stratum is None:
            return None
        reached = self._reached(stratum)
        latest = reached.get((relation, row), 0)
        for rule in sorted((one for one in stratum.rules if one.relation == relation), key=lambda one: one.span):
            for binding, cause in self._search.of_rule(rule, _given(rule, row)):
                if cause or row != head_row(rule, binding):
                    continue
                matches = [one for one in rule.body if isinstance(one, Match)]
                matched = [fact for one in matches for fact in self._matched(one, binding, reached, latest)]
                if len(matched) == len(matches):
                    return Derivation(rule, binding, tuple(matched))
        return None

    def leaves(self, relation: str, row: Row) -> tuple[Fact, ...]:
        """The facts that the row rests on, by its first derivation and those of the rows in it: each once, in order."""
        found: dict[Fact, None] = {}
        seen: set[Fact] = set()
        pending = [(relation, row)]
        while pending:
            fact = pending.pop()
            if fact in seen:
                continue
            seen.add(fact)
            derivation = self.derive(*fact)
            if derivation:
                pending += reversed(derivation.matched)
            else:
                found[fact] = None
        return tuple(found)

    def _reached(self, stratum: Stratum) -> dict[Fact, int]:
        """The rounds of a recursive stratum."""
        if stratum.recursive and stratum.relations not in self._rounds:
            self._rounds[stratum.relations] = rounds(stratum, self.model, self._search.errors)
        return self._rounds.get(stratum.relations, {})

    def _matched(self, match: Match, binding: Binding, reached: dict[Fact, int], latest: int) -> Iterator[Fact]:
        """The first row that fits the match and was there before round `latest`, if there is one."""
        fixed = [(at, one) for at, one in enumerate(match.arguments) if one is not None]
        key = tuple(one.value if isinstance(one, Const) else binding[one] for _, one in fixed)
        rows = self.model.tables[match.relation].lookup(tuple(at for at, _ in fixed), key)
        usable = (row for row in rows if reached.get((match.relation, row), -1) < latest)
        first = min(usable, key=row_key, default=None)
        if first is not None:
            yield match.relation, first


def _given(rule: CheckedRule, row: Row) -> Binding:
    """What the row says of the variables that the rule's matches bind. A null is left out: given beforehand, it would
    join with nothing."""
    matched = {one for match in rule.body if isinstance(match, Match) for one in match.arguments}
    pairs = zip(rule.arguments, row, strict=True)
    return {one: value for one, value in pairs if isinstance(one, Var) and one in matched and value is not None}
