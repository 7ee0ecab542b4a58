"""Bodies with what rules say in the place of their relations."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence, Set
from itertools import chain, product

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import LONGEST
from datalog_gate.analysis.program import renamed, variables
from datalog_gate.schema.declaration import RelationRef

MOST_WAYS = 8
"""In how many ways the relations of a body are replaced."""
MOST_SAID = 10
"""A longer rule is not put in the place of its relation."""


class Unfolding:
    """Bodies with what the rules of their relations say. What a rule says for a literal is the same in each of them."""

    def __init__(self, rules: Iterable[ir.CheckedRule]) -> None:
        self.rules: dict[RelationRef, list[ir.CheckedRule]] = {}
        for rule in rules:
            self.rules.setdefault(rule.relation, []).append(rule)
        self._plain: dict[RelationRef, Sequence[ir.CheckedRule]] = {}
        self._own: dict[int, set[ir.Var]] = {}
        """The variables in the bodies of rules, by the ids of these."""
        self._asked: dict[int, tuple[ir.Match, int]] = {}
        """The literals that rules say something for, by their ids, with their numbers."""
        self._said: dict[tuple[int, int], Sequence[ir.CheckedLiteral]] = {}
        """What a rule says for a literal, by the number of the literal and the id of the rule."""

    def unfold(
        self, body: Sequence[ir.CheckedLiteral], relations: Container[RelationRef] | None = None
    ) -> Iterator[Sequence[ir.CheckedLiteral]]:
        """Yield the body with what rules say of its relations, or of those of them that are given, in each way:
        ``size(x, n), n < 0`` with ``os:cinder:volume(_id=x, size=n)``."""
        asked: list[ir.Match] = []
        ways = 1
        for literal in body:
            if not isinstance(literal, ir.Match) or not (relations is None or literal.relation in relations):
                continue
            count = len(self._plain_rules(literal.relation))
            if 0 < ways * count <= MOST_WAYS:
                ways *= count
                asked.append(literal)
                self._asked.setdefault(id(literal), (literal, len(self._asked)))
        for rules in product(*(self._plain_rules(match.relation) for match in asked)) if asked else ():
            said = [self._as_said(match, rule) for match, rule in zip(asked, rules, strict=True)]
            if len(body) + sum(map(len, said)) <= LONGEST:
                yield (*body, *chain.from_iterable(said))

    def _plain_rules(self, relation: RelationRef) -> Sequence[ir.CheckedRule]:
        """The rules of a relation if each may stand in its place; none if one is a fact, long, or of itself."""
        if relation not in self._plain:
            rules = self.rules.get(relation, ())
            self._plain[relation] = rules if all(map(_is_plain, rules)) else ()
        return self._plain[relation]

    def _as_said(self, asked: ir.Match, rule: ir.CheckedRule) -> Sequence[ir.CheckedLiteral]:
        """The body of the rule for the row that is asked for, with variables of its own."""
        number = self._asked[id(asked)][1]
        if (number, id(rule)) not in self._said:
            self._said[number, id(rule)] = tuple(_as_said(asked, rule, self._own_of(rule), number))
        return self._said[number, id(rule)]

    def _own_of(self, rule: ir.CheckedRule) -> set[ir.Var]:
        if id(rule) not in self._own:
            self._own[id(rule)] = {var for literal in rule.body for var in variables(literal)}
        return self._own[id(rule)]


def _is_plain(rule: ir.CheckedRule) -> bool:
    """Whether what a rule says may stand in the place of its relation: not a fact, nor of itself."""
    return 0 < len(rule.body) <= MOST_SAID and rule.relation not in rule.mentioned


def _as_said(asked: ir.Match, rule: ir.CheckedRule, own: Set[ir.Var], at: int) -> Iterator[ir.CheckedLiteral]:
    """Yield the body of a rule, of `own` variables, for the row that is asked for, the literal of that number."""
    names: dict[ir.Var, ir.Operand] = {}
    for term, argument in zip(rule.arguments, asked.arguments, strict=True):
        if isinstance(term, ir.Const) and argument is not None:
            yield ir.Compare("=", argument, term, asked.span)
        elif isinstance(term, ir.Var) and argument is not None:
            names.setdefault(term, argument)
    yield from renamed(rule.body, {var: ir.Var(var.name, f"{var.generated} of {at}") for var in own} | names)
