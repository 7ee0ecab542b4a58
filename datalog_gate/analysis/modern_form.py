"""The modern form of rules: functions stand where their results are used.

``p(x) :- q(x), lower(x, y), matches(y, "^a")`` => ``p(x) :- q(x), matches(lower(x), "^a")``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from datalog_gate.base.records import replace
from datalog_gate.language import ast
from datalog_gate.language.walk import nodes, variables, with_terms
from datalog_gate.language.walk import terms as terms_of
from datalog_gate.schema.signatures import BUILTINS, Builtin


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


def _within(literal: ast.Literal, twice: Collection[str], own: Collection[str]) -> ast.Literal:
    match literal:
        case ast.Negation():
            return replace(literal, body=_modernize(literal.body, twice, own))
        case ast.Disjunction():
            return replace(literal, branches=tuple(_modernize(branch, twice, own) for branch in literal.branches))
        case ast.Comparison():
            left, right = (_within_term(side, twice, own) for side in (literal.left, literal.right))
            return replace(literal, left=left, right=right)
    return literal


def _within_term(term: ast.Term, twice: Collection[str], own: Collection[str]) -> ast.Term:
    return replace(term, body=_modernize(term.body, twice, own)) if isinstance(term, ast.Aggregate) else term


def _is_function(atom: ast.Atom, own: Collection[str]) -> bool:
    builtin = _builtin(atom, own)
    return bool(builtin and len(builtin.outputs) == 1 and not atom.named and builtin.accepts(len(atom.arguments) - 1))


def _builtin(atom: ast.Atom, own: Collection[str]) -> Builtin | None:
    return None if atom.name in own else BUILTINS.get(atom.name.removeprefix("builtin:"))


def _as_function(atom: ast.Atom) -> ast.Function:
    return ast.Function(atom.name, atom.arguments[:-1], span=atom.span)


def _put(
    literal: ast.Literal, variable: ast.Variable, function: ast.Function, own: Collection[str]
) -> ast.Literal | None:
    """The literal with the function in place of the variable; None if it is not a term of the literal itself."""
    match literal:
        case ast.Atom(arguments=(*_, last)) if last == variable and _is_function(literal, own):
            return ast.Comparison("=", _as_function(literal), function, span=literal.span)
        case ast.Atom():
            found, changed = _put_terms(terms_of(literal), variable, function)
            return with_terms(literal, changed) if found else None
        case ast.Negation(body=(ast.Atom() as test,)) if (builtin := BUILTINS.get(test.name)) and not builtin.outputs:
            put = None if _is_partial(function) else _put(test, variable, function, own)
            return replace(literal, body=(put,)) if put else None
        case ast.Comparison():
            found, (left, right) = _put_terms((literal.left, literal.right), variable, function)
            return replace(literal, left=left, right=right) if found else None
        case ast.Membership():
            found, (term, *items) = _put_terms((literal.term, *literal.items), variable, function)
            return replace(literal, term=term, items=tuple(items)) if found else None
    return None


def _is_partial(function: ast.Function) -> bool:
    inner = (node.name for node in nodes((function,)) if isinstance(node, ast.Function))
    return any(BUILTINS[name.removeprefix("builtin:")].partial for name in inner)


def _put_terms(
    terms: Sequence[ast.Term], variable: ast.Variable, function: ast.Function
) -> tuple[bool, list[ast.Term]]:
    changed = [_put_term(term, variable, function) for term in terms]
    return changed != [*terms], changed


def _put_term(term: ast.Term, variable: ast.Variable, function: ast.Function) -> ast.Term:
    match term:
        case ast.Variable():
            return function if term == variable else term
        case ast.BinaryOperation():
            left, right = (_put_term(side, variable, function) for side in (term.left, term.right))
            return replace(term, left=left, right=right)
        case ast.Function():
            return replace(term, arguments=tuple(_put_term(part, variable, function) for part in term.arguments))
    return term
