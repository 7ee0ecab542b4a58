"""Inputs of builtins that are errors, and text tests used on networks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import TESTS, constants, name_of, read_network
from datalog_gate.analysis.same_values import SameValues
from datalog_gate.base.diagnostics import Advice, Diagnostic, Severity, Span, format_count, suggest_code
from datalog_gate.schema.declaration import Relation, RelationRef

OF_NETWORKS = (
    "cidr_contains", "cidr_overlaps", "cidr_host_count", "ip_in_network", "networks_equal", "networks_overlap",
)  # fmt: skip
OF_DAYS = ("days_until", "unpack_date", "unpack_datetime", "extract_date", "datetime_to_seconds")
ADDRESSES = ("net_cidr", "ip_or_cidr", "ip_addr")
"""The custom constraints of properties that hold an address or a network."""
SIZE = re.compile(r"\s*\d+(\.\d+)? ?([kmgtpe]i?)?b?\s*", re.IGNORECASE)


def find_bad_inputs(
    call: ir.Call, around: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation]
) -> Iterator[Diagnostic]:
    """Report inputs that a builtin rejects, or compares by characters where that is not meant."""
    yield from _find_parts_past_end(call, around)
    yield from _find_prefixes_of_networks(call, around, relations)
    name = call.builtin.partition(".")[0]
    match call.inputs:
        case (ir.Const(str() as text), *_) if name in OF_DAYS and not _is_day(text):
            message = f"{text!r} is not a date: {name} fails"
            yield _warning("unknown-value", message, call.span, 'write it like "2027-03-01"', "error")
        case (ir.Const(str() as text),) if name == "parse_size" and not SIZE.fullmatch(text):
            message = f"{text!r} is not a size: {name} fails"
            yield _warning("unknown-value", message, call.span, 'write it like "2 GiB"', "error")
        case (ir.Const(), ir.Const()) if not call.outputs and (name in TESTS or name in OF_NETWORKS):
            message = f"{name} tests two constants: the result is the same for every stack"
            yield _warning("argument-order", message, call.span, "test a value of the stack")


def find_addresses_in_order(
    compare: ir.Compare, around: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation]
) -> Iterator[Diagnostic]:
    """Report addresses that are ordered as texts: "10.0.0.9" comes after "10.0.0.10"."""
    customs = _customs(around, relations)
    if any(customs.get(side) in ADDRESSES for side in (compare.left, compare.right)):
        message = "addresses are compared as text here: 10.0.0.9 comes after 10.0.0.10"
        builtin = {"<": "ips_lt", "<=": "ips_lteq", ">": "ips_gt", ">=": "ips_gteq"}[compare.comparator]
        advice = suggest_code(f"{builtin}({_written(compare.left)}, {_written(compare.right)})")
        yield _warning("argument-order", message, compare.span, advice)


def _is_day(text: str) -> bool:
    """Whether the text begins with a day, with or without leading zeros, or with the name of a month."""
    numbers = re.match(r"(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)", text := text.strip())
    if text[:1].isalpha():
        return True
    with suppress(ValueError):
        return numbers is not None and date(*map(int, numbers.groups())) is not None
    return False


def _find_parts_past_end(call: ir.Call, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
    """Report a `split` that fails for a text with fewer parts, unless the body tests the text."""
    match call:
        case ir.Call("split", (_, ir.Const(""), _)) | ir.Call("replace", (_, ir.Const(""), _)):
            message = f"{call.builtin} fails if the text to look for is empty"
            yield _warning("unguarded", message, call.span, f"write the text that {call.builtin} should look for")
        case ir.Call("split", (ir.Var() as text, ir.Const(str() as separator), ir.Const(int() as index))) if index:
            same = SameValues(around)
            tests = (near for near in around if isinstance(near, ir.Call) and near.builtin in TESTS)
            if index < 0:
                yield _warning("unguarded", "split counts parts from 0", call.span, "write an index of 0 or more")
            elif not any(same.of(test.inputs[0]) == same.of(text) for test in tests):
                number = format_count(index, "part")
                message = f"split fails for a text of at most {number}: parts are counted from 0"
                test = f'contains({name_of(text)}, "{separator}")'
                if index > 1:
                    plain = "".join(sign if sign.isalnum() or sign in "-_/:,=@ " else f"[{sign}]" for sign in separator)
                    test = f'matches({name_of(text)}, "{".*".join([plain] * index)}")'
                yield _warning("unguarded", message, call.span, Advice(f"test before it `{test}`", f"{test}, "))


def _find_prefixes_of_networks(
    call: ir.Call, around: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation]
) -> Iterator[Diagnostic]:
    """Report a test for a network as a text prefix: no smaller network begins with "10.0.0.0/8"."""
    if call.builtin not in ("starts_with", "contains", "matches"):
        return
    text, part = call.inputs
    if _customs(around, relations).get(text) not in ADDRESSES:
        return
    for constant, span in constants(part, call.span, around):
        written = str(constant.value).strip("^$").replace("[.]", ".").replace("\\.", ".")
        if "/" in written and read_network(written):
            message = f"{call.builtin} compares text, so it does not find the addresses in {written}"
            advice = suggest_code(f'cidr_contains("{written}", {_written(text)})')
            yield _warning("argument-order", message, span, advice)


def _customs(body: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation]) -> Mapping[ir.Operand, str]:
    """The custom constraints of the columns that bind the variables of a body, through defaults too."""
    customs: dict[ir.Operand, str] = {}
    for literal in body:
        match literal:
            case ir.Match(relation):
                customs |= {term: relations[relation].columns[at].custom for at, term in literal.column_terms}
            case ir.Call("??", (value, _), (ir.Var() as result,)):
                customs[result] = customs.get(value, "")
    return customs


def _written(operand: ir.Operand) -> str:
    return f'"{operand.value}"' if isinstance(operand, ir.Const) else name_of(operand)


def _warning(code: str, message: str, span: Span, suggestion: str, severity: Severity = "warning") -> Diagnostic:
    return Diagnostic(code, message, span, suggestion, severity)
