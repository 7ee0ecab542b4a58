"""Compare scans of many stacks with single checks.

python -m bench.scan [--stacks N ...] [--findings N] [--write]

With --write the tables become their section in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

import duckdb
import yaml

import datalog_gate as dg
from bench import job, peers, templates
from bench.page import PAGE, with_section
from bench.run import ROOT
from datalog_gate.engine.sql.database import open_database
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.batch import BatchResult, Finding, StackResult
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_facts import FactRows

TITLE = "Every stack of a cloud"
HEAD = f"""## {TITLE}

Generated stacks, each a file of YAML with up to eight servers, whose user data hold an address that nobody knows before
it is created; so do metadata and flavor in one stack of ten. All packs judge them, in the two processes of
`--processes 2`; with a single policy a run mostly reads, flattens and stores. Each row is a whole command that ran
once, in the order of the table. Memory is that of all its processes together, what they share counted once. Goals are
for two cores without other work, seconds for 100,000 stacks. No row may take more than 1.3 GB. Below the table, each
missed goal has the modules that took most of the time of one process, which a profiler slows down.

`rejudge` asks the stored facts, and judges by itself what they leave open: of a rule over flavors, and of all packs,
that one stack in ten. Of those that are alike in all that the rules read it judges one. Where all packs are in doubt of
each stack, and no two are alike, it takes as long as to read them. `check` and OPA judge a sample, whose time is
multiplied. OPA gets JSON that was made before, and keeps nothing. The last row is our time by that of OPA.
"""
STORE = "datalog-gate.duckdb"
ALONE, IN_TURN = 20, 200
"""The stacks that are checked by a command each, and those that a peer judges."""
VARIANTS = 120
"""The texts that stacks are made of; their names differ in the number of the stack."""
SIZE = 100_000
"""The number of stacks for which goals in seconds are."""
MOST_MEMORY = 1331
"""In MB."""
SHOWN = 5
"""The number of modules that a profile names."""
NEW_RULE = """
@warn("bench.large", "{server} is large")
large(server) :- os:nova:server(_id=server, flavor="m1.large").
"""
KNOWN_RULE = """
@warn("bench.elsewhere", "{volume} is in another zone")
elsewhere(volume) :- os:cinder:volume(_id=volume, availability_zone="elsewhere").
"""
CLOUD_RULES = """
@warn("bench.shared", "{server} has the name {name} of {other}")
shared(server, name, other) :- all:os:nova:server(_id=server, name=name), all:os:nova:server(_id=other, name=name),
    server != other, name != null.

