"""A variable's name as a text, in a column of resources."""

from __future__ import annotations

from itertools import chain

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.single_variables import pair_columns
from datalog_gate.base.diagnostics import Advice
from datalog_gate.base.values import Kind
from datalog_gate.language import ast
from datalog_gate.language.walk import nodes
from datalog_gate.schema.declaration import Column, Relation


@lint(
    code="quoted-variable",
    wrong='p(x) :- os:nova:server(_id=x), not os:cinder:volume_attachment(instance_uuid="x").',
    right="p(x) :- os:nova:server(_id=x), not os:cinder:volume_attachment(instance_uuid=x).",
)
def find_quoted_variables(review: Review) -> Found:
    for rule, module in review.written:
        body = list(nodes(rule.body))
        texts = {node.value for node in body if isinstance(node, ast.Constant)}
        if not texts.isdisjoint([node.name for node in body if isinstance(node, ast.Variable)]):
            meant = ((node, review.names.relation(node, module)) for node in body if isinstance(node, ast.Atom))
            pairs = (pair_columns(atom, relation) for atom, relation in meant if isinstance(relation, Relation))
            yield from _find(list(chain.from_iterable(pairs)))


def _find(terms: list[tuple[Column, ast.Term]]) -> Found:
    variables = [(column, term.name) for column, term in terms if isinstance(term, ast.Variable)]
    resources = {name for column, name in variables if column.kinds == Kind.RESOURCE}
    for column, term in terms:
        if isinstance(term, ast.Constant) and term.value in resources and Kind.RESOURCE in column.kinds:
            message = f'"{term.value}" is a string, but {term.value} is a variable for a resource'
            words = f"write {term.value} without quotes, or give the variable another name"
            yield warn("quoted-variable", message, term.span, Advice(words, str(term.value)))
