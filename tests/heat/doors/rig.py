"""Start a Heat with chosen doors and drive it over HTTP."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests
from heatclient import client as heatclient

from datalog_gate.doors import heat as ours
from tests.servers import free_ports
from tests.waiting import PATIENCE as PATIENCE
from tests.waiting import wait as wait

HERE = Path(__file__).parent
PROJECT = "admin"
RESOURCES = Path(ours.__file__).parent / "resources"
ENGINE_DOOR = f"{RESOURCES},{RESOURCES.parent / 'engine'}"
"""The folders of plugins of a Heat with the door in its engine."""
NUMBERS = count(1)
PROCESSES: Any = multiprocessing.get_context("forkserver")
"""Where a Heat is started: from what the second and later ones find imported."""
PROCESSES.set_forkserver_preload([__name__, f"{__package__}.server"])
FILTERS = {"api_filter": "datalog_gate", "cfn_filter": "datalog_gate_cfn"}
"""The filters before Heat's own application in the pipelines of its APIs."""

CONF = """
[DEFAULT]
host = {host}
log_file = {folder}/heat.log
transport_url = fake://
auth_encryption_key = 0123456789abcdef0123456789abcdef
keystone_backend = heat.engine.clients.os.keystone.fake_keystoneclient.FakeKeystoneClient
deferred_auth_method = password
convergence_engine = {convergence}
error_wait_time = 2
plugin_dirs = {resources}
environment_dir = {folder}/environment.d
template_dir = {folder}/templates
enable_stack_abandon = True
enable_stack_adopt = True
[clients_heat]
url = http://127.0.0.1:{port}/v1/%(tenant_id)s
[database]
connection = {database}
[paste_deploy]
flavor = {flavor}
api_paste_config = {folder}/paste.ini
[oslo_policy]
policy_file = {folder}/policy.yaml
[datalog_gate]
rules = {rules}
allow_unverified_context = True
{options}
"""
PASTE = """
[composite:heat-api]
use = egg:Paste#urlmap
/: api
[composite:heat-api-cfn]
use = egg:Paste#urlmap
/: api-cfn
[composite:api]
paste.composite_factory = heat.api:pipeline_factory
noauth = cors request_id faultwrap noauth context http_proxy_to_wsgi versionnegotiation {api_filter} apiv1app
custombackend = cors request_id context faultwrap versionnegotiation {api_filter} apiv1app
[composite:api-cfn]
paste.composite_factory = heat.api:pipeline_factory
noauth = cors request_id http_proxy_to_wsgi cfnversionnegotiation noauth context {cfn_filter} apicfnv1app
custombackend = cors request_id http_proxy_to_wsgi cfnversionnegotiation context {cfn_filter} apicfnv1app
[app:apiv1app]
paste.app_factory = heat.common.wsgi:app_factory
heat.app_factory = heat.api.openstack.v1:API
[app:apicfnv1app]
paste.app_factory = heat.common.wsgi:app_factory
heat.app_factory = heat.api.cfn.v1:API
[filter:versionnegotiation]
paste.filter_factory = heat.common.wsgi:filter_factory
heat.filter_factory = heat.api.openstack:version_negotiation_filter
[filter:cfnversionnegotiation]
paste.filter_factory = heat.common.wsgi:filter_factory
heat.filter_factory = heat.api.cfn:version_negotiation_filter
[filter:faultwrap]
paste.filter_factory = heat.common.wsgi:filter_factory
heat.filter_factory = heat.api.openstack:faultwrap_filter
[filter:cors]
paste.filter_factory = oslo_middleware.cors:filter_factory
oslo_config_project = heat
[filter:context]
paste.filter_factory = heat.common.context:ContextMiddleware_filter_factory
[filter:http_proxy_to_wsgi]
paste.filter_factory = oslo_middleware:HTTPProxyToWSGI.factory
[filter:noauth]
paste.filter_factory = heat.common.noauth:filter_factory
[filter:request_id]
paste.filter_factory = oslo_middleware.request_id:RequestId.factory
[filter:datalog_gate]
use = egg:datalog-gate#datalog_gate
rules = {rules}
[filter:datalog_gate_cfn]
use = egg:datalog-gate#datalog_gate_cfn
rules = {rules}
"""


