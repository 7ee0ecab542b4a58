"""Evaluate docs/truth.md, generate docs/builtins.md, and compare files with texts.

The answers in the tables of docs/truth.md and `EXAMPLES` were written by hand, from the pages of the language:
test_pages.py asks that the evaluation gives them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
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
GOLDEN = Path(__file__).parent / "golden"
GENERATED = "<!-- generated -->\n"
U, V = worded("an attribute of a server"), worded("another attribute")
B = worded("a number from 2 to 4", kinds=Kind.NUMBER, bounds=Bounds(2, 4))
T = worded("a text", kinds=Kind.STRING)
WEB = ResourceId("web")
NOW: dict[RelationRef, list[Row]] = {"gate:now": [("2027-03-01T12:00:00+00:00",)]}


OUTCOMES: dict[str, Value] = {"true": 3, "false": 1, "error": 0, "unknown": U}
OPERANDS = {"a": "6 / x = 2", "b": "6 / y = 2"}
"""Literals that are what `OUTCOMES` says for each of its values."""
CELLS: dict[str, Value] = {"null": None, "true": TRUE, "web": WEB, "text": T, "2..4": B, "?": U, "??": V}
"""The values in headers that JSON has otherwise, or not at all."""
TABLE = re.compile(r"^## (.+)\n\n.+\n\n((?:\|.+\n)+)", re.M)


@dataclass(frozen=True)
class Table:
    """Literals over x, or x and y, for each of some rows; or an aggregate of v over each of some sets."""

    title: str
    header: tuple[str, ...]
    answers: Mapping[str, list[str]]

    @property
    def sets(self) -> bool:
        return self.header[0].startswith("{")

    @property
    def outcomes(self) -> bool:
        """Whether the rows choose what the literals `a` and `b` are."""
        return all(set(cell.split(", ")) <= OUTCOMES.keys() for cell in self.header)

    @property
    def rows(self) -> list[Row]:
        cells = [cell.strip("{}").split(", ") for cell in self.header]
        return [tuple(self._value(text) for text in cell if text) for cell in cells]

    def _value(self, text: str) -> Value:
        if self.outcomes:
            return OUTCOMES[text]
        value: Value = CELLS[text] if text in CELLS else json.loads(text)
        return value


def read_tables() -> list[Table]:
    """The tables of docs/truth.md, which are written by hand."""
    tables = []
    for title, text in TABLE.findall((DOCS / "truth.md").read_text("utf-8")):
        (_, *header), _, *lines = [line[2:-2].split(" | ") for line in text.splitlines()]
        tables.append(Table(title, tuple(header), {literal.strip("`"): answers for literal, *answers in lines}))
    return tables


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
    columns = ", ".join("xy"[: len(row)])
    return outcome(f'p("true") :- q({columns}), {literal}.', {"q": [row]}, len(row), table.title == "null")


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
