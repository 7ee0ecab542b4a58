"""Congress's API answers its client, and says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.doors.server import congress_state
from datalog_gate.doors.server.application import create_app, trust_token
from datalog_gate.doors.server.congress_state import LivePolicies
from datalog_gate.doors.server.endpoint import CLOUD, OPERATOR, ApiCall, ApiError, Endpoint, Reply
from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.serving import read_config
from datalog_gate.store.rule_store import Change, RuleStore, StaleError
from datalog_gate.store.tables import stored_rules
from tests.test_server import TOKEN, USERS, Api, create_client

BAD = (
    "error(server, flavor) :- nova:servers(id=server, flavor_id=f), nova:flavors(id=f, name=flavor),"
    " not offered(flavor)"
)
VOLUME = [
    "v1",
    5,
    "u",
    "in-use",
    "",
    "data",
    False,
    "2026-01-01",
    "ssd",
    False,
    "nova",
    "",
    False,
    None,
    None,
    None,
    "",
]


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path)


@pytest.fixture
def flavors(api: Api) -> Api:
    """A server with a policy and rows of flavors and servers."""
    ask(api, "POST", "/v1/policies", {"name": "flavors", "description": "on offer", "kind": None}, status=201)
    ask(api, "PUT", rows_of("flavors"), [["f1", "small", 1, 2, 3, 0, 1], ["f2", "huge", 64, 2, 3, 0, 1]])
    ask(api, "PUT", rows_of("servers"), [{"id": "a", "flavor_id": "f2"}, {"id": "b", "flavor_id": "f1"}])
    return api


def test_policies_are_created_shown_and_deleted(api: Api) -> None:
    created = ask(api, "POST", "/v1/policies", {"name": "net", "description": "d", "abbreviation": None}, status=201)
    identity = created.pop("id")
    shown = {"name": "net", "description": "d", "abbreviation": "net", "kind": "nonrecursive", "owner_id": "operator"}
    assert created == shown
    assert (
        ask(api, "GET", "/v1/policies/net") == ask(api, "GET", f"/v1/policies/{identity}") == {"id": identity, **shown}
    )
    listed = ask(api, "GET", "/v1/policies")["results"]
    assert [(policy["name"], policy["kind"], policy["owner_id"]) for policy in listed] == [
        ("classification", "nonrecursive", ""),
        ("action", "action", ""),
        ("net", "nonrecursive", "operator"),
        ("words", "nonrecursive", "file"),
    ]
    assert ask(api, "DELETE", "/v1/policies/net") == {"id": identity, **shown}
    assert ask(api, "GET", "/v1/policies")["results"] == [policy for policy in listed if policy["name"] != "net"]


def test_only_an_admin_may_use_the_api(api: Api) -> None:
    codes = {user: api.ask("GET", "/v1/policies", user=user).status_code for user in USERS}
    assert codes == dict.fromkeys(USERS, 403) | {"adam": 200}


@pytest.mark.parametrize("path", ["policies", "data-sources"])
def test_a_line_break_at_its_end_is_no_part_of_a_name(api: Api, path: str) -> None:
    refused = ask(api, "POST", f"/v1/{path}", {"name": "p\n", "driver": "nova"}, status=400)["error"]["message"]
    assert refused == r"the body at name: 'p\n' does not match '^[A-Za-z_][A-Za-z0-9_]{0,250}$'"
    ask(api, "POST", "/v1/policies/classification/rules", {"rule": "p(1)"}, status=201)


def test_rules_are_added_one_by_one_and_removed(flavors: Api) -> None:
    body = {"rule": BAD, "name": "bad", "comment": "not on offer"}
    first = ask(flavors, "POST", "/v1/policies/flavors/rules", body, status=201)
    assert first.pop("warnings") == ["1:101 nothing defines offered: it is empty"]
    second = ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": "flavors:offered('small')"}, status=201)
    assert first == {"id": first["id"], **body}
    assert ask(flavors, "GET", "/v1/policies/flavors/rules") == {"results": [first, second]}
    assert ask(flavors, "GET", f"/v1/policies/flavors/rules/{second['id']}") == second
    assert second == {"id": second["id"], "rule": "flavors:offered('small')", "name": None, "comment": ""}
    assert rows(flavors, "error") == [["a", "huge"]]
    assert ask(flavors, "DELETE", f"/v1/policies/flavors/rules/{second['id']}") == second
    assert rows(flavors, "error") == [["a", "huge"], ["b", "small"]]
    tables = ask(flavors, "GET", "/v1/policies/flavors/tables")["results"]
    assert [table["id"] for table in tables] == ["error", "nova:flavors", "nova:servers", "offered"]
    assert ask(flavors, "GET", "/v1/policies/flavors/tables/error") == {"id": "error"}
    assert rows(flavors, "nova:servers") == [server_row("a", "f2"), server_row("b", "f1")]


def test_the_history_shows_who_did_what(flavors: Api) -> None:
    rule = ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": "p(1)"}, status=201)
    ask(flavors, "DELETE", f"/v1/policies/flavors/rules/{rule['id']}")
    changes = ask(flavors, "GET", "/v2/rule-changes")["changes"]
    assert [(change["number"], change["author"], change["change"], change["subject"]) for change in changes] == [
        (3, "operator", "remove rule", "flavors"),
        (2, "operator", "add rule", "flavors"),
        (1, "operator", "add policy", "flavors"),
    ]
    assert [change["content"][0].get("rule") for change in changes] == ["p(1)", "p(1)", None]
    page = ask(flavors, "GET", "/v2/rule-changes?limit=2")
    assert (page["next"], [change["number"] for change in page["changes"]]) == (2, [3, 2])
    assert [change["number"] for change in ask(flavors, "GET", "/v2/rule-changes?before=2")["changes"]] == [1]


WRONG: list[tuple[str, str, object, int, int, str]] = [
    ("POST", "policies/flavors/rules", {"rule": "p(x) :- nova:servers(idd=x)"}, 400, 1002,
     "Syntax error for rule::1:22 nova:servers has no column idd: did you mean id?"),
    ("POST", "policies/flavors/rules", {"rule": "p(1) q(2)"}, 400, 1002,
     "Syntax error for rule::1:6 missing `:-` or `.` before `q`: write `:-` before `q`"),
    ("POST", "policies/flavors/rules", {"rule": "p(1). q(2)"}, 400, 1003,
     "Received string representing more than 1 rule::2 statements: send each by a request of its own"),
    ("POST", "policies/flavors/rules", {"rule": '@deny("a", "{x}") p(x) :- kept(x)'}, 400, 1002,
     "Syntax error for rule::1:1 @deny makes a policy in a rule file alone: "
     "leave it out, and derive rows of `error` or `warning`"),
    ("POST", "policies/flavors/rules", {"rule": "// p(1)"}, 400, 1002, "Syntax error for rule::there is no rule in it"),
    ("POST", "policies/flavors/rules", {"rule": "kept( 1 )"}, 409, 1008, "Rule already exists::kept( 1 )"),
    ("POST", "policies/flavors/rules", {"rule": "kept(1, 2)"}, 400, 1002,
     "Syntax error for rule::1:1 kept has 1 column, found 2: give every rule of a relation the same number of "
     "arguments"),
    ("POST", "policies/flavors/rules", {"rule": 5}, 400, 400, "the body at rule: 5 is not of type 'string'"),
    ("POST", "policies/flavers/rules", {"rule": "p(1)"}, 404, 1020,
     "The specified policy does not exist.::flavers: did you mean flavors?"),
    ("POST", "policies/words/rules", {"rule": "p(1)"}, 403, 403, "the policy words comes from a file: change it there"),
    ("DELETE", "policies/words", None, 403, 403, "the policy words comes from a file: change it there"),
    ("DELETE", "policies/action", None, 409, 409,
     "the policy action exists without being created: delete its rules"),
    ("DELETE", "policies/flavors/rules/none", None, 404, 404, "the policy flavors has no rule of the id none"),
    ("POST", "policies", {"name": "flavors"}, 409, 1015, "A policy or source with name 'flavors' already exists"),
    ("POST", "policies", {"name": "nova"}, 409, 1015, "A policy or source with name 'nova' already exists"),
    ("POST", "policies", {"name": "os"}, 409, 1015, "A policy or source with name 'os' already exists"),
    ("POST", "policies", {}, 400, 1010, "A name must be provided when creating a policy"),
    ("POST", "policies", {"name": "a", "rules": [{"rule": "p(x"}]}, 400, 1002,
     "Syntax error for rule::1:4 found the end of the text, expected `,` or `)`"),
    ("POST", "policies?library_policy=none", None, 404, 1020, "the library has no policy none"),
    ("POST", "policies/flavors?action=simulate", {"query": "p(x)"}, 400, 1004,
     "Simulate requires parameters: query, sequence, action_policy"),
    ("POST", "policies/flavors?action=simulate", {"query": "p(x)", "sequence": "q(1)", "action_policy": "action"}, 400,
     1007, "Error in simulate procedure::1:1 q is neither an update nor an action of action: write q+(...) to "
     "add a row"),
    ("POST", "policies/flavors?action=simulate",
     {"query": "p(x)", "sequence": "nova:tags+('a')", "action_policy": "action"}, 400, 1007,
     "Error in simulate procedure::1:1 nova:tags has 2 columns, found 1"),
    ("POST", "policies/flavors?action=execute", {"name": "nova:pause"}, 400, 400,
     "execute is recorded and never run: its rows are those of the table execute.SERVICE.ACTION"),
    ("GET", "policies/flavors/tables/kep", None, 404, 404, "Not Found::table 'kep' doesn't exist: did you mean kept?"),
    ("GET", "policies/flavors/tables/failing/rows", None, 422, 422, "RULE:1:40: div(1, 0): division by zero"),
    ("GET", "data-sources/novaa/status", None, 404, 404, "Datasource not found novaa: did you mean nova?"),
    ("GET", "data-sources/nova/tables/servrs/rows", None, 404, 404,
     "Table 'servrs' for datasource 'nova' has no schema: did you mean servers?"),
    ("PUT", "data-sources/nova/tables/tags/rows", [["s", "t"], ["s"]], 400, 400,
     "row 2: nova:tags has 2 columns, found 1"),
    ("PUT", "data-sources/nova/tables/tags/rows", [["s", 5]], 400, 400, "row 1: nova:tags.tag is string, found number"),
    ("PUT", "data-sources/nova/tables/tags/rows", [["s", []]], 400, 400, "row 1: list is not a value"),
    ("POST", "data-sources", {"name": "vol", "driver": "cindr"}, 404, 404,
     "Invalid driver: cindr: did you mean cinder?"),
    ("POST", "data-sources", {"name": "flavors", "driver": "cinder"}, 409, 409,
     "Datasource already in use with name flavors"),
    ("POST", "data-sources", {"name": "glance", "driver": "nova"}, 409, 409,
     "Datasource already in use with name glance"),
    ("POST", "data-sources/nova?action=pause", None, 400, 400, "pause is not run: actions that rules execute are "
    "only recorded"),
    ("DELETE", "data-sources/nova", None, 409, 409,
     "the source nova exists without being created: there is nothing to delete"),
    ("GET", "system/drivers/novaa", None, 404, 404, "Driver not found novaa: did you mean nova?"),
    ("GET", "none", None, 404, 404, "there is nothing at this path: see /v2/openapi.json"),
]  # fmt: skip
"""A request, the status, Congress's number of the error, and its message."""


