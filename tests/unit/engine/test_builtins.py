"""The builtins beyond the examples of their page."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from datalog_gate.base.values import FALSE, TRUE, Kind, ResourceId, Row, Value
from datalog_gate.engine.builtins import IMPLEMENTATIONS, EvaluationError, aggregate, compare, compute, holds
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.schema.declaration import Column
from datalog_gate.schema.signatures import BUILTINS, CALLS
from tests.expressions import as_words, worded

LONG = 10**3999
PARTS = {"year": 2028, "month": 2, "day": 29, "hour": 1, "minute": 2, "second": 3}
EXAMPLES: list[tuple[str, tuple[Value, ...], Value | bool]] = [
    ("+", (Decimal("0.1"), Decimal("1E-40")), Decimal("0.1000000000000000000000000000000000000001")),
    ("/", (2, 3), Decimal("0.6666666666666666666666666667")),
    ("%", (Decimal("7.5"), -2), Decimal("-0.5")),
    ("??", (FALSE, 7), FALSE),
    ("ends_with", ("web-1", "-2"), False),
    ("replace", ("a-b-c", "-", "+"), "a+b+c"),
    ("trim", (" a b\n",), "a b"),
    ("cidr_contains", ("10.1.2.3", "10.0.0.0/8"), False),
    ("cidr_contains", ("10.0.0.7/8", "10.9.0.0/16"), True),
    ("cidr_contains", ("::/0", "10.0.0.0/8"), False),
    ("cidr_overlaps", ("::/0", "0.0.0.0/0"), False),
    ("round", (Decimal("-2.6"),), -3),
    ("parse_size", ("1.5kB",), 1500),
    ("lteq", ("b", "a"), False),
    ("equal", (None, None), False),
    ("div", (7, Decimal("0.5")), 14),
    ("int", (Decimal("2.5"),), 2),
    ("float", (" 2.50",), Decimal("2.5")),
    ("matches", ("web-01", "b-[0-9]"), True),
    ("validate_int", (2, 7, 1), "1 is less than 2"),
    ("validate_int", (2, 7, Decimal("2.5")), "2.5 is not a whole number"),
    ("validate_int", (2, 7, "two"), "'two' is not a number"),
    ("validate_float", (Decimal("2.3"), Decimal("4.5"), "3.3"), ""),
    ("validate_float", (Decimal("2.3"), Decimal("4.5"), Decimal("7.3")), "7.3 is more than 4.5"),
    ("validate_string", ("^a*$", 5, 0, FALSE, "aAa"), "'aAa' does not match '^a*$'"),
    ("validate_string", ("^a*$", 5, FALSE, TRUE, "aAa"), ""),
    ("validate_string", ("^a*$", 2, 0, 0, "aaa"), "'aaa' is longer than 2"),
    ("validate_string", ("^a*$", 3, 1, 0, "'aaa'"), ""),
    ("validate_string", ("^a*$", 0, 1, 0, "'aaa"), '"\'aaa" has no closing quote'),
    ("ips_lt", ("255.0.0.0", "::1"), True),
    ("ips_lteq", ("10.0.0.1", "10.0.0.0"), False),
    ("networks_equal", ("10.0.0.0/8", "10.9.9.9/255.0.0.0"), True),
    ("ip_in_network", ("::ffff:10.1.2.3", "10.0.0.0/8"), False),
    ("now", ("2027-03-01T13:30:00.25+01:00",), "2027-03-01 12:30:00"),
    ("days_until", ("2027-03-03", "2027-03-01T23:59:59+00:00"), 2),
    ("days_until", ("2027-03-01T00:30+01:00", "2027-03-01T00:00:00+00:00"), -1),
    *((f"unpack_datetime.{name}", ("Feb 29, 2028 1:02:03",), value) for name, value in PARTS.items()),
    *((f"unpack_time.{name}", ("01:02:03.5",), PARTS[name]) for name in ("hour", "minute", "second")),
    ("unpack_time.hour", ("2028-02-29T23:02:03-02:00",), 1),
    ("extract_date", ("February 9, 2028 01:02",), "2028-02-09"),
    ("extract_time", ("2028-02-09 1:2:3",), "01:02:03"),
    ("datetime_to_seconds", ("1900-01-02T00:00:01.9Z",), 86401),
    ("datetime_plus", ("2028-02-28", "1:0:00:00:01"), "2028-03-06 00:00:01"),
    ("datetime_plus", ("2028-02-28", Decimal("0.5")), "2028-02-28 00:00:00.500000"),
    ("datetime_minus", ("2028-03-01", "24:00:00"), "2028-02-29 00:00:00"),
    ("datetime_equal", ("2028-02-09T12:00:00+02:00", "Feb 9, 2028 10:00"), True),
    ("datetime_lteq", ("2028-03-02", "2028-03-01"), False),
]


def applied(name: str, inputs: tuple[Value, ...]) -> Value | bool:
    return compute(name, inputs) if CALLS[name].outputs else holds(name, inputs, False)


@pytest.mark.parametrize(("name", "inputs", "result"), EXAMPLES)
def test_a_builtin_gives(name: str, inputs: tuple[Value, ...], result: Value | bool) -> None:
    assert applied(name, inputs) == result


def test_every_builtin_is_implemented() -> None:
    assert set(IMPLEMENTATIONS) == set(CALLS)


def test_a_signature_names_columns_with_their_kinds() -> None:
    split = BUILTINS["split"]
    assert split.inputs == (Column("text", Kind.STRING), Column("separator", Kind.STRING), Column("index", Kind.NUMBER))
    assert (split.outputs, split.total, split.fixed) == ((Column("part", Kind.STRING),), False, False)
    assert [name for name, builtin in BUILTINS.items() if builtin.total] == [
        "??",
        "is_string",
        "is_number",
        "is_boolean",
        "is_resource",
        "equal",
    ]
    assert (CALLS["days_until"].inputs, [name for name in CALLS if name.startswith("unpack_date.")]) == (
        (Column("date", Kind.STRING), Column("time", Kind.STRING)),
        ["unpack_date.year", "unpack_date.month", "unpack_date.day"],
    )


def test_the_forty_two_of_congress_are_fixed() -> None:
    congress = """
        lt lteq equal gt gteq max plus minus mul div float int concat len validate_int validate_float validate_string
        now unpack_date unpack_time unpack_datetime pack_date pack_time pack_datetime extract_date extract_time
        datetime_to_seconds datetime_plus datetime_minus datetime_lt datetime_lteq datetime_gt datetime_gteq
        datetime_equal ips_equal ips_lt ips_lteq ips_gt ips_gteq networks_equal networks_overlap ip_in_network"""
    assert sorted(name for name, builtin in BUILTINS.items() if builtin.fixed) == sorted(congress.split())


NO_DATE = "the text is not a date such as 2027-03-01 or 2027-03-01T12:00:00Z"
NO_SUCH = "there is no such date or time"
NO_YEAR = "the result is not between the years 1 and 9999"


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("+", (1, "1"), "+(1, '1'): right is string, not number"),
        ("+", (TRUE, 1), "+(true, 1): left is boolean, not number"),
        ("lower", (None,), "lower(null): text is null, not string"),
        ("/", (1, 0), "/(1, 0): division by zero"),
        ("/", (0, 0), "/(0, 0): division by zero"),
        ("%", (1, 0), "%(1, 0): division by zero"),
        ("*", (LONG, LONG), "the result of * has more than 4000 digits"),
        ("+", (LONG, Decimal("0.1")), "the result of + has more than 4000 digits"),
        ("lt", (1, "2"), "lt(1, '2'): number and string can't be ordered"),
        ("max2", (1, "2"), "max2(1, '2'): number and string can't be ordered"),
        ("split", ("a:b", ":", 2), "split('a:b', ':', 2): it has 2 parts, counted from 0"),
        ("split", ("a", "", 0), "split('a', '', 0): the separator is empty"),
        ("replace", ("a", "", "b"), "replace('a', '', 'b'): the old part is empty"),
        ("cidr_contains", ("10.0.0.0/33", "10.0.0.1"), ": the text is not a network"),
        ("parse_size", ("2 gigs",), ": the text is not a size: write a number and a unit such as MB or MiB"),
        ("parse_size", ("2 ib",), ": the text is not a size: write a number and a unit such as MB or MiB"),
        ("int", ("1e999999999",), "int('1e999999999'): the text is not a number"),
        ("float", ("nan",), "float('nan'): the text is not a number"),
        ("cidr_contains", ("fe80::1%eth0", "::1"), "cidr_contains('fe80::1%eth0', '::1'): the text is not a network"),
        ("ips_lt", ("10.0.0.1/32", "10.0.0.2"), "ips_lt('10.0.0.1/32', '10.0.0.2'): the text is not an address"),
        ("ip_in_network", ("10.0.0.0/8", "10.0.0.0/8"), ": the text is not an address"),
        ("matches", ("a", "(a"), "matches('a', '(a'): the pattern is not valid in RE2: missing ): (a"),
        ("matches", ("a", r"(a)\1"), r": the pattern is not valid in RE2: invalid escape sequence: \1"),
        ("unpack_date.day", ("tomorrow",), f"unpack_date('tomorrow'): {NO_DATE}"),
        ("extract_date", ("2027-02-29",), "extract_date('2027-02-29'): there is no such date or time"),
        ("extract_date", ("0001-01-01T00:00+01:00",), f"extract_date('0001-01-01T00:00+01:00'): {NO_SUCH}"),
        ("extract_time", ("24:00",), f"extract_time('24:00'): {NO_SUCH}"),
        ("pack_date", (2027, 2, 29), f"pack_date(2027, 2, 29): {NO_SUCH}"),
        ("pack_time", (Decimal("1.5"), 0, 0), "pack_time(1.5, 0, 0): a part of a date or time is a whole number"),
        ("datetime_plus", ("9999-12-31", 86400), f"datetime_plus('9999-12-31', 86400): {NO_YEAR}"),
        ("datetime_minus", ("2027-01-01", 10**30), f"datetime_minus('2027-01-01', {10**30}): {NO_YEAR}"),
        ("datetime_plus", ("2027-01-01", "-1"), ": the text is not a length of time such as 3600 or 1:00:00"),
        (
            "datetime_plus",
            ("2027-01-01", Decimal("1E-7")),
            "datetime_plus('2027-01-01', 0.0000001): the length of time is finer than a microsecond",
        ),
        ("days_until", ("soon", "2027-03-01T12:00:00+00:00"), f"days_until('soon'): {NO_DATE}"),
    ],
)
def test_a_builtin_refuses(name: str, inputs: tuple[Value, ...], message: str) -> None:
    with pytest.raises(EvaluationError) as error:
        applied(name, inputs)
    call = f"{name}({', '.join(map(repr, inputs))})" if message.startswith(":") else ""
    assert str(error.value) == call + message


def test_a_search_is_bounded() -> None:
    for inputs, message in (
        (("a" * 1_000_000, "(.*a){300}"), "the text is too long for this pattern"),
        (("a", "a" * 1001), "the pattern is longer than 1000 characters"),
        (("a", "(a{1000}){1000}"), "the pattern is not valid in RE2: invalid repetition size: {1000}"),
        (("\ud800", "a"), "the text is not Unicode"),
        (("a", "\ud800"), "the pattern is not Unicode"),
    ):
        with pytest.raises(EvaluationError, match=rf": {re.escape(message)}$"):
            holds("matches", inputs, False)


def test_texts_do_not_grow_without_bound() -> None:
    half = "x" * 600_000
    for name, inputs in (("concat", (half, half)), ("replace", ("a" * 2000, "a", half))):
        with pytest.raises(EvaluationError, match=r"the result is too long$"):
            compute(name, inputs)
    rows: list[Row] = [(half,), (half + "y",)]
    for more, message in (([], "list: the result is too long"), ([(U,)], "list of an unknown is too long to write")):
        with pytest.raises(EvaluationError, match=f"^{message}$"):
            aggregate("list", [*rows, *more])


U = worded("get_param: size")


@pytest.mark.parametrize(
    ("name", "inputs", "expression"),
    [
        ("+", (U, 1), "+(?'get_param: size', 1)"),
        ("concat", ("1", U), "concat('1', ?'get_param: size')"),
        ("??", (U, None), "??(?'get_param: size', null)"),
        ("??", (U, ResourceId("a/b")), "??(?'get_param: size', resource('a/b'))"),
        ("lower", (worded("lower(x)"),), "lower(?'lower(x)')"),
    ],
)
def test_of_an_unknown_it_gives_the_unknown_application(name: str, inputs: tuple[Value, ...], expression: str) -> None:
    assert as_words(compute(name, inputs)) == worded(expression)


def test_the_expression_of_an_unknown_does_not_grow_without_bound() -> None:
    with pytest.raises(EvaluationError, match=r"^\+ of an unknown is too long to write$"):
        compute("+", (worded("x" * 1_000_000), 1))


def test_a_default_is_not_looked_at_where_the_value_is_known() -> None:
    assert (compute("??", (1, U)), compute("??", (None, U))) == (1, U)


def test_a_test_of_an_unknown_answers_by_its_parameter() -> None:
    assert [holds("starts_with", (U, "a"), when_unknown) for when_unknown in (True, False)] == [True, False]


ALL: tuple[Comparator, ...] = ("=", "!=", "<", "<=", ">", ">=")


@pytest.mark.parametrize(
    ("left", "right", "null_test", "true"),
    [
        (1, 1, False, {"=", "<=", ">="}),
        (Decimal("0.5"), 1, False, {"!=", "<", "<="}),
        (None, None, False, {"!=", "raises"}),
        (None, None, True, {"=", "raises"}),
        (1, "1", False, {"!=", "raises"}),
        (U, U, False, {"=", "<=", ">="}),
        (U, 1, False, set()),
    ],
)
def test_the_truth_of_comparisons(left: Value, right: Value, null_test: bool, true: set[str]) -> None:
    true_comparators = set()
    for comparator in ALL:
        try:
            if compare(comparator, left, right, False, null_test):
                true_comparators.add(str(comparator))
        except EvaluationError:
            true_comparators.add("raises")
    assert true_comparators == true


def test_a_comparison_with_an_unknown_answers_by_its_parameter() -> None:
    assert {comparator for comparator in ALL if compare(comparator, U, 1, True, False)} == set(ALL)


@pytest.mark.parametrize(
    ("function", "rows", "result"),
    [
        ("sum", [(1, "a"), (1, "b")], 2),
        ("list", [("b",), (2,), (ResourceId("a/c"),), (None,)], "2,b,a/c"),
        ("sum", [(U,), (1,)], worded("sum(1, ?'get_param: size')")),
    ],
)
def test_an_aggregate_gives(function: AggregateFunction, rows: list[Row], result: Value) -> None:
    assert as_words(aggregate(function, rows)) == result


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("rows", [[(1,), ("1",)], [(TRUE,)], [(ResourceId("a"),)]])
def test_what_has_no_order_has_neither_least_nor_greatest(function: AggregateFunction, rows: list[Row]) -> None:
    with pytest.raises(EvaluationError, match=rf"^{function}: \w+ and \w+ can't be ordered$"):
        aggregate(function, rows)
