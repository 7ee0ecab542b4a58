"""An assumed value replaces each unknown of its expression."""

from __future__ import annotations

from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.base.values import ResourceId, show
from datalog_gate.doors.cli.main import main
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Data, Stack
from tests.refusals import refusals

TEMPLATE = """\
heat_template_version: 2021-04-16
parameters:
  az: {type: string, constraints: [{allowed_values: [nova-1, nova-2]}]}
  many: {type: number}
  list: {type: comma_delimited_list}
  free: {type: string}
  set: {type: string, default: here}
conditions:
  prod: {equals: [{get_param: free}, prod]}
  fixed: {equals: [{get_param: set}, here]}
resources:
  net: {type: OS::Neutron::Net, condition: prod}
  lan: {type: OS::Neutron::Net, properties: {name: {str_replace: {template: lan-AZ, params: {AZ: {get_param: az}}}}}}
  port: {type: OS::Neutron::Port, properties: {network: n, name: {get_attr: [lan, mtu]}}}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: many}
      resource_def: {type: OS::Neutron::Net, properties: {name: {get_attr: [lan, segments, "%index%"]}}}
  used: {type: OS::Neutron::Net, properties: {name: {list_join: ["-", {get_param: list}]}}}
"""


def names(stack: Stack) -> list[str]:
    """Each network and port that was read, with its name."""
    facts = flatten(stack, SHIPPED, ["heat:resource", "heat:property"])
    named = {row[0]: show(row[2]) for row in facts.rows["heat:property"] if row[1] == "name"}
    read = [row for row in facts.rows["heat:resource"] if isinstance(row[0], ResourceId)]
    resources = [row[0] for row in read if "Neutron" in show(row[3])]
    return sorted(f"{show(resource)} {named.get(resource, '')}".rstrip() for resource in resources)


NOTHING = [
    'web/group/0 ?({get_attr: [lan, segments, "0"]} in web)',
    'web/lan ?({str_replace: {params: {"AZ": {get_param: az}}, template: lan-AZ}} in web)',
    "web/net",
    "web/port ?({get_attr: [lan, mtu]} in web)",
    'web/used ?({list_join: ["-", {get_param: list}]} in web)',
]


@pytest.mark.parametrize(
    ("assume", "others"),
    [
        ({}, {}),
        ({"{get_param: az} in web": "nova-2"}, {1: "web/lan lan-nova-2"}),
        ({"{str_replace: {params: {\"AZ\": {get_param: az}}, template: lan-AZ}} in web": "x"}, {1: "web/lan x"}),
        ({"{get_attr: [lan, mtu]} in web": 1500}, {3: "web/port 1500"}),
        ({"{get_attr: [lan, segments, \"0\"]} in web": "a"}, {0: "web/group/0 a"}),
        ({"{get_param: list} in web": ["a", "b"]}, {4: "web/used a-b"}),
        ({"{get_param: list} in web": "a,b"}, {4: "web/used a-b"}),
        ({"{equals: [{get_param: free}, prod]} in web": False}, {2: ""}),
        ({"{equals: [{get_param: free}, prod]} in web": True}, {}),
        ({"{get_param: free} in web": "test"}, {2: ""}),
        ({"{get_param: many} in web": "0"}, {0: ""}),
        ({"{get_param: many} in web": 1, "{get_attr: [lan, segments, \"0\"]} in web": "a"}, {0: "web/group/0 a"}),
    ],
)  # fmt: skip
def test_all_functions_see_what_is_assumed(assume: dict[str, Data], others: dict[int, str]) -> None:
    expected = [others.get(at, name) for at, name in enumerate(NOTHING)]
    stack = dg.read_stack(template=TEMPLATE, stack_name="web", assume=assume)
    assert names(stack) == [name for name in expected if name]


