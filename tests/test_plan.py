from __future__ import annotations

from dataclasses import replace
from itertools import islice, permutations
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalog_gate.analysis.program import CheckedLiteral, CheckedProgram, CheckedRule, Var
from datalog_gate.engine.plan import plan
from datalog_gate.gate.policyset import load
from datalog_gate.sources import read_rules
from tests.programs import programs

RULES = Path(__file__).parents[1] / "rules"


def renamed(rule: CheckedRule) -> CheckedRule:
    """The rule with other names of variables, and every body turned round."""

    def var(one: Any) -> Any:
        return Var(f"{one.name[::-1]}'") if isinstance(one, Var) else one

    def literal(one: CheckedLiteral) -> CheckedLiteral:
        changed = {name: getattr(one, name) for name in one.__dataclass_fields__}
        for name, value in changed.items():
            if name == "body":
                changed[name] = tuple(map(literal, reversed(value)))
            else:
                changed[name] = tuple(map(var, value)) if isinstance(value, tuple) else var(value)
        return type(one)(**changed)

    return replace(rule, arguments=tuple(map(var, rule.arguments)), body=tuple(map(literal, reversed(rule.body))))


def test_every_order_of_our_rules_and_their_literals_has_the_same_plans() -> None:
    rules = [rule for stratum in load(read_rules([RULES])).program.strata for rule in stratum.rules]
    for rule in rules:
        first = plan(rule, len)
        assert plan(renamed(rule), len) == first
        for body in islice(permutations(rule.body), 120):
            assert plan(replace(rule, body=body), len) == first


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.randoms())
def test_no_order_of_literals_changes_a_plan(program: CheckedProgram, random: st.randoms) -> None:  # type: ignore[valid-type]
    for stratum in program.strata:
        for rule in stratum.rules:
            body = list(rule.body)
            random.shuffle(body)  # type: ignore[attr-defined]
            assert plan(replace(rule, body=tuple(body)), len) == plan(rule, len)
            assert plan(renamed(rule), len) == plan(rule, len)
