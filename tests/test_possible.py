"""The certain and the possible version of programs, against every outcome that the unknowns may have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations, count, product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from datalog_gate.analysis.check import check
from datalog_gate.analysis.possible import POSSIBLE, possible, split
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.native import evaluate
from datalog_gate.language.parser import parse
from datalog_gate.values import Kind, Row, Unknown, Value
from tests import programs
from tests.programs import Facts, Vocabulary

U, V, W = Unknown("u"), Unknown("v"), Unknown("w")
INPUTS = {"e": 2, "f": 2, "n": 1}
NUMBERS: tuple[Value, ...] = (0, 1, 2)
NULLABLE: tuple[Value, ...] = (None, 0, 1)
FRESH: Value = 7
"""A value that neither the rules nor the facts name."""


def checked(text: str) -> CheckedProgram:
    """The program of a text whose inputs are `INPUTS`."""
    module, found = parse(text, "m.dl", "m")
    return check([module], given={name: (Kind.ANY,) * arity for name, arity in INPUTS.items()}, found=found).program


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


def answer(
    text: str, facts: Facts, maybe: Facts | None = None, certain_only: Collection[str] = ()
) -> dict[str, set[Row]]:
    """The rows of every derived relation and version, by names without the module."""
    finished = divided(checked(text), facts, maybe or {}, certain_only)
    model = evaluate(finished, filled(finished, facts, maybe or {}))
    assert model.errors == ()
    return {name.removeprefix("m:"): set(model.rows(name)) for one in finished.strata for name in one.relations}


CASES: dict[str, tuple[str, Facts, Facts, dict[str, set[Row]]]] = {
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
        {"p": {(1, Unknown("??(?'u', 0)")), (2, 5)}, "q": {(1, 1), (2, 2)}, "q?": {(1, 1), (1, 2), (2, 1), (2, 2)}}),
    "an alias of an unknown is the unknown": (
        "p(z) :- e(_, y), z = y, n(w), z = w.", {"e": [(1, U)], "n": [(5,)]}, {}, {"p": set(), "p?": {(U,)}}),
    "a count of what may be there is unknown, by group": (
        "c(g, k) :- n(g), k = count{ x : e(g, x), f(x, _) }. p(g) :- c(g, k), k > 1.",
        {"n": [(1,), (2,)], "e": [(1, U), (2, 2)], "f": [(2, 0)]}, {},
        {"c": {(1, Unknown("count(?'the set at m.dl:1:22 by g', 1)")), (2, 1)}, "p": set(), "p?": set()}),
    "a greatest of what may not be there is not certain": (
        "p(g, k) :- n(g), k = max{ x : e(g, x) }.", {"n": [(1,), (2,)], "e": [(1, 5)]}, {"e": [(1, 5)]},
        {"p": set(), "p?": {(1, 5)}}),
    "unknowns may be the same, so how many there are is unknown": (
        "p(k) :- k = count{ x : e(_, x) }.", {"e": [(1, U), (2, 5)]}, {},
        {"p": {(Unknown("count(?'the set at m.dl:1:13')"),)}}),
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
    assert [possible(one, finished) for one in ("m:p", "m:q", "m:r", "m:s")] == ["m:p?", "m:q?", "m:r", "m:s?"]
    assert (set(finished.inputs), finished.relations["n?"].columns) == (
        {"e", "f", "n", "n?"},
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


LOOKS = 1000
"""How often an evaluation looks at its clock, some 10,000 rows apart: a rule that joins a relation with itself three
times over says nothing more, and takes minutes."""


# generated programs; their values are such that nothing fails
QUIET = (
    Vocabulary(NUMBERS, ("=", "!=", "<", ">="), ("??", "+"), ("count", "sum", "min", "avg"), INPUTS),
    Vocabulary(NULLABLE, ("=", "!="), ("??",), ("count", "list"), INPUTS),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[CheckedProgram, Facts, Facts, list[Value]]:
    """A program, its facts, those of them that may not be there, and what an unknown may turn out to be: anything but
    null, for then it would not equal itself."""
    words = draw(st.sampled_from(QUIET))
    values = words.values
    plain = draw(programs.programs(words))
    facts = draw(programs.facts(words, (*values, U, V, *((W,) if draw(st.booleans()) else ()))))
    rows = [(name, row) for name, found in facts.items() for row in found]
    chosen = draw(st.lists(st.sampled_from(rows), max_size=2)) if rows else []
    maybe = {name: [row for one, row in chosen if one == name] for name in facts}
    return plain, facts, maybe, [*(one for one in values if one is not None), FRESH]


def outcomes(facts: Facts, maybe: Facts, values: Collection[Value]) -> Iterator[tuple[dict[Value, Value], Facts]]:
    """Every way in which the unknowns may turn out: what each stands for, and the facts then."""
    held = {one for rows in facts.values() for row in rows for one in row}
    unknowns = sorted((one for one in held if isinstance(one, Unknown)), key=lambda one: one.expression)
    unsure = sorted({(name, row) for name, rows in maybe.items() for row in rows}, key=repr)
    gone = [set(some) for size in range(len(unsure) + 1) for some in combinations(unsure, size)]
    for meaning, missing in product(product(values, repeat=len(unknowns)), gone):
        stands: dict[Value, Value] = dict(zip(unknowns, meaning, strict=True))
        rest = {name: [row for row in rows if (name, row) not in missing] for name, rows in facts.items()}
        yield (
            stands,
            {name: [tuple(stands.get(one, one) for one in row) for row in rows] for name, rows in rest.items()},
        )


def covers(row: Row, stands: Mapping[Value, Value], actual: Row) -> bool:
    """Whether the row is the actual one if the unknowns stand for this. A computed unknown stands for anything."""
    known = (stands.get(one, one) for one in row)
    return all(isinstance(one, Unknown) or one == other for one, other in zip(known, actual, strict=True))


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_certain_holds_in_every_outcome_and_possible_covers_every_outcome(
    case: tuple[CheckedProgram, Facts, Facts, list[Value]],
) -> None:
    plain, facts, maybe, values = case
    finished = divided(plain, facts, maybe)
    model = evaluate(finished, filled(finished, facts, maybe), Budget(seconds=LOOKS, clock=count().__next__))
    assume(not model.exceeded)
    assert model.errors == ()
    for stands, actual in outcomes(facts, maybe, values):
        world = evaluate(plain, actual)
        for relation in {name for stratum in plain.strata for name in stratum.relations}:
            rows, loose = world.rows(relation), model.rows(possible(relation, finished))
            assert [one for one in model.rows(relation) if not any(covers(one, stands, row) for row in rows)] == []
            assert [row for row in rows if not any(covers(one, stands, row) for one in loose)] == []
