"""The policy server: routes, roles, answers, refusals."""

from __future__ import annotations

import json
import logging
import socket
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import falcon.testing
import pytest
from falcon.testing import Result
from hypothesis import given, settings, strategies
from keystoneauth1.token_endpoint import Token
from openapi_spec_validator import validate

from datalog_gate.base.errors import InputError
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.policy_reload import read_stored_waivers
from datalog_gate.doors.cli.main import main
from datalog_gate.doors.server import application
from datalog_gate.doors.server.access import list_domain_projects, list_rules
from datalog_gate.doors.server.api_table import ENDPOINTS
from datalog_gate.doors.server.application import create_app, trust_token
from datalog_gate.doors.server.endpoint import ANYBODY, ApiError
from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.serving import read_config, read_token, serve
from datalog_gate.doors.server.system import HEALTH
from datalog_gate.doors.wsgi import wrap
from datalog_gate.engine.sql.database import open_database
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.batch import ScanRequest, judge_entry
from datalog_gate.scan.feed import Item, StackEntry
from datalog_gate.scan.log_feed import LogFeed
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.services.approval import Approvals
from tests.fake_heat import TOKEN as TOKEN_INFO
from tests.fake_heat import Client, Context, FakeHeat, point_of
from tests.ledger import request
from tests.sampling import sample
from tests.unit.scan.test_scan import ListFeed

TOKEN = "t0ken"
RULES = """\
@deny(id="length", message="{r} has {n} characters", hint="ask for 64 at most")
long(r, n) :- os:heat:random_string(_id=r, length=n), n > 64.
"""
SHORT = {"heat_template_version": "2018-08-31", "resources": {"word": {"type": "OS::Heat::RandomString"}}}


def template(length: int) -> dict[str, Any]:
    resource = {"type": "OS::Heat::RandomString", "properties": {"length": length}}
    return {"heat_template_version": "2018-08-31", "resources": {"word": resource}}


USERS = {
    "ann": {"X_PROJECT_ID": "p1", "X_ROLES": "member,reader"},
    "bob": {"X_PROJECT_ID": "p2", "X_ROLES": "member,reader"},
    "rita": {"X_PROJECT_ID": "p1", "X_ROLES": "reader"},
    "adam": {"X_PROJECT_ID": "p1", "X_ROLES": "admin,member,reader"},
    "sid": {"OPENSTACK_SYSTEM_SCOPE": "all", "X_ROLES": "reader"},
    "dora": {"X_DOMAIN_ID": "d1", "X_ROLES": "admin,member,reader"},
    "nina": {"X_PROJECT_ID": "p1", "X_ROLES": "guest"},
}
"""What Keystone says of users, whose tokens are their names. The domain d1 has the project p2."""


class Api:
    """A server, and requests to it: of its operator, or of who a Keystone says that asks."""

    def __init__(self, folder: Path, gate: str = "", **options: object) -> None:
        (folder / "rules").mkdir()
        (folder / "rules" / "words.dl").write_text(RULES)
        lines = ["[datalog_gate]", f"rules = {folder}/rules", f"decision_log = {folder}/log", gate]
        lines += ["[datalog_gate_server]", f"folder = {folder}/server"]
        lines += [f"{name} = {value}" for name, value in options.items()]
        (folder / "server.conf").write_text("\n".join(lines))
        self.folder, conf = folder, read_config(folder / "server.conf")
        self.server = create_server(conf)
        applications = [create_app(conf, self.server, trust) for trust in (trust_token(TOKEN), trust_users)]
        self._operator, self._users = map(create_client, applications)

    def ask(self, method: str, path: str, body: object = None, user: str = "", **headers: str) -> Result:
        """Ask as the operator, whose token may be another one, or as a user of Keystone."""
        token = headers.pop("token", user or TOKEN)
        given = {"X-Auth-Token": token, **{name.replace("_", "-"): value for name, value in headers.items()}}
        content: dict[str, Any] = {} if body is None else {"json": body}
        if isinstance(body, bytes):
            content = {"body": body}
            given = {"Content-Type": "application/json", **given}
        client = self._users if user else self._operator
        path, _, query = path.partition("?")
        return client.simulate_request(method, path, query_string=query, headers=given, **content)


def create_client(application: Callable[..., Any]) -> falcon.testing.TestClient:
    """A client of any WSGI application; Falcon takes functions alone."""
    return falcon.testing.TestClient(lambda environ, start_response: application(environ, start_response))


def trust_users(application: Callable[..., Any]) -> Callable[..., Any]:
    """Stand in for Keystone's middleware."""

    def authenticate(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        user = environ["HTTP_X_AUTH_TOKEN"]
        environ |= {f"HTTP_{name}": value for name, value in USERS[user].items()}
        environ |= {"HTTP_X_USER_ID": user, "HTTP_X_IDENTITY_STATUS": "Confirmed"}
        return application(environ, start_response)

    return authenticate


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path)


