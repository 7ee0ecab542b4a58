"""Where the variables of a syntax tree occur (layer 2).

In: literals and terms as written. Out: the nodes inside them, their variables, and the names that belong to a level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from datalog_gate.language import ast

Node = ast.Literal | ast.Term


def nodes_of(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes and all nodes inside them."""
    for node in nodes:
        yield node
        yield from nodes_of(_children(node))


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case ast.Atom():
            return (*node.arguments, *(named.term for named in node.named))
        case ast.Comparison() | ast.Operation():
            return (node.left, node.right)
        case ast.Membership():
            return (node.term, *node.items)
        case ast.Negation():
            return node.body
        case ast.Aggregate():
            return (*node.terms, *node.body)
        case ast.Disjunction():
            return tuple(literal for branch in node.branches for literal in branch)
        case _:
            return ()


def variables_of(nodes: Iterable[Node]) -> Iterator[ast.Variable]:
    return (node for node in nodes_of(nodes) if isinstance(node, ast.Variable))


def shared(body: Iterable[Node], terms: Iterable[ast.Term] = ()) -> dict[str, None]:
    """The names that belong to this level: written on it, or in two negations below it (whose locals they then can't
    be). What only one negation or aggregate holds is local there; two aggregates have separate locals."""
    direct: dict[str, None] = {}
    negated: Counter[str] = Counter()
    pending: list[Node] = [*body, *terms]
    while pending:
        node = pending.pop(0)
        match node:
            case ast.Variable():
                direct[node.name] = None
            case ast.Negation() | ast.Aggregate():
                inner = {variable.name for variable in variables_of(_children(node))}
                negated.update({name: 2 if isinstance(node, ast.Negation) else 1 for name in inner})
            case _:
                pending[:0] = _children(node)
    return {**direct, **{name: None for name, weight in negated.items() if weight > 2}}
