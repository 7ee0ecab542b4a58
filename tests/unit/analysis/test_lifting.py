"""A lifted program judges many stacks at once as each alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import ROOTS, Facts, Lifted, lift, stack_inputs
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.unknowns import split
from datalog_gate.base.values import Row, Unknown
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.engine.budget import UNLIMITED
from datalog_gate.engine.least_model import ModelError
from datalog_gate.engine.native import evaluate
from datalog_gate.facts.digests import summarize
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import RelationRef, all_version, old_version, possible_version
from tests.programs import HERE, X, edge, facts, match, node, program, programs, short_budget, written
from tests.sampling import sample

ROOT = ir.Var("", "root")
Answer = tuple[dict[RelationRef, set[Row]], set[ModelError]]


def answer(program: CheckedProgram, facts: Facts, *, generated: bool = True) -> Answer:
    """The rows of all derived relations, and the errors. A generated case that takes too long is left out."""
    model = evaluate(program, facts, short_budget() if generated else UNLIMITED)
    assume(not model.exceeded)
    derived = [name for stratum in program.strata for name in stratum.relations]
    return {name: set(model.rows(name)) for name in derived}, set(model.errors)


def each_alone(
    program: CheckedProgram, lifted: Lifted, stacks: Mapping[str, Facts], *, generated: bool = True
) -> Answer:
    """The answers for each stack alone, joined, with the root before each row of a lifted relation."""
    rows: dict[RelationRef, set[Row]] = {}
    errors: set[ModelError] = set()
    for root, its_facts in stacks.items():

        def widen(name: RelationRef, row: Row, root: str = root) -> Row:
            return (root, *row) if name in lifted.relations else row

        its_rows, its_errors = answer(program, its_facts, generated=generated)
        for name, derived in its_rows.items():
            rows.setdefault(name, set()).update(widen(name, row) for row in derived)
        errors.update(replace(error, row=widen(error.relation, error.row)) for error in its_errors)
    return rows, errors


Case = tuple[CheckedProgram, frozenset[str], dict[str, Facts]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A program, the inputs that stacks fill, and the facts of up to three stacks. They share those of other inputs."""
    drawn = draw(programs())
    inputs = draw(st.frozensets(st.sampled_from(sorted(map(str, drawn.inputs)))))
    shared, *own = draw(st.lists(facts(), min_size=2, max_size=4))
    stacks: dict[str, Facts] = {}
    for at, rows in enumerate(own):
        stacks[f"s{at}"] = {**shared, **{name: rows[name] for name in inputs}}
    return drawn, inputs, stacks


@settings(max_examples=sample(400), deadline=None)
@given(cases())
def test_many_stacks_at_once_have_the_rows_and_errors_of_each_alone(case: Case) -> None:
    program, inputs, stacks = case
    lifted = lift(program, inputs)
    assert answer(lifted.program, lifted.facts(stacks)) == each_alone(program, lifted, stacks), written(program, {})


@settings(max_examples=sample(400), deadline=None)
@given(cases())
def test_many_stacks_at_once_agree_in_certain_and_possible_versions(case: Case) -> None:
    original, inputs, stacks = case
    unknown: dict[RelationRef, frozenset[int]] = {}
    for name, rows in ((name, rows) for facts_of in stacks.values() for name, rows in facts_of.items()):
        columns = {at for row in rows for at, value in enumerate(row) if isinstance(value, Unknown)}
        unknown[name] = unknown.get(name, frozenset()) | columns
    program = split(original, unknown, ())
    lifted = lift(program, inputs | {possible_version(name) for name in inputs})
    both = {
        root: {**its, **{possible_version(name): rows for name, rows in its.items()}} for root, its in stacks.items()
    }
    assert answer(lifted.program, lifted.facts(both)) == each_alone(program, lifted, both), written(program, {})


@pytest.mark.slow
def test_the_fixtures_at_once_have_the_rows_of_each_alone() -> None:
    rules = dg.load_rules("rules")
    sets = {
        folder.name: flatten(dg.read_stack(folder), SHIPPED, {str(name) for name in rules.program.inputs})
        for folder in sorted(Path("fixtures/stacks").iterdir())
        if (folder / "template.yaml").exists()
    }
    unknown: dict[RelationRef, frozenset[int]] = {}
    for factset in sets.values():
        for name, columns in summarize(factset).unknown.items():
            unknown[name] = columns | unknown.get(name, frozenset())
    maybe = {name for factset in sets.values() for name, rows in factset.maybe.items() if rows}
    program = split(rules.program, unknown, maybe)
    lifted = lift(program, stack_inputs(program, SHIPPED))
    stacks = {root: versions(factset) for root, factset in sets.items()}
    expected = each_alone(program, lifted, stacks, generated=False)
    assert answer(lifted.program, lifted.facts(stacks), generated=False) == expected
    assert {root for policy in rules.policies for root, *_ in expected[0][policy.relation]} > {"bastion", "staging"}


def versions(factset: FactSet) -> Facts:
    """The certain rows, and all rows in the possible versions."""
    certain = {name: [row for row in rows if row not in factset.maybe[name]] for name, rows in factset.rows.items()}
    return {**certain, **{possible_version(name): list(rows) for name, rows in factset.rows.items()}}


def test_only_relations_that_depend_on_a_stack_get_its_root() -> None:
    text = """@deny("p", "{x}")
        p(x) :- heat:resource(id=x, name=n), not listed(n), few(m), m > 1, all:heat:stack(id=n), whole(k), k > 0.
        listed(n) :- nova:servers(name=n), n != null.
        few(m) :- m = count{ x : heat:resource(id=x), gate:service(_) }.
        whole(k) :- k = count{ x : all:heat:stack(id=x) }.
        @warn("q", "{x}")
        q(x) :- heat:resource(id=x), not old:heat:resource(id=x), heat:change(x, _), gate:unlocked("edge", x).
        @unlock("edge") open(g) :- gate:grant(id=g).
    """
    rules = load([RuleFile("m", "m.dl", text)])
    lifted = lift(rules.program, stack_inputs(rules.program, SHIPPED))
    own = {"heat:resource", old_version("heat:resource"), "heat:change", "gate:grant", "gate:grant_scope"}
    assert lifted.relations - own == {"gate:effective#", "gate:unlocked", "m:p", "m:q", "m:few", "m:open"}
    shared = {ROOTS, "nova:servers", "gate:service", all_version("heat:stack")}
    assert lifted.program.inputs - lifted.relations == shared
    assert [column.name for column in lifted.program.relations["m:few"].columns] == [ROOTS, "m"]
    assert lifted.program.relations["heat:resource"].key == (ROOTS, "id")


def test_a_rule_that_only_negates_relations_of_stacks_is_evaluated_for_each_root() -> None:
    rule = ir.CheckedRule("p", (X,), (node(X), ir.Without((edge(X, None),), HERE)), HERE)
    original = program(ir.Stratum(("p",), (rule,), False))
    lifted = lift(original, {"edge"})
    body = (match(ROOTS, ROOT), node(X), ir.Without((edge(ROOT, X, None),), HERE))
    assert list(lifted.program.rules) == [ir.CheckedRule("p", (ROOT, X), body, HERE)]
    stacks: dict[str, Facts] = {"a": {"node": [(1,), (2,)], "edge": [(1, 1)]}, "b": {"node": [(1,), (2,)]}}
    rows: set[Row] = {("a", 2), ("b", 1), ("b", 2)}
    assert answer(lifted.program, lifted.facts(stacks)) == ({"p": rows}, set())
