"""Functions that walk the syntax tree: nodes, variables, scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from datalog_gate.base.records import replace
from datalog_gate.language import ast

Node = ast.Literal | ast.Term
LEAVES = (ast.Variable, ast.Constant)


def nodes(roots: Iterable[Node]) -> list[Node]:
    """The nodes and those below them, in the order of the text."""
    found: list[Node] = []
    for node in roots:
        found.append(node)
        if not isinstance(node, LEAVES):
            found += nodes(children(node))
    return found


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case ast.Atom():
            return terms(node)
        case ast.Comparison() | ast.BinaryOperation():
            return (node.left, node.right)
        case ast.Membership():
            return (node.term, *node.items)
        case ast.Function():
            return node.arguments
        case ast.Interpolation():
            return tuple(part for part in node.parts if isinstance(part, ast.Variable))
        case ast.Negation():
            return node.body
        case ast.Aggregate():
            return (*node.terms, *node.body)
        case ast.Disjunction():
            return tuple(literal for branch in node.branches for literal in branch)
        case _:
            return ()


def terms(atom: ast.Atom) -> tuple[ast.Term, ...]:
    """The arguments of an atom, named ones last."""
    return (*atom.arguments, *[named.term for named in atom.named])


def with_terms(atom: ast.Atom, terms: Sequence[ast.Term]) -> ast.Atom:
    count = len(atom.arguments)
    named = tuple(
        replace(named_argument, term=term) for named_argument, term in zip(atom.named, terms[count:], strict=True)
    )
    return replace(atom, arguments=tuple(terms[:count]), named=named)


def map_children(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with other children."""
    match node:
        case ast.Atom():
            return with_terms(node, tuple(map(change, terms(node))))
        case ast.Comparison() | ast.BinaryOperation():
            return replace(node, left=change(node.left), right=change(node.right))
        case ast.Membership():
            return replace(node, term=change(node.term), items=tuple(map(change, node.items)))
        case ast.Function():
            return replace(node, arguments=tuple(map(change, node.arguments)))
        case ast.Negation():
            return replace(node, body=tuple(map(change, node.body)))
        case ast.Disjunction():
            return replace(node, branches=tuple(tuple(map(change, branch)) for branch in node.branches))
    return node


def variables(roots: Iterable[Node]) -> Iterator[ast.Variable]:
    return (node for node in nodes(roots) if isinstance(node, ast.Variable))


def shared(body: Iterable[Node], more: Iterable[ast.Term] = ()) -> dict[str, None]:
    """The names that belong to this level: written on it, or in a negation below it and in something else there whose
    local variables they can't be. Names in only one negation are local to it; aggregates have their own local names."""
    direct: dict[str, None] = {}
    inside: list[str] = []
    negated: dict[str, None] = {}
    pending: list[Node] = [*body, *more][::-1]
    while pending:
        node = pending.pop()
        match node:
            case ast.Variable():
                direct[node.name] = None
            case ast.Constant():
                pass
            case ast.Negation() | ast.Aggregate():
                inner = dict.fromkeys(variable.name for variable in variables(children(node)))
                inside += inner
                negated |= inner if isinstance(node, ast.Negation) else {}
            case _:
                pending += children(node)[::-1]
    counts = Counter(inside) if negated else {}
    return {**direct, **{name: None for name in negated if counts[name] > 1}}
