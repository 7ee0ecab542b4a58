"""Policies that judge nothing, or one of two forms of a template."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import constants
from datalog_gate.analysis.policy import ACTIONS, Policy
from datalog_gate.analysis.strata import settle
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.schema.declaration import RelationRef, is_old, relation_name

ALL = frozenset[str](ACTIONS)
COMPARING = frozenset({"update", "restore", "rollback", "delete"})
"""The actions on an existing stack, which `old:` relations describe."""
OF_CHANGES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "heat:change": {
        "create": COMPARING - {"delete"},
        "update": COMPARING - {"delete"},
        "replace": COMPARING - {"delete"},
    },
    "heat:disruption": {},
}
"""The actions on which relations of a change have rows, by constant, if not on all comparing ones."""
INLINE, SEPARATE = "os:neutron:security_group.rules", "os:neutron:security_group_rule"
"""Two forms of the same thing: rules listed in a security group, and rules as resources of their own."""


def find_idle_policies(
    rules: Sequence[ir.CheckedRule], policies: Sequence[Policy], read: Collection[str] = ()
) -> Iterator[Diagnostic]:
    """Find policies that judge less than their rules say. `read` are the relations that other rules read."""
    yield from _find_other_actions(rules, policies)
    yield from _find_single_forms(rules, policies, read)


def _find_other_actions(rules: Sequence[ir.CheckedRule], policies: Sequence[Policy]) -> Iterator[Diagnostic]:
    """Report the policies whose rules need an action on which they are not judged."""
    by_relation: dict[RelationRef, list[ir.CheckedRule]] = {}
    for rule in rules:
        by_relation.setdefault(rule.relation, []).append(rule)
    possible: dict[RelationRef, frozenset[str]] = dict.fromkeys(by_relation, frozenset())

    def add_actions(rule: ir.CheckedRule) -> bool:
        before = possible[rule.relation]
        possible[rule.relation] |= _actions(rule.body, possible, by_relation)
        return possible[rule.relation] != before

    settle(rules, add_actions)  # a least fixpoint: a relation that depends only on itself has no row
    for policy in policies:
        actions = possible.get(policy.relation, ALL)
        if actions and not actions & policy.on:
            judged = ", ".join(action for action in ACTIONS if action in policy.on)
            needed = ", ".join(action for action in ACTIONS if action in actions)
            message = f"{policy.id} is judged on {judged}, but its rules only hold on {needed}"
            names = ", ".join(f'"{action}"' for action in ACTIONS if action in actions - {"rollback"})
            suggestion = f"write on=[{names}]" if names else "no policy may gate rollback"
            yield Diagnostic("never-fires", message, policy.span, suggestion)


def _actions(
    body: Sequence[ir.CheckedLiteral],
    possible: Mapping[RelationRef, frozenset[str]],
    rules: Mapping[RelationRef, Sequence[ir.CheckedRule]],
) -> frozenset[str]:
    """The actions on which the body can hold."""
    actions = ALL
    for literal in body:
        if isinstance(literal, ir.Without) and len(literal.body) == 1:
            match literal.body[0]:
                case ir.Match("gate:request", (ir.Const(str() as excluded),)):
                    actions -= {excluded}
        if not isinstance(literal, ir.Match):
            continue
        name = relation_name(literal.relation)
        if literal.relation in possible:
            actions &= possible[literal.relation]
        elif name == "gate:request":
            action = literal.arguments[0]
            if given := _constants(action, literal, body, rules):
                actions &= frozenset(given)
            actions -= {
                str(side.value)
                for other in body
                if isinstance(other, ir.Compare) and other.comparator == "!=" and action in (other.left, other.right)
                for side in (other.left, other.right)
                if isinstance(side, ir.Const)
            }
        elif name in OF_CHANGES:
            given = _constants(literal.arguments[1], literal, body, rules)
            narrow = OF_CHANGES[name]
            actions &= frozenset[str]().union(*(narrow.get(change, COMPARING) for change in given or [""]))
        elif is_old(literal.relation):
            actions &= COMPARING
    return actions


def _constants(
    operand: ir.Pattern,
    match: ir.Match,
    body: Sequence[ir.CheckedLiteral],
    rules: Mapping[RelationRef, Sequence[ir.CheckedRule]],
) -> list[str]:
    """The texts that the body allows for the operand; none if it does not restrict it."""
    given = [str(constant.value) for constant, _ in constants(operand, match.span, body)]
    for literal in body:
        if isinstance(literal, ir.Match) and literal is not match and literal.arguments == (operand,):
            facts = rules.get(literal.relation, ())
            if facts and all(not rule.body and isinstance(rule.arguments[0], ir.Const) for rule in facts):
                given += [str(rule.arguments[0].value) for rule in facts if isinstance(rule.arguments[0], ir.Const)]
    return given


def _find_single_forms(
    rules: Sequence[ir.CheckedRule], policies: Sequence[Policy], elsewhere: Collection[str]
) -> Iterator[Diagnostic]:
    """Report policies that read one of two forms when no rule reads the other."""
    read: dict[RelationRef, set[RelationRef]] = {}
    for rule in rules:
        read.setdefault(rule.relation, set()).update(rule.mentioned)
    everything = {relation_name(name) for names in read.values() for name in names}.union(elsewhere)
    if (INLINE in everything) == (SEPARATE in everything):
        return
    read_form, other = (INLINE, SEPARATE) if INLINE in everything else (SEPARATE, INLINE)
    for policy in policies:
        if read_form in map(relation_name, _below(policy.relation, read)):
            message = f"{policy.id} reads {read_form}, but a template can also say the same with {other}"
            bare = policy.relation.rpartition(":")[2]
            suggestion = f"add a second rule of {bare} that reads {other}"
            yield Diagnostic("one-form", message, policy.span, suggestion, "warning")


def _below(relation: RelationRef, read: Mapping[RelationRef, Collection[RelationRef]]) -> set[RelationRef]:
    """All relations that a relation depends on."""
    below: set[RelationRef] = set()
    waiting: list[RelationRef] = [relation]
    while waiting:
        for name in read.get(waiting.pop(), ()):
            if name not in below:
                below.add(name)
                waiting.append(name)
    return below
