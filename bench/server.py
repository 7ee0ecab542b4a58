"""The policy server under a mixed load.

``python -m bench.server [REQUESTS [sqlite|postgresql|mariadb]]`` sends a mix of requests while rules change, workers
are replaced, killed and told to end, and the database is killed and started again. It prints what was answered as
JSON, and exits with 1 if an answer was wrong. ``python -m bench.server crowd`` prints times of one worker with and
without a crowd of clients that never end their requests.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

import requests

from datalog_gate.store.transaction import Store
from tests.server.rig import serving
from tests.servers import free_ports
from tests.unit.doors.server.test_server import RULES, template

THREADS = 8
CONF = """
[datalog_gate]
rules = {folder}/rules
waivers = store
reload_seconds = 1
store = {store}
[datalog_gate_server]
folder = {folder}/server
workers = 2
[DEFAULT]
debug = false
"""
EXCUSES = "the store", "no answer within"
"""What a server may say while its database is away, or while all its threads are busy and it loads rules."""
LIMITS = 64, 32
"""The two limits of the policy, which change places."""
ENTRY = {"policy": "length", "project": "none", "reason": "load", "expires": "2127-01-01"}
QUERY = {"query": "p(x)", "rules": "p(x) :- q(x), x > 1.", "facts": {"q": [[1], [2], [3]]}}
EVENTS: tuple[tuple[float, str], ...] = (
    (0.05, "rules"), (0.1, "replace"), (0.2, "rules"), (0.25, "database"), (0.35, "rules"), (0.4, "kill"),
    (0.5, "measure"), (0.6, "rules"), (0.7, "end"), (0.8, "rules"), (1.0, "measure"),
)  # fmt: skip
"""The events of a run, by the part of the requests after which they happen."""


@dataclass
class Load:
    """The observations of the clients."""

    url: str
    token: str
    total: int
    """How many requests there are in all."""
    answers: Counter[str] = field(default_factory=Counter)
    """By operation and status."""
    wrong: list[str] = field(default_factory=list)
    limits: dict[str, set[int]] = field(default_factory=dict)
    """The limits that each set of rules, by its digest, can have after its decisions."""
    lost: int = 0
    """Connections that ended without an answer; each such request was sent again under its key."""
    slowest: float = 0.0
    seconds: list[float] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    sent: Iterator[int] = field(default_factory=count)
    reached: int = 0


class Client:
    """One of the clients that send at once."""

    def __init__(self, load: Load, number: int) -> None:
        self.load, self.random = load, random.Random(number)
        self.session = requests.Session()
        self.session.headers["X-Auth-Token"] = load.token
        self.decisions: list[str] = []
        self.waivers: list[str] = []
        operations: dict[Callable[[], None], int] = {
            self.decide: 40, self.show: 18, self.policies: 18, self.query: 12, self.waiver: 5, self.health: 3,
            self.malformed: 4,
        }  # fmt: skip
        self.operations, self.weights = list(operations), list(operations.values())

    def run(self) -> None:
        while (at := next(self.load.sent)) < self.load.total:
            self.load.reached = at
            [operation] = self.random.choices(self.operations, self.weights)
            operation()

    def ask(self, name: str, method: str, path: str, allowed: tuple[int, ...], **request: Any) -> tuple[int, Any]:
        """Ask until there is an answer, which has to have one of the statuses, or an excuse."""
        headers = {"Idempotency-Key": uuid4().hex, **request.pop("headers", {})}
        began = time.monotonic()
        for _ in range(20):
            try:
                answer = self.session.request(method, f"{self.load.url}{path}", headers=headers, timeout=120, **request)
                break
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):  # also within an answer
                with self.load.lock:
                    self.load.lost += 1
                time.sleep(0.2)
        else:
            self.fail(name, "no answer")
            return 0, None
        seconds = time.monotonic() - began
        try:
            content = answer.json()
        except ValueError:
            content = answer.text
        excused = answer.status_code == 503 and any(why in answer.text for why in EXCUSES)
        with self.load.lock:
            self.load.answers[f"{name} {answer.status_code}"] += 1
            self.load.seconds.append(seconds)
        if excused:
            time.sleep(0.2)  # or most requests of a short load are over before the store is back
        elif answer.status_code not in allowed:
            self.fail(name, f"{answer.status_code} {answer.text[:300]}")
        return answer.status_code, content

    def fail(self, name: str, what: str) -> None:
        with self.load.lock:
            self.load.wrong.append(f"{name}: {what}")

    def decide(self) -> None:
        length = self.random.randint(1, 99)
        body = {"template": template(length), "stack_name": f"s{length}"}
        status, decision = self.ask("decide", "POST", "/v2/decisions", (201,), json=body)
        if status != 201:
            return
        denied = decision["outcome"] == "deny"
        fitting = {limit for limit in LIMITS if (length > limit) == denied}
        with self.load.lock:
            known = self.load.limits.setdefault(decision["digests"]["rules"], set(LIMITS))
            known &= fitting
            if not known:
                self.load.wrong.append(f"decide: {length} is {decision['outcome']} by {decision['digests']['rules']}")
        self.decisions = [*self.decisions[-50:], decision["id"]]

    def show(self) -> None:
        if not self.decisions:
            return self.policies()
        wanted = self.random.choice(self.decisions)
        status, decision = self.ask("show", "GET", f"/v2/decisions/{wanted}", (200, 404))
        if status == 200 and decision["id"] != wanted:
            self.fail("show", f"{decision['id']} instead of {wanted}")
        return None

    def policies(self) -> None:
        status, answer = self.ask("policies", "GET", "/v2/policies", (200,))
        if status == 200 and [policy["id"] for policy in answer["policies"]] != ["length"]:
            self.fail("policies", str(answer))

    def query(self) -> None:
        status, answer = self.ask("query", "POST", "/v2/queries", (200,), json=QUERY)
        if status == 200 and answer["rows"] != [[2], [3]]:
            self.fail("query", str(answer))

    def waiver(self) -> None:
        if self.waivers:
            self.ask("waiver delete", "DELETE", f"/v2/waivers/{self.waivers.pop()}", (200,))
            return
        status, answer = self.ask("waiver create", "POST", "/v2/waivers", (201,), json=ENTRY)
        if status == 201:
            self.waivers.append(answer["id"])

    def health(self) -> None:
        self.ask("health", "GET", "/healthcheck", (200,))

    def malformed(self) -> None:
        headers = {"Content-Type": "application/json"}
        self.ask("malformed", "POST", "/v2/decisions", (400,), data=b'{"template": ', headers=headers)


def run_load(folder: Path, total: int, kind: str = "sqlite", events: tuple[tuple[float, str], ...] = EVENTS) -> Any:
    """The figures of a load, with its `wrong` answers."""
    with database(folder, kind) as (store, restart):
        (folder / "rules").mkdir()
        write_rules(folder, LIMITS[0])
        (folder / "server.conf").write_text(CONF.format(folder=folder, store=store))
        if kind != "sqlite":
            Store(store).upgrade()
        [port] = free_ports(1)
        with serving(folder, port, "--config", str(folder / "server.conf")) as process:
            token = (folder / "stdout").read_text().removeprefix("token: ").strip()
            load = Load(f"http://127.0.0.1:{port}", token, total)
            memory: list[list[int]] = []
            began = time.monotonic()
            clients = [Thread(target=Client(load, number).run) for number in range(THREADS)]
            for client in clients:
                client.start()
            for part, event in events:
                while load.reached < part * total - 1 and any(client.is_alive() for client in clients):
                    time.sleep(0.05)
                happen(event, folder, process.pid, restart, memory)
            for client in clients:
                client.join()
            seconds = time.monotonic() - began
            wait_for_health(load.url)
    return {
        "requests": sum(load.answers.values()),
        "a second": round(sum(load.answers.values()) / seconds),
        "answers": dict(sorted(load.answers.items())),
        "connections lost and repeated": load.lost,
        "median, 99% and slowest in ms": milliseconds(load.seconds),
        "sets of rules": {digest[:8]: sorted(known) for digest, known in load.limits.items()},
        "memory of the workers in MiB": memory,
        "failures in the log": (folder / "stderr").read_text().count("the server failed"),
        "wrong": load.wrong[:20],
    }


def happen(event: str, folder: Path, master: int, restart: Callable[[], None], memory: list[list[int]]) -> None:
    workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    match event:
        case "rules":
            now = (folder / "rules" / "words.dl").read_text()
            write_rules(folder, LIMITS[1] if str(LIMITS[0]) in now else LIMITS[0])
        case "replace":
            os.kill(master, signal.SIGHUP)
        case "database":
            restart()
        case "kill" | "end":
            os.kill(int(workers[0]), signal.SIGKILL if event == "kill" else signal.SIGTERM)
        case "measure":
            memory.append(sorted(filter(None, (resident(int(worker)) for worker in workers))))


def write_rules(folder: Path, limit: int) -> None:
    """In one step, as docs/install.md has it."""
    (folder / "next").write_text(RULES.replace("64", str(limit)))
    (folder / "next").replace(folder / "rules" / "words.dl")


def resident(process: int) -> int:
    """MiB in memory; 0 of a process that was killed and waits for its parent."""
    _, _, fields = Path(f"/proc/{process}/status").read_text().partition("VmRSS:")
    return int(fields.split()[0]) // 1024 if fields else 0


def wait_for_health(url: str) -> None:
    """Wait until a worker is ready. Errors: SystemExit with its last answer after a minute."""
    end = time.monotonic() + 60
    while (answer := requests.get(f"{url}/healthcheck", timeout=60)).status_code != 200:
        if time.monotonic() > end:
            raise SystemExit(answer.text)
        time.sleep(1)


def milliseconds(seconds: list[float]) -> list[int]:
    ordered = sorted(seconds)
    return [round(1000 * ordered[int(part * (len(ordered) - 1))]) for part in (0.5, 0.99, 1)]


@contextmanager
def database(folder: Path, kind: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """The URL of a store, and functions that kill and restart its server."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/store", lambda: None
        return
    from tests.stores.database_servers import MariaDB, PostgreSQL

    server = PostgreSQL() if kind == "postgresql" else MariaDB()

    def restart() -> None:
        server.stop()
        time.sleep(1)
        server.start()

    try:
        yield server.database("gate"), restart
    finally:
        server.close()


