"""The bounds of waivers, such as ``n <= 120``."""

from __future__ import annotations

from collections.abc import Mapping

from datalog_gate.base.values import Value
from datalog_gate.engine.builtins import EvaluationError, compare
from datalog_gate.language.ast import Comparison, Constant, Variable
from datalog_gate.language.parser import parse_query


def comparison(text: str) -> Comparison | str:
    """Parse a bound: a column of the head compared with a constant or another column. Returns an error message
    otherwise."""
    body, problems = parse_query(f":- {text}")
    match body:
        case (Comparison(_, Variable() | Constant() as left, Variable() | Constant() as right) as comparison,):
            if Variable not in (type(left), type(right)):
                return "it names no column"
            same = isinstance(left, Variable) and isinstance(right, Variable) and left.name == right.name
            return "both sides are the same" if same else comparison
    return problems[0].message if problems else "it is not a comparison of a column"


def names_of(bound: Comparison) -> list[str]:
    """The columns that a bound names."""
    return [term.name for term in (bound.left, bound.right) if isinstance(term, Variable)]


def holds(text: str, named: Mapping[str, Value]) -> bool:
    """Whether the bound certainly holds. Values that cannot be compared do not satisfy it."""
    bound = comparison(text)
    if isinstance(bound, str):
        return False
    terms = (bound.left, bound.right)
    left, right = (term.value if isinstance(term, Constant) else named.get(getattr(term, "name", "")) for term in terms)
    try:
        return compare(bound.comparator, left, right, False, Constant(None) in terms)
    except EvaluationError:
        return False
