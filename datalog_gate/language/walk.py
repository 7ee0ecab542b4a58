"""Functions that walk the syntax tree.

They find nodes, variables, and the scopes of names.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from datalog_gate.language import ast

Node = ast.Literal | ast.Term


def nodes(roots: Iterable[Node]) -> Iterator[Node]:
    waiting = [*roots][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.Variable | ast.Constant):
            waiting += children(node)[::-1]


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case ast.Atom():
            return terms(node)
        case ast.Comparison() | ast.BinaryOperation():
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


def terms(atom: ast.Atom) -> tuple[ast.Term, ...]:
    """The arguments of an atom, those of named columns last."""
    return (*atom.arguments, *(named.term for named in atom.named))


def with_terms(atom: ast.Atom, terms: Sequence[ast.Term]) -> ast.Atom:
    count = len(atom.arguments)
    named = tuple(
        replace(named_argument, term=term) for named_argument, term in zip(atom.named, terms[count:], strict=True)
    )
    return replace(atom, arguments=tuple(terms[:count]), named=named)


def variables(roots: Iterable[Node]) -> Iterator[ast.Variable]:
    return (node for node in nodes(roots) if isinstance(node, ast.Variable))


def shared(body: Iterable[Node], more: Iterable[ast.Term] = ()) -> dict[str, None]:
    """The names that belong to this level: written on it, or in a negation below it and in something else there (whose
    locals they then can't be). What only one negation holds is local there; aggregates have separate locals."""
    direct: dict[str, None] = {}
    inner_names: Counter[str] = Counter()
    negated: dict[str, None] = {}
    pending: deque[Node] = deque([*body, *more])
    while pending:
        node = pending.popleft()
        match node:
            case ast.Variable():
                direct[node.name] = None
            case ast.Negation() | ast.Aggregate():
                inner = dict.fromkeys(variable.name for variable in variables(children(node)))
                inner_names.update(inner.keys())
                negated |= inner if isinstance(node, ast.Negation) else {}
            case _:
                pending.extendleft(reversed(children(node)))
    return {**direct, **{name: None for name in negated if inner_names[name] > 1}}
