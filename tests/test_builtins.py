"""The builtins: an example of each, what they refuse, and that table and implementations agree."""

from __future__ import annotations

from decimal import Decimal

import pytest

from datalog_gate.catalogue.builtins import BUILTINS
from datalog_gate.catalogue.schema import Column
from datalog_gate.engine.builtins import IMPLEMENTATIONS, EvaluationError, aggregate, compare, compute, holds
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.values import FALSE, TRUE, Kind, ResourceId, Row, Unknown, Value

LONG = 10**3999
EXAMPLES: list[tuple[str, tuple[Value, ...], Value | bool]] = [
    ("+", (1, Decimal("0.5")), Decimal("1.5")),
    ("+", (Decimal("0.1"), Decimal("1E-40")), Decimal("0.1000000000000000000000000000000000000001")),
    ("-", (1, 3), -2),
    ("*", (Decimal("0.5"), 4), 2),
    ("/", (6, 3), 2),
    ("/", (2, 3), Decimal("0.6666666666666666666666666667")),
    ("%", (-7, 3), 2),
    ("%", (Decimal("7.5"), -2), Decimal("-0.5")),
    ("%", (6, 3), 0),
    ("??", (None, 7), 7),
    ("??", (FALSE, 7), FALSE),
    ("starts_with", ("web-1", "web-"), True),
    ("ends_with", ("web-1", "-2"), False),
    ("contains", ("web-1", "b-"), True),
    ("lower", ("Web",), "web"),
    ("upper", ("Web",), "WEB"),
    ("split", ("a:b:c", ":", 1), "b"),
    ("replace", ("a-b-c", "-", "+"), "a+b+c"),
    ("trim", (" a b\n",), "a b"),
    ("cidr_contains", ("10.0.0.0/8", "10.1.2.3"), True),
    ("cidr_contains", ("10.1.2.3", "10.0.0.0/8"), False),
    ("cidr_contains", ("10.0.0.7/8", "10.9.0.0/16"), True),
    ("cidr_contains", ("::/0", "10.0.0.0/8"), False),
    ("cidr_overlaps", ("10.1.0.0/16", "10.0.0.0/8"), True),
    ("cidr_overlaps", ("10.0.0.0/8", "10.1.0.0/16"), True),
    ("cidr_overlaps", ("::/0", "0.0.0.0/0"), False),
    ("cidr_host_count", ("10.0.0.0/24",), 256),
    ("abs", (Decimal("-2.5"),), Decimal("2.5")),
    ("min2", (2, 10), 2),
    ("max2", ("2", "10"), "2"),
    ("round", (Decimal("2.5"),), 2),
    ("round", (Decimal("-2.6"),), -3),
    ("parse_size", ("2 GiB",), 2 * 1024**3),
    ("parse_size", ("1.5kB",), 1500),
    ("parse_size", ("512",), 512),
    ("lt", (1, 2), True),
    ("lteq", ("b", "a"), False),
    ("equal", (1, 1), True),
    ("equal", (1, "1"), False),
    ("equal", (None, None), False),
    ("gt", (1, 2), False),
    ("gteq", (2, 2), True),
    ("max", (2, 10), 10),
    ("plus", (1, 2), 3),
    ("minus", (1, 2), -1),
    ("mul", (2, 3), 6),
    ("div", (-7, 2), -4),
    ("div", (7, Decimal("0.5")), 14),
    ("concat", ("web", "-1"), "web-1"),
    ("len", ("web",), 3),
    ("int", ("-2.5",), -2),
    ("int", (Decimal("2.5"),), 2),
    ("float", (" 2.50",), Decimal("2.5")),
]


def applied(name: str, inputs: tuple[Value, ...]) -> Value | bool:
    return compute(name, inputs) if BUILTINS[name].outputs else holds(name, inputs, False)


@pytest.mark.parametrize(("name", "inputs", "result"), EXAMPLES)
def test_a_builtin_gives(name: str, inputs: tuple[Value, ...], result: Value | bool) -> None:
    assert applied(name, inputs) == result


def test_every_builtin_is_implemented_and_has_an_example() -> None:
    assert list(IMPLEMENTATIONS) == list(BUILTINS)
    assert {name for name, _, _ in EXAMPLES} == set(BUILTINS)


