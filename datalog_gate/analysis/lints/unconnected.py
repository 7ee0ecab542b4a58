"""Relations of a body that share no variable."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.program import CheckedLiteral, Const, Match, Nesting, Var, variables
from datalog_gate.schema.relations import ONE_ROW


@lint(
    code="cartesian",
    wrong="p(x) :- os:neutron:port(_id=x), os:nova:server(name=n), n != null.",
    right="p(x) :- os:neutron:port(_id=x), os:nova:server.networks(port=x).",
    loading=False,
)
def find_unconnected(review: Review) -> Found:
    for _, rules in review.ways:
        for rule in rules:
            yield from _find(rule.body, (), review)


def _find(body: Sequence[CheckedLiteral], outer: Collection[Var], review: Review) -> Found:
    groups: list[tuple[set[Var], list[Match]]] = []
    given = _single(body, outer, review)
    for literal in body:
        own = set(variables(literal)) - set(outer)
        several = [literal] if isinstance(literal, Match) and own and not _has_one_row(literal, given, review) else []
        touching = [group for group in groups if group[0] & own]
        connected = [match for _, matches in touching for match in matches] + several
        names = own.union(*(names for names, _ in touching))
        groups = [group for group in groups if group not in touching] + [(names, connected)]
        if isinstance(literal, Nesting):
            around = {*outer, *(var for other in body if other is not literal for var in variables(other))}
            yield from _find(literal.body, around, review)
    apart = [group[1][0] for group in groups if group[1]]
    for other in apart[1:]:
        message = f"every row of {apart[0].relation} is combined with every row of {other.relation}"
        yield warn("cartesian", message, other.span, "join the two by a variable, or split the rule")


def _single(body: Sequence[CheckedLiteral], outer: Collection[Var], review: Review) -> Collection[Var]:
    """The variables that have one value, as the caller's project has."""
    given = {*outer}
    matches = [literal for literal in body if isinstance(literal, Match)]
    while new := {var for match in matches if _has_one_row(match, given, review) for var in variables(match)} - given:
        given |= new
    return given


def _has_one_row(match: Match, given: Collection[Var], review: Review) -> bool:
    rules = review.by_relation.get(match.relation, ())
    relation = review.relations[match.relation]
    key = [match.arguments[relation.positions[name]] for name in relation.key or relation.positions]
    return (
        match.relation in ONE_ROW
        or all(isinstance(term, Const) or term in given for term in key)
        or (len(rules) == 1 and not any(isinstance(literal, Match) for literal in rules[0].body))
    )
