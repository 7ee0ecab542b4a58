"""Many clients at once at all doors, while rules are reloaded.

Each verdict is known before the request is sent. `DATALOG_GATE_CLIENTS` is the number of clients, and
`DATALOG_GATE_REQUESTS` how many requests each of them sends.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest
import requests

from tests.heat.doors.rig import ENGINE_DOOR, HERE, Heat, running, wait
from tests.heat.doors.templates import OF_PARAMETER, template

CLIENTS = int(os.environ.get("DATALOG_GATE_CLIENTS", "6"))
REQUESTS = int(os.environ.get("DATALOG_GATE_REQUESTS", "10"))
GOOD = (HERE / "rules" / "doors.dl").read_text()
VERSIONS = GOOD.replace("> 32", "> 40"), "@deny(\n", GOOD
SIZES = (*range(8, 17), *[64] * 6)
"""The lengths that requests ask for; 64 is denied by each version of the rules."""
NESTED = template(s={"type": "inner.yaml", "properties": {"length": {"get_param": "length"}}})
NESTED["parameters"] = OF_PARAMETER["parameters"]
FILES = {"inner.yaml": json.dumps(OF_PARAMETER)}
UNREADABLE = "The stack can't be read: <template>:2:1: this is not YAML: while parsing a flow node, did not find"


@dataclass
class Client:
    """A client that has at most one stack at a time."""

    heat: Heat
    random: Random
    name: str = ""
    exists: bool = False
    nested: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def run(self) -> list[object]:
        """Send the requests. Return what came of each, and what should, where they differ."""
        differences: list[object] = []
        for _ in range(REQUESTS):
            self.name = self.name if self.exists else self.heat.name()
            kinds = [kind for kind in KINDS if kind in ANY or (kind in CREATES) is not self.exists]
            kind = self.random.choices(kinds, [1 if kind in ANY else 3 for kind in kinds])[0]
            size, nested = self.random.choice(SIZES), self.random.random() < 0.3 and kind in ("create", "put")
            outcome, expected = self.send(kind, size, self.nested if kind == "patch" else nested)
            if outcome != expected:
                differences.append((kind, self.name, size, nested, outcome, expected))
        return differences

    def send(self, kind: str, size: int, nested: bool) -> tuple[object, object]:
        """Send a request. Return what came of it, and what should: status, outcome and reason, and what is built."""
        code, call = KINDS[kind]
        answer = call(self, size, nested)
        verdict = answer.headers.get("Datalog-Gate", "").partition(" ")[0]
        if answer.status_code >= 500 and not verdict and "[decision" not in answer.text:
            self.counts["failed in Heat"] += 1
            return "", ""
        reason = re.search(r'("explanation": "|<Message>)(.*?)( at \S+ \(.*| expected.*)?\[decision ', answer.text)
        outcome = answer.status_code, verdict, reason[2] if reason else ""
        expected = code, "allow" if kind in JUDGED else "", ""
        if kind == "cut short":
            expected = 400, "unreadable", UNREADABLE
        elif size == 64 and kind in JUDGED - {"delete"}:
            string = f"{self.name}/s/s" if nested else "s"
            expected = 403, "deny", f"The policies deny this stack: length: {string} has 64 characters"
        self.counts.update([kind, expected[1]])
        if outcome != expected or expected[1] != "allow" or kind in ("preview", "validate"):
            return outcome, expected
        self.exists, self.nested = kind != "delete", nested
        if kind == "delete":
            return self.heat.ended(self.name, deleted=True), ("", "")
        self.counts["built"] += 1
        action = "CREATE" if kind in CREATES else "UPDATE"
        complete = f"{action}_COMPLETE", f"Stack {action} completed successfully", [size]
        return (*self.heat.ended(self.name), self.heat.lengths(self.name)), complete

    def body(self, size: int, nested: bool = False) -> dict[str, Any]:
        """The fields of a creation or update."""
        return {"template": NESTED if nested else OF_PARAMETER, "parameters": {"length": size}, "files": FILES}

    def cfn(self, action: str, size: int) -> requests.Response:
        """Send a request of the CFN API."""
        fields = {"Action": action, "StackName": self.name, "TemplateBody": json.dumps(OF_PARAMETER)}
        member = "Parameters.member.1.Parameter"
        return self.heat.cfn({}, **fields, **{f"{member}Key": "length", f"{member}Value": str(size)})


KINDS: dict[str, tuple[int, Callable[[Client, int, bool], requests.Response]]] = {
    "create": (201, lambda at, size, nested: at.heat.create(name=at.name, **at.body(size, nested))[1]),
    "CreateStack": (200, lambda at, size, _: at.cfn("CreateStack", size)),
    "put": (202, lambda at, size, nested: at.heat.on(at.name, "PUT", **at.body(size, nested))),
    "patch": (202, lambda at, size, _: at.heat.on(at.name, "PATCH", parameters={"length": size})),
    "UpdateStack": (200, lambda at, size, _: at.cfn("UpdateStack", size)),
    "preview": (200, lambda at, size, _: at.heat.ask("POST", "stacks/preview", stack_name="p", **at.body(size))),
    "validate": (200, lambda at, size, _: at.heat.ask("POST", "validate", **at.body(size))),
    "delete": (204, lambda at, *_: at.heat.on(at.name, "DELETE")),
    "cut short": (400, lambda at, *_: at.heat.create('{"resources": {"s": ', at.name)[1]),
    "show": (200, lambda at, *_: at.heat.on(at.name, "GET")),
    "ListStacks": (200, lambda at, *_: at.heat.cfn({"Action": "ListStacks"})),
}
CREATES, ANY = {"create", "CreateStack"}, {"preview", "validate", "cut short", "ListStacks"}
JUDGED = CREATES | {"put", "patch", "UpdateStack", "preview", "validate", "delete"}


def test_clients_at_once_get_the_verdicts_of_each_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    over = Event()

    def rewrite() -> None:
        for text in cycle(VERSIONS):
            if over.wait(0.1):
                return
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").replace(tmp_path / "rules" / "doors.dl")

    options = {"reload_seconds": "0", "decision_log": f"{tmp_path}/decisions.jsonl"}
    with running(tmp_path, True, True, options=options, resources=ENGINE_DOOR) as heat:
        clients = [Client(heat, Random(number)) for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS + 1) as threads:
            threads.submit(rewrite)
            try:
                wrong = [difference for run in threads.map(Client.run, clients) for difference in run]
            finally:
                over.set()
        counts = sum((client.counts for client in clients), Counter[str]())
        wanted = {"allowed": counts["allow"], "denied": counts["deny"], "unreadable": counts["unreadable"]}
        wait(lambda: len(heat.lines("decisions.jsonl", kind="decision")) >= sum(wanted.values()) + counts["built"])
        log, heat_log = heat.lines("decisions.jsonl"), (tmp_path / "heat.log").read_text()
    kinds = Counter(line["kind"] for line in log)
    engine = Counter(line["verdict"] for line in log if line.get("door") == "engine")
    filters = Counter(line["verdict"] for line in log if line.get("door") in ("api", "cfn"))
    with capsys.disabled():
        print(f"\n{dict(counts)}\n{dict(kinds)}\n{dict(engine)} by the engine's door")
    assert (wrong, re.findall('File ".*datalog_gate.*', heat_log)) == ([], [])
    assert (kinds["dropped"], kinds["loaded"] > 1, kinds["reload_failed"] > 0) == (0, True, True)
    assert (filters, list(engine), engine.total() >= counts["built"]) == (wanted, ["allowed"], True)
    assert counts["failed in Heat"] <= CLIENTS * REQUESTS / 20
    with closing(sqlite3.connect(tmp_path / "heat.db")) as database:
        query = "SELECT data FROM event JOIN resource_properties_data AS data ON rsrc_prop_data_id = data.id"
        properties = [json.loads(data) for (data,) in database.execute(query)]
    assert {row["length"] for row in properties if "salt" in row} <= set(SIZES) - {64}
