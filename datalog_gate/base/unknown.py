"""Functions that create and inspect unknown values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from hashlib import sha256

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.expression import CUT, Entries, Expression, Frozen, Masked, Masks, cut
from datalog_gate.base.secrecy import pieces
from datalog_gate.base.values import FALSE, TRUE, Boolean, ResourceId, Unknown, bases

UNREAD = ("yaql", "Fn::GetAZs")
"""Functions that Heat may compute when this reader can't. A user can choose their results."""
TEXTS = ("str_replace", "str_replace_strict", "str_replace_vstrict", "list_join", "digest", "Fn::Join", "Fn::Replace")
"""Functions that always return a text."""
LOGIC = ("equals", "not", "and", "or", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or")
"""Functions that always return a truth value."""
ATTRIBUTES = ("get_attr", "Fn::GetAtt")
EQUALITY = "whether"
"""The function of expressions that ask whether unknowns are equal."""
_OF_RESOURCE = (*ATTRIBUTES, "get_resource")
_PARAMETERS = ("get_param", "Ref")
_OF_TEMPLATE = (*_OF_RESOURCE, "get_file", "Fn::FindInMap", "resource_facade", "Fn::ResourceFacade")
"""Functions that read their own template, so that their value depends on its stack."""


def call(function: str, arguments: object, stack: str, masks: Masks, place: Span | None) -> Unknown:
    """The value of a template function in this stack, over resolved arguments of which some are unknown.

    The expression gets the stack of the first unknown or reference in its arguments, so that a value which a parent
    passes to several stacks has the same expression in each. Functions that read their own template keep its stack.
    """
    symbols = [leaf for leaf in leaves(arguments) if isinstance(leaf, Unknown | ResourceId)]
    unknowns = [leaf for leaf in symbols if isinstance(leaf, Unknown)]
    first = arguments[0] if isinstance(arguments, list) and arguments else arguments
    if symbols and not (function in _OF_TEMPLATE or (function in _PARAMETERS and isinstance(first, str))):
        stack = _expression(symbols[0]).stack or stack
    return Unknown(
        Expression(function, freeze(arguments, masks), stack),
        place,
        unread=function in UNREAD or any(unknown.unread for unknown in unknowns),
        scalar=function in TEXTS,
        of=bases(unknowns),
        domain=(FALSE, TRUE) if function in LOGIC else (),
    )


def reference(resource: ResourceId) -> Expression:
    """The expression of a resource's id as part of a text, which is not known yet."""
    return Expression("get_resource", resource.name, resource.stack)


def derived(words: str, unknown: Unknown) -> Expression:
    """An expression in words that is derived from an unknown: the words, then the unknown's expression."""
    source = unknown.source
    return Expression(words, source, source.stack, f"{words}{source.text}")


def equality(pairs: Iterable[tuple[Unknown, Unknown]]) -> Unknown:
    """The unknown that is true if the unknowns of each pair are equal: ``whether {get_param: a} is {get_param: b} in
    web``."""
    unknowns = [unknown for pair in pairs for unknown in pair]
    stack = unknowns[0].source.stack
    texts = [unknown.source.text.removesuffix(f" in {stack}") for unknown in unknowns]
    words = " and ".join(f"{left} is {right}" for left, right in zip(texts[::2], texts[1::2], strict=True))
    return Unknown(
        Expression(EQUALITY, tuple(unknown.source for unknown in unknowns), stack, f"{EQUALITY} {words} in {stack}"),
        unknowns[0].place,
        unread=any(unknown.unread for unknown in unknowns),
        of=bases(unknowns),
    )


def outline(unknown: Unknown, stack: str) -> object:
    """All that distinguishes an unknown but its place, the same in stacks that differ in their names alone."""
    known: dict[Expression, str] = {}
    return [
        (
            _outline(part.source, stack, known),
            (part.apart, part.hidden, part.unread, part.scalar, part.several),
            (part.kinds, part.bounds, part.prefix, part.domain),
        )
        for part in (unknown, *unknown.of)
    ]


def _outline(part: Frozen, stack: str, known: dict[Expression, str]) -> object:
    """The structure of an expression, with the digests of those within it in `known`."""
    match part:
        case Expression():
            if part not in known:
                own = part.stack == stack or part.stack.startswith(f"{stack}/")
                place = (own, part.stack[len(stack) :] if own else part.stack)
                text = repr((part.function, _outline(part.arguments, stack, known), place))
                known[part] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            return known[part]
        case tuple():
            return type(part).__name__, [_outline(inner, stack, known) for inner in part]
    return part


def rests_on(unknown: Unknown, other: Unknown) -> bool:
    """Whether the unknown is the other one, or was `derived` from it."""
    source: Frozen = unknown.source
    wanted = other.source
    while isinstance(source, Expression):
        if source == wanted:
            return True
        source = source.arguments
    return False


def at_member(source: Expression, variable: str, index: str) -> Expression:
    """The expression from a group's definition, as its member `index` sees it: `variable` is replaced.

    Names that a function reads, and texts that were cut, stay as they are: Heat replaces the variable in their values,
    which are not known.
    """
    body = source.text.removesuffix(f" in {source.stack}")
    if variable not in body and CUT not in body:
        return source
    text = cut(body.replace(variable, index) if variable in body else f"{body} at {index}", source.stack)
    if CUT in body or source.function in (*_OF_TEMPLATE, *_PARAMETERS):
        return Expression(f"{variable} is {index}", source, source.stack, text)
    return Expression(source.function, _at_member(source.arguments, variable, index), source.stack, text)


def _at_member(data: Frozen, variable: str, index: str) -> Frozen:
    match data:
        case str():
            return data.replace(variable, index)
        case Expression():
            return at_member(data, variable, index)
        case Entries(pairs):
            changed = (tuple(_at_member(part, variable, index) for part in pair) for pair in pairs)
            return Entries(tuple((key, value) for key, value in changed))
        case Masked(pieces):
            texts = [piece.replace(variable, index) if isinstance(piece, str) else piece for piece in pieces]
            return Masked(tuple(texts))
        case tuple():
            return tuple(_at_member(item, variable, index) for item in data)
    return data


def resources_read(unknown: Unknown) -> Iterator[ResourceId | None]:
    """The resources whose id or attributes the value depends on; None for one with a hidden name."""
    for expression in unknown.source.walk():
        if expression.function in _OF_RESOURCE:
            arguments = expression.arguments
            name = arguments[0] if type(arguments) is tuple else arguments
            yield ResourceId(f"{expression.stack}/{name}") if isinstance(name, str) else None


def leaves(data: object, keys: bool = False) -> Iterator[object]:
    """Every scalar of the data, in order; with `keys` also the keys of maps."""
    pending = [data]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending.extend(reversed(part.values()))
            pending.extend(part if keys else ())
        elif isinstance(part, list):
            pending.extend(reversed(part))
        else:
            yield part


def undecided(data: object) -> bool:
    """Whether something in the data is unknown. A reference to a resource is known."""
    return any(isinstance(leaf, Unknown) for leaf in leaves(data))


def freeze(data: object, masks: Masks) -> Frozen:
    """The data as arguments of an expression."""
    match data:
        case str():
            return _masked(data, masks) if masks else data
        case None | bool():
            return data
        case Unknown() | ResourceId():
            source = _expression(data)
            source.text  # noqa: B018 - is printed now, so that printing never follows a long chain of expressions
            return source
        case dict():
            pairs = [(freeze(key, masks), freeze(value, masks)) for key, value in data.items()]
            return Entries(tuple(sorted(pairs, key=lambda pair: repr(pair[0]))))
        case list():
            return tuple([freeze(item, masks) for item in data])
        case int() | float() | Decimal():
            return masks.get(str(data), data) if masks else data
        case Boolean():
            return data.truth
    return str(data)


def _masked(text: str, masks: Masks) -> str | Expression | Masked:
    """The text with expressions in place of the hidden values in it."""
    parts = pieces(text, masks, masks.__getitem__)
    return parts[0] if len(parts) == 1 else Masked(tuple(parts))


def _expression(symbol: Unknown | ResourceId) -> Expression:
    return symbol.source if isinstance(symbol, Unknown) else reference(symbol)
