"""The meaning of rules, from their text to rows."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.analysis.program import find_input
from datalog_gate.base.diagnostics import Span
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from tests.refusals import refusals, rule_problems
from tests.sampling import sample

Facts = dict[str, list[tuple[object, ...]]]
NULLS: Facts = {"q": [(1, None), (2, 5), (3, None)], "r": [(None,), (5,)]}

ROWS: dict[str, tuple[str, Facts, set[tuple[object, ...]]]] = {
    "an equation hands a null on": ("p(x, y) :- x = null, y = x.", {}, {(None, None)}),
    "an equation gives its variable even null": ("p(x, z) :- q(x, y), z = y.", NULLS, {(1, None), (2, 5), (3, None)}),
    "one point nought is one": ("p(x) :- s(x), x = 1.0.", {"s": [(1,), (2,)]}, {(1,)}),
    "or binds what every branch binds": ("p(x) :- (q(x, 5) or r(x)), x != null.", NULLS, {(2,), (5,)}),
    "a list of choices binds": ('p(x) :- x in ["a", "b"].', {}, {("a",), ("b",)}),
    "a list of choices tests": ("p(x) :- q(x, _), x in [3, 4].", NULLS, {(3,)}),
    "not over alternatives is none of them": ("p(x) :- q(x, _), not (x = 1 or q(x, 5)).", NULLS, {(3,)}),
    "a name that only not holds is local": ("p(x) :- q(x, _), not (q(z, 5), z = x + 1).", NULLS, {(2,), (3,)}),
    "a variable of an arithmetic argument": ("p(x + 1) :- q(x, _).", NULLS, {(2,), (3,), (4,)}),
    "true and false as literals": ("p(1) :- true. p(2) :- false. p(3) :- (false or true).", {}, {(1,), (3,)}),
    "an aggregate groups by what is outside": (
        "p(x, n) :- q(x, _), n = count{ y : q(x, y) }.",
        NULLS,
        {(1, 0), (2, 1), (3, 0)},
    ),
    "an aggregate as an argument": ("p(count{ x : q(x, _) }).", NULLS, {(3,)}),
    "three sets have locals of their own": (
        "p(n, m, o) :- n = count{ x : q(x, y) }, m = count{ x : q(_, x) }, o = count{ z : q(z, y) }.",
        NULLS,
        {(3, 1, 3)},
    ),
    "a relation by the name that a query has for itself": ("answer(x) :- q(x, 5). p(x) :- answer(x).", NULLS, {(2,)}),
    "a join of facts of several kinds finds what is equal": (
        "p(x) :- s(x), t(x).",
        {"s": [(1,), (None,), ("b",)], "t": [("1",), (True,), ("b",)]},
        {("b",)},
    ),
    "recursion": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).",
        {"e": [(1, 2), (2, 1)]},
        {(1, 1), (1, 2), (2, 1), (2, 2)},
    ),
    "a declared relation is padded": ("relation s(a: number, b: number). s(1, 2). p(x) :- s(x).", {}, {(1,)}),
    "a declared relation takes names, under not too": (
        "relation s(a: number, b: number). s(1, 2). p(x) :- q(x, _), not s(a=x).",
        NULLS,
        {(2,), (3,)},
    ),
    "facts come to the rules of a relation": ("q(7, 8). p(x) :- q(x, _).", NULLS, {(1,), (2,), (3,), (7,)}),
}


@pytest.mark.parametrize("name", ROWS)
def test_rules_derive(name: str) -> None:
    rules, facts, rows = ROWS[name]
    width = len(next(iter(rows)))
    assert dg.query(rules, f"p({', '.join('abc'[:width])})", facts=facts) == rows


@pytest.mark.parametrize("rules", ["q(1, 2). p(x) :- q(x, _).", "relation q(a: number, b: number). p(x) :- q(x, _)."])
def test_facts_of_another_width_than_the_rules_are_refused(rules: str) -> None:
    problems = refusals(lambda: dg.query(rules, "p(x)", facts={"q": [(1, 2, 3)]}), "message")
    assert problems == ["rules:q has 2 columns, found 3"]


@given(st.permutations(["q(x, y)", "y != null", "z = y + 1", "not r(z)", "w = count{ v : q(v, z) }", "w < 1"]))
@settings(max_examples=sample(40))
def test_the_order_of_literals_changes_nothing(literals: list[str]) -> None:
    rules = f"p(x, z, w) :- {', '.join(literals)}."
    assert dg.query(rules, "p(x, z, w)", facts=NULLS) == {(2, 6, 0)}


def test_a_module_reads_what_another_exports() -> None:
    texts = {
        "net:ssh": "export open. open(1). closed(2).",
        "a": "import net:ssh. @deny p(x) :- open(x).",
        "b": "@deny p(x) :- net:ssh:open(x).",
    }
    policies = _load(**texts)
    assert {policy.id: sorted(policies.reads[policy.relation]) for policy in policies.policies} == {
        "a:p": ["a:p", "net:ssh:open"],
        "b:p": ["b:p", "net:ssh:open"],
    }


def test_a_pack_that_is_loaded_alone_imports_its_neighbours() -> None:
    ssh, reader = "export open. open(1).", "import net:ssh. @deny p(x) :- open(x)."
    assert {policy.id: sorted(policies.reads[policy.relation]) for policies in [_load(ssh=ssh, a=reader)]
            for policy in policies.policies} == {"a:p": ["a:p", "ssh:open"]}  # fmt: skip
    assert refusals(lambda: _load(**{"ssh": ssh, "other:a": reader}), "message") == ["there is no module net:ssh"]


def test_a_declaration_is_of_its_own_module() -> None:
    assert _load(m='relation m:t(a: string). m:t("x"). @deny("a") p(x) :- t(x).').warnings == ()
    wrong = 'relation heat:t(a: string). @deny("a") p(x) :- heat:stack(id=x).'
    assert refusals(lambda: _load(m=wrong), "message") == ["m can't declare heat:t"]


def test_a_policy_has_all_values_of_its_annotation() -> None:
    text = """@warn("a.b", "{n} of {x}", hint="less", doc="d", tags=["t"], on=["create"], on_unknown="deny",
      subject="x", enforce_from="2027-03-01", key="x")
