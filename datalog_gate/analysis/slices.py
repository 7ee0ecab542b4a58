"""Parts of programs (layer 2): the strata that some relations rest on, and those that rest on some inputs alone.

In: a checked program. Out: checked programs of some of its strata, the same ones each time they are asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from datalog_gate.analysis.cache import Kept
from datalog_gate.analysis.program import CheckedProgram, Stratum
from datalog_gate.analysis.strata import reads
from datalog_gate.schema.declaration import RelationRef

_RESTING, _GROUNDED = Kept[CheckedProgram](), Kept[CheckedProgram]()


def resting(program: CheckedProgram, wanted: frozenset[RelationRef]) -> CheckedProgram:
    """The strata that the wanted relations rest on."""
    return _RESTING.get(program, wanted, lambda: _resting(program, wanted))


def layers(program: CheckedProgram, groups: Iterable[frozenset[RelationRef]]) -> Iterator[CheckedProgram]:
    """For each group of relations the strata that they rest on, but for those of earlier groups, whose relations are
    inputs then; last, all other strata. They are made anew each time."""
    rest, given = program, set[RelationRef]()
    for wanted in groups:
        part = _resting(rest, wanted)
        yield part
        given |= part.inputs
        there = {name for stratum in part.strata for name in stratum.relations}
        rest = _of(
            program, [stratum for stratum in rest.strata if there.isdisjoint(stratum.relations)], rest.inputs | there
        )
    read = {name for stratum in rest.strata for name in _read(stratum)}
    yield _of(program, rest.strata, (program.inputs - given) | (read & rest.inputs))


def grounded(program: CheckedProgram, inputs: frozenset[RelationRef]) -> CheckedProgram:
    """The strata that read nothing but these inputs, directly or through each other."""
    return _GROUNDED.get(program, inputs, lambda: _grounded(program, inputs))


def _resting(program: CheckedProgram, wanted: frozenset[RelationRef]) -> CheckedProgram:
    needed = set(wanted)
    kept: list[Stratum] = []
    for stratum in reversed(program.strata):
        if not needed.isdisjoint(stratum.relations):
            kept.append(stratum)
            needed |= _read(stratum)
    return _of(program, kept[::-1], needed & program.inputs)


def _grounded(program: CheckedProgram, inputs: frozenset[RelationRef]) -> CheckedProgram:
    there = set(inputs)
    kept: list[Stratum] = []
    for stratum in program.strata:
        if _read(stratum) <= there.union(stratum.relations):
            kept.append(stratum)
            there.update(stratum.relations)
    return _of(program, kept, inputs & program.inputs)


def _read(stratum: Stratum) -> set[RelationRef]:
    return {match.relation for rule in stratum.rules for _, match in reads(rule.body)}


def _of(program: CheckedProgram, strata: Iterable[Stratum], inputs: Collection[RelationRef]) -> CheckedProgram:
    return CheckedProgram(program.relations, frozenset(inputs), tuple(strata))
