"""A Keystone with users of all scopes, and a policy server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session

from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.feed import StackEntry
from tests.servers import free_ports, serving_process
from tests.unit.doors.server.test_server import RULES, run_scan, template
from tests.waiting import wait

PATIENCE = 180.0
BIN = Path(sys.executable).parent
PASSWORD = "secret"
KEYSTONE = Path(__file__).parents[1] / "keystone" / "server.py"
PROJECTS = {"demo": "default", "other": "acme", "service": "default"}
"""The domain of each project."""
USERS = {
    "ann": ({"project_name": "demo", "project_domain_id": "default"}, ("member",)),
    "bob": ({"project_name": "other", "project_domain_name": "acme"}, ("member",)),
    "rita": ({"project_name": "demo", "project_domain_id": "default"}, ("reader",)),
    "adam": ({"project_name": "demo", "project_domain_id": "default"}, ("admin",)),
    "guest": ({"project_name": "demo", "project_domain_id": "default"}, ("visitor",)),
    "sid": ({"system_scope": "all"}, ("reader",)),
    "dora": ({"domain_name": "acme"}, ("reader",)),
    "gate": ({"project_name": "service", "project_domain_id": "default"}, ("admin", "service")),
}
"""What the token of each is for, and the roles there."""
CONF = """
[datalog_gate]
rules = {folder}/rules
store = {store}
waivers = store
reload_seconds = 0
[datalog_gate_server]
auth = keystone
folder = {folder}/server
scan_store = {folder}/scan
workers = 2
body_seconds = 2
stop_seconds = 5
[keystone_authtoken]
auth_type = password
auth_url = {identity}
www_authenticate_uri = {identity}
interface = public
username = gate
password = secret
user_domain_id = default
project_name = service
project_domain_id = default
"""


@dataclass(frozen=True)
class Site:
    """A policy server behind Keystone. `projects` has their ids by name."""

    url: str
    identity: str
    projects: dict[str, str]
    folder: Path
    process: subprocess.Popen[bytes]
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, user: str) -> str:
        """A token of the user, the same each time."""
        if user not in self.tokens:
            self.tokens[user] = str(open_session(self.identity, user, **USERS[user][0]).get_token())
        return self.tokens[user]

    def ask(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        """Ask as a user."""
        given = {"X-Auth-Token": self.token(user), **{name.replace("_", "-"): text for name, text in headers.items()}}
        return requests.request(method, f"{self.url}{path}", json=body, headers=given, timeout=PATIENCE)

    def environment(self, user: str) -> dict[str, str]:
        """The variables by which `openstack` is a user."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        names = {"auth_url": self.identity, "username": user, "password": PASSWORD, "user_domain_id": "default"}
        own |= {f"OS_{name.upper()}": value for name, value in {**names, **USERS[user][0]}.items()}
        return own | {"HOME": str(self.folder), "PATH": f"{BIN}:{own['PATH']}", "OS_IDENTITY_API_VERSION": "3"}

    def openstack(self, user: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `openstack` as a user. What only asks over HTTP needs no client."""
        from tests.server.client_process import run_openstack

        return run_openstack(arguments, self.environment(user), folder or self.folder)


@contextmanager
def running(folder: Path, store: str = "") -> Iterator[Site]:
    """Run a Keystone and a server with two workers, whose store is a file unless another one is named."""
    home = folder / "keystone"
    home.mkdir()
    identity_port, port = free_ports(2)
    command = [sys.executable, "-W", "ignore", str(KEYSTONE), str(home), str(identity_port), PASSWORD]
    with serving_process(command, home):
        identity = f"http://127.0.0.1:{identity_port}/v3"
        projects = populate(identity, port)
        (folder / "rules").mkdir()
        (folder / "rules" / "words.dl").write_text(RULES)
        words = (("r1", "demo", 99), ("r2", "demo", 9), ("r3", "other", 77))
        run_scan(
            folder,
            [
                StackEntry(root, f"stack-{root}", projects[name], StackDefinition(template(length)), listing=root)
                for root, name, length in words
            ],
        )
        text = CONF.format(folder=folder, identity=identity, store=store or f"sqlite:///{folder}/store")
        (folder / "server.conf").write_text(text)
        with serving(folder, port, "--config", str(folder / "server.conf")) as process:
            yield Site(f"http://127.0.0.1:{port}", identity, projects, folder, process)


@contextmanager
def serving(
    folder: Path, port: int, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `datalog-gate serve` until it answers, and kill it in the end; what it prints is in the folder."""
    command = [sys.executable, "-m", "datalog_gate.doors.cli.main", "serve", "--port", str(port), *options]
    with (
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
        subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=folder, env=environment) as process,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/healthcheck", process, folder)
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def wait_for(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the server answers."""

    def describe() -> str:
        return (folder / "stderr").read_text()[-4000:]

    def answers() -> bool:
        try:
            requests.get(url, timeout=PATIENCE)
        except requests.ConnectionError:
            assert process.poll() is None, describe()
            return False
        return True

    wait(answers, describe, PATIENCE)


def populate(identity: str, port: int) -> dict[str, str]:
    """Create domains, projects, users, roles and the service; return the ids of projects by name."""
    admin = open_session(identity, "admin", project_name="admin", project_domain_id="default")

    def make(kind: str, **data: Any) -> str:
        return str(admin.post(f"{identity}/{kind}s", json={kind: data}).json()[kind]["id"])

    domains = {"default": "default", "acme": make("domain", name="acme")}
    projects = {name: make("project", name=name, domain_id=domains[domain]) for name, domain in PROJECTS.items()}
    roles = {role["name"]: role["id"] for role in admin.get(f"{identity}/roles").json()["roles"]}
    roles |= {name: make("role", name=name) for _, names in USERS.values() for name in names if name not in roles}
    for user, (scope, names) in USERS.items():
        id_ = make("user", name=user, password=PASSWORD, domain_id="default")
        target = f"domains/{domains['acme']}" if "domain_name" in scope else "system"
        target = f"projects/{projects[scope['project_name']]}" if "project_name" in scope else target
        for name in names:
            admin.put(f"{identity}/{target}/users/{id_}/roles/{roles[name]}")
    service = make("service", name="policies", type="policy")
    make("endpoint", service_id=service, interface="public", url=f"http://127.0.0.1:{port}")
    return projects


def open_session(identity: str, user: str, **scope: Any) -> Session:
    return Session(Password(identity, username=user, password=PASSWORD, user_domain_id="default", **scope))
