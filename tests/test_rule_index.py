"""A rule that is added is checked as with all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalog_gate.analysis import rule_index
from datalog_gate.analysis.check import check
from datalog_gate.analysis.rule_index import RuleIndex, index_modules
from datalog_gate.base.errors import RulesError
from datalog_gate.language.ast import Module, Rule
from datalog_gate.language.parser import parse
from tests.refusals import refusals
from tests.sampling import ALL

OWN = parse(
    'relation limit(most: number).\nexport limit, small.\nlimit(3).\nsmall(x) :- limit(x), x < 9.\nhidden("a").',
    "own.dl",
    "own",
)[0]
HEADS = ["p(x)", "q(x)", "r(x, y)", "p(1)", "q('a')", "r(1, 'a')", "q(x, y)", "p('None')"]
LITERALS = [
    "p(x)",
    "q(x)",
    "r(x, y)",
    "r(y, x)",
    "b:p(x)",
    "b:r(x, y)",
    "a:q(x)",
    "not p(x)",
    "not b:q(x)",
    "not a:p(x)",
    "lt(x, 3)",
    "nova:tags(x, y)",
    "nova:tags(server_id=y, tag=x)",
    "neutronv2:security_group_rules(id=y, port_range_min=x)",
    "p(column1=x)",
    "nowhere(x)",
    "own:limit(x)",
    "own:small(x)",
    "own:hidden(x)",
    "own:limit(most=x)",
    "own:limit(least=x)",
    "q('None')",
]
RULES = st.tuples(st.sampled_from("ab"), st.sampled_from(HEADS), st.lists(st.sampled_from(LITERALS), max_size=3))


@settings(max_examples=300 if ALL else 4, deadline=None)  # each checks all rules up to nine times
@given(st.lists(st.one_of(RULES, st.integers(0, 9)), max_size=9))
def test_a_rule_is_refused_where_a_check_of_all_rules_refuses_it(steps: list[tuple[str, str, list[str]] | int]) -> None:
    index = index_modules([OWN], policies=["a", "b"])
    for at, step in enumerate(steps):
        rules = {identity: (rule.module, rule.rule) for identity, rule in index.rules.items()}
        if isinstance(step, int):
            gone = sorted(rules)[step : step + 1]
            after = {identity: rule for identity, rule in rules.items() if identity not in gone}
            answer = refused(partial(index.remove, gone))
        else:
            module, head, body = step
            rule = read(head + (f" :- {', '.join(body)}" if body else ""), f"r{at}")
            after = {**rules, f"r{at}": (module, rule)}
            answer = refused(partial(added, index, f"r{at}", module, rule))
        expected = refused(partial(index_modules, [OWN], after, ["a", "b"]))
        if isinstance(expected, RuleIndex):
            assert isinstance(answer, RuleIndex), (answer, texts(after))
            assert described(answer) == described(expected), texts(after)
            index = answer
        else:
            assert isinstance(answer, set), (expected, texts(after))
            assert set() < answer <= expected, texts(after)  # what is wrong in itself is not checked with others


def test_a_refusal_has_a_place_and_advice() -> None:
    index, _ = index_modules([OWN], policies=["a"]).add("r1", "a", read("error(x) :- nova:tags(x, y)", "r1"))
    with pytest.raises(RulesError) as raised:
        index.add("r2", "a", read("p(x) :- nova:servers(idd=x)", "r2"))
    (error,) = raised.value.diagnostics
    assert (error.code, str(error.span), error.suggestion) == ("unknown-column", "r2:1:22", "did you mean id?")
    problems = refusals(lambda: index.add("r2", "a", read("p(x) :- own:limt(least=x)", "r2")), "code", "suggestion")
    assert problems == [("undefined-relation", "did you mean own:limit?")]


def test_a_table_that_nothing_defines_is_a_warning_with_the_name_that_was_meant() -> None:
    index, _ = index_modules([]).add("r1", "a", read("offered('small')", "r1"))
    _, warnings = index.add("r2", "a", read("error(x) :- nova:flavors(name=x), not oferred(x)", "r2"))
    assert [(warning.message, warning.suggestion) for warning in warnings] == [
        ("nothing defines oferred: it is empty", "did you mean offered?")
    ]


def test_a_cycle_through_not_is_refused_by_whichever_rule_closes_it() -> None:
    texts_ = ["p(x) :- nova:tags(x, y), not a:q(x)", "q(x) :- r(x)", "r(x) :- p(x)"]
    for last in range(3):
        index = index_modules([], policies=["a"])
        for at, text in enumerate(texts_):
            if at != last:
                index, _ = index.add(f"r{at}", "a", read(text, f"r{at}"))
        with pytest.raises(RulesError) as raised:
            index.add("last", "a", read(texts_[last], "last"))
        assert [error.code for error in raised.value.diagnostics] == ["unstratified"]


def test_a_rule_that_others_need_can_not_be_removed() -> None:
    index, _ = index_modules([]).add("r1", "a", read("p(1)", "r1"))
    index, _ = index.add("r2", "a", read("p('a')", "r2"))
    index, _ = index.add("r3", "b", read("q(x) :- a:p(x), plus(x, 1, y)", "r3"))
    with pytest.raises(RulesError, match=r"r3:1:17: error\[kind-mismatch\]"):
        index.remove(["r1"])
    assert (index.readers("a"), index.remove(["r3"]).remove(["r1", "r2"]).relations) == (["r3"], {})
    assert index.without_policy("b").policies == {"a"}


def test_a_program_holds_what_a_relation_rests_on_and_nothing_else() -> None:
    index = index_modules([OWN], policies=["a", "b"])
    for at, (module, text) in enumerate(
        [("a", "p(x) :- q(x), own:small(x)"), ("a", "q(1)"), ("a", "other(1)"), ("b", "q(x) :- a:p(x)")]
    ):
        index, _ = index.add(f"r{at}", module, read(text, f"r{at}"))
    programs = [index.program_of(name) for name in ("a:p", "b:q", "a:other", "a:nothing")]
    assert [{module.name: len(module.statements) for module in modules} for modules in programs] == [
        {"own": 5, "a": 2},
        {"own": 5, "a": 2, "b": 1},
        {"a": 1},
        {"a": 0},
    ]


@pytest.mark.slow
def test_the_last_of_many_rules_is_checked_with_no_more_rules_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def count(modules: list[Module], **arguments: object) -> object:
        sizes.append(sum(isinstance(statement, Rule) for module in modules for statement in module.statements))
        return check(modules, **arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rule_index, "check", count)
    index = RuleIndex()
    for at in range(12):
        text = f"error(x, y) :- nova:servers(id=x, name='n{at}', flavor_id=y), not fine{at}(y)"
        index, _ = index.add(f"r{at}", "a", read(text, f"r{at}"))
        index, _ = index.add(f"f{at}", "a", read(f"fine{at}('m{at}')", f"f{at}"))
    assert max(sizes) == 3


def refused(action: Callable[[], RuleIndex]) -> RuleIndex | set[tuple[str, str, str, str]]:
    try:
        return action()
    except RulesError as error:
        return {
            (diagnostic.code, str(diagnostic.span), diagnostic.message, "")
            for diagnostic in error.diagnostics
            if diagnostic.severity == "error"
        }


def added(index: RuleIndex, identity: str, module: str, rule: Rule) -> RuleIndex:
    return index.add(identity, module, rule)[0]


def described(index: RuleIndex) -> Mapping[str, list[tuple[str, str]]]:
    return {
        name: [(column.name, column.kinds.describe() if column.kinds else "") for column in relation.columns]
        for name, relation in index.relations.items()
        if not name.startswith("own:")
    }


def texts(rules: Mapping[str, tuple[str, Rule]]) -> dict[str, str]:
    from datalog_gate.language.printer import print_module

    return {
        identity: f"{module}: {print_module(Module('x', 'x', (rule,)))}" for identity, (module, rule) in rules.items()
    }


def read(text: str, file: str) -> Rule:
    (rule,) = parse(text, file, "m", congress=True)[0].statements
    assert isinstance(rule, Rule)
    return rule
