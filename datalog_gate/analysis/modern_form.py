"""The modern form of rules: functions stand where their results are used.

``p(x) :- q(x), lower(x, y), matches(y, "^a")`` => ``p(x) :- q(x), matches(lower(x), "^a")``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import Any

from datalog_gate.base.records import replace
from datalog_gate.language import ast
from datalog_gate.language.walk import map_children, nodes, variables
from datalog_gate.schema.signatures import BUILTINS


def modernize(module: ast.Module) -> ast.Module:
    """Each builtin whose result has one use, beside it in its body, becomes a term there. Nothing else changes."""
    own = {rule.head.name.rpartition(":")[2] for rule in module.rules}
    own |= {statement.name for statement in module.statements if isinstance(statement, ast.Declaration)}
    changed = (_modernize_rule(part, own) if isinstance(part, ast.Rule) else part for part in module.statements)
    return replace(module, statements=tuple(changed))


def _modernize_rule(rule: ast.Rule, own: Collection[str]) -> ast.Rule:
    uses = Counter(variable.name for variable in variables((rule.head, *rule.body)))
    return replace(rule, body=_modernize(rule.body, {name for name in uses if uses[name] == 2}, own))


def _modernize(body: ast.Body, twice: Collection[str], own: Collection[str]) -> ast.Body:
    """The body with functions as terms, where `twice` are the variables that occur twice in the rule."""
    literals = [_within(literal, twice, own) for literal in body]
    at = 0
    while at < len(literals):
        literal = literals[at]
        result = literal.arguments[-1] if isinstance(literal, ast.Atom) and _is_function(literal, own) else None
        at += 1
        if isinstance(literal, ast.Atom) and isinstance(result, ast.Variable) and result.name in twice:
            function = _as_function(literal)
            others = [other for other in literals if other is not literal]
            changed = [_put(other, result, function, own) or other for other in others]
            if changed != others:
                literals, at = changed, 0  # what uses the result may have one use itself
    return tuple(literals)


def _within(node: Any, twice: Collection[str], own: Collection[str]) -> Any:
    match node:
        case ast.Negation() | ast.Aggregate():
            return replace(node, body=_modernize(node.body, twice, own))
        case ast.Disjunction():
            return replace(node, branches=tuple(_modernize(branch, twice, own) for branch in node.branches))
        case ast.Comparison():
            return map_children(node, partial(_within, twice=twice, own=own))
    return node


def _is_function(atom: ast.Atom, own: Collection[str]) -> bool:
    builtin = None if atom.name in own else BUILTINS.get(atom.name.removeprefix("builtin:"))
    return bool(builtin and len(builtin.outputs) == 1 and not atom.named and builtin.accepts(len(atom.arguments) - 1))


def _as_function(atom: ast.Atom) -> ast.Function:
    return ast.Function(atom.name, atom.arguments[:-1], span=atom.span)


def _put(
    literal: ast.Literal, variable: ast.Variable, function: ast.Function, own: Collection[str]
) -> ast.Literal | None:
    """The literal with the function in place of the variable; None if it is not a term of the literal itself."""
    match literal:
        case ast.Atom(arguments=(*_, last)) if last == variable and _is_function(literal, own):
            return ast.Comparison("=", _as_function(literal), function, span=literal.span)
        case ast.Atom() | ast.Comparison() | ast.Membership():
            changed: ast.Literal = map_children(literal, partial(_put_term, variable, function))
            return changed if changed != literal else None
        case ast.Negation(body=(ast.Atom() as test,)) if (builtin := BUILTINS.get(test.name)) and not builtin.outputs:
            put = None if _is_partial(function) else _put(test, variable, function, own)
            return replace(literal, body=(put,)) if put else None
    return None


def _is_partial(function: ast.Function) -> bool:
    inner = (node.name for node in nodes((function,)) if isinstance(node, ast.Function))
    return any(BUILTINS[name.removeprefix("builtin:")].partial for name in inner)


def _put_term(variable: ast.Variable, function: ast.Function, term: ast.Term) -> Any:
    if isinstance(term, ast.BinaryOperation | ast.Function):
        return map_children(term, partial(_put_term, variable, function))
    return function if term == variable else term
