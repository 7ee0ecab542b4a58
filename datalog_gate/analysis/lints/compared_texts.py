"""A text that a column of a template never holds.

It is a pattern, a type in place of a name, "null" in quotes, or a network in place of an address.
"""

from __future__ import annotations

import re

from datalog_gate.analysis.allowed_values import OF_PROPERTIES
from datalog_gate.analysis.bodies import Place
from datalog_gate.analysis.constants import ADDRESSES, read_network
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.program import Match
from datalog_gate.base.diagnostics import Span, suggest_code
from datalog_gate.base.values import Kind, print_value
from datalog_gate.schema.declaration import Column, relation_name

WILD = re.compile(r"\^.+|.+\$|.*\.[*+].*|[\w./:-]+[*%]|[*%][\w./:-]+")
"""A text that looks like a pattern of a shell, of SQL or of `matches`."""
NULLS = ("null", "None", "nil", "NULL", "Null")
INDEX = re.compile(r"\[(\d+)\]")


@lint(
    code="unknown-value",
    wrong='p(x) :- heat:resource(id=x, name="OS::Nova::Server").',
    right='p(x) :- heat:resource(id=x, type="OS::Nova::Server").',
)
def find_compared_texts(review: Review) -> Found:
    for match, body in review.matches:
        named_only, is_resource = review.relations[match.relation].named_only, _is_resource(match)
        for at, argument in match.column_terms:
            if named_only or is_resource or review.column((match, at)).name == "path":
                for text, span in body.texts(argument, match.span):
                    yield from _find(text, span, (match, at), review)


def _is_resource(match: Match) -> bool:
    return relation_name(match.relation) == "heat:resource"


def _find(text: str, span: Span, place: Place, review: Review) -> Found:
    (match, at), column = place, review.column(place)
    never = f"{column.name} of {match.relation} is never {text!r}"
    is_resource = _is_resource(match)
    if is_resource and column.name in ("stack", "name") and "::" in text:
        yield warn("unknown-value", f"{never}, which is a type", span, suggest_code(f'type="{text}"'))
    elif is_resource and column.name == "name" and "/" in text:
        name = suggest_code(print_value(text.rpartition("/")[2]))
        yield warn("unknown-value", f"{never}: a name contains no slash", span, name)
    elif column.name == "path" and INDEX.search(text) and relation_name(match.relation) not in OF_PROPERTIES:
        yield warn("unknown-value", never, span, suggest_code(print_value(INDEX.sub(r".\1", text))))
    elif not column.allowed and (review.relations[match.relation].named_only or (is_resource and at)):
        yield from _find_in_property(text, span, column, never)


def _find_in_property(text: str, span: Span, column: Column, never: str) -> Found:
    if WILD.fullmatch(text) and not column.name.startswith("_"):
        part = text.strip("^$").removesuffix(".*").strip("*%")
        message = f"{text!r} is compared literally, not as a pattern"
        yield warn("loose-pattern", message, span, f'use starts_with({column.name}, "{part}") or matches')
    elif text in NULLS and Kind.NULL in column.kinds:
        message = f"{text!r} is a string, but a property that a template leaves out is null"
        yield warn("unknown-value", message, span, "write null without quotes")
    elif text and (advice := _other_address(column.custom, text)):
        yield warn("unknown-value", never, span, advice)


def _other_address(custom: str, text: str) -> str | None:
    """What to write instead of a text that a property with that custom constraint never has; None if it may."""
    if custom not in ADDRESSES:
        return None
    network = read_network(text)
    if network is None:
        return "write an address" if custom == "ip_addr" else "write an address, or a network such as 10.0.0.0/8"
    if custom == "ip_addr" and "/" in text:
        return f'write an address, or use cidr_contains("{text}", x) with a variable'
    if custom == "net_cidr" and "/" not in text:
        return suggest_code(print_value(f"{text}/{0 if int(network.network_address) == 0 else network.max_prefixlen}"))
    return None
