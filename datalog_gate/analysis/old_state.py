"""Old versions of relations that rules derive: copies of the rules.

The request, the inventory, limits and declared relations have no old version::

    p(s) :- heat:resource(s), limit(n).            p(s) :- heat:resource(s), limit(n).
    q(s) :- old:p(s).                      =>      old:p(s) :- old:heat:resource(s), limit(n).
                                                   q(s) :- old:p(s).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from datalog_gate.analysis.program import CheckedRule, Match, Var, group_rules, map_matches
from datalog_gate.analysis.strata import close, matches
from datalog_gate.base.diagnostics import NOWHERE, Diagnostic
from datalog_gate.base.records import replace
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Relation, RelationRef, current_version, is_old, old_version, relation_name
from datalog_gate.schema.relations import EFFECTIVE, TRANSITION

Reads = Mapping[RelationRef, Collection[RelationRef]]
"""By derived relation, the relations that its rules read."""


def stand_ins(relations: Mapping[RelationRef, Relation], own: Collection[str]) -> list[CheckedRule]:
    """A rule ``old:p(...) :- p(...)`` for each `old:p` that is read, where `p` is one of the author's `own` relations.
    It gives both the same kinds during inference, and keeps an error from being reported twice."""
    rules = []
    for reference, relation in sorted(relations.items(), key=lambda item: str(item[0])):
        if is_old(reference) and relation_name(reference) in own:
            rules.append(copy_of(current_version(reference), reference, len(relation.columns)))
    return rules


def copy_of(source: RelationRef, target: RelationRef, width: int) -> CheckedRule:
    """The rule ``target(...) :- source(...)``."""
    row = tuple(Var("", str(at)) for at in range(width))
    return CheckedRule(target, row, (Match(source, row, NOWHERE),), NOWHERE)


def with_old_state(
    rules: Sequence[CheckedRule], relations: Mapping[RelationRef, Relation], catalogue: Catalogue
) -> tuple[list[CheckedRule], dict[RelationRef, Relation], list[Diagnostic]]:
    """Add copies of the rules that are read as `old:p`, and drop the stand-ins. Return the rules, the relations that
    the copies add, and diagnostics. A relation that depends on the change itself has no old version."""
    own = [rule for rule in rules if not is_old(rule.relation)]
    by_head = group_rules(own)
    read = {
        name: frozenset[RelationRef]().union(*(rule.mentioned for rule in its_rules))
        for name, its_rules in by_head.items()
    }
    inputs = frozenset[RelationRef]().union(*read.values()) - by_head.keys()
    filled = {name for name in inputs if not is_old(name) and catalogue.relation(old_version(name))}
    roots = filled | (inputs & {EFFECTIVE.name})
    moving = _dependents(read, roots)
    changing = _dependents(read, {name for name in inputs if is_old(name) or name in TRANSITION - {"gate:request"}})

    def in_original(match: Match) -> Match:
        plain = current_version(match.relation)
        is_right = plain == match.relation or plain in moving or catalogue.relation(match.relation)
        return match if is_right else replace(match, relation=plain)

    old_matches = [match for rule in own for match in matches(rule.body) if is_old(match.relation)]
    wrong = [match for match in old_matches if current_version(match.relation) in changing]
    copies = {} if wrong else _copy_rules([current_version(match.relation) for match in old_matches], by_head, moving)
    bodies = [map_matches(rule.body, in_original) for rule in own]
    originals = [
        rule if body is rule.body else replace(rule, body=body) for rule, body in zip(own, bodies, strict=True)
    ]
    names = copies.keys() | {name for copied in copies for name in read[copied] & moving}
    added = {old_version(name): replace(relations[name], old=True) for name in names}
    return originals + [rule for copied in copies.values() for rule in copied], added, [*map(_refuse, wrong)]


def _copy_rules(
    needed: list[RelationRef], by_head: Mapping[RelationRef, Sequence[CheckedRule]], moving: Collection[RelationRef]
) -> dict[RelationRef, list[CheckedRule]]:
    """The old versions of the rules of these relations, and of those that they read."""

    def in_copy(match: Match) -> Match:
        return replace(match, relation=old_version(match.relation)) if match.relation in moving else match

    copies: dict[RelationRef, list[CheckedRule]] = {}
    while needed:
        name = needed.pop()
        if name in moving and name in by_head and name not in copies:
            rules = by_head[name]
            bodies = [map_matches(rule.body, in_copy) for rule in rules]
            copies[name] = [
                replace(rule, relation=old_version(name), body=body) for rule, body in zip(rules, bodies, strict=True)
            ]
            needed += [relation for rule in rules for relation in rule.mentioned]
    return copies


def _refuse(match: Match) -> Diagnostic:
    message = f"there is no {match.relation}: the relation itself depends on the change"
    advice = "use old: only for a relation whose rules read neither old: nor heat:change"
    return Diagnostic("undefined-relation", message, match.span, advice)


def _dependents(read: Reads, roots: set[RelationRef]) -> frozenset[RelationRef]:
    """The roots and all relations that depend on them."""
    return close(roots, read.items(), lambda item, known: () if known.isdisjoint(item[1]) else item[:1])
