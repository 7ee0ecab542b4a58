"""Facts of the old state: ``old:`` relations, ``heat:change`` and ``heat:disruption``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from datalog_gate.base.records import replace
from datalog_gate.base.unknown import derived
from datalog_gate.base.values import ResourceId, Row, Unknown, Value
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.tables import wildcard
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import RelationRef, is_old, old_version, relation_name
from datalog_gate.schema.relations import FIXED
from datalog_gate.stack.model import Stack
from datalog_gate.stack.update import Outcome, outcomes, reads_stirred

CHANGE, DISRUPTION = "heat:change", "heat:disruption"
BEFORE = "before: "
"""The prefix of an unknown of the old state that may have had another value than the same unknown now."""


def add_old_facts(
    facts: FactSet, old: Sequence[Stack], new: Sequence[Stack], catalogue: Catalogue, wanted: Collection[RelationRef]
) -> FactSet:
    """Add the rows of the `wanted` relations about the old stacks and their change to the facts of the new stacks.

    Returns the facts of the old stacks alone, without ``old:`` in the names of the relations. Resources with the same
    id are equal. Unknowns are equal if they have the same expression and depend on no resource that the change may
    affect.
    """
    old_relations = {relation_name(relation) for relation in wanted if is_old(relation)}
    old_facts = FactSet()
    if old_relations:
        for stack in old:
            flatten(stack, catalogue, old_relations, old_facts)
    has_unknown = any(isinstance(value, Unknown) for rows in old_facts.rows.values() for row in rows for value in row)
    changes: list[Outcome] = []
    if has_unknown or CHANGE in wanted or DISRUPTION in wanted:
        changes = outcomes(old, new, catalogue)
    if has_unknown:
        old_facts = _mark_unknowns(old_facts, {outcome.of.id for outcome in changes if outcome.stirred})
    for name, rows in old_facts.rows.items():
        old_name = old_version(name)
        facts.rows[old_name], facts.maybe[old_name] = rows, old_facts.maybe[name]
        if name in old_facts.hidden:
            facts.hidden[old_name] = old_facts.hidden[name]
    if CHANGE in wanted:
        for outcome in changes:
            _add_outcome(facts, CHANGE, outcome, outcome.changes)
        _add_member_wildcards(facts, CHANGE, (*old, *new))
    if DISRUPTION in wanted:
        for outcome in changes:
            _add_outcome(facts, DISRUPTION, outcome, outcome.disruptions)
        _add_member_wildcards(facts, DISRUPTION, (*old, *new))
    return old_facts


def _add_outcome(facts: FactSet, relation: str, outcome: Outcome, values: Mapping[str, Unknown | None]) -> None:
    origin = outcome.of, outcome.path
    facts.extend(relation, (((outcome.of.id, value), origin, maybe) for value, maybe in values.items()))


def _add_member_wildcards(facts: FactSet, relation: str, roots: Sequence[Stack]) -> None:
    for root in roots:
        for stack in root.walk():
            for resource in stack.resources:
                if resource.open_members:
                    place = ("members", resource.id.path)
                    row, path, maybe = wildcard(FIXED[relation], (), place, resource.open_members)
                    facts.add(relation, row, (resource, path), maybe)


def _mark_unknowns(facts: FactSet, stirred: Collection[ResourceId]) -> FactSet:
    """The facts with unknowns marked if they depend on the affected resources, so that the old value may differ."""

    def mark(value: Value) -> Value:
        if isinstance(value, Unknown) and reads_stirred(value, stirred):
            return replace(value, source=derived(BEFORE, value))
        return value

    def mark_row(row: Row) -> Row:
        return tuple(map(mark, row))

    return FactSet(
        {name: {mark_row(row): origin for row, origin in rows.items()} for name, rows in facts.rows.items()},
        {name: {mark_row(row): maybe for row, maybe in rows.items()} for name, rows in facts.maybe.items()},
        {name: {mark_row(row): columns for row, columns in rows.items()} for name, rows in facts.hidden.items()},
    )
