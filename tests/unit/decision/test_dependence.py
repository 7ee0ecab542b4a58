"""The text of what a finding depends on, and its cost."""

from __future__ import annotations

from typing import Any

import pytest

from datalog_gate.decision import case_analysis
from datalog_gate.decision.decision import Decision, Waiver, format_denial
from datalog_gate.decision.judgement import decide
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.decision_point.operation import format_warnings
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.native import evaluate
from datalog_gate.files.templates import read_stack
from datalog_gate.template.reader import read_assuming
from tests.unit.decision.test_decision import NOW

RULES = """
@{level}("zone", "{s} stands in {z}"{more})
zone(s, z) :- os:nova:server(_id=s, availability_zone=z), z in ["nova-2", "nova-3"].
"""
HEAD = """\
heat_template_version: 2021-04-16
parameters:
  az: {type: string, constraints: [{allowed_values: [nova-1, nova-2, nova-3]}]}
  other: {type: string, constraints: [{allowed_values: [nova-2, nova-3]}]}
  free: {type: string}
  flag: {type: boolean}
  many: {type: number, constraints: [{allowed_values: [1, 2]}]}
  few: {type: number, constraints: [{range: {min: 0, max: 2}}]}
  free_size: {type: number}
conditions:
  prod: {equals: [{get_param: free}, prod]}
  test: {not: prod}
  staged: {not: {equals: [{get_param: az}, nova-1]}}
resources:
  net: {type: OS::Neutron::Net}
"""
GROUP = """\
  g:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: many}
      resource_def: {type: OS::Nova::Server, properties: {image: i, flavor: f, availability_zone: nova-2}}
"""
SIZE, DECIDES = "the number of members of g", "decides how many members g has"
BY_SIZE = f"depends on parameter free_size, which {DECIDES}, too many to list each"
EITHER = "db stands in nova-2; or db stands in nova-3"
IF = f"{EITHER}: denied if parameter az is nova-2 or nova-3"


def server(zone: str, more: str = "") -> str:
    return f"  db: {{type: OS::Nova::Server, {more}properties: {{image: i, flavor: f, availability_zone: {zone}}}}}\n"


def rules(level: str = "deny", more: str = "") -> str:
    return RULES.replace("{level}", level).replace("{more}", more)


def judge(
    resources: str, text: str = "", head: str = HEAD, names: tuple[str, ...] = ("web",), **options: Any
) -> Decision:
    policies = load([RuleFile("m", "m.dl", text or rules())])
    stacks = [read_stack(template=head + resources, stack_name=name) for name in names]
    return decide(policies, stacks, DecisionRequest(action="create", now=NOW, **options), evaluate, read_assuming)


def read_dependence(decision: Decision) -> tuple[list[str], list[str], list[str]]:
    """The violations, the undetermined findings, and what decides the latter."""
    because = [unknown.expression for violation in decision.undetermined for unknown in violation.because]
    return (
        [violation.full_message for violation in decision.violations],
        [violation.full_message for violation in decision.undetermined],
        because,
    )


