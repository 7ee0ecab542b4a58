"""Printing a tree and parsing the text gives the same tree."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalog_gate.base.values import FALSE, TRUE, number
from datalog_gate.language import ast
from datalog_gate.language.parser import parse, parse_query
from datalog_gate.language.printer import print_literal, print_module, print_term
from tests.sampling import sample

T = TypeVar("T")
X, Y, ONE = ast.Variable("x"), ast.Variable("y"), ast.Constant(1)
RESERVED = {"not", "NOT", "or", "in", "true", "false", "null", "True", "False", "None", "_"}
AT_START = {"relation", "import", "export", "execute", "insert", "delete"}

TERMS: list[tuple[ast.Term, str]] = [
    (X, "x"),
    (ast.Constant(None), "null"),
    (ast.Constant(Decimal("-1.5")), "-1.5"),
    (ast.Constant(Decimal("1E-9")), "1E-9"),
    (ast.Constant('a"\\\n\t\r\u2028\U000e0001é\U0001f600'), '"a\\"\\\\\\n\\t\\u000d\\u2028\\U000e0001é\U0001f600"'),
    (ast.BinaryOperation("-", ast.BinaryOperation("-", X, Y), ONE), "x - y - 1"),
    (ast.BinaryOperation("-", X, ast.BinaryOperation("-", Y, ONE)), "x - (y - 1)"),
    (ast.BinaryOperation("*", ast.BinaryOperation("+", X, Y), ast.BinaryOperation("??", X, ONE)), "(x + y) * x ?? 1"),
    (ast.BinaryOperation("??", ast.BinaryOperation("-", ast.Constant(0), X), ast.Constant(-1)), "(0 - x) ?? -1"),
    (ast.Aggregate("sum", (X, Y), (ast.Atom("p", (X, Y)),)), "sum{ x, y : p(x, y) }"),
    (ast.Aggregate("sum", (X,), (ast.Atom("p", (X,)),), True), "sum{ distinct x : p(x) }"),
    (ast.Aggregate("list", (ast.Constant(-1), X), (ast.Atom("p", (X,)),), True), "list{ distinct (-1), x : p(x) }"),
    (ast.Aggregate("max", (ast.Variable("distinct"),), (ast.Truth(True),)), "max{ distinct : true }"),
]


@pytest.mark.parametrize(("term", "text"), TERMS)
def test_a_term_prints_with_the_parentheses_it_needs(term: ast.Term, text: str) -> None:
    assert print_term(term) == text
    assert parse_query(f":- {text} = 1") == ((ast.Comparison("=", term, ONE),), ())


P, Q = ast.Atom("p", (X,)), ast.Atom("q")
LITERALS: list[tuple[ast.Literal, str]] = [
    (ast.Atom("a:b", (X,), (ast.NamedArgument("in", Y), ast.NamedArgument("b:c", ONE))), 'a:b(x, in=y, "b:c"=1)'),
    (ast.Membership(X, (ONE, Y)), "x in [1, y]"),
    (ast.Negation((P,)), "not p(x)"),
    (ast.Negation((P, Q)), "not (p(x), q())"),
    (ast.Negation((ast.Truth(True),)), "not (true)"),
    (ast.Negation((ast.Negation((P,)),)), "not (not p(x))"),
    (ast.Negation((ast.Disjunction(((P,), (Q,))),)), "not (p(x) or q())"),
    (ast.Disjunction(((P, Q), (ast.Disjunction(((P,), (Q,))),))), "(p(x), q() or (p(x) or q()))"),
]


@pytest.mark.parametrize(("literal", "text"), LITERALS)
def test_a_literal_prints_as_it_parses(literal: ast.Literal, text: str) -> None:
    assert print_literal(literal) == text
    assert parse_query(f":- {text}") == ((literal,), ())


MODULE = """\
import net:ssh.
export a, b.
relation r(host: string, "a:b": resource or null, c) key(host, "a:b") "What it \\"means\\"".
relation flag().
@deny("id", -1, null, hint="h", on=["create", "update"], tags=[])
p(x) :- q(x), not r(x, _).
@unlock()
fact("a", 1.5).
long_relation(x, y) :-
  another_relation(first=x, second=y), yet_another_relation(first=x, second=y),
  x in ["some", "values", 1, 2, 3].
