"""Measure the cost of the API filter, and of all doors.

python -m bench.doors [ROUNDS]

The Heats are those of the tests of the doors: API and engine in one process each, which take turns. Without the
`openstack-heat` package there is the first table alone.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from importlib.util import find_spec
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from bench.rules import RULES, few_policies
from datalog_gate.decision_point.point import create_point
from datalog_gate.doors.wsgi import wrap

if TYPE_CHECKING:
    from tests.heat.doors.rig import Heat

REQUESTS, IN_FLIGHT = 300, 20
CREATED = """## A creation in Heat

Two Heats, one of them with filter, engine's door and all packs, create stacks in turns, without a cloud. API and engine
of each are one process, which waits a second for each string in turn: what the gate adds shows in the CPU time.
"""
HEADER = "| {} | median | min | max | limit |\n|---|---|---|---|---|"


def body(count: int = 50) -> dict[str, Any]:
    """A creation that our policies allow, and that fails as soon as Heat has accepted it.

    All resources wait for one that fails: the engine's further work is part of neither measurement."""
    resources: dict[str, Any] = {"first": {"type": "DatalogGate::Denial", "properties": {"reason": "enough"}}}
    for at in range(1, count):
        properties = {"length": 8 + at % 100, "character_classes": [{"class": "digits", "min": 1 + at % 8}]}
        resources[f"string_{at}"] = {"type": "OS::Heat::RandomString", "properties": properties, "depends_on": "first"}
    return {"stack_name": "s", "template": {"heat_template_version": "2018-08-31", "resources": resources}}


def servers(count: int = 50) -> dict[str, Any]:
    """A creation of servers and volumes, which more policies read."""
    resources: dict[str, Any] = {}
    for at in range(count // 2):
        properties = {"flavor": "m1.small", "image": "debian", "networks": [{"network": "n"}], "security_groups": ["g"]}
        resources[f"server_{at}"] = {"type": "OS::Nova::Server", "properties": properties}
        resources[f"volume_{at}"] = {"type": "OS::Cinder::Volume", "properties": {"size": 10 + at}}
    return {"stack_name": "s", "template": {"heat_template_version": "2018-08-31", "resources": resources}}


def spent(rounds: int, rules: Path, folder: Path) -> Iterator[list[float]]:
    """The CPU time of the filter in milliseconds, with its log, for 50 servers and volumes and for 50 strings."""

    def application(_environ: Any, start: Any) -> list[bytes]:
        start("201 Created", [("Content-Type", "application/json")])
        return [b"{}"]

    conf = cfg.ConfigOpts()
    conf([], project="heat", default_config_files=[])
    settings = {"rules": str(rules), "decision_log": str(folder / "log"), "allow_unverified_context": "true"}
    point = create_point(conf, settings)
    gated = wrap(application, point=point, settings=point.settings)

    class Context:
        project_id = "p1"
        auth_token_info = None

        def to_policy_values(self) -> dict[str, Any]:
            return {"user_id": "u1", "project_id": "p1", "roles": ["member"]}

    def send(to: Any, data: bytes) -> None:
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/p1/stacks", "CONTENT_LENGTH": str(len(data)),
                   "CONTENT_TYPE": "application/json", "wsgi.input": BytesIO(data),
                   "webob.adhoc_attrs": {"context": Context()}}  # fmt: skip
        answers: list[str] = []
        to(environ, lambda status, _headers: answers.append(status))
        assert answers == ["201 Created"], answers

    for request in (servers(), body()):
        data = json.dumps(request).encode()
        times = []
        for turn in range(rounds + 1):
            began = time.process_time()
            for _ in range(REQUESTS):
                send(gated, data)
            point.flush()
            middle = time.process_time()
            for _ in range(REQUESTS):
                send(application, data)
            if turn:
                times.append((2 * middle - began - time.process_time()) / REQUESTS * 1000)
        yield times


def beside(rounds: int, folder: Path) -> Iterator[str]:
    """The throughput of parallel creations and the memory of a Heat, with the filter and without it."""
    from tests.heat.doors.rig import running

    with ExitStack() as both:
        heats: dict[str, Heat] = {}
        for name, filtered in (("without", False), ("behind", True)):
            (folder / name).mkdir()
            heats[name] = both.enter_context(running(folder / name, True, filtered, rules=RULES))
        rates: dict[str, list[float]] = {name: [] for name in heats}
        for turn in range(rounds + 1):
            for name, heat in heats.items():
                rate = _rate(heat)
                if turn:
                    rates[name].append(rate)
        yield HEADER.format(f"creations taken a second, {IN_FLIGHT} in flight")
        yield _row("without the filter", rates["without"], "")
        yield _row("behind it, all packs", rates["behind"], "0.9 x")
        ratios = [mine / its for mine, its in zip(rates["behind"], rates["without"], strict=True)]
        yield _row("ratio", ratios, "0.9")
        grown = heats["behind"].memory() - heats["without"].memory()
        yield f"\nheat-api grows by {grown:.0f} MB (limit 40).\n"


