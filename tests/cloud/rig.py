"""A cloud with users, and what they ask of its Heat."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import openstack
import pytest
from requests import Response

from tests.sources import ROOT

Value = TypeVar("Value")
PASSWORD = uuid4().hex
USERS = {
    "ann": ("shop", ("member", "licence_user")),
    "rita": ("shop", ("reader",)),
    "root": ("shop", ("admin", "member")),
    "olga": ("other", ("member",)),
}
"""The project and the roles of each. Roles that the cloud lacks are made."""
STACKS = int(os.environ.get("DATALOG_GATE_CLOUD_STACKS", "0"))
"""How many are made at once; 0 for as many as each test has by default."""
PATIENCE = 600.0 + 30.0 * STACKS
"""Seconds that a stack may take on a machine that is busy otherwise, beside as many on a laptop."""
COMMAND = str(Path(sys.executable).parent / "datalog-gate")
RULES = Path(__file__).parent / "rules"
STARTED: list[Path] = []
"""The folders of clouds that were started and not stopped yet."""


@dataclass(frozen=True)
class User:
    """A user of the cloud. `connection` is one of openstacksdk, `project` an id."""

    name: str
    project: str
    connection: Any

    def ask(self, method: str, path: str, /, **body: Any) -> Response:
        """Send a request to Heat, below the user's project."""
        answer: Response = self.connection.orchestration.request(f"/{path}", method, json=body or None, raise_exc=False)
        return answer

    def create(self, template: Mapping[str, Any], name: str = "", /, **more: Any) -> tuple[str, Response]:
        """Ask for a stack; return its name, and the answer."""
        name = name or f"s{uuid4().hex[:8]}"
        return name, self.ask("POST", "stacks", stack_name=name, template=template, timeout_mins=60, **more)

    def stack(self, name: str) -> dict[str, Any]:
        """What Heat shows of a stack."""
        shown: dict[str, Any] = self.ask("GET", f"stacks/{name}").json()["stack"]
        return shown

    def outcome(self, name: str) -> tuple[str, str]:
        """The status of a stack and its reason, when nothing is in progress any more."""
        stack = waited(lambda: self.stack(name), lambda stack: not stack["stack_status"].endswith("IN_PROGRESS"))
        return stack["stack_status"], without_ids(stack["stack_status_reason"])

    def resources(self, name: str) -> dict[str, str]:
        """The status of each resource of a stack."""
        rows = self.ask("GET", f"stacks/{name}/resources").json()["resources"]
        return {row["resource_name"]: row["resource_status"] for row in rows}

    def delete(self, name: str) -> None:
        """Delete a stack, and wait until it is gone."""
        answer = self.ask("GET", f"stacks/{name}")
        if answer.status_code == 200:
            self.ask("DELETE", f"stacks/{name}/{answer.json()['stack']['id']}")
        waited(lambda: self.ask("GET", f"stacks/{name}").status_code, lambda code: code == 404)

    def names(self) -> list[str]:
        """The stacks that the user sees."""
        return sorted(stack["stack_name"] for stack in self.ask("GET", "stacks").json()["stacks"])


@dataclass(frozen=True)
class Cloud:
    """A cloud. `admin` is a connection of its operator, `folder` that of examples/cloud, None for another one's."""

    admin: Any
    users: Mapping[str, User]
    folder: Path | None

    def restart(self, *processes: str) -> None:
        """Restart processes of a cloud of examples/cloud."""
        subprocess.run([sys.executable, "-m", "examples.cloud", "restart", str(self.folder), *processes], check=True,
                       cwd=ROOT)  # fmt: skip

    @contextmanager
    def options(self, text: str, *processes: str) -> Iterator[None]:
        """Options of Heat beside those that it has and those of contexts around it, for the time of the context."""
        assert self.folder
        path = self.folder / "etc" / "heat" / "heat.conf.d" / f"test-{time.time_ns()}.conf"
        path.write_text(text)
        try:
            self.restart(*processes)
            yield
        finally:
            path.unlink()
            self.restart(*processes)


@contextmanager
def started(folder: Path) -> Iterator[None]:
    """Start a cloud of examples/cloud, with its operator's variables in the environment, and stop it."""
    base = next(base for base in range(26000, 45000, 100) if _is_free(base))
    command = [sys.executable, "-m", "examples.cloud", "start", str(folder), "--port-base", str(base)]
    STARTED.append(folder)
    try:
        begun = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert begun.returncode == 0, begun.stderr
        with pytest.MonkeyPatch.context() as environment:
            for name, value in re.findall(r"^export (\w+)=(.*)$", (folder / "admin-openrc").read_text(), re.M):
                environment.setenv(name, value)
            yield
    finally:
        stop_started()


def stop_started() -> None:
    """Stop all clouds that were started."""
    while STARTED:
        subprocess.run([sys.executable, "-m", "examples.cloud", "stop", str(STARTED.pop())], cwd=ROOT, check=True)


@contextmanager
def connected() -> Iterator[Cloud]:
    """The cloud of the variables in the environment, with the users of these tests until the end."""
    admin = openstack.connect()
    folder = os.environ.get("DATALOG_GATE_CLOUD")
    if folder:
        for rules in RULES.glob("*.dl"):
            (Path(folder) / "rules" / rules.name).write_text(rules.read_text())
    made: list[Callable[[], object]] = []
    users: dict[str, User] = {}
    try:
        users = _make_users(admin, made)
        yield Cloud(admin, users, Path(folder) if folder else None)
    finally:
        for user in users.values():
            for name in user.names():
                user.delete(name)
        for remove in reversed(made):
            remove()


def _make_users(admin: Any, made: list[Callable[[], object]]) -> dict[str, User]:
    identity = admin.identity
    roles = {role.name: role for role in identity.roles()}
    domain = identity.get_user(admin.current_user_id).domain_id
    projects: dict[str, Any] = {}
    users: dict[str, User] = {}
    suffix = uuid4().hex[:6]
    for name, (project, names) in USERS.items():
        if project not in projects:
            projects[project] = identity.create_project(name=f"{project}-{suffix}", domain_id=domain)
            made.append(partial(identity.delete_project, projects[project]))
        user = identity.create_user(name=f"{name}-{suffix}", password=PASSWORD, domain_id=domain)
        made.append(partial(identity.delete_user, user))
        for role in names:
            roles[role] = roles.get(role) or identity.create_role(name=role)
            identity.assign_project_role_to_user(projects[project], user, roles[role])
        connection = openstack.connect(
            load_envvars=False,
            load_yaml_config=False,
            auth_url=os.environ["OS_AUTH_URL"],
            username=user.name,
            password=PASSWORD,
            project_id=projects[project].id,
            user_domain_id=domain,
            region_name=os.environ.get("OS_REGION_NAME"),
        )
        users[name] = User(name, projects[project].id, connection)
    return users


def waited(read: Callable[[], Value], is_enough: Callable[[Value], bool]) -> Value:
    """Read until it is enough; return what was read last."""
    end = time.monotonic() + PATIENCE
    while not is_enough(value := read()):
        assert time.monotonic() < end, value
        time.sleep(0.3)
    return value


def without_ids(text: str) -> str:
    """A text without the parts that are new in each run."""
    text = re.sub(r"\[decision [0-9a-f]{6}\]", "[decision ID]", text)
    return re.sub(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", "UUID", text)


def _is_free(base: int) -> bool:
    """Whether nobody listens on the ports of a cloud."""
    try:
        for port in range(base, base + 20):
            socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
