"""Tokens, roles and scopes of a real Keystone at the policy server."""

from __future__ import annotations

import requests

from datalog_gate.services.approval import Approvals
from tests.ledger import request
from tests.server.rig import PATIENCE, USERS, Site
from tests.unit.doors.server.test_server import template

ENTRY = {"policy": "length", "reason": "the old app", "expires": "2127-01-01"}


def test_a_request_without_a_valid_token_is_a_401(site: Site) -> None:
    forged = {"X-Auth-Token": "none", "X-Roles": "admin", "X-Identity-Status": "Confirmed", "X-User-Id": "root"}
    for headers in ({}, forged):
        answer = requests.get(f"{site.url}/v2/policies", headers=headers, timeout=PATIENCE)
        [error] = answer.json()["errors"]
        assert (answer.status_code, error["code"]) == (401, "unauthorized")
        assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{site.identity}"'
    assert requests.get(f"{site.url}/healthcheck", headers=forged, timeout=PATIENCE).json()["status"] == "ok"


def test_headers_of_the_client_change_no_role_and_no_project(site: Site) -> None:
    forged = {"X_Roles": "admin", "X_Project_Id": site.projects["other"], "OpenStack_System_Scope": "all"}
    assert site.ask("ann", "POST", "/v2/waivers", ENTRY, **forged).status_code == 403


def test_who_has_no_role_reads_nothing(site: Site) -> None:
    codes = {user: site.ask(user, "GET", "/v2/policies").status_code for user in USERS}
    assert codes == dict.fromkeys(USERS, 200) | {"guest": 403}


def test_a_decision_is_seen_by_its_project_its_domain_and_the_system(site: Site) -> None:
    asked = {user: site.ask(user, "POST", "/v2/decisions", {"template": template(99)}) for user in ("ann", "bob")}
    paths = {user: f"/v2/decisions/{answer.json()['id']}" for user, answer in asked.items()}
    seen = {user: [site.ask(user, "GET", path).status_code for path in paths.values()] for user in USERS}
    assert seen == {
        "ann": [200, 404], "bob": [404, 200], "rita": [200, 404], "adam": [200, 200], "guest": [403, 403],
        "sid": [200, 200], "dora": [404, 200], "gate": [200, 200],
    }  # fmt: skip
    assert asked["ann"].json()["outcome"] == "deny"


def test_approvals_and_waivers_are_an_operators_and_shown_to_their_project(site: Site) -> None:
    approvals = Approvals(f"sqlite:///{site.folder}/store")
    other = site.projects["other"]
    name = approvals.use(request("u", "seat", project=other), 1_900_000_000.0, 1e9)[1]
    assert name
    path = f"/v2/approvals/{name.name}"
    codes = {user: site.ask(user, "GET", path).status_code for user in ("ann", "bob", "dora", "sid", "adam")}
    assert codes == {"ann": 404, "bob": 200, "dora": 200, "sid": 200, "adam": 200}
    answers = [site.ask(user, "POST", f"{path}/verdicts", {"verdict": "approved"}) for user in ("bob", "sid", "adam")]
    assert [answer.status_code for answer in answers] == [403, 403, 200]
    answer = site.ask("adam", "POST", "/v2/waivers", {**ENTRY, "project": other})
    waiver = f"/v2/waivers/{answer.json()['id']}"
    codes = {user: site.ask(user, "GET", waiver).status_code for user in ("ann", "bob", "dora", "sid", "adam")}
    assert (answer.status_code, codes) == (201, {"ann": 404, "bob": 200, "dora": 200, "sid": 200, "adam": 200})
    assert site.ask("bob", "POST", "/v2/decisions", {"template": template(99)}).json()["outcome"] == "allow"
    assert site.ask("adam", "DELETE", waiver).status_code == 200


def test_no_token_and_no_password_is_in_the_log(site: Site) -> None:
    token = site.token("ann")
    requests.get(f"{site.url}/v2/policies", headers={"X-Auth-Token": token}, timeout=PATIENCE)
    requests.get(f"{site.url}/v2/policies", headers={"X-Auth-Token": f"{token}x"}, timeout=PATIENCE)
    printed = (site.folder / "stderr").read_text() + (site.folder / "stdout").read_text()
    assert "GET /v2/policies policy:list 200" in printed
    assert token not in printed
    assert "secret" not in printed
