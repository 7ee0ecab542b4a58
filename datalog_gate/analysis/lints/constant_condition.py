"""A condition that always holds, or never does.

It is ``(x != "a" or x != "b")``, or a list without values.
"""

from __future__ import annotations

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.language import ast


@lint(
    code="never-fires",
    wrong='p(x) :- heat:resource(id=x, name=n), (n != "web" or n != "db").',
    right='p(x) :- heat:resource(id=x, name=n), n != "web", n != "db".',
)
def find_constant_conditions(review: Review) -> Found:
    for node, _ in review.nodes:
        match node:
            case ast.Membership(items=()):
                yield warn("never-fires", "the list is empty, so this never holds", node.span, "add values to the list")
            case ast.Disjunction():
                yield from _find(node)


def _find(choices: ast.Disjunction) -> Found:
    unequal: dict[str, object] = {}
    for branch in choices.branches:
        match branch:
            case (ast.Comparison("!=", ast.Variable(name), ast.Constant(value)),):
                if value != unequal.setdefault(name, value):
                    message = f"every {name} differs from at least one of the two values: this always holds"
                    yield warn("never-fires", message, choices.span, f"write `,` for `or`, or not ({name} in [...])")
