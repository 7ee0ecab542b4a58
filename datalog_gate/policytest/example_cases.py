"""Examples of policies as cases of a test file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from datalog_gate.analysis.program import find_input
from datalog_gate.base.records import replace
from datalog_gate.examples.case_building import Case as ExampleCase
from datalog_gate.examples.example_search import PolicyExamples
from datalog_gate.policytest.comparison import CaseFinding
from datalog_gate.policytest.editor import add_case
from datalog_gate.policytest.suite import Suite
from datalog_gate.policytest.testfile import Case
from datalog_gate.schema import cloud


def write_cases(text: str, file: str, found: Iterable[PolicyExamples], suite: Suite | None = None) -> str:
    """Add the examples to the text of a test file as cases. They expect what the policies of the suite find, or else
    the finding of their own policy. Errors: InputError, UsageError."""
    for examples in found:
        for name, case, findings in _cases(examples):
            if suite and "inventory" in case:
                rows = {_shorten(relation, suite): rows for relation, rows in case["inventory"].items()}
                case = {**case, "inventory": rows}
            text = add_case(text, file, name, case, _judge(suite, name, case) if suite else findings)
    return text


def _cases(found: PolicyExamples) -> Iterator[tuple[str, ExampleCase, list[CaseFinding]]]:
    """The name, the case and the finding of each example."""
    policy, number = found.policy.id, 0
    for example in found.examples:
        number += 1
        finding = CaseFinding("violations", policy, None, example.message, example.resource)
        yield f"{policy} denies {number}", example.case, [finding]
        for flip in example.flips:
            number += 1
            yield f"{policy} passes {number}: {flip.condition} is false", flip.case, []


def _shorten(relation: str, suite: Suite) -> str:
    """The name of a relation in a test file: of one of the rules without the module, which depends on the folder that
    is loaded, unless others are called the same."""
    name = relation.rpartition(":")[2]
    try:
        is_known = find_input(suite.rules.program, name) is not None
    except ValueError:
        is_known = False
    return name if is_known and not cloud.relation(relation) else relation


def _judge(suite: Suite, name: str, case: ExampleCase) -> list[CaseFinding]:
    """What the suite finds, without lines, since the case has none yet."""
    given: dict[str, Any] = {**case, "now": datetime.fromisoformat(case["now"])}
    return [replace(finding, place=None) for finding in suite.run(Case(name, 1, given, {})).findings]
