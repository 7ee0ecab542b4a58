"""An aggregate over constants alone.

``sum{ 1 : q(y) }`` is 1, however many rows there are, since an aggregate counts each tuple once.
"""

from __future__ import annotations

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.language.ast import Aggregate, Constant

IN_PLACE_OF_CONSTANTS = {
    **dict.fromkeys(("sum", "avg"), "add the variables that tell the rows apart after it"),
    **dict.fromkeys(("count", "list"), "write the variables that tell the rows apart instead"),
    **dict.fromkeys(("min", "max"), "take a variable of the rows, or match the relation itself"),
}


@lint(
    code="constant-aggregate",
    wrong="p(x) :- heat:stack(id=x), count{ 1 : os:nova:server(_stack=x) } > 3.",
    right="p(x) :- heat:stack(id=x), count{ s : os:nova:server(_stack=x, _id=s) } > 3.",
    loading=False,
)
def find_constant_aggregates(review: Review) -> Found:
    for node, _ in review.nodes:
        if isinstance(node, Aggregate) and all(isinstance(term, Constant) for term in node.terms):
            message = f"every row gives {node.function} the same tuple, which counts only once"
            yield warn("constant-aggregate", message, node.span, IN_PLACE_OF_CONSTANTS[node.function])
