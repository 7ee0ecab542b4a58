"""A text or pattern that finds something else than meant."""

from __future__ import annotations

import re

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import TESTS
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.patterns import find_looseness, find_problem
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Value, print_value
from datalog_gate.language import ast
from datalog_gate.schema.signatures import PATTERN, Builtin

LIKE_PATTERN = re.compile(r"\.[*+]|\[[^]]+\][*+]|\[\^?\w-\w\]|^\^|\$$|[\w-]\*$|\w\|\w|[A-Za-z-]%$")


@lint(
    code="loose-pattern",
    wrong='p(x) :- heat:resource(id=x, name=n), matches(n, "^web|db$").',
    right='p(x) :- heat:resource(id=x, name=n), matches(n, "^(web|db)$").',
)
def find_text_searches(review: Review) -> Found:
    for node, module in review.nodes:
        if isinstance(node, ast.Atom) and isinstance(builtin := review.names.relation(node, module), Builtin):
            for column, term in zip(builtin.inputs, node.arguments, strict=False):
                if column.name == PATTERN and isinstance(term, ast.Constant):
                    yield from _find_loose(term.value, term.span)
    for call, body in review.calls:
        if call.builtin in TESTS:
            yield from _find(call, body)


def _find_loose(pattern: Value, span: Span) -> Found:
    if isinstance(pattern, str) and not find_problem(pattern) and (loose := find_looseness(pattern)):
        yield warn("loose-pattern", loose[0], span, loose[1])


def _find(call: ir.Call, body: BodyFacts) -> Found:
    part = call.inputs[1]
    for wanted, span in body.texts(part, call.span):
        if call.builtin == "matches":
            if isinstance(part, ir.Var):
                yield from _find_loose(wanted, span)
        elif LIKE_PATTERN.search(wanted):
            message = f"{call.builtin} looks for {print_value(wanted)} literally, not as a pattern"
            yield warn("loose-pattern", message, span, "use matches, or remove the wildcards")
