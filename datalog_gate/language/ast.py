"""The syntax tree of a rule file.

Equality of nodes ignores places, so that ``parse(print(module)) == module``.
"""

from __future__ import annotations

from typing import Literal as OneOf

from datalog_gate.base.diagnostics import NOWHERE, Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Value

Operator = OneOf["+", "-", "*", "/", "%", "??"]
Comparator = OneOf["=", "!=", "<", "<=", ">", ">="]
AggregateFunction = OneOf["count", "sum", "min", "max", "avg", "list"]


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """A piece of a rule file, with its place."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Variable(SyntaxNode):
    """A bare identifier: it stands for one value through its whole rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Wildcard(SyntaxNode):
    """``_``: any value, joined with nothing."""


@dataclass(frozen=True, slots=True)
class Constant(SyntaxNode):
    """A value written in the text: null, true, false, a number or a string."""

    value: Value


@dataclass(frozen=True, slots=True)
class BinaryOperation(SyntaxNode):
    """``left operator right``. A minus sign before a term is ``0 - term``; before a number it is part of the number."""

    operator: Operator
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Aggregate(SyntaxNode):
    """``function{ terms : body }``, or with ``distinct`` before the terms, which says that equal ones count once."""

    function: AggregateFunction
    terms: tuple[Term, ...]
    body: Body
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Function(SyntaxNode):
    """``name(arguments)`` as a value: the only output of a builtin."""

    name: str
    arguments: tuple[Term, ...]
    name_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Interpolation(SyntaxNode):
    """``f"int_{role}_network"``: a text made of texts and the values of variables."""

    parts: tuple[str | Variable, ...]


Term = Variable | Wildcard | Constant | BinaryOperation | Aggregate | Function | Interpolation


@dataclass(frozen=True, slots=True)
class NamedArgument(SyntaxNode):
    """``column=term``. The column is any word, or a quoted string if it is not an identifier."""

    column: str
    term: Term


@dataclass(frozen=True, slots=True)
class Atom(SyntaxNode):
    """``name(positional..., column=named...)``. `name` is as written, ``os:nova:server``."""

    name: str
    arguments: tuple[Term, ...] = ()
    named: tuple[NamedArgument, ...] = ()
    name_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Truth(SyntaxNode):
    """``true`` or ``false`` as a literal."""

    truth: bool


@dataclass(frozen=True, slots=True)
class Comparison(SyntaxNode):
    """``left comparator right``."""

    comparator: Comparator
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Membership(SyntaxNode):
    """``term in [items]``."""

    term: Term
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Negation(SyntaxNode):
    """``not atom`` or ``not (body)``; the atom is a body of one literal."""

    body: Body


@dataclass(frozen=True, slots=True)
class Disjunction(SyntaxNode):
    """``(body or body ...)`` with at least two branches."""

    branches: tuple[Body, ...]


Literal = Atom | Truth | Comparison | Membership | Negation | Disjunction
Body = tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Attribute(SyntaxNode):
    """``name=value`` of an annotation: a value, or a tuple of values for ``[a, b]``."""

    name: str
    value: Value | tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Annotation(SyntaxNode):
    """``@name(values..., name=value...)`` before a rule."""

    name: str
    values: tuple[Constant, ...] = ()
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule(SyntaxNode):
    """``head :- body.`` A fact has an empty body."""

    head: Atom
    body: Body = ()
    annotation: Annotation | None = None


@dataclass(frozen=True, slots=True)
class DeclaredColumn(SyntaxNode):
    """``name: kind`` of a declaration; the kinds are the words as written, ``("string", "null")``."""

    name: str
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declaration(SyntaxNode):
    """``relation name(columns) key(columns) "meaning".``"""

    name: str
    columns: tuple[DeclaredColumn, ...]
    key: tuple[str, ...] = ()
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Export(SyntaxNode):
    """``export a, b.``"""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Import(SyntaxNode):
    """``import net:ssh.``"""

    module: str


Statement = Rule | Declaration | Export | Import


@dataclass(frozen=True, slots=True)
class Silence(SyntaxNode):
    """A comment ``// datalog-gate: text`` above a statement, with the place of that."""

    text: str
    statement: Span


@dataclass(frozen=True, slots=True)
class Module:
    """One rule file."""

    name: str
    """The name by its path, ``net:ssh``."""
    file: str
    """The file, for messages."""
    statements: tuple[Statement, ...]
    congress: bool = False
    """Whether it is written for Congress."""
    title: str = ""
    """The name of the policy in Congress."""
    refused: frozenset[str] = field(default=frozenset(), compare=False)
    """Names in column 1 of statements with syntax errors: the relations that they may define."""
    silences: tuple[Silence, ...] = field(default=(), compare=False)

    @property
    def rules(self) -> list[Rule]:
        return [statement for statement in self.statements if isinstance(statement, Rule)]
