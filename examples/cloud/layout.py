"""The ports, addresses, databases and files of a cloud."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PASTE = Path(sys.prefix) / "etc"
"""Where wheels put the files of paste."""
PASSWORD = "secret"
"""The password of all users. The cloud listens on the loopback address only."""
REGION = "RegionOne"
LISTENERS = ("keystone", "glance", "placement", "nova", "neutron", "cinder", "heat", "heat_cfn",
             "mariadb", "rabbitmq", "rabbitmq_nodes", "epmd", "metrics")  # fmt: skip
"""The listeners, in the order of their ports from the base."""
APIS = {
    "keystone": "keystone.wsgi.api",
    "glance": "glance.wsgi.api",
    "placement": "placement.wsgi.api",
    "nova": "nova.wsgi.osapi_compute",
    "neutron": "neutron.wsgi.api",
    "cinder": "cinder.wsgi.api",
    "heat": "heat.wsgi.api",
    "heat_cfn": "heat.wsgi.cfn",
}
"""The modules with the WSGI applications."""
DATABASES = ("keystone", "glance", "placement", "nova_api", "nova_cell0", "nova", "neutron", "cinder", "heat",
             "datalog_gate")  # fmt: skip
USERS = ("glance", "placement", "nova", "neutron", "cinder", "heat", "datalog_gate")
"""Users of the service project."""
CONF = {"glance": "glance-api.conf"}
"""Names of configuration files that differ from the names of their services."""
ZONES = {"R1": "AZ1", "R2": "AZ1", "R3": "AZ2"}
"""The zone of each rack."""
RACKS = ("R1", "R2", "R2", "R3")
"""The racks of hosts, in turn."""
POOLS = {"p1": "R1", "p2": "R2", "p3": "R3"}
"""The rack of each of Cinder's backends."""
FLAVORS = {"m1.small": (1, 256, 1), "m1.medium": (2, 512, 2), "m1.large": (4, 1024, 4)}
"""Virtual CPUs, MiB of memory and GiB of disk."""


