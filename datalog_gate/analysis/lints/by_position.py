"""Columns of a wide table that are given by position."""

from __future__ import annotations

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.schema.declaration import Relation

WIDE = 6
"""The number of columns of a table whose arguments can be told apart by position."""


@lint(
    code="by-position",
    wrong='p(x) :- nova:servers(x, "ACTIVE").',
    right='p(x) :- nova:servers(id=x, status="ACTIVE").',
)
def find_positions(review: Review) -> Found:
    catalogue = review.names.catalogue
    for atom, relation in review.atoms:
        if len(atom.arguments) < 2 or not isinstance(relation, Relation) or relation.named_only:
            continue
        wide, given = len(relation.columns) - relation.all, relation.columns[: len(atom.arguments)]
        if WIDE < wide >= len(atom.arguments) and catalogue.relation(relation.ref):
            message = f"{relation.ref} has {wide} columns, and the ones given by position here are"
            message = f"{message} {', '.join(column.name for column in given)}"
            shown = ", ".join(f"{column.name}=..." for column in given)
            advice = f"write {atom.name}({shown}) with the columns that you mean"
            yield warn("by-position", message, atom.span, advice)
