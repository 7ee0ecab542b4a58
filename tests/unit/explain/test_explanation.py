"""Explanations of decisions: why, why not, fixes and unknowns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.records import replace
from datalog_gate.decision import judgement
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.doors.cli.main import main
from datalog_gate.doors.cli.reports.text import format_decision
from datalog_gate.engine.budget import UNLIMITED
from datalog_gate.engine.native import evaluate
from datalog_gate.explain.explanation import format_lines
from datalog_gate.files.templates import read_stack
from datalog_gate.template.reader import read_assuming
from tests.commands import write_files
from tests.pages import DOCS
from tests.unit.decision.test_decision import NOW, server

HEAD = "heat_template_version: 2018-08-31\nresources:\n"


def judge(rules: str, template: str, **request: Any) -> ExplainedDecision:
    policies = load([RuleFile("m", "m.dl", rules)])
    fields = DecisionRequest(**{"action": "create", "now": NOW, **request})
    stacks = [read_stack(template=template, stack_name="s")]
    return ExplainedDecision.of(judgement.judge(policies, stacks, fields, evaluate, read_assuming))


def whys(rules: str, template: str, **request: Any) -> list[str]:
    """The explanations of all findings, as text."""
    decision = judge(rules, template, **request)
    violations = (*decision.violations, *decision.undetermined)
    return [
        "\n".join(line[2:] for line in format_lines(decision.explanation.why(violation))) for violation in violations
    ]


def fixes(rules: str, template: str, **request: Any) -> list[str | None]:
    decision = judge(rules, template, **request)
    found_fixes = [decision.explanation.of(violation).fix for violation in decision.violations]
    return [line.text if line else None for line in found_fixes]


SSH = """\
@deny("ssh", "{group} lets {src} in", hint="close it")
ssh(group, src) :-
  os:neutron:security_group.rules(_id=group, direction="ingress", remote_ip_prefix=src, port_range_min=low,
                                  port_range_max=high),
  src != null, low ?? 0 <= 22, high ?? 65535 >= 22.
"""
GROUP = (
    HEAD
    + """\
  web_sg:
    type: OS::Neutron::SecurityGroup
    properties:
      rules: [{remote_ip_prefix: 0.0.0.0/0, port_range_min: 22}]
"""
)


def test_the_text_of_a_finding_has_reasons_hint_and_clean_policies() -> None:
    quiet = '@deny("quiet", "q")\nquiet(s) :- heat:resource(id=s), os:nova:server(_id=s, flavor="huge").\n'
    decision = judge(SSH + quiet, GROUP)
    assert (
        format_decision(decision, detail="all")
        == f"""\
<template>:6:34: deny[ssh] web_sg lets 0.0.0.0/0 in
  6 |       rules: [{{remote_ip_prefix: 0.0.0.0/0, port_range_min: 22}}]
    |                                  ^^^^^^^^^
  why   os:neutron:security_group.rules(s/web_sg, 0, ...)                 <template>:6
        0.0.0.0/0 != null, 22 <= 22, null ?? 65535 = 65535, 65535 >= 22   m.dl:5
  hint  close it
clean[quiet] looked at 1 row: heat:resource 1; no row of os:nova:server
1 denied, 0 warnings, 0 undetermined; 2 policies, 4 facts; deny; decision {decision.id[:6]}"""
    )


def policy(body: str, more: str = "", head: str = "p(s)") -> str:
    return f'@deny("p", "p")\n{head} :- {body}.\n{more}'


SERVERS = HEAD + "".join(server(f"s{at}") for at in range(7))
CHAIN = "to(x, y) :- e(x, y).\nto(x, y) :- to(x, z), e(z, y).\n" + "".join(f"e({at}, {at + 1}).\n" for at in range(60))


WHYS = {
    "lists and absent rows": (
        policy(
            'os:nova:server(_id=s, flavor=f), f in ["tiny", "huge"], not named(s), not (f in ["a"])',
            "named(s) :- os:nova:server(_id=s, name=n), n != null.\n",
        ),
        HEAD + server(),
        """\
why   os:nova:server(s/web, flavor=tiny, ...)   <template>:3
      tiny in [huge, tiny]                      m.dl:2
      no named(s/web)                           m.dl:2
      not (tiny = a)                            m.dl:2"""),
    "a body that nothing matches": (
        policy(
            'os:nova:server(_id=s), not (os:nova:server.metadata(_id=s, _key=k, _value=v), k != "a", not q(v))',
            'q("x").\n',
        ),
        HEAD + server(),
        """\