def refusal(answer: Result) -> tuple[int, str, str]:
    """The status, the code and the message of a refusal."""
    [error] = answer.json["errors"]
    assert error["status"] == answer.status_code
    assert error["request_id"] == answer.headers["x-openstack-request-id"]
    return answer.status_code, error["code"], error["detail"]


@pytest.mark.slow
def test_the_description_is_valid_and_has_each_endpoint(api: Api) -> None:
    description = api.ask("GET", "/v2/openapi.json", token="").json
    validate(description)
    described = {(method, path) for path, methods in description["paths"].items() for method in methods}
    assert described == {(endpoint.method.lower(), endpoint.path) for endpoint in ENDPOINTS}


def test_each_endpoint_has_a_rule_of_its_own_that_the_sample_documents() -> None:
    rules = {rule.name: rule for rule in list_rules()}
    assert len(rules) == len(ENDPOINTS) + 1
    assert [endpoint.name for endpoint in ENDPOINTS if not rules[endpoint.rule].description] == []


def test_without_a_token_only_what_says_how_the_server_is_answers(api: Api) -> None:
    closed = [endpoint for endpoint in ENDPOINTS if endpoint.allowed != ANYBODY]
    answers = [api.ask(endpoint.method, endpoint.path, token=token) for endpoint in closed for token in ("", "no")]
    assert {refusal(answer)[:2] for answer in answers} == {(401, "unauthorized")}
    opened = {
        endpoint.path: api.ask("GET", endpoint.path, token="").status_code
        for endpoint in ENDPOINTS
        if endpoint not in closed
    }
    assert opened == dict.fromkeys(("/", "/healthcheck", "/metrics", "/v2/openapi.json"), 200)


def test_headers_of_the_client_change_no_identity(api: Api) -> None:
    forged = {"X_Identity_Status": "Confirmed", "X_Roles": "admin", "OpenStack_System_Scope": "all"}
    assert refusal(api.ask("GET", "/v2/policies", token="", **forged))[:2] == (401, "unauthorized")


def test_a_decision_is_that_of_check_and_is_kept_with_why(api: Api) -> None:
    answer = api.ask("POST", "/v2/decisions", {"template": template(99), "stack_name": "web"})
    decision = answer.json
    stack = create_stack(template(99), "web", api)
    assert (answer.status_code, decision) == (201, {**stack.to_json(), "refusals": []})
    kept = api.ask("GET", urlsplit(answer.headers["location"]).path).json
    why = [violation.pop("why") for violation in kept["violations"]]
    fact = "os:heat:random_string(web/word, length=99, ...)"
    assert [[step["text"] for step in reason["steps"]] for reason in why] == [[fact, "99 > 64"]]
    assert {name: value for name, value in kept.items() if name != "clean"} == decision


def create_stack(data: dict[str, Any], name: str, api: Api) -> Any:
    rules = api.server.point.current().ruleset.rules
    return rules.decide(StackDefinition(data).stack(name, rules.catalogue))


def test_only_a_caller_who_sees_everything_may_ask_for_another(api: Api) -> None:
    question = {"template": SHORT, "caller": {"user": "u", "project": "p2", "roles": ["member"]}}
    codes = {user: api.ask("POST", "/v2/decisions", question, user).status_code for user in USERS}
    assert codes == {"ann": 403, "bob": 403, "rita": 403, "adam": 201, "sid": 403, "dora": 403, "nina": 403}


def test_a_project_shows_its_decisions_to_its_own_users_alone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "list_domain_projects", lambda *_: frozenset({"p2"}))
    id_ = api.ask("POST", "/v2/decisions", {"template": SHORT}, "ann").json["id"]
    codes = {user: api.ask("GET", f"/v2/decisions/{id_}", user=user).status_code for user in USERS}
    assert codes == {"ann": 200, "bob": 404, "rita": 200, "adam": 200, "sid": 200, "dora": 404, "nina": 403}
    id_ = api.ask("POST", "/v2/decisions", {"template": SHORT, "stack_name": "b"}, "bob").json["id"]
    assert [api.ask("GET", f"/v2/decisions/{id_}", user=user).status_code for user in ("ann", "dora")] == [404, 200]


def test_a_domain_whose_projects_keystone_does_not_list_sees_no_answer() -> None:
    options = SimpleNamespace(keystone_authtoken=SimpleNamespace(cafile=None, insecure=False, interface="public"))
    environ = {"keystone.token_auth": Token("http://127.0.0.1:1/v3", "t"), "HTTP_X_DOMAIN_ID": "d1"}
    with pytest.raises(ApiError) as error:
        list_domain_projects(environ, options)
    assert (error.value.status, error.value.code) == (503, "keystone")


def scan(folder: Path) -> str:
    """Scan a long and a short word of p1, and a long one of p2."""
    words = (("r1", "p1", 99), ("r2", "p1", 9), ("r3", "p2", 77))
    return run_scan(
        folder,
        [
            StackEntry(root, f"stack-{root}", project, StackDefinition(template(length)), listing=root)
            for root, project, length in words
        ],
    )