@pytest.mark.slow
def test_errors_have_the_format_of_congress(flavors: Api) -> None:
    ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": "kept(1)"}, status=201)
    rule = ask(
        flavors,
        "POST",
        "/v1/policies/flavors/rules",
        {"rule": "failing(x) :- kept(y), minus(y, 1, z), div(1, z, x)"},
        status=201,
    )
    answers = []
    for method, path, body, *_ in WRONG:
        answer = flavors.ask(method, f"/v1/{path}", body)
        error = answer.json["error"]
        message = error["message"].replace(f"flavors:{rule['id']}", "RULE")
        answers.append((method, path, body, answer.status_code, error["error_code"], message))
    assert answers == WRONG


def test_a_refused_rule_has_its_diagnostics_as_data(flavors: Api) -> None:
    answer = flavors.ask("POST", "/v1/policies/flavors/rules", {"rule": "p(x) :- nova:servers(idd=x)"})
    (told,) = answer.json["error"]["error_data"]
    assert (told["code"], told["place"]["line"], told["place"]["column"], told["suggestion"]) == (
        "unknown-column", 1, 22, "did you mean id?",
    )  # fmt: skip


def test_a_policy_that_others_read_stays_until_they_are_gone(flavors: Api) -> None:
    ask(flavors, "POST", "/v1/policies", {"name": "other", "rules": [{"rule": "p(x) :- flavors:q(x)"}]}, status=201)
    answer = flavors.ask("DELETE", "/v1/policies/flavors")
    assert (answer.status_code, answer.json["error"]["message"]) == (
        409,
        "rules of other read flavors: remove these first",
    )
    ask(flavors, "DELETE", "/v1/policies/other")
    ask(flavors, "DELETE", "/v1/policies/flavors")


