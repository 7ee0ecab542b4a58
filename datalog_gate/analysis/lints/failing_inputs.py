"""An input with which a builtin fails.

It is no network, date or size, or the index of a part that a text may lack.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import OF_NETWORKS, TESTS, name_of, read_network
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Advice, Diagnostic, format_count
from datalog_gate.base.values import print_value

OF_DAYS = ("days_until", "unpack_date", "unpack_datetime", "extract_date", "datetime_to_seconds")
SIZE = re.compile(r"\s*\d+(\.\d+)? ?([kmgtpe]i?)?b?\s*", re.IGNORECASE)


@lint(
    code="unguarded",
    wrong='p(x) :- heat:resource(id=x, name=n), split(n, "-", 1, "db").',
    right='p(x) :- heat:resource(id=x, name=n), contains(n, "-"), split(n, "-", 1, "db").',
)
def find_failing_inputs(review: Review) -> Found:
    for call, body in review.calls:
        yield from _find_other_values(call, body)
        yield from _find_parts(call, body)


def _find_other_values(call: ir.Call, body: BodyFacts) -> Found:
    name = call.builtin.partition(".")[0]
    match call.inputs:
        case (ir.Const(str() as text), *_) if name in OF_DAYS and not _is_day(text):
            yield _error(call, f"{text!r} is not a date: {name} fails", 'write it like "2027-03-01"')
        case (ir.Const(str() as text),) if name == "parse_size" and not SIZE.fullmatch(text):
            yield _error(call, f"{text!r} is not a size: {name} fails", 'write it like "2 GiB"')
    for term in call.inputs if name in OF_NETWORKS else ():
        given = body.constants(term, call.span)
        written = given[0][0].value if len(given) == 1 else None
        if isinstance(written, str) and not read_network(written):
            advice = "write an address, or a network such as 10.0.0.0/8"
            yield _error(call, f"{print_value(written)} is not a network", advice)


def _error(call: ir.Call, message: str, advice: str) -> Diagnostic:
    return Diagnostic("unknown-value", message, call.span, advice)


def _is_day(text: str) -> bool:
    """Whether the text begins with a day, with or without leading zeros, or with the name of a month."""
    numbers = re.match(r"(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)", text := text.strip())
    if text[:1].isalpha():
        return True
    with suppress(ValueError):
        return numbers is not None and date(*map(int, numbers.groups())) is not None
    return False


def _find_parts(call: ir.Call, body: BodyFacts) -> Found:
    """Report a `split` that fails for a text with fewer parts, unless the body tests the text."""
    match call:
        case ir.Call("split", (ir.Var() as text, ir.Const(str() as separator), ir.Const(int() as index))) if index:
            tests = (near for near in body.around if isinstance(near, ir.Call) and near.builtin in TESTS)
            if index < 0:
                yield warn("unguarded", "split counts parts from 0", call.span, "write an index of 0 or more")
            elif not any(body.leader(test.inputs[0]) == body.leader(text) for test in tests):
                number = format_count(index, "part")
                message = f"split fails for a text of at most {number}: parts are counted from 0"
                test = f'contains({name_of(text)}, "{separator}")'
                if index > 1:
                    plain = "".join(sign if sign.isalnum() or sign in "-_/:,=@ " else f"[{sign}]" for sign in separator)
                    test = f'matches({name_of(text)}, "{".*".join([plain] * index)}")'
                yield warn("unguarded", message, call.span, Advice(f"test before it `{test}`", f"{test}, "))
