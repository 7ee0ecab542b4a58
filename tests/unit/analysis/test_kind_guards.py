"""Builtins over values of any kind: refused, or guarded and without error."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.base.errors import InputError, RulesError
from datalog_gate.base.values import Kind, kind_of
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import SHIPPED
from tests.fuzz_stacks import places, read_seeds
from tests.sampling import sample

ROOT = Path(__file__).parents[3]
POLICY = '@deny("a", "{x}")\np(x) :- '
FLAVOR, IMAGE = "os:nova:server(_id=x, flavor=f)", "os:nova:server(_id=x, image=f)"
META = "os:nova:server.metadata(_id=x, _value=v)"
OTHERS = "boolean or string or resource here"

REFUSED = [
    (f'{FLAVOR}, starts_with(f, "m1")', "starts_with takes string, but f may be resource here: add `is_string(f)`"),
    (f'{IMAGE}, starts_with(f ?? "", "m1")', "starts_with takes string, but the result may be resource here: "
     "give it a name or a default, `x = ...`, and add `is_string(x)`"),
    (f"{META}, v != null, 3 < v", f"< compares number, but v may be {OTHERS}: add `is_number(v)`"),
    (f"{META}, v != null, v + 1 = 3", f"+ takes number, but v may be {OTHERS}: add `is_number(v)`"),
    (f"{META}, v != null, int(v, n), n > 3", "int takes number or string, but v may be boolean or resource here: "
     "add `is_string(v)` or `is_number(v)`"),
    (f"{META}, v != null, not (v > 3)", f"> compares number, but v may be {OTHERS}: add `is_number(v)`"),
    (f"{META}, (is_string(v) or v != null), len(v, n), n > 3", "len takes string, but v may be boolean or number or "
     "resource here: add `is_string(v)`"),
    ("x = sum{ v, s, k : os:nova:server.metadata(_id=s, _key=k, _value=v), v != null }", f"sum takes number, but v may "
     f"be {OTHERS}: add `is_number(v)`"),
    ("x = max{ v : heat:property(value=v), v != null }", f"max takes number, but v may be {OTHERS}: "
     "add `is_number(v)`"),
    (f"r(x, v), v > 3.\nr(x, v) :- {META}, v != null", f"> compares number, but v may be {OTHERS}: add `is_number(v)`"),
    ("r(x, v), v > 3.\nrelation r(x: string, v: number or string)", "> compares number, but v may be string here: "
     "add `is_number(v)`"),
    ("heat:deployment(id=x, config=f), f != null, old:os:nova:server(flavor=g), g < f", "< compares string, but f may "
     "be resource here: add `is_string(f)`"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), REFUSED)
def test_what_may_be_of_another_kind_needs_a_guard(body: str, expected: str) -> None:
    with pytest.raises(RulesError) as raised:
        load([RuleFile("m", "m.dl", f"{POLICY}{body}.\n")])
    reports = [f"{item.message}: {item.suggestion}" for item in raised.value.diagnostics if item.code == "unguarded"]
    assert expected in reports


@pytest.mark.parametrize(
    ("condition", "default"),
    [
        ("n > 100", "65535"),
        ("100 < n", "65535"),
        ("n <= 100", "0"),
        ("100 >= n", "0"),
        ("0 > n", "-1"),
        ("n >= 65535", "65535"),
    ],
)
def test_the_advised_default_lets_the_rule_match(condition: str, default: str) -> None:
    with pytest.raises(RulesError) as raised:
        load([RuleFile("m", "m.dl", f"{POLICY}os:cinder:volume(_id=x, size=n), {condition}.\n")])
    assert [str(item.suggestion) for item in raised.value.diagnostics] == [
        f"give a default for which the rule matches, `n ?? {default}`; with `n != null` a missing value passes"
    ]


@pytest.mark.parametrize(
    "body",
    [
        f'{FLAVOR}, is_string(f), starts_with(f, "m1")',
        f'{FLAVOR}, starts_with(f, "m1"), is_string(f)',
        f'{FLAVOR}, not is_resource(f), starts_with(f, "m1")',
        f'{IMAGE}, g = f ?? "", is_string(g), starts_with(g, "m1")',
        f"{META}, is_number(v), v > 3",
        f'{META}, (is_number(v), v > 3 or is_string(v), v > "3")',
        f"{META}, not (is_number(v), v > 3)",
        f'{META}, v in ["a", "b"], starts_with(v, "a")',
        f'{META}, v = "ab", starts_with(v, "a")',
        "x = max{ v : heat:property(value=v), is_string(v) }",
        f"r(x, v), v > 3.\nr(x, v) :- {META}, is_number(v)",
        'os:nova:server(_id=x, name=n), starts_with(n ?? "", "web")',
        "os:neutron:security_group_rule(_id=x, remote_ip_prefix=p), cidr_host_count(p ?? \"::/0\", n), n > 9",
        "os:cinder:volume(_id=x, size=n), n ?? 0 > 9",
        f"{META}, list{{ w : r(w) }} != v.\nr(v) :- {META}",
    ],
)  # fmt: skip
def test_a_guard_of_the_same_conjunction_or_a_plain_column_is_enough(body: str) -> None:
    assert load([RuleFile("m", "m.dl", f"{POLICY}{body}.\n")]).policies


def test_facts_of_a_query_are_taken_as_they_are() -> None:
    assert dg.query("p(x) :- q(x), x > 1.", "p(x)", facts={"q": [(1,), (2,)]}) == {(2,)}


GUARDS = """
@record("string", "") string(k) :- os:nova:server.metadata(_key=k, _value=v), is_string(v).
@record("number", "") number(k) :- os:nova:server.metadata(_key=k, _value=v), is_number(v).
@record("boolean", "") boolean(k) :- os:nova:server.metadata(_key=k, _value=v), is_boolean(v).
@record("resource", "") resource(k) :- os:nova:server.metadata(_key=k, _value=v), is_resource(v).
@record("no_text", "") no_text(k) :- os:nova:server.metadata(_key=k, _value=v), not is_string(v).
"""
KINDS = """\
heat_template_version: 2018-08-31
parameters: {p: {type: string}}
resources:
  net: {type: OS::Neutron::Net}
  web:
    type: OS::Nova::Server
    properties:
      flavor: f
      metadata: {text: a, digits: "1", one: 1, flag: true, none: null, net: {get_resource: net}, later: {get_param: p}}