def test_what_rules_execute_is_recorded_and_traced(flavors: Api) -> None:
    rule = "execute[nova:servers.pause(x)] :- nova:servers(id=x, flavor_id=f), nova:flavors(id=f, name='huge')"
    ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": rule}, status=201)
    answer = ask(flavors, "GET", "/v1/policies/flavors/tables/execute.nova.servers.pause/rows?trace=True")
    assert answer["results"] == [{"data": ["a"]}]
    assert [line.split("(")[0].split() for line in answer["trace"].splitlines()] == [
        ["a", "nova:servers"],
        ["nova:flavors"],
    ]


def test_a_simulation_is_answered_and_changes_nothing(flavors: Api) -> None:
    for rule in (BAD, "offered('small')"):
        ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": rule}, status=201)
    for rule in ("action('offer')", "flavors:offered+(x) :- offer(x)", "flavors:made+(id, x) :- offer(x)"):
        ask(flavors, "POST", "/v1/policies/action/rules", {"rule": rule}, status=201)
    body = {"query": "error(s, f)", "sequence": "offer('huge')", "action_policy": "action"}
    path = "/v1/policies/flavors?action=simulate&trace={}&delta={}"
    assert ask(flavors, "POST", path.format(False, False), body) == {"result": []}
    assert ask(flavors, "POST", path.format(False, True), body) == {"result": ['error-("a", "huge")']}
    traced = ask(flavors, "POST", path.format(True, False), body | {"query": "made(i, x)"})
    assert traced["result"] == ['made("new-id-1", "huge")']
    assert traced["trace"].splitlines()[0] == (
        'offer("huge"): flavors:made+("new-id-1", "huge") flavors:offered+("huge")'
    )
    assert rows(flavors, "error") == [["a", "huge"]]


