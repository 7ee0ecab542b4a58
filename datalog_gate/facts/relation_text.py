"""Describes a relation or a builtin as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from datalog_gate.base.records import replace
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.lines import write_text
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Relation
from datalog_gate.schema.descriptions import RelationDescription, describe_kinds, describe_relation
from datalog_gate.schema.signatures import Builtin

WIDEST = 30
"""The maximum width to which the columns of a table are aligned."""


def format_relation(description: RelationDescription, catalogue: Catalogue) -> Iterator[str]:
    """The lines about a relation of the catalogue."""
    relation = description.relation
    yield from format_columns(relation)
    old = f"; old:{relation.name} has the older state" if description.has_old else ""
    yield f"  filled by  {description.filled_by}{old}"
    if description.mandatory:
        yield f"  mandatory  {', '.join(description.mandatory)}"
    if description.example:
        facts = FactSet()
        facts.add(relation.name, description.example)
        yield f"  row        {''.join(write_text(facts, catalogue))}"
    yield f"  rule       {description.rule}"


def format_meaning(meaning: Relation | Builtin, catalogue: Catalogue, known: Relation | None = None) -> Iterator[str]:
    """The lines about a relation or builtin that rules name. `known` is a relation of the rules with the kinds that
    their check found."""
    if isinstance(meaning, Builtin):
        yield from format_builtin(meaning)
    elif catalogue.relation(meaning.name):
        yield from format_relation(replace(describe_relation(meaning.name, catalogue), relation=meaning), catalogue)
    else:
        yield from format_columns(known or meaning)


def format_columns(relation: Relation) -> Iterator[str]:
    """The name of a relation and its meaning, and a line for each column with its kinds."""
    yield f"{relation.name}  {relation.meaning}".rstrip()
    rows = [
        (f"{column.name}*" if column.name in relation.key else column.name, describe_kinds(column), column.meaning)
        for column in relation.columns
    ]
    wide, wider = (min(max((len(row[at]) for row in rows), default=0), WIDEST) for at in (0, 1))
    for name, kinds, meaning in rows:
        yield f"  {name:{wide}}  {kinds:{wider}}  {meaning}".rstrip()


def format_builtin(builtin: Builtin) -> Iterator[str]:
    """The signature of a builtin and its meaning."""
    columns = ", ".join(column.name for column in (*builtin.inputs, *builtin.outputs))
    yield f"{builtin.name}({columns})  {builtin.meaning}"
    yield from (f"  {column.name}  {column.kinds.describe()}" for column in builtin.inputs)
    yield from (f"  {column.name}  {column.kinds.describe()}  result" for column in builtin.outputs)
