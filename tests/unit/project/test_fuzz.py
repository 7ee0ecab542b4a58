"""No text or request crashes a reader, nor takes too long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import pytest

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import RulesError
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.language.parser import parse
from tests.fuzz_commands import Workshop
from tests.fuzz_stacks import Trial
from tests.fuzz_texts import attempt, text
from tests.sampling import sample


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(10))
def test_no_text_crashes(seed: int) -> None:
    for number in range(seed * 20, seed * 20 + sample(20)):
        attempt(number)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(tmp_path_factory.mktemp("trial"))


@pytest.mark.slow
def test_no_request_makes_an_error_line_or_an_answer_of_ours(trial: Trial) -> None:
    """The first requests; ``tox -e fuzz`` tries more, and so it is with commands."""
    for number in range(20):
        trial.attempt(number)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


def test_no_command_ends_outside_the_contract(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATALOG_GATE_RULES", raising=False)
    for number in range(15):
        workshop.attempt(number)


@pytest.mark.sampled
def test_reading_takes_steps_in_proportion_to_the_length() -> None:
    for number in range(sample(400)):
        written = text(Random(number))
        taken = steps(parse, written, "f.dl", "f")
        assert taken <= 2000 + 60 * len(written), f"seed {number}"


HEAD = '@deny("a", "{x}") p(x) :- heat:stack(id=x)'
LONG: dict[str, Callable[[int], str]] = {
    "a relation again and again": lambda many: 'q("a").\n' + HEAD + ", q(x)" * many + ".",
    "negations": lambda many: HEAD + repeated(', not heat:stack(id=x, name="@")', many) + ".",
    "tests for null": lambda many: HEAD + repeated(", heat:stack(id=x, parent=d@), d@ = null", many) + ".",
    "aggregates": lambda many: (
        HEAD + repeated(", n@ = count{ r@ : heat:resource(stack=x, id=r@) }, n@ > 1", many) + "."
    ),
    "alternatives": lambda many: HEAD + ", (false" + repeated(' or heat:stack(id=x, name="@")', many) + ").",
    "a chain of rules": lambda many: (
        "".join(f"p{at}(x) :- p{at + 1}(x).\n" for at in range(many)) + f"p{many}(1).\n" + HEAD + ", p0(_)."
    ),
}
"""Rules of any length."""


def repeated(condition: str, many: int) -> str:
    """The conditions, with a number for each ``@``."""
    return "".join(condition.replace("@", str(at)) for at in range(many))


@pytest.mark.slow
@pytest.mark.parametrize("shape", LONG)
def test_checking_takes_steps_in_proportion_to_the_length(shape: str) -> None:
    short, long = (steps(load, [RuleFile("f", "f.dl", LONG[shape](many))]) for many in (80, 160))
    assert short <= 1_000_000  # of the longest body that reviews still read
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


def test_a_rule_narrower_than_the_relation_that_another_rule_makes_is_refused() -> None:
    with pytest.raises(RulesError) as refused:
        load([RuleFile("f", "f.dl", "p. p(x) :- q(x). q(1).")])
    advice = "give every rule of a relation the same number of arguments"
    diagnostic = Diagnostic("arity", "p has 0 columns, found 1", Span("f.dl", 1, 4, 1, 8), advice)
    assert refused.value.diagnostics == (diagnostic,)
