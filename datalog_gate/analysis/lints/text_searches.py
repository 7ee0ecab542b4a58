"""A text or pattern that finds something else than meant."""

from __future__ import annotations

import re

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import TESTS, quoted
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.patterns import find_looseness, find_problem
from datalog_gate.language import ast
from datalog_gate.schema.signatures import PATTERN, Builtin

LIKE_PATTERN = re.compile(r"\.[*+]|\[[^]]+\][*+]|\[\^?\w-\w\]|^\^|\$$|[\w-]\*$|\w\|\w|[A-Za-z-]%$")


@lint(
    code="loose-pattern",
    wrong='p(x) :- heat:resource(id=x, name=n), matches(n, "^web|db$").',
    right='p(x) :- heat:resource(id=x, name=n), matches(n, "^(web|db)$").',
)
def find_text_searches(review: Review) -> Found:
    for atom, builtin in review.atoms:
        if isinstance(builtin, Builtin):
            yield from _find_written(atom, builtin)
    for call, body in review.calls:
        if call.builtin in TESTS:
            yield from _find(call, body)


def _find_written(atom: ast.Atom, builtin: Builtin) -> Found:
    for column, term in zip(builtin.inputs, atom.arguments, strict=False):
        pattern = term.value if column.name == PATTERN and isinstance(term, ast.Constant) else None
        if isinstance(pattern, str) and not find_problem(pattern) and (loose := find_looseness(pattern)):
            yield warn("loose-pattern", loose[0], term.span, loose[1])


def _find(call: ir.Call, body: BodyFacts) -> Found:
    part = call.inputs[1]
    for wanted, span in body.texts(part, call.span):
        if call.builtin == "matches":
            if isinstance(part, ir.Var) and (loose := find_looseness(wanted)):
                yield warn("loose-pattern", loose[0], span, loose[1])
        elif LIKE_PATTERN.search(wanted):
            message = f"{call.builtin} looks for {quoted(wanted)} literally, not as a pattern"
            yield warn("loose-pattern", message, span, "use matches, or remove the wildcards")
