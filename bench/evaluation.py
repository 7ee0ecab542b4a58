"""Compare decisions with other engines and a plain reference.

python -m bench.evaluation [ROUNDS] [--write]

With --write the tables that an operator asks for become docs/benchmarks.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import datalog_gate as dg
from bench import closures, gate, job, peers, reference, scan
from bench.bounds import changed, explained, stopped, unsure
from bench.page import PAGE, find_section, with_section
from bench.run import ROOT, STACKS, run
from bench.timing import OURS, Answer, Jobs, measure
from datalog_gate.analysis.check import check
from datalog_gate.analysis.lifting import Facts, lift, stack_inputs
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.slices import slice_for, slice_over
from datalog_gate.decision.policy_set import RuleFile
from datalog_gate.engine.native import evaluate
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Stack

HEAD = """# What a gate costs

For an operator who wonders what a gate adds to each stack operation. `python -m bench.evaluation --write` wrote this
page; `tox -e bench` measures this and more. All that is in a table ran in turns in one process, on the same input, and
gave the same answer. Times are medians, and mean something only beside each other: `ours / its` is our time by that of
the row, less than 1 where we are faster.
"""
JOB = """## From JSON to a decision

Servers, volumes and attachments, judged by three rules: a server has a security group, there are at most 100, a volume
is in the zone of the server that it is attached to. Our time holds all that the filter does with a request: it reads
the template as Heat would, checks it, and gives each finding its place. The rules of the others read the JSON as it is,
or three tables that Python makes of it.
"""
GATE = """## 25 rules over a stack and an inventory

From facts to findings, with joins, negation, aggregates and recursion. The reference is the same rules as plain Python
(bench/reference.py), with all that rests on the inventory alone done before.
"""
MANY = """## Many stacks at once