"""


@pytest.mark.parametrize("engine", ["native", "pydatalog", "both"])
def test_a_guard_tests_the_kind_of_a_value(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(GUARDS)
    decision = dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(template=KINDS), engine=engine)
    found = {kind: set[object]() for kind in ("string", "number", "boolean", "resource", "no_text")}
    unsure = copy.deepcopy(found)
    for findings, sets in ((decision.violations, found), (decision.undetermined, unsure)):
        for finding in findings:
            sets[finding.policy].add(finding.row[0])
    assert found == {
        "string": {"text", "digits"}, "number": {"one"}, "boolean": {"flag"}, "resource": {"net"},
        "no_text": {"one", "flag", "none", "net"},
    }  # fmt: skip
    assert set().union(*unsure.values()) == {"later"}


REFERRING = """\
heat_template_version: 2018-08-31
resources:
  made: {type: OS::Heat::RandomString}
  disk: {type: OS::Cinder::Volume, properties: {size: {get_resource: made}, name: {get_resource: made}}}
"""


def test_a_resource_in_the_place_of_a_text_or_number_is_not_known_yet(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(
        '@deny("large", "{d} has {n}") p(d, n) :- os:cinder:volume(_id=d, size=n), n ?? 0 > 100.\n'
        '@deny("named", "{d}") q(d) :- os:cinder:volume(_id=d, name=n), starts_with(n ?? "", "x").\n'
    )
    decision = dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(template=REFERRING, stack_name="s"))
    assert [finding.policy for finding in decision.undetermined] == ["large", "named"]
    assert {reason.expression for finding in decision.undetermined for reason in finding.because} == {"id of s/made"}
    assert (decision.violations, decision.errors, decision.outcome) == ((), (), "allow_with_warnings")


SEEDS = read_seeds()


@pytest.mark.parametrize("seed", range(sample(60)))
def test_a_legal_template_gives_facts_of_the_kinds_of_their_columns_and_no_error(seed: int) -> None:
    random = Random(seed)
    template = copy.deepcopy(random.choice(SEEDS)["template"])
    resources = template.get("resources") if isinstance(template, dict) else None
    if not isinstance(resources, dict) or not resources:
        return
    resources["made"] = {"type": "OS::Heat::RandomString"}
    spots = [
        (holder, key)
        for resource in resources.values()
        if isinstance(resource, dict) and isinstance(resource.get("properties"), dict)
        for holder, key in places(resource["properties"])
        if isinstance(holder[key], str | int) and not (isinstance(holder, dict) and len(holder) == 1)
    ]
    for holder, key in random.sample(spots, min(len(spots), 4)):
        holder[key] = {"get_resource": "made"}
    try:
        stack = dg.read_stack(template=template, environment=random.choice([None, {}]))
        facts = flatten(stack, SHIPPED)
    except InputError:
        return
    for name, rows in facts.rows.items():
        relation = SHIPPED.relation(name)
        if relation and str(name).startswith(("os:", "aws:")):
            for row in rows:
                for column, value in zip(relation.columns, row, strict=True):
                    fits = kind_of(value) & (column.kinds | Kind.UNKNOWN)
                    assert fits or isinstance(value, str), (name, column, value)
    assert dg.load_rules(ROOT / "rules").decide(stack).errors == ()


def test_a_rule_of_congress_needs_no_guard() -> None:
    rules = "error(x) :- os:nova:server(_id=x, flavor=f), builtin:len(f, n), builtin:gt(n, 3)"
    assert load([RuleFile("m", "m.dl", rules, congress=True)]).policies