def test_the_call_of_murano_is_answered(api: Api) -> None:
    """Murano sends the objects of an environment as facts with blanks between them, and reads `predeploy_errors`."""
    objects = "murano:objects(obj, env, t), murano:properties(obj, 'flavor', 'huge')"
    rule = f"predeploy_errors(env, obj, 'too large') :- {objects}"
    ask(api, "POST", "/v1/policies", {"name": "murano_system", "rules": [{"rule": rule}]}, status=201)
    ask(api, "POST", "/v1/policies", {"name": "murano", "kind": "nonrecursive"}, status=201)
    sequence = (
        'murano:objects+("o1", "env", "io.Instance") murano:properties+("o1", "flavor", "huge") '
        'murano:objects+("o2", "env", "io.Instance") murano:properties+("o2", "flavor", "small")'
    )
    body = {"query": "predeploy_errors(env, obj, msg)", "sequence": sequence, "action_policy": "action"}
    answer = ask(api, "POST", "/v1/policies/murano_system?action=simulate", body)
    assert answer == {"result": ['predeploy_errors("env", "o1", "too large")']}


def test_sources_have_schemas_rows_and_a_status(flavors: Api) -> None:
    secrets = {"password": "s3cret", "pwd": "s3cret", "auth": {"x": "s3cret"}, "auth_url": "http://u:s3cret@keystone"}
    source = {"name": "vol", "driver": "cinder", "config": {"cloud": "prod", "poll_time": 10, **secrets}}
    created = ask(flavors, "POST", "/v1/data-sources", source, status=201)
    kept = {"cloud": "prod", "poll_time": 10, **dict.fromkeys(secrets, "<hidden>")}
    assert (created["enabled"], created["config"]) == (True, kept)
    assert "s3cret" not in json.dumps(ask(flavors, "GET", "/v2/rule-changes"))
    assert b"s3cret" not in b"".join(path.read_bytes() for path in flavors.folder.rglob("*") if path.is_file())
    assert ask(flavors, "GET", "/v1/data-sources/vol") == created
    assert created in ask(flavors, "GET", "/v1/data-sources")["results"]
    ask(
        flavors,
        "POST",
        "/v1/policies/flavors/rules",
        {"rule": "big(x) :- vol:volumes(id=x, size=s), gt(s, 3)"},
        status=201,
    )
    path = "/v1/data-sources/vol/tables/volumes"
    small = ["v2", 2, *VOLUME[2:]]
    ask(flavors, "PUT", f"{path}/rows", [VOLUME, small])
    filled = [{"data": [*row, None, None]} for row in (VOLUME, small)]  # Congress has two columns less
    assert ask(flavors, "GET", f"{path}/rows") == {"results": filled}
    assert rows(flavors, "big") == [["v1"]]
    ask(flavors, "PUT", f"{path}/rows", [])
    assert rows(flavors, "big") == []
    assert status_of(flavors, "vol") == ("0", "True", "None")
    columns = ask(flavors, "GET", f"{path}/spec")["columns"]
    assert (columns[0]["name"], ask(flavors, "GET", path)) == ("id", {"id": "volumes"})
    schema = ask(flavors, "GET", "/v1/data-sources/vol/schema")["tables"]
    assert {"table_id": "volumes", "columns": columns} in schema
    tables = ask(flavors, "GET", "/v1/data-sources/vol/tables")["results"]
    assert [table["id"] for table in tables] == [table["table_id"] for table in schema]
    assert (status_of(flavors, "nova"), status_of(flavors, "cinder")) == (("4", "True", "None"), ("0", "False", "None"))
    assert ask(flavors, "GET", "/v1/data-sources/nova/actions") == {"results": []}
    assert ask(flavors, "POST", "/v1/data-sources/nova?action=request-refresh") == {}
    answer = flavors.ask("DELETE", "/v1/data-sources/vol")
    assert answer.json["error"]["message"].startswith("Rules need the source::1:11 nothing defines vol:volumes")
    (rule,) = ask(flavors, "GET", "/v1/policies/flavors/rules")["results"]
    ask(flavors, "DELETE", f"/v1/policies/flavors/rules/{rule['id']}")
    assert ask(flavors, "DELETE", "/v1/data-sources/vol") == created


