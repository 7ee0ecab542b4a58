"""Updates through the API filter, judged as Heat would merge them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi import wrap
from tests.fake_heat import ID, STACK, TOKEN, Client, Context, FakeHeat

RULES = """
@deny("flavor", "{server} takes {flavor}")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), flavor = "huge".
@deny("key", "{server} has no real key")
masked(server) :- os:nova:server(_id=server, key_name="******").
"""
DENIED = (403, "The policies deny this stack: flavor: web takes huge")
READ = "The stack can't be read: "
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "parameters": {
        "f": {"type": "string", "default": "small"},
        "key": {"type": "string", "default": "none", "hidden": True},
    },
    "resources": {"web": {"type": "OS::Nova::Server", "properties": {
        "image": "debian", "flavor": {"get_param": "f"}, "key_name": {"get_param": "key"}}}},
}  # fmt: skip
FIXED = json.loads(json.dumps(TEMPLATE).replace('{"get_param": "f"}', '"huge"'))
NONE: dict[str, Any] = {"parameters": {}, "parameter_defaults": {}, "resource_registry": {}, "event_sinks": []}
STORED: dict[str, Any] = {
    "template": TEMPLATE,
    "environment": {**NONE, "parameters": {"f": "tiny"}, "encrypted_param_names": []},
    "files": {"a.txt": "a"},
}
QUIET = json.loads(json.dumps(TEMPLATE).replace('"key_name"', '"admin_pass"'))
SECRET: dict[str, Any] = {
    **STORED,
    "template": QUIET,
    "environment": {**NONE, "parameters": {"f": "tiny", "key": "clear"}},
}


def client(point: DecisionPoint, stored: dict[str, Any] = STORED, limit: int = 9000) -> Client:
    heat = FakeHeat(json.loads(json.dumps(stored)), {"key"})
    return Client(wrap(heat, point=point, settings=Settings(body_limit=limit)), heat)


def without(name: str) -> dict[str, Any]:
    """The stored stack without that parameter in its environment."""
    kept = {key: value for key, value in SECRET["environment"]["parameters"].items() if key != name}
    return {**SECRET, "environment": {**NONE, "parameters": kept}}


FILE = "parameters: {f: huge}"


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("PUT", {"template": FIXED}),
        ("PUT", {"template": json.dumps(FIXED)}),
        ("PUT", {"template": TEMPLATE, "parameters": {"f": "huge"}}),
        ("PUT", {"template": TEMPLATE, "parameters": {"f": "huge"}, "existing": True}),
        ("PUT", {"template": FIXED, "existing": "false"}),
        ("PATCH", {"template": FIXED}),
        ("PATCH", {"parameters": {"f": "huge"}}),
        ("PATCH", {"parameters": {"f": "huge"}, "existing": False}),
        ("PATCH", {"environment": {"parameters": {"f": "huge"}}, "template": None}),
        ("PATCH", {"environment": FILE}),
        ("PATCH", {"environment": {"parameter_defaults": {"f": "huge"}}, "clear_parameters": ["f"]}),
        ("PATCH", {"environment_files": ["e"], "files": {"e": FILE}, "parameters": {"f": "small"}}),
        ("PATCH", {"environment_files": ["e", "g"], "files": {"e": FILE, "g": "parameters: {f: }"}}),
        ("PATCH", {"environment": {"resource_registry": {"My::Web": "OS::Nova::Server"}},
                   "template": json.loads(json.dumps(FIXED).replace("OS::Nova::Server", "My::Web"))}),
        ("PATCH", {"template": json.loads(json.dumps(FIXED).replace('"huge"', '{"get_file": "a.txt"}')),
                   "files": {"a.txt": "huge"}}),
    ],
)  # fmt: skip
def test_an_update_is_judged_as_heat_would_build_it(point: DecisionPoint, method: str, body: dict[str, Any]) -> None:
    door = client(point)
    assert door.update(method, **body) == DENIED
    assert door.heat.requests == []
    assert door.update(method, STACK + "/preview", **body) == DENIED
    assert door.heat.requests == []


def test_what_the_stack_holds_is_judged_with_what_changes(point: DecisionPoint) -> None:
    door = client(point, {**STORED, "environment": {**NONE, "parameters": {"f": "small", "gone": "x"}}})
    second = json.loads(json.dumps(TEMPLATE).replace('"web"', '"api"'))
    assert door.update(template=second, parameters={"f": "huge"}) == (DENIED[0], DENIED[1].replace("web", "api"))
    assert door.update(parameters={"f": "micro"}) == (201, "")
    assert door.update(parameters={"f": "huge"}, clear_parameters=["f"]) == DENIED


def test_preexisting_violations_are_reported_and_stop_nothing(point: DecisionPoint) -> None:
    stored = {**STORED, "environment": {**NONE, "parameters": {"f": "huge"}}}
    body = json.dumps({"template": FIXED}).encode()
    for method, path in (("PUT", STACK), ("PATCH", STACK), ("PUT", STACK + "/preview")):
        status, headers, _ = client(point, stored).send(body, REQUEST_METHOD=method, PATH_INFO=path)
        header = headers["Datalog-Gate"].partition("; ")
        assert (status, header[0].split()[0], header[2]) == (
            "201 Created",
            "allow_with_warnings",
            "flavor: preexisting: web takes huge",
        )
    assert client(point).update("PUT", template=FIXED) == DENIED


def test_an_update_of_what_cannot_be_read_is_refused(point: DecisionPoint) -> None:
    door = client(point, {**STORED, "template": {"resources": 1}})
    assert door.update("PUT", template=TEMPLATE) == (
        400,
        READ + "as it was: this is not a template: heat_template_version is missing",
    )
    assert door.heat.requests == []


def test_a_merging_update_is_forwarded_as_the_whole_stack_that_was_judged(point: DecisionPoint) -> None:
    stored = {**STORED, "tags": ["x", "y"], "environment": {**NONE, "parameters": {"f": "tiny", "gone": 1},
            "parameter_defaults": {"f": "d"}, "event_sinks": [{"type": "z", "target": "1"}],
            "resource_registry": {"A::B": "C::D", "E::F": "G::H",
                                  "resources": {"web": {"I::J": "K::L", "U::V": "W::X", "hooks": "pre-update"}}},
    }}  # fmt: skip
    door = client(point, stored)
    environment = {
        "parameters": {"f": "micro"},
        "parameter_defaults": {"k": "v"},
        "resource_registry": {
            "A*": None,
            "re*": None,
            "M::N": "O::P",
            "resources": {"web": {"I::J": None, "h*": None, "Q::R": "S::T"}},
        },
    }
    body: dict[str, Any] = {"environment": environment, "files": {"b": "\u00fc"}, "timeout_mins": 5, "converge": True}
    assert door.update(**body) == (201, "")
    [(method, path, _, _)] = door.heat.requests
    web = {"U::V": "W::X", "hooks": "pre-update", "Q::R": "S::T"}
    registry = {"E::F": "G::H", "M::N": "O::P", "resources": {"web": web}}
    assert (method, path, door.heat.bodies) == ("PUT", STACK, [{
        "tags": "x,y", "timeout_mins": 5, "converge": True, "template": TEMPLATE,
        "files": {"a.txt": "a", "b": "\u00fc"},
        "environment": {"parameters": {"f": "micro"}, "parameter_defaults": {"f": "d", "k": "v"},
                        "resource_registry": registry, "event_sinks": [{"type": "z", "target": "1"}]},
    }])  # fmt: skip


@pytest.mark.parametrize(("change", "kept"), [({}, "x,y"), ({"tags": None}, "x,y"), ({"tags": "z"}, "z")])
def test_a_merging_update_keeps_the_tags(point: DecisionPoint, change: dict[str, Any], kept: str) -> None:
    door = client(point, {**STORED, "tags": ["x", "y"]})
    assert door.update(files={"b": "b"}, **change) == (201, "")
    assert door.heat.bodies[0]["tags"] == kept


def test_an_update_that_changes_nothing_stays_as_it_is(point: DecisionPoint) -> None:
    door = client(point)
    assert door.update(environment={}, files={}) == (201, "")
    assert door.heat.requests == [("PATCH", STACK, b'{"environment": {}, "files": {}}', "32")]


def test_another_update_between_reading_and_merging_changes_nothing_of_what_was_judged(point: DecisionPoint) -> None:
    door = client(point)
    door.heat.meanwhile = {"environment": {**NONE, "parameters": {"f": "huge"}}, "files": {"a.txt": "huge"}}
    assert door.update(files={"b": "b"}) == (201, "")
    assert (door.heat.stack["environment"]["parameters"], door.heat.stack["files"]) == (
        {"f": "tiny"}, {"a.txt": "a", "b": "b"})  # fmt: skip


def test_a_masked_value_that_a_policy_reads_must_be_sent_again(point: DecisionPoint) -> None:
    """Or a user would hide a value where nothing looks at it, and move it by an update to where a policy would."""
    door = client(point, SECRET)
    body: dict[str, Any] = {"template": TEMPLATE, "parameters": {"f": "small"}}
    advice = "send the value of the parameter key with the request, since Heat does not show it"
    assert door.update(**body) == (400, f"The policies can't judge what depends on {{get_param: key}} in web: {advice}")
    assert door.update(template=TEMPLATE, parameters={"f": "small", "key": "k"}) == (201, "")
    assert [request[0] for request in door.heat.requests] == ["PUT"]
    masked_default = {**STORED, "environment": {**NONE, "parameter_defaults": {"key": "******"}}}
    assert client(point, masked_default).update(parameters={"f": "small"})[0] == 400


def test_a_masked_value_is_unknown_and_never_forwarded(point: DecisionPoint, caplog: pytest.LogCaptureFixture) -> None:
    door = client(point, SECRET)
    assert door.update(files={"b": "b"}) == (201, "")
    assert [(request[0], request[1]) for request in door.heat.requests] == [("PATCH", STACK)]
    assert door.heat.bodies == [{
        "template": QUIET, "files": {"a.txt": "a", "b": "b"}, "existing": True, "clear_parameters": [],
        "environment": {**NONE, "parameters": {"f": "tiny"}},
    }]  # fmt: skip
    assert door.heat.stack["environment"]["parameters"] == {"f": "tiny", "key": "clear"}
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    ("meanwhile", "legacy", "messages"),
    [
        ({}, False, []),
        ({"environment": {**NONE, "parameters": {"key": "other"}}}, False, []),  # nobody sees that but Heat
        ({"environment": {**NONE, "parameters": {"f": "huge", "key": "clear"}}}, False, []),  # cleared
        ({"files": {"c": "c"}}, False, [f"stack {ID}: another update came in between, so the state in Heat was "
        "not judged"]),
        ({"environment": {**NONE, "parameters": {"key": "clear"}, "resource_registry": {"A": "B"}}}, False,
         [f"stack {ID}: another update came in between, so the state in Heat was not judged"]),
        ({}, True, []),
    ],
)  # fmt: skip
def test_what_slips_in_beside_a_masked_value_is_an_error_in_the_log(
    point: DecisionPoint, caplog: pytest.LogCaptureFixture, meanwhile: dict[str, Any], legacy: bool, messages: list[str]
) -> None:
    door = client(point, without("f"))
    door.heat.meanwhile, door.heat.legacy = meanwhile, legacy
    assert door.update(files={"b": "b"}) == (201, "")
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == messages
    assert "f" not in door.heat.stack["environment"]["parameters"]


def test_a_registry_entry_that_is_taken_away_is_taken_away_beside_a_masked_value(point: DecisionPoint) -> None:
    stored = {**SECRET, "environment": {**SECRET["environment"], "resource_registry": {"A::B": "C::D"}}}
    door = client(point, stored)
    assert door.update(environment={"resource_registry": {"A::B": None}}) == (201, "")
    assert door.heat.bodies[0]["environment"]["resource_registry"] == {"A::B": None}


@pytest.mark.parametrize("stored", [STORED, {**SECRET, "template": TEMPLATE}])
def test_stars_that_the_user_sends_are_just_stars(point: DecisionPoint, stored: dict[str, Any]) -> None:
    assert client(point, stored).update(parameters={"key": "******"}) == (
        403, "The policies deny this stack: key: web has no real key")  # fmt: skip


def test_a_merge_larger_than_heat_takes_is_left_to_heat_and_compared(
    point: DecisionPoint, caplog: pytest.LogCaptureFixture
) -> None:
    door = client(point, {**STORED, "template": QUIET, "files": {"a.txt": "a" * 900}}, 1000)
    assert door.update(parameters={"f": "micro"}) == (201, "")
    assert door.update(environment={"parameters": {"key": "k"}}) == (201, "")
    door.heat.meanwhile = {"files": {"a.txt": "b"}}
    assert door.update(parameters={"f": "micro"}) == (201, "")
    bodies = [b'{"parameters": {"f": "micro"}}', b'{"environment": {"parameters": {"key": "k"}}}']
    bodies.append(bodies[0])
    assert [(request[0], request[2]) for request in door.heat.requests] == [("PATCH", body) for body in bodies]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == [f"stack {ID}: another update came in between, so the state in Heat was not judged"]


def test_environment_files_that_only_heat_could_merge_are_refused(point: DecisionPoint) -> None:
    door = client(point, {**STORED, "files": {"a.txt": "a" * 900}}, 1000)
    files = {"e": "parameter_defaults: {below: a}\n", "g": "parameter_defaults: {below: b}\n"}
    status, message = door.update(files=files, environment_files=["e", "g"])
    assert (status, message.removeprefix(READ)) == (
        400,
        "an update with `existing` of a stack of more than 1000 bytes can't be judged with environment_files "
        "(send their contents, in `environment`)",
    )
    assert door.heat.requests == []


@pytest.mark.parametrize(
    ("method", "body", "message"),
    [
        ("PUT", {}, "template is missing or of a wrong type"),
        ("PUT", {"existing": True}, "template is missing or of a wrong type"),
        ("PATCH", {"template": ["x"]}, "template is missing or of a wrong type"),
        ("PUT", {"template": TEMPLATE, "adopt_stack_data": "{}"},
         "adopt_stack_data is only allowed in the creation of a stack"),
        ("PATCH", {"adopt_stack_data": "{}"}, "adopt_stack_data is only allowed in the creation of a stack"),
        ("PATCH", {"template_url": "x"}, "the policies can't judge a stack given by template_url (send the template "
         "itself: heat stack create -t FILE reads an address for you)"),
        ("PATCH", {"clear_parameters": "f"}, "clear_parameters is not a list of names"),
        ("PATCH", {"environment_files": ["x"]}, "x of environment_files is missing in files"),
        ("PATCH", {"environment_files": ["a.txt"]}, "a.txt:1:1: an environment is a map of sections"),
        ("PATCH", {"environment_files": ["e"], "files": {"e": "parameter_merge_strategies: {f: merge}"}},
         "an update with `existing` can't be judged with parameter_merge_strategies "
         "(send the whole stack, without `existing`)"),
        ("PATCH", {"environment": {"parameters": ["f"]}}, "the section `parameters` has the wrong form"),
        ("PATCH", {"environment": {"event_sinks": 5}}, "the section `event_sinks` has the wrong form"),
        ("PATCH", {"environment": {"parameter": {"f": "micro"}}},
         "an environment has no section `parameter` (did you mean `parameters`?)"),
        ("PATCH", {"environment_files": ["e"], "files": {"e": "parameters:\n"}},
         "e:1:1: the section `parameters` has the wrong form"),
        ("PATCH", {"environment": "resource_registry: {1: null}"}, "a type must be a string"),
        ("PATCH", {"template": "a: [b"}, "<template>:2:1: this is not YAML: while parsing a flow sequence, "
         "did not find expected ',' or ']'"),
    ],
)  # fmt: skip
def test_an_update_that_can_not_be_judged_is_refused(
    point: DecisionPoint, method: str, body: dict[str, Any], message: str
) -> None:
    door = client(point)
    assert door.update(method, **body) == (400, READ + message)
    assert door.heat.requests == []


def test_heats_own_refusal_of_a_reading_is_the_users_answer(point: DecisionPoint) -> None:
    door = client(point)
    answer = door.send(b"{}", REQUEST_METHOD="POST", PATH_INFO=STACK + "/snapshots/2/restore")
    assert answer == ("404 Not Found", {"Content-Type": "application/json"}, b'{"code": 404}')

    door.heat.reading = LookupError("a fault of Heat's own")
    with pytest.raises(LookupError):
        door.update(parameters={"f": "micro"})
    assert door.heat.requests == []


def test_readings_are_made_in_the_context_of_the_request(point: DecisionPoint) -> None:
    door, context = client(point), Context(TOKEN)
    environ = {"REQUEST_METHOD": "PATCH", "PATH_INFO": STACK, "webob.adhoc_attrs": {"context": context}}
    assert door.send(b'{"files": {"b": "b"}}', **environ)[0] == "201 Created"
    assert door.heat.contexts == [context] * 4


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({**STORED, "template": FIXED}, DENIED),
        ({**STORED, "environment": {"parameters": {"f": "huge"}}}, DENIED),
        (STORED, (201, "")),
        ({**STORED, "environment": {"parameters": {"key": "******"}}},
         (403, "The policies deny this stack: key: web has no real key")),
        (None, (400, READ + "Heat has no complete definition of the stack")),
    ],
)  # fmt: skip
def test_a_restoration_is_judged_by_what_the_snapshot_holds(
    point: DecisionPoint, data: object, answer: tuple[int, str]
) -> None:
    stored = {**STORED, "snapshots": {"snapshots/2": {"status": "COMPLETE", "data": data}}}
    assert client(point, stored).ask("POST", STACK + "/snapshots/2/restore") == answer