def test_a_signature_names_columns_with_their_kinds() -> None:
    split = BUILTINS["split"]
    assert split.inputs == (Column("text", Kind.STRING), Column("separator", Kind.STRING), Column("index", Kind.NUMBER))
    assert (split.outputs, split.total, split.fixed) == ((Column("part", Kind.STRING),), False, False)
    assert [name for name, one in BUILTINS.items() if one.total] == ["??", "equal"]
    congress = "lt lteq equal gt gteq max plus minus mul div concat len int float"
    assert [name for name, one in BUILTINS.items() if one.fixed] == congress.split()


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("+", (1, "1"), "+(1, '1'): right is string, not number"),
        ("+", (TRUE, 1), "+(true, 1): left is boolean, not number"),
        ("lower", (None,), "lower(null): text is null, not string"),
        ("lower", (ResourceId("a/b"),), "lower(resource('a/b')): text is resource, not string"),
        ("/", (1, 0), "/(1, 0): division by zero"),
        ("/", (0, 0), "/(0, 0): division by zero"),
        ("%", (1, 0), "%(1, 0): division by zero"),
        ("div", (1, 0), "div(1, 0): division by zero"),
        ("*", (LONG, LONG), "* gives a number of more than 4000 digits"),
        ("+", (LONG, Decimal("0.1")), "+ gives a number of more than 4000 digits"),
        ("lt", (1, "2"), "lt(1, '2'): number and string have no order"),
        ("max2", (1, "2"), "max2(1, '2'): number and string have no order"),
        ("split", ("a:b", ":", 2), "split('a:b', ':', 2): there are 2 parts, counted from 0"),
        ("split", ("a:b", ":", -1), "split('a:b', ':', -1): there are 2 parts, counted from 0"),
        ("split", ("a", "", 0), "split('a', '', 0): the separator is empty"),
        ("replace", ("a", "", "b"), "replace('a', '', 'b'): the old part is empty"),
        (
            "cidr_contains",
            ("10.0.0.0/33", "10.0.0.1"),
            "cidr_contains('10.0.0.0/33', '10.0.0.1'): the text is no network",
        ),
        ("cidr_host_count", ("everywhere",), "cidr_host_count('everywhere'): the text is no network"),
        ("parse_size", ("2 gigs",), "parse_size('2 gigs'): a size is a number and a unit such as MB or MiB"),
        ("parse_size", ("2 ib",), "parse_size('2 ib'): a size is a number and a unit such as MB or MiB"),
        ("int", ("1e999999999",), "int('1e999999999'): the text is no number"),
        ("float", ("nan",), "float('nan'): the text is no number"),
    ],
)
def test_a_builtin_refuses(name: str, inputs: tuple[Value, ...], message: str) -> None:
    with pytest.raises(EvaluationError) as error:
        applied(name, inputs)
    assert str(error.value) == message


def test_texts_do_not_grow_without_bound() -> None:
    half = "x" * 600_000
    for name, inputs in (("concat", (half, half)), ("replace", ("a" * 2000, "a", half))):
        with pytest.raises(EvaluationError, match=r"the result is too long$"):
            compute(name, inputs)
    rows: list[Row] = [(half,), (half + "y",)]
    for more, said in (([], "list: the result is too long"), ([(U,)], "list of an unknown is too long to write")):
        with pytest.raises(EvaluationError, match=f"^{said}$"):
            aggregate("list", [*rows, *more])


U = Unknown("get_param: size")


@pytest.mark.parametrize(
    ("name", "inputs", "expression"),
    [
        ("+", (U, 1), "+(?'get_param: size', 1)"),
        ("concat", ("1", U), "concat('1', ?'get_param: size')"),
        ("??", (U, None), "??(?'get_param: size', null)"),
        ("??", (U, ResourceId("a/b")), "??(?'get_param: size', resource('a/b'))"),
        ("lower", (Unknown("lower(x)"),), "lower(?'lower(x)')"),
    ],
)
def test_of_an_unknown_it_gives_the_unknown_application(name: str, inputs: tuple[Value, ...], expression: str) -> None:
    assert compute(name, inputs) == Unknown(expression)


def test_the_expression_of_an_unknown_does_not_grow_without_bound() -> None:
    with pytest.raises(EvaluationError, match=r"^\+ of an unknown is too long to write$"):
        compute("+", (Unknown("x" * 1_000_000), 1))


def test_a_default_is_not_looked_at_where_the_value_is_known() -> None:
    assert (compute("??", (1, U)), compute("??", (None, U))) == (1, U)


def test_a_test_of_an_unknown_answers_as_told() -> None:
    assert [holds("starts_with", (U, "a"), told) for told in (True, False)] == [True, False]


ALL: tuple[Comparator, ...] = ("=", "!=", "<", "<=", ">", ">=")


@pytest.mark.parametrize(
    ("left", "right", "null_test", "true"),
    [
        (1, 1, False, {"=", "<=", ">="}),
        (1, 2, False, {"!=", "<", "<="}),
        ("b", "a", False, {"!=", ">", ">="}),
        (Decimal("0.5"), 1, False, {"!=", "<", "<="}),
        (None, None, False, {"!=", "raises"}),
        (None, None, True, {"=", "raises"}),
        (None, 1, True, {"!=", "raises"}),
        (TRUE, TRUE, False, {"=", "raises"}),
        (1, "1", False, {"!=", "raises"}),
        (U, U, False, {"=", "<=", ">="}),
        (U, 1, False, set()),
    ],
)
def test_the_truth_of_comparisons(left: Value, right: Value, null_test: bool, true: set[str]) -> None:
    found = set()
    for comparator in ALL:
        try:
            if compare(comparator, left, right, False, null_test):
                found.add(str(comparator))
        except EvaluationError:
            found.add("raises")
    assert found == true


def test_a_comparison_with_an_unknown_answers_as_told() -> None:
    assert {one for one in ALL if compare(one, U, 1, True, False)} == set(ALL)


@pytest.mark.parametrize(
    ("function", "rows", "result"),
    [
        ("count", [(None,), (1,)], 1),
        ("sum", [(1, "a"), (1, "b")], 2),
        ("sum", [], 0),
        ("avg", [(1,), (2,)], Decimal("1.5")),
        ("min", [], None),
        ("max", [("a",), ("b",)], "b"),
        ("list", [("b",), (2,), (ResourceId("a/c"),), (None,)], "2,b,a/c"),
        ("sum", [(U,), (1,)], Unknown("sum(1, ?'get_param: size')")),
    ],
)
def test_an_aggregate_gives(function: AggregateFunction, rows: list[Row], result: Value) -> None:
    assert aggregate(function, rows) == result


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("rows", [[(1,), ("1",)], [(TRUE,)], [(ResourceId("a"),)]])
def test_what_has_no_order_has_neither_least_nor_greatest(function: AggregateFunction, rows: list[Row]) -> None:
    with pytest.raises(EvaluationError, match=rf"^{function}: \w+ and \w+ have no order$"):
        aggregate(function, rows)
