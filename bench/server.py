"""The policy server under a mixed load, and times of Congress's API.

``python -m bench.server [REQUESTS [sqlite|postgresql|mariadb]]`` sends a mix of requests while rules change, workers
are replaced, the database is killed and started again, and a worker is killed. It prints what was answered as JSON, and
exits with 1 if an answer was wrong. ``python -m bench.server times`` prints times of Congress's API, and ``python -m
bench.server crowd`` those of one worker with and without a crowd of clients that never end their requests.
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
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

import requests

from datalog_gate.store.transaction import Store
from tests.server.rig import serving
from tests.servers import free_ports
from tests.test_server import RULES, template

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
LIMITS = 64, 32
"""The two limits of the policy, which change places."""
ENTRY = {"policy": "length", "project": "none", "reason": "load", "expires": "2127-01-01"}
QUERY = {"query": "p(x)", "rules": "p(x) :- q(x), x > 1.", "facts": {"q": [[1], [2], [3]]}}
EVENTS: tuple[tuple[float, str], ...] = (
    (0.05, "rules"), (0.1, "replace"), (0.2, "rules"), (0.25, "database"), (0.35, "rules"), (0.4, "kill"),
    (0.5, "measure"), (0.6, "rules"), (0.8, "rules"), (1.0, "measure"),
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
        self.load, self.number, self.random = load, number, random.Random(number)
        self.session = requests.Session()
        self.session.headers["X-Auth-Token"] = load.token
        self.decisions: list[str] = []
        self.own: dict[str, list[str]] = {"rule": [], "waiver": []}
        operations: dict[Callable[[], None], int] = {
            self.decide: 35, self.show: 15, self.policies: 15, self.query: 10, self.rows: 10, self.rule: 4,
            self.waiver: 4, self.health: 3, self.malformed: 4,
        }  # fmt: skip
        self.operations, self.weights = list(operations), list(operations.values())

    def run(self) -> None:
        while (at := next(self.load.sent)) < self.load.total:
            self.load.reached = at
            [operation] = self.random.choices(self.operations, self.weights)
            operation()

    def ask(self, name: str, method: str, path: str, allowed: tuple[int, ...], **request: Any) -> tuple[int, Any]:
        """Ask until there is an answer, which has to have one of the statuses, or to say that the store is away."""
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
        away = answer.status_code == 503 and "the store" in answer.text
        with self.load.lock:
            self.load.answers[f"{name} {answer.status_code}"] += 1
            self.load.seconds.append(seconds)
        if away:
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

    def rows(self) -> None:
        status, answer = self.ask("rows", "GET", "/v1/policies/load/tables/big/rows", (200,))
        if status == 200 and answer != {"results": [{"data": [f"s{at}"]} for at in range(5, 10)]}:
            self.fail("rows", str(answer))

    def rule(self) -> None:
        path = "/v1/policies/load/rules"
        if self.own["rule"]:
            self.ask("rule delete", "DELETE", f"{path}/{self.own['rule'].pop()}", (200,))
            return
        rule = {"rule": f"own_{self.number}({self.random.randrange(10**9)})"}
        status, answer = self.ask("rule create", "POST", path, (201,), json=rule)
        if status == 201:
            self.own["rule"].append(answer["id"])

    def waiver(self) -> None:
        if self.own["waiver"]:
            self.ask("waiver delete", "DELETE", f"/v2/waivers/{self.own['waiver'].pop()}", (200,))
            return
        status, answer = self.ask("waiver create", "POST", "/v2/waivers", (201,), json=ENTRY)
        if status == 201:
            self.own["waiver"].append(answer["id"])

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
            prepare(load)
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
        case "kill":
            os.kill(int(workers[0]), signal.SIGKILL)
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


def prepare(load: Load) -> None:
    """A policy of Congress's API with five rows."""
    headers = {"X-Auth-Token": load.token}
    rows = [{"id": f"s{at}", "status": str(at)} for at in range(10)]
    for method, path, body in (
        ("POST", "/v1/policies", {"name": "load"}),
        ("PUT", "/v1/data-sources/nova/tables/servers/rows", rows),
        ("POST", "/v1/policies/load/rules", {"rule": "big(x) :- nova:servers(id=x, status=s), gteq(s, '5')"}),
    ):
        requests.request(method, f"{load.url}{path}", json=body, headers=headers, timeout=60).raise_for_status()
    time.sleep(1.5)  # the other worker looks once a second


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