@pytest.mark.parametrize(
    ("assume", "message", "suggestion"),
    [
        ({"{get_param: azz} in web": "nova-2"},
         "the stack has no unknown value `{get_param: azz} in web`",
         "did you mean `{get_param: az} in web`?"),
        ({"{get_param: az}": "nova-2"}, "the stack has no unknown value `{get_param: az}`",
         "did you mean `{get_param: az} in web`?"),
        ({"what http://example.org/web.yaml holds": {}},
         "`what http://example.org/web.yaml holds` is not a function of a template: its value can't be assumed",
          None),
        ({"parameter az": "nova-2"}, "`parameter az` is not a function of a template: its value can't be assumed",
         "did you mean `{get_param: az} in web`?"),
        ({"az": "nova-2"}, "`az` is not a function of a template: its value can't be assumed",
         "did you mean `{get_param: az} in web`?"),
        ({"{get_param: set} in web": "there"},
         "`{get_param: set} in web` is known, and an assumption does not change it", "remove the assumption"),
        ({"{equals: [here, here]} in web": False},
         "`{equals: [here, here]} in web` is known, and an assumption does not change it", "remove the assumption"),
        ({"{equals: [{get_param: free}, prod]} in web": "yes"},
         "`{equals: [{get_param: free}, prod]} in web` is a condition: assume true or false", None),
        ({"{get_param: az} in web": "nova-3"}, "parameter `az` can't be 'nova-3': it is not one of nova-1, "
        "nova-2", None),
        ({"{get_param: many} in web": "several"},
         "parameter `many` can't be 'several': it is not a valid number", None),
    ],
)  # fmt: skip
def test_an_assumption_that_can_not_be_made_is_refused(
    assume: dict[str, Data], message: str, suggestion: str | None
) -> None:
    def read() -> Stack:
        return dg.read_stack(template=TEMPLATE, stack_name="web", assume=assume)

    assert refusals(read, "message", "suggestion") == [(message, suggestion)]


def test_the_value_of_a_hidden_parameter_stays_hidden_if_it_is_assumed() -> None:
    template = """\
heat_template_version: 2021-04-16
parameters: {key: {type: string, hidden: true}}
resources: {lan: {type: OS::Neutron::Net, properties: {name: {list_join: ["", [a-, {get_param: key}]]}}}}
"""
    stack = dg.read_stack(template=template, stack_name="web", assume={"{get_param: key} in web": "geheim"})
    facts = flatten(stack, SHIPPED, ["heat:property"])
    assert [[show(value) for value in facts.shown("heat:property", row)] for row in facts.rows["heat:property"]] == [
        ["web/lan", "name", "***"]
    ]


def test_commands_take_assumptions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("web", "db"):
        (tmp_path / f"{name}.yaml").write_text(TEMPLATE)
    (tmp_path / "m.dl").write_text('@deny("p", "{n}")\np(n) :- os:neutron:net(_id=s, name=n), n = "lan-nova-2".\n')
    templates = [str(tmp_path / "web.yaml"), str(tmp_path / "db.yaml"), "--assume", "{get_param: az} in web=nova-2"]
    assert main(["check", *templates, "--rules", str(tmp_path / "m.dl"), "--format", "compact"]) == 1
    assert [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if "deny[p]" in line] == [
        "deny[p] lan-nova-2"
    ]
    name = '{list_join: ["-", {get_param: list}]} in web={a: [1]}'
    assert main(["facts", templates[0], "--relation", "heat:property", "--assume", name]) == 0
    assert [line.partition("   ")[0] for line in capsys.readouterr().out.splitlines() if "web/used" in line] == [
        'heat:property(id=web/used, path="name.a.0", value=1)'
    ]
    assert main(["facts", templates[0], "--assume", "{get_param: nobody} in web=a"]) == 3
    with pytest.raises(SystemExit) as usage:
        main(["facts", templates[0], "--assume", "az"])
    assert usage.value.code == 64


def test_an_assumption_holds_for_the_older_state_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("web", "old"):
        (tmp_path / f"{name}.yaml").write_text(TEMPLATE)
    (tmp_path / "m.dl").write_text('@deny("p", "{n}")\np(s, n) :- os:neutron:net(_id=s, name=n), n = "lan-nova-2".\n')
    arguments = [str(tmp_path / "web.yaml"), "--against", str(tmp_path / "old.yaml"), "--rules", str(tmp_path / "m.dl")]
    assert main(["check", *arguments, "--assume", "{get_param: az} in web=nova-2", "--format", "compact"]) == 0
    assert [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if "lan-nova-2" in line] == [
        "preexisting[p] lan-nova-2"
    ]
