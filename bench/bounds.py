"""Measure what stays small: a changed inventory, explanations, stopped programs.

The tables are sections of the page of `evaluation`.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import datalog_gate as dg
from bench import job
from bench.run import ROOT
from bench.timing import OURS, Answer, measure
from datalog_gate.analysis.check import check
from datalog_gate.api import ExplainedDecision, Rules
from datalog_gate.base.gc import paused
from datalog_gate.base.values import Row
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.native import evaluate
from datalog_gate.explain.explanation import format_lines
from datalog_gate.schema.declaration import RelationRef

CLOUD = """
relation host(host: string, zone: string, rack: string).
relation down(host: string).
up(zone) :- host(host, zone, _), not down(host).
@deny("zone", "{s} asks for the zone {zone}, in which no host is up")
bad(s, zone) :- os:nova:server(_id=s, availability_zone=zone), not up(zone).
"""
UNSURE = """## A tenth of the resources with unknowns

Zones that exist only after creation: whether server and volume are in one zone is undetermined for each tenth pair, and
the certain findings are the same.
"""
CHANGED = """## One row of 200,000 changed

An inventory that changed is loaded beside the decisions, and takes the old one's place with what rests on it derived.
"""
HOSTS = 200_000
BUDGET = Budget(seconds=1.0, facts=1_000_000)
STOPPED = f"""Each may take {BUDGET.steps:,.0f} steps and derive {BUDGET.facts:,} facts. Memory is what the process
holds after a decision, where the C library gives free memory back at once, which it otherwise keeps for the next time.
"""
DECLARED = "relation n(a: number). relation e(a: number, b: number). relation t(t: string).\n"
BOMBS = {
    "every three of 2,000": "p(a, b, c) :- n(a), n(b), n(c), a < b, b < c, c < a.",
    "a closure of 10,000,000 pairs": "p(a, b) :- e(a, b). p(a, c) :- p(a, b), e(b, c).",
    "a pattern made to backtrack": 'p(a) :- n(a), t(text), matches(text, "(a+)+b").',
}
FACTS: dict[RelationRef, list[Row]] = {
    "job:n": [(at,) for at in range(2000)],
    "job:e": [(at, at + 1) for at in range(4500)],
    "job:t": [("a" * 100_000,)],
}


def unsure(rounds: int) -> Iterator[str]:
    """Compare decisions over partly unknown facts with those over known facts."""
    yield UNSURE
    rules, texts = job.rules(), (job.unsure(2000), job.body(2000))
    unknown, plain = (lambda: {"": job.ours(rules, texts[0])}), (lambda: {"": job.ours(rules, texts[1])})
    yield from measure("2,000 servers, 2,000 volumes, 2,000 attachments", rounds, {OURS: unknown, "all known": plain})


def changed(rounds: int) -> Iterator[str]:
    """Compare decisions before and after a change of one row of the inventory."""
    yield CHANGED
    rules = Rules(load([RuleFile("job", "job.dl", CLOUD)]))
    rows: dict[str, list[tuple[object, ...]]] = {
        "job:host": [(f"h{at}", f"az{at % 3}", f"r{at % 500}") for at in range(HOSTS)],
        "job:down": [("h7",)],
    }
    first = rules.inventory(rows)
    text = job.body(50)

    def decided(inventory: Inventory) -> Answer:
        body = json.loads(text)
        decision = rules.decide(dg.read_stack(template=body["template"]), inventory=inventory)
        return {"": [violation.row for violation in decision.violations]}

    decided(first)
    rows["job:host"][HOSTS // 2] = ("h-new", "az1", "r1")
    second = rules.inventory(rows, first)
    yield from measure(
        "50 servers", rounds, {OURS: lambda: decided(second), "before the change": lambda: decided(first)}
    )


def explained(rounds: int) -> Iterator[str]:
    """Compare the explanation of all 81 violations of the job with the decision."""
    rules, text = job.rules(), job.body(2000)
    times: list[tuple[float, float]] = []
    longest = 0
    for _ in range(rounds):
        gc.collect()
        with paused():
            began = time.process_time()
            stack = dg.read_stack(template=json.loads(text)["template"])
            decision = rules.decide(stack, explain=True)
            decided = time.process_time()
            assert isinstance(decision, ExplainedDecision)
            texts = ["\n".join(format_lines(decision.explanation.why(violation))) for violation in decision.violations]
            times.append((decided - began, time.process_time() - decided))
        longest = max(len(text.encode()) for text in texts)
        del stack, decision
    deciding, explaining = (statistics.median(column) for column in zip(*times, strict=True))
    yield "## Explanations\n\nOne that nobody asks for costs nothing.\n"
    yield "| 2,000 servers, volumes and attachments, 81 violations | ms | part of the decision |\n|---|---|---|"
    yield f"| from JSON to the decision | {deciding * 1000:.1f} | 1.00 |"
    part = explaining / deciding
    yield f"| why each violation holds, at most {longest} bytes | {explaining * 1000:.1f} | {part:.2f} |"
    yield ""


def stopped(_rounds: int) -> Iterator[str]:
    """Run programs that would not end, in a process of their own."""
    yield "## What would not end\n"
    yield STOPPED
    yield "| program | ended after s of CPU | told |\n|---|---|---|"
    command = (sys.executable, "-m", "bench.bounds")
    returned = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "131072"}
    yield subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=returned).stdout


def main() -> None:
    """Judge a stack, run every bomb, judge the stack again."""
    rules, text = job.rules(), job.body(50)

    def resident() -> float:
        job.ours(rules, text)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    first = most = resident()
    for name, rule in BOMBS.items():
        module, diagnostics = RuleFile("job", "job.dl", DECLARED + rule).parse()
        program = check([module], problems=diagnostics, sources={"job.dl": rule}).program
        began = time.process_time()
        exceeded = evaluate(program, FACTS, BUDGET).exceeded
        print(f"| {name} | {time.process_time() - began:.2f} | {exceeded or 'it ends by itself'} |")
        most = max(most, resident())
    print(f"\nThe first decision leaves {first:.1f} MB, those after each of these at most {most:.1f} MB.")


if __name__ == "__main__":
    main()
