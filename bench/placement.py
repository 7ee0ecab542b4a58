"""Measure the CPU time of the solver of `rack_affinity`.

The times include the import of OR-Tools.

python -m bench.placement [ROUNDS]
"""

from __future__ import annotations

import random
import resource
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from datalog_gate.rack_affinity.problem import Answer, Constraint, Item, Place, Problem
from datalog_gate.rack_affinity.solver import solve

RACKS, HOSTS = 40, 16
FLAVOURS = ((2, 4096), (4, 8192), (8, 32768), (16, 65536))


def problem(servers: int, pools: int = RACKS, varied: bool = True, level: int = 5, load: float = 1.0) -> Problem:
    """A volume for each server, in the rack of its server.

    There are 16 hosts in each of 40 racks, which are partly used, and a rack for each pool. A grant of its own requests
    each pair."""
    chance = random.Random(7)
    places = [
        Place("server", f"host-{rack}-{at}", f"rack-{rack}", f"zone-{rack % 4}",
             {"VCPU": chance.randrange(16, 65), "MEMORY_MB": 4096 * chance.randrange(8, 65), "DISK_GB": 800})
        for rack in range(RACKS) for at in range(HOSTS)
    ]  # fmt: skip
    places += [
        Place("volume", f"pool-{rack}", f"rack-{rack}", f"zone-{rack % 4}", {"DISK_GB": 20_000})
        for rack in range(pools)
    ]
    items: list[Item] = []
    constraints: list[Constraint] = []
    for at in range(servers):
        vcpu, memory = chance.choice(FLAVOURS) if varied else FLAVOURS[1]
        size = chance.randrange(10, 1000) if varied else 100
        items.append(Item(f"server-{at}", "server", {"VCPU": int(vcpu * load), "MEMORY_MB": memory, "DISK_GB": 20}))
        items.append(Item(f"volume-{at}", "volume", {"DISK_GB": size}))
        constraints.append(Constraint(f"pair-{at}", "same: rack", "rack", (f"server-{at}", f"volume-{at}")))
    names = tuple(item.id for item in items if item.kind == "server")
    constraints.append(Constraint("spread", f"spread: rack, at least {level}", "rack", names, level))
    return Problem(tuple(places), tuple(items), tuple(constraints))


CASES = {
    "200 servers and volumes, alike": (problem(200, varied=False), 2),
    "200 servers and volumes, 4 flavors, any size": (problem(200), 2),
    "the same, pools in 4 racks: impossible": (problem(200, pools=4), 2),
    "the same, spread over 41 racks: impossible": (problem(200, level=41), 2),
    "the same, servers of more VCPU than any host has: impossible": (problem(200, load=35), 2),
    "500 servers and volumes, 4 flavors, any size": (problem(500), 10),
}


def main(arguments: list[str]) -> None:
    """Print the table."""
    rounds = int(arguments[0]) if arguments else 3
    print("| stack over 40 racks of 16 hosts | answer | CPU median s | min | max | limit |\n|---|---|---|---|---|---|")
    for title, (problem, limit) in CASES.items():
        times = [_timed(problem) for _ in range(rounds)]
        answers = {outcome for outcome, _ in times}
        assert len(answers) == 1, answers
        seconds = [spent for _, spent in times]
        figures = f"{statistics.median(seconds):.2f} | {min(seconds):.2f} | {max(seconds):.2f}"
        print(f"| {title} | {answers.pop()} | {figures} | {limit} |", flush=True)


def balance_gap(problem: Problem, placed: Mapping[str, str]) -> float:
    """How much emptier the fullest rack of the best answer may be, as a part of this one's: it is at least as full as
    all racks are together, and as the largest item makes the emptiest."""
    free: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    racks: dict[tuple[str, str], str] = {}
    for place in problem.places:
        racks[place.kind, place.name] = place.rack
        for name, amount in place.capacity.items():
            free[place.kind, name][place.rack] += amount
    used: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    least = 0.0
    for item in problem.items:
        for name, amount in item.demand.items():
            if amount:
                used[item.kind, name][racks[item.kind, placed[item.id]]] += amount
                least = max(least, amount / max(free[item.kind, name].values()))
    fullest = 0.0
    for key, amounts in used.items():
        least = max(least, amounts.total() / free[key].total())
        fullest = max(fullest, *(amount / free[key][rack] for rack, amount in amounts.items()))
    return round(1 - least / fullest, 4) if fullest else 0.0


def _timed(problem: Problem) -> tuple[str, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = solve(problem, 30)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return "; ".join(_describe(problem, answer)), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _describe(problem: Problem, answer: Answer) -> Iterator[str]:
    if isinstance(answer, dict):
        yield f"placed, gap {balance_gap(problem, answer):.1%}"
    else:
        yield "impossible" if answer.irreducible else "impossible, not reduced"
        yield from answer.conflict


if __name__ == "__main__":
    main(sys.argv[1:])
