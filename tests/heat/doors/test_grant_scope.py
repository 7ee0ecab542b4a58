"""The properties of a grant in a real Heat, in both engines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.heat.doors.grant_heat import GrantHeat, grant, place, value
from tests.heat.doors.templates import string, template

ON_STRING = "a grant must be known before anything is built, but this one depends on s"
RETAINED = "a grant ends with its resource: remove deletion_policy"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown service": (grant("midday"), "the service midday is not enabled here"),
    "a service that is not for the caller": (grant("night"), "the service night is not allowed for this caller"),
    "a service of an attribute": (grant({"get_attr": ["s", "value"]}), ON_STRING),
    "a scope of an attribute": (grant(scope=[{"get_attr": ["s", "value"]}]), ON_STRING),
    "an option of an attribute": (grant(options={"by": {"get_attr": ["s", "value"]}}), ON_STRING),
    "an unknown name": (grant(scope=["s", "t"]), "its scope names t, which is not a resource of the stack"),
    "an unknown name within": (grant(scope=["t.s"]), "its scope names t.s, which is not a resource of the stack"),
    "itself": (grant(scope=["g"]), "its scope names g, but the grant depends on it: remove one of the two"),
    "a time that is none": (grant(expires="soon"), "expires is not a date: soon"),
    "a policy to retain": (grant() | {"deletion_policy": "retain"}, RETAINED),
    "an id of something else": (
        grant() | {"external_id": "x"},
        "a grant can't be an external resource: remove external_id",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_be_no_grant_is_refused_at_create_update_and_preview(here: GrantHeat, case: str) -> None:
    wrong, why = REFUSED[case]
    body = template(g=wrong, s=string())
    name = here.created(template(s=string()))
    answers = [
        here.create(body)[1],
        here.on(name, "PUT", template=body),
        here.ask("POST", "stacks/preview", stack_name="preview", template=body),
    ]
    refusals = [(answer.status_code, answer.json()["error"]["message"]) for answer in answers]
    assert [(code, message.removeprefix("Property error: : ")) for code, message in refusals] == [
        (400, f"g: {why}")
    ] * 3
    assert here.states() == []


def test_a_scope_of_references_is_a_circle(here: GrantHeat) -> None:
    _, answer = here.create(template(g=grant(scope=[{"get_resource": "s"}]), s=string()))
    message = answer.json()["error"]["message"]
    assert (answer.status_code, message.startswith("Circular Dependency Found")) == (400, True)


def test_options_that_are_no_map_are_refused(here: GrantHeat) -> None:
    _, answer = here.create(template(g=grant(options=["a"]), s=string()))
    assert answer.status_code == 400


def test_nothing_is_reserved_where_heat_would_not_have_the_scope_wait(here: GrantHeat) -> None:
    name, _ = here.create(template(g=grant("trial"), s=string()), name=f"lost-{here.name()}")
    before = here.calls()
    status, why = here.ended(name)
    assert (status, why.endswith("Heat would not make s wait for this grant")) == ("CREATE_FAILED", True)
    assert here.calls() == before


def test_two_grants_for_everything_make_no_circle(here: GrantHeat) -> None:
    needed = template(g=grant() | {"depends_on": ["early"]}, h=grant("trial"), s=string(), early=string())
    here.created(needed)
    assert [(claim.path.rpartition("/")[2], sorted(claim.decision)) for claim in here.claims()] == [
        ("g", ["s"]),
        ("h", ["s"]),
    ]


def test_a_scope_may_be_a_parameter(here: GrantHeat) -> None:
    body = template(g=grant({"get_param": "service"}, {"get_param": "names"}), a=string(), b=string())
    body["parameters"] = {"names": {"type": "comma_delimited_list"}, "service": {"type": "string"}}
    name = here.created(body, parameters={"names": "b", "service": "edge"})
    assert [claim.decision for claim in here.claims()] == [{"b": {"place": 1}}]
    events = here.events(name)
    assert events.index(("g", "CREATE_COMPLETE")) < events.index(("b", "CREATE_IN_PROGRESS"))
    assert here.updated(name, body, parameters={"names": "a,b", "service": "edge"})[0] == "UPDATE_COMPLETE"
    assert [claim.decision for claim in here.claims()] == [{"a": {"place": 2}, "b": {"place": 1}}]
    answer = here.on(name, "PUT", template=body, parameters={"names": "c", "service": "edge"})
    assert (answer.status_code, "its scope names c" in answer.text) == (400, True)


INNER = {"heat_template_version": "2018-08-31", "resources": {"s": string()}, "outputs": {"o": {"value": 1}}}


@pytest.mark.parametrize("scope", [["tr"], ["tr.s"], None])
def test_a_nested_stack_waits_as_a_whole(here: GrantHeat, scope: list[str] | None) -> None:
    body = template(g=grant(scope=scope), tr={"type": "inner.yaml"})
    name = here.created(body, files={"inner.yaml": json.dumps(INNER)})
    assert [claim.decision for claim in here.claims()] == [{"tr": {"place": 1}, "s": {"place": 2}}]
    events = here.events(name)
    assert events.index(("g", "CREATE_COMPLETE")) < events.index(("tr", "CREATE_IN_PROGRESS"))


def test_a_grant_in_a_nested_stack_is_for_that_stack(here: GrantHeat) -> None:
    inner = template(g=grant("trial"), s=string(), v=value(place("s")))
    name = here.created(template(tr={"type": "inner.yaml"}, a=string()), files={"inner.yaml": json.dumps(inner)})
    [claim] = here.claims()
    nested = here.on(name, "GET", "/resources/tr").json()["resource"]["physical_resource_id"]
    assert (claim.path, claim.stack, sorted(claim.decision)) == (f"{name}/tr/g", nested, ["s", "v"])
    more = template(g=grant("trial", ["s"]), s=string(), v=value(place("s")))
    status = here.updated(name, template(tr={"type": "inner.yaml"}, a=string()), files={"inner.yaml": json.dumps(more)})
    assert status[0] == "UPDATE_COMPLETE"
    [new] = here.claims()
    assert (new.replaces, new.decision) == (claim.uuid, {"s": {"place": 0}})


def test_a_group_in_scope_is_asked_for_again_when_it_is_scaled(here: GrantHeat) -> None:
    def grown(count: int) -> dict[str, Any]:
        group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": string()}}
        return template(g=grant("trial", ["rg"]), rg=group)

    name = here.created(grown(1))
    [old] = here.claims()
    assert sorted(old.decision) == ["0", "rg"]
    assert here.updated(name, grown(3))[0] == "UPDATE_COMPLETE"
    [new] = here.claims()
    assert (new.replaces, sorted(new.decision)) == (old.uuid, ["0", "1", "2", "rg"])
    here.behave("refuse")
    assert here.updated(name, grown(4))[0] == "UPDATE_FAILED"
    assert (here.claims(), len(here.lengths(name))) == ([new], 3)


def test_a_grant_by_another_name_is_a_grant_and_one_that_is_mapped_away_is_none(here: GrantHeat) -> None:
    body = template(g=grant("trial"), s=string())
    body["resources"]["g"]["type"] = "Its::Grant"
    here.created(body, environment={"resource_registry": {"Its::Grant": "DatalogGate::Policy"}})
    assert [sorted(claim.decision) for claim in here.claims()] == [["s"]]
    before = here.calls()
    away = {"resource_registry": {"DatalogGate::Policy": "OS::Heat::None"}}
    here.created(template(g=grant("trial"), s=string()), environment=away)
    assert (len(here.claims()), here.calls()) == (1, before)


def test_a_grant_with_a_false_condition_asks_no_service(here: GrantHeat) -> None:
    body = template(g=grant("trial", ["s"]) | {"condition": "on"}, s=string())
    body |= {"parameters": {"on": {"type": "boolean"}}, "conditions": {"on": {"get_param": "on"}}}
    name = here.created(body, parameters={"on": False})
    assert here.states() == []
    assert here.updated(name, body, parameters={"on": True})[0] == "UPDATE_COMPLETE"
    assert here.states() == [("g", "reserved")]
    assert here.updated(name, body, parameters={"on": False})[0] == "UPDATE_COMPLETE"
    assert here.states() == []


def test_a_service_that_no_rule_unlocks_is_not_asked(here: GrantHeat) -> None:
    _, status, why = here.built(template(g=grant(options={"odd": "yes"}), s=string()))
    assert (status, why.endswith("/g does not unlock edge: no rule unlocks it")) == ("CREATE_FAILED", True)


def test_attributes_are_empty_before_there_is_a_decision(here: GrantHeat) -> None:
    body = template(g=grant("trial"), s=string(), v=value({"get_attr": ["g", "decision"]}))
    answer = here.ask("POST", "stacks/preview", stack_name="preview", template=body)
    attributes = {resource["resource_name"]: resource["attributes"] for resource in answer.json()["stack"]["resources"]}
    assert attributes["g"]["decision"] == {}