The shipped policies over the facts of the stacks in fixtures/stacks, each judged as if alone: lifted, with the stack as
one more column, in a single evaluation that joins the facts too; and in an evaluation for each.
"""
MOST = 110
"""The most stacks to judge at once."""


def main(arguments: list[str]) -> None:
    """Print the tables, and write the page if asked."""
    rounds = next((int(argument) for argument in arguments if argument.isdecimal()), 9)
    lines: list[str] = []
    for section in (
        memory,
        jobs,
        unsure,
        gates,
        many,
        changed,
        closed,
        chained,
        explained,
        stopped,
        creations,
        packages,
    ):
        for line in section(rounds):
            print(line, flush=True)
            if section in ON_THE_PAGE:
                lines.append(line)
    if "--write" in arguments:
        page = "\n".join([HEAD, *lines]).rstrip() + "\n"
        scanned = find_section(PAGE.read_text(), scan.TITLE)
        PAGE.write_text(with_section(page, scan.TITLE, scanned) if scanned else page)


def memory(_rounds: int) -> Iterator[str]:
    """Measure memory. It runs first, since a process inherits the peak memory of its parent."""
    yield JOB
    _, peak, _ = run([sys.executable, "-m", "bench.job", "2000"], (0,))
    yield f"A process of ours that judges 2,000 of each holds at most {peak:.0f} MB.\n"


def jobs(rounds: int) -> Iterator[str]:
    """The job of three rules."""
    rules, others = job.rules(), peers.installed()
    for servers in (50, 2000):
        text = job.body(servers)
        jobs: Jobs = {OURS: _violations(lambda body: job.ours(rules, body), text)}
        jobs |= {name: other and _violations(other, text) for name, other in others.items()}
        yield from measure(f"{servers:,} servers, {servers:,} volumes, {servers:,} attachments", rounds, jobs)


def gates(rounds: int) -> Iterator[str]:
    """The gate of 25 rules."""
    yield GATE
    program = checked(gate.RULES)
    for title, (resources, size) in gate.SIZES.items():
        cloud = gate.inventory(size)
        stack = {name: dict.fromkeys(rows) for name, rows in gate.stack(resources, cloud).items()}
        ours, plain = warm(program, cloud), reference.Inventory(cloud)
        jobs: Jobs = {OURS: partial(ours, stack), "reference": partial(reference.decide, plain, stack)}
        yield from measure(title, rounds, jobs)


def warm(program: CheckedProgram, cloud: gate.Facts) -> Callable[[gate.Given], Answer]:
    """Our decision over a stack. The inventory and all that depends on it alone are evaluated before."""
    cloud_facts = gate.of_module(cloud)
    loaded = evaluate(slice_over(program, frozenset(cloud_facts)), cloud_facts)

    def decide(stack: gate.Given) -> Answer:
        model = evaluate(program, gate.of_module(stack), before=loaded)
        return {name: model.rows(f"job:{name}") for name in gate.FINDINGS}

    return decide


def many(rounds: int) -> Iterator[str]:
    """The shipped rules over stacks that are judged at once."""
    yield MANY
    rules = dg.load_rules(ROOT / "rules")
    folders = [folder for folder in sorted(STACKS.iterdir()) if (folder / "template.yaml").exists()]
    stacks = [
        dg.read_stack(folder, stack_name=f"{folder.name}-{at}")
        for at in range(MOST // len(folders))
        for folder in folders
    ]
    at_once, alone = lifted(rules, stacks)
    title = f"{len(rules.policies)} policies, {len(stacks)} stacks"
    yield from measure(title, rounds, {OURS: at_once, "one by one": alone})


def lifted(rules: dg.Rules, stacks: Sequence[Stack]) -> tuple[Callable[[], Answer], Callable[[], Answer]]:
    """The certain findings of stacks, at once and one by one, with the stack before each row."""
    program = slice_for(rules.program, frozenset(policy.relation for policy in rules.policies))
    many_at_once = lift(program, stack_inputs(program, SHIPPED))
    facts: dict[str, Facts] = {}
    for stack in stacks:
        every = flatten(stack, SHIPPED, {str(name) for name in program.inputs})
        facts[stack.id] = {
            name: [row for row in rows if row not in every.maybe[name]] for name, rows in every.rows.items()
        }

    def at_once() -> Answer:
        model = evaluate(many_at_once.program, many_at_once.facts(facts))
        return {policy.id: model.rows(policy.relation) for policy in rules.policies}

    def alone() -> Answer:
        rows: dict[str, list[tuple[object, ...]]] = {policy.id: [] for policy in rules.policies}
        for root, its_facts in facts.items():
            model = evaluate(program, its_facts)
            for policy in rules.policies:
                rows[policy.id] += [(root, *row) for row in model.rows(policy.relation)]
        return rows

    return at_once, alone


def closed(rounds: int) -> Iterator[str]:
    """The closure of a graph."""
    yield "## Recursion\n"
    edges = closures.graph()
    program = checked(closures.CLOSURE)
    jobs: Jobs = {
        OURS: lambda: {"": evaluate(program, {"job:edge": edges}).rows("job:path")},
        "reference": lambda: {"": reference.closure(edges)},
    }
    yield from measure("all pairs of 2,000 nodes with a way along 6,000 edges", max(1, rounds // 4), jobs)


def chained(rounds: int) -> Iterator[str]:
    """The nodes that a chain reaches."""
    edges = closures.chain()
    program = checked(closures.CHAIN)
    inserted = closures.database(edges)
    jobs: Jobs = {
        OURS: lambda: {"": evaluate(program, {"job:edge": edges}).rows("job:reached")},
        "reference": lambda: {"": reference.reached(edges, 0)},
        "SQLite, edges inserted": lambda: {"": closures.reached(closures.database(edges))},
        "SQLite, edges there before": lambda: {"": closures.reached(inserted)},
    }
    yield from measure("what a chain of 10,000 edges reaches from its start", rounds, jobs)


def creations(rounds: int) -> Iterator[str]:
    """Creations in a running Heat."""
    from bench.doors import created  # what it imports would count as memory above

    yield from created(rounds)


def packages(_rounds: int) -> Iterator[str]:
    """The versions of the peers."""
    yield "## Versions\n"
    for name, available in peers.installed().items():
        package = peers.PEERS[name][0]
        yield f"- {name}: {peers.version_of(name) if available else 'missing'}{f' of {package}' if package else ''}"


def checked(text: str) -> CheckedProgram:
    """The rules as the module `job`."""
    module, diagnostics = RuleFile("job", "job.dl", text).parse()
    return check([module], problems=diagnostics, sources={"job.dl": text}).program


def _violations(job: peers.Job, text: str) -> Callable[[], Answer]:
    return lambda: {"": job(text)}


ON_THE_PAGE = (memory, jobs, creations, packages)
"""The sections that docs/benchmarks.md shows."""

if __name__ == "__main__":
    main(sys.argv[1:])
