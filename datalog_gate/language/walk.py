"""Walks through the syntax tree (layer 1): all nodes below some, their variables, and to which level a name belongs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from datalog_gate.language import ast

Node = ast.Literal | ast.Term


def nodes(roots: Iterable[Node]) -> Iterator[Node]:
    """The nodes and all nodes inside them."""
    for node in roots:
        yield node
        yield from nodes(children(node))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below one."""
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


def variables(roots: Iterable[Node]) -> Iterator[ast.Variable]:
    """Each occurrence of a variable."""
    return (node for node in nodes(roots) if isinstance(node, ast.Variable))


def shared(body: Iterable[Node], terms: Iterable[ast.Term] = ()) -> dict[str, None]:
    """The names that belong to this level: written on it, or in a negation below it and in another
    negation or an aggregate (whose locals they then can't be). Aggregates alone have separate locals."""
    direct: dict[str, None] = {}
    held: Counter[str] = Counter()
    negated: set[str] = set()
    pending: list[Node] = [*body, *terms]
    while pending:
        node = pending.pop(0)
        match node:
            case ast.Variable():
                direct[node.name] = None
            case ast.Negation() | ast.Aggregate():
                inner = {variable.name: None for variable in variables(children(node))}
                held.update(inner.keys())
                negated.update(inner if isinstance(node, ast.Negation) else ())
            case _:
                pending[:0] = children(node)
    return {**direct, **{name: None for name in held if held[name] > 1 and name in negated}}
