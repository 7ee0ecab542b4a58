"""Texts of which parts are known, such as ``web-{get_param: env}``."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import lru_cache

from datalog_gate.base.expression import Entries, Expression, Frozen, Masked, phrase
from datalog_gate.base.secrecy import pieces
from datalog_gate.base.values import Unknown, Value, show

Parts = list[str | Expression]
"""The parts of a text in order: what is known, and expressions for the rest."""
_EACH = phrase("one of several values")


def differ(value: Value, other: Value) -> bool:
    """Whether two texts are different whatever their unknown parts are."""
    left, right = _parts_of(value), _parts_of(other)
    if left is None or right is None or not (left and right):
        return False
    several = any(isinstance(text, Unknown) and text.several for text in (value, other))
    if several:
        left = [part if isinstance(part, str) else _EACH for part in left]
    if _clash(left, right) or _clash(_reversed(left), _reversed(right)):
        return True
    if several:
        return False
    (short, fewer), (long, more) = sorted((_measure(left), _measure(right)), key=lambda measured: measured[0])
    return short < long and fewer <= more


def _parts_of(value: Value) -> Parts | None:
    """The parts of a text; None for a value that is none, or of which nothing is known."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Unknown):
        return None
    if value.prefix:
        return [value.prefix, value.source]
    parts = _split(value.source)
    return None if parts == [value.source] else list(parts)


@lru_cache(1024)
def _split(source: Expression) -> Parts:
    """The parts of a text that a function makes."""
    match source.function, source.arguments:
        case "&" | "concat", (first, second):  # an f-text, and a builtin
            return _flat([show(part) if isinstance(part, int | Decimal) else part for part in (first, second)])
        case "list_join" | "Fn::Join", (str(separator), *lists) if all(
            isinstance(items, tuple) and not isinstance(items, Entries | Masked) for items in lists
        ):
            texts: list[Frozen] = []
            for item in [item for items in lists for item in items]:  # type: ignore[union-attr]
                texts += [separator, item]
            return _flat(texts[1:])
        case str(function), Entries(pairs) if function.startswith("str_replace"):
            arguments = dict(pairs)
            template, params = arguments.get("template"), arguments.get("params")
            if isinstance(template, str) and isinstance(params, Entries):
                values = {str(key): value for key, value in params.pairs}
                return _flat([*pieces(template, values, lambda key: values[key])])
    return [source]


def _flat(texts: list[Frozen]) -> Parts:
    """The texts as parts, with known ones that follow each other as one."""
    parts: Parts = []
    for text in texts:
        inner: Parts = []
        match text:
            case Expression():
                inner = _split(text)
            case Masked(inside):
                inner = [*inside]
            case None:
                continue
            case str():
                inner = [text]
            case _:  # Heat may write it in several ways
                inner = [Expression("text of", text)]
        for part in inner:
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            elif part != "":
                parts.append(part)
    return parts


def _clash(left: Parts, right: Parts) -> bool:
    """Whether the texts differ where they begin, up to the first part that is unknown in one of them alone."""
    left, right = [*left], [*right]
    while left and right:
        first, other = left.pop(0), right.pop(0)
        if isinstance(first, str) and isinstance(other, str):
            length = min(len(first), len(other))
            if first[:length] != other[:length]:
                return True
            left = [first[length:], *left] if first[length:] else left
            right = [other[length:], *right] if other[length:] else right
        elif first != other:
            return False
    return False


def _reversed(parts: Parts) -> Parts:
    return [part[::-1] if isinstance(part, str) else part for part in reversed(parts)]


def _measure(parts: Parts) -> tuple[int, Counter[Expression]]:
    """The number of known characters, and the unknown parts."""
    known = sum(len(part) for part in parts if isinstance(part, str))
    return known, Counter(part for part in parts if isinstance(part, Expression))
