"""What a decision says of itself when it is asked: why, why not, what would settle a finding, what was looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.diagnostics import Span
from datalog_gate.engine import engine
from datalog_gate.enforce.cli import main
from datalog_gate.enforce.render import text, why
from datalog_gate.gate.decide import Request, decide
from datalog_gate.gate.decision import Decision
from datalog_gate.gate.explanation import Explanation, Line
from datalog_gate.gate.policyset import RuleFile, load
from datalog_gate.sources import read_stack
from tests.pages import DOCS

HEAD = "heat_template_version: 2018-08-31\nresources:\n"
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)


def judge(rules: str, template: str, name: str = "native", **request: object) -> Decision:
    policies = load([RuleFile("m", "m.dl", rules)])
    given = Request(**{"action": "create", "now": NOW, **request})  # type: ignore[arg-type]
    return decide(policies, [read_stack(template=template, stack_name="s")], given, engine(name), explain=True)


def explained(decision: Decision) -> Explanation:
    assert decision.explanation
    return decision.explanation


def whys(rules: str, template: str, **request: object) -> list[str]:
    """The explanations of all findings, as text."""
    decision = judge(rules, template, **request)
    found = (*decision.violations, *decision.undetermined)
    return ["\n".join(one.strip() for one in why(explained(decision).why(each))) for each in found]


def fixes(rules: str, template: str, **request: object) -> list[str | None]:
    decision = judge(rules, template, **request)
    found = [explained(decision).of(one).fix for one in decision.violations]
    return [one.text if one else None for one in found]


def server(called: str = "web", more: str = "", **properties: str) -> str:
    held = "".join(f", {key}: {value}" for key, value in {"flavor": "tiny", **properties}.items())
    return f"  {called}: {{type: OS::Nova::Server, {more}properties: {{image: debian{held}}}}}\n"


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


def test_the_text_of_a_finding_says_why_what_to_do_and_what_else_was_looked_at() -> None:
    quiet = '@deny("quiet", "q")\nquiet(s) :- heat:resource(id=s), os:nova:server(_id=s, flavor="huge").\n'
    assert (
        text(judge(SSH + quiet, GROUP))
        == """\
<template>:6:34: deny[ssh] web_sg lets 0.0.0.0/0 in
  6 |       rules: [{remote_ip_prefix: 0.0.0.0/0, port_range_min: 22}]
    |                                  ^^^^^^^^^
  why   os:neutron:security_group.rules(s/web_sg, 0, ...)    <template>:6
        0.0.0.0/0 != null, 22 <= 22                          m.dl:5
        null ?? 65535 = 65535, 65535 >= 22                   m.dl:5
  hint  close it
clean[quiet] looked at 1 row: heat:resource 1
1 denied, 0 warnings, 0 undetermined; 2 policies, 4 facts; deny; decision ?""".replace("?", "")
    )


WIDE = "".join(f'wide("{at:03}", "{"x" * 50}{at:03}").\n' for at in range(300))


@pytest.mark.parametrize(
    ("rules", "template", "expected"),
    [
        pytest.param(
            '@deny("p", "p")\np(s) :- os:nova:server(_id=s, flavor=f), f in ["tiny", "huge"], not named(s), '
            'not f in ["a"].\nnamed(s) :- os:nova:server(_id=s, name=n), n != null.\n',
            HEAD + server(),
            """\
why   os:nova:server(s/web, flavor=tiny, ...)   <template>:3
tiny in [huge, tiny]                      m.dl:2
no named(s/web)                           m.dl:2
tiny not in [a]                           m.dl:2""",
            id="lists and negations",
        ),
    ],
)
def test_a_finding_is_explained_by(rules: str, template: str, expected: str) -> None:
    assert whys(rules, template) == [expected]
