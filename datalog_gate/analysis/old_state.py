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
from datalog_gate.schema.relations import TRANSITION

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
    rules: Sequence[CheckedRule],
    relations: Mapping[RelationRef, Relation],
    stack_inputs: Collection[str],
    catalogue: Catalogue,
) -> tuple[list[CheckedRule], dict[RelationRef, Relation], list[Diagnostic]]:
    """Add copies of the rules that are read as `old:p`, and drop the stand-ins. Return the rules, the relations that
    the copies add, and diagnostics. `stack_inputs` are the inputs, besides those of the catalogue, that stacks fill. A
    relation that depends on the change itself has no old version."""
    own = [rule for rule in rules if not is_old(rule.relation)]
    by_head = group_rules(own)
    read = {
        name: set[RelationRef]().union(*(rule.mentioned for rule in its_rules)) for name, its_rules in by_head.items()
    }
    inputs = {name for names in read.values() for name in names} - by_head.keys()
    current = {name for name in inputs if not is_old(name)}
    moving = _dependents(
        read, {name for name in current if name in stack_inputs or catalogue.relation(old_version(name))}
    )
    changing = _dependents(read, {name for name in inputs if is_old(name) or name in TRANSITION - {"gate:request"}})

    def in_original(match: Match) -> Match:
        plain = current_version(match.relation)
        is_right = plain == match.relation or plain in moving or catalogue.relation(match.relation)
        return match if is_right else replace(match, relation=plain)

    def in_copy(match: Match) -> Match:
        return replace(match, relation=old_version(match.relation)) if match.relation in moving else match

    old_matches = [match for rule in own for match in matches(rule.body) if is_old(match.relation)]
    wrong = [match for match in old_matches if current_version(match.relation) in changing]
    why = "the relation itself depends on the change"
    advice = "use old: only for a relation whose rules read neither old: nor heat:change"
    messages = [(f"there is no {match.relation}: {why}", match.span) for match in wrong]
    diagnostics = [Diagnostic("undefined-relation", message, span, advice) for message, span in messages]
    copies: dict[RelationRef, list[CheckedRule]] = {}
    waiting = [] if wrong else [current_version(match.relation) for match in old_matches]
    while waiting:
        name = waiting.pop()
        if name in moving and name in by_head and name not in copies:
            copies[name] = [
                replace(rule, relation=old_version(name), body=map_matches(rule.body, in_copy))
                for rule in by_head[name]
            ]
            waiting += read[name]
    originals = [
        rule if (body := map_matches(rule.body, in_original)) is rule.body else replace(rule, body=body) for rule in own
    ]
    names = copies.keys() | {name for copied in copies for name in read[copied] & moving}
    added = {old_version(name): replace(relations[name], old=True) for name in names}
    return originals + [rule for copied in copies.values() for rule in copied], added, diagnostics


def _dependents(read: Reads, roots: set[RelationRef]) -> frozenset[RelationRef]:
    """The roots and all relations that depend on them."""
    return close(roots, read.items(), lambda item, known: () if known.isdisjoint(item[1]) else item[:1])