def created(rounds: int) -> Iterator[str]:
    """Create stacks in two Heats in turns, one with the filter and the engine's door, one without the gate."""
    yield CREATED
    rounds = min(rounds, 5)  # one takes 40 s
    if not find_spec("heat"):
        yield "openstack-heat is missing\n"
        return
    from tests.heat.doors.rig import RESOURCES, running

    strings = {f"string_{at}": {"type": "OS::Heat::RandomString"} for at in range(20)}
    template = {"heat_template_version": "2018-08-31", "resources": strings}
    folders = f"{RESOURCES},{RESOURCES.parent / 'engine'}"
    with ExitStack() as both:
        folder = Path(both.enter_context(tempfile.TemporaryDirectory()))
        for name in ("plain", "gated"):
            (folder / name).mkdir()
        log = {"decision_log": str(folder / "decisions.jsonl")}
        gated = running(folder / "gated", True, True, rules=RULES, options=log, resources=folders)
        heats = {
            "without the gate": both.enter_context(running(folder / "plain", True, resources="")),
            "with filter and engine's door": both.enter_context(gated),
        }
        for heat in heats.values():
            heat.created({**template, "resources": {"first": strings["string_0"]}})
        turns = [[_creation(heat, template) for heat in heats.values()] for _ in range(rounds)]
    yield "| 20 strings, from the request to CREATE_COMPLETE | elapsed ms | CPU ms |\n|---|---|---|"
    for name, times in zip(heats, zip(*turns, strict=True), strict=True):
        elapsed, cpu = map(statistics.median, zip(*times, strict=True))
        yield f"| {name} | {elapsed:.0f} | {cpu:.0f} |"
    ratios = [[ours[at] / its[at] for its, ours in turns] for at in (0, 1)]
    elapsed, cpu = map(statistics.median, ratios)
    yield f"| with / without, median of {rounds} pairs | {elapsed:.2f} | {cpu:.2f} |\n"


def _creation(heat: Heat, template: dict[str, Any]) -> tuple[float, float]:
    """The time until Heat has built a stack of the template, and the CPU time of its process, in milliseconds."""

    def worked() -> float:
        fields = Path(f"/proc/{heat.process}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    query = "SELECT status FROM stack WHERE name = ?"  # requests would be work of Heat's
    with closing(sqlite3.connect(f"file:{heat.folder}/heat.db?mode=ro", uri=True)) as database:
        cpu, began = worked(), time.perf_counter()
        name, answer = heat.create(template)
        while (row := database.execute(query, (name,)).fetchone()) == ("IN_PROGRESS",):
            time.sleep(0.01)
        elapsed, cpu = time.perf_counter() - began, worked() - cpu
    assert row == ("COMPLETE",), answer.text
    return elapsed * 1000, cpu * 1000


def _rate(heat: Heat) -> float:
    """Creations per second until Heat has accepted the last. Errors: SystemExit if it refuses one."""
    names = [heat.name() for _ in range(IN_FLIGHT)]
    request = body()
    began = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        answers = list(pool.map(lambda name: heat.ask("POST", "stacks", **{**request, "stack_name": name}), names))
    seconds = time.perf_counter() - began
    if wrong := [answer.text for answer in answers if answer.status_code != 201]:
        raise SystemExit(f"{len(wrong)} of {len(names)} were not taken: {wrong[0]}")
    for name in names:  # what the engine still builds would slow the other's turn
        assert heat.ended(name)[0] == "CREATE_FAILED"
    return IN_FLIGHT / seconds


def _row(name: str, values: list[float], limit: str) -> str:
    return f"| {name} | {statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f} | {limit} |"


def main(rounds: int) -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        print(HEADER.format("CPU of a request, ms"))
        few = few_policies(Path(folder, "few"))
        for which_rules, rules, limit in (("the first policies", few, "3 ms"), ("all packs", RULES, "")):
            jobs = ("50 servers and volumes", "50 strings")
            for job, times in zip(jobs, spent(rounds, rules, Path(folder)), strict=True):
                print(_row(f"{job}, {which_rules}", times, limit), flush=True)
        print()
        if find_spec("heat"):
            for line in chain(beside(rounds, Path(folder)), created(rounds)):
                print(line, flush=True)
        else:
            print("openstack-heat is missing: a Heat behind the filter is not measured")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
