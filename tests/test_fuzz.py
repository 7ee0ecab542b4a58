"""No text of rules crashes the reader, and reading is linear."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import pytest

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import RulesError
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.language.parser import parse
from tests.fuzz import attempt, text
from tests.sampling import sample


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(10))
def test_no_text_crashes(seed: int) -> None:
    for number in range(seed * 20, seed * 20 + sample(20)):
        attempt(text(Random(number)))


@pytest.mark.sampled
def test_reading_takes_steps_in_proportion_to_the_length() -> None:
    for number in range(sample(400)):
        written = text(Random(number))
        taken = steps(parse, written, "f.dl", "f")
        assert taken <= 2000 + 60 * len(written), f"seed {number}"


HEAD = '@deny("a", "{x}") p(x) :- heat:stack(id=x)'
LONG: dict[str, Callable[[int], str]] = {
    "a relation again and again": lambda many: 'q("a").\n' + HEAD + ", q(x)" * many + ".",
    "negations": lambda many: HEAD + "".join(f', not heat:stack(id=x, name="{at}")' for at in range(many)) + ".",
    "tests for null": lambda many: (
        HEAD + "".join(f", heat:stack(id=x, parent=d{at}), d{at} = null" for at in range(many)) + "."
    ),
    "aggregates": lambda many: (
        HEAD
        + "".join(f", n{at} = count{{ r{at} : heat:resource(stack=x, id=r{at}) }}, n{at} > 1" for at in range(many))
        + "."
    ),
    "alternatives": lambda many: (
        HEAD + ", (" + " or ".join(f'heat:stack(id=x, name="{at}")' for at in range(many)) + ")."
    ),
    "a chain of rules": lambda many: (
        "".join(f"p{at}(x) :- p{at + 1}(x).\n" for at in range(many)) + f"p{many}(1).\n" + HEAD + ", p0(_)."
    ),
}
"""Rules of any length."""


@pytest.mark.parametrize("shape", LONG)
def test_checking_takes_steps_in_proportion_to_the_length(shape: str) -> None:
    short, long = (steps(load, [RuleFile("f", "f.dl", LONG[shape](many))]) for many in (100, 200))
    assert long <= 2.4 * short


def steps(reading: Callable[..., object], *of: object) -> int:
    """Count the calls of a reading, of our own functions and of Python's."""
    count = 0

    def called(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        reading(*of)
    finally:
        sys.setprofile(None)
    return count


FOUND = [
    # a rule narrower than the relation that another rule makes of its name
    ("p. p(x) :- q(x). q(1).", Diagnostic("arity", "p has 0 columns, here 1", Span("f.dl", 1, 4, 1, 8),
                                          "give every rule of a relation the same arguments")),
]  # fmt: skip
"""What crashed once, and what is said about it now."""


@pytest.mark.parametrize(("written", "diagnostic"), FOUND)
def test_what_crashed_once_is_refused(written: str, diagnostic: Diagnostic) -> None:
    with pytest.raises(RulesError) as refused:
        load([RuleFile("f", "f.dl", written)])
    assert refused.value.diagnostics == (diagnostic,)