"""


def test_a_module_prints_a_statement_after_the_other() -> None:
    module, diagnostics = parse(MODULE, "f.dl", "f")
    assert diagnostics == ()
    assert print_module(module) == MODULE


words = st.from_regex("[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True)
identifiers = words.filter(lambda word: word not in RESERVED)
names = identifiers | st.from_regex("[a-z_][a-z0-9]?([:.][a-z0-9_]{1,3}){1,2}", fullmatch=True)
columns = words | st.text(max_size=5)
values = (
    st.sampled_from([None, TRUE, FALSE])
    | st.integers()
    | st.decimals(-1000, 1000, places=12).map(number)
    | st.decimals(-1, 1, places=40).map(number)
    | st.text(max_size=8)
)
constants = st.builds(ast.Constant, values)
leaves = st.builds(ast.Variable, identifiers | st.just("distinct")) | st.builds(ast.Wildcard) | constants
operators = st.sampled_from(["+", "-", "*", "/", "%", "??"])


def several(items: st.SearchStrategy[T], low: int = 0, high: int = 3) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(items, min_size=low, max_size=high).map(tuple)


def operations(inner: st.SearchStrategy[ast.Term]) -> st.SearchStrategy[ast.Term]:
    return st.builds(ast.BinaryOperation, operators, inner, inner) | st.builds(ast.Function, called, several(inner))


pairs = st.tuples(st.text(max_size=4), st.builds(ast.Variable, identifiers.filter("_".__ne__)))
interpolated = st.builds(
    lambda inner, last: ast.Interpolation(tuple(part for pair in (*inner, (last,)) for part in pair if part)),
    several(pairs),
    st.text(max_size=4),
)
called = st.just("builtin:len") | identifiers.filter(lambda name: name not in (*get_args(ast.AggregateFunction), "_"))
terms = st.recursive(leaves | interpolated, operations, max_leaves=6)


def atoms(relations: st.SearchStrategy[str]) -> st.SearchStrategy[ast.Atom]:
    return st.builds(ast.Atom, relations, several(terms), several(st.builds(ast.NamedArgument, columns, terms), high=2))


def deeper(inner: st.SearchStrategy[ast.Literal]) -> st.SearchStrategy[ast.Literal]:
    bodies = several(inner, 1)
    sides = terms | st.builds(ast.Aggregate, functions, several(terms, 1), bodies, st.booleans())
    return (
        st.builds(ast.Negation, bodies)
        | st.builds(ast.Disjunction, several(bodies, 2))
        | st.builds(ast.Comparison, comparators, sides, sides)
        | st.builds(ast.Membership, sides, several(sides))
    )


functions = st.sampled_from(["count", "sum", "min", "max", "avg", "list"])
comparators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
flat = atoms(names) | st.builds(ast.Truth, st.booleans()) | st.builds(ast.Comparison, comparators, terms, terms)
literals = st.recursive(flat, deeper, max_leaves=6)
attributes = st.builds(ast.Attribute, words, values | several(values))
annotated = st.builds(ast.Annotation, identifiers, several(constants), several(attributes))
heads = atoms(names.filter(lambda name: name not in AT_START))
declared = st.builds(ast.DeclaredColumn, columns, several(words))
statements = st.one_of(
    st.builds(ast.Rule, heads, several(literals), st.none() | annotated),
    st.builds(ast.Declaration, names, several(declared), several(columns), st.text(max_size=8)),
    st.builds(ast.Export, several(names, 1)),
    st.builds(ast.Import, names),
)
modules = st.builds(ast.Module, st.just("f"), st.just("f.dl"), several(statements))


@settings(max_examples=sample(150))
@given(modules)
def test_printing_and_parsing_gives_the_same_module(module: ast.Module) -> None:
    assert parse(print_module(module), "f.dl", "f") == (module, ())
