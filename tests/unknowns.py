"""The certain and possible versions of generated programs, judged by trying every outcome of what is not known.

python -m tests.unknowns COUNT [SEED]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations, count, product
from random import Random

from datalog_gate.analysis.possible import POSSIBLE, possible, split
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.intervals import kinds_of
from datalog_gate.engine.native import evaluate
from datalog_gate.values import Bounds, Kind, Row, Unknown, Value, kind_of
from tests.differential import smallest, written
from tests.programs import Choose, Facts, Vocabulary, draw_facts, draw_program

INPUTS = {"e": 2, "f": 2, "n": 1}
FRESH: Value = 7
"""A value that neither the rules nor the facts name."""
QUIET = (
    Vocabulary((0, 1, 2), ("=", "!=", "<", ">="), ("??", "+", "-", "*"), ("count", "sum", "min", "max", "avg"), INPUTS),
    Vocabulary((None, 0, 1), ("=", "!="), ("??",), ("count", "list"), INPUTS),
)
"""What generated programs speak of: nothing in them fails. An unknown is never null: it would not equal itself."""
U = Unknown("u", kinds=Kind.NUMBER)
V = Unknown("v", kinds=Kind.NUMBER, bounds=Bounds(1, 2))
MEANINGS: dict[Unknown, tuple[Value, ...]] = {U: (0, 1, 2, FRESH), V: (1, 2)}
MOST = 64
"""How many outcomes a program has at most."""
LOOKS = 400
"""How often an evaluation looks at its clock, some 10,000 rows apart: a rule that joins a relation with itself three
times over says nothing more, and takes minutes."""
Outcome = tuple[Mapping[Value, Value], Facts]


@dataclass(frozen=True)
class Case:
    """A program, its facts, which of them are there only under a condition, and the wildcards among these, which stand
    for any number of rows, with those that they are tried for."""

    program: CheckedProgram
    facts: Facts
    conditions: Mapping[tuple[str, Row], str] = field(default_factory=dict)
    open: Mapping[tuple[str, Row], Sequence[Row]] = field(default_factory=dict)

    def maybe(self) -> Facts:
        """The rows that may not be there."""
        unsure = self.conditions.keys() | self.open.keys()
        return {name: [row for row in rows if (name, row) in unsure] for name, rows in self.facts.items()}


@dataclass(frozen=True)
class Judged:
    """What is wrong with the versions, if anything; and how many relations are what, `needless` those that are
    undetermined though all outcomes agree. None if it takes too long."""

    wrong: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)


def main(number: int, seed: int) -> int:
    """Judge that many programs. Prints how often what was said; 1 after a wrong one, which it prints with nothing in it
    that could be left out."""
    tally: Counter[str] = Counter()
    for at in range(seed, seed + number):
        case = draw(at)
        if case is None:
            tally["programs refused by the analysis"] += 1
            continue
        found = judged(case)
        if found is None:
            tally["programs left out: too long"] += 1
            continue
        if found.wrong:
            print(f"seed {at}:\n{told(case)}")
            return 1
        tally["programs judged"] += 1
        tally.update(found.tally)
    for what, times in sorted(tally.items()):
        print(f"{times:9} {what}")
    print(f"{needless(tally):9.1%} needless among what unknowns reach")
    return 0


def needless(tally: Mapping[str, int]) -> float:
    """The share of the relations that are undetermined though all outcomes agree."""
    reached = sum(times for what, times in tally.items() if what.startswith("relations "))
    return tally.get("undetermined without need", 0) / max(1, reached)


def told(case: Case) -> str:
    """The case without all that could be left out, and what is wrong with it."""

    def fails(program: CheckedProgram, facts: Facts) -> bool:
        found = judged(Case(program, facts, case.conditions, case.open))
        return bool(found and found.wrong)

    program, facts = smallest((case.program, case.facts), lambda one: fails(*one))
    found = judged(Case(program, facts, case.conditions, case.open))
    assert found
    return f"{written(program, facts)}\nmaybe: {case.conditions}\nopen: {case.open}\n{found.wrong}"


def draw(seed: int) -> Case | None:
    """A program with facts that are not all known; None if the analysis refuses it."""
    choose = Random(seed).randrange
    words = QUIET[choose(3) == 0]
    program = draw_program(choose, words)
    if program is None:
        return None
    pool = ((U,), (V,), (U, V), (U, U, V))[choose(4)]
    facts = {name: list(dict.fromkeys(rows)) for name, rows in draw_facts(choose, words, pool).items()}
    size = _outcomes_of(facts)
    open_: dict[tuple[str, Row], Sequence[Row]] = {}
    if choose(2) and size * 11 <= MOST:
        name = ("e", "f", "n")[choose(3)]
        row, rows = _wildcard(name, INPUTS[name], choose)
        open_[name, row] = rows
        facts[name].append(row)
        size *= 1 + len(rows) + len(rows) * (len(rows) - 1) // 2
    conditions: dict[tuple[str, Row], str] = {}
    there = [(name, row) for name, rows in facts.items() for row in rows if (name, row) not in open_]
    for condition in ("c", "d")[: choose(3)]:
        if 2 * size <= MOST and there:
            conditions |= {there[choose(len(there))]: condition for _ in range(1 + choose(2))}
            size *= 2
    return Case(program, facts, conditions, open_)


def _outcomes_of(facts: Facts) -> int:
    size = 1
    for one in _unknowns(facts):
        size *= len(MEANINGS[one])
    return size


def _unknowns(facts: Facts) -> list[Unknown]:
    """Those with one meaning each."""
    held = {one for rows in facts.values() for row in rows for one in row if one in MEANINGS}
    return [one for one in MEANINGS if one in held]


def _wildcard(name: str, arity: int, choose: Choose) -> tuple[Row, Sequence[Row]]:
    """A row that stands for any number of rows, and some of these."""
    known: Row = (choose(3),) if arity > 1 and choose(3) else ()
    rest = [
        Unknown(f"any {at} of {name} in {known}", several=True, kinds=Kind.NUMBER) for at in range(len(known), arity)
    ]
    values: tuple[Value, ...] = (0, 1, 2, FRESH) if len(rest) == 1 else (1, FRESH)
    return (*known, *rest), [(*known, *one) for one in product(values, repeat=len(rest))]


def outcomes(case: Case) -> Iterator[Outcome]:
    """Every way in which it may turn out: what each unknown stands for, and the facts then."""
    unknowns = _unknowns(case.facts)
    conditions = sorted(set(case.conditions.values()))
    extents = [
        [some for size in range(3) for some in combinations(rows, size)]
        for (name, row), rows in case.open.items()
        if row in case.facts[name]
    ]
    there = [(name, row) for name, row in case.open if row in case.facts[name]]
    for meaning, given, found in product(
        product(*(MEANINGS[one] for one in unknowns)),
        product((False, True), repeat=len(conditions)),
        product(*extents),
    ):
        stands: dict[Value, Value] = dict(zip(unknowns, meaning, strict=True))
        holds = dict(zip(conditions, given, strict=True))
        facts = {
            name: [
                tuple([stands.get(one, one) for one in row])
                for row in rows
                if (name, row) not in case.open and holds.get(case.conditions.get((name, row), ""), True)
            ]
            for name, rows in case.facts.items()
        }
        for (name, _), rows in zip(there, found, strict=True):
            facts[name] += rows
        yield stands, facts


def judged(case: Case) -> Judged | None:
    """Hold what the versions say against every outcome."""
    finished = divided(case.program, case.facts, case.maybe())
    model = evaluate(finished, filled(finished, case.facts, case.maybe()), _budget())
    if model.exceeded:
        return None
    if model.errors:
        return Judged(f"errors: {model.errors}")
    relations = [name for stratum in case.program.strata for name in stratum.relations]
    some: Counter[str] = Counter()
    total = 0
    for stands, actual in outcomes(case):
        total += 1
        world = evaluate(case.program, actual, _budget())
        if world.exceeded:
            return None
        for relation in relations:
            rows = world.rows(relation)
            some[relation] += bool(rows)
            if wrong := _wrong(rows, model.rows(relation), model.rows(possible(relation, finished)), stands):
                return Judged(f"{relation}: {wrong}, if {stands} and {actual}")
    tally: Counter[str] = Counter(outcomes=total)
    for relation in relations:
        if possible(relation, finished) == relation:
            tally["reached by no unknown"] += 1
        elif model.rows(relation):
            tally["relations that certainly hold"] += 1
        elif not model.rows(possible(relation, finished)):
            tally["relations that hold in no case"] += 1
        else:
            tally["relations undetermined"] += 1
            tally["undetermined without need"] += some[relation] in (0, total)
    return Judged("", tally)


def _wrong(
    rows: Collection[Row], certain: Collection[Row], loose: Collection[Row], stands: Mapping[Value, Value]
) -> str:
    """What is wrong with the versions of a relation that holds these rows in an outcome."""
    for row in certain:
        known = tuple([stands.get(one, one) for one in row])
        if known not in rows and not any(_covers(known, other) for other in rows):
            return f"{row} is not there"
    filled_in = {tuple([stands.get(one, one) for one in row]) for row in loose}
    for row in rows:
        if row not in filled_in and not any(_covers(known, row) for known in filled_in):
            return f"{row} is not possible"
    return ""


def _covers(row: Row, actual: Row) -> bool:
    """Whether the row, of which computed values are not known, is the actual one."""
    return all(
        one == other or (isinstance(one, Unknown) and within(one, other))
        for one, other in zip(row, actual, strict=True)
    )


def within(unknown: Unknown, value: Value) -> bool:
    """Whether an unknown may be the value."""
    if not kind_of(value) & kinds_of(unknown):
        return False
    low, high = unknown.bounds
    number = value if isinstance(value, int | Decimal) else None
    return number is None or ((low is None or low <= number) and (high is None or number <= high))


def divided(plain: CheckedProgram, facts: Facts, maybe: Facts, certain_only: Collection[str] = ()) -> CheckedProgram:
    """The program, split for these rows; `maybe` rows are among the facts."""
    columns = {
        name: frozenset(at for row in rows for at, value in enumerate(row) if isinstance(value, Unknown))
        for name, rows in facts.items()
    }
    return split(plain, columns, {name for name, rows in maybe.items() if rows}, certain_only)


def filled(finished: CheckedProgram, facts: Facts, maybe: Facts) -> Facts:
    """The rows of the inputs: all for a possible version, those that are sure for a certain one."""
    return {
        name: [row for row in facts.get(name.removesuffix(POSSIBLE), ()) if row not in maybe.get(name, ())]
        for name in finished.inputs
    }


def _budget() -> Budget:
    return Budget(seconds=LOOKS, clock=count().__next__)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
