"""Derivation trees for rows that hold or do not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalog_gate.analysis.program import (
    CheckedProgram,
    CheckedRule,
    Compare,
    Const,
    Fold,
    Match,
    Pattern,
    Stratum,
    Var,
    Without,
)
from datalog_gate.base.errors import BudgetError
from datalog_gate.base.values import Row, row_key
from datalog_gate.decision.findings import FactUse, find_support
from datalog_gate.engine import native
from datalog_gate.engine.budget import Budget, Watch
from datalog_gate.engine.least_model import Model
from datalog_gate.engine.provenance import Provenance
from datalog_gate.explain.why import Failure, Node, Premise, RowPattern, Total, Why
from datalog_gate.schema.declaration import RelationRef
from tests.programs import Facts, X, Y, Z, facts, place, program, programs, shuffled
from tests.sampling import sample

N = Var("n")


def read(relation: RelationRef, *arguments: Pattern, line: int = 1) -> Match:
    return Match(relation, arguments, place(line))


def explained(checked: CheckedProgram, given_facts: Facts) -> Why:
    return Why(Provenance(checked, native.evaluate(checked, given_facts)))


BASE = CheckedRule("reach", (X, Y), (read("edge", X, Y),), place(2))
STEP = CheckedRule("reach", (X, Y), (read("reach", X, Z, line=3), read("edge", Z, Y, line=4)), place(3))
CLOSURE = program(Stratum(("reach",), (STEP, BASE), True))
ABSENT = Without((read("node", X),), place(6))
COUNT = Fold("count", (Y,), (read("edge", X, Y),), N, place(7))
FEW = Compare("<", N, Const(9), place(8))
CHECKED = CheckedRule("p", (X, N), (FEW, COUNT, ABSENT, read("edge", X, None, line=5)), place(5))


def test_a_tree_ends_in_facts_and_says_what_was_looked_at() -> None:
    why = explained(program(Stratum(("p",), (CHECKED,), False)), {"node": [(2,)], "edge": [(1, at) for at in range(8)]})
    assert why.why("p", (1, 8)) == Node(
        "p", (1, 8), (), CHECKED, {X: 1, N: 8},
        (Node("edge", (1, 0), (0,)), ABSENT, Total(COUNT, 8, 8, (0, 1, 2, 3, 4)), FEW),
    )  # fmt: skip


def test_a_chain_is_followed_as_far_as_is_asked_and_no_further() -> None:
    why = explained(CLOSURE, {"node": [], "edge": [(at, at + 1) for at in range(400)]})
    below = (Node("reach", (0, 398), (0, 1), followed=False), Node("edge", (398, 399), (0, 1)))
    last = Node("reach", (0, 399), (0, 1), STEP, {X: 0, Y: 399, Z: 398}, below)
    assert why.why("reach", (0, 400), 2) == Node(
        "reach", (0, 400), (), STEP, {X: 0, Y: 400, Z: 399}, (last, Node("edge", (399, 400), (0, 1)))
    )


def test_what_would_take_too_long_to_find_is_not_followed() -> None:
    most = Compare("<", Const(9), N, place(8))
    pairs = Fold("count", (Y, Z), (read("node", Y), read("node", Z), Compare("!=", Y, Z, place(8))), N, place(7))
    many = CheckedRule("p", (X, N), (read("node", X), pairs, most), place(6))
    other = CheckedRule("p", (X, Y), (read("edge", X, Y),), place(9))
    checked = program(Stratum(("p",), (many, other), False))
    model = native.evaluate(checked, {"node": [(at,) for at in range(150)], "edge": []})
    few, enough = (Provenance(checked, model, Watch(Budget(looks=looks))) for looks in (10_000, 1_000_000))
    assert Why(few).why("p", (7, 150 * 149)) == Node("p", (7, 150 * 149), followed=False)
    assert find_support(few, "p", (7, 150 * 149))[:2] == ([], set())
    assert find_support(enough, "p", (7, 150 * 149))[:2] == ([FactUse("node", (7,), (0,))], set())


@pytest.mark.slow
def test_an_aggregate_of_too_much_is_not_gone_through() -> None:
    pairs = Fold("count", (Y, Z), (read("node", Y), read("node", Z)), N, place(7))
    checked = program(Stratum(("p",), (CheckedRule("p", (N,), (pairs,), place(6)),), False))
    why = explained(checked, {"node": [(at,) for at in range(450)], "edge": []})
    assert why.why("p", (450 * 450,)) == Node("p", (450 * 450,), followed=False)
    with pytest.raises(BudgetError, match="more than 200,000 rows looked at"):
        why.why_not("p", (5,))


def above(node: Node) -> list[tuple[Node, frozenset[tuple[RelationRef, Row]]]]:
    """Each row of the tree, with those on the way to it from the root."""
    nodes = [(node, frozenset[tuple[RelationRef, Row]]())]
    for above_it, path in nodes:
        below = (premise for premise in above_it.premises if isinstance(premise, Node))
        nodes += [(premise, path | {(above_it.relation, above_it.row)}) for premise in below]
    return nodes


@pytest.mark.slow
@settings(max_examples=sample(150), suppress_health_check=list(HealthCheck))
@given(programs(), facts(), st.data())
def test_every_tree_replays_and_no_order_changes_it(
    checked: CheckedProgram, given_facts: Facts, data: st.DataObject
) -> None:
    why = explained(checked, given_facts)
    model = native.evaluate(checked, given_facts)
    rows = {name: set(model.rows(name)) for name in checked.relations}
    other = explained(
        data.draw(shuffled(checked)), {name: data.draw(st.permutations(some)) for name, some in given_facts.items()}
    )
    for name, row in [(name, row) for name, some in rows.items() for row in some]:
        tree = why.why(name, row, 100, 100)
        assert format_tree(other.why(name, row, 100, 100)) == format_tree(tree)
        for node, path in above(tree):
            assert node.row in rows[node.relation]
            assert (node.relation, node.row) not in path
            if node.rule is None:
                assert node.relation in checked.inputs or not node.followed
                continue
            assert len(node.premises) == len(node.rule.body)
            below = iter([premise.row for premise in node.premises if isinstance(premise, Node)])
            ordered = sorted(
                (literal for literal in node.rule.body if isinstance(literal, Match)), key=lambda match: match.span
            )
            by_match = {match.span: next(below) for match in ordered}
            chosen = [by_match[literal.span] for literal in node.rule.body if isinstance(literal, Match)]
            assert replayed(node.rule, chosen, model, tuple(node.binding)) == [(*node.row, *node.binding.values())]
            for premise in node.premises:
                if isinstance(premise, Total):
                    assert node.binding[premise.literal.target] == premise.value
                    assert (len(premise.first), sorted(premise.first, key=lambda value: row_key((value,)))) == (
                        min(premise.contributors, 5), list(premise.first))  # fmt: skip


def replayed(rule: CheckedRule, chosen: list[Row], model: Model, variables: tuple[Var, ...]) -> list[Row]:
    """The rows of the head, each with the values of the variables, if the matches of the rule read these rows alone."""
    facts: Facts = {f"chosen {at}": [row] for at, row in enumerate(chosen)}
    names = iter(facts)
    body = tuple(replace(part, relation=next(names)) if isinstance(part, Match) else part for part in rule.body)
    replay = CheckedRule("replay", (*rule.arguments, *variables), body, rule.span)
    inputs = {str(name): len(row) for name, (row,) in facts.items()}
    return list(
        native.evaluate(program(Stratum(("replay",), (replay,), False), inputs=inputs), facts, before=model).rows(
            "replay"
        )
    )


def format_tree(node: Node) -> object:
    """The tree without the order in which bodies stand."""
    return [_format_node(ancestor) for ancestor, _ in above(node)]


def _format_node(node: Node) -> object:
    premises = [_format_premise(premise) for premise in node.premises]
    return node.relation, node.row, node.columns, node.rule and node.rule.span, node.binding, node.followed, premises


def _format_premise(premise: Premise) -> object:
    if isinstance(premise, Total):
        return premise.value, premise.contributors, premise.first
    return premise.row if isinstance(premise, Node) else premise.span


NOT = CheckedRule(
    "q", (X,), (read("edge", X, Y), Without((read("node", Y),), place(3)), read("edge", Y, Z, line=4)), place(2)
)
SMALL = CheckedRule("q", (X,), (read("node", X), Compare("<", X, Const(3), place(6))), place(5))
CONSTANT = CheckedRule("q", (Const(7),), (), place(7))
QUESTIONS = program(Stratum(("q",), (SMALL, CONSTANT, NOT), False))


def test_why_not_shows_where_each_rule_fails() -> None:
    why = explained(QUESTIONS, {"node": [(5,), (4,)], "edge": [(5, 4), (5, 8), (9, 9)]})
    questions: list[RowPattern] = [(5,), (9,), (...,)]
    answers = {row: why.why_not("q", row) for row in questions}
    assert answers == {
        (5,): (
            Failure(NOT, NOT.body[2], {X: 5, Y: 8}),
            Failure(SMALL, SMALL.body[1], {X: 5}),
            Failure(CONSTANT, None, {}),
        ),
        (9,): None,
        (...,): None,
    }
