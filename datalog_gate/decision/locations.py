"""Where a violation stands in the user's own text, and which unknowns decide it (layer 4).

In: the rows that a violation's first derivation rests on. Out: a place, and the unknowns among them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from datalog_gate.analysis.program import CheckedProgram, Match, Var, Without
from datalog_gate.analysis.strata import reads
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.unknown import rests_on
from datalog_gate.base.values import ResourceId, Row, Unknown, Value
from datalog_gate.engine.provenance import Derivation, Fact, Provenance
from datalog_gate.facts.factset import FactSet, place_of
from datalog_gate.schema.declaration import Relation, RelationRef, certain_version, relation_name

NAMELESS = frozenset({"_id", "_stack", "_index", "_index2", "_key", "_key2", "id", "stack"})
"""Columns that say which row it is; their values are nowhere in the text."""

FOLLOWED = 100
"""Through how many rows a finding is followed, those nearest to it first: each of a thousand may rest on the others."""

SAID = ("heat:", "os:", "aws:")
"""How the names of relations start that hold what templates say."""


class Leaf(NamedTuple):
    """A fact that a derivation rests on, and the columns of it that the rule reads."""

    relation: RelationRef
    row: Row
    columns: tuple[int, ...]


class Support(NamedTuple):
    """The facts that a derivation rests on, in order of the bodies, and the resources that must lack rows for it."""

    leaves: list[Leaf]
    lacking: set[Value]


def support(provenance: Provenance, relation: RelationRef, row: Row) -> Support:
    """What the row's first derivation rests on, through as many derived rows as are `FOLLOWED`."""
    known = _nearest(provenance, (relation, row))
    found: dict[Leaf, None] = {}
    lacking: set[Value] = set()
    seen: set[Fact] = set()
    pending = [Leaf(relation, row, ())]
    while pending:
        leaf = pending.pop()
        fact = (leaf.relation, leaf.row)
        if leaf.relation in provenance.program.inputs:
            found[leaf._replace(relation=certain_version(leaf.relation))] = None
        elif fact not in seen and (derivation := known.get(fact)):
            matches = [literal for literal in derivation.rule.body if isinstance(literal, Match)]
            steps = [Leaf(*fact, match.columns) for match, fact in zip(matches, derivation.matched, strict=True)]
            pending += reversed(steps)
            lacking |= set(_lacking(derivation))
        seen.add(fact)
    return Support(list(found), lacking)


def place(
    subject: ResourceId | None, row: Row, found: Support, facts: FactSet, relations: Mapping[RelationRef, Relation]
) -> Span | None:
    """The place of the value at fault: of the first value of the violation's row that a leaf about the subject holds;
    else of the subject if it lacks something; else of the most precise such leaf, a list item before a resource; else
    of the subject, or of any leaf."""
    leaves = found.leaves
    about = [leaf for leaf in leaves if subject is None or leaf.row[:1] == (subject,)]
    for value in row:
        if value is not None and value != subject:
            for leaf in about:
                if span := _column_holding(value, leaf, facts, relations):
                    return span
    origins = [origin for leaf in about or leaves if (origin := facts.origin(leaf.relation, leaf.row))]
    if not origins:
        return None
    best = max(origins, key=lambda origin: len(origin[1]))
    return place_of(best) if len(best[1]) > 1 and subject not in found.lacking else best[0].locate(())


def deciding(
    subject: ResourceId | None,
    leaves: Sequence[Leaf],
    facts: FactSet,
    wanted: Collection[RelationRef],
    program: CheckedProgram,
) -> tuple[Unknown, ...]:
    """The unknowns that decide a violation: those of the rows it rests on; where it rests on the absence of rows, or on
    how many there are, those of the rows about the subject, or else of all rows, that the policy reads. It rests on the
    `wanted` relations of the program, as it is written. Each once, in order."""
    found = [unknown for leaf in leaves for unknown in _unknowns(leaf, facts)]
    if not found:
        read = _columns(wanted, program)
        near = [Leaf(name, row, columns) for name, columns in read.items() for row in facts.rows.get(name, ())]
        about = [leaf for leaf in near if subject is None or leaf.row[:1] == (subject,)]
        found = [unknown for leaf in about for unknown in _unknowns(leaf, facts)]
        found = found or [unknown for leaf in near for unknown in _unknowns(leaf, facts)]
    return tuple(dict.fromkeys(found))


def _columns(wanted: Collection[RelationRef], program: CheckedProgram) -> dict[RelationRef, tuple[int, ...]]:
    """The columns of each relation that the rules of the wanted ones read, by its name, in order."""
    columns: dict[RelationRef, set[int]] = {}
    for rule in (rule for stratum in program.strata for rule in stratum.rules):
        for _, match in reads(rule.body) if rule.relation in wanted else ():
            columns.setdefault(match.relation, set()).update(match.columns)
    return {name: tuple(sorted(columns[name])) for name in sorted(columns, key=str)}


def _nearest(provenance: Provenance, root: Fact) -> dict[Fact, Derivation]:
    """The derivations of the rows that the root rests on, those nearest to it, as far as the budget goes: a finding
    holds, and stands at its subject if no more is known."""
    known: dict[Fact, Derivation] = {}
    waiting = deque([root])
    while waiting and len(known) < FOLLOWED:
        fact = waiting.popleft()
        if fact in known or fact[0] in provenance.program.inputs:
            continue
        try:
            found = provenance.derive(*fact)
        except BudgetError:
            break
        if found:
            known[fact] = found
            waiting += found.matched
    return known


def _lacking(derivation: Derivation) -> Iterator[Value]:
    """Of what the derivation's rule wants the templates to say nothing in some relation."""
    for literal in derivation.rule.body:
        for one in literal.body if isinstance(literal, Without) else ():
            if isinstance(one, Match) and relation_name(one.relation).startswith(SAID):
                first = one.arguments[0]
                if isinstance(first, Var) and (value := derivation.binding.get(first)) is not None:
                    yield value


def _unknowns(leaf: Leaf, facts: FactSet) -> Iterator[Unknown]:
    """What decides whether the row is there, and the unknowns in the columns that are read. A wildcard's own unknowns
    say no more than what decides it."""
    reason = facts.maybe.get(leaf.relation, {}).get(leaf.row)
    if reason:
        yield reason
    for at in leaf.columns:
        value = leaf.row[at]
        if isinstance(value, Unknown) and not (reason and rests_on(value, reason)):
            yield value


def _column_holding(value: Value, leaf: Leaf, facts: FactSet, relations: Mapping[RelationRef, Relation]) -> Span | None:
    described = relations.get(leaf.relation)
    origin = facts.origin(leaf.relation, leaf.row)
    if described is None or origin is None:
        return None
    for at in leaf.columns:
        name = described.columns[at].name
        if leaf.row[at] == value and name not in NAMELESS:
            return place_of(origin, name)
    return None
