"""The native engine against the oracle."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, reject, settings

from datalog_gate.base.values import NO_VALUE, Row
from datalog_gate.engine import native
from tests.differential import answer, expected_answer, filled, load
from tests.rule_texts import GivenRows, cases
from tests.sampling import sample

many = settings(max_examples=sample(300), suppress_health_check=list(HealthCheck))


@many
@given(cases())
def test_the_engine_gives_the_rows_and_errors_of_the_oracle(case: tuple[str, GivenRows]) -> None:
    text, rows = case
    loaded = load(text)
    if loaded is None:
        reject()
    module, program = loaded
    expected, facts = expected_answer(module, rows), filled(program, rows)
    assert answer(native.evaluate(program, facts), module) == expected
    assert answer(native.evaluate_once(program, facts), module) == expected


ERRORS = {
    "a tuple in error that is there without error counts": (
        "p(n) :- n = count{ x : e(x, y), 1 / y > 0 }.",
        {(1,)}, set()),
    "a row in error under an aggregate, whose column is there without error": (
        "q(x, y) :- e(x, y), 1 / y > 0. p(n) :- n = count{ x : q(x, _) }.",
        {(1,)}, set()),
    "a tuple in error that is there in no other way is an error": (
        "p(n) :- n = count{ x, y : e(x, y), 1 / y > 0 }.",
        set(), {((NO_VALUE,), 36)}),
    "a row that is derived and in error is derived": (
        "p(x) :- e(x, y), 1 / y > 0.",
        {(1,)}, set()),
    "so is one with a null": (
        "p(null) :- e(x, y), 1 / y > 0.",
        {(None,)}, set()),
    "a null in a row in error joins nothing": (
        "q(null) :- e(x, y), 1 / y > 1. q(5). p(x) :- q(x), e(x, _).",
        set(), set()),
    "what an error leaves open is any value": (
        "q(z) :- e(x, y), z = 2 / y. p(z) :- q(z), z in [2, 7].",
        {(2,)}, {((7,), 22)}),
    "what an error leaves open has no value": (
        "q(z) :- e(x, y), z = 2 / y. p(z) :- q(z), z != 2.",
        set(), {((NO_VALUE,), 22)}),
    "a literal that needs what an error left out says nothing": (
        "p(x) :- e(x, y), z = 1 / y, z < 0.",
        set(), {((1,), 22)}),
    "a literal that is false beats an error": (
        "p(x) :- e(x, y), 1 / y > 0, y > 0.",
        {(1,)}, set()),
    "a recursion goes on behind an error": (
        "f(5, 0). f(5, 1). f(1, 2). f(2, 3). f(3, 4). p(5). p(y) :- p(x), f(x, y), 6 / y > 0.",
        {(5,), (1,), (2,), (3,), (4,)}, {((0,), 75)}),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_of_errors_and_rows(name: str) -> None:
    text, rows, errors = ERRORS[name]
    loaded = load("relation e(a: number, b: number).\n" + text)
    assert loaded
    module, program = loaded
    facts: GivenRows = {"e": [(1, 0), (1, 1)]}
    answers = answer(native.evaluate(program, filled(program, facts)), module)
    assert answers == expected_answer(module, facts)
    in_error: set[tuple[Row, int]] = {(row, span.column) for row, span in answers[1]["p"]}
    assert (answers[0]["p"], in_error) == (rows, errors)
