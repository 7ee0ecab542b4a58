"""No text of rules crashes what reads it, and reading takes steps in proportion to its length."""

from __future__ import annotations

import sys
from random import Random

import pytest

from datalog_gate.diagnostics import Diagnostic, Span
from datalog_gate.errors import RulesError
from datalog_gate.gate.policyset import RuleFile, load
from datalog_gate.language.parser import parse
from tests.fuzz import attempt, text


@pytest.mark.parametrize("seed", range(10))
def test_no_text_crashes(seed: int) -> None:
    for number in range(seed * 20, seed * 20 + 20):
        attempt(text(Random(number)))


def test_reading_takes_steps_in_proportion_to_the_length() -> None:
    for number in range(400):
        written = text(Random(number))
        assert steps(written) <= 2000 + 60 * len(written), f"seed {number}"


def steps(written: str) -> int:
    """How many calls the parser makes, of its own functions and of Python's."""
    count = 0

    def called(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        parse(written, "f.dl", "f")
    finally:
        sys.setprofile(None)
    return count


FOUND = [
    # a rule narrower than the relation that another rule makes of its name
    ("p. p(x) :- q(x). q(1).", Diagnostic("arity", "p has 0 columns, here 1", Span("f.dl", 1, 4, 1, 8),
                                          "give every rule of a relation the same arguments")),
]  # fmt: skip
"""What crashed once, and what is said about it now."""


@pytest.mark.parametrize(("written", "said"), FOUND)
def test_what_crashed_once_is_refused(written: str, said: Diagnostic) -> None:
    with pytest.raises(RulesError) as refused:
        load([RuleFile("f", "f.dl", written)])
    assert refused.value.diagnostics == (said,)