@pytest.mark.parametrize(
    ("resources", "violated", "open_", "because"),
    [
        (server("{get_param: az}"), [], [f"{EITHER}: denied if parameter az is nova-2 or nova-3"],
         ["{get_param: az} in web"]),
        (server("{get_param: other}"), [EITHER], [], []),
        (server("{if: [staged, {get_param: other}, nova-2]}"), [EITHER], [], []),
        (server("{str_replace: {template: x-AZ, params: {AZ: {get_param: az}}}}"), [], [], []),
        (server("nova-2", "condition: prod, "), [], ["db stands in nova-2: denied if condition prod holds"],
         ["{equals: [{get_param: free}, prod]} in web"]),
        (server("nova-2", "condition: test, "), [], ["db stands in nova-2: denied if condition prod does not hold"],
         ["{equals: [{get_param: free}, prod]} in web"]),
        (server("nova-2", "condition: staged, "), [],
         ["db stands in nova-2: denied if parameter az is nova-2 or nova-3"], ["{get_param: az} in web"]),
        (server("nova-2", "condition: {not: {get_param: flag}}, "), [],
         ["db stands in nova-2: denied if parameter flag is false"], ["{get_param: flag} in web"]),
        (server("{if: [{get_param: flag}, {get_param: az}, nova-1]}", "condition: prod, "), [],
         [f"{EITHER}: denied if condition prod holds and parameter az is nova-2 or nova-3 and parameter flag is true"],
         ["{equals: [{get_param: free}, prod]} in web", "{get_param: az} in web", "{get_param: flag} in web"]),
        (server("{get_param: free}"), [], ["db stands in nova-2: depends on parameter free"],
         ["{get_param: free} in web"]),
        (server("{get_attr: [net, status]}"), [], ["db stands in nova-2: depends on status of `net`"],
         ["{get_attr: [net, status]} in web"]),
        (server("{list_join: ['-', [{get_attr: [net, show, a, 0]}, {get_param: az}]]}"), [],
         ["db stands in nova-2: depends on show.a.0 of `net` and parameter az"],
         ['{list_join: ["-", [{get_attr: [net, show, a, 0]}, {get_param: az}]]} in web']),
        (GROUP, ["web/g/0 stands in nova-2"], [], []),
        (GROUP.replace("many", "few"), [],
         [f"web/g/0 stands in nova-2: denied if {SIZE} is 1 or 2; parameter few {DECIDES}"],
         ["the number of members by {get_param: few} in web"]),
        (GROUP.replace("many", "free_size"), [], [f"web/g/0 stands in nova-2: {BY_SIZE}"],
         ["{get_param: free_size} in web"]),
        (GROUP.replace("many", "free_size") + server("{get_param: free_size}"), [],
         [f"db stands in nova-2: {BY_SIZE}", f"web/g/0 stands in nova-2: {BY_SIZE}"],
         ["{get_param: free_size} in web"] * 2),
    ],
)  # fmt: skip
def test_a_finding_says_for_which_values_it_holds(
    resources: str, violated: list[str], open_: list[str], because: list[str]
) -> None:
    assert read_dependence(judge(resources)) == (violated, open_, because)


MEMBER = """\
heat_template_version: 2021-04-16
resources:
  sg: {type: OS::Neutron::SecurityGroup, properties: {rules: [{}, {}]}}
  one: {type: OS::Neutron::Port, properties: {network: n, security_groups: [{get_resource: sg}]}}
  two: {type: OS::Neutron::Port, properties: {network: n, security_groups: [{get_resource: sg}]}}
  s: {type: OS::Nova::Server, properties: {networks: [{port: {get_resource: one}}, {port: {get_resource: two}}]}}
"""
BARE = """
@deny("bare", "{s} has no network")
bare(s) :- os:nova:server(_id=s), not os:nova:server.networks(_id=s).
@deny("open", "{p} has no group")
open(p) :- os:neutron:port(_id=p), not os:neutron:port.security_groups(_id=p).
"""


def test_a_member_is_there_with_its_properties_or_not_at_all() -> None:
    group = "count: {get_param: n}, resource_def: {type: m.yaml}"
    template = f"""\
heat_template_version: 2021-04-16
parameters: {{n: {{type: number, constraints: [{{range: {{min: 1, max: 64}}}}]}}}}
resources: {{g: {{type: OS::Heat::ResourceGroup, properties: {{{group}}}}}}}
"""
    stack = read_stack(template=template, files={"m.yaml": MEMBER}, stack_name="web")
    policies = load([RuleFile("m", "m.dl", BARE)])
    decision = decide(policies, [stack], DecisionRequest(action="create", now=NOW), evaluate, read_assuming)
    assert read_dependence(decision) == ([], [], [])


SAME = """
@deny("same", "{one} and {other} are {name} in {zone}")
same(one, other, name, zone) :-
  os:nova:server(_id=one, name=name, availability_zone=zone),
  os:nova:server(_id=other, name=name, availability_zone=zone), one != other, name != null, zone != null.
"""
EQUAL = "whether parameter free is parameter second"
WHETHER = "whether {get_param: free} is {get_param: second}"