why   os:nova:server(s/web, ...)                                                 <template>:3
      no os:nova:server.metadata(_id=s/web, _key=k, _value=v), k != a, not (q(v))   m.dl:2"""),
    "aggregates with the first of many": (
        policy(
            "n = count{ s : big(s) }, t = sum{ distinct x : heat:stack(depth=x) }, n > 6, n + 1 > t",
            "big(s) :- os:nova:server(_id=s).\n",
            "p(n, t)",
        ),
        SERVERS,
        """\
why   count of 7 values = 7: s/s0, s/s1, s/s2, s/s3, s/s4, ...   m.dl:2
      sum of 1 value = 0: 0                                      m.dl:2
      7 > 6, 7 + 1 = 8, 8 > 0                                    m.dl:2"""),
    "a repeated row": (
        policy("a(s), b(s)", "a(s) :- c(s).\nb(s) :- c(s).\nc(s) :- os:nova:server(_id=s).\n"),
        HEAD + server(),
        """\
why   a(s/web)                         m.dl:3
        c(s/web)                       m.dl:5
          os:nova:server(s/web, ...)   <template>:3
      b(s/web)                         m.dl:4
        c(s/web) as above              m.dl:5"""),
    "a long chain": (
        policy("to(0, y), y = 60", CHAIN, "p(y)"),
        HEAD + server(),
        """\
why   to(0, 60)                         m.dl:4
        to(0, 59)                       m.dl:4
          to(0, 58)                     m.dl:4
            to(0, 57)                   m.dl:4
              to(0, 56)                 m.dl:4
                to(0, 55)               m.dl:4
                  to(0, 54) and so on
                  e(54, 55) and so on
                e(55, 56)               m.dl:60
              e(56, 57)                 m.dl:61
            e(57, 58)                   m.dl:62
          e(58, 59)                     m.dl:63
        e(59, 60)                       m.dl:64
      y = 60                            m.dl:2"""),
    "an unknown": (
        policy('os:nova:server(_id=s, flavor=f), f = "huge"'),
        HEAD.replace("resources", "parameters: {f: {type: string}}\nresources") + server(flavor="{get_param: f}"),
        """\
why   os:nova:server(s/web, flavor=?({get_param: f} in s), ...)   <template>:4
      ?({get_param: f} in s) = huge                               m.dl:2"""),
    "aggregates over uncertain rows": (
        policy(
            "n = count{ s : os:nova:server(_id=s) }, "
            "m = max{ f, s : os:nova:server(_id=s, flavor=f), is_string(f) }, n + 1 > 3",
            head="p(n, m)",
        ),
        HEAD.replace("resources", "parameters: {f: {type: string}}\nresources")
        + server()
        + server("db")
        + server("perhaps", "condition: {equals: [{get_param: f}, x]}, "),
        """\
why   count of 3 values = 2..3: s/db, s/perhaps, s/web   m.dl:2
      max of 3 values = tiny: tiny, tiny, tiny           m.dl:2
      2..3 > 0, 2..3 + 1 = 3..4, 3..4 > 3                m.dl:2"""),
    "a rule without conditions": (
        '@deny("p", "p")\np("x").\n',
        HEAD + server(),
        """\
why   the rule has no conditions   m.dl:2"""),
    "builtins, and facts of several kinds": (
        policy(
            'os:nova:server(_id=s, flavor=f), is_string(f), starts_with(f, "ti"), len(f, n), n + 1 = 5, '
            'upper(f, g), g != "A", heat:property(id=s, path="flavor", value=v), '
            'gate:request(action=a), a = "create"'
        ),
        HEAD + server(),
        """\
