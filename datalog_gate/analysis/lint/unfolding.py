"""Bodies with their relations replaced by the rules that derive them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence, Set
from itertools import chain, product

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import LONGEST
from datalog_gate.analysis.program import renamed, variables
from datalog_gate.schema.declaration import RelationRef

MOST_WAYS = 8
"""The maximum number of combinations of rules for a body."""
MOST_LITERALS = 10
"""The maximum number of literals of a rule that is unfolded."""


class Unfolding:
    """Replaces relations in bodies by their rules. The replacement of a literal by a rule is the same in every body."""

    def __init__(self, rules: Iterable[ir.CheckedRule]) -> None:
        self.rules: dict[RelationRef, list[ir.CheckedRule]] = {}
        for rule in rules:
            self.rules.setdefault(rule.relation, []).append(rule)
        self._plain: dict[RelationRef, Sequence[ir.CheckedRule]] = {}
        self._own: dict[int, set[ir.Var]] = {}
        """The variables in the body of each rule, by the id of the rule."""
        self._numbered: dict[int, tuple[ir.Match, int]] = {}
        """The unfolded literals with their numbers, by the id of the literal."""
        self._bodies: dict[tuple[int, int], Sequence[ir.CheckedLiteral]] = {}
        """The body of a rule in place of a literal, by the number of the literal and the id of the rule."""

    def unfold(
        self, body: Sequence[ir.CheckedLiteral], relations: Container[RelationRef] | None = None
    ) -> Iterator[Sequence[ir.CheckedLiteral]]:
        """Yield the body with the bodies of rules for its relations added, once for each combination of rules:
        ``size(x, n), n < 0, os:cinder:volume(_id=x, size=n)``. If `relations` are given, only these are unfolded."""
        unfolded: list[ir.Match] = []
        ways = 1
        for literal in body:
            if not isinstance(literal, ir.Match) or not (relations is None or literal.relation in relations):
                continue
            count = len(self._plain_rules(literal.relation))
            if 0 < ways * count <= MOST_WAYS:
                ways *= count
                unfolded.append(literal)
                self._numbered.setdefault(id(literal), (literal, len(self._numbered)))
        if not unfolded:
            return
        for rules in product(*(self._plain_rules(match.relation) for match in unfolded)):
            bodies = [self._body_for(match, rule) for match, rule in zip(unfolded, rules, strict=True)]
            if len(body) + sum(map(len, bodies)) <= LONGEST:
                yield (*body, *chain.from_iterable(bodies))

    def _plain_rules(self, relation: RelationRef) -> Sequence[ir.CheckedRule]:
        """The rules of a relation if all can be unfolded, else none."""
        if relation not in self._plain:
            rules = self.rules.get(relation, ())
            self._plain[relation] = rules if all(map(_is_plain, rules)) else ()
        return self._plain[relation]

    def _body_for(self, match: ir.Match, rule: ir.CheckedRule) -> Sequence[ir.CheckedLiteral]:
        """The body of the rule for the row of the literal, with fresh variables."""
        number = self._numbered[id(match)][1]
        if (number, id(rule)) not in self._bodies:
            self._bodies[number, id(rule)] = tuple(_instantiate(match, rule, self._own_of(rule), number))
        return self._bodies[number, id(rule)]

    def _own_of(self, rule: ir.CheckedRule) -> set[ir.Var]:
        if id(rule) not in self._own:
            self._own[id(rule)] = {var for literal in rule.body for var in variables(literal)}
        return self._own[id(rule)]


def _is_plain(rule: ir.CheckedRule) -> bool:
    """Whether the rule can be unfolded: it is not a fact, not long and not recursive."""
    return 0 < len(rule.body) <= MOST_LITERALS and rule.relation not in rule.mentioned


def _instantiate(match: ir.Match, rule: ir.CheckedRule, own: Set[ir.Var], at: int) -> Iterator[ir.CheckedLiteral]:
    """Yield the body of a rule with variables `own`, for the row of literal number `at`."""
    names: dict[ir.Var, ir.Operand] = {}
    for term, argument in zip(rule.arguments, match.arguments, strict=True):
        if isinstance(term, ir.Const) and argument is not None:
            yield ir.Compare("=", argument, term, match.span)
        elif isinstance(term, ir.Var) and argument is not None:
            names.setdefault(term, argument)
    yield from renamed(rule.body, {var: ir.Var(var.name, f"{var.generated} of {at}") for var in own} | names)
