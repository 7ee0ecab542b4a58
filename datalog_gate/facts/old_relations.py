"""The older state as facts (layer 2): the rows of ``old:``, and of ``heat:change`` and ``heat:disruption``.

In: the stacks as they were and as they will be, the catalogue, and the relations that the rules read. Out: their rows,
added to the facts. Where there is no older state nobody calls this, and the relations are empty.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

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
"""How the expression of an unknown starts whose value may have been another than it will be."""


def add_past(
    facts: FactSet, old: Sequence[Stack], new: Sequence[Stack], catalogue: Catalogue, wanted: Collection[RelationRef]
) -> FactSet:
    """Add to the facts of the new stacks what the `wanted` relations tell of the old ones and of the change. Out: the
    facts of the old stacks alone, by their plain names.

    A resource is the same in both if it has one id. Who compares two files gives the old stack the id of the new one,
    or else all of it is deleted and created. An unknown of the old state is that of the new one if both are written
    alike, but for one that hangs on a resource which the change may touch.
    """
    asked = {relation_name(relation) for relation in wanted if is_old(relation)}
    past = FactSet()
    for stack in old if asked else ():
        flatten(stack, catalogue, asked, past)
    unsure = any(isinstance(value, Unknown) for rows in past.rows.values() for row in rows for value in row)
    found = outcomes(old, new, catalogue) if unsure or not {CHANGE, DISRUPTION}.isdisjoint(wanted) else []
    if unsure:
        past = _before(past, {outcome.of.id for outcome in found if outcome.stirred})
    for name, rows in past.rows.items():
        older = old_version(name)
        facts.rows[older], facts.maybe[older] = rows, past.maybe[name]
        if name in past.hidden:
            facts.hidden[older] = past.hidden[name]
    if CHANGE in wanted:
        _add(facts, CHANGE, [(outcome, outcome.changes) for outcome in found])
    if DISRUPTION in wanted:
        _add(facts, DISRUPTION, [(outcome, outcome.disruptions) for outcome in found])
    for name in {CHANGE, DISRUPTION}.intersection(wanted):
        for stack in (each for root in (*old, *new) for each in root.walk()):
            for resource in stack.others:
                if resource.open_members:
                    row, path, doubt = wildcard(FIXED[name], (), ("members", resource.id.path), resource.open_members)
                    facts.add(name, row, (resource, path), doubt)
    return past


def _add(facts: FactSet, relation: str, found: Sequence[tuple[Outcome, dict[str, Unknown | None]]]) -> None:
    rows = (
        ((outcome.of.id, what), (outcome.of, outcome.path), doubt)
        for outcome, of_it in found
        for what, doubt in of_it.items()
    )
    facts.extend(relation, rows)


def _before(past: FactSet, stirred: Collection[ResourceId]) -> FactSet:
    """The facts with other unknowns for the values that may have been others: those that depend on these resources."""

    def value(one: Value) -> Value:
        if isinstance(one, Unknown) and reads_stirred(one, stirred):
            return replace(one, source=derived(BEFORE, one))
        return one

    def row(one: Row) -> Row:
        return tuple(map(value, one))

    return FactSet(
        {name: {row(one): past.rows[name][one] for one in rows} for name, rows in past.rows.items()},
        {name: {row(one): doubt for one, doubt in rows.items()} for name, rows in past.maybe.items()},
        {name: {row(one): held for one, held in rows.items()} for name, rows in past.hidden.items()},
    )