def run_scan(folder: Path, items: Sequence[Item]) -> str:
    rules = load([RuleFile("words", "words.dl", RULES)])
    with open_database(str(folder / "scan")) as database:
        asked = ScanRequest(rules, datetime(2027, 3, 1, tzinfo=UTC), None, (), frozenset())
        run(ListFeed(items), "list", ScanStore(database), Judges(asked, 1), asked)
    return str(folder / "scan")


def test_findings_and_stacks_are_those_of_the_callers_projects_page_by_page(tmp_path: Path) -> None:
    api = Api(tmp_path, scan_store=scan(tmp_path))
    seen = {}
    for user in ("ann", "bob", "adam", "sid"):
        roots, path = [], "/v2/findings?limit=1"
        while path:
            answer = api.ask("GET", path, user=user).json
            roots += [finding["root"] for finding in answer["findings"]]
            path = f"/v2/findings?limit=1&marker={answer['next']}" if "next" in answer else ""
        stacks = [stack["root"] for stack in api.ask("GET", "/v2/stacks", user=user).json["stacks"]]
        seen[user] = roots, stacks, api.ask("GET", "/v2/stacks/r3", user=user).status_code
    everything = ["r1", "r3"], ["r1", "r2", "r3"], 200
    assert seen == {
        "ann": (["r1"], ["r1", "r2"], 404), "bob": (["r3"], ["r3"], 200), "adam": everything, "sid": everything,
    }  # fmt: skip
    [finding] = api.ask("GET", "/v2/findings?project=p2&policy=length&since=2027-03-01T00:00:00Z").json["findings"]
    assert (finding["message"], finding["row"], finding["stack"]) == (
        "word has 77 characters",
        [{"$resource": "stack-r3/word"}, 77],
        "stack-r3",
    )
    assert api.ask("GET", "/v2/findings?project=p2", user="ann").json == {"findings": []}
    assert [
        (stack["root"], stack["findings"]) for stack in api.ask("GET", "/v2/stacks?outcome=allow").json["stacks"]
    ] == [("r2", 0)]
    assert 'datalog_gate_findings_open{level="deny",state="holds"} 2' in api.ask("GET", "/metrics").text


def test_a_decision_is_the_same_by_check_the_filter_the_server_and_a_scan(tmp_path: Path, capsys: Any) -> None:
    api, heat = Api(tmp_path, scan_store=tmp_path / "scan"), FakeHeat()
    sent = json.dumps({"stack_name": "web", "template": template(64)}).encode()
    filtered = Client(wrap(heat, point=api.server.point), heat).send(sent)[1]["Datalog-Gate"].split(";")[0]
    api.server.point.flush()
    run_scan(tmp_path, list(LogFeed(read_log(tmp_path / "log"), {})))
    [record] = [record for record in read_log(tmp_path / "log") if isinstance(record, dict) and "inputs" in record]
    caller = record["inputs"]["caller"]
    asked = api.ask("POST", "/v2/decisions", {"template": template(64), "stack_name": "web", "caller": caller}).json
    (tmp_path / "web.json").write_text(json.dumps(template(64)))
    (tmp_path / "caller.json").write_text(json.dumps(caller))
    command = ["check", str(tmp_path / "web.json"), "--rules", str(tmp_path / "rules"), "--format", "json"]
    main([*command, "--caller", str(tmp_path / "caller.json")])
    checked = json.loads(capsys.readouterr().out)
    [stack] = api.ask("GET", "/v2/stacks").json["stacks"]
    ids = [filtered.removeprefix("allow "), asked["id"], checked["id"], stack["decision"]]
    assert ids == [record["id"]] * 4


def test_approvals_are_answered_by_operators_and_seen_by_their_project(api: Api) -> None:
    approvals = Approvals(api.server.point.settings.store)
    for project in ("p1", "p2"):
        approvals.use(request("u", "seat", project=project, stack=project), api.server.now().timestamp(), 86400.0)
    seen = {
        user: [approval["id"] for approval in api.ask("GET", "/v2/approvals", user=user).json["approvals"]]
        for user in ("ann", "bob", "adam")
    }
    assert seen == {"ann": ["A-1"], "bob": ["A-2"], "adam": ["A-1", "A-2"]}
    paths = ("/v2/approvals/1", "/v2/approvals/A-3", "/v2/approvals/A-0", "/v2/approvals/x")
    assert {api.ask("GET", path).status_code for path in paths} == {404}
    verdict, path = {"verdict": "approved", "why": "for March"}, "/v2/approvals/A-2/verdicts"
    codes = {user: api.ask("POST", path, verdict, user).status_code for user in ("ann", "bob", "sid", "dora", "adam")}
    assert codes == {"ann": 403, "bob": 403, "sid": 403, "dora": 403, "adam": 200}
    shown = api.ask("GET", "/v2/approvals/a-2", user="bob").json
    assert (shown["state"], [(said["who"], said["why"]) for said in shown["said"]]) == (
        "approved",
        [("adam", "for March")],
    )
    assert refusal(api.ask("POST", path, verdict, "adam"))[:2] == (409, "conflict")


