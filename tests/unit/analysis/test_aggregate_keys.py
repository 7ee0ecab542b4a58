"""Aggregates whose terms hold no key of what they take."""

from __future__ import annotations

from pathlib import Path

import pytest

import datalog_gate as dg
from tests.refusals import rule_problems

POLICY = '@deny("a", "{x}")\np(x) :- '
VOLUMES = """\
heat_template_version: 2018-08-31
resources:
  a: {type: OS::Cinder::Volume, properties: {size: 600}}
  b: {type: OS::Cinder::Volume, properties: {size: 600}}
"""
R = "r(size) :- os:cinder:volume(size=size).\n"
SIZES = "relation size(flavor: string, cpus: number) key(flavor).\n"

REPORTED = {
    "a value alone": (
        "x = sum{ n : os:cinder:volume(size=n) }",
        "error sum takes each value of `n` only once, even if several rows of os:cinder:volume have it: "
        "write `sum{ n, v : os:cinder:volume(_id=v, size=n) }`, or write `sum{ distinct n : ... }` "
        "if equal values should count once"),
    "a key that is named and not taken": (
        "x = avg{ n : os:cinder:volume(size=n, _id=one), heat:resource(id=one) }",
        "error avg takes each value of `n` only once, even if several rows of os:cinder:volume have it: "
        "write `avg{ n, one : os:cinder:volume(size=n, _id=one), heat:resource(id=one) }`, "
        "or write `avg{ distinct n : ... }` if equal values should count once"),
    "a part of a key": (
        "x = sum{ v, s : os:nova:server.metadata(_id=s, _value=v), is_number(v) }",
        "error sum takes each value of `v, s` only once, even if several rows of os:nova:server.metadata have it: "
        "write `sum{ v, s, k : os:nova:server.metadata(_id=s, _key=k, _value=v), is_number(v) }`, "
        "or write `sum{ distinct v, s : ... }` if equal values should count once"),
    "the same name outside": (
        "os:nova:server(_id=v), x = sum{ n + 1 : os:cinder:volume(size=n, name=_), n != null }, v != null",
        "error sum takes each value of `n + 1` only once, even if several rows of os:cinder:volume have it: "
        "write `sum{ n + 1, volume : os:cinder:volume(_id=volume, size=n, name=_), n != null }`, "
        "or write `sum{ distinct n + 1 : ... }` if equal values should count once"),
    "a constant": (
        "x = sum{ 1 : os:nova:server() }",
        "error sum takes each value of `1` only once, even if several rows of os:nova:server have it: "
        "write `sum{ 1, s : os:nova:server(_id=s) }`, or write `sum{ distinct 1 : ... }` if equal values should "
        "count once"),
    "an own relation without a key": (
        "x = sum{ n : r(_, n) }.\nr(v, n) :- (os:cinder:volume(_id=v, size=n) or aws:ec2:instance(_id=v), n = 1)",
        "error sum takes each value of `n` only once, even if several rows of m:r have it: "
        "write `sum{ n, v : r(v, n) }`, declare the key of r, or write `sum{ distinct n : ... }` if equal values "
        "should count once"),
    "an own relation whose key may be there": (
        "x = sum{ n, v : r(v, n, _) }.\nr(v, n, 1) :- os:cinder:volume(_id=v, size=n).\n"
        "r(v, 1, m) :- aws:ec2:instance(_id=v), m = 2",
        "warning sum takes each value of `n, v` only once, even if several rows of m:r have it: "
        "write `sum{ n, v, c : r(v, n, c) }`, declare the key of r, or write `sum{ distinct n, v : ... }` "
        "if equal values should count once"),
    "alternatives": (
        "x = sum{ n : (os:cinder:volume(size=n) or os:trove:instance(size=n)) }",
        "error sum takes each value of `n` only once, even if several rows of os:cinder:volume have it: add "
        "terms that tell the rows apart, or write `sum{ distinct n : ... }` if equal values should count once"),
    "how often a value is there": (
        "x = count{ f : os:nova:server(flavor=f) }",
        "warning count takes each value of `f` only once, even if several rows of os:nova:server have it: "
        "write `count{ f, s : os:nova:server(_id=s, flavor=f) }`, or write `count{ distinct f : ... }` "
        "if equal values should count once"),
    "values through a relation": (
        "x = list{ f : r(_, f) }.\nr(v, f) :- os:nova:server(_id=v, flavor=f), v != null.\nr(v, f) :- r(v, f)",
        "warning list takes each value of `f` only once, even if several rows of m:r have it: "
        "write `list{ f, v : r(v, f) }`, declare the key of r, or write `list{ distinct f : ... }` "
        "if equal values should count once"),
    "a relation that merges rows": (
        f"x = sum{{ n : r(n) }}.\n{R}",
        "warning sum takes `n` from a relation in which equal rows of os:cinder:volume are one row: give that "
        "relation a column that tells the rows apart, or write `sum{ distinct n : ... }` if equal values should "
        "count once"),
    "one that merges rows two steps below": (
        "x = sum{ n : q(n) }.\nq(m) :- r(n), m = n, n > 3.\nr(n) :- os:cinder:volume(size=n), n != null",
        "warning sum takes `n` from a relation in which equal rows of os:cinder:volume are one row: give that "
        "relation a column that tells the rows apart, or write `sum{ distinct n : ... }` if equal values should "
        "count once"),
}  # fmt: skip
"""The body of a policy, and what is said of its aggregate."""


