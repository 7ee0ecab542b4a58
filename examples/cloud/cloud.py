"""The start and stop of a cloud, on all cores at once."""

from __future__ import annotations

import os
import pwd
import shutil
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pymysql

from examples.cloud.contents import Contents
from examples.cloud.layout import APIS, BIN, DATABASES, HERE, PASSWORD, REGION, Layout
from examples.cloud.processes import CloudError, Environment, Processes

SERVERS = "mariadb-server rabbitmq-server"
"""Packages of Debian and Ubuntu."""
PLACES = os.pathsep.join(("/usr/lib/rabbitmq/bin", os.defpath, "/usr/sbin", "/usr/local/bin"))
"""The folders of their programs; Debian's rabbitmq-server in /usr/sbin runs only as its own user."""
ADD_DOORS = HERE.parents[1] / "docs" / "samples" / "add_doors.sh"


def start(layout: Layout) -> None:
    """Start a cloud in a new folder, and fill it. If that fails, all of its processes are stopped."""
    for program in ("mariadbd", "mariadb-install-db", "rabbitmq-server", "epmd"):
        find(program)
    if layout.folder.exists() and any(layout.folder.iterdir()):
        raise CloudError(f"{layout.folder} is not empty: start a cloud in a new folder")
    (layout.folder / "log").mkdir(parents=True, exist_ok=True)
    (layout.folder / "state").mkdir()
    processes = Processes(layout.folder)
    try:
        layout.write()
        _Start(layout, processes).run()
    except BaseException:
        processes.stop()
        raise


def stop(folder: Path) -> None:
    """Stop all processes of a cloud. Its data stay in the folder, but it can't be started again."""
    Processes(folder).stop()


def restart(folder: Path, names: Sequence[str]) -> None:
    """Stop processes and start them again, so that they read their options anew."""
    processes = Processes(folder)
    for name in names:
        processes.restart(name)
    for name in names:
        processes.wait_for_port(name)


def status(folder: Path) -> dict[str, bool]:
    """Whether each process runs."""
    processes = Processes(folder)
    return {name: processes.is_alive(name) for name in processes}


def find(program: str) -> str:
    """The path of a program of Debian."""
    path = shutil.which(program, path=PLACES)
    if path is None:
        raise CloudError(f"{program} is not installed: apt-get install {SERVERS}")
    return path