def named(server: str, name: str, zone: str) -> str:
    properties = f"{{image: i, flavor: f, name: {name}, availability_zone: {zone}}}"
    return f"  {server}: {{type: OS::Nova::Server, properties: {properties}}}\n"


@pytest.mark.parametrize(
    ("first", "second", "causes"),
    [
        (("{get_param: free}", "z"), ("{get_param: second}", "z"), {(EQUAL, f"{WHETHER} in web")}),
        (("{get_param: free}", "{get_param: zone}"), ("{get_param: second}", "{get_param: zone}"),
         {(EQUAL, f"{WHETHER} in web")}),
        (("{get_param: free}", "{get_param: zone}"), ("{get_param: second}", "{get_param: last}"),
         {("whether parameter last is parameter zone and parameter free is parameter second",
           "whether {get_param: last} is {get_param: zone} and {get_param: free} is {get_param: second} in web")}),
        (("n", "{get_param: zone}"), ("n", "z"), {("parameter zone", "{get_param: zone} in web")}),
    ],
)  # fmt: skip
def test_whether_unknowns_are_equal_is_one_cause(
    first: tuple[str, str], second: tuple[str, str], causes: set[tuple[str, ...]]
) -> None:
    parameters = "  second: {type: string}\n  zone: {type: string}\n  last: {type: string}\n"
    head = HEAD.replace("conditions:", f"{parameters}conditions:")
    decision = judge(named("one", *first) + named("two", *second), SAME, head=head)
    assert {
        (finding.depends.removeprefix("depends on "), *[unknown.expression for unknown in finding.because])
        for finding in decision.undetermined
    } == causes


def test_the_value_of_a_parameter_is_no_resource_of_the_stack() -> None:
    rules = """
    @deny("joined", "{port} and {other} are in {network}")
    joined(port, other, network) :-
      os:neutron:port(_id=port, network=network), os:neutron:port(_id=other, network=network), port != other.
    """
    ports = "".join(
        f"  {port}: {{type: OS::Neutron::Port, properties: {{network: {network}}}}}\n"
        for port, network in (("made", "{get_resource: net}"), ("given", "{get_param: free}"))
    )
    assert read_dependence(judge(ports, rules)) == ([], [], [])


def test_each_of_several_stacks_has_unknowns_of_its_own() -> None:
    hangs = "stands in nova-2; or {0}/db stands in nova-3: denied if parameter az is nova-2 or nova-3"
    assert read_dependence(judge(server("{get_param: az}"), names=("a", "b"))) == (
        [],
        [f"{stack}/db {hangs.format(stack)}" for stack in "ab"],
        ["{get_param: az} in a", "{get_param: az} in b"],
    )


def outcome(zone: str, level: str = "deny", more: str = "", **options: Any) -> tuple[str, list[str], list[str]]:
    """The outcome, the warnings, and what is waived."""
    decision = judge(server(zone), rules(level, more), **options)
    return decision.outcome, list(format_warnings(decision)), [violation.full_message for violation in decision.waived]


@pytest.mark.parametrize(
    ("zone", "level", "more", "expected"),
    [
        ("{get_param: other}", "deny", "", ("deny", [f"zone: {EITHER}"], [])),
        ("{get_param: other}", "warn", "", ("allow_with_warnings", [f"zone: {EITHER}"], [])),
        ("{get_param: az}", "deny", "", ("allow_with_warnings", [f"zone: undetermined: {IF}"], [])),
        ("{get_param: az}", "deny", ', on_unknown="deny"', ("deny", [f"zone: undetermined: {IF}"], [])),
        ("{get_param: az}", "deny", ', on_unknown="allow"', ("allow", [], [])),
        ("{get_param: free}", "deny", ', on_unknown="allow"', ("allow", [], [])),
    ],
)
def test_what_is_settled_counts_as_certain(
    zone: str, level: str, more: str, expected: tuple[str, list[str], list[str]]
) -> None:
    assert outcome(zone, level, more) == expected


