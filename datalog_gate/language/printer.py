"""Printer: from a syntax tree to its text.

A statement is on one line if it fits and has no comment. Otherwise lines are filled, and the author's line breaks stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from datalog_gate.base.diagnostics import NOWHERE, Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import ResourceId, print_value
from datalog_gate.language import ast
from datalog_gate.language.lexer import RANKS

WIDTH: Final = 120
"""The maximum length of a line without its comments, if it can be broken."""


@dataclass(slots=True)
class LayoutItem:
    """A piece of a group; `span` is its place in the source. `leading` comments are on lines before it, `trailing` ones
    after it on its line. An empty text among the leading comments is an empty line."""

    doc: Doc
    span: Span = NOWHERE
    before: str = ""
    after: str = ""
    leading: list[str] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)


@dataclass(slots=True)
class LayoutGroup:
    """Items separated by blanks or line breaks. Lines after the first begin below the first item; those of a `hanging`
    group, which always breaks after its first item, are indented by two blanks."""

    opening: str
    items: list[LayoutItem]
    closing: str
    hanging: bool = False

    @property
    def commented(self) -> bool:
        inner = any(group.commented for item in self.items for group in groups(item))
        return inner or any(item.leading or item.trailing for item in self.items)


Doc = tuple[str | LayoutGroup, ...]
"""Pieces of text without blanks in between."""


def print_module(module: ast.Module) -> str:
    """Print all statements; the text ends with a line break unless it is empty."""
    items = (item for statement in module.statements for item in statement_items(statement))
    return "".join(f"{line}\n" for item in items for line in lines(item.doc))


def print_literal(literal: ast.Literal) -> str:
    return flat(_literal(literal))


def print_term(term: ast.Term) -> str:
    return flat(_term(term))


def statement_items(statement: ast.Statement) -> list[LayoutItem]:
    """A statement with its terminator; a rule's annotation is a separate item."""
    match statement:
        case ast.Rule():
            head = LayoutItem(_atom(statement.head), statement.head.span, after=" :-" if statement.body else "")
            rule = LayoutItem((LayoutGroup("", [head, *_literals(statement.body)], ".", hanging=True),), statement.span)
            return [_annotation(statement.annotation), rule] if statement.annotation else [rule]
        case ast.Declaration():
            columns = _separate(LayoutItem(_declared(column), column.span) for column in statement.columns)
            parts = [LayoutItem((LayoutGroup(f"relation {statement.name}(", columns, ")"),))]
            if statement.key:
                key = _separate(LayoutItem((_column(column),)) for column in statement.key)
                parts.append(LayoutItem((LayoutGroup("key(", key, ")"),)))
            if statement.meaning:
                parts.append(LayoutItem((print_value(statement.meaning),)))
            return [LayoutItem((LayoutGroup("", parts, ".", hanging=True),), statement.span)]
        case ast.Export():
            names = _separate(LayoutItem((name,)) for name in statement.names)
            return [LayoutItem((LayoutGroup("export ", names, "."),), statement.span)]
        case ast.Import():
            return [LayoutItem((f"import {statement.module}.",), statement.span)]
        case _:
            assert_never(statement)


def _literal(literal: ast.Literal) -> Doc:
    match literal:
        case ast.Atom():
            return _atom(literal)
        case ast.Truth():
            return ("true" if literal.truth else "false",)
        case ast.Comparison():
            return (*_term(literal.left), f" {literal.comparator} ", *_term(literal.right))
        case ast.Membership():
            items = _separate(LayoutItem(_term(term), term.span) for term in literal.items)
            return (*_term(literal.term), " in ", LayoutGroup("[", items, "]"))
        case ast.Negation(body=(ast.Atom() | ast.Disjunction() as only,)):
            return ("not ", *_literal(only))
        case ast.Negation():
            return ("not ", LayoutGroup("(", _literals(literal.body), ")"))
        case ast.Disjunction():
            first, *others = (_branch(branch) for branch in literal.branches)
            for other in others:
                other.before = "or "
            return (LayoutGroup("(", [first, *others], ")"),)
        case _:
            assert_never(literal)


def _atom(atom: ast.Atom) -> Doc:
    """An atom, with its parentheses even if they are empty."""
    arguments = [LayoutItem(_term(term), term.span) for term in atom.arguments]
    arguments += [LayoutItem((f"{_column(named.column)}=", *_term(named.term)), named.span) for named in atom.named]
    return (LayoutGroup(f"{atom.name}(", _separate(arguments), ")"),)


def _branch(body: ast.Body) -> LayoutItem:
    first, last = body[0].span, body[-1].span
    span = Span(first.file, first.line, first.column, last.end_line, last.end_column)
    return LayoutItem((LayoutGroup("", _literals(body), ""),), span)


def _literals(body: ast.Body) -> list[LayoutItem]:
    return _separate(LayoutItem(_literal(literal), literal.span) for literal in body)