def test_an_inventory_that_is_no_text_any_more_is_a_problem_of_the_refresh(tmp_path: Path) -> None:
    file = tmp_path / "cloud.jsonl"
    file.write_text("")
    api = Api(tmp_path, gate=f"inventory = {file}")
    file.write_bytes(b"\xff")
    error = api.ask("POST", "/v1/data-sources/nova?action=request-refresh").json["error"]
    assert (error["error_code"], error["message"]) == (
        503,
        f"the rows of nova can't be read: {file}:1:1: error[encoding] byte 0 of the file is not UTF-8",
    )


def test_no_rows_replace_those_of_the_inventory_too(tmp_path: Path) -> None:
    (tmp_path / "cloud.jsonl").write_text('{"relation": "nova:servers", "row": {"id": "s1"}}\n')
    api = Api(tmp_path, f"inventory = {tmp_path}/cloud.jsonl")
    assert ask(api, "GET", rows_of("servers")) == {"results": [{"data": server_row("s1", None)}]}
    ask(api, "PUT", rows_of("servers"), [])
    assert ask(api, "GET", rows_of("servers")) == {"results": []}


def test_drivers_tell_their_tables(api: Api) -> None:
    names = [driver["id"] for driver in ask(api, "GET", "/v1/system/drivers")["results"]]
    shown = ask(api, "GET", "/v1/system/drivers/nova")
    assert ("nova" in names, shown["id"], shown["secret"]) == (True, "nova", [])
    assert "servers" in [table["table_id"] for table in shown["tables"]]


def test_policies_of_the_library_become_policies(api: Api) -> None:
    library = {"name": "lib", "description": "d", "rules": [{"rule": "p(1)", "name": "first"}]}
    created = ask(api, "POST", "/v1/librarypolicies", library, status=201)
    shown = {"id": created["id"], "kind": "nonrecursive", "abbreviation": "", **library}
    assert (
        ask(api, "GET", f"/v1/librarypolicies/{created['id']}") == ask(api, "GET", "/v1/librarypolicies/lib") == shown
    )
    without = {name: value for name, value in shown.items() if name != "rules"}
    assert ask(api, "GET", "/v1/librarypolicies?include_rules=False") == {"results": [without]}
    policy = ask(api, "POST", "/v1/policies?library_policy=lib", {"name": "mine"}, status=201)
    assert (policy["name"], [rule["rule"] for rule in policy["rules"]]) == ("mine", ["p(1)"])
    assert rows(api, "p", "mine") == [[1]]
    ask(api, "PUT", "/v1/librarypolicies/lib", library | {"description": "e"})
    assert ask(api, "GET", "/v1/librarypolicies/lib")["description"] == "e"
    assert ask(api, "DELETE", "/v1/librarypolicies/lib")["id"] == created["id"]
    assert ask(api, "GET", "/v1/librarypolicies") == {"results": []}


