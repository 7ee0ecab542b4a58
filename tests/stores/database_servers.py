"""PostgreSQL and MariaDB in folders of their own, without root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from glob import glob
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tests.servers import free_ports
from tests.waiting import PATIENCE, wait

PASSWORD = "hush/hush@"
QUOTED = "hush%2Fhush%40"
PLACES = ("/usr/sbin", "/usr/bin", "/usr/local/bin", *glob("/usr/lib/postgresql/*/bin"))


class DatabaseServer:
    """A server that is started when it is made."""

    driver: str
    query = ""
    admin: str
    """The URL of its first database without the port, for its owner."""
    user: str
    """Who runs it where root runs the tests."""
    main: str
    """Its program."""
    first: tuple[str, ...]
    """Statements that make the user of the gate."""

    def __init__(self) -> None:
        self.program = _find(self.main)
        self.folder = Path(tempfile.mkdtemp(prefix="store-"))
        [self.port] = free_ports(1)
        if os.getuid() == 0:
            shutil.chown(self.folder, self.user)
        self._process: subprocess.Popen[bytes] | None = None
        self.make()
        self.start()
        self.execute(*self.first)

    def make(self) -> None:
        """Make the files of the server."""
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self.as_user(self.command()), stdout=log, stderr=log)
        wait(self._answers, (self.folder / "log").read_text)

    def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with suppress(DBAPIError):
            self.execute("SELECT 1")
            return True
        return False

    def stop(self) -> None:
        """Stop the server as a crash would: nothing is written any more."""
        pid = int((self.folder / "pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT if self.main == "postgres" else signal.SIGKILL)
        assert self._process
        self._process.wait(PATIENCE)

    def close(self) -> None:
        with suppress(OSError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self, name: str) -> str:
        """Create a database anew and return its URL."""
        self.execute(f"DROP DATABASE IF EXISTS {name}", self.creation(name))
        return self.url(name)

    def url(self, name: str, port: int | None = None) -> str:
        return f"{self.driver}://gate:{QUOTED}@127.0.0.1:{port or self.port}/{name}{self.query}"

    def creation(self, name: str) -> str:
        raise NotImplementedError

    def execute(self, *statements: str) -> None:
        engine = create_engine(self.admin.format(port=self.port), poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as rows:
            for statement in statements:
                rows.exec_driver_sql(statement)

    def as_user(self, command: list[str]) -> list[str]:
        return ["runuser", "-u", self.user, "--", *command] if os.getuid() == 0 else command


class PostgreSQL(DatabaseServer):
    driver, user, main = "postgresql+psycopg", "postgres", "postgres"
    admin = "postgresql+psycopg://owner:owner@127.0.0.1:{port}/postgres"
    first = (f"CREATE ROLE gate LOGIN PASSWORD '{PASSWORD}'",)

    def make(self) -> None:
        (self.folder / "password").write_text("owner")
        options = ["-D", str(self.folder / "data"), "-A", "scram-sha-256", f"--pwfile={self.folder}/password",
                   "-U", "owner", "-E", "UTF8", "--no-sync"]  # fmt: skip
        subprocess.run(self.as_user([_find("initdb"), *options]), check=True, capture_output=True)

    def command(self) -> list[str]:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder, "max_connections": 200,
                    "external_pid_file": self.folder / "pid", "fsync": "off"}  # fmt: skip
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self.program, "-D", str(self.folder / "data"), "-p", str(self.port), *options]

    def creation(self, name: str) -> str:
        return f"CREATE DATABASE {name} OWNER gate"


class MariaDB(DatabaseServer):
    driver, user, main = "mysql+pymysql", "mysql", "mariadbd"
    admin = "mysql+pymysql://root@127.0.0.1:{port}/mysql"
    query = "?ssl_disabled=1"  # PyMySQL reads all authorities at each connection
    first = (f"CREATE USER gate@'%%' IDENTIFIED BY '{PASSWORD}'",)

    def make(self) -> None:
        options = ["--no-defaults", f"--datadir={self.folder}/data", "--auth-root-authentication-method=normal"]
        command = [_find("mariadb-install-db"), *options, "--skip-test-db"]
        subprocess.run(self.as_user(command), check=True, capture_output=True)

    def command(self) -> list[str]:
        options = {"datadir": self.folder / "data", "socket": self.folder / "socket", "port": self.port,
                   "bind-address": "127.0.0.1", "pid-file": self.folder / "pid", "skip-name-resolve": "ON",
                   "innodb-flush-log-at-trx-commit": 2, "character-set-server": "latin1"}  # fmt: skip
        return [self.program, "--no-defaults", *(f"--{name}={value}" for name, value in options.items())]

    def creation(self, name: str) -> str:
        return f"CREATE DATABASE {name}"

    def database(self, name: str) -> str:
        url = super().database(name)
        self.execute(f"GRANT ALL ON {name}.* TO gate@'%%'")
        return url


def _find(program: str) -> str:
    """The path of a program; the test is skipped where it is not installed."""
    path = shutil.which(program, path=os.pathsep.join(PLACES))
    if path is None:
        pytest.skip(f"{program} is not installed: apt-get install postgresql mariadb-server")
    return path