@warn("bench.crowded", "{n} servers are in {zone}")
crowded(zone, n) :- all:os:nova:server(availability_zone=zone),
    n = count{ server : all:os:nova:server(_id=server, availability_zone=zone) }, n > 100.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of a command."""

    seconds: float
    cpu: float
    peak: float | None
    """The most memory of its processes together, in MB; None where /proc does not tell."""
    output: str


def main(arguments: list[str]) -> None:
    """Print a table for each number of stacks, and write the section if that is wanted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", help="taken as by other benches; all runs once here")
    parser.add_argument("--stacks", nargs="+", type=int, default=[2000])
    parser.add_argument("--findings", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    lines = [HEAD]
    print(HEAD)
    for stacks in options.stacks:
        for line in measure(stacks):
            print(line, flush=True)
            lines.append(line)
    for line in measure_merge(options.findings):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        PAGE.write_text(with_section(PAGE.read_text(), TITLE, "\n".join(lines)))


def measure(stacks: int) -> Iterator[str]:
    """The table for so many stacks. Errors: SystemExit if a command fails, or two ways to judge differ."""
    policies = len(dg.load_rules(ROOT / "rules").policies)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_stacks(folder / "stacks", range(stacks))
        rules = {"new": NEW_RULE, "known": KNOWN_RULE, "cloud": CLOUD_RULES, "job": job.RULES}
        for file, text in rules.items():
            (folder / f"{file}.dl").write_text(text)
        table = Table(folder, stacks)
        all_rules = ROOT / "rules"
        first = table.measure(f"`scan run`, {policies} policies, from nothing", _run(all_rules), Goal(rate=250))
        facts = _count_facts(folder)
        yield f"| {stacks:,} stacks, {facts / stacks:.0f} facts each | s | CPU s | stacks/s | peak MB | goal |"
        yield "|---|---|---|---|---|---|"
        yield first
        run_one_policy = _run("new.dl", "read.duckdb")
        yield table.measure("`scan run`, a policy, from nothing", run_one_policy, Goal(rate=450))
        yield table.measure("`scan run`, nothing changed", _run(all_rules), Goal(seconds=5))
        write_stacks(folder / "stacks", range(0, stacks, 100), ".again")
        yield table.measure("`scan run`, 1 % changed", _run(all_rules), Goal(seconds=8))
        yield table.measure("`scan rejudge`, a new rule", _rejudge("known.dl"), Goal(seconds=3))
        yield table.measure("`scan rejudge`, a new rule over flavors", _rejudge("new.dl"), Goal(seconds=8))
        yield table.measure("`scan rejudge`, the three rules above", _rejudge("job.dl"), NO_GOAL)
        yield table.measure("`scan rejudge`, two rules over the whole cloud", _rejudge("cloud.dl"), NO_GOAL)
        yield table.measure("`scan rejudge`, all packs", _rejudge(all_rules), Goal(seconds=45))
        alone = min(ALONE, stacks)
        yield _row(f"a `check` for each, from {alone} of them", stacks, _check(folder, stacks, alone))
        yield from _peer_rows(stacks, table.costs["`scan rejudge`, the three rules above"])
        yield from table.explain_missed()
        yield ""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a command is to reach: stacks a second, or seconds for `SIZE` stacks."""

    rate: float | None = None
    seconds: float | None = None

    def describe(self, stacks: int, cost: Cost) -> tuple[str, bool]:
        """The goal in words, and whether it is missed. One in seconds is compared at its size alone."""
        missed = (cost.peak or 0) > MOST_MEMORY
        text = ""
        if self.rate:
            text, missed = f"{self.rate:,.0f} stacks/s", missed or stacks / cost.seconds < self.rate
        elif self.seconds:
            text, missed = f"{self.seconds:,.0f} s", missed or (stacks == SIZE and cost.seconds > self.seconds)
        return f"{text}, missed".removeprefix(", ") if missed else text, missed


NO_GOAL = Goal()


class Table:
    """The costs of commands in a folder with so many stacks."""

    def __init__(self, folder: Path, stacks: int) -> None:
        self.folder, self.stacks = folder, stacks
        self.costs: dict[str, Cost] = {}
        self.missed: dict[str, tuple[object, ...]] = {}
        """The commands that missed their goals, by title."""

    def measure(self, title: str, command: tuple[object, ...], goal: Goal) -> str:
        """The row of a command, which is run."""
        cost = self.costs[title] = _cost(self.folder, *command, "--processes", 2)
        text, is_missed = goal.describe(self.stacks, cost)
        if is_missed:
            self.missed[title] = command
        return _row(title, self.stacks, cost, text)

    def explain_missed(self) -> Iterator[str]:
        """For each missed goal, a line with the shares of modules in its time. A run is profiled from nothing, with a
        fiftieth of the stacks; what repeats the last run has nothing to do."""
        if self.missed:
            yield ""
        part = self.folder / "part"
        for title, command in self.missed.items():
            place, name = self.folder, "profile"
            if "from nothing" in title:
                write_stacks(part / "stacks", range(max(100, self.stacks // 50)))
                command = (*command[: command.index("--store")], "--store", "profiled.duckdb")
                place, name = part, "../profile"
                command = tuple("../new.dl" if argument == "new.dl" else argument for argument in command)
                (part / "profiled.duckdb").unlink(missing_ok=True)
            _cost(place, *command, "--processes", 1, profile=name)
            yield f"- {title}: {_shares(self.folder / 'profile')}"


def _shares(profile: Path) -> str:
    """The modules in which most of a profile's time was spent, with their shares."""
    times: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(str(profile)).stats.items():  # type: ignore[attr-defined]
        module = file.partition("/datalog_gate/")[2] or (function if file == "~" else Path(file).name)
        times[module] += own
    return ", ".join(f"{module} {time_ / times.total():.0%}" for module, time_ in times.most_common(SHOWN))


def measure_merge(findings: int) -> Iterator[str]:
    """The table for a store that gets so many findings, and then the same again, ten of each stack."""
    results = [_stack_result(number) for number in range(findings // 10)]
    batch = BatchResult(results, FactRows())
    yield f"| {findings:,} findings, ten of each stack, in one batch | s | CPU s | goal |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder, open_database(f"{folder}/{STORE}") as database:
        store = ScanStore(database)
        for title, now, goal in (("stored", "2027-03-01", ""), ("merged with as many", "2027-03-02", "5 s")):
            began, worked = time.perf_counter(), time.process_time()
            store.write(batch, "bench", "rules", now)
            seconds, cpu = time.perf_counter() - began, time.process_time() - worked
            yield f"| {title} | {seconds:,.1f} | {cpu:,.1f} | {goal} |"
        if (open_ := sum(store.counts().values())) != findings:
            raise SystemExit(f"{open_} findings are open, not {findings}")
    yield ""


def _stack_result(number: int) -> StackResult:
    root, definition = f"root-{number:07}", StackDefinition({"heat_template_version": "2021-04-16"})
    findings = tuple(
        Finding(
            root=root,
            policy=f"bench.policy_{policy}",
            key=f'["{root}/server_{policy}"]',
            row=f'["{root}/server_{policy}", "m1.large"]',
            level="deny",
            state="holds",
            denies=True,
            message=f"server_{policy} is m1.large",
            hint="take a smaller flavor",
            resource=f"stack-{number}/server_{policy}",
            place='{"file": "template.yaml", "line": 3, "column": 5}',
        )
        for policy in range(10)
    )
    return StackResult(StackEntry(root, f"stack-{number}", None, definition), findings, "decision", "denied")


def write_stacks(folder: Path, numbers: Iterable[int], mark: str = "") -> None:
    """Write the templates of stacks. Those with a `mark` differ in the names of servers from those without."""
    for number in numbers:
        path = _path(folder, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(number % VARIANTS).replace("NUMBER", f"{number}{mark}").replace("PAIR", f"{number // 2}"))


def template(variant: int) -> dict[str, Any]:
    """The template of a variant: up to eight servers with volumes, of which some break a rule of `bench.job`.

    One in ten takes a flavor from a parameter without a value, and one in ten has a server whose name another stack has
    too; all have user data, and that one in ten metadata, that are known after creation only.
    """
    data = templates.attached(1 + variant % 8)
    resources, address = data["resources"], {"get_attr": ["address", "floating_ip_address"]}
    for name, resource in resources.items():
        properties = resource["properties"]
        if "flavor" in properties:
            properties["name"] = f"NUMBER-{name}"
            script = {"template": "echo ADDRESS > /etc/address", "params": {"ADDRESS": address}}
            properties["user_data"] = {"str_replace": script}
    if variant % 5 == 0:
        del resources["server_0"]["properties"]["security_groups"]
    if variant % 7 == 0:
        resources["volume_0"]["properties"]["availability_zone"] = "elsewhere"
    if variant % 20 > 17:
        data["parameters"] = {"flavor": {"type": "string"}}
        resources["server_0"]["properties"]["flavor"] = {"get_param": "flavor"}
        resources["server_0"]["properties"]["metadata"]["address"] = address
    if variant % 20 < 2:
        resources["server_0"]["properties"]["name"] = "shared-PAIR"
    source = "0.0.0.0/0" if variant % 3 == 0 else "10.0.0.0/8"
    rule = {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": source}
    resources["group"] = {"type": "OS::Neutron::SecurityGroup", "properties": {"rules": [rule]}}
    resources["address"] = {"type": "OS::Neutron::FloatingIP", "properties": {"floating_network": "public"}}
    return data


@cache
def _text(variant: int) -> str:
    return yaml.safe_dump(template(variant), sort_keys=False)


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number // 1000:04}" / f"{number:07}.yaml"


def _run(rules: Path | str, name: str = STORE) -> tuple[object, ...]:
    return "scan", "run", "--folder", "stacks", "--rules", rules, "--store", name


def _rejudge(rules: Path | str) -> tuple[object, ...]:
    return "scan", "rejudge", "--rules", rules


def _check(folder: Path, stacks: int, alone: int) -> Cost:
    """The estimated cost of one command for each stack, from a sample with the scan's decisions."""
    costs = []
    with duckdb.connect(str(folder / STORE)) as store:
        decisions = dict(store.execute("SELECT root, decision FROM definition").fetchall())
    for number in range(0, stacks, stacks // alone):
        path = _path(folder / "stacks", number)
        cost = _cost(folder, "check", "--rules", ROOT / "rules", "--format", "json", path)
        root = path.relative_to(folder / "stacks").as_posix()
        if json.loads(cost.output)["id"] != decisions[root]:
            raise SystemExit(f"check and scan decide otherwise on {root}")
        costs.append(cost)
    times = stacks / len(costs)
    peak = max((cost.peak for cost in costs if cost.peak is not None), default=None)
    return Cost(sum(cost.seconds for cost in costs) * times, sum(cost.cpu for cost in costs) * times, peak, "")


def _peer_rows(stacks: int, ours: Cost) -> Iterator[str]:
    """The time of OPA for the three rules, and the ratio of ours to it. Errors: SystemExit if its violations differ
    from ours."""
    count = min(IN_TURN, stacks)
    title = f"OPA, the three rules above, JSON in one process, from {count} of them"
    opa = peers.installed()["OPA"]
    if opa is None:
        yield f"| {title} | missing | | | | |"
        return
    texts = [json.dumps({"stack_name": "big", "template": template(number % VARIANTS)}) for number in range(count)]
    rules = job.rules()
    if any(opa(text) != job.ours(rules, text) for text in texts):
        raise SystemExit("OPA finds other violations")
    began, worked = time.perf_counter(), time.process_time()
    for text in texts:
        opa(text)
    times = stacks / count
    seconds, cpu = (time.perf_counter() - began) * times, (time.process_time() - worked) * times
    yield _row(title, stacks, Cost(seconds, cpu, None, ""))
    ratios = f"{ours.seconds / seconds:.2f} | {ours.cpu / cpu:.2f}"
    yield f"| `scan rejudge`, the three rules above, by OPA's | {ratios} | | | |"


def _row(title: str, stacks: int, cost: Cost, goal: str = "") -> str:
    peak = "" if cost.peak is None else f"{cost.peak:,.0f}"
    return f"| {title} | {cost.seconds:,.1f} | {cost.cpu:,.1f} | {stacks / cost.seconds:,.0f} | {peak} | {goal} |"


def _count_facts(folder: Path) -> int:
    with duckdb.connect(str(folder / STORE)) as store:
        tables = [name for (name,) in store.execute("SELECT table_name FROM relation").fetchall()]
        return sum(store.table(f'"{name}"').count("*").fetchall()[0][0] for name in tables)


def _cost(folder: Path, *arguments: object, profile: str | None = None) -> Cost:
    """Run a command of the gate in a folder, and write its profile if a file is named. Errors: SystemExit if it
    fails."""
    profiler = [] if profile is None else ["-m", "cProfile", "-o", profile]
    command = [sys.executable, *profiler, "-m", "datalog_gate.doors.cli.main", *map(str, arguments)]
    began, ended = time.perf_counter(), Event()
    peaks: list[float] = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=output) as process,
    ):
        sampler = Thread(target=_sample, args=(process.pid, ended, peaks))
        sampler.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
        finally:
            ended.set()
            sampler.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} exits {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, max(peaks, default=None), text)


def _sample(root: int, ended: Event, peaks: list[float]) -> None:
    """Note the memory of a process and those below it, ten times a second."""
    while not ended.wait(0.1):
        if memory := _memory(root):
            peaks.append(memory)


def _memory(root: int) -> float:
    """The memory of a process and those below it in MB, shared pages in parts; 0 where /proc does not tell."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        waiting += [child for child, parent in parents.items() if parent == process]
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