why   os:nova:server(s/web, flavor=tiny, ...)                                    <template>:3
      heat:property(s/web, flavor, tiny)                                         <template>:3
      gate:request(create)
      is_string(tiny), starts_with(tiny, ti), len(tiny) = 4, 4 + 1 = 5, upper(tiny) = TINY   m.dl:2
      TINY != A, a = create                                                      m.dl:2"""),
}  # fmt: skip


@pytest.mark.parametrize("what", WHYS)
def test_a_finding_is_explained(what: str) -> None:
    rules, template, expected = WHYS[what]
    assert whys(rules, template) == [expected.rstrip()]


def test_leaves_have_the_places_of_values_and_of_inventory_rows(tmp_path: Path) -> None:
    files = {
        "m.dl": policy("os:nova:server(_id=s, flavor=f), nova:tags(_, f)"),
        "web.yaml": HEAD + "  one: {type: nested.yaml}\n  two: {type: nested.yaml, properties: {f: big}}\n",
        "nested.yaml": HEAD.replace("resources", "parameters:\n  f: {type: string, default: big}\nresources")
        + server(flavor="{get_param: f}"),
        "env.yaml": "parameter_defaults:\n  f: big\n",
        "cloud.jsonl": '{"relation": "nova:tags", "row": ["1", "big"]}\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    stack = dg.read_stack(tmp_path / "web.yaml", environments=[tmp_path / "env.yaml"])
    decision = dg.load_rules(tmp_path / "m.dl").decide(stack, inventory=tmp_path / "cloud.jsonl", explain=True)
    assert isinstance(decision, ExplainedDecision)
    explanations = [decision.explanation.why(violation) for violation in decision.violations]
    assert [[f"{line.text} {line.where.replace(f'{tmp_path}/', '')}" for line in lines] for lines in explanations] == [
        ["os:nova:server(web/one/web, flavor=big, ...) env.yaml:2", "nova:tags(1, big) cloud.jsonl:1"],
        ["os:nova:server(web/two/web, flavor=big, ...) web.yaml:4", "nova:tags(1, big) cloud.jsonl:1"],
    ]


WIDE = policy(
    "os:nova:server(_id=s), wide(a, b), " + ", ".join(f"many{at}(a, b)" for at in range(30)),
    "".join(f"many{at}(x, y) :- wide(x, y), len(y, n), n > {at}.\n" for at in range(30)) + f'wide(1, "{"é" * 99}").\n',
)


def test_an_explanation_has_at_most_two_kilobytes_and_counts_the_rest() -> None:
    decision = judge(WIDE, HEAD + server())
    lines = decision.explanation.why(decision.violations[0])
    text = "\n".join(format_lines(lines))
    data = decision.explanation.of(decision.violations[0]).to_json()
    assert len(text.encode()) <= 2000
    assert len(json.dumps(data, ensure_ascii=False).encode()) <= 2000
    steps, left = data["steps"], data["more"]
    assert isinstance(steps, list)
    assert left == len(lines) - len(steps) > 0
    assert text.endswith(f"        and {len(lines) - text.count(chr(10))} more")


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["archive", "bastion", "staging", "wiki", "crowd", "edge_portal"])
def test_both_engines_give_the_same_explanations(stack: str) -> None:
    pytest.importorskip("pyDatalog")
    rules = dg.load_rules(DOCS.parent / "rules")
    read = dg.read_stack(DOCS.parent / "fixtures" / "stacks" / stack / "template.yaml")
    native, other = (
        rules.decide(read, now="2027-03-01", services=("edge",), engine=name, explain=True, budget=UNLIMITED)
        for name in ("native", "pydatalog")
    )
    assert (format_decision(native), json.dumps(native.to_json())) == (
        format_decision(other),
        json.dumps(other.to_json()),
    )


QUESTION = """\
@deny("p", "p")
p(s, n) :- os:nova:server(_id=s, flavor=f), f != "tiny", n = 1.
p(s, n) :- os:nova:server(_id=s, flavor=f), not q(s), n = count{ x : os:nova:server(_id=x) }.
p(s, 7) :- os:nova:server(_id=s).
q(s) :- os:nova:server(_id=s, flavor="tiny").
r(s) :- os:nova:server(_id=s, flavor=f), n = count{ x : os:nova:server(_id=x) }, n > 2.
e(s) :- os:nova:server(_id=s, flavor=f), is_string(f), int(f, n), n > 2.
"""


@pytest.mark.parametrize(
    ("relation", "row", "expected"),
    [
        ("m:p", ["s/web", 2], [("not 2 = 1", 2), ("there is q(s/web)", 3), ("the rule does not derive this row", 4)]),
        ("m:p", ["s/db", ...], [
            ("there is no os:nova:server(_id=s/db, flavor=f)", 2),
            ("there is no os:nova:server(_id=s/db, flavor=f)", 3),
            ("there is no os:nova:server(_id=s/db)", 4),
        ]),
        ("m:p", ["s/web", ...], []),
        ("m:r", [...], [("not 1 > 2", 6)]),
        ("m:e", [...], [("int('tiny'): the text is not a number", 7)]),
    ],
)  # fmt: skip
def test_why_not_shows_where_each_rule_fails(
    relation: str, row: Sequence[object], expected: list[tuple[str, int]]
) -> None:
    lines = judge(QUESTION, HEAD + server()).explanation.why_not(relation, row)
    assert [(line.text, line.place and line.place.line) for line in lines] == expected


def test_why_not_takes_whole_rows_of_derived_relations() -> None:
    explanation = judge(QUESTION, HEAD + server()).explanation
    with pytest.raises(KeyError):
        explanation.why_not("os:nova:server", [...])
    with pytest.raises(ValueError, match=r"^m:p has 2 columns, found 1$"):
        explanation.why_not("m:p", ["s/web"])


FIXES = {
    "allowed": (
        policy('os:nova:server(_id=s, flavor_update_policy=f), f = "REPLACE"'),
        server(flavor_update_policy="REPLACE"), "set flavor_update_policy of web to RESIZE"),
    "a constant of the rule": (
        policy('os:nova:server(_id=s, availability_zone=z), z != "nova-1"'),
        server(availability_zone="x"), "set availability_zone of web to nova-1"),
    "a bound": (
        policy("os:cinder:volume(_id=s, size=n), n ?? 0 > 100"),
        "  v: {type: OS::Cinder::Volume, properties: {size: 200}}\n", "set size of v to 100"),
    "the other truth": (
        policy("os:nova:server(_id=s, config_drive=n), n = true"),
        server(config_drive="true"), "set config_drive of web to false"),
    "what a relation holds, the most alike first": (
        policy("os:nova:server(_id=s, flavor=f), not good(f)", 'good("huge").\ngood("tin").\n'),
        server(), "set flavor of web to tin"),
    "any property": (
        policy('heat:property(id=s, path="flavor_update_policy", value=f), f = "REPLACE"'),
        server(flavor_update_policy="REPLACE"), "set flavor_update_policy of web to RESIZE"),
    "none that breaks another rule": (
        policy("os:nova:server(_id=s, flavor=f), not good(f)",
               'good("a").\n@deny("q", "q")\nq(s) :- os:nova:server(_id=s, flavor="a").\n'),
        server(), None),
    "none that makes another rule fail": (
        policy("os:nova:server(_id=s, flavor=f), not good(f)",
               'good("a").\n@deny("q", "q")\nq(n) :- os:nova:server(flavor=f), f = "a", int(f, n).\n'),
        server(), None),
    "never to say nothing, which may mean everything": (
        policy("os:nova:server(_id=s, availability_zone=z), z != null"),
                 server(availability_zone="x"), None),
    "no least above the most": (SSH, GROUP.removeprefix(HEAD), None),
    "none where nothing is compared": (policy("os:nova:server(_id=s)"), server(), None),
    "none that so many tries do not find": (
        policy("os:nova:server(_id=s, user_data=f), not good(f)", "".join(f'good("{n:03}").\n' for n in range(99)))
        + '@deny("q", "q")\nq(s) :- os:nova:server(_id=s, user_data=f), f != "x", f != "098".\n',
        server(user_data="x"), None),
}  # fmt: skip


@pytest.mark.parametrize("what", FIXES)
def test_a_fix_settles_its_finding_and_makes_no_other(what: str) -> None:
    rules, template, expected = FIXES[what]
    assert fixes(rules, HEAD + template) == [expected and f"{expected} (settles 1 finding)"]


def rule(**columns: object) -> str:
    """A security group `g` with one rule."""
    written = ", ".join(f"{name}: {value}" for name, value in columns.items())
    return f"  g: {{type: OS::Neutron::SecurityGroup, properties: {{rules: [{{{written}}}]}}}}\n"


def port(**columns: object) -> str:
    written = ", ".join(f"{name}: {value}" for name, value in columns.items())
    return f"  port: {{type: OS::Neutron::Port, properties: {{network: n, {written}}}}}\n"


OPEN = policy(
    """open(s, src, highest), highest >= 22, cidr_host_count(src, n), n > 65536""",
    """\
