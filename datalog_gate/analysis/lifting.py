"""Lifting of a program for one stack to many, each judged alone.

Every relation that depends on a stack gets the root as its first column. All literals of a rule share it::

    p(x) :- q(x), limit(n), not r(x).      =>      p(root, x) :- q(root, x), limit(n), not r(root, x).
    m(n) :- n = count{ x : q(x) }.         =>      m(root, n) :- root#(root), n = count{ x : q(root, x) }.

(Stacks fill `q` and `r`, but not `limit`.) Relations that depend on no stack stay as they are and are derived once: the
inventory, limits, and `all:` relations, which hold the rows of every stack.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.slices import slice_for
from datalog_gate.analysis.strata import matches
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Kind, Row
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import (
    Column,
    Relation,
    RelationRef,
    all_version,
    certain_version,
    current_version,
    is_all,
)
from datalog_gate.schema.relations import EFFECTIVE, TRANSITION

ROOTS = "root#"
"""The relation of a lifted program that holds the roots. Users cannot write its name."""
ROOT_VARIABLE = ir.Var("", "root")
ROOT_COLUMN = Column(ROOTS, Kind.STRING, "The root stack.")

Facts = Mapping[RelationRef, Collection[Row]]


@dataclass(frozen=True, slots=True)
class Lifted:
    """A lifted program. It has the additional input `ROOTS`."""

    program: ir.CheckedProgram
    relations: frozenset[RelationRef]
    """The input and derived relations whose first column is the root."""

    @property
    def columns(self) -> frozenset[tuple[RelationRef, int]]:
        """The columns that its rules read."""
        read = (match for rule in self.program.rules for match in matches(rule.body))
        return frozenset((match.relation, at) for match in read for at in match.columns)

    def slice_for(self, wanted: frozenset[RelationRef]) -> Lifted:
        """The part that these relations depend on."""
        return Lifted(slice_for(self.program, wanted), self.relations)

    def split_root(self, relation: RelationRef, row: Row) -> tuple[str | None, Row]:
        """The root and the row of one stack; None for a relation that is the same for all."""
        return (str(row[0]), row[1:]) if relation in self.relations else (None, row)

    def facts(self, stacks: Mapping[str, Facts]) -> dict[RelationRef, Collection[Row]]:
        """The facts of many stacks, by root, as facts of the lifted program. Rows of relations that are not lifted are
        the same for all stacks, so they are taken from one."""
        joined: dict[RelationRef, list[Row]] = {name: [] for name in self.program.inputs}
        joined[ROOTS] = [(root,) for root in stacks]
        for root, facts in stacks.items():
            for name in facts.keys() & joined.keys():
                rows = facts[name]
                joined[name] += ((root, *row) for row in rows) if name in self.relations else rows
        return {name: dict.fromkeys(rows) for name, rows in joined.items()}


def stack_inputs(program: ir.CheckedProgram, catalogue: Catalogue) -> frozenset[RelationRef]:
    """The inputs of a program that each stack fills for itself, the old and possible versions among them."""
    names = {name: certain_version(current_version(name)) for name in program.inputs if not is_all(name)}
    own = TRANSITION - {"gate:request"} | {EFFECTIVE.name}
    return frozenset(name for name, plain in names.items() if plain in own or catalogue.relation(all_version(plain)))


def lift_for(
    program: ir.CheckedProgram,
    wanted: frozenset[RelationRef],
    catalogue: Catalogue,
    given: frozenset[RelationRef] = frozenset(),
) -> Lifted:
    """Lift the part of a program that these relations depend on. The `given` inputs differ by stack too."""
    part = slice_for(program, wanted)
    return lift(part, stack_inputs(part, catalogue) | given & part.inputs)


def lift(program: ir.CheckedProgram, inputs: Collection[RelationRef]) -> Lifted:
    """Lift a program in which stacks fill the `inputs`. If facts hold unknowns, split the program first: the name of an
    unknown that an aggregate makes must not depend on the root."""
    lifted: set[RelationRef] = {*inputs}
    for stratum in program.strata:
        if not all(lifted.isdisjoint(rule.mentioned) for rule in stratum.rules):
            lifted.update(stratum.relations)
    relations = {name: _widen(relation) if name in lifted else relation for name, relation in program.relations.items()}
    relations[ROOTS] = Relation(ROOTS, (ROOT_COLUMN,), key=(ROOTS,), generated="root")
    strata = tuple(_lift_stratum(stratum, lifted) for stratum in program.strata)
    return Lifted(ir.CheckedProgram(relations, program.inputs | {ROOTS}, strata), frozenset(lifted))


def _widen(relation: Relation) -> Relation:
    key = (ROOTS, *relation.key) if relation.key else ()
    return replace(relation, columns=(ROOT_COLUMN, *relation.columns), key=key)


def _lift_stratum(stratum: ir.Stratum, lifted: Set[RelationRef]) -> ir.Stratum:
    if lifted.isdisjoint(stratum.relations):
        return stratum
    return replace(stratum, rules=tuple(_lift_rule(rule, lifted) for rule in stratum.rules))


def _lift_rule(rule: ir.CheckedRule, lifted: Set[RelationRef]) -> ir.CheckedRule:
    """The rule with the root. If no relation of a stack binds the root, `ROOTS` does."""

    def with_root(match: ir.Match) -> ir.Match:
        is_lifted = match.relation in lifted
        return replace(match, arguments=(ROOT_VARIABLE, *match.arguments)) if is_lifted else match

    body = ir.map_matches(rule.body, with_root)
    if not any(isinstance(literal, ir.Match) and literal.relation in lifted for literal in body):
        body = (ir.Match(ROOTS, (ROOT_VARIABLE,), rule.span), *body)
    return replace(rule, arguments=(ROOT_VARIABLE, *rule.arguments), body=body)
