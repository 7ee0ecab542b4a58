"""Which violation is which, before and after a change (layer 2).

In: a checked program and a policy. Out: whether it judges the change itself, and else the names of its key columns:
those that it names itself, or all whose values are read and not worked out and do not tell how bad it is, so that one
violation keeps its key while its numbers change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import (
    Call,
    CheckedProgram,
    CheckedRule,
    Compare,
    Const,
    Match,
    Operand,
    Pattern,
    Var,
)
from datalog_gate.schema.declaration import RelationRef, is_old
from datalog_gate.schema.relations import TRANSITION

INDEXES = frozenset({"_index", "_index2"})
"""Columns of the catalogue that count the members of a list: any of them moves when another one goes."""
Cell = tuple[RelationRef, int]


def judges_transition(policy: Policy, reads: Mapping[RelationRef, frozenset[RelationRef]]) -> bool:
    """Whether a policy judges what an operation does, and not what is there after it: it rests on a relation that tells
    so. `reads` is that of its policy set."""
    return any(is_old(name) or name in TRANSITION for name in reads[policy.relation])


def compares(reads: Collection[RelationRef]) -> bool:
    """Whether of these relations one tells what was, or what becomes of it."""
    return any(is_old(name) or name in TRANSITION - {"gate:request"} for name in reads)


def keys_of(policy: Policy, worked_out: Set[Cell]) -> tuple[str, ...]:
    """The key columns of a policy, in its order. `worked_out` is `computed` of its program."""
    if "key" in policy.lists:
        return policy.lists["key"]
    measure = policy.texts.get("worse", "").partition(" ")[0]
    cells = ((policy.relation, at) for at in range(len(policy.columns)))
    return tuple(
        name
        for name, cell in zip(policy.columns, cells, strict=True)
        if name not in ("", measure) and cell not in worked_out
    )


def computed(program: CheckedProgram, indexes: bool = True) -> set[Cell]:
    """The columns of relations, by name and position, that some rule fills with what a builtin, an operator or an
    aggregate gives, or, where `indexes` count, with a list's index, be it by way of other relations."""
    found: set[Cell] = {
        (name, at)
        for name in program.inputs
        for at, column in enumerate(program.relations[name].columns)
        if indexes and column.name in INDEXES
    }
    for stratum in program.strata:
        before = -1
        while before < len(found):
            before = len(found)
            for rule in stratum.rules:
                read = _read(rule, found)
                cells = ((rule.relation, at) for at in range(len(rule.arguments)))
                found |= {
                    cell
                    for cell, term in zip(cells, rule.arguments, strict=True)
                    if isinstance(term, Var) and term not in read
                }
    return found


def _read(rule: CheckedRule, worked_out: Set[Cell]) -> set[Var]:
    """The variables of a rule whose value a row or a constant gives; a default gives one of its two sides as it is."""
    read = {
        term
        for match in rule.body
        if isinstance(match, Match)
        for at, term in enumerate(match.arguments)
        if isinstance(term, Var) and (match.relation, at) not in worked_out
    }
    given: list[tuple[Pattern, tuple[Operand, ...]]] = []
    for literal in rule.body:
        match literal:
            case Compare("=", left, right):
                given += [(left, (right,)), (right, (left,))]
            case Call("??", inputs, (output,)):
                given.append((output, inputs))
    before = -1
    while before < len(read):
        before = len(read)
        for target, sources in given:
            if isinstance(target, Var) and all(isinstance(source, Const) or source in read for source in sources):
                read.add(target)
    return read
