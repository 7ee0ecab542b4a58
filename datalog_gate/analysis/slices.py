"""Slices of a program: strata below some relations or above some inputs.

Each function but `layers` returns the same program for the same arguments, so that engines can keep its plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from datalog_gate.analysis.policy import Policy, Unlock
from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Match, Stratum, kept
from datalog_gate.schema.declaration import RelationRef


@kept
def slice_for(program: CheckedProgram, wanted: frozenset[RelationRef]) -> CheckedProgram:
    """The strata that the `wanted` relations depend on."""
    needed = set(wanted)
    strata: list[Stratum] = []
    for stratum in reversed(program.strata):
        if not needed.isdisjoint(stratum.relations):
            strata.append(stratum)
            needed |= _read_relations(stratum)
    return _slice(program, strata[::-1], needed & program.inputs)


def layers(program: CheckedProgram, groups: Iterable[frozenset[RelationRef]]) -> Iterator[CheckedProgram]:
    """For each group the strata that it depends on and no earlier group does; last the others. Not cached."""
    rest, inputs_before = program, set[RelationRef]()
    for wanted in groups:
        part = slice_for(rest, wanted)
        yield part
        inputs_before |= part.inputs
        derived = {name for stratum in part.strata for name in stratum.relations}
        others = [stratum for stratum in rest.strata if derived.isdisjoint(stratum.relations)]
        rest = _slice(program, others, rest.inputs | derived)
    read = {name for stratum in rest.strata for name in _read_relations(stratum)}
    yield _slice(program, rest.strata, (program.inputs - inputs_before) | (read & rest.inputs))


@kept
def slice_over(program: CheckedProgram, inputs: frozenset[RelationRef]) -> CheckedProgram:
    """The strata that depend only on these inputs."""
    available = set(inputs)
    strata: list[Stratum] = []
    for stratum in program.strata:
        if _read_relations(stratum) <= available.union(stratum.relations):
            strata.append(stratum)
            available.update(stratum.relations)
    return _slice(program, strata, inputs & program.inputs)


def derivable(rules: Collection[CheckedRule], filled: Collection[RelationRef]) -> frozenset[RelationRef]:
    """The relations that may have rows if only the `filled` inputs have any. It takes two passes over rules in order of
    strata."""
    some, before = set(filled), -1
    while before < len(some):
        before = len(some)
        for rule in rules:
            if all(literal.relation in some for literal in rule.body if isinstance(literal, Match)):
                some.add(rule.relation)
    return frozenset(some)


def collect_dependencies(
    program: CheckedProgram, policies: Iterable[Policy | Unlock] = ()
) -> dict[RelationRef, frozenset[RelationRef]]:
    """The relations that each derived relation depends on, including itself. They are collected in one pass, in order
    of strata. A policy whose rules all say `false` has no stratum and depends only on itself."""
    reads: dict[RelationRef, frozenset[RelationRef]] = {
        policy.relation: frozenset({policy.relation}) for policy in policies
    }
    for stratum in program.strata:
        direct = _read_relations(stratum) | set(stratum.relations)
        whole = frozenset(direct.union(*(reads.get(relation, frozenset()) for relation in direct)))
        reads.update(dict.fromkeys(stratum.relations, whole))
    return reads


def _read_relations(stratum: Stratum) -> set[RelationRef]:
    return set[RelationRef]().union(*(rule.mentioned for rule in stratum.rules))


def _slice(program: CheckedProgram, strata: Iterable[Stratum], inputs: Collection[RelationRef]) -> CheckedProgram:
    return CheckedProgram(program.relations, frozenset(inputs), tuple(strata))