open(s, src, highest) :-
  os:neutron:security_group.rules(_id=s, direction=way, protocol=named, port_range_max=max, remote_ip_prefix=prefix),
  way = "ingress", lower(named ?? "tcp", protocol), matches(protocol, "tcp"), src = prefix ?? "0.0.0.0/0",
  highest = max ?? 65535.
""",
)
SMALLER = (
    '@deny("q", "q")\nq(s, c) :- os:neutron:security_group.rules(_id=s, remote_ip_prefix=c), c != "10.0.0.0/24".\n'
)
OFFICES = 'office("192.0.2.0/24").\n'
WITHIN = 'os:neutron:security_group.rules(_id=s, remote_ip_prefix=c), not (office(o), cidr_contains(o, c ?? "::/0"))'


CAREFUL_FIXES = {
    "a network within it": (
        OPEN, rule(protocol="tcp", remote_ip_prefix="10.4.0.0/14"),
        "set rules.0.remote_ip_prefix of g to 10.4.0.0/16 (settles 1 finding)"),
    "a private network in the place of all addresses": (
        OPEN, rule(protocol="tcp"),
        "set rules.0.remote_ip_prefix of g to a network of your own, at most a /16, such as 10.0.0.0/16"
        " (settles 1 finding)"),
    "and still less": (
        OPEN + SMALLER, rule(protocol="tcp", remote_ip_prefix="10.0.0.0/14"),
        "set rules.0.remote_ip_prefix of g to 10.0.0.0/24 (settles 2 findings)"),
    "a network that may be let in": (
        policy(WITHIN, OFFICES), rule(protocol="tcp"),
        "set rules.0.remote_ip_prefix of g to 192.0.2.0/24 (settles 1 finding)"),
    "fewer ports where no network will do": (
        OPEN + SMALLER.replace('"10.0.0.0/24"', '"0.0.0.0/0"'),
        rule(protocol="tcp", port_range_min=1, port_range_max=80, remote_ip_prefix="0.0.0.0/0"),
        "set rules.0.port_range_max of g to 21 (settles 1 finding)"),
    "no other protocol or direction": (
        OPEN + SMALLER.replace('"10.0.0.0/24"', '"0.0.0.0/0"'), rule(protocol="tcp", remote_ip_prefix="0.0.0.0/0"),
        None),
    "no other name": (
        policy("os:nova:server(_id=s, name=n), not known(n)", 'known("db").\n'), server(name="web"),
        None),
    "not the constant that a rule is about": (
        policy("os:neutron:port(_id=s, port_security_enabled=false)"), port(port_security_enabled="false"),
        "set port_security_enabled of port to true (settles 1 finding)"),
    "none where two constants are read, one of them the scope": (
        policy("os:neutron:port(_id=s, port_security_enabled=on, admin_state_up=up), on = false, up = true"),
        port(port_security_enabled="false"), None),
    "one of them any text": (
        policy('os:neutron:port(_id=s, port_security_enabled=false, device_owner=o), o = "vpn"'),
        port(port_security_enabled="false", device_owner="vpn"), None),
    "no constant where something else is limited": (
        policy("os:neutron:port(_id=s, admin_state_up=true), n = count{ p : os:neutron:port(_id=p) }, n > 0"),
        port(), None),
    "none of several constants if they are all": (
        policy('os:nova:server(_id=s, flavor_update_policy=f), f in ["REPLACE", "RESIZE"]'),
        server(flavor_update_policy="REPLACE"), None),
    "no exception where something is missing": (
        policy('os:nova:server(_id=s, availability_zone=z), z != "nova-1", not os:nova:server.metadata(_id=s)'),
        server(availability_zone="x"), None),
}  # fmt: skip


@pytest.mark.parametrize("what", CAREFUL_FIXES)
def test_a_fix_never_avoids_the_rule(what: str) -> None:
    rules, template, expected = CAREFUL_FIXES[what]
    assert fixes(rules, HEAD + template)[:1] == [expected]


def test_a_fix_is_none_if_a_value_of_a_parameter_may_make_a_finding() -> None:
    parameters = "parameters: {z: {type: string, constraints: [{allowed_values: [a, b]}]}}\nresources"
    rules = policy("os:nova:server(_id=s, image=i), not allowed(i)", 'allowed("b").\n')
    rules += '@deny("q", "q")\nq(s) :- os:nova:server(_id=s, flavor=f, image=f).\n'
    template = HEAD.replace("resources", parameters) + server(flavor="{get_param: z}", image="c")
    assert fixes(rules, template) == [None]


def test_a_fix_leaves_what_each_value_of_a_parameter_rules_out() -> None:
    """Both are `z`: that one is a and the other b is ruled out for each value, with the fix as without it."""
    parameters = "parameters: {z: {type: string, constraints: [{allowed_values: [a, b]}]}}\nresources"
    rules = policy('os:nova:server(_id=s, availability_zone=z), z != "nova-1"')
    rules += '@deny("q", "q")\nq(s) :- os:nova:server(_id=s, key_name="a", config_drive=false, name="b").\n'
    written = server(availability_zone="x", key_name="{get_param: z}", name="{get_param: z}", config_drive="false")
    template = HEAD.replace("resources", parameters) + written
    assert fixes(rules, template) == ["set availability_zone of web to nova-1 (settles 1 finding)"]


ADVISED = policy('os:nova:server(_id=s), not os:nova:server.metadata(_id=s, _key="team")').replace(
    '@deny("p", "p"', '@deny("p", "p", hint="HINT"'
)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("team: shop", "set metadata.team of web to shop (settles 1 finding)"),
        ("write team: {get_param: t} in {s}", "set metadata.team of web to {get_param: t} (settles 1 finding)"),
        ("write team: {get_param: other}", None),
        ("write team: {Ref: t}", None),
        ("write team: shop, or squad: shop", None),
        ("write team: ...", None),
        ("write squad: shop", None),
        ("write name: shop", None),
        ("leave flavor out", None),
        ("write a team", None),
        ("write team: null", None),
        ("write team: 010", None),
        ("write team: 0x1F", None),
    ],
)
def test_a_fix_is_what_the_hint_writes(hint: str, expected: str | None) -> None:
    template = HEAD.replace("resources", "parameters: {t: {type: string}}\nresources")
    assert fixes(ADVISED.replace("HINT", hint), template + server()) == [expected]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            policy('heat:parameter(name=s, origin="default")').replace(
                '"p", "p"', '"p", "p", hint="remove the default"'
            ),
            "remove the default of the parameter t (settles 1 finding)",
        ),
        (
            policy('heat:parameter(name=s, origin="default")').replace(
                '"p", "p"', '"p", "p", hint="remove the default, and set the value in an environment"'
            ),
            "remove the default of the parameter t, and set the value in an environment (settles 1 finding)",
        ),
        (
            policy("os:nova:server(_id=s, image=i), i != null").replace(
                '"p", "p"', '"p", "p", hint="leave image out; if it is needed, leave flavor out"'
            ),
            None,
        ),
        (
            policy("os:nova:server(_id=s, image=i), i != null").replace('"p", "p"', '"p", "p", hint="leave image out"'),
            "remove image of web (settles 1 finding)",
        ),
    ],
)
def test_a_fix_removes_what_the_hint_says(rules: str, expected: str | None) -> None:
    template = HEAD.replace("resources", "parameters: {t: {type: string, default: x}}\nresources")
    assert fixes(rules, template + server()) == [expected]


def test_what_a_hint_writes_is_not_tried_without_the_template() -> None:
    """Its stack may come from elsewhere than a text."""
    policies = load([RuleFile("m", "m.dl", ADVISED.replace("HINT", "team: shop"))])
    stack = replace(read_stack(template=HEAD + server(), stack_name="s"), source=None)
    request = DecisionRequest(action="create", now=NOW)
    decision = ExplainedDecision.of(judgement.judge(policies, [stack], request, evaluate))
    assert decision.explanation.of(decision.violations[0]).fix is None


GRANTED = policy(
    'os:nova:server(_id=s), not gate:unlocked("edge", s)',
    '@unlock("edge")\nedge(g) :- gate:grant(id=g, service="edge").\n',
)


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ({"edge"}, ["add a resource of type DatalogGate::Policy with service: edge, scope: [web] (settles 1 finding)"]),
        (set(), [None]),
    ],
)
def test_a_missing_grant_is_a_fix_if_the_caller_may_use_the_service(
    services: set[str], expected: list[str | None]
) -> None:
    assert fixes(GRANTED, HEAD + server(), services=frozenset(services)) == expected


ENCRYPTED = policy(
    'os:cinder:volume(_id=s, size=n, volume_type=t), n ?? 0 > 500, t ?? "" != "luks"',
).replace('@deny("p", "p"', '@deny("p", "p", hint="HINT"')


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("set volume_type to luks", "set volume_type of v to luks"),
        ("use an encrypted type", "set volume_type of v to luks"),
        ("use a volume of at most 500 GB, or another volume", "set size of v to 500"),
        ("set volume_type to luks, or size to at most 500", "set size of v to 500"),
    ],
)
def test_a_fix_changes_a_property_that_the_hint_names(hint: str, expected: str) -> None:
    volume = HEAD + "  v: {type: OS::Cinder::Volume, properties: {size: 800}}\n"
    assert fixes(ENCRYPTED.replace("HINT", hint), volume) == [f"{expected} (settles 1 finding)"]


def test_a_clean_policy_counts_rows_that_rules_and_limits_add() -> None:
    rules = policy("os:nova:server(_id=s, flavor=f), not offered(f)", 'relation offered(name). offered("tiny").\n')
    decision = judge(rules, HEAD + server(flavor="tiny"))
    assert decision.explanation.clean() == {"p": {"m:offered": 1, "os:nova:server": 1}}


def test_a_clean_policy_counts_rows_of_the_limits_of_its_pack(tmp_path: Path) -> None:
    rules = policy("os:nova:server(_id=s, flavor=f), not limits:offered(f)")
    limits = 'relation offered(name: string) "What is there".\nexport offered.\n'
    write_files(tmp_path, {"cap/m.dl": rules, "cap/limits.dl": limits, "cap/limits.yaml": "offered: [tiny, huge]\n"})
    stack = dg.read_stack(template=HEAD + server(flavor="tiny"))
    decision = dg.load_rules(tmp_path / "cap").decide(stack, explain=True)
    assert isinstance(decision, ExplainedDecision)
    assert decision.explanation.clean() == {"p": {"limits:offered": 2, "os:nova:server": 1}}


def test_a_hidden_value_is_neither_shown_nor_replaced() -> None:
    template = HEAD.replace("resources", "parameters: {f: {type: string, hidden: true, default: tiny}}\nresources")
    rules = policy('os:nova:server(_id=s, flavor=f), f != "huge", is_string(f), len(f, n), n < 9')
    expected = """\