def measure_times(folder: Path) -> dict[str, Any]:
    """Times of Congress's API: 300 rules one by one, rows of 10,000 servers and ports, lists a second."""
    (folder / "rules").mkdir()
    write_rules(folder, LIMITS[0])
    (folder / "server.conf").write_text(CONF.format(folder=folder, store=f"sqlite:///{folder}/store"))
    [port] = free_ports(1)
    with serving(folder, port, "--config", str(folder / "server.conf")) as process:
        token = (folder / "stdout").read_text().removeprefix("token: ").strip()
        url, session = f"http://127.0.0.1:{port}/v1", requests.Session()
        session.headers["X-Auth-Token"] = token

        def ask(method: str, path: str, body: Any = None) -> tuple[float, float]:
            """The seconds of a request, and those of a processor for it in the workers."""
            began, before = time.perf_counter(), processor_seconds(process.pid)
            session.request(method, f"{url}{path}", json=body, timeout=120).raise_for_status()
            return time.perf_counter() - began, processor_seconds(process.pid) - before

        ask("POST", "/policies", {"name": "load"})
        posts = [
            ask("POST", "/policies/load/rules", {"rule": f"r{at}(x) :- nova:servers(id=x, status='{at}')"})
            for at in range(300)
        ]
        ask("PUT", "/data-sources/nova/tables/servers/rows", [{"id": f"s{at}"} for at in range(10_000)])
        ports = [{"id": f"p{at}", "device_id": f"s{at}"} for at in range(10_000)]
        ask("PUT", "/data-sources/neutronv2/tables/ports/rows", ports)
        rule = "linked(x, p) :- nova:servers(id=x), neutronv2:ports(id=p, device_id=x)"
        ask("POST", "/policies/load/rules", {"rule": rule})
        lists = [ask("GET", "/policies/load/tables/linked/rows") for _ in range(13)]

        def many(_: int) -> int:
            """The answers of one connection, whose client costs a tenth of one of requests."""
            connection, asked = HTTPConnection("127.0.0.1", port, timeout=60), 0
            for _ in range(1000):
                connection.request("GET", "/v1/policies", headers={"X-Auth-Token": token})
                response = connection.getresponse()
                asked += response.status == 200 and bool(response.read())
            return asked

        began, before = time.perf_counter(), processor_seconds(process.pid)
        with ThreadPoolExecutor(4) as pool:
            number = sum(pool.map(many, range(4)))
        seconds = time.perf_counter() - began
        busy = processor_seconds(process.pid) - before
    return {
        "first and last of 300 rules in ms, and of a processor": [
            [round(1000 * sum(times) / len(part)) for times in zip(*part, strict=True)]
            for part in (posts[2:42], posts[-40:])
        ],
        "rows of 10,000 servers and ports, cold and warm in ms, and of a processor": [
            [round(1000 * sum(times) / len(part)) for times in zip(*part, strict=True)]
            for part in (lists[:1], lists[3:])
        ],
        "lists a second, and a second of a processor": [round(number / seconds), round(number / busy)],
    }


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
                    requests.get(f"{load.url}/healthcheck", timeout=60).raise_for_status()
                    checks.append(time.monotonic() - began)

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


def processor_seconds(master: int) -> float:
    """The seconds of a processor that the workers have had."""
    workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    fields = [Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split() for worker in workers]
    return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        if measure := {"times": measure_times, "crowd": measure_crowd}.get("".join(arguments[:1])):
            print(json.dumps(measure(Path(name)), indent=1))
            return 0
        total, kind = arguments + ["100000", "sqlite"][len(arguments) :]
        figures = run_load(Path(name), int(total), kind)
    print(json.dumps(figures, indent=1))
    return 1 if figures["wrong"] or figures["failures in the log"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
