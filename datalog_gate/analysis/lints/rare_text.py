"""A text that occurs once in a module, and nearly equals another.

They differ by one letter, or by two swapped ones. Facts of one relation and choices of one list are not compared with
each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Slips, Span, suggest_name
from datalog_gate.language import ast
from datalog_gate.language.walk import children, nodes


@lint(
    code="used-once",
    wrong='p(x) :- heat:resource(id=x, name="backend"). q(x) :- heat:resource(id=x, name="bakcend").',
    right='p(x) :- heat:resource(id=x, name="backend"). q(x) :- heat:resource(id=x, name="backend").',
)
def find_rare_texts(review: Review) -> Found:
    for module in review.modules:
        places: dict[str, list[tuple[object, Span]]] = {}
        for group, constant, text in _texts(module):
            places.setdefault(text, []).append((group, constant.span))
        slips = Slips(text for text in places if len(text) > 2 and any(map(str.isalpha, text)))
        for text, [(group, span), *more] in places.items():
            if more:
                continue
            near = (other for other in slips.of(text) if len(other) != len(text) or sorted(other) == sorted(text))
            apart = (other for other in near if group is None or any(beside != group for beside, _ in places[other]))
            if other := next(apart, None):
                yield warn("used-once", f"{text!r} occurs once in the module", span, suggest_name(other, "'"))


def _texts(module: ast.Module) -> Iterator[tuple[object, ast.Constant, str]]:
    """The texts of a module's rules. Each comes after its group: the list or the facts it belongs to, or None."""
    for rule in module.rules:
        listed: dict[int, Span] = {}
        for node in nodes((rule.head, *rule.body)):
            if isinstance(node, ast.Membership):
                listed |= dict.fromkeys(map(id, children(node)), node.span)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield listed.get(id(node), None if rule.body else rule.head.name), node, node.value
