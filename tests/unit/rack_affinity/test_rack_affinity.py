"""The solver of `rack_affinity` against an oracle."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import placement
from datalog_gate.rack_affinity import solver
from datalog_gate.rack_affinity.conflict import assumptions, describe, find_conflict, without
from datalog_gate.rack_affinity.problem import (
    Answer,
    Constraint,
    Impossible,
    Item,
    Kind,
    LateError,
    Level,
    Place,
    Problem,
    SolverError,
)
from datalog_gate.rack_affinity.solver import Clock, answer, solve
from tests.sampling import sample


def same(level: Level, *items: str, grant: str = "g1") -> Constraint:
    return Constraint(grant, f"same: {level}", level, items)


def spread(level: Level, at_least: int, *items: str, grant: str = "g2") -> Constraint:
    return Constraint(grant, f"spread: {level}, at least {at_least}", level, items, at_least)


def host(name: str, rack: str, zone: str = "z1", vcpu: int = 4) -> Place:
    return Place("server", name, rack, zone, {"VCPU": vcpu})


def pool(name: str, rack: str, zone: str, gigabytes: int) -> Place:
    return Place("volume", name, rack, zone, {"DISK_GB": gigabytes})


def server(id_: str, vcpu: int = 1, zone: str | None = None) -> Item:
    return Item(id_, "server", {"VCPU": vcpu}, zone)


def volume(id_: str, size: int = 1, zone: str | None = None) -> Item:
    return Item(id_, "volume", {"DISK_GB": size}, zone)


TWO_RACKS = (host("h1", "r1"), host("h2", "r2", "z2", 8))
DB = (server("db", 6), volume("db_volume", 10))
NO_POOL = Problem((*TWO_RACKS, pool("p1", "r1", "z1", 100)), DB, (same("rack", "db", "db_volume"),))
TIGHT = Problem((host("h1", "r1"), host("h2", "r2")), (server("a", 3), server("b", 3), server("c", 2)))
MANY = tuple(server(f"s{at}") for at in range(9))


def impossible(*reasons: str) -> Impossible:
    return Impossible(reasons, irreducible=True)


EXAMPLES: dict[str, tuple[Problem, Answer]] = {
    "a server that fits one host, with its volume": (
        replace(NO_POOL, places=(*NO_POOL.places, pool("p2", "r2", "z2", 100))),
        {"db": "h2", "db_volume": "p2"},
    ),
    "nothing asked: the emptier rack": (
        Problem((host("h1", "r1"), host("h2", "r2", vcpu=8)), (server("a", 4),)),
        {"a": "h2"},
    ),
    "one stays where there is no room": (
        Problem(TWO_RACKS, (replace(server("a", 1), place="h1"), server("b", 7)), (same("rack", "a", "b"),)),
        impossible(
            "same: rack of grant g1 over a, b",
            "a on h1, where it is",
            "VCPU of the hosts in rack r1: 4 free, at most 4 on one",
            "VCPU 7 for b",
        ),
    ),
    "no pool in the only rack with room": (
        NO_POOL,
        impossible(
            "same: rack of grant g1 over db, db_volume",
            "VCPU of the hosts in rack r1: 4 free, at most 4 on one",
            "rack r2 has no storage pool with free capacity",
            "VCPU 6 for db",
        ),
    ),
    "more racks than there are": (
        Problem(TWO_RACKS, MANY, (spread("rack", 3, *(item.id for item in MANY)),)),
        impossible("spread: rack, at least 3 of grant g2 over s0, s1, s2 and 6 more"),
    ),
    "together and apart": (
        Problem(TWO_RACKS, (server("a"), server("b")), (same("rack", "a", "b"), spread("rack", 2, "a", "b"))),
        impossible("same: rack of grant g1 over a, b", "spread: rack, at least 2 of grant g2 over a, b"),
    ),
    "a zone with too little room": (
        Problem(TWO_RACKS, (server("a", 5, "z1"), server("b", 1, "z1"), server("c", 3, "z2"))),
        impossible("the zone z1 of a", "VCPU of the hosts in rack r1: 4 free, at most 4 on one", "VCPU 5 for a"),
    ),
    "too many for all": (
        Problem(TWO_RACKS, tuple(replace(item, demand={"VCPU": 2}) for item in MANY)),
        impossible(
            "VCPU of the hosts in rack r1: 4 free, at most 4 on one",
            "VCPU of the hosts in rack r2: 8 free, at most 8 on one",
            "what s0, s1, s2 and 6 more need",
        ),
    ),
    "no cloud": (Problem((), (server("a", 0),)), impossible("there is no host with free capacity")),
}


@pytest.mark.parametrize(
    "name", [name if at < 1 else pytest.param(name, marks=pytest.mark.slow) for at, name in enumerate(EXAMPLES)]
)
def test_an_example_has_its_answer(name: str) -> None:
    problem, expected = EXAMPLES[name]
    assert solve(problem, seconds=60) == expected  # beside other tests, the process may need ten to start


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    racks, zones = ("r1", "r2", "r3"), ("z1", "z2")
    number = st.integers(0, 4)

    def where() -> tuple[str, str]:
        return draw(st.sampled_from(racks)), draw(st.sampled_from(zones))

    some_hosts, some_pools = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    places = [Place("server", f"h{at}", *where(), {"VCPU": draw(number), "RAM": 3}) for at in range(some_hosts)]
    places += [pool(f"p{at}", *where(), draw(number)) for at in range(some_pools)]
    zone = st.sampled_from([None, None, None, *zones])
    fixed = st.sampled_from([None, None, None, None, "h0", "h1"])
    items = [
        Item(f"s{at}", "server", {"VCPU": draw(number), "RAM": draw(st.integers(0, 2))}, draw(zone), draw(fixed))
        for at in range(draw(st.integers(0, 4)))
    ]
    items += [volume(f"v{at}", draw(number), draw(zone)) for at in range(draw(st.integers(0, 2)))]
    constraints: list[Constraint] = []
    for at in range(draw(st.integers(0, 3)) if items else 0):
        level: Level = draw(st.sampled_from(("rack", "zone", "host")))
        able = [item.id for item in items if level != "host" or item.kind == "server"]
        some = tuple(draw(st.lists(st.sampled_from(able), unique=True))) if able else ()
        least = draw(st.sampled_from([None, 1, 2]))
        constraints.append(Constraint(f"g{draw(st.integers(1, 2))}", f"{at}", level, some, least))
    return Problem(tuple(places), tuple(items), tuple(constraints))


def kept(problem: Problem, places: dict[str, Place]) -> bool:
    """Whether the placement keeps all constraints and capacities, computed independently."""
    used: Counter[tuple[Kind, str, str]] = Counter()
    free = {(place.kind, place.name): place.capacity for place in problem.places}
    for item in problem.items:
        used.update({(item.kind, places[item.id].name, name): amount for name, amount in item.demand.items()})
        if item.zone not in (None, places[item.id].zone) or item.place not in (None, places[item.id].name):
            return False
    if any(amount > free[kind, name].get(resource, 0) for (kind, name, resource), amount in used.items()):
        return False
    for constraint in problem.constraints:
        used_places = {places[id_].at(constraint.level) for id_ in constraint.items}
        if len(used_places) > 1 if constraint.at_least is None else len(used_places) < constraint.at_least:
            return False
    return True


def possible(problem: Problem) -> bool:
    """Whether any placement is possible."""
    return any(kept(problem, places) for places in _all(problem))


def _all(problem: Problem) -> Iterator[dict[str, Place]]:
    ids = [item.id for item in problem.items]
    for choice in itertools.product(*(problem.of(item.kind) for item in problem.items)):
        yield dict(zip(ids, choice, strict=True))


def check(problem: Problem, answer: Answer) -> None:
    """Compare an answer with the oracle."""
    match answer:
        case dict(places):
            chosen: dict[str, Place] = {}
            for item in problem.items:
                chosen[item.id] = next(place for place in problem.of(item.kind) if place.name == places[item.id])
            assert chosen.keys() == places.keys()
            assert kept(problem, chosen)
        case Impossible(conflict, irreducible):
            groups = find_conflict(problem, possible)
            assert (conflict, irreducible) == (tuple(describe(problem, group) for group in groups), True)
            others = assumptions(problem).keys() - {part for group in groups for part in group}
            assert not possible(without(problem, others))
            for group in groups:
                assert possible(without(problem, {*others, *group})), group


@pytest.mark.slow
@settings(max_examples=sample(300))
@given(problem=problems(), seed=st.integers())
def test_answers_are_the_oracles_and_conflicts_can_not_be_less(problem: Problem, seed: int) -> None:
    solution = answer(problem, Clock(60, time.monotonic()))
    check(problem, solution)
    shuffle = random.Random(seed)
    again = replace(
        problem,
        places=tuple(shuffle.sample(problem.places, len(problem.places))),
        items=tuple(shuffle.sample(problem.items, len(problem.items))),
        constraints=tuple(shuffle.sample(problem.constraints, len(problem.constraints))),
    )
    assert answer(again, Clock(60, time.monotonic())) == solution


@settings(max_examples=sample(100))
@given(problem=problems())
def test_whatever_is_left_out_leaves_no_less_possible(problem: Problem) -> None:
    every = assumptions(problem)
    assert possible(without(problem, every))
    if possible(problem):
        assert [part for part in every if not possible(without(problem, [part]))] == []


def test_a_large_answer_keeps_everything_and_balances_racks() -> None:
    problem = placement.problem(60)
    solution = solve(problem, 60)
    assert isinstance(solution, dict)
    places = {(place.kind, place.name): place for place in problem.places}
    assert kept(problem, {item.id: places[item.kind, solution[item.id]] for item in problem.items})
    assert placement.balance_gap(problem, solution) < 0.05


@pytest.mark.slow
def test_a_conflict_that_was_not_reduced_in_time_says_so() -> None:
    clock = Clock(60, time.monotonic())
    clock.left = 0.03
    besides = replace(TIGHT, constraints=(same("zone", "a"),))
    assert answer(besides, clock) == Impossible(
        (
            "same: zone of grant g1 over a",
            "VCPU of the hosts in racks r1, r2: 8 free, at most 4 on one",
            "what a, b, c need",
        ),
        False,
    )
    with pytest.raises(LateError):
        answer(besides, clock)


def test_the_deadline_ends_the_process() -> None:
    with pytest.raises(SolverError) as error:
        solve(NO_POOL, 0.001)
    assert str(error.value) == "the solver gave no answer in 0.001 s"


CHILDREN = {
    "import sys; sys.exit('no luck')": "the solver failed: no luck",
    "import os; os._exit(3)": "the solver failed: it printed nothing",
    "import os; os.abort()": "the solver was ended by signal 6",
    "print('hello')": "the solver's answer can't be read",
    "print('[]')": "the solver's answer can't be read",
    "print('{}')": "the solver's answer can't be read",
    "import time; time.sleep(60)": "the solver gave no answer in 0.5 s",
}


@pytest.mark.parametrize("code", CHILDREN)
def test_a_failing_solver_process_is_reported_in_a_line(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "COMMAND", (sys.executable, "-c", code))
    with pytest.raises(SolverError) as error:
        solve(NO_POOL, 0.5 if "sleep" in code else 60)
    assert str(error.value) == CHILDREN[code]


def test_the_process_takes_no_more_memory_than_it_may() -> None:
    with pytest.raises(SolverError):
        solve(TIGHT, 10, 100)


def test_without_or_tools_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ortools.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(solver.__file__).parents[2]}")
    with pytest.raises(SolverError) as error:
        solve(TIGHT)
    assert str(error.value) == "OR-Tools is not installed: pip install 'datalog-gate[placement]'"