@contextmanager
def crowd(port: int) -> Iterator[list[socket.socket]]:
    """500 clients that send half a head, and 100 that send a body byte by byte, all without an end or a token."""
    head = b"POST /v2/decisions HTTP/1.1\r\nHost: gate\r\n"
    lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(600)]
    ended = Event()

    def drip() -> None:
        while not ended.wait(0.2):
            for line in lines[:100]:
                with suppress(OSError):
                    line.sendall(b"x")

    for at, line in enumerate(lines):
        line.sendall(head + b"Content-Length: 100000\r\n\r\n" * (at < 100))
    dripping = Thread(target=drip)
    dripping.start()
    try:
        yield lines
    finally:
        ended.set()
        dripping.join()
        for line in lines:
            line.close()


def measure_crowd(folder: Path) -> dict[str, Any]:
    """Decisions a second and the slowest check of health of one worker: alone, and with a crowd."""
    (folder / "rules").mkdir()
    write_rules(folder, LIMITS[0])
    conf = CONF.format(folder=folder, store=f"sqlite:///{folder}/store").replace("workers = 2", "body_seconds = 60")
    (folder / "server.conf").write_text(conf)
    [port] = free_ports(1)
    with serving(folder, port, "--config", str(folder / "server.conf")):
        token = (folder / "stdout").read_text().removeprefix("token: ").strip()
        load = Load(f"http://127.0.0.1:{port}", token, 0)

        def measure() -> dict[str, float]:
            clients = [Client(load, number) for number in range(4)]
            checks, done = list[float](), Event()

            def check() -> None:
                while not done.wait(0.1):
                    began = time.monotonic()
                    answer = requests.get(f"{load.url}/healthcheck", timeout=60)
                    checks.append(time.monotonic() - began)
                    if answer.status_code != 200:
                        load.wrong.append(f"health: {answer.text[:300]}")

            checking, began = Thread(target=check), time.monotonic()
            checking.start()
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda client: [client.decide() for _ in range(100)], clients))
            seconds = time.monotonic() - began
            done.set()
            checking.join()
            return {"decisions a second": round(400 / seconds), "slowest check in ms": round(1000 * max(checks))}

        measure()
        alone = measure()
        with crowd(port):
            return {"alone": alone, "with a crowd": measure(), "wrong": load.wrong}


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        if arguments[:1] == ["crowd"]:
            print(json.dumps(measure_crowd(Path(name)), indent=1))
            return 0
        total, kind = arguments + ["100000", "sqlite"][len(arguments) :]
        figures = run_load(Path(name), int(total), kind)
    print(json.dumps(figures, indent=1))
    return 1 if figures["wrong"] or figures["failures in the log"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
