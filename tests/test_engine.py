"""The native engine against the oracle."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, reject, settings

from datalog_gate.analysis.check import check
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.base.errors import RulesError
from datalog_gate.base.values import TRUE
from datalog_gate.engine import native
from datalog_gate.language.parser import parse
from tests.differential import answer, oracle
from tests.programs import EVERYTHING, Facts, facts, programs, texts
from tests.sampling import sample

many = settings(max_examples=sample(150), suppress_health_check=list(HealthCheck))


@many
@given(programs(), facts())
def test_the_engine_gives_the_rows_and_errors_of_the_oracle(program: CheckedProgram, given_facts: Facts) -> None:
    assert answer(native.evaluate(program, given_facts)) == oracle((program, given_facts))


TEXTS = replace(EVERYTHING, values=(None, TRUE, 1, 2, "a", "2027-03-02"), inputs={"m:e": 2, "m:n": 1, "m:s": 1})
DECLARED = "relation e(a: any, b: any). relation n(a: any). relation s(a: any).\n"


@many
@given(texts(), facts(TEXTS))
def test_rules_as_written_mean_the_same_to_the_oracle(text: str, given_facts: Facts) -> None:
    module, wrong = parse(DECLARED + text, "m.dl", "m")
    assert not wrong
    try:
        program = check([module]).program
    except RulesError:
        reject()
    assert answer(native.evaluate(program, given_facts)) == oracle((program, given_facts))
