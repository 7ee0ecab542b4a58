"""Bodies with what rules say in the place of their relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import LONGEST
from datalog_gate.analysis.program import renamed, variables
from datalog_gate.schema.declaration import RelationRef

MOST_WAYS = 8
"""In how many ways the relations of a body are replaced."""
MOST_SAID = 10
"""A longer rule is not put in the place of its relation."""
Rules = Mapping[RelationRef, Sequence[ir.CheckedRule]]


def unfold(body: Sequence[ir.CheckedLiteral], rules: Rules) -> Iterator[Sequence[ir.CheckedLiteral]]:
    """Yield the body with what rules say of its relations in each way: ``size(x, n), n < 0`` with
    ``os:cinder:volume(_id=x, size=n)``."""
    choices: list[list[Sequence[ir.CheckedLiteral]]] = []
    ways = 1
    for at, literal in enumerate(body):
        match literal:
            case ir.Match(relation) if ways * len(said := rules.get(relation, ())) <= MOST_WAYS:
                if said and all(map(_is_plain, said)):
                    ways *= len(said)
                    choices.append([tuple(_as_said(literal, rule, at)) for rule in said])
    for chosen in product(*choices) if choices else ():
        if len(body) + sum(map(len, chosen)) <= LONGEST:
            yield (*body, *(literal for literals in chosen for literal in literals))


def mentioned(body: Sequence[ir.CheckedLiteral]) -> Iterator[RelationRef]:
    """Yield the relations of a body, with those of the bodies in it."""
    for literal in body:
        match literal:
            case ir.Match(relation):
                yield relation
            case ir.Without(inner) | ir.Fold(_, _, inner):
                yield from mentioned(inner)


def _is_plain(rule: ir.CheckedRule) -> bool:
    """Whether what a rule says may stand in the place of its relation: not a fact, nor of itself."""
    return 0 < len(rule.body) <= MOST_SAID and rule.relation not in mentioned(rule.body)


def _as_said(asked: ir.Match, rule: ir.CheckedRule, at: int) -> Iterator[ir.CheckedLiteral]:
    """Yield the body of a rule for the row that is asked for, the literal at that place."""
    names: dict[ir.Var, ir.Operand] = {}
    for term, argument in zip(rule.arguments, asked.arguments, strict=True):
        if isinstance(term, ir.Const) and argument is not None:
            yield ir.Compare("=", argument, term, asked.span)
        elif isinstance(term, ir.Var) and argument is not None:
            names.setdefault(term, argument)
    own = {var for literal in rule.body for var in variables(literal)}
    yield from renamed(rule.body, {var: ir.Var(var.name, f"{var.generated} of {at}") for var in own} | names)
