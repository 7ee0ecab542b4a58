"""The certain and possible versions of programs against all outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from random import Random

import pytest

from datalog_gate.analysis.check import check
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.unknowns import possible, split
from datalog_gate.base.values import OPEN as OPEN_BOUNDS
from datalog_gate.base.values import Bounds, Kind, Row, Unknown, Value, show
from datalog_gate.engine import pydatalog_worker as worker
from datalog_gate.engine.native import evaluate
from datalog_gate.language.parser import parse
from datalog_gate.schema.declaration import RelationRef, possible_version
from tests import unknowns
from tests.expressions import as_words, worded
from tests.programs import Facts
from tests.sampling import sample
from tests.unknowns import divided, filled

U, V, W = worded("u"), worded("v"), worded("w")
INPUTS = {"e": 2, "f": 2, "n": 1}


def checked(text: str) -> CheckedProgram:
    """The program of a text whose inputs are `INPUTS`."""
    module, diagnostics = parse(text, "m.dl", "m")
    names = Names([module], {name: (Kind.ANY,) * arity for name, arity in INPUTS.items()})
    return check([module], names=names, problems=diagnostics).program


def answer(
    text: str, facts: Facts, maybe: Facts | None = None, certain_only: Collection[str] = ()
) -> dict[str, set[Row]]:
    """The rows of every derived relation and version, by names without the module."""
    finished = divided(checked(text), facts, maybe or {}, certain_only)
    model = evaluate(finished, filled(finished, facts, maybe or {}))
    assert model.errors == ()
    names = [name for stratum in finished.strata for name in stratum.relations]
    return {str(name).removeprefix("m:"): as_words(set(model.rows(name))) for name in names}


CASES: dict[str, tuple[str, Facts, Facts, dict[RelationRef, set[Row]]]] = {
    "an unknown that is only passed on needs no second version": (
        "p(x, y) :- e(x, y).", {"e": [(1, U), (2, 3)]}, {}, {"p": {(1, U), (2, 3)}}),
    "a constant may equal an unknown": (
        'p(x) :- e(x, "a").', {"e": [(1, U), (2, "a"), (3, "b")]}, {}, {"p": {(2,)}, "p?": {(1,), (2,)}}),
    "an unknown may be null, and may not be": (
        "p(x) :- e(x, null). q(x) :- e(x, y), y != null. r(x) :- e(x, y), y = null.",
        {"e": [(1, U), (2, None), (3, 3)]}, {},
        {"p": {(2,)}, "p?": {(1,), (2,)}, "q": {(3,)}, "q?": {(1,), (3,)}, "r": {(2,)}, "r?": {(1,), (2,)}}),
    "a join shows the known side, whichever comes first": (
        "p(x) :- e(_, x), n(x). q(x) :- n(x), e(_, x).", {"e": [(1, U), (2, 5)], "n": [(5,), (6,)]}, {},
        {"p": {(5,)}, "p?": {(5,), (6,)}, "q": {(5,)}, "q?": {(5,), (6,)}}),
    "an unknown equals itself for certain, and others perhaps": (
        "p(a, b) :- e(a, x), f(b, x).", {"e": [(1, U)], "f": [(2, U), (3, V), (4, 4), (5, None)]}, {},
        {"p": {(1, 2)}, "p?": {(1, 2), (1, 3), (1, 4)}}),
    "a variable twice in an atom joins as two atoms do": (
        "p(1) :- e(x, x).", {"e": [(1, U)]}, {}, {"p": set(), "p?": {(1,)}}),
    "a maybe row is possible": (
        "p(x) :- n(x). q(x) :- e(x, _), not n(x).", {"n": [(1,), (2,)], "e": [(1, 0), (2, 0), (3, 0)]}, {"n": [(2,)]},
        {"p": {(1,)}, "p?": {(1,), (2,)}, "q": {(3,)}, "q?": {(2,), (3,)}}),
    "under not the possible stands against the certain": (
        "p(x) :- n(x), not e(x, 1).", {"n": [(1,), (2,), (3,)], "e": [(1, U), (2, 1)]}, {},
        {"p": {(3,)}, "p?": {(1,), (3,)}}),
    "a comparison with an unknown is possible": (
        "p(x) :- e(x, y), y ?? 9 > 4, y != 5.", {"e": [(1, U), (2, 5), (3, 6)]}, {}, {"p": {(3,)}, "p?": {(1,), (3,)}}),
    "a computed unknown equals itself only": (
        "p(x, z) :- e(x, y), z = y ?? 0. q(a, b) :- p(a, z), p(b, z).", {"e": [(1, U), (2, 5)]}, {},
        {"p": {(1, worded("??(?'u', 0)")), (2, 5)}, "q": {(1, 1), (2, 2)}, "q?": {(1, 1), (1, 2), (2, 1), (2, 2)}}),
    "an alias of an unknown is the unknown": (
        "p(z) :- e(_, y), z = y, n(w), z = w.", {"e": [(1, U)], "n": [(5,)]}, {}, {"p": set(), "p?": {(U,)}}),
    "a count of what may be there is unknown, by group": (
        "c(g, k) :- n(g), k = count{ x : e(g, x), f(x, _) }. p(g) :- c(g, k), k > 1.",
        {"n": [(1,), (2,)], "e": [(1, U), (2, 2)], "f": [(2, 0)]}, {},
        {"c": {(1, worded("count(?'the set at m.dl:1:22 by g', 1)")), (2, 1)}, "p": set(), "p?": set()}),
    "a greatest of what may not be there is not certain": (
        "p(g, k) :- n(g), k = max{ x : e(g, x) }.", {"n": [(1,), (2,)], "e": [(1, 5)]}, {"e": [(1, 5)]},
        {"p": set(), "p?": {(1, 5)}}),
    "unknowns may be the same, so how many there are is unknown": (
        "p(k) :- k = count{ x : e(_, x) }.", {"e": [(1, U), (2, 5)]}, {},
        {"p": {(worded("count(?'the set at m.dl:1:13')"),)}}),
    "a variable that is null stays a variable, and equals no unknown": (
        "p(x) :- e(x, y), z = null, z != y.", {"e": [(1, None), (2, U)]}, {}, {"p": {(1,), (2,)}, "p?": {(1,), (2,)}}),
    "a count that no unknown reaches is a number": (
        "p(k) :- k = count{ x : e(x, y) }.", {"e": [(1, U), (2, V)]}, {}, {"p": {(2,)}}),
    "a count that equals what it is grouped by": (
        "p(x) :- n(x), x = count{ y : e(x, y), y != z }, f(z, 0).",
        {"n": [(1,), (2,)], "e": [(1, 5), (2, 5)], "f": [(4, 0), (4, U)]}, {}, {"p": {(1,)}, "p?": {(1,)}}),
    "a recursion has both versions": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).", {"e": [(1, U), (2, 3)]}, {},
        {"p": {(1, U), (2, 3)}, "p?": {(1, 3), (1, U), (2, 3)}}),
    "a recursion through several relations has both versions of each": (
        "p(x) :- q(x). q(x) :- e(x, 1). q(x) :- p(x).", {"e": [(1, U)]}, {},
        {"p": set(), "p?": {(1,)}, "q": set(), "q?": {(1,)}}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_versions_hold(name: str) -> None:
    text, facts, maybe, expected = CASES[name]
    assert answer(text, facts, maybe) == expected


def test_what_no_rule_reads_changes_nothing() -> None:
    plain = checked("p(x) :- e(x, _), not f(_, x), k = count{ y : n(y) }, k > 1.")
    assert split(plain, {"e": frozenset({1}), "f": frozenset({0}), "other": frozenset({0})}, {"other"}) is plain


def test_only_what_unknowns_reach_gets_a_second_version() -> None:
    plain = checked("p(x) :- e(x, 1). q(x) :- n(x). r(x) :- f(x, _). s(x) :- q(x), r(x).")
    finished = split(plain, {"e": frozenset({1})}, {"n"})
    assert [possible(relation, finished) for relation in ("m:p", "m:q", "m:r", "m:s")] == [
        possible_version("m:p"),
        possible_version("m:q"),
        "m:r",
        possible_version("m:s"),
    ]
    assert (set(finished.inputs), finished.relations[possible_version("n")].columns) == (
        {"e", "f", "n", possible_version("n")},
        plain.relations["n"].columns,
    )


@pytest.mark.parametrize("certain_only", ["m:open", "n"])
def test_of_some_relations_only_what_is_certain_counts(certain_only: str) -> None:
    text = "open(x) :- n(x). p(x) :- e(x, _), not open(x). q(x) :- e(x, _), open(x)."
    answered = answer(text, {"n": [(1,), (2,)], "e": [(1, 0), (2, 0)]}, {"n": [(2,)]}, {certain_only})
    assert answered == {"open": {(1,)}, "p": {(2,)}, "q": {(1,)}}


def test_an_unknown_in_such_a_relation_is_no_known_value_and_an_unknown_outside_may_be_in_it() -> None:
    text = "open(x) :- f(_, x). p(x) :- e(x, _), not open(x). q(y) :- e(_, y), not open(y)."
    answered = answer(text, {"f": [(0, V), (0, 1)], "e": [(2, U)]}, {}, {"m:open"})
    assert answered == {"open": {(V,), (1,)}, "p": {(2,)}, "q": set(), "q?": {(U,)}}


# open relations: a wildcard is a maybe row that stands for any number of rows
ANY, OTHER = (worded(name, several=True, kinds=Kind.NUMBER) for name in ("any y of e", "any x of n"))
OPEN: dict[str, tuple[str, Facts, Facts, dict[RelationRef, set[Row]]]] = {
    "a wildcard is possible, and certain under not": (
        "p(y) :- e(1, y). q(x) :- n(x), not e(x, _).", {"e": [(1, ANY), (1, 2)], "n": [(1,), (3,)]}, {"e": [(1, ANY)]},
        {"p": {(2,)}, "p?": {(2,), (ANY,)}, "q": {(3,)}, "q?": {(3,)}}),
    "a wildcard alone forbids and allows": (
        "q(x) :- n(x), not e(x, _). r(x) :- n(x), not e(x, 5).", {"e": [(1, ANY)], "n": [(1,), (3,)]},
        {"e": [(1, ANY)]}, {"q": {(3,)}, "q?": {(1,), (3,)}, "r": {(3,)}, "r?": {(1,), (3,)}}),
    "it may be two rows, which differ": (
        "p(1) :- e(x, y), e(x, z), y != z. q(1) :- e(x, y), e(x, z), not (y = z).", {"e": [(1, ANY)]},
        {"e": [(1, ANY)]}, {"p": set(), "p?": {(1,)}, "q": set(), "q?": {(1,)}}),
    "it may be two rows, of which one is less": (
        "p(1) :- e(x, y), e(x, z), y != null, z != null, y < z.", {"e": [(1, ANY)]}, {"e": [(1, ANY)]},
        {"p": set(), "p?": {(1,)}}),
    "it may be two rows of which something computed differs": (
        "p(1) :- e(x, y), e(x, z), y != null, z != null, a = y + 1, not (a = z + 1).", {"e": [(1, ANY)]},
        {"e": [(1, ANY)]}, {"p": set(), "p?": {(1,)}}),
    "each of its rows has one value, which equals itself": (
        "p(1) :- e(_, y), y != y. q(1) :- e(_, y), y = y. r(1) :- e(_, y), not (y = y).", {"e": [(1, ANY)]},
        {"e": [(1, ANY)]}, {"p": set(), "p?": set(), "q": set(), "q?": {(1,)}, "r": set(), "r?": set()}),
    "a count of known rows for each of its rows has a most": (
        "p(1) :- n(y), count{ x : e(x, y) } > 2. q(1) :- n(y), count{ x : e(x, y) } > 1.",
        {"n": [(ANY,)], "e": [(1, 1), (2, 1)]}, {"n": [(ANY,)]}, {"p": set(), "p?": set(), "q": set(), "q?": {(1,)}}),
    "it may join with another": (
        "p(x) :- e(x, y), n(y).", {"e": [(1, ANY)], "n": [(OTHER,)]}, {"e": [(1, ANY)], "n": [(OTHER,)]},
        {"p": set(), "p?": {(1,)}}),
    "what it can't be of its kind does not equal it": (
        'p(x) :- e(x, "a"). q(x) :- e(x, null).', {"e": [(1, ANY)]}, {"e": [(1, ANY)]},
        {"p": set(), "p?": set(), "q": set(), "q?": set()}),
}  # fmt: skip
CASES |= OPEN


# what an aggregate is told as, over e(x, y) with these y; `maybe` ones may not be there
K = worded("k", kinds=Kind.NUMBER, bounds=Bounds(2, 4))
LOW, HIGH = (
    worded(name, several=True, kinds=Kind.NUMBER, bounds=Bounds(low, 2)) for name, low in (("low", -1), ("high", 1))
)
S = worded("s", kinds=Kind.STRING)
N = worded("n", kinds=Kind.NUMBER)
INTERVALS: list[tuple[tuple[Value, ...], tuple[Value, ...], str]] = [
    ((1, 5), (), "count 2, sum 6, min 1, max 5, avg 3"),
    ((1, 5), (7,), "count 2..3, sum 6..13, min 1, max 5..7, avg 1..7"),
    ((1, 5), (-7,), "count 2..3, sum -1..6, min -7..1, max 5, avg -7..5"),
    ((1, 5, None), (None,), "count 2, sum 6, min 1, max 5, avg 3"),
    ((), (3,), "count 0..1, sum 0..3"),
    ((1, K), (), "count 1..2, sum 1..5, min 1, max 2..4, avg 1..4"),
    ((3, K), (K,), "count 1..2, sum 3..7, min 2..3, max 3..4, avg 2..4"),
    ((K,), (), "count 1, sum 0..4, min 2..4, max 2..4, avg 2..4"),
    ((1, N), (), "count 1..2, sum ?, min ..1, max 1.., avg ?"),
    ((1, U), (), "count 1..2, sum ?, min ..1, max 1.., avg ?"),
    ((1,), (ANY,), "count 1.., sum ?, min ..1, max 1.., avg ?"),
    ((), (ANY,), "count 0.., sum ?"),
    ((U,), (), "count 0..1, sum ?"),
    ((), (LOW,), "count 0.., sum ?"),
    ((), (HIGH,), "count 0.., sum 0.."),
    (("a", "b"), ("c",), "count 2..3, sum error, min a, max ?, avg error"),
    (("a", S), (), "count 1..2, sum error, min ?, max ?, avg error"),
    (("a", N), (), "count 1..2, sum error, min ?, max ?, avg error"),
    ((1,), ("a",), "count 1..2, sum ?, min ?, max ?, avg ?"),
]


@pytest.mark.parametrize(("certain", "maybe", "expected"), INTERVALS)
def test_an_aggregate_is_bounded_by_what_is_certain_and_what_is_possible(
    certain: tuple[Value, ...], maybe: tuple[Value, ...], expected: str
) -> None:
    unsure: Facts = {"e": [(0, y) for y in maybe]}
    facts: Facts = {"e": [(0, y) for y in certain] + unsure["e"]}
    results = []
    for function in ("count", "sum", "min", "max", "avg"):
        plain = checked(f"p(k) :- k = {function}{{ y : e(_, y) }}.")
        finished = divided(plain, facts, unsure)
        model = evaluate(finished, filled(finished, facts, unsure))
        rows = model.rows("m:p")
        results += [f"{function} {format_value(value)}" for (value,) in rows]
        results += [f"{function} error"] * (not rows and bool(model.errors))
    assert ", ".join(results) == expected


def format_value(value: Value) -> str:
    """The value, `?` if nothing is known of it."""
    return "?" if isinstance(value, Unknown) and value.bounds == OPEN_BOUNDS else show(value)


COMPARED: list[tuple[str, str]] = [
    ("n > 1", "true"), ("n >= 2", "true"), ("n > 2", "unknown"), ("n < 5", "true"), ("n <= 4", "true"),
    ("n <= 3", "unknown"), ("n > 4", "false"), ("n < 2", "false"), ("n = 5", "false"), ("n = 3", "unknown"),
    ("n != 5", "true"), ("n != 3", "unknown"), ("5 > n", "true"), ("n + 1 > 2", "true"), ("10 - n >= 6", "true"),
    ("10 - n > 8", "false"), ("10 - n > 7", "unknown"), ("n * 2 > 3", "true"), ("n * -1 < -1", "true"),
    ("n + n > 3", "true"), ("n - n = 0", "unknown"), ("n ?? 0 > 1", "true"), ("n = n", "true"), ("n != null", "true"),
    ("n * 0 = 0", "true"),
]  # fmt: skip


@pytest.mark.parametrize(("literal", "expected"), COMPARED)
def test_a_comparison_is_decided_by_bounds(literal: str, expected: str) -> None:
    """Of a count from 2 to 4."""
    facts: Facts = {"n": [(1,), (2,), (3,), (4,)]}
    tables = answer(f"p(1) :- n = count{{ x : n(x) }}, {literal}.", facts, {"n": [(3,), (4,)]})
    assert ("true" if tables["p"] else "unknown" if tables.get("p?") else "false") == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_all_engines_compute_the_same_bounds(limit: int) -> None:
    facts: Facts = {"e": [(1, 1), (1, 2), (2, U), (2, V)], "f": [(1, 3), (2, 3)]}
    unsure: Facts = {"e": [(1, 2)]}
    text = f"p(g, k) :- f(g, _), k = count{{ y : e(g, y) }}. q(g) :- p(g, k), k < {limit}."
    finished = divided(checked(text), facts, unsure)
    all_facts = filled(finished, facts, unsure)
    native = {name: set(table.rows) for name, table in evaluate(finished, all_facts).tables.items()}
    assert {name: set(rows) for name, rows in worker.answer(finished, all_facts).items()} == native


def test_each_set_is_known_by_what_groups_it() -> None:
    """In each branch of the `or` another variable does."""
    text = "p(k) :- (n(x) or n(y)), k = count{ z : e(x, z), f(y, z) }."
    facts: Facts = {"n": [(1,)], "e": [(1, U), (2, 5)], "f": [(1, 5), (3, U)]}
    assert answer(text, facts)["p"] == {
        (worded(f"count(?'the set at m.dl:1:29 by {variable}', 1)"),) for variable in "xy"
    }


@pytest.mark.sampled
def test_generated_programs_are_never_judged_wrong_and_seldom_undetermined_without_need() -> None:
    tally: Counter[str] = Counter()
    for seed in range(sample(150)):
        case = unknowns.draw(Random(seed).randrange)
        judgement = unknowns.judged(case) if case else None
        if judgement:
            assert judgement.wrong == ""
            tally.update(judgement.tally)
    assert unknowns.needless(tally, unknowns.REWRITTEN) < 0.12
    assert unknowns.needless(tally, unknowns.TRIED) < 0.1