def test_policies_of_files_are_listed_with_their_rules(api: Api) -> None:
    (rule,) = ask(api, "GET", "/v1/policies/words/rules")["results"]
    assert rule["rule"].endswith("\nlong(r, n) :- os:heat:random_string(_id=r, length=n), n > 64.")
    assert ask(api, "GET", "/v1/policies/words/rules/1") == rule
    assert ask(api, "GET", "/v1/policies/words/tables/long/rows") == {"results": []}


def test_another_worker_sees_rules_and_rows_of_this_one(flavors: Api) -> None:
    other = LivePolicies(
        flavors.server.point, RuleStore(flavors.server.records.store), clock=iter(range(0, 1000, 2)).__next__
    )
    assert other.state().stored.rules == ()
    rule = ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": BAD}, status=201)
    assert [stored["rule"] for stored in other.state().stored.rules] == [BAD]
    assert sorted(other.evaluate("flavors:error")[0].model.rows("flavors:error")) == [("a", "huge"), ("b", "small")]
    ask(flavors, "PUT", rows_of("servers"), [])
    assert list(other.evaluate("flavors:error")[0].model.rows("flavors:error")) == []
    ask(flavors, "DELETE", f"/v1/policies/flavors/rules/{rule['id']}")
    assert other.state().index.rules == {}


def test_a_change_of_what_another_has_changed_since_is_refused(flavors: Api) -> None:
    store = flavors.server.live.store
    seen = store.numbers()[0]
    ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": "p(1)"}, status=201)
    with pytest.raises(StaleError, match=f"the rules are now at generation {seen + 1}, but were read at {seen}"):
        store.change(seen, Change("eva", "remove rule", "flavors"))


def test_a_change_that_meets_another_is_checked_again(flavors: Api) -> None:
    other = RuleStore(flavors.server.records.store)
    ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": "p(1)"}, status=201)
    tries = []

    def work(state: Any) -> Any:
        tries.append(state.stored.number)
        if len(tries) == 1:
            other.change(
                state.stored.number, Change("eva", "add rule", "flavors", added=((stored_rules, record("q(2)")),))
            )
        return Change("ada", "add rule", "flavors", added=((stored_rules, record("r(3)")),)), state.index, None

    flavors.server.live.change(work)
    assert tries == [2, 3]
    assert [rule["rule"] for rule in other.read().rules] == ["p(1)", "q(2)", "r(3)"]


def test_a_change_that_others_always_overtake_is_refused_and_may_be_sent_again(flavors: Api) -> None:
    other = RuleStore(flavors.server.records.store)

    def work(state: Any) -> Any:
        other.change(state.stored.number, Change("eva", "add rule", "flavors"))
        return Change("ada", "add rule", "flavors"), state.index, None

    def handle(call: ApiCall) -> Reply:
        return Reply(call.server.live.change(work))

    names = "POST", "/v1/busy", "congress_policy:simulate", "Change the rules"
    busy = Endpoint(*names, handle, allowed=OPERATOR, scopes=CLOUD)
    application = create_app(read_config(flavors.folder / "server.conf"), flavors.server, trust_token(TOKEN), [busy])
    answer = create_client(application).simulate_post("/v1/busy", headers={"X-Auth-Token": TOKEN})
    message = "the rules are being changed by other requests: send it again"
    assert (answer.status_code, answer.json["error"]["message"]) == (503, message)