@dataclass(frozen=True)
class Layout:
    """The layout of a cloud in a folder."""

    folder: Path
    base: int
    """The first port."""
    hosts: tuple[str, ...]
    """Names of the hosts of servers."""
    legacy: bool
    """Whether Heat runs its legacy engine."""

    def port(self, name: str) -> int:
        return self.base + LISTENERS.index(name)

    def url(self, name: str, path: str = "") -> str:
        return f"http://127.0.0.1:{self.port(name)}{path}"

    def database(self, name: str) -> str:
        return f"mysql+pymysql://root@127.0.0.1:{self.port('mariadb')}/{name}?charset=utf8"

    def conf(self, service: str) -> Path:
        """The file of options of a service."""
        return self.folder / "etc" / service / CONF.get(service, f"{service}.conf")

    def rack(self, host: str) -> str:
        return RACKS[self.hosts.index(host) % len(RACKS)]

    def write(self) -> None:
        """Write all files: options, what paste reads, rules of the gate, and two files of OS_* variables."""
        for name in ("images", "keys", "locks", "metrics", "python", "rabbitmq", "etc/heat/heat.conf.d"):
            (self.folder / name).mkdir(parents=True)
        texts = self._texts()
        for service in ("keystone", "glance", "placement", "nova", "neutron", "cinder", "heat"):
            path = self.conf(service)
            path.parent.mkdir(exist_ok=True)
            path.write_text((HERE / "etc" / path.name).read_text().format_map(texts))
            for paste in (PASTE / service).glob("*paste.ini"):
                shutil.copy(paste, path.parent)
        for host in self.hosts:
            provider = self.folder / "computes" / host / "provider_config" / "provider.yaml"
            provider.parent.mkdir(parents=True)
            rack = self.rack(host)
            for name, path in (("nova-compute.conf", self.compute_conf(host)), ("provider.yaml", provider)):
                text = (HERE / "etc" / name).read_text()
                path.write_text(text.format(folder=self.folder, host=host, rack=rack, zone=ZONES[rack]))
        sizes = ({"flavor": name, "VCPU": cpus, "MEMORY_MB": memory} for name, (cpus, memory, _) in FLAVORS.items())
        (self.folder / "etc" / "heat" / "flavors.jsonl").write_text("".join(f"{json.dumps(size)}\n" for size in sizes))
        shutil.copy(HERE / "etc" / "policy.yaml", self.folder / "etc" / "heat")
        shutil.copytree(HERE / "rules", self.folder / "rules")
        password = self.folder / "keys" / "datalog_gate"
        password.touch(0o600)
        password.write_text(PASSWORD)
        self._write_port_binding()
        for user, project in (("admin", "admin"), ("demo", "demo")):
            self.openrc(user).write_text(self._environment(user, project))

    def compute_conf(self, host: str) -> Path:
        return self.folder / "etc" / "nova" / f"{host}.conf"

    def openrc(self, user: str) -> Path:
        return self.folder / f"{user}-openrc"

    def _texts(self) -> dict[str, object]:
        """The values for the placeholders in etc/."""
        common = {
            "host": "cloud",
            "my_ip": "127.0.0.1",
            "state_path": self.folder / "state",
            "transport_url": f"rabbit://guest:guest@127.0.0.1:{self.port('rabbitmq')}/",
        }
        return {
            "folder": self.folder,
            "paste": PASTE,
            "password": PASSWORD,
            "mariadb": self.port("mariadb"),
            "metrics": self.port("metrics"),
            "convergence": str(not self.legacy).lower(),
            "plugins": ",".join(str(files("datalog_gate.doors.heat") / name) for name in ("engine", "resources")),
            "common": _lines(common),
            "database": {name: self.database(name) for name in DATABASES},
            "url": {name: self.url(name) for name in APIS},
            "login": {user: _lines({**self._login(user), **_PROJECT}) for user in USERS},
            "trustee": _lines(self._login("heat")),
            "licence": self._service_options("licence"),
            "rack_affinity": self._service_options("rack_affinity"),
        }

    def _login(self, user: str) -> dict[str, object]:
        """Options of keystoneauth."""
        return {
            "auth_type": "password",
            "auth_url": self.url("keystone", "/v3"),
            "username": user,
            "password": PASSWORD,
            "user_domain_id": "default",
        }

    def _service_options(self, service: str) -> str:
        """The options of a service for Placement: its password must not be in heat.conf."""
        login = {**self._login("datalog_gate"), **_PROJECT, "password_file": self.folder / "keys" / "datalog_gate"}
        del login["password"]
        return _lines({f"{service}.{key}": value for key, value in login.items()}, "service_option = {key}={value}")

    def _environment(self, user: str, project: str) -> str:
        variables = {
            "OS_AUTH_URL": self.url("keystone", "/v3"),
            "OS_USERNAME": user,
            "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": project,
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_REGION_NAME": REGION,
            "OS_IDENTITY_API_VERSION": "3",
        }
        if user == "admin":
            variables["DATALOG_GATE_CLOUD"] = str(self.folder)
        return _lines(variables, "export {key}={value}") + "\n"

    def _write_port_binding(self) -> None:
        """Install the mechanism driver in a folder of Neutron's path, with its entry point."""
        folder = self.folder / "python"
        shutil.copy(HERE / "port_binding.py", folder)
        metadata = folder / "port_binding-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: port-binding\nVersion: 1\n")
        entry_point = "[neutron.ml2.mechanism_drivers]\nport_binding = port_binding:PortBinding\n"
        (metadata / "entry_points.txt").write_text(entry_point)


_PROJECT: dict[str, object] = {"project_name": "service", "project_domain_id": "default"}


def _lines(options: Mapping[str, object], line: str = "{key} = {value}") -> str:
    return "\n".join(line.format(key=key, value=value) for key, value in options.items())
