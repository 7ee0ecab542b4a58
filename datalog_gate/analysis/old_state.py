"""Rules over the older state (layer 2): what `old:p` means where rules derive `p`.

In: checked rules in which `old:p` occurs. Out: the same with copies of the rules that `p` rests on. In a copy each
relation that a stack fills, and each that rests on one, is read as `old:`; the request, the inventory, limits and what
an author declares stay as they are. A grant counts in a copy if the older state has it and it is in effect today: who
takes one out of the template changes what it had relaxed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from datalog_gate.analysis.program import CheckedLiteral, CheckedRule, Fold, Match, Var, Without
from datalog_gate.analysis.strata import reads
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.language.ast import NOWHERE
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Relation
from datalog_gate.schema.relations import OLD, TRANSITION


class Past(NamedTuple):
    """The rules with their copies, the relations that these add, and what is wrong."""

    rules: list[CheckedRule]
    relations: dict[str, Relation]
    diagnostics: list[Diagnostic]


def stand_ins(relations: Mapping[str, Relation], own: Collection[str]) -> list[CheckedRule]:
    """A rule for each `old:p` that is read, `p` an author's own, that it holds what `p` does: so the kinds of both are
    the same, and what is wrong with a rule is said once."""
    return [
        CheckedRule(name, row, (Match(name.removeprefix(OLD), row, NOWHERE),), NOWHERE)
        for name, relation in sorted(relations.items())
        if name.startswith(OLD) and name.removeprefix(OLD) in own
        for row in [tuple(Var("", str(at)) for at in range(len(relation.columns)))]
    ]


def with_past(
    rules: Sequence[CheckedRule], relations: Mapping[str, Relation], moved: Collection[str], catalogue: Catalogue
) -> Past:
    """Copy what is read as `old:p`. `moved` names the inputs that follow the stack besides those of the catalogue. A
    relation that rests on the change itself can't be asked what it held before."""
    own = [rule for rule in rules if not rule.relation.startswith(OLD)]
    by_head: dict[str, list[CheckedRule]] = {}
    for rule in own:
        by_head.setdefault(rule.relation, []).append(rule)
    read = {
        name: {match.relation for checked_rule in those for _, match in reads(checked_rule.body)}
        for name, those in by_head.items()
    }
    inputs = {one for those in read.values() for one in those} - by_head.keys()
    moving = _resting(read, {one for one in inputs if one in moved or catalogue.relation(OLD + one)})
    changing = _resting(read, {one for one in inputs if one.startswith(OLD) or one in TRANSITION - {"gate:request"}})

    def as_asked(name: str) -> str:
        plain = name.removeprefix(OLD)
        return name if plain in moving or catalogue.relation(name) else plain

    def in_copy(name: str) -> str:
        return OLD + name if name in moving else name

    asked = [match for rule in own for _, match in reads(rule.body) if match.relation.startswith(OLD)]
    wrong = [match for match in asked if match.relation.removeprefix(OLD) in changing]
    found = [
        Diagnostic(
            "undefined-relation",
            f"there is no {match.relation}: it judges the change itself",
            match.span,
            "read as old: a relation whose rules read neither old: nor heat:change",
        )
        for match in wrong
    ]
    copied: dict[str, list[CheckedRule]] = {}
    waiting = [] if wrong else [match.relation.removeprefix(OLD) for match in asked]
    while waiting:
        name = waiting.pop()
        if name in moving and name in by_head and name not in copied:
            copied[name] = [
                replace(checked_rule, relation=OLD + name, body=_renamed(checked_rule.body, in_copy))
                for checked_rule in by_head[name]
            ]
            waiting += read[name]
    plain = [replace(checked_rule, body=_renamed(checked_rule.body, as_asked)) for checked_rule in own]
    names = copied.keys() | {one for name in copied for one in read[name] & moving}
    return Past(
        plain + [rule for those in copied.values() for rule in those],
        {OLD + name: replace(relations[name], name=OLD + name) for name in names},
        found,
    )


def _resting(read: Mapping[str, Collection[str]], roots: set[str]) -> set[str]:
    """The roots, and all that rest on one of them. `read` tells what the rules of a relation read."""
    found, before = set(roots), 0
    while before != (before := len(found)):
        found.update(name for name, those in read.items() if not found.isdisjoint(those))
    return found


def _renamed(body: Sequence[CheckedLiteral], name: Callable[[str], str]) -> tuple[CheckedLiteral, ...]:
    """The body with other names of relations."""

    def renamed(literal: CheckedLiteral) -> CheckedLiteral:
        match literal:
            case Match():
                return replace(literal, relation=name(literal.relation))
            case Without() | Fold():
                return replace(literal, body=_renamed(literal.body, name))
        return literal

    return tuple(map(renamed, body))