def test_what_stops_a_stack_says_for_which_values() -> None:
    decision = judge(server("{get_param: az}"), rules("deny", ', on_unknown="deny"'))
    assert format_denial(decision, 500) == f"zone: {IF} at <template>:16:85 [decision {decision.id[:6]}]"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ((), ("allow", [f"zone: waived until 2028-01-01 by W: {EITHER}"], [EITHER])),
        ((("z", "nova-2"),),
         ("allow_with_warnings",
          ["zone: undetermined: db stands in nova-3: denied if parameter other is nova-3"], [])),
        ((("z", "nova-1"),), ("deny", [f"zone: {EITHER}"], [])),
    ],
)  # fmt: skip
def test_a_waiver_meets_what_is_settled(
    key: tuple[tuple[str, str], ...], expected: tuple[str, list[str], list[str]]
) -> None:
    waiver = Waiver("W", "zone", "ops", "so be it", "2028-01-01", subject="web/db", key=key)
    assert outcome("{get_param: other}", waivers=(waiver,)) == expected


def test_decisions_that_values_tell_apart_have_ids_of_their_own() -> None:
    first, no_other, another = (
        judge(server("{get_param: az}"), head=HEAD.replace("[nova-1, nova-2, nova-3]", f"[{values}]")).id
        for values in ("nova-1, nova-2, nova-3", "nova-1, nova-0, nova-2, nova-3", "nova-1, nova-2")
    )
    assert (no_other == first, another == first) == (True, False)


def test_a_stack_too_large_to_be_judged_often_stays_undetermined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_analysis, "LARGEST", 1)
    assert read_dependence(judge(server("{get_param: other}"))) == (
        [],
        ["db stands in nova-2: depends on parameter other"],
        ["{get_param: other} in web"],
    )


def test_a_finding_of_too_many_outcomes_is_not_tried() -> None:
    names = [f"p{at}" for at in range(9)]
    head = HEAD.replace("parameters:\n", "parameters:\n" + "".join(f"  {name}: {{type: boolean}}\n" for name in names))
    zone = f"{{if: [{{and: [{', '.join(f'{{get_param: {name}}}' for name in names)}]}}, nova-2, nova-3]}}"
    parts = "parameter p0 and parameter p1 and parameter p2 and 6 more"
    assert read_dependence(judge(server(zone), head=head))[:2] == ([], [f"db stands in nova-2: depends on {parts}"])


def test_a_policy_about_what_is_not_known_is_not_settled_by_knowing_it() -> None:
    text = (
        '@deny("p", "{s}")\np(s) :- os:nova:server(_id=s, availability_zone="nova-2"), '
        'heat:unknown(id=s, path="availability_zone").\n'
    )
    assert read_dependence(judge(server("{get_param: az}"), text)) == (
        [],
        ["db: depends on parameter az"],
        ["{get_param: az} in web"],
    )


def test_what_would_take_longer_than_a_group_of_policies_may_stays_undetermined() -> None:
    stack = read_stack(template=HEAD + server("{get_param: other}"), stack_name="web")

    def judged(seconds: float) -> list[str]:
        policies = load([RuleFile("m", "m.dl", rules())])
        request = DecisionRequest(action="create", now=NOW, budget=Budget(seconds=seconds))
        decision = decide(policies, [stack], request, evaluate, read_assuming)
        assert not decision.errors
        return read_dependence(decision)[0]

    assert (judged(0.00002), judged(5.0)) == ([], [EITHER])


def test_what_is_certain_anyway_does_not_settle_another_row() -> None:
    text = '@deny("p", "zone {z}")\np(z) :- os:nova:server(availability_zone=z), z in ["nova-2", "nova-3"].\n'
    resources = server("{get_param: az}") + server("nova-2").replace("db:", "web:")
    assert read_dependence(judge(resources, text)) == (
        ["zone nova-2"],
        ["zone nova-3: denied if parameter az is nova-3"],
        ["{get_param: az} in web"],
    )
