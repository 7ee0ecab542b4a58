"""From a module or a part of one to its text (layer 1).

In: a syntax tree as the parser makes it. Out: text that parses to an equal tree, one statement after the other, each
rule on one line if it fits.
"""

from __future__ import annotations

from typing import Final, assert_never

from datalog_gate.language import ast
from datalog_gate.language.lexer import RANKS
from datalog_gate.values import ResourceId, Value

WIDTH: Final = 100
"""A rule that is longer gets a line for each of its literals."""

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def print_module(module: ast.Module) -> str:
    """The text of all statements; it ends with a line break unless there are none."""
    return "".join(f"{print_statement(statement)}\n" for statement in module.statements)


def print_statement(statement: ast.Statement) -> str:
    """A statement with its terminator, on one or more lines."""
    match statement:
        case ast.Rule():
            return _rule(statement)
        case ast.Declaration():
            key = f" key({', '.join(map(_column, statement.key))})" if statement.key else ""
            meaning = f" {print_value(statement.meaning)}" if statement.meaning else ""
            return f"relation {statement.name}({', '.join(map(_declared, statement.columns))}){key}{meaning}."
        case ast.Export():
            return f"export {', '.join(statement.names)}."
        case ast.Import():
            return f"import {statement.module}."
        case _:
            assert_never(statement)


def print_body(body: ast.Body) -> str:
    """Literals with commas between them."""
    return ", ".join(map(print_literal, body))


def print_literal(literal: ast.Literal) -> str:
    match literal:
        case ast.Atom():
            return print_atom(literal)
        case ast.Truth():
            return "true" if literal.truth else "false"
        case ast.Comparison():
            return f"{print_term(literal.left)} {literal.comparator} {print_term(literal.right)}"
        case ast.Membership():
            return f"{print_term(literal.term)} in [{', '.join(map(print_term, literal.items))}]"
        case ast.Negation(body=(ast.Atom() | ast.Disjunction() as only,)):
            return f"not {print_literal(only)}"
        case ast.Negation():
            return f"not ({print_body(literal.body)})"
        case ast.Disjunction():
            return f"({' or '.join(map(print_body, literal.branches))})"
        case _:
            assert_never(literal)


def print_atom(atom: ast.Atom) -> str:
    """An atom, its parentheses written even if they are empty."""
    arguments = [print_term(term) for term in atom.arguments]
    arguments += [f"{_column(one.column)}={print_term(one.term)}" for one in atom.named]
    return f"{atom.name}({', '.join(arguments)})"


def print_term(term: ast.Term) -> str:
    match term:
        case ast.Variable():
            return term.name
        case ast.Wildcard():
            return "_"
        case ast.Constant():
            return print_value(term.value)
        case ast.Operation():
            rank = RANKS[term.operator]
            return f"{_operand(term.left, rank)} {term.operator} {_operand(term.right, rank + 1)}"
        case ast.Aggregate():
            return f"{term.function}{{ {', '.join(map(print_term, term.terms))} : {print_body(term.body)} }}"
        case _:
            assert_never(term)


def print_value(value: Value) -> str:
    """A value that a rule can write: null, a boolean, a number or a string, the last in double quotes."""
    if value is None:
        return "null"
    return f'"{"".join(map(_escaped, value))}"' if isinstance(value, str) else str(value)


def _rule(rule: ast.Rule) -> str:
    annotation = f"{_annotation(rule.annotation)}\n" if rule.annotation else ""
    head = print_atom(rule.head)
    if not rule.body:
        return f"{annotation}{head}."
    line = f"{head} :- {print_body(rule.body)}."
    if len(line) > WIDTH:
        line = f"{head} :-\n  " + ",\n  ".join(map(print_literal, rule.body)) + "."
    return annotation + line


def _annotation(annotation: ast.Annotation) -> str:
    arguments = [print_value(one.value) for one in annotation.values]
    for one in annotation.attributes:
        if isinstance(one.value, tuple) and not isinstance(one.value, ResourceId):
            arguments.append(f"{one.name}=[{', '.join(map(print_value, one.value))}]")
        else:
            arguments.append(f"{one.name}={print_value(one.value)}")
    return f"@{annotation.name}({', '.join(arguments)})"


def _declared(column: ast.DeclaredColumn) -> str:
    return f"{_column(column.name)}: {' or '.join(column.kinds)}" if column.kinds else _column(column.name)


def _column(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else print_value(name)


def _operand(term: ast.Term, rank: int) -> str:
    """A term beside an operator, in parentheses if its own binds less tightly than `rank`."""
    text = print_term(term)
    return f"({text})" if isinstance(term, ast.Operation) and RANKS[term.operator] < rank else text


def _escaped(char: str) -> str:
    if char in _ESCAPES or char.isprintable():
        return _ESCAPES.get(char, char)
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