def _term(term: ast.Term) -> Doc:
    match term:
        case ast.Variable():
            return (term.name,)
        case ast.Wildcard():
            return ("_",)
        case ast.Constant():
            return (print_value(term.value),)
        case ast.BinaryOperation():
            rank = RANKS[term.operator]
            return (*_operand(term.left, rank), f" {term.operator} ", *_operand(term.right, rank + 1))
        case ast.Aggregate():
            terms = ", ".join(map(print_term, term.terms))
            if term.distinct:  # a minus sign would be taken for an operator
                first = print_term(term.terms[0])
                terms = "distinct " + (f"({first}){terms.removeprefix(first)}" if first.startswith("-") else terms)
            return (LayoutGroup(f"{term.function}{{ {terms} : ", _literals(term.body), " }"),)
        case ast.Function():
            arguments = _separate(LayoutItem(_term(argument), argument.span) for argument in term.arguments)
            return (LayoutGroup(f"{term.name}(", arguments, ")"),)
        case ast.Interpolation():
            parts = (f"{{{part.name}}}" if isinstance(part, ast.Variable) else _braced(part) for part in term.parts)
            return (f'f"{"".join(parts)}"',)
        case _:
            assert_never(term)


def _braced(text: str) -> str:
    return print_value(text)[1:-1].replace("{", "{{").replace("}", "}}")


def _operand(term: ast.Term, rank: int) -> Doc:
    doc = _term(term)
    return ("(", *doc, ")") if isinstance(term, ast.BinaryOperation) and RANKS[term.operator] < rank else doc


def _annotation(annotation: ast.Annotation) -> LayoutItem:
    arguments = [LayoutItem((print_value(value.value),), value.span) for value in annotation.values]
    for attribute in annotation.attributes:
        if isinstance(attribute.value, tuple) and not isinstance(attribute.value, ResourceId):
            value = f"[{', '.join(map(print_value, attribute.value))}]"
        else:
            value = print_value(attribute.value)
        arguments.append(LayoutItem((f"{attribute.name}={value}",), attribute.span))
    return LayoutItem((LayoutGroup(f"@{annotation.name}(", _separate(arguments), ")"),), annotation.span)


def _declared(column: ast.DeclaredColumn) -> Doc:
    return (f"{_column(column.name)}: {' or '.join(column.kinds)}" if column.kinds else _column(column.name),)


def _column(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else print_value(name)


def _separate(items: Iterable[LayoutItem]) -> list[LayoutItem]:
    listed = list(items)
    for item in listed[:-1]:
        item.after = ","
    return listed


def groups(item: LayoutItem) -> list[LayoutGroup]:
    return [part for part in item.doc if isinstance(part, LayoutGroup)]


def flat(doc: Doc) -> str:
    return "".join(part if isinstance(part, str) else _flat(part) for part in doc)


def lines(doc: Doc) -> list[str]:
    """The text with its comments on as many lines as it needs."""
    writer = _Writer()
    writer.write(doc, 0)
    return writer.lines


def _flat(group: LayoutGroup) -> str:
    items = " ".join(f"{item.before}{flat(item.doc)}{item.after}" for item in group.items)
    return f"{group.opening}{items}{group.closing}"


class _Writer:
    """Appends text to a list of lines."""

    def __init__(self) -> None:
        self.lines = [""]

    def write(self, doc: Doc, tail: int) -> None:
        """Write the parts; leave room for `tail` more characters on their last line."""
        for at, part in enumerate(doc):
            if isinstance(part, str):
                self.lines[-1] += part
            else:
                self.write_group(part, len(flat(doc[at + 1 :])) + tail)

    def write_group(self, group: LayoutGroup, tail: int) -> None:
        text = _flat(group)
        if self.fits(text, tail) and not group.commented:
            self.lines[-1] += text
            return
        self.lines[-1] += group.opening
        indent = "  " if group.hanging else " " * len(self.lines[-1])
        previous: LayoutItem | None = None
        full = False  # whether the line is complete
        for item in group.items:
            rest = len(item.after) if item is not group.items[-1] else len(group.closing) + tail
            if previous:
                apart = item.span.line > previous.span.end_line or bool(item.leading)
                if full or apart or not self.fits(f" {item.before}{flat(item.doc)}", rest):
                    self.lines.append(indent)
                else:
                    self.lines[-1] += " "
            for comment in item.leading:
                self.write_comment(comment)
                self.lines.append(indent)
            first = len(self.lines)
            self.lines[-1] += item.before
            self.write(item.doc, rest)
            self.lines[-1] += item.after
            full = len(self.lines) > first or bool(item.trailing) or (group.hanging and previous is None)
            for at, comment in enumerate(item.trailing):
                self.write_comment(f" {comment}" if at else f"  {comment}")
            previous = item
        self.lines[-1] += group.closing

    def fits(self, text: str, tail: int) -> bool:
        return len(self.lines[-1]) + len(text) + tail <= WIDTH

    def write_comment(self, text: str) -> None:
        first, *others = text.split("\n")
        self.lines[-1] += first
        self.lines += others