p(n, x) :- heat:member(group=x, index=n)."""
    (policy,) = _load(m=text).policies
    assert (policy.id, policy.level, policy.relation, policy.columns) == ("a.b", "warn", "m:p", ("n", "x"))
    assert (policy.message, policy.hint, policy.on) == ("{n} of {x}", "less", frozenset({"create"}))
    assert policy.on_unknown == "deny"
    assert (policy.subject, policy.enforce_from, policy.span) == (1, date(2027, 3, 1), Span("m.dl", 3, 1, 3, 8))
    assert (policy.texts["doc"], policy.lists) == ("d", {"tags": ("t",), "on": ("create",), "key": ("x",)})


def test_plain_error_and_warning_heads_are_policies() -> None:
    policies = _load(m="error(x) :- heat:stack(id=x). warning(x, 1) :- heat:stack(id=x).").policies
    assert [(policy.id, policy.level, policy.message) for policy in policies] == [
        ("m:error", "deny", "error({x})"),
        ("m:warning", "warn", "warning({x})"),
    ]


def test_only_written_variables_are_reported_as_unbound() -> None:
    rule = "@deny p(x + 1, count{ y : heat:member(group=x, id=y) }) :- heat:stack(id=_)."
    assert refusals(lambda: _load(m=rule), "message") == ["nothing binds x"]


def test_what_groups_an_aggregate_is_reported_alone() -> None:
    rule = "@deny p(x, f, n) :- heat:stack(id=x), n = count{ fy : os:nova:server(_stack=x, _id=fy, flavor=f) }."
    assert refusals(lambda: _load(m=rule), "message", "suggestion") == [
        (
            "nothing binds f; heat:stack (m.dl:1:21) binds x",
            "an aggregate does not bind the variables that group it: also use f in a relation beside it",
        )
    ]


def test_a_head_with_the_name_of_its_own_module_is_a_policy_too() -> None:
    policies = _load(m="m:error(x) :- heat:stack(id=x). @warn m:p(x) :- heat:stack(id=x).").policies
    assert [(policy.id, policy.level) for policy in policies] == [("m:error", "deny"), ("m:p", "warn")]


@pytest.mark.parametrize("query", ["answer(x)", ":- answer(x)"])
def test_a_query_hides_no_relation_by_a_name_of_its_own(query: str) -> None:
    assert dg.query("answer(x) :- q(x).", query, facts={"q": [(1,)], "answer": [(2,)]}) == {(1,), (2,)}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lt", "lt is a builtin, and not declared as a relation"),
        ("contains", "contains is a builtin, and not declared as a relation"),
        ("rules:in#1.14", "rules:in#1.14 is not the name of a relation"),
        ("query#:answer#", "query#:answer# is not the name of a relation"),
    ],
)
def test_facts_hide_no_builtin_and_nothing_of_the_analysis(name: str, message: str) -> None:
    rule, facts = "p(x) :- q(x), x in [1, 2], lt(x, 2).", {"q": [(1,), (7,)], name: [(7,)]}
    assert refusals(lambda: dg.query(rule, "p(x)", facts=facts), "message") == [message]


def test_facts_under_the_full_name_of_a_relation_join_its_rows_of_other_kinds() -> None:
    assert dg.query("r(1). p(x) :- rules:r(x).", "p(x)", facts={"rules:r": [("a",)]}) == {(1,), ("a",)}


NESTED = "r(1). @deny p(x) :- r(x), " + "not ((r(1) or r(2)), (r(1) or r(3)), (r(4) or " * 8 + "r(5)" + "))" * 8 + "."
SEVERAL = "r(1).\n@deny s(1) :- r(1).\n" + "p(x) :- r(x), (" + " or ".join(["r(1)"] * 1000) + ").\n"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (NESTED, ["the alternatives of this rule multiply to more than 20000 conditions"]),
        (
            f"r(1). @deny p(x) :- r(x){', not r(2)' * 1000}.",
            ["this rule has an alternative with more than 1000 conditions"],
        ),
        pytest.param(
            SEVERAL * 51,
            ["the large rules have more than 100000 conditions when their alternatives are multiplied out"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_alternatives_are_bounded_however_they_nest(text: str, messages: list[str]) -> None:
    problems = refusals(lambda: _load(m=text), "code", "message")
    assert [message for code, message in problems if code == "too-complex"] == messages


@pytest.mark.parametrize(
    ("head", "body", "subject"),
    [
        ("p(n, r)", "heat:resource(id=r, name=n)", 1),
        ("p(f, s)", "os:nova:server(_id=s, flavor=f)", 1),
        ("p(f)", "os:nova:server(flavor=f)", 0),
        ("p(n)", "heat:resource(name=n)", None),
    ],
)
def test_the_subject_is_the_first_column_of_resources(head: str, body: str, subject: int | None) -> None:
    assert _load(m=f"@deny {head} :- {body}.").policies[0].subject == subject


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), n > 1.", ["nullable"]),
        ("q(x, n) :- os:cinder:volume(_id=x, size=n). @deny p(x) :- q(x, n), n > 1.", ["nullable"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), n != null, n > 1.", []),
        ('@deny p(x) :- os:cinder:volume(_id=x, size=n), n > "1".', ["nullable", "kind-mismatch"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), heat:stack(id=n).", ["kind-mismatch"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, name=n), n = 3.", ["kind-mismatch"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, name=n), lower(n, m), m != x.", ["nullable", "kind-mismatch"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), m = n, m > 1.", ["nullable"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), m = n ?? null, m > 1.", ["nullable"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), os:cinder:volume(size=k), n = k, n > 1.", []),
        ("@deny p(x) :- os:cinder:volume(_id=x), not (os:cinder:volume(_id=x, size=n), n > 1).", ["nullable"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), n != null, not heat:stack(id=n).", ["kind-mismatch"]),
        ("@deny p(x) :- os:cinder:volume(_id=x, size=n), not heat:stack(id=n), n != null.", ["kind-mismatch"]),
        ("@deny p(n) :- n = sum{ x : heat:stack(id=x) }.", ["kind-mismatch"]),
        ("@deny p(x) :- heat:stack(id=x, parent=null).", []),
    ],
)
def test_kinds_and_nulls_are_judged_across_rules(text: str, codes: list[str]) -> None:
    assert sorted(problem.code for problem in rule_problems(text)) == sorted(codes)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ('@deny("a", on=[])', "`on` is empty, so the policy would judge nothing"),
        ('@deny("a", on=["crate"])', "on can't be 'crate'"),
        ('@deny("a", on=["rollback"])', "no policy may gate rollback"),
        ('@deny("a", "no {}")', "the message names , which is not a column of the head"),
        ('@deny("a", hint="{z} {get_param: n}")', "the hint names z, which is not a column of the head"),
        ('@deny("a", hint=["b"])', "hint must be a string"),
        ('@deny("a", tags=[1])', "tags must be a list of strings"),
        ('@deny("a", preexisting="no")', "preexisting can't be 'no'"),
        ('@deny("a", worse="x sideways")', "worse can't be 'x sideways'"),
        ('@deny("a", worse="y up")', "worse names y, which is not a column of the head"),
        ('@deny("a", worse="x up")', "worse names x, which is resource"),
        ('@deny("a", enforce_from="2027-13-01")', "'2027-13-01' is not a date"),
        ('@deny("a", id="b")', "id is given twice"),
        ('@deny("a", "b", "c")', "@deny takes an id and a message, then attributes by name"),
    ],
)
def test_an_annotation_with_invalid_values_is_an_error(annotation: str, message: str) -> None:
    assert refusals(lambda: _load(m=f"{annotation} p(x) :- heat:resource(id=x)."), "message") == [message]


def test_an_unknown_resource_type_far_from_any_other_is_a_warning() -> None:
    (warning,) = _load(m='@deny p(x) :- heat:resource(id=x, type="Acme::Widget").').warnings
    assert (warning.code, warning.severity) == ("unknown-value", "warning")


def test_rows_given_under_a_bare_name_go_to_its_one_module() -> None:
    program = _load(a="relation racks(x: string). @deny p(x) :- racks(x).", b="relation racks(x: string).").program
    with pytest.raises(ValueError, match=r"^racks is a:racks and b:racks: write the full name$"):
        find_input(program, "racks")
    assert (find_input(program, "a:racks"), find_input(program, "rocks")) == ("a:racks", None)


def _load(**texts: str) -> PolicySet:
    return load([RuleFile(name, f"{name}.dl", text) for name, text in texts.items()])


def test_an_undefined_relation_is_empty_under_not_too() -> None:
    assert dg.query("p(x) :- q(x), not undefined(x). q(1).", "p(x)") == {(1,)}