why   os:nova:server(s/web, flavor=***, ...)                  <template>:2
      *** != ***, is_string(***), len(***) = ***, *** < ***   m.dl:2"""
    assert (whys(rules, template + server(flavor="{get_param: f}")),
            fixes(rules, template + server(flavor="{get_param: f}"))) == ([expected], [None])  # fmt: skip
    rules, expected = FIXES["allowed"][0], f"{FIXES['allowed'][2]} (settles 1 finding)"
    beside = server(flavor_update_policy="REPLACE", admin_pass="{get_param: f}")
    assert fixes(rules, template + beside) == [expected]


def test_json_has_reasons_only_with_explain(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.dl").write_text(SSH + '@deny("q", "q")\nq(s) :- os:nova:server(_id=s, flavor="huge").\n')
    (tmp_path / "s.yaml").write_text(GROUP)
    main(["check", "s.yaml", "--rules", "m.dl", "--format", "json"])
    plain = json.loads(capsys.readouterr().out)
    main(["check", "s.yaml", "--rules", "m.dl", "--format", "json", "--explain"])
    printed = json.loads(capsys.readouterr().out)
    whys = [violation.pop("why") for violation in printed["violations"]]
    assert (printed.pop("clean"), printed, whys) == (
        {"q": {"os:nova:server": 0}},
        plain,
        [
            {
                "steps": [
                    {
                        "depth": 0,
                        "step": "row",
                        "text": "os:neutron:security_group.rules(s/web_sg, 0, ...)",
                        "place": {"file": "s.yaml", "line": 6, "column": 15},
                    },
                    {
                        "depth": 0,
                        "step": "holds",
                        "text": "0.0.0.0/0 != null, 22 <= 22, null ?? 65535 = 65535, 65535 >= 22",
                        "place": {"file": "m.dl", "line": 5, "column": 3},
                    },
                ],
                "more": 0,
                "fix": None,
            }
        ],
    )