class _Start:
    """The start of one cloud: a method for each service, run in parallel."""

    def __init__(self, layout: Layout, processes: Processes) -> None:
        self._layout = layout
        self._processes = processes
        self._identity: Future[None]
        self._placement: Future[None]

    def run(self) -> None:
        self._start_rabbitmq()
        self._start_mariadb()
        with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
            self._identity = pool.submit(self._start_keystone)
            self._placement = pool.submit(self._start_placement)
            others = (self._start_nova, self._start_neutron, self._start_cinder, self._start_heat, self._start_glance)
            services = [self._identity, self._placement, *(pool.submit(service) for service in others)]
            try:
                self._processes.wait_for_port("rabbitmq")
                for service in services:
                    service.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for name in APIS:
            self._wait_for_api(name)
        contents = Contents(self._layout)
        self._processes.wait("nova-scheduler", contents.has_hosts)
        contents.fill()

    def _start_rabbitmq(self) -> None:
        """Start RabbitMQ with a list of nodes of its own, so that several clouds can run at once."""
        base = self._layout.folder / "rabbitmq"
        ports = {name: str(self._layout.port(name)) for name in ("rabbitmq", "rabbitmq_nodes", "epmd")}
        self._processes.start("epmd", [find("epmd"), "-address", "127.0.0.1", "-port", ports["epmd"]])
        self._processes.start(
            "rabbitmq",
            [find("rabbitmq-server")],
            {
                "HOME": base,
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "ERL_EPMD_PORT": ports["epmd"],
                "RABBITMQ_NODENAME": f"cloud{self._layout.base}@localhost",
                "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODE_PORT": ports["rabbitmq"],
                "RABBITMQ_DIST_PORT": ports["rabbitmq_nodes"],
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
                "RABBITMQ_MNESIA_BASE": base,
                "RABBITMQ_LOG_BASE": base,
                "RABBITMQ_PID_FILE": base / "pid",
                "RABBITMQ_ENABLED_PLUGINS_FILE": base / "plugins",
            },
            self._layout.port("rabbitmq"),
        )

    def _start_mariadb(self) -> None:
        """Start MariaDB without protection against a crash of the machine."""
        data = self._layout.folder / "mariadb"
        port = self._layout.port("mariadb")
        user = pwd.getpwuid(os.geteuid()).pw_name
        making = [find("mariadb-install-db"), "--no-defaults", f"--datadir={data}", f"--user={user}"]
        self._processes.run("mariadb", [*making, "--auth-root-authentication-method=normal", "--skip-test-db"])
        options = {
            "datadir": data,
            "user": user,
            "port": port,
            "bind-address": "127.0.0.1",
            "socket": data / "socket",
            "pid-file": data / "pid",
            "max-connections": 600,
            "skip-name-resolve": "ON",
            "innodb-flush-log-at-trx-commit": 0,
            "innodb-flush-method": "nosync",
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        self._processes.start("mariadb", [find("mariadbd"), "--no-defaults", *arguments], port=port)
        self._processes.wait_for_port("mariadb")
        with pymysql.connect(host="127.0.0.1", port=port, user="root") as connection, connection.cursor() as cursor:
            for name in DATABASES:
                cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8")

    def _start_keystone(self) -> None:
        user = pwd.getpwuid(os.geteuid()).pw_name
        owner = ("--keystone-user", user, "--keystone-group", user)
        url = self._layout.url("keystone", "/v3")
        bootstrap = ("bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", REGION)
        urls = ("--bootstrap-public-url", url, "--bootstrap-internal-url", url, "--bootstrap-admin-url", url)
        self._manage("keystone", "keystone-manage", ("db_sync",), ("fernet_setup", *owner),
                     ("credential_setup", *owner), (*bootstrap, *urls))  # fmt: skip
        self._start_api("keystone", {"OS_KEYSTONE_CONFIG_FILES": self._layout.conf("keystone")})
        self._wait_for_api("keystone")
        Contents(self._layout).fill_identity()

    def _start_glance(self) -> None:
        self._manage("glance", "glance-manage", ("db_sync",))
        self._start_api("glance", {"OS_GLANCE_CONFIG_DIR": self._layout.conf("glance").parent})

    def _start_placement(self) -> None:
        self._manage("placement", "placement-manage", ("db", "sync"))
        self._start_api("placement", {"OS_PLACEMENT_CONFIG_DIR": self._layout.conf("placement").parent})

    def _start_nova(self) -> None:
        cell = self._layout.database("nova_cell0")
        self._manage("nova", "nova-manage", ("api_db", "sync"), ("cell_v2", "map_cell0", "--database_connection", cell),
                     ("db", "sync"), ("cell_v2", "create_cell", "--name", "cell1"))  # fmt: skip
        self._identity.result()
        self._placement.result()
        self._wait_for_api("placement")  # without it nova-scheduler ends, and other services never try again
        for part in ("nova-conductor", "nova-scheduler"):
            self._start("nova", part)
        self._start_api("nova", {"OS_NOVA_CONFIG_DIR": self._layout.conf("nova").parent})
        for host in self._layout.hosts:
            options = ("--config-file", self._layout.conf("nova"), "--config-file", self._layout.compute_conf(host))
            self._processes.start(host, [BIN / "nova-compute", *options])

    def _start_neutron(self) -> None:
        self._manage("neutron", "neutron-db-manage", ("upgrade", "heads"))
        folders = [str(self._layout.folder / "python"), os.environ.get("PYTHONPATH", "")]
        path = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
        conf = self._layout.conf("neutron")
        variables: Environment = {"OS_NEUTRON_CONFIG_DIR": conf.parent, "OS_NEUTRON_CONFIG_FILES": conf.name}
        self._start_api("neutron", {**variables, **path})
        self._start("neutron", "neutron-rpc-server", path)

    def _start_cinder(self) -> None:
        self._manage("cinder", "cinder-manage", ("db", "sync"))
        for part in ("cinder-scheduler", "cinder-volume"):
            self._start("cinder", part)
        self._start_api("cinder", {"OS_CINDER_CONFIG_DIR": self._layout.conf("cinder").parent})

    def _start_heat(self) -> None:
        conf = self._layout.conf("heat")
        self._processes.run("datalog-gate", ["sh", ADD_DOORS, conf.parent / "api-paste.ini"])
        self._processes.run("datalog-gate", [BIN / "datalog-gate", "store", "upgrade", "--heat-conf", conf])
        self._manage("heat", "heat-manage", ("db_sync",))
        self._start("heat", "heat-engine")
        self._start_api("heat", {})
        self._start_api("heat_cfn", {})

    def _manage(self, service: str, program: str, *commands: Sequence[str]) -> None:
        """Run commands that prepare a service."""
        arguments = [word for command in commands for word in ("--", *command)]
        manage = [BIN / "python", HERE / "manage.py", program, *self._options(service)]
        self._processes.run(program, [*manage, *arguments])

    def _start(self, service: str, program: str, environment: Environment | None = None) -> None:
        self._processes.start(program, [BIN / program, *self._options(service)], environment)

    def _start_api(self, name: str, environment: Environment) -> None:
        server: list[str | Path] = [BIN / "python", HERE / "wsgi_server.py", APIS[name], str(self._layout.port(name))]
        service = name.removesuffix("_cfn")
        self._processes.start(f"{name}-api", [*server, *self._options(service)], environment, self._layout.port(name))

    def _options(self, service: str) -> list[str | Path]:
        """The command-line options for the configuration files of a service."""
        conf = self._layout.conf(service)
        folder = conf.with_suffix(".conf.d")
        return ["--config-file", conf, "--config-dir", folder] if folder.is_dir() else ["--config-file", conf]

    def _wait_for_api(self, name: str) -> None:
        """Wait until a service answers, even with an authentication error."""
        path = "/healthcheck" if name == "glance" else "/"
        self._processes.wait(f"{name}-api", lambda: _answers(self._layout.url(name, path)))


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True
