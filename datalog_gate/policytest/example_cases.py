"""Examples of policies as cases of a test file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from datalog_gate.examples.case_building import Case
from datalog_gate.examples.example_search import PolicyExamples
from datalog_gate.policytest.comparison import CaseFinding
from datalog_gate.policytest.editor import add_case

Findings = Callable[[Case], Sequence[CaseFinding]]
"""The findings of a case, as its test is to expect them."""


def write_cases(text: str, file: str, found: Iterable[PolicyExamples], judge: Findings | None = None) -> str:
    """Add the examples to the text of a test file as cases. They expect what `judge` finds, or else the finding of
    their policy. Errors: InputError, UsageError."""
    for examples in found:
        for name, case, findings in _cases(examples):
            text = add_case(text, file, name, case, judge(case) if judge else findings)
    return text


def _cases(found: PolicyExamples) -> Iterator[tuple[str, Case, list[CaseFinding]]]:
    """The name, the case and the finding of each example."""
    policy, number = found.policy.id, 0
    for example in found.examples:
        number += 1
        finding = CaseFinding("violations", policy, None, example.message, example.resource)
        yield f"{policy} denies {number}", example.case, [finding]
        for flip in example.flips:
            number += 1
            yield f"{policy} passes {number}: {flip.condition} is false", flip.case, []