@dataclass(frozen=True)
class Heat:
    """A running Heat. Every answer is a `requests.Response`; nothing is raised for its status."""

    url: str
    cfn_url: str
    folder: Path
    process: int

    def ask(self, method: str, path: str, /, **body: Any) -> requests.Response:
        """Send a request below the project, with a JSON body if there is any: Heat takes no empty one."""
        url = f"{self.url}/v1/{PROJECT}/{path}"
        return requests.request(method, url, json=body or None, timeout=PATIENCE)

    def create(self, template: Any, name: str | None = None, **fields: Any) -> tuple[str, requests.Response]:
        """Request a stack, with a new name if none is given. Return the name and the answer."""
        name = name or self.name()
        return name, self.ask("POST", "stacks", stack_name=name, template=template, **fields)

    def built(self, template: Any, name: str | None = None, **fields: Any) -> tuple[str, str, str]:
        """Request a stack and wait for the end. Return its name, status and reason."""
        name, answer = self.create(template, name, **fields)
        assert answer.status_code == 201, answer.text
        return name, *self.ended(name)

    def created(self, template: Any, name: str | None = None, **fields: Any) -> str:
        """Request a stack that is complete in the end. Return its name."""
        name, status, reason = self.built(template, name, **fields)
        assert status == "CREATE_COMPLETE", reason
        return name

    def updated(self, name: str, template: Any = None, **fields: Any) -> tuple[str, str]:
        """Update a stack, by PATCH if no template is given, and wait for the end. Return its status and reason."""
        answer = self.on(name, "PUT", template=template, **fields) if template else self.on(name, "PATCH", **fields)
        assert answer.status_code == 202, answer.text
        return self.ended(name)

    def delete(self, name: str) -> None:
        """Delete a stack and wait until it is gone."""
        answer = self.on(name, "DELETE")
        assert answer.status_code == 204, answer.text
        self.ended(name, deleted=True)

    def empty(self) -> None:
        """Delete all stacks."""
        for stack in self.ask("GET", "stacks").json()["stacks"]:
            self.delete(stack["stack_name"])

    def snapshot(self, name: str) -> str:
        """Take a snapshot of the stack. Return its id."""
        answer = self.on(name, "POST", "/snapshots", name="copy")
        self.ended(name)
        return str(answer.json()["id"])

    def name(self) -> str:
        """A name that no stack has."""
        return f"stack-{next(NUMBERS)}"

    def cfn(self, query: Mapping[str, str], /, **form: str) -> requests.Response:
        """Send a request to the CloudFormation API, in its query, its form, or both."""
        method = "POST" if form else "GET"
        return requests.request(method, f"{self.cfn_url}/v1/", params=query, data=form or None, timeout=PATIENCE)

    def list_stacks(self) -> list[dict[str, Any]]:
        """List all stacks, nested ones too."""
        stacks: list[dict[str, Any]] = self.ask("GET", "stacks?show_nested=True").json()["stacks"]
        return stacks

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Assert that no stack appears, disappears or changes."""
        before = self.list_stacks()
        yield
        assert self.list_stacks() == before

    def sent(
        self, method: str, path: str, body: bytes | Iterator[bytes], headers: Mapping[str, str]
    ) -> requests.Response:
        """Send exactly these bytes and return the answer."""
        request = requests.Request(method, self.url, headers=dict(headers), data=body).prepare()
        request.method, request.url = method, self.url + path
        with requests.Session() as session:
            return session.send(request, timeout=PATIENCE, allow_redirects=False)

    def lengths(self, name: str) -> list[int]:
        """The actual lengths of the random strings of the stack and of its nested stacks."""
        path = "/resources?nested_depth=5&with_detail=True"
        values = [
            resource.get("attributes", {}).get("value") for resource in self.on(name, "GET", path).json()["resources"]
        ]
        return sorted(len(value) for value in values if isinstance(value, str))

    def on(self, name: str, method: str, path: str = "", /, **body: Any) -> requests.Response:
        """Send a request below a stack's own address. The legacy engine releases its lock a little after it says that
        an operation has ended, so a request that meets it is sent again."""
        address = f"stacks/{name}/{self.stack(name)['id']}{path}"
        end = time.monotonic() + 2
        while "ActionInProgress" in (answer := self.ask(method, address, **body)).text and time.monotonic() < end:
            time.sleep(0.2)
        return answer

    def stack(self, name: str) -> dict[str, Any]:
        """Show the stack; empty if there is none."""
        shown: dict[str, Any] | None = self.ask("GET", f"stacks/{name}").json().get("stack")
        if shown is None:  # Heat may not show one of which it deletes a nested stack just then
            listed = self.ask("GET", "stacks").json()["stacks"]
            shown = next((stack for stack in listed if stack["stack_name"] == name), {})
        return shown

    def ended(self, name: str, deleted: bool = False) -> tuple[str, str]:
        """Wait for the end of an operation. Return the stack's status and reason; two empty texts if the stack is
        deleted, which is awaited with `deleted`."""
        outcome = "", ""

        def over() -> bool:
            nonlocal outcome
            stack = self.stack(name)
            outcome = stack.get("stack_status", ""), stack.get("stack_status_reason", "")
            return not outcome[0] if deleted else not outcome[0].endswith("IN_PROGRESS")

        wait(over, lambda: f"{name} is {outcome}: {self.resources(name)}\n{self.log()}")
        return outcome

    def log(self) -> str:
        """The end of Heat's log, without the requests that ask whether it is ready."""
        written = [self.folder / name for name in ("heat.log", "stderr")]
        lines = [line for file in written if file.exists() for line in file.read_text().splitlines()]
        asking = ("Processing request: GET", "The Referenced Attribute")
        return "\n".join([line for line in lines if not any(text in line for text in asking)][-200:])

    def resources(self, name: str) -> dict[str, str]:
        """The status of each of the stack's resources."""
        listed = self.on(name, "GET", "/resources").json()["resources"]
        return {resource["resource_name"]: resource["resource_status"] for resource in listed}

    def settled(self, name: str) -> tuple[str, str]:
        """As `ended`, and wait until a rolled back creation is deleted."""
        status, why = self.ended(name)
        return self.ended(name, deleted=True) if status in ("ROLLBACK_COMPLETE", "DELETE_COMPLETE") else (status, why)

    def outcome(self, name: str) -> tuple[str, str]:
        """As `ended`, without the decision's id."""
        status, why = self.ended(name)
        return status, why.split(" [decision ")[0]

    def lines(self, log: str, **wanted: str) -> list[Any]:
        """The objects of a log of the tests that have the wanted values."""
        path = self.folder / log
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if not wanted or all(line[name] == value for name, value in wanted.items())]

    def memory(self) -> float:
        """The memory of the process in MB."""
        for line in Path(f"/proc/{self.process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise LookupError("the process is gone")

    def login(self, patch: pytest.MonkeyPatch) -> None:
        """Let commands in this process find this Heat."""
        patch.setenv("OS_AUTH_TYPE", "none")
        patch.setenv("OS_ENDPOINT", f"{self.url}/v1/{PROJECT}")

    def client(self) -> Any:
        """A python-heatclient for this Heat."""
        return heatclient.Client("1", endpoint=f"{self.url}/v1/{PROJECT}", token="none")


@contextmanager
def running(
    folder: Path,
    convergence: bool,
    filtered: bool = False,
    rules: Path | str = HERE / "rules",
    options: Mapping[str, str | Sequence[str]] | None = None,
    flavor: str = "noauth",
    resources: str = str(RESOURCES),
    mappings: Mapping[str, str] | None = None,
    host: str = "aio",
    database: str = "",
) -> Iterator[Heat]:
    """A Heat from its start to its end.

    If it is `filtered`, the gate's filters stand before both APIs. Rules that are a text, or a folder beside this file,
    are put into the folder `rules` of this Heat, where they may change. `options` go to the group datalog_gate of
    heat.conf, those with several values once for each; `{folder}` in a value is that of this Heat. In the flavor
    custombackend the context is what the client's own headers say. Without `resources` Heat does not know the gate's
    types. `mappings` are the types that its operator maps to others. Several hosts may share the `database` of that
    URL; without it there is an SQLite file in the folder.
    """
    for name in ("environment.d", "templates"):
        (folder / name).mkdir()
    (folder / "environment.d" / "types.yaml").write_text(json.dumps({"resource_registry": mappings or {}}))
    port, cfn_port = free_ports(2)
    if isinstance(rules, str):
        (folder / "rules").mkdir()
        (folder / "rules" / "rules.dl").write_text(rules)
        rules = folder / "rules"
    elif rules.parent == HERE:
        rules = shutil.copytree(rules, folder / "rules")
    named = [(name, [given] if isinstance(given, str) else given) for name, given in (options or {}).items()]
    written = "\n".join(f"{name} = {value.format(folder=folder)}" for name, values in named for value in values)
    conf = CONF.format(
        folder=folder,
        port=port,
        convergence=convergence,
        resources=resources,
        rules=rules,
        options=written,
        flavor=flavor,
        host=host,
        database=database or f"sqlite:///{folder}/heat.db?timeout=30",
    )
    (folder / "heat.conf").write_text(conf)
    (folder / "paste.ini").write_text(
        PASTE.format(rules=rules, **(FILTERS if filtered else dict.fromkeys(FILTERS, "")))
    )
    with started(folder, port, cfn_port) as heat:
        yield heat


def heats(*kinds: str, **options: Any) -> Any:
    """A fixture of a module: a Heat of each kind, as `running`. `convergence` and `legacy` are engines, `filter` is the
    first behind the filters and `plugin` the second."""

    @pytest.fixture(scope="module", params=kinds)
    def fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
        kind = request.param
        convergence = kind in ("convergence", "filter")
        with running(tmp_path_factory.mktemp(kind), convergence, filtered=kind == "filter", **options) as heat:
            yield heat

    return fixture


@contextmanager
def started(folder: Path, port: int, cfn_port: int) -> Iterator[Heat]:
    """Run the Heat whose heat.conf and paste.ini are in the folder."""
    ready, telling = PROCESSES.Pipe(duplex=False)
    server = PROCESSES.Process(target=_serve, args=(folder, (port, cfn_port), dict(os.environ), telling), daemon=True)
    server.start()
    telling.close()
    try:
        try:
            ready.recv()
        except EOFError:
            raise AssertionError((folder / "stderr").read_text()[-4000:]) from None
        assert server.pid is not None
        yield Heat(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{cfn_port}", folder, server.pid)
    finally:
        server.kill()
        server.join()


def _serve(*arguments: Any) -> None:
    """Serve with what the process that forks has imported, and this one never does."""
    from tests.heat.doors import server

    server.serve(*arguments)


def install(folder: Path, name: str, entry_points: str) -> None:
    """Make the modules in the folder a distribution with these entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
