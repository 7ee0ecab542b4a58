"""A Keystone with users and roles, and a Heat behind it.

The Heat (tests.heat.doors.rig) has Heat's own api-paste.ini, edited as docs/install.md says. Each user of a `Cloud` has
a session with a real token.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from heatclient import client as heatclient
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session

from tests.heat.doors.rig import PATIENCE, Heat, started
from tests.servers import free_ports, serving_process

HERE = Path(__file__).parent
PASTE = Path(sys.prefix) / "etc" / "heat" / "api-paste.ini"
"""Heat's own, as its wheel installs it."""
PASSWORD = "secret"
USERS = {
    "alice": ("demo", ("member",)),
    "edna": ("demo", ("member", "edge_user")),
    "rita": ("demo", ("reader",)),
    "root": ("demo", ("admin", "member")),
    "sam": ("free", ("member",)),
    "heat": ("service", ("admin", "service")),
}
"""The project and the roles of each."""
CONF = """
[DEFAULT]
host = aio
log_file = {folder}/heat.log
transport_url = fake://
auth_encryption_key = 0123456789abcdef0123456789abcdef
environment_dir = {folder}/environment.d
template_dir = {folder}/templates
plugin_dirs =
[clients_keystone]
auth_uri = {identity}
[keystone_authtoken]
auth_type = password
auth_url = {identity}
www_authenticate_uri = {identity}
username = heat
password = secret
project_name = service
user_domain_id = default
project_domain_id = default
[trustee]
auth_type = password
auth_url = {identity}
username = heat
password = secret
user_domain_id = default
[database]
connection = sqlite:///{folder}/heat.db?timeout=30
[paste_deploy]
api_paste_config = {folder}/paste.ini
[oslo_policy]
policy_file = {folder}/policy.yaml
[datalog_gate]
rules = {rules}
services = edge, night
service_option = edge.file={folder}/edge
service_option = night.file={folder}/night
store = {folder}/journal
decision_log = {folder}/decisions.jsonl
"""
POLICY = '"datalog_gate:grant:edge": "role:edge_user"\n'


@dataclass(frozen=True)
class Cloud:
    """A Heat behind Keystone. `projects` has their ids by name, `users` those of users."""

    heat: Heat
    identity: str
    projects: dict[str, str]
    users: dict[str, str]

    def session(self, user: str) -> Session:
        """A session of the user with a token of his project."""
        return _session(self.identity, user, USERS[user][0])

    def ask(self, user: str, method: str, path: str, /, **body: Any) -> requests.Response:
        """Send a request of the user below his project."""
        url = f"{self.heat.url}/v1/{self.projects[USERS[user][0]]}/{path}"
        headers = {"X-Auth-Token": str(self.session(user).get_token())}
        return requests.request(method, url, json=body or None, headers=headers, timeout=PATIENCE)

    def client(self, user: str) -> Any:
        """A python-heatclient for the user."""
        url = f"{self.heat.url}/v1/{self.projects[USERS[user][0]]}"
        return heatclient.Client("1", endpoint=url, session=self.session(user))


@contextmanager
def running(folder: Path) -> Iterator[Cloud]:
    """Run a Keystone and a Heat."""
    keystone = folder / "keystone"
    for path in (keystone, folder / "environment.d", folder / "templates"):
        path.mkdir()
    port, cfn_port, identity_port = free_ports(3)
    command = [sys.executable, "-W", "ignore", str(HERE / "server.py"), str(keystone), str(identity_port), PASSWORD]
    with serving_process(command, keystone):
        identity = f"http://127.0.0.1:{identity_port}"
        projects, users = _populate(identity, port)
        conf = CONF.format(folder=folder, identity=f"{identity}/v3", rules=HERE / "rules")
        (folder / "heat.conf").write_text(conf)
        (folder / "policy.yaml").write_text(POLICY)
        (folder / "paste.ini").write_text(gated(PASTE.read_text()))
        with started(folder, port, cfn_port) as heat:
            yield Cloud(heat, identity, projects, users)


def gated(paste: str) -> str:
    """Heat's paste file with both filters in each pipeline."""
    for application, name in (("apiv1app", "datalog_gate"), ("apicfnv1app", "datalog_gate_cfn")):
        paste = paste.replace(f" {application}\n", f" {name} {application}\n")
        paste += f"\n[filter:{name}]\nuse = egg:datalog-gate#{name}\n"
    return paste


def _populate(identity: str, port: int) -> tuple[dict[str, str], dict[str, str]]:
    """Create projects, users, roles and the service; return the ids of projects and users by name."""
    admin = _session(identity, "admin", "admin")

    def make(kind: str, **data: Any) -> str:
        body = admin.post(f"{identity}/v3/{kind}s", json={kind: data}).json()
        return str(body[kind]["id"])

    projects = {
        name: make("project", name=name, domain_id="default") for name in {project for project, _ in USERS.values()}
    }
    roles = {role["name"]: role["id"] for role in admin.get(f"{identity}/v3/roles").json()["roles"]}
    roles |= {name: make("role", name=name) for _, names in USERS.values() for name in names if name not in roles}
    users = {}
    for user, (project, names) in USERS.items():
        users[user] = make("user", name=user, password=PASSWORD, domain_id="default")
        for name in names:
            admin.put(f"{identity}/v3/projects/{projects[project]}/users/{users[user]}/roles/{roles[name]}")
    service = make("service", name="heat", type="orchestration")
    make("endpoint", service_id=service, interface="public", url=f"http://127.0.0.1:{port}/v1/%(project_id)s")
    return projects, users


def _session(identity: str, user: str, project: str) -> Session:
    url = f"{identity}/v3"
    of = Password(url, username=user, password=PASSWORD, user_domain_id="default", project_name=project,
                  project_domain_id="default")  # fmt: skip
    return Session(of)
