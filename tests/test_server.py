"""The policy server: routes, roles, answers, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import falcon.testing
import pytest
from openapi_spec_validator import validate

from datalog_gate.doors.server.access import list_rules
from datalog_gate.doors.server.api_table import ENDPOINTS
from datalog_gate.doors.server.application import create_app
from datalog_gate.doors.server.endpoint import ANYBODY
from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.serving import read_config

TOKEN = "t0ken"
RULES = """\
@deny(id="length", message="{r} has {n} characters", hint="ask for 64 at most")
long(r, n) :- os:heat:random_string(_id=r, length=n), n > 64.
"""
SHORT = {"heat_template_version": "2018-08-31", "resources": {"word": {"type": "OS::Heat::RandomString"}}}


def template(length: int) -> dict[str, Any]:
    resource = {"type": "OS::Heat::RandomString", "properties": {"length": length}}
    return {"heat_template_version": "2018-08-31", "resources": {"word": resource}}


class Api:
    """A server, and requests to it: of its operator, or of who `KEYSTONE` says that asks."""

    def __init__(self, folder: Path, **options: object) -> None:
        (folder / "rules").mkdir()
        (folder / "rules" / "words.dl").write_text(RULES)
        lines = ["[datalog_gate]", f"rules = {folder}/rules", f"decision_log = {folder}/log", "[datalog_gate_server]"]
        lines += [f"folder = {folder}/server", *(f"{name} = {value}" for name, value in options.items())]
        (folder / "server.conf").write_text("\n".join(lines))
        self.folder, conf = folder, read_config(folder / "server.conf")
        self.server = create_server(conf)
        application = create_app(conf, self.server, TOKEN)
        self._client = falcon.testing.TestClient(lambda environ, start: application(environ, start))

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> falcon.testing.Result:
        """Ask as the operator; `token=""` asks as nobody."""
        token = headers.pop("token", TOKEN)
        given = {"X-Auth-Token": token, **{name.replace("_", "-"): value for name, value in headers.items()}}
        content: dict[str, Any] = {} if body is None else {"json": body}
        if isinstance(body, bytes):
            content = {"body": body}
            given = {"Content-Type": "application/json", **given}
        return self._client.simulate_request(method, path, headers=given, **content)


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path)


def refusal(answer: falcon.testing.Result) -> tuple[int, str, str]:
    """The status, the code and the message of a refusal."""
    [error] = answer.json["errors"]
    assert error["status"] == answer.status_code
    assert error["request_id"] == answer.headers["x-openstack-request-id"]
    return answer.status_code, error["code"], error["detail"]


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
    answers = {
        refusal(api.ask(endpoint.method, endpoint.path, token=token))[:2] for endpoint in closed for token in ("", "no")
    }
    assert answers == {(401, "unauthorized")}
    opened = {
        endpoint.path: api.ask("GET", endpoint.path, token="").status_code
        for endpoint in ENDPOINTS
        if endpoint not in closed
    }
    assert opened == dict.fromkeys(("/", "/healthcheck", "/metrics", "/v2/openapi.json"), 200)


def test_headers_of_the_client_make_nobody_somebody(api: Api) -> None:
    forged = {"X_Identity_Status": "Confirmed", "X_Roles": "admin", "OpenStack_System_Scope": "all"}
    assert refusal(api.ask("GET", "/v2/policies", token="", **forged))[:2] == (401, "unauthorized")


def test_a_decision_is_that_of_check_and_is_kept_with_why(api: Api) -> None:
    answer = api.ask("POST", "/v2/decisions", {"template": template(99), "stack_name": "web"})
    decision = answer.json
    stack = create_stack(template(99), "web", api)
    assert (answer.status_code, decision) == (201, stack.to_json())
    kept = api.ask("GET", urlsplit(answer.headers["location"]).path).json
    why = [violation.pop("why") for violation in kept["violations"]]
    fact = "os:heat:random_string(web/word, length=99, ...)"
    assert [[step["text"] for step in reason["steps"]] for reason in why] == [[fact, "99 > 64"]]
    assert {name: value for name, value in kept.items() if name != "clean"} == decision


def create_stack(data: dict[str, Any], name: str, api: Api) -> Any:
    from datalog_gate.files.stack_definition import StackDefinition

    rules = api.server.point.current().ruleset.rules
    return rules.decide(StackDefinition(data).stack(name, rules.catalogue))
