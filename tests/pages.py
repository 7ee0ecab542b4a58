"""Generate docs/truth.md and docs/builtins.md, and compare files with texts.

The answers that `TABLES` and `EXAMPLES` hold were written by hand, from the pages of the language: test_pages.py asks
that the evaluation gives them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import combinations_with_replacement
from pathlib import Path

from datalog_gate.analysis.check import check
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.unknowns import split
from datalog_gate.base.errors import RulesError
from datalog_gate.base.values import OPEN, TRUE, Bounds, Kind, ResourceId, Row, Unknown, Value, show
from datalog_gate.engine import native
from datalog_gate.engine.least_model import Model
from datalog_gate.language.parser import parse
from datalog_gate.schema.declaration import RelationRef, certain_version, possible_version
from datalog_gate.schema.signatures import BUILTINS, INTERPOLATE, Builtin
from tests.expressions import worded

DOCS = Path(__file__).parents[1] / "docs"
GENERATED = "<!-- generated -->\n"
U, V = worded("an attribute of a server"), worded("another attribute")
B = worded("a number from 2 to 4", kinds=Kind.NUMBER, bounds=Bounds(2, 4))
T = worded("a text", kinds=Kind.STRING)
WEB = ResourceId("web")
NOW: dict[RelationRef, list[Row]] = {"gate:now": [("2027-03-01T12:00:00+00:00",)]}


@dataclass(frozen=True)
class Table:
    """Literals over x, or x and y, for each of some rows; or an aggregate of v over each of some sets."""

    title: str
    sentence: str
    rows: tuple[Row, ...]
    answers: Mapping[str, str]
    sets: bool = False
    outcomes: bool = False
    """Whether the rows choose what the literals `a` and `b` are."""
    nullable: bool = False


OUTCOMES: dict[Value, str] = {3: "true", 1: "false", 0: "error", U: "unknown"}
OPERANDS = {"a": "6 / x = 2", "b": "6 / y = 2"}
"""Literals that are, for each value, what `OUTCOMES` says."""
PAIRS = tuple(combinations_with_replacement(OUTCOMES, 2))
TABLES = (
    Table(
        "null",
        "null equals only a null that is written out, and joins with nothing. Here x may be null: it is not ordered or "
        "computed with before a test or a default.",
        ((None,), (1,), (2,), (U,)),
        {
            "x = null": "true false false unknown",
            "x != null": "false true true unknown",
            "q(null)": "true false false unknown",
            "not q(null)": "false true true unknown",
            "q(x), x = 1": "false true false unknown",
            "x in [null, 1]": "true true false unknown",
            "x < 2": "refused refused refused refused",
            "x + 1 = 2": "refused refused refused refused",
            "x ?? 1 = 1": "true true false unknown",
            "x != null, x < 2": "false true false unknown",
        },
        nullable=True,
    ),
    Table(
        "Kinds",
        "Values of different kinds are unequal, and to ask for their order is an error: of what templates fill it is "
        "refused, unless the rule says the kind. Here facts give x and y, which are anything but null; kinds that can "
        "never be equal are refused. `web` is a resource. An unknown may be of a known kind, as aggregates are and "
        "what builtins give: `text` is one that is a text.",
        ((1, 1), (1, 2), ("a", "b"), (1, "1"), (TRUE, 1), (TRUE, TRUE), (WEB, "web"), (WEB, WEB), (T, "a"), (T, 1)),
        {
            "x = y": "true false false false false true false true unknown false",
            "x != y": "false true true true true false true false unknown true",
            "x in [y]": "true false false false false true false true unknown false",
            "x < y": "false true true error error error error error unknown unknown",
            "x >= y": "true false false error error error error error unknown unknown",
            "equal(x, y)": "true false false false false true false true unknown unknown",
            "is_number(x)": "true true false true false false false false false false",
            "is_string(x)": "false false true false false false false false true true",
            "is_boolean(x)": "false false false false true true false false false false",
            "is_resource(x)": "false false false false false false true true false false",
            "is_number(x), is_number(y), x < y": "false true false false false false false false false false",
            "lt(x, y)": "false true true error error error error error unknown unknown",
            "x + y > 0": "true true error error error error error error unknown unknown",
        },
    ),
    Table(
        "Joins",
        "A variable that occurs twice joins as `=` does; no null joins, and `!=` is the complement of `=`. An unknown "
        "equals itself.",
        ((1, 1), (1, 2), (None, 1), (None, None), (U, 1), (U, U), (U, V)),
        {
            "q(z, z)": "true false false false unknown true unknown",
            "x = y": "true false false false unknown true unknown",
            "x != y": "false true true true unknown false unknown",
            "not (x = y)": "false true true true unknown false unknown",
            "equal(x, y)": "true false false false unknown unknown unknown",
        },
    ),
    Table(
        "Unknown",
        "What an unknown decides is unknown, under `not` too, unless something known decides it: a policy is then "
        "undetermined. What a builtin makes of an unknown is unknown, but for what its bounds tell: `2..4` is a number "
        "from 2 to 4.",
        ((U,), (B,), (5,), (6,)),
        {
            "x = 5": "unknown false true false",
            "x != 5": "unknown true false true",
            "not (x = 5)": "unknown true false true",
            "x > 4": "unknown false true true",
            "x > 1": "unknown true true true",
            "x < 4": "unknown unknown false false",
            "x = x": "true true true true",
            "x + 1 = x + 1": "true true true true",
            "x + 1 > 6": "unknown false false true",
            "10 - x * 2 > 0": "unknown true false false",
            "abs(x, n), n > 4": "unknown unknown true true",
            "x ?? 9 > 4": "unknown false true true",
            "x = 5, 2 < 1": "false false false false",
            "(x = 5 or true)": "true true true true",
            "x = 5, false": "false false false false",
            "(x = 5 or x != 5)": "unknown true true true",
        },
    ),
    Table(
        "Unknown texts",
        "So it is with a builtin for texts.",
        ((U,), ("web-1",), ("db",)),
        {
            'starts_with(x, "web")': "unknown true false",
            "is_string(x)": "unknown true true",
            "not is_string(x)": "unknown false false",
            'is_string(x), starts_with(x, "web")': "unknown true false",
            'not starts_with(x, "web")': "unknown false true",
            'lower(x, "db")': "unknown false true",
            'lower(x, y), y != "db"': "unknown true false",
            "lower(x, y), y = 1": "refused refused refused",
            "len(x, n), n < 3": "unknown false true",
            'x in ["db", "dns"]': "unknown false true",
            'lower(x) = "db"': "unknown false true",
            "len(lower(x)) < 3": "unknown false true",
            'f"a-{x}" = "a-db"': "unknown false true",
            'f"a-{x}" = "b-db"': "false false false",
            'f"{x}-{x}" != f"{x}.{x}"': "true true true",
            'capture(x, "^(w)") = "w"': "unknown true false",
            'not (capture(x, "^(w)") = "w")': "unknown false true",
            'n = len(f"a{x}"), n > 3': "unknown true false",
        },
    ),
    Table(
        "And, or",
        "For what the literals `a` and `b` are. False beats an error, an error beats true, in any order; an "
        "unknown beside an error is an error. True in one branch of `or` is true.",
        PAIRS,
        {
            "a, b": "true false error unknown false false false error error unknown",
            "b, a": "true false error unknown false false false error error unknown",
            "(a or b)": "true true true true false error unknown error error unknown",
        },
        outcomes=True,
    ),
    Table(
        "Not",
        "An error is never taken for false. `not (a, b)` is false only where both are true.",
        PAIRS,
        {
            "not (a)": "false false false false true true true error error unknown",
            "not (a, b)": "false true error unknown true true true error error unknown",
            "not (a or b)": "false false false false true error unknown error error unknown",
        },
        outcomes=True,
    ),
    Table(
        "Aggregates",
        "Of `v` over sets. A null is skipped. Of nothing, count and sum are 0, list is the empty text, and the others "
        "make their literal false. An unknown may be null, or equal to what is there: it leaves an interval.",
        ((), (None,), (1, 3), (None, 4), ("b", "a"), (1, "a"), (1, U), (1, B), (U,)),
        {
            "count{ v : q(v) }": "0 0 2 1 2 2 1..2 1..2 0..1",
            "count{ distinct v : q(v) }": "0 0 2 1 2 2 1..2 1..2 0..1",
            "sum{ v : q(v) }": "0 0 4 4 error error unknown 1..5 unknown",
            "min{ v : q(v) }": "false false 1 4 a error ..1 1 unknown",
            "max{ v : q(v) }": "false false 3 4 b error 1.. 2..4 unknown",
            "avg{ v : q(v) }": "false false 2 4 error error unknown 1..4 unknown",
            "list{ v : q(v) }": '"" "" 1,3 4 a,b 1,a unknown unknown unknown',
            "count{ v : (q(v) or v = 3) }": "1 1 2 2 3 3 2..3 2..3 1..2",
        },
        sets=True,
    ),
)
EXAMPLES = (
    "1 + 0.5 = 1.5", "1 - 3 = -2", "0.5 * 4 = 2", "7 / 2 = 3.5", "-7 % 3 = 2", "null ?? 7 = 7",
    'x = 1.50, f"a{x}" = "a1.5"',
    'is_string("1")', "is_number(1)", "is_boolean(true)", "not is_resource(\"web\")",
    'starts_with("web-1", "web-")', 'ends_with("web-1", "-1")', 'contains("web-1", "b-")', 'lower("Web") = "web"',
    'upper("Web") = "WEB"', 'split("a:b:c", ":", 1) = "b"', 'replace("a-b", "-", "+") = "a+b"', 'trim(" a b ") = "a b"',
    'matches("web-01", "^web-[0-9]+$")', 'capture("web-01", "-([0-9]+)$") = "01"',
    'cidr_contains("10.0.0.0/8", "10.1.2.3")',
    'cidr_overlaps("10.1.0.0/16", "10.0.0.0/8")', 'cidr_host_count("10.0.0.0/24") = 256', "abs(-2.5) = 2.5",
    "min2(2, 10) = 2", 'max2("2", "10") = "2"', "round(2.5) = 2", 'parse_size("2 GiB") = 2147483648',
    'days_until("2027-03-31") = 30', "lt(1, 2)", "lteq(2, 2)", "equal(1, 1.0)", "gt(2, 1)", "gteq(2, 2)",
    "max(2, 10, 10)", "plus(1, 2, 3)", "minus(1, 2, -1)", "mul(2, 3, 6)", "div(-7, 2, -4)",
    'concat("web", "-1", "web-1")', 'len("web", 3)', 'int("-2.5", -2)', 'float("2.50", 2.5)',
    'now("2027-03-01 12:00:00")', 'unpack_date("2027-03-01", 2027, 3, 1)',
    'unpack_time("2027-03-01T12:30:00+02:00", 10, 30, 0)',
    'unpack_datetime("Mar 1, 2027 9:05", 2027, 3, 1, 9, 5, 0)', 'pack_date(2027, 3, 1, "2027-3-1")',
    'pack_time(9, 5, 0, "9:5:0")', 'pack_datetime(2027, 3, 1, 9, 5, 0, "2027-3-1 9:5:0")',
    'extract_date("2027-3-1 9:05", "2027-03-01")', 'extract_time("2027-3-1 9:05", "09:05:00")',
    'datetime_to_seconds("1900-01-02", 86400)', 'datetime_plus("2027-03-01", "1:00:00", "2027-03-01 01:00:00")',
    'datetime_minus("2027-03-01", 3600, "2027-02-28 23:00:00")', 'datetime_equal("Mar 1, 2027", "2027-03-01")',
    'datetime_lt("2027-03-01", "2027-10-01")', 'datetime_lteq("2027-03-01", "2027-03-01")',
    'datetime_gt("2027-10-01", "2027-9-1")', 'datetime_gteq("2027-03-01", "2027-03-01")',
    'ips_equal("2001:DB8::1", "2001:db8:0::1")', 'ips_lt("9.0.0.0", "10.0.0.0")', 'ips_lteq("9.0.0.0", "9.0.0.0")',
    'ips_gt("10.0.0.0", "9.0.0.0")', 'ips_gteq("10.0.0.0", "9.0.0.0")', 'networks_equal("10.0.0.0/8", "10.9.9.9/8")',
    'networks_overlap("10.1.0.0/16", "10.0.0.0/8")', 'ip_in_network("10.1.2.3", "10.0.0.0/8")',
    'validate_int(2, 7, 9, "9 is more than 7")', 'validate_float(0.5, 1.5, "1.25", "")',
    'validate_string("^[a-z]+$", 8, 0, 1, "Web", "")',
)  # fmt: skip
"""A literal that is true for each builtin, in their order."""


def assert_written(path: Path, text: str) -> None:
    """Assert that the file, a page or golden answer, holds this text. With REGENERATE=1 the test writes it anew."""
    if os.environ.get("REGENERATE"):
        path.write_text(text, "utf-8")
    written = path.read_text("utf-8")
    difference = "\n".join(unified_diff(written.splitlines(), text.splitlines(), path.name, "now", lineterm="", n=0))
    assert written == text, f"REGENERATE=1 writes it anew\n{difference}"


def assert_generated(page: Path, text: str) -> None:
    """Assert that a page holds this text below the comment that says so. What is above it is written by hand."""
    above, mark, _ = page.read_text("utf-8").partition(GENERATED)
    assert mark, page.name
    assert_written(page, f"{above}{mark}{text}")


def answer(table: Table, literal: str, row: Row) -> str:
    """Evaluate a cell of the table."""
    if table.sets:
        return outcome(f"p(n) :- n = {literal}.", {"q": [(value,) for value in row]}, 1, True)
    if table.outcomes:
        literal = re.sub(r"\b[ab]\b", lambda match: OPERANDS[match[0]], literal)
    return outcome(f'p("true") :- q({", ".join("xy"[: len(row)])}), {literal}.', {"q": [row]}, len(row), table.nullable)


def outcome(rule: str, facts: Mapping[RelationRef, Collection[Row]], width: int, nullable: bool = False) -> str:
    """Evaluate relation p of the rule: a value, or false, error, unknown, refused. `nullable` columns may be null even
    where no row has null."""
    null = nullable or any(None in row for rows in facts.values() for row in rows)
    kinds = {
        name: (Kind.ANY if null else Kind.ANY & ~Kind.NULL,) * width for name in map(str, facts) if ":" not in name
    }
    module, diagnostics = parse(rule, "m.dl", "m")
    try:
        program = check([module], names=Names([module], kinds), problems=diagnostics).program
    except RulesError:
        return "refused"
    unknown_columns = {
        at for rows in facts.values() for row in rows for at, value in enumerate(row) if isinstance(value, Unknown)
    }
    finished = split(program, {"q": frozenset(unknown_columns)} if unknown_columns else {}, ())
    model = native.evaluate(finished, {name: facts.get(certain_version(name), ()) for name in finished.inputs})
    return _format_cell(model)


def truth_page() -> str:
    """The tables of docs/truth.md."""
    return "".join(f"\n## {table.title}\n\n{table.sentence}\n\n{_table(table)}" for table in TABLES)


def builtins_page() -> str:
    """The table of docs/builtins.md."""
    rows = [
        (f"`{_signature(builtin)}`", builtin.meaning, f"`{example}`")
        for builtin, example in zip(BUILTINS.values(), EXAMPLES, strict=True)
    ]
    return "\n" + _grid(("Builtin", "Meaning", "Example"), rows)


def _format_cell(model: Model) -> str:
    for (value,) in model.rows("m:p"):
        open_ = isinstance(value, Unknown) and value.bounds == OPEN
        return "unknown" if open_ else show(value) or '""'
    if any(certain_version(error.relation) == "m:p" for error in model.errors):
        return "error"
    return "unknown" if model.rows(possible_version("m:p")) else "false"


def _table(table: Table) -> str:
    written = [", ".join(OUTCOMES[value] if table.outcomes else _header(value) for value in row) for row in table.rows]
    header = [f"{{{cell}}}" if table.sets else cell for cell in written]
    cells = [(f"`{literal}`", *answers.split(" ")) for literal, answers in table.answers.items()]
    return _grid(("", *header), cells)


def _header(value: Value) -> str:
    match value:
        case Unknown():
            return {U: "?", V: "??", T: "text"}.get(value, show(value))
        case str():
            return f'"{value}"'
    return show(value)


def _signature(builtin: Builtin) -> str:
    names, given = [[column.name for column in columns] for columns in (builtin.inputs, builtin.outputs)]
    if builtin.name == INTERPOLATE:
        return f'f"{{{names[0]}}}{{{names[1]}}}"'
    if not builtin.name[0].isalpha():
        return f"{names[0]} {builtin.name} {names[1]}"
    if len(given) == 1:
        return f"{builtin.name}({', '.join(names)}) = {given[0]}"
    return f"{builtin.name}({', '.join(names + given)})"


def _grid(header: Sequence[str], rows: Collection[Sequence[str]]) -> str:
    lines = [header, ["-"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
