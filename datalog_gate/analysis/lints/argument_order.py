"""Arguments of a builtin in the wrong order, or for another builtin.

``starts_with("web-", name)`` asks whether `name` begins the constant; addresses are no texts in order.
"""

from __future__ import annotations

from collections.abc import Mapping

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import ADDRESSES, name_of, read_network
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import suggest_code
from datalog_gate.base.values import print_value

HAYSTACK = {
    "starts_with": "whether {1} begins with {0}", "ends_with": "whether {1} ends with {0}",
    "contains": "whether {1} contains {0}", "matches": "whether the pattern {0} occurs in {1}",
}  # fmt: skip
"""Builtins that take the text first, with what they say if their arguments are swapped."""
OF_ADDRESSES: Mapping[str, str] = {"<": "ips_lt", "<=": "ips_lteq", ">": "ips_gt", ">=": "ips_gteq"}


@lint(
    code="argument-order",
    wrong='p(x) :- heat:resource(id=x, name=n), starts_with("web-", n).',
    right='p(x) :- heat:resource(id=x, name=n), starts_with(n, "web-").',
)
def find_argument_order(review: Review) -> Found:
    for literal, body in review.literals:
        match literal:
            case ir.Compare(sign, left, right, span) if sign in OF_ADDRESSES:
                if _is_address(left, body, review) or _is_address(right, body, review):
                    message = "addresses are compared as text here: 10.0.0.9 comes after 10.0.0.10"
                    advice = suggest_code(f"{OF_ADDRESSES[sign]}({_written(left)}, {_written(right)})")
                    yield warn("argument-order", message, span, advice)
            case ir.Call():
                yield from _find_prefixes(literal, body, review)
                yield from _find_order(literal, body)


def _find_prefixes(call: ir.Call, body: BodyFacts, review: Review) -> Found:
    """Report a test for a network as a text prefix: no smaller network begins with "10.0.0.0/8"."""
    if call.builtin not in ("starts_with", "contains", "matches") or not _is_address(call.inputs[0], body, review):
        return
    for constant, span in body.constants(call.inputs[1], call.span):
        written = str(constant.value).strip("^$").replace("[.]", ".").replace("\\.", ".")
        if "/" in written and read_network(written):
            message = f"{call.builtin} compares text, so it does not find the addresses in {written}"
            advice = suggest_code(f'cidr_contains("{written}", {_written(call.inputs[0])})')
            yield warn("argument-order", message, span, advice)


def _find_order(call: ir.Call, body: BodyFacts) -> Found:
    """Report a constant, or a list of them, where a builtin takes the text or the network that is searched."""
    given = [[constant for constant, _ in body.constants(term, call.span)] for term in call.inputs]
    inputs = [found[0] if len(found) == 1 else term for found, term in zip(given, call.inputs, strict=True)]
    match call.builtin, inputs:
        case ("replace" | "split" as name, [ir.Const(constant), ir.Var() as text, *_]):
            message = f"{name} takes the text first, but its first argument is {print_value(constant)}"
            yield warn("argument-order", message, call.span, f"write {name}({name_of(text)}, ...)")
        case (name, [first, ir.Var() as text]) if name in HAYSTACK:
            if isinstance(first, ir.Const) or (body.listed(first) and not body.listed(text)):
                shown = print_value(first.value) if isinstance(first, ir.Const) else name_of(first), name_of(text)
                message = f"{name} takes the text first: this does not test {HAYSTACK[name].format(*shown)}"
                yield warn("argument-order", message, call.span, suggest_code(f"{name}({shown[1]}, {shown[0]})"))
        case ("cidr_contains", [ir.Var() as network, ir.Const(str() as inner)]):
            yield from _find_large(call, inner, name_of(network))
        case ("ip_in_network", [ir.Const(str() as inner), ir.Var() as network]):
            yield from _find_large(call, inner, name_of(network))


def _find_large(call: ir.Call, inner: str, network: str) -> Found:
    several = read_network(inner)
    if several and 0 < several.prefixlen < several.max_prefixlen:
        written = print_value(inner)
        message = f"this holds if {network} contains all of {written}, not if {network} is within {written}"
        swapped = (written, network) if call.builtin == "cidr_contains" else (network, written)
        yield warn("argument-order", message, call.span, suggest_code(f"{call.builtin}({', '.join(swapped)})"))


def _is_address(operand: ir.Operand, body: BodyFacts, review: Review) -> bool:
    return any(review.column(place).custom in ADDRESSES for place in body.columns(operand))


def _written(operand: ir.Operand) -> str:
    return f'"{operand.value}"' if isinstance(operand, ir.Const) else name_of(operand)
