"""A policy whose rules hold only on other actions."""

from __future__ import annotations

from collections.abc import Mapping

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.linting import Found, Review, lint
from datalog_gate.analysis.policy import ACTIONS
from datalog_gate.analysis.strata import settle
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.schema.declaration import RelationRef, is_old, relation_name

ALL = frozenset[str](ACTIONS)
COMPARING = frozenset({"update", "restore", "rollback", "delete"})
"""The actions on an existing stack, which `old:` relations describe."""


@lint(
    code="never-fires",
    wrong='@deny("a", "{x}") p(x) :- os:nova:server(_id=x), gate:request("delete").',
    right='@deny("a", "{x}", on=["delete"]) p(x) :- os:nova:server(_id=x), gate:request("delete").',
)
def find_other_actions(review: Review) -> Found:
    possible: dict[RelationRef, frozenset[str]] = dict.fromkeys(review.by_relation, frozenset())

    def add_actions(rule: ir.CheckedRule) -> bool:
        before = possible[rule.relation]
        possible[rule.relation] |= _actions(review.body(rule), possible)
        return possible[rule.relation] != before

    settle(review.rules, add_actions)  # a least fixpoint: a relation that depends only on itself has no row
    for policy in review.own_policies:
        actions = possible.get(policy.relation, ALL)
        if actions and not actions & policy.on:
            judged = ", ".join(action for action in ACTIONS if action in policy.on)
            needed = ", ".join(action for action in ACTIONS if action in actions)
            message = f"{policy.id} is judged on {judged}, but its rules only hold on {needed}"
            names = ", ".join(f'"{action}"' for action in ACTIONS if action in actions - {"rollback"})
            suggestion = f"write on=[{names}]" if names else "no policy may gate rollback"
            yield Diagnostic("never-fires", message, policy.span, suggestion)


def _actions(body: BodyFacts, possible: Mapping[RelationRef, frozenset[str]]) -> frozenset[str]:
    """The actions on which the body can hold."""
    actions = ALL
    for literal in body.own:
        match literal:
            case ir.Without((ir.Match("gate:request", (ir.Const(str() as excluded),)),)):
                actions -= {excluded}
            case ir.Match(relation) if relation in possible:
                actions &= possible[relation]
            case ir.Match(relation):
                actions &= _actions_of_input(literal, body)
    return actions


def _actions_of_input(match: ir.Match, body: BodyFacts) -> frozenset[str]:
    """The actions on which a relation that no rule derives has rows that the body wants."""
    name = relation_name(match.relation)
    if name == "gate:request":
        action = match.arguments[0]
        unequal = [other for other in body.own if isinstance(other, ir.Compare) and other.comparator == "!="]
        excluded = {side for other in unequal for side in ir.operands(other) if action in ir.operands(other)}
        given = frozenset(text for text, _ in body.texts(action, match.span)) or ALL
        return given - {side.value for side in excluded if isinstance(side, ir.Const)}
    changes = {text for text, _ in body.texts(match.arguments[1], match.span)} if name == "heat:change" else ()
    if changes and "delete" not in changes:
        return COMPARING - {"delete"}
    return COMPARING if is_old(match.relation) or name in ("heat:change", "heat:disruption") else ALL
