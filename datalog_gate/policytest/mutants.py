"""Mutants of rules, each with one small fault that a test should notice.

Mutants are made on the syntax tree. The loader says whether one loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Boolean, Value, boolean
from datalog_gate.language import ast
from datalog_gate.language.printer import print_literal, print_term
from datalog_gate.language.walk import terms, with_terms

LONGEST = 100
"""How many characters of a change are shown."""
OPPOSITE: dict[ast.Comparator, ast.Comparator] = {
    "=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"
}  # fmt: skip
SHIFTED: dict[ast.Comparator, ast.Comparator] = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with a fault."""

    module: str
    statement: int
    """The index of the statement of the module that the rule replaces."""
    rule: ast.Rule
    span: Span
    what: str
    """The change in words."""


def mutate_module(module: ast.Module) -> Iterator[Mutant]:
    """Make the mutants of a module, in order of its statements, no rule twice."""
    names: dict[int, set[str]] = {}
    for statement in module.statements:
        if isinstance(statement, ast.Rule):
            names.setdefault(len(statement.head.arguments), set()).add(statement.head.name)
    relations = {width: tuple(sorted(same)) for width, same in names.items()}
    for at, statement in enumerate(module.statements):
        # the limits that an operator sets are no rules of the module
        if not isinstance(statement, ast.Rule) or statement.span.file != module.file:
            continue
        seen = [statement]
        for what, span, rule in _rule(statement, relations):
            if rule not in seen:
                seen.append(rule)
                yield Mutant(module.name, at, rule, span, what)


Relations = dict[int, tuple[str, ...]]
"""The relations that the module derives, by their number of columns."""
Bodies = Iterator[tuple[str, Span, ast.Body]]
Terms = Iterator[tuple[str, Span, ast.Term]]


def _rule(rule: ast.Rule, relations: Relations) -> Iterator[tuple[str, Span, ast.Rule]]:
    yield "drop the rule", rule.head.span, replace(rule, body=(ast.Truth(False, rule.head.span),))
    for at, term in enumerate(rule.head.arguments):
        for what, span, new in _term(term, relations):
            arguments = (*rule.head.arguments[:at], new, *rule.head.arguments[at + 1 :])
            yield what, span, replace(rule, head=replace(rule.head, arguments=arguments))
    for what, span, body in _body(rule.body, relations):
        yield what, span, replace(rule, body=body)


def _body(body: ast.Body, relations: Relations) -> Bodies:
    """Make the bodies with one literal changed."""
    for at, literal in enumerate(body):
        for what, span, replacement in (*_whole(literal), *_inside(literal, relations)):
            yield what, span, (*body[:at], *replacement, *body[at + 1 :])


def _whole(literal: ast.Literal) -> Bodies:
    text, span = print_literal(literal), literal.span
    yield f"drop {_short(text)}", span, ()
    match literal:
        case ast.Negation():
            yield f"negate {_short(text)}", span, literal.body
        case ast.Atom() | ast.Membership() | ast.Disjunction():
            yield f"negate {_short(text)}", span, (ast.Negation((literal,), span),)
        case ast.Comparison():
            for others in (OPPOSITE, SHIFTED):
                if literal.comparator in others:
                    new = replace(literal, comparator=others[literal.comparator])
                    yield _changed(text, print_literal(new)), span, (new,)


def _inside(literal: ast.Literal, relations: Relations) -> Bodies:
    match literal:
        case ast.Atom():
            yield from ((what, span, (new,)) for what, span, new in _atom(literal, relations))
        case ast.Comparison(left=left, right=right):
            yield from ((what, span, (replace(literal, left=new),)) for what, span, new in _term(left, relations))
            yield from ((what, span, (replace(literal, right=new),)) for what, span, new in _term(right, relations))
        case ast.Membership(items=items):
            for at, item in enumerate(items):
                others = (*items[:at], *items[at + 1 :])
                yield f"drop {print_term(item)}", item.span, (replace(literal, items=others),)
        case ast.Negation(body=inner):
            bodies = _inside(inner[0], relations) if len(inner) == 1 else _some(inner, relations)
            yield from ((what, span, (replace(literal, body=body),)) for what, span, body in bodies)
        case ast.Disjunction(branches=branches):
            for at, branch in enumerate(branches):
                before, after = branches[:at], branches[at + 1 :]
                text = ", ".join(map(print_literal, branch))
                rest = (*before, *after)
                united = rest[0] if len(rest) == 1 else (replace(literal, branches=rest),)
                yield f"drop the branch {_short(text)}", branch[0].span, united
                for what, span, body in _some(branch, relations):
                    yield what, span, (replace(literal, branches=(*before, body, *after)),)


def _some(body: ast.Body, relations: Relations) -> Bodies:
    """Make the bodies of `_body` that are not empty."""
    return (mutant for mutant in _body(body, relations) if mutant[2])


def _atom(atom: ast.Atom, relations: Relations) -> Iterator[tuple[str, Span, ast.Atom]]:
    own = terms(atom)
    for at, term in enumerate(own):
        others = [*_term(term, relations)]
        if isinstance(term, ast.Constant):
            others.append((f"{print_term(term)} -> anything", term.span, ast.Wildcard(term.span)))
        for what, span, new in others:
            yield what, span, with_terms(atom, (*own[:at], new, *own[at + 1 :]))
    for at, (term, second) in enumerate(pairwise(own)):
        if term != second:
            what = f"swap {_short(print_term(term))} and {_short(print_term(second))}"
            yield what, term.span, with_terms(atom, (*own[:at], second, term, *own[at + 2 :]))
    if not atom.arguments or atom.named:
        return
    for name in relations.get(len(atom.arguments), ()):
        if name != atom.name and any(atom.name in names for names in relations.values()):
            yield f"{atom.name} -> {name}", atom.span, replace(atom, name=name)


def _term(term: ast.Term, relations: Relations) -> Terms:
    match term:
        case ast.Constant(value=value) if value is not None:
            new = replace(term, value=_other(value))
            yield _changed(print_term(term), print_term(new)), term.span, new
        case ast.Operation(left=left, right=right):
            yield from ((what, span, replace(term, left=new)) for what, span, new in _term(left, relations))
            yield from ((what, span, replace(term, right=new)) for what, span, new in _term(right, relations))
        case ast.Aggregate():
            yield from ((what, span, replace(term, body=body)) for what, span, body in _some(term.body, relations))


def _other(value: Value) -> Value:
    match value:
        case Boolean():
            return boolean(not value.truth)
        case int() | Decimal():
            return value + 1
    return f"{value}x"


def _changed(old: str, new: str) -> str:
    return f"{_short(old)} -> {_short(new)}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
