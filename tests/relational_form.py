"""Rules without terms of functions: each is a literal.

``p(x) :- q(x), matches(lower(x), "^a")`` => ``p(x) :- q(x), lower(x, y), matches(y, "^a")``
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from datalog_gate.language import ast
from datalog_gate.language.walk import map_children


def relational(module: ast.Module) -> ast.Module:
    """The module in relational form. No variable of it may be named `f` and a number."""
    statements = (_rule(statement) if isinstance(statement, ast.Rule) else statement for statement in module.statements)
    return replace(module, statements=tuple(statements))


@dataclass
class _Conjunction:
    """A body that is being written, with the literals that give the values of functions."""

    numbers: Iterator[int]
    literals: list[ast.Literal] = field(default_factory=list)

    def term(self, term: Any) -> Any:
        """The term with a variable in place of each function."""
        match term:
            case ast.Function():
                arguments = tuple(map(self.term, term.arguments))
                result = ast.Variable(f"f{next(self.numbers)}", span=term.span)
                self.literals.append(ast.Atom(term.name, (*arguments, result), span=term.span))
                return result
            case ast.BinaryOperation():
                return map_children(term, self.term)
            case ast.Aggregate():
                inner = _Conjunction(self.numbers)
                inner.add(term.body)
                terms = tuple(map(inner.term, term.terms))
                return replace(term, terms=terms, body=tuple(inner.literals))
        return term

    def add(self, body: ast.Body) -> None:
        for literal in body:
            self.literals.append(self.literal(literal))

    def literal(self, literal: ast.Literal) -> ast.Literal:
        match literal:
            case ast.Negation():
                return replace(literal, body=self._inner(literal.body))
            case ast.Disjunction():
                return replace(literal, branches=tuple(map(self._inner, literal.branches)))
            case ast.Membership():
                return self._membership(literal)
        changed: ast.Literal = map_children(literal, self.term)
        return changed

    def _membership(self, literal: ast.Membership) -> ast.Literal:
        """Each item is an alternative of its own, so a function in one says nothing of the others."""
        subject = self.term(literal.term)
        equations = [ast.Comparison("=", subject, item, span=literal.span) for item in literal.items]
        branches = tuple(self._inner((equation,)) for equation in equations)
        if all(len(branch) == 1 for branch in branches):
            return replace(literal, term=subject)
        return ast.Disjunction(branches if len(branches) > 1 else branches * 2, span=literal.span)

    def _inner(self, body: ast.Body) -> ast.Body:
        inner = _Conjunction(self.numbers)
        inner.add(body)
        return tuple(inner.literals)


def _rule(rule: ast.Rule) -> ast.Rule:
    body = _Conjunction(count(1))
    body.add(rule.body)
    head = body.literal(rule.head)
    assert isinstance(head, ast.Atom)
    return replace(rule, head=head, body=tuple(body.literals))