SECRET = {"secret": {"type": "string", "hidden": True, "default": "S3CR3T"}}


@pytest.mark.parametrize("parameters", [SECRET, {}])
def test_fixes_are_found_when_somebody_looks_and_stored_without_secrets(api: Api, parameters: dict[str, Any]) -> None:
    body = json.dumps(template(99) | {"parameters": parameters}, indent=1)
    decision = api.ask("POST", "/v2/decisions", {"template": body}).json

    def stored() -> dict[str, Any]:
        row = api.server.records.find_decision(decision["id"], None)
        assert row
        [part] = row["content"]["page"]["policies"][0]["findings"]
        assert part["fix"] == (row["content"]["violations"][0]["why"]["fix"] or "")
        return {"fix": part["fix"], "inputs": "inputs" in row["content"], "secret": "S3CR3T" in json.dumps(row)}

    assert stored() == {"fix": "", "inputs": True, "secret": False}
    page = api.ask("GET", f"/v2/decisions/{decision['id']}?page=true").json["page"]
    [part] = page["policies"][0]["findings"]
    fix = "set length of word to 64 (settles 1 finding)"
    lines = [] if parameters else ['"length": 99', '"length": 64']  # of which a secret changes the lines that are kept
    assert (part["fix"], [line["text"].strip() for line in part["diff"]]) == (fix, lines)
    assert stored() == {"fix": fix, "inputs": False, "secret": False}
    assert api.ask("GET", f"/v2/decisions/{decision['id']}").json.keys() - decision.keys() == {"clean"}


def test_no_fix_is_shown_of_rules_that_have_changed(tmp_path: Path) -> None:
    api = Api(tmp_path, gate="reload_seconds = 0")
    decision = api.ask("POST", "/v2/decisions", {"template": template(99)}).json
    (tmp_path / "rules" / "words.dl").write_text(RULES.replace("> 64", "> 60"))
    api.server.point.reloader.refresh()
    page = api.ask("GET", f"/v2/decisions/{decision['id']}?page=true").json["page"]
    assert [part["fix"] for policy in page["policies"] for part in policy["findings"]] == [""]


def test_a_waiver_given_here_holds_in_each_door_until_it_is_removed(tmp_path: Path) -> None:
    api = Api(tmp_path, gate="reload_seconds = 3600")
    entry = {"policy": "length", "project": "p1", "reason": "the old app", "expires": "2127-01-01"}

    def outcome(user: str) -> str:
        return str(api.ask("POST", "/v2/decisions", {"template": template(99)}, user).json["outcome"])

    assert (outcome("ann"), api.ask("POST", "/v2/waivers", entry, "ann").status_code) == ("deny", 403)
    answer = api.ask("POST", "/v2/waivers", entry, "adam")
    waiver = answer.json
    assert (answer.status_code, waiver["id"], waiver["owner"], waiver["given_by"]) == (201, "S-1", "adam", "adam")
    assert (outcome("ann"), outcome("bob")) == ("allow", "deny")
    assert {user: len(api.ask("GET", "/v2/waivers", user=user).json["waivers"]) for user in ("ann", "bob", "sid")} == {
        "ann": 1, "bob": 0, "sid": 1,
    }  # fmt: skip
    counts = [len(api.ask("GET", f"/v2/waivers?policy={policy}").json["waivers"]) for policy in ("length", "other")]
    assert counts == [1, 0]
    assert api.ask("GET", "/v2/waivers/S-1", user="ann").json == waiver
    assert (waiver["in_force"], waiver["scope"]) == (True, ["the project is p1", "it is before 2127-01-01"])
    codes = [api.ask("DELETE", "/v2/waivers/S-1", user=user).status_code for user in ("ann", "adam", "adam")]
    assert (codes, outcome("ann")) == ([403, 200, 404], "deny")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Api, Api]:
    """Two servers of one store."""
    gate = f"store = {tmp_path}/store\nwaivers = store\nreload_seconds = 3600"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    return Api(tmp_path / "a", gate=gate), Api(tmp_path / "b", gate=gate)


def test_a_trial_is_shown_by_each_server_of_the_store(pair: tuple[Api, Api]) -> None:
    trial = pair[0].ask("POST", "/v2/trials", {"rules": RULES, "template": template(99)}, "ann").json
    answers = [api.ask("GET", f"/v2/trials/{trial['id']}", user=user) for api in pair for user in ("ann", "bob")]
    assert [answer.status_code for answer in answers] == [200, 404] * 2
    assert [answer.json for answer in answers[::2]] == [trial] * 2


