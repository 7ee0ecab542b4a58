"""Facts of a whole cloud: the relations `all:`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from datalog_gate.base.values import Value
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import RelationRef, all_version, is_all, relation_name
from datalog_gate.stack.model import Stack


def add_cloud_facts(
    facts: FactSet,
    stacks: Sequence[Stack],
    projects: Mapping[str, str | None],
    catalogue: Catalogue,
    wanted: Collection[RelationRef],
) -> None:
    """Add the rows of the `wanted` relations `all:`: of every stack, with the project by the id of its root."""
    names = {relation_name(relation) for relation in wanted if is_all(relation)}
    if not names:
        return
    for stack in stacks:
        project: Value = projects.get(stack.id)
        own = flatten(stack, catalogue, names)
        for name, rows in own.rows.items():
            relation, maybe = all_version(name), own.maybe[name]
            facts.extend(relation, (((*row, project), origin, maybe.get(row)) for row, origin in rows.items()))
            for row, columns in own.hidden.get(name, {}).items():
                facts.hide(relation, (*row, project), columns)
