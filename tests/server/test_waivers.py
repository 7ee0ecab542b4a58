"""A waiver is in force in each door, however it is given."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from datalog_gate.doors.cli.main import main
from datalog_gate.doors.wsgi import wrap
from tests.fake_heat import Client, FakeHeat, point_of
from tests.server.client_process import run_openstack
from tests.server.rig import BIN, PASSWORD, PATIENCE, USERS, Site, serving
from tests.servers import free_ports
from tests.unit.doors.server.test_server import RULES, template

KEY = "w/word"
ENTRY = {"policy": "length", "reason": "the old app", "expires": "2127-01-01"}


@dataclass(frozen=True)
class Server:
    """A policy server, as its operator asks it. The rules and the configuration are in the folder."""

    url: str
    folder: Path
    token: str
    form: Mapping[str, str]
    """What the operator writes to sign in."""
    environment: Mapping[str, str]
    """The variables of `openstack`."""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"X-Auth-Token": self.token}
        return requests.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=PATIENCE).json()

    def run(self, *arguments: str) -> str:
        """The output of `openstack gate waiver`."""
        done = run_openstack(["gate", "waiver", *arguments], self.environment, self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def post(self, **form: str) -> str:
        """The address of the page that the form of the page of waivers leads to."""
        with requests.Session() as session:
            session.post(f"{self.url}/pages/sign-in", {"next": "/pages/waivers", **self.form}, timeout=PATIENCE)
            page = session.get(f"{self.url}/pages/waivers", timeout=PATIENCE)
            [key] = set(re.findall(r'name="form_key" value="(.*?)"', page.text))
            return session.post(f"{self.url}/pages/waivers", {"form_key": key, **form}, timeout=PATIENCE).url


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Server]:
    """A server with a token of its own."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "words.dl").write_text(RULES)
    gate = f"[datalog_gate]\nrules = {tmp_path}/rules\nstore = {tmp_path}/store\nwaivers = store\n"
    (tmp_path / "server.conf").write_text(f"{gate}[datalog_gate_server]\nfolder = {tmp_path}/server\n")
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with serving(tmp_path, port, "--config", str(tmp_path / "server.conf")):
        token = (tmp_path / "stdout").read_text().removeprefix("token: ").strip()
        own = {name: text for name, text in os.environ.items() if not name.startswith("OS_")}
        own |= {"HOME": str(tmp_path), "PATH": f"{BIN}:{own['PATH']}"}
        own |= {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": url, "OS_TOKEN": token}
        yield Server(url, tmp_path, token, {"token": token}, own)


@pytest.fixture
def behind_keystone(site: Site) -> Server:
    scope = USERS["adam"][0]
    form = {"user_domain": "Default", "username": "adam", "password": PASSWORD, "project": scope["project_name"]}
    return Server(site.url, site.folder, site.token("adam"), form, site.environment("adam"))


def give(server: Server, way: str) -> str:
    """Give the waiver; return its id."""
    match way:
        case "page":
            return server.post(**ENTRY, key=f"r = {KEY}\n").partition("?created=")[2]
        case "API":
            return str(server.ask("POST", "/v2/waivers", {**ENTRY, "key": {"r": KEY}})["id"])
    given = ("length", "--reason", ENTRY["reason"], "--expires", ENTRY["expires"], "--key", f"r={KEY}")
    return server.run("create", *given, "-f", "value", "-c", "id")


def end(server: Server, way: str, waiver: str) -> None:
    """End a waiver."""
    match way:
        case "page":
            server.post(end=waiver)
        case "API":
            server.ask("DELETE", f"/v2/waivers/{waiver}")
        case _:
            server.run("delete", waiver)


@pytest.mark.parametrize("way", ["page", "API", "command"])
@pytest.mark.parametrize("which", ["alone", "behind_keystone"])
def test_a_waiver_is_in_force_for_the_next_decision_until_it_ends(
    which: str, way: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    server: Server = request.getfixturevalue(which)
    heat, rules = FakeHeat(), server.folder / "rules"
    point = point_of(rules, store=f"{server.folder}/store", waivers="store", reload_seconds="0")
    door = Client(wrap(heat, point=point), heat)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "w.yaml").write_text(json.dumps(template(99)))
    scan = ["scan", "run", "--folder", tmp_path / "stacks", "--store", tmp_path / "scanned", "--rules", rules]
    scan += ["--waivers", "store", "--heat-conf", server.folder / "server.conf"]

    def decide() -> tuple[int, str, str]:
        """What the filter answers, the server's outcome, and what is open after a scan."""
        body = {"template": template(99), "stack_name": "w"}
        status, _ = door.ask("POST", "/v1/p/stacks", body)
        outcome = server.ask("POST", "/v2/decisions", body)["outcome"]
        main([*map(str, scan)])
        return status, outcome, capsys.readouterr().out.partition("open: ")[2].partition(", 0 undetermined")[0]

    denied = 403, "deny", "1 denied, 0 warned, 0 recorded, 0 waived"
    answers = [decide()]
    waiver = give(server, way)
    answers.append(decide())
    end(server, way, waiver)
    assert [*answers, decide()] == [denied, (201, "allow", "0 denied, 0 warned, 0 recorded, 1 waived"), denied]