def test_a_generation_that_can_not_be_loaded_leaves_the_one_before_and_turns_health_red(flavors: Api) -> None:
    ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": BAD}, status=201)
    live, store = flavors.server.live, flavors.server.live.store
    live.state()
    broken = record("p(x) :- nova:servers(idd=x)")
    number = store.change(store.numbers()[0], Change("eva", "add rule", "flavors", added=((stored_rules, broken),)))
    assert live.state(fresh=True).stored.number == number - 1
    assert rows(flavors, "error") == [["a", "huge"], ["b", "small"]]
    health = flavors.ask("GET", "/healthcheck")
    problem = f"generation {number}: flavors:{broken['id']}: nova:servers has no column idd"
    assert (health.status_code, health.json["checks"]["stored_rules"]["problem"]) == (503, problem)
    refused = flavors.ask("POST", "/v1/policies/flavors/rules", {"rule": "p(1)"})
    told = f"the stored rules can't be loaded: {problem}"
    assert (refused.status_code, refused.json["error"]["message"]) == (503, told)
    fresh = LivePolicies(flavors.server.point, store)
    with pytest.raises(ApiError) as error:
        fresh.state()
    assert (error.value.status, error.value.message) == (503, told)
    missing = flavors.ask("DELETE", "/v1/policies/flavors/rules/none")
    assert (missing.status_code, missing.json["error"]["message"]) == (503, told)
    shown = {name: broken[name] for name in ("id", "name", "comment", "rule")}
    assert ask(flavors, "DELETE", f"/v1/policies/flavors/rules/{broken['id']}") == shown
    assert [(entry["author"], entry["change"]) for entry in store.history(None, 1)] == [("operator", "remove rule")]
    live.state(fresh=True)
    assert flavors.ask("GET", "/healthcheck").status_code == 200


def test_a_server_that_starts_with_rules_that_can_not_be_loaded_removes_them(flavors: Api) -> None:
    store, broken = flavors.server.live.store, record("p(x) :- nova:servers(idd=x)")
    store.change(store.numbers()[0], Change("eva", "add rule", "flavors", added=((stored_rules, broken),)))
    flavors.server.live = LivePolicies(flavors.server.point, store)
    assert flavors.ask("GET", "/v1/policies").status_code == 503
    ask(flavors, "DELETE", f"/v1/policies/flavors/rules/{broken['id']}")
    assert store.read().rules == ()
    ask(flavors, "GET", "/v1/policies")


def test_rows_are_those_of_the_files_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(congress_state, "id", lambda _: 1, raising=False)  # Python gives addresses again
    monkeypatch.setattr(congress_state, "LOOK", 0.0)
    api = Api(tmp_path, "reload_seconds = 0")
    read = []
    for word in ("a", "b"):
        text = f'export w. w("{word}"). @warn("word", "{{x}}") said(x) :- w(x), os:heat:random_string(salt=x).'
        (tmp_path / "rules" / "words.dl").write_text(text)
        if word == "a":
            ask(api, "POST", "/v1/policies/classification/rules", {"rule": "p(x) :- words:w(x)"}, status=201)
        read.append(ask(api, "GET", "/v1/policies/classification/tables/p/rows"))
    assert read == [{"results": [{"data": ["a"]}]}, {"results": [{"data": ["b"]}]}]


def test_a_server_that_starts_again_has_all_that_was_stored(flavors: Api) -> None:
    ask(flavors, "POST", "/v1/policies/flavors/rules", {"rule": BAD}, status=201)
    again = create_server(read_config(flavors.folder / "server.conf"))
    model = again.live.evaluate("flavors:error")[0].model
    assert sorted(model.rows("flavors:error")) == [("a", "huge"), ("b", "small")]


def record(rule: str) -> dict[str, Any]:
    names = {"policy": "flavors", "name": None, "comment": "", "author": "eva", "at": 0.0}
    return {"id": f"id of {rule}", "rule": rule, **names}


def ask(api: Api, method: str, path: str, body: object = None, status: int = 200) -> Any:
    answer = api.ask(method, path, body)
    assert answer.status_code == status, answer.text
    return answer.json


def rows(api: Api, table: str, policy: str = "flavors") -> list[list[Any]]:
    return [row["data"] for row in ask(api, "GET", f"/v1/policies/{policy}/tables/{table}/rows")["results"]]


def status_of(api: Api, source: str) -> tuple[str, str, str]:
    status = ask(api, "GET", f"/v1/data-sources/{source}/status")
    return status["rows"], status["initialized"], status["last_error"]


def server_row(identity: str, flavor: str | None) -> list[Any]:
    return [identity, *[None] * 6, flavor, *[None] * 7]


def rows_of(table: str) -> str:
    return f"/v1/data-sources/nova/tables/{table}/rows"