def test_a_waiver_is_in_force_at_once_on_each_server_of_the_store(pair: tuple[Api, Api]) -> None:
    first, second = pair
    entry = {"policy": "length", "key": {"r": "stack/word"}, "reason": "r", "expires": "2127-01-01"}
    body = {"template": template(99)}
    assert second.ask("POST", "/v2/decisions", body).json["outcome"] == "deny"
    assert first.ask("POST", "/v2/waivers", entry).json["in_force"]
    assert second.ask("POST", "/v2/decisions", body).json["outcome"] == "allow"
    first.ask("DELETE", "/v2/waivers/S-1")
    assert second.ask("POST", "/v2/decisions", body).json["outcome"] == "deny"


def test_a_waiver_is_in_force_for_the_next_scan_and_in_another_door(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forecast of rules counts what is waived, and it is no difference to what is open."""
    store = {"store": f"{tmp_path}/store", "waivers": "store"}
    api = Api(tmp_path, gate="\n".join(f"{name} = {value}" for name, value in store.items()))
    heat = FakeHeat()
    door = Client(wrap(heat, point=point_of(tmp_path / "rules", reload_seconds="0", **store)), heat)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "web.yaml").write_text(json.dumps(template(99)))
    options = ["--store", tmp_path / "scan", "--rules", tmp_path / "rules"]
    scan = ["scan", "run", "--folder", tmp_path / "stacks", *options]
    scan += ["--waivers", "store", "--heat-conf", tmp_path / "server.conf"]
    entry = {"policy": "length", "key": {"r": "web/word"}, "reason": "r", "expires": "2127-01-01"}
    seen = []
    for method, path in (("GET", "/v2/waivers"), ("POST", "/v2/waivers"), ("DELETE", "/v2/waivers/S-1")):
        api.ask(method, path, entry if method == "POST" else None)
        created, _ = door.ask("POST", "/v1/p/stacks", {"stack_name": "web", "template": template(99)})
        codes = [main([*map(str, scan)]), main(["scan", "rejudge", *map(str, options)])]
        run_line, *forecast = capsys.readouterr().out.splitlines()
        seen.append((created, codes, run_line.partition("open: ")[2], forecast))
    open_, waived = (
        f"{denied} denied, 0 warned, 0 recorded, {waived} waived, 0 undetermined, 0 in error"
        for denied, waived in ((1, 0), (0, 1))
    )
    table = ["project  policy  findings  stacks", "-        length         1       1"]
    assert seen == [(403, [1, 0], open_, table), (201, [0, 0], waived, table), (403, [1, 0], open_, table)]


def test_waivers_are_listed_by_their_number_page_by_page(tmp_path: Path) -> None:
    api = Api(tmp_path, gate="reload_seconds = 3600")
    entry = {"policy": "length", "project": "p1", "reason": "the old app", "expires": "2127-01-01"}
    for _ in range(11):
        assert api.ask("POST", "/v2/waivers", entry).status_code == 201
    first = api.ask("GET", "/v2/waivers?limit=9").json
    second = api.ask("GET", f"/v2/waivers?limit=9&marker={first['next']}").json
    numbers = [waiver["id"] for waiver in (*first["waivers"], *second["waivers"])]
    assert (numbers, "next" in second) == ([f"S-{at}" for at in range(1, 12)], False)


@pytest.mark.parametrize("gate", ["waivers =", "waivers = FILE", "store = FOLDER/store"])
def test_a_waiver_that_would_have_no_effect_is_refused_with_the_option_to_set(tmp_path: Path, gate: str) -> None:
    (tmp_path / "waivers.yaml").write_text("waivers: []\n")
    api = Api(tmp_path, gate=gate.replace("FOLDER", str(tmp_path)).replace("FILE", str(tmp_path / "waivers.yaml")))
    entry = {"policy": "length", "project": "p1", "reason": "r", "expires": "2127-01-01"}
    answer = api.ask("POST", "/v2/waivers", entry)
    code, message = "no_waivers", "this gate reads no waivers"
    if "FILE" in gate:
        code, message = "file", "the waivers of this gate are in a file"
    assert refusal(answer) == (409, code, message)
    assert answer.json["errors"][0]["suggestion"] == "set waivers = store in [datalog_gate]"
    assert api.ask("GET", "/v2/waivers").json["waivers"] == []


JAPAN = timezone(timedelta(hours=9))
BOUNDS: dict[str, Callable[[int], bool]] = {
    "n < 80": lambda n: n < 80,
    "n >= 90": lambda n: n >= 90,
    "80 <= n": lambda n: n >= 80,
}
EXPIRIES = strategies.sampled_from([-1, 1]).map(lambda hours: datetime.now(JAPAN) + timedelta(hours=hours))
"""An hour ago and in an hour, where clocks go nine hours ahead."""
ENTRIES = strategies.fixed_dictionaries(
    {"expires": EXPIRIES.map(str) | strategies.sampled_from(["2000-01-01", "2127-01-01"])},
    optional={
        "project": strategies.sampled_from(["p1", "p2"]),
        "subject": strategies.sampled_from(["stack/word", "word", "stack/other"]),
        "key": strategies.sampled_from([{"r": "stack/word"}, {"r": "stack/other"}]),
        "while": strategies.sampled_from(list(BOUNDS)),
    },
).filter(lambda entry: len(entry) > 1)


def covers(condition: str, project: str, length: int) -> bool:
    """Whether a condition of a scope, as people read it, holds for a word of this length."""
    subject, _, value = condition.partition(" is ")
    match subject:
        case "the project":
            return value == project
        case "the resource" | "r":
            return value.strip('"') in ("stack/word", "word")
        case "it":
            end = datetime.fromisoformat(value.removeprefix("before "))
            return datetime.now(UTC) < (end if end.tzinfo else end.replace(tzinfo=UTC))
    return BOUNDS[condition](length)


def test_what_the_scope_of_a_waiver_says_is_what_it_covers_in_each_door(tmp_path: Path) -> None:
    store = {"store": f"{tmp_path}/store", "waivers": "store"}
    api = Api(tmp_path, gate="\n".join(f"{name} = {value}" for name, value in store.items()))
    heat, point = FakeHeat(), point_of(tmp_path / "rules", reload_seconds="0", **store)
    door, rules = Client(wrap(heat, point=point), heat), point.current().ruleset.rules

    @settings(max_examples=sample(60), deadline=None)
    @given(ENTRIES, strategies.sampled_from(["ann", "bob"]), strategies.sampled_from([70, 80, 95]))
    def check(entry: dict[str, Any], user: str, length: int) -> None:
        waiver = api.ask("POST", "/v2/waivers", {"policy": "length", "reason": "r", **entry}).json
        body, project = {"template": template(length), "stack_name": "stack"}, USERS[user]["X_PROJECT_ID"]
        covered = all(covers(condition, project, length) for condition in waiver["scope"])
        decision = api.ask("POST", "/v2/decisions", body, user).json
        assert [finding["waiver"]["id"] for finding in decision["waived"]] == [waiver["id"]] * covered
        context = {"webob.adhoc_attrs": {"context": Context(TOKEN_INFO, project)}}
        created, _, _ = door.send(json.dumps(body).encode(), PATH_INFO=f"/v1/{project}/stacks", **context)
        scanned = judge_entry(
            StackEntry("r", "stack", project, StackDefinition(template(length))),
            rules.scan_request(datetime.now(UTC), waivers=read_stored_waivers(point.settings, rules)),
        )
        assert (decision["outcome"], created[:3], scanned.outcome) == (
            ("allow", "201", "allow") if covered else ("deny", "403", "deny")
        )
        api.ask("DELETE", f"/v2/waivers/{waiver['id']}")

    check()


def test_a_waiver_that_the_rules_do_not_take_is_refused(api: Api) -> None:
    entry = {"policy": "lenght", "project": "p1", "reason": "r", "expires": "2127-01-01"}
    answer = api.ask("POST", "/v2/waivers", entry)
    assert refusal(answer) == (400, "diagnostics", "waivers[0]: there is no policy lenght")
    assert answer.json["errors"][0]["suggestion"] == "did you mean length?"


def test_a_query_reads_the_sent_facts_or_all_stacks_that_the_caller_sees(tmp_path: Path) -> None:
    api = Api(tmp_path, scan_store=scan(tmp_path))
    rules = "twice(x, y) :- n(x), y = x * 2.\nn(x) :- number(x)."
    body = {"query": "twice(x, y)", "rules": rules, "facts": {"number": [[2], [3]]}}
    assert api.ask("POST", "/v2/queries", body, "ann").json["rows"] == [[2, 4], [3, 6]]
    stack = {"query": "os:heat:random_string(_id=r, length=n)", "template": template(5), "stack_name": "s"}
    assert [row[0] for row in api.ask("POST", "/v2/queries", stack, "ann").json["rows"]] == ["s/word"]
    cloud = {"query": ":- all:os:heat:random_string(_id=r, length=n), n > 64"}
    assert refusal(api.ask("POST", "/v2/queries", cloud, "ann"))[:2] == (403, "forbidden")
    assert api.ask("POST", "/v2/queries", cloud, "adam").json["rows"] == [["r1/word", 99], ["r3/word", 77]]


def test_a_request_with_a_known_key_is_answered_and_not_done_again(api: Api) -> None:
    entry = {"policy": "length", "project": "p1", "reason": "r", "expires": "2127-01-01"}
    first, again = (api.ask("POST", "/v2/waivers", entry, Idempotency_Key="k1") for _ in range(2))
    assert (first.status_code, again.status_code, again.json) == (201, 201, first.json)
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert [waiver["id"] for waiver in api.ask("GET", "/v2/waivers").json["waivers"]] == [first.json["id"]]
    other = api.ask("POST", "/v2/waivers", {**entry, "reason": "s"}, Idempotency_Key="k1")
    assert refusal(other)[:2] == (422, "key_reused")
    wrong = [api.ask("POST", "/v2/waivers", {**entry, "policy": "no"}, Idempotency_Key="k2") for _ in range(2)]
    told, repeated = ({**answer.json["errors"][0], "request_id": ""} for answer in wrong)
    assert (told, told["diagnostics"][0]["code"]) == (repeated, "bad-waiver")


@pytest.mark.parametrize(("heat", "codes"), [("27", []), ("26", ["unknown-property"])])
def test_what_is_refused_depends_on_the_heat_of_the_server(heat: str, codes: list[str], tmp_path: Path) -> None:
    group = {"type": "OS::Neutron::SecurityGroup", "properties": {"stateful": True}}
    body = {"template": {"heat_template_version": "wallaby", "resources": {"g": group}}}
    answer = Api(tmp_path, heat=heat).ask("POST", "/v2/decisions", body)
    assert [refused["code"] for refused in answer.json["refusals"]] == codes


DEEP = b'{"template": ' + b'{"a": ' * 5000 + b"1" + b"}" * 5001


def test_what_heat_would_refuse_is_said_beside_a_decision_and_other_errors(api: Api) -> None:
    body = template(99)
    body["resources"]["word"]["properties"]["lenght"] = 5
    answer = api.ask("POST", "/v2/decisions", {"template": body})
    refused = {
        "code": "unknown-property",
        "severity": "error",
        "message": "OS::Heat::RandomString has no property `lenght`",
        "suggestion": "did you mean `length`?",
        "place": {"file": "<template>", "line": None, "column": None, "path": "resources.word.properties.lenght"},
    }
    assert (answer.status_code, answer.json["refusals"]) == (201, [refused])
    assert [violation["policy"] for violation in answer.json["violations"]] == ["length"]
    body["resources"]["word"]["properties"]["salt"] = {"get_param": "nothing"}
    answer = api.ask("POST", "/v2/decisions", {"template": body})
    told = [(problem["code"], problem["message"]) for problem in answer.json["errors"][0]["diagnostics"]]
    assert (answer.status_code, told) == (
        400,
        [
            ("bad-reference", "there is no parameter `nothing`"),
            ("unknown-property", "OS::Heat::RandomString has no property `lenght`"),
        ],
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v2/decisions", None, 400, "no_body"),
        ("POST", "/v2/decisions", b"{", 400, "malformed_json"),
        ("POST", "/v2/decisions", b"\xff\xfe", 400, "malformed_json"),
        ("POST", "/v2/decisions", b"[" * 100_000, 400, "json_too_deep"),
        ("POST", "/v2/decisions", DEEP, 400, "json_too_deep"),
        ("POST", "/v2/decisions", b"[" + b"1," * 500_000 + b"1]", 413, "too_many_parts"),
        ("POST", "/v2/decisions", b'{"template": {"a": NaN}}', 400, "malformed_json"),
        ("POST", "/v2/decisions", b'{"template": {"a": 1e999}}', 400, "malformed_json"),
        ("POST", "/v2/decisions", b'{"template": {"resources": {}, "resources": 1}}', 400, "malformed_json"),
        ("POST", "/v2/decisions", b'{"template": "\\ud800"}', 400, "malformed_text"),
        ("POST", "/v2/decisions", b'{"template": "a\\u0000"}', 400, "malformed_text"),
        ("POST", "/v2/decisions", b"1" * 5000, 400, "malformed_json"),
        ("POST", "/v2/decisions", {"template": 5}, 400, "invalid"),
        ("POST", "/v2/decisions", {"template": "resources: ["}, 400, "diagnostics"),
        ("POST", "/v2/decisions", {"template": SHORT, "more": 1}, 400, "invalid"),
        ("POST", "/v2/decisions", {"template": SHORT, "stack_name": "../../etc"}, 400, "invalid"),
        ("POST", "/v2/decisions", {"template": SHORT, "stack_name": "web\n"}, 400, "invalid"),
        ("POST", "/v2/decisions", {"template": SHORT, "action": "explode"}, 400, "invalid"),
        ("POST", "/v2/decisions", {"template": SHORT, "environment_files": ["/etc/passwd"]}, 400, "diagnostics"),
        ("POST", "/v2/queries", {"query": "nothing("}, 400, "diagnostics"),
        ("POST", "/v2/queries", {"query": "x(y)", "facts": {"x": [[{}]]}}, 400, "invalid"),
        ("POST", "/v2/queries", {"query": "x(y)", "facts": {"x": [[10**4200]]}}, 400, "diagnostics"),
        ("POST", "/v2/waivers", {"policy": "length", "reason": "r", "expires": "someday"}, 400, "diagnostics"),
        ("POST", "/v2/approvals/A-1/verdicts", {"verdict": "approved"}, 404, "not_found"),
        ("POST", "/v2/approvals/A-1/verdicts", {"verdict": ["approved"]}, 400, "invalid"),
        ("GET", "/v2/decisions/..%2f..%2fetc%2fpasswd", None, 404, "not_found"),
        ("GET", "/v2/decisions/' OR 1=1 --", None, 404, "not_found"),
        ("GET", "/v2/decisions/a%00b", None, 404, "not_found"),
        ("GET", "/v2/stacks/x", None, 404, "no_scans"),
        ("GET", "/v2/policies?limit=many", None, 400, "invalid"),
        ("GET", "/v2/policies?limit=0", None, 400, "invalid"),
        ("GET", "/v2/policies?limit=1&limit=2", None, 400, "repeated_parameter"),
        ("GET", "/v2/policies?marker=%ff", None, 400, "malformed_query"),
        ("GET", "/v2/policies?marker=W10", None, 400, "invalid"),
        ("GET", "/v2/policies?leval=deny", None, 400, "unknown_parameter"),
        ("GET", "/v2/nothing", None, 404, "not_found"),
        ("GET", "/v2/policies/a%0d%0aSet-Cookie:%20x", None, 404, "not_found"),
        ("PUT", "/v2/policies", None, 405, "method"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(api: Api, method: str, path: str, body: object, status: int, code: str) -> None:
    answer = api.ask(method, path, body)
    assert refusal(answer)[:2] == (status, code)


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ("a" * 255, "there is no such decision, or it belongs to another project"),
        ("a" * 256, "there is no decision of that name"),
        ("a%07", "there is no decision of that name"),
    ],
)
def test_an_id_that_none_can_have_is_not_looked_for(api: Api, identity: str, message: str) -> None:
    assert refusal(api.ask("GET", f"/v2/decisions/{identity}")) == (404, "not_found", message)


@pytest.mark.parametrize("path", ["/healthcheck", "/v2/policies"])
def test_head_answers_as_get_without_the_body(api: Api, path: str) -> None:
    shown, head = api.ask("GET", path), api.ask("HEAD", path)
    assert (head.status_code, head.text, head.headers["Content-Length"]) == (200, "", str(len(shown.content)))


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content_Type": "text/xml"}, 415, "media_type"),
        ({"Content_Encoding": "gzip"}, 415, "media_type"),
        ({"Idempotency_Key": "a b"}, 400, "invalid_key"),
        ({"Idempotency_Key": ""}, 400, "invalid_key"),
    ],
)
def test_bad_headers_are_refused(api: Api, headers: dict[str, str], status: int, code: str) -> None:
    body = json.dumps({"policy": "length", "reason": "r", "expires": "2127-01-01"}).encode()
    assert refusal(api.ask("POST", "/v2/waivers", body, **headers))[:2] == (status, code)


def test_no_token_is_logged(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        api.ask("GET", f"/v2/policies?marker={TOKEN}")
        api.ask("GET", "/v2/policies", token=f"wrong-{TOKEN}")
    assert "GET /v2/policies policy:list 401" in caplog.text
    assert TOKEN not in caplog.text


def test_a_file_that_does_not_load_turns_the_health_red_until_it_does(tmp_path: Path) -> None:
    api = Api(tmp_path, gate="reload_seconds = 0")
    rules = tmp_path / "rules" / "words.dl"
    states = []
    for text in (RULES, RULES + "broken(", RULES + "\n"):
        rules.write_text(text)
        answer = api.ask("GET", "/healthcheck", token="")
        states.append((answer.status_code, answer.json["checks"]["rules"]["status"], answer.json["status"]))
    assert states == [(200, "ok", "ok"), (503, "failing", "failing"), (200, "ok", "ok")]


def test_a_locked_store_turns_the_health_red_at_once(api: Api) -> None:
    assert api.ask("GET", "/healthcheck", token="").status_code == 200
    with closing(sqlite3.connect(api.folder / "server" / "store", isolation_level=None)) as rows:
        rows.execute("BEGIN EXCLUSIVE")
        answer = api.ask("GET", "/healthcheck", token="")
        rows.execute("ROLLBACK")  # which the checks would have waited for
    late = {"status": "failing", "problem": "no answer within 0.8 seconds"}
    assert (answer.status_code, answer.json["checks"]) == (503, dict.fromkeys(HEALTH, late))


def test_a_wrong_setting_and_a_taken_port_are_reported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "server.conf").write_text("[datalog_gate_server]\nbody_limit = 5\n")
    with pytest.raises(InputError, match=r"body_limit .* 1024"):
        serve(tmp_path / "server.conf", "127.0.0.1", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InputError, match=r"can't listen at 127.0.0.1, port .*: Address already in use"),
    ):
        serve(None, *taken.getsockname())


def test_the_token_is_made_once_and_is_its_owners_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = read_token(tmp_path)
    assert (capsys.readouterr().out, read_token(tmp_path), capsys.readouterr().out) == (f"token: {token}\n", token, "")
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(InputError, match="others can read"):
        read_token(tmp_path)