@pytest.mark.parametrize("what", REPORTED)
def test_an_aggregate_without_a_key_is_reported(what: str) -> None:
    body, expected = REPORTED[what]
    assert _reports(POLICY + body.rstrip(".\n") + ".\n") == [expected]


@pytest.mark.parametrize(
    "body",
    [
        "x = sum{ n, v : os:cinder:volume(_id=v, size=n) }",
        "os:cinder:volume(_id=x), sum{ n : os:cinder:volume(_id=x, size=n) } > 3",
        "x = sum{ n, v : os:cinder:volume(_id=v, size=n), heat:resource(id=v, type=_type) }",
        "x = sum{ distinct n : os:cinder:volume(size=n) }",
        "x = count{ distinct f : os:nova:server(flavor=f) }",
        "x = max{ n : os:cinder:volume(size=n) }",
        "x = min{ distinct n : os:cinder:volume(size=n) }",
        "x = count{ s : os:nova:server.networks(_id=s) }",
        'x = count{ stack : heat:stack(id=stack, name="web") }',
        "x = sum{ d, s : heat:stack(id=s, depth=d), gate:caller(project=p), p != null }",
        "x = sum{ m, s : os:nova:server(_id=s), m = count{ i : os:nova:server.networks(_id=s, _index=i) } }",
        "x = sum{ n, v : w = v, os:cinder:volume(_id=w, size=n) }",
        "x = sum{ c, s : os:nova:server(_id=s, flavor=f), size(f, c) }.\n" + SIZES,
        "x = sum{ n, v : r(v, n, _) }.\nr(v, n, s) :- os:cinder:volume(_id=v, size=n, _stack=s)",
        "x = sum{ c : r(_, c) }.\nrelation r(f: string, c: number) key(c).\nr(f, c) :- size(f, c).\n" + SIZES,
        "x = sum{ c, f : r(f, c) }.\nr(f, c) :- os:nova:server(flavor=f), size(f, c).\n" + SIZES,
        "x = sum{ n, v : q(v, n) }, q(_, _).\nq(v, n) :- old:os:cinder:volume(_id=v, size=n), v != null",
        "x = sum{ n : r(n) }.\nr(1).\nr(2)",
        "x = count{ a : r(a, _) }.\nr(1, 2).\nr(1, 3)",
    ],
)
def test_an_aggregate_with_a_key_is_not(body: str) -> None:
    assert _reports(POLICY + body.rstrip(".\n") + ".\n") == []


def test_a_set_is_summed_where_that_is_meant(tmp_path: Path) -> None:
    rules = (
        '@deny("set", "{x}") p(x) :- x = sum{ distinct n : os:cinder:volume(size=n) }.\n'
        '@deny("rows", "{x}") q(x) :- x = sum{ n, v : os:cinder:volume(_id=v, size=n) }.\n'
    )
    (tmp_path / "m.dl").write_text(rules)
    violations = dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(template=VOLUMES), action="create").violations
    assert {violation.policy: violation.row for violation in violations} == {"set": (600,), "rows": (1200,)}


@pytest.mark.parametrize(
    ("aggregate", "suggestion"),
    [
        ("sum{ n : os:cinder:volume(_id=v, size=n) }",
         "add it to the terms, `sum{ n, v : ... }`, to take each row separately"),
        ("count{ s : os:nova:server.networks(_id=s, _index=i) }",
         "add it to the terms, `count{ s, i : ... }`, to take each row separately"),
        ("sum{ n, v : os:cinder:volume(_id=v, size=n, name=title) }",
         'write name="title" for the text, or leave the column out'),
        ("max{ n : os:cinder:volume(_id=v, size=n) }", "leave the column out"),
        ("sum{ distinct n : os:cinder:volume(_id=v, size=n) }", "leave the column out"),
    ],
)  # fmt: skip
def test_a_key_that_occurs_once_belongs_among_the_terms(aggregate: str, suggestion: str) -> None:
    problems = rule_problems(f"{POLICY}x = {aggregate}.\n")
    assert [problem.suggestion for problem in problems if problem.code == "used-once"] == [suggestion]


def _reports(rules: str) -> list[str]:
    problems = (problem for problem in rule_problems(rules) if problem.code != "used-once")
    return [f"{problem.severity} {problem.message}: {problem.suggestion}" for problem in problems]


def test_a_key_of_no_column_is_the_one_error() -> None:
    text = 'relation e(x: number, y: number) key(z) "".\ne(1, 2).\np(k) :- k = sum{ y : e(_, y) }, e(k, _), e(k, 2).\n'
    errors = [diagnostic for diagnostic in rule_problems(text) if diagnostic.code == "unknown-column"]
    assert [diagnostic.message for diagnostic in errors] == ["e has no column z"]
