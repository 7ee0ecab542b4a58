"""Definitions with resources that failed updates left in their host."""

from __future__ import annotations

import json
from typing import Any

import datalog_gate as dg
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision_point.redaction import redact_definition
from datalog_gate.files.stack_definition import Leftovers, StackDefinition
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.template.held import HeldStack, HeldStacks

RULES = """\
@deny("any", "{type} of {length}")
any(id, type, length) :- heat:leftover(id=id), heat:resource(id=id, type=type), heat:property(id, "length", length).
@deny("long", "{n} characters")
long(id, n) :- os:heat:random_string(_id=id, length=n), n > 32.
"""


def body(length: object = 8, **more: Any) -> dict[str, Any]:
    """A template with one string."""
    string = {"type": "OS::Heat::RandomString", "properties": {"length": length}}
    return {"heat_template_version": "2018-08-31", "resources": {"s": string}, **more}


def judge(definition: StackDefinition, **more: Any) -> tuple[list[str], list[str]]:
    """The violations and the undetermined findings of a stack."""
    again = StackDefinition.from_json(json.loads(json.dumps(definition.to_json())))
    assert again.stack("web", SHIPPED) == definition.stack("web", SHIPPED)
    decision = dg.Rules(load([RuleFile("m", "m.dl", RULES)])).decide(definition.stack("web", SHIPPED), **more)
    violations, undetermined = decision.violations, decision.undetermined
    return list(map(describe, violations)), list(map(describe, undetermined))


def describe(finding: Any) -> str:
    """The resource of a finding, and its message."""
    return f"{finding.resource.path}: {finding.message}"


def test_leftovers_are_resources_with_what_they_were_built_with() -> None:
    built = StackDefinition(body(64))
    left = Leftovers({"web": {"s*4": "web/s"}}, built)
    assert judge(StackDefinition(body(), leftovers=(left,))) == (
        ["web/s*4: OS::Heat::RandomString of 64", "web/s*4: 64 characters"],
        [],
    )


def test_without_what_is_not_left_over_a_stack_has_nothing_else() -> None:
    left = Leftovers({"web": {"s*4": "web/s"}}, StackDefinition(body(64)))
    only = StackDefinition(body(33), leftovers=(left,), only_leftovers=True)
    assert judge(only) == (["web/s*4: OS::Heat::RandomString of 64", "web/s*4: 64 characters"], [])


def test_a_leftover_of_which_only_the_type_is_known_has_unknown_properties() -> None:
    left = Leftovers({"web": {"old": "OS::Heat::RandomString", "other": "My::Type"}})
    assert judge(StackDefinition(body(), leftovers=(left,))) == (
        ["web/old: OS::Heat::RandomString of ?"],
        ["web/old: ? characters"],
    )


def test_what_is_within_a_leftover_is_left_over_too_and_its_place_is_that_of_its_stack() -> None:
    def root(**resources: str) -> dict[str, Any]:
        parts = {name: {"type": file} for name, file in resources.items()}
        return {"heat_template_version": "2018-08-31", "resources": parts}

    files = {
        "in.yaml": json.dumps(body(64)),
        "out.yaml": json.dumps(root(inner="in.yaml")),
        "ok.yaml": json.dumps(body()),
    }
    within = Leftovers({"web": {"gone": "web/gone"}}, StackDefinition(root(gone="out.yaml"), files=files))
    assert judge(StackDefinition(root(), leftovers=(within,)))[0][-1] == "web/gone/inner/s: 64 characters"
    older = HeldStacks({"web/t": HeldStack("web-t", body(64), {})})
    below = Leftovers({"web/t": {"s*7": "web/t/s"}}, StackDefinition(root(t="ok.yaml"), files=files, held=older))
    assert judge(StackDefinition(root(t="ok.yaml"), files=files, leftovers=(below,)))[0][-1] == (
        "web/t/s*7: 64 characters"
    )


def test_hidden_values_of_a_leftover_stay_hidden() -> None:
    parameters = {"n": {"type": "number", "hidden": True}}
    built = StackDefinition(body({"get_param": "n"}, parameters=parameters), parameters={"n": 6464})
    left = Leftovers({"web": {"s*4": "web/s"}}, built)
    definition = StackDefinition(body(), leftovers=(left,))
    assert judge(definition)[0] == ["web/s*4: OS::Heat::RandomString of ***", "web/s*4: *** characters"]
    logged, names = redact_definition(definition.to_json(), left.trees("web", SHIPPED))
    assert (names, "6464" in json.dumps(logged)) == (["n"], False)


def test_what_was_left_over_before_is_tolerated() -> None:
    left = Leftovers({"web": {"s*4": "web/s"}}, StackDefinition(body(64)))
    before = StackDefinition(body(9), leftovers=(left,)).stack("web", SHIPPED)
    decision = dg.Rules(load([RuleFile("m", "m.dl", RULES)])).decide(
        StackDefinition(body(10), leftovers=(left,)).stack("web", SHIPPED), "update", against=before
    )
    assert (decision.outcome, {violation.change for violation in decision.violations}) == (
        "allow_with_warnings",
        {"preexisting"},
    )
