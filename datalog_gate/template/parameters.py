"""The parameters of one template with their effective values (layer 2).

In: the section, and the values that environments, callers or a parent gave. Out: `Parameter` values; what is wrong is
reported. Types and constraints are those of heat/engine/parameters.py. A parameter without any value is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from datalog_gate.diagnostics import Span, closest
from datalog_gate.facts.stack import Data, Parameter
from datalog_gate.template.dialect import Dialect
from datalog_gate.template.document import size_of
from datalog_gate.template.expressions import leaves, undecided
from datalog_gate.values import ResourceId, Unknown

TYPES = ("string", "number", "comma_delimited_list", "json", "boolean")
_CFN_TYPES = {
    "String": TYPES[0],
    "Number": TYPES[1],
    "CommaDelimitedList": TYPES[2],
    "Json": TYPES[3],
    "Boolean": TYPES[4],
}
_TRUE, _FALSE = {"1", "t", "true", "on", "y", "yes"}, {"0", "f", "false", "off", "n", "no"}
_CFN_CONSTRAINTS = {
    "AllowedValues": ("allowed_values", None),
    "AllowedPattern": ("allowed_pattern", None),
    "MinValue": ("range", "min"),
    "MaxValue": ("range", "max"),
    "MinLength": ("length", "min"),
    "MaxLength": ("length", "max"),
}
_CFN_KEYS = {"Type", "Default", "Description", "NoEcho", "ConstraintDescription", "Label", *_CFN_CONSTRAINTS}
_HOT_KEYS = {"type", "default", "description", "label", "hidden", "constraints", "immutable", "tags"}

Report = Callable[[str, str, str, str | None], None]
"""Says what is wrong: code, message, name of the parameter (perhaps one that is not defined), suggestion."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value from outside the template: `origin` as in `Parameter`, `place` where the user wrote it."""

    value: Data
    origin: str
    place: Span | None = None


def declared_types(section: Data, dialect: Dialect) -> dict[str, Data]:
    """What type each parameter of a section says that it has, as HOT calls it."""
    key = dialect.key("type")
    written = (
        {name: one.get(key) for name, one in section.items() if isinstance(one, dict)}
        if isinstance(section, dict)
        else {}
    )
    return written if dialect.hot else {name: _CFN_TYPES.get(str(kind)) for name, kind in written.items()}


def read_parameters(
    section: Mapping[str, Data],
    dialect: Dialect,
    given: Mapping[str, Given],
    defaults: Mapping[str, Given],
    report: Report,
    no_value: Callable[[str], Unknown],
) -> tuple[Parameter, ...]:
    """The parameters in the order of the section; `no_value` makes the unknown of one that has none."""
    for at, name in enumerate(sorted(given.keys() - section.keys())):
        near = closest(name, section) if at < 10 else None  # what is far off many times is not worth the search
        report("bad-parameter", f"there is no parameter `{name}`", name, near and f"did you mean `{near}`?")
    return tuple(
        _parameter(name, definition, dialect, given.get(name), defaults.get(name), report, no_value)
        for name, definition in section.items()
    )


def _parameter(
    name: str,
    definition: Data,
    dialect: Dialect,
    given: Given | None,
    default: Given | None,
    report: Report,
    no_value: Callable[[str], Unknown],
) -> Parameter:
    keys = _HOT_KEYS if dialect.hot else _CFN_KEYS
    if not isinstance(definition, dict) or (wrong := [key for key in definition if key not in keys]):
        what = f"has no key `{wrong[0]}`" if isinstance(definition, dict) else "must be a map"
        report("bad-template", f"the definition of parameter `{name}` {what}", name, None)
        return Parameter(name, "string", no_value(name), "none", False, {})
    written = definition.get(dialect.key("type"))
    kind = written if dialect.hot else _CFN_TYPES.get(str(written))
    if kind not in TYPES:
        known = ", ".join(TYPES if dialect.hot else _CFN_TYPES)
        report("bad-template", f"the type of parameter `{name}` is none of {known}", name, None)
        kind = "string"
    hidden = str(definition.get("hidden" if dialect.hot else "NoEcho", "")).lower() == "true"
    rest = {key: value for key, value in definition.items() if key not in (dialect.key("type"), dialect.key("default"))}
    chosen = next((one for one in (given, default) if one and one.value is not None), None)
    if chosen is None and definition.get(dialect.key("default")) is not None:
        chosen = Given(definition[dialect.key("default")], "default")
    if chosen is None:
        return Parameter(name, kind, no_value(name), "none", hidden, rest)
    try:
        value = convert(kind, chosen.value)
        if not undecided(value) and not isinstance(value, ResourceId):
            for constraint, limit in _constraints(definition, dialect.hot):
                _check(constraint, limit, kind, value)
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, re.error) as error:
        shown = "a hidden value" if hidden else repr(chosen.value)[:80]
        reason = (
            error if isinstance(error, _RefusedError) and not hidden else f"it is no {kind} that the template takes"
        )
        report("bad-parameter", f"parameter `{name}` can't be {shown}: {reason}", name, None)
        return Parameter(name, kind, no_value(name), chosen.origin, hidden, rest)
    return Parameter(name, kind, value, chosen.origin, hidden, rest)


def convert(kind: str, value: Data) -> Data:
    """The value as a parameter of that type holds it. Errors: ValueError, TypeError, AttributeError, RecursionError."""
    if isinstance(value, Unknown | ResourceId):
        return value
    match kind:
        case "number" if not isinstance(value, int | float):
            try:
                return int(value)  # type: ignore[call-overload]
            except ValueError:
                return float(value)  # type: ignore[arg-type]
        case "boolean":
            text = str(value).strip().lower()
            if text not in _TRUE | _FALSE:
                raise _RefusedError("it is neither true nor false")
            return text in _TRUE
        case "comma_delimited_list" if isinstance(value, list):
            return [item if isinstance(item, Unknown | ResourceId) else str(item) for item in value]
        case "comma_delimited_list":
            return value.split(",") if value else []  # type: ignore[attr-defined]
        case "json" if isinstance(value, str):
            parsed = json.loads(value) if value else value
            if size_of(parsed) is None:
                raise _RefusedError("it is too large or too deep")
            return parsed
        case "json" if not any(isinstance(leaf, Unknown | ResourceId) for leaf in leaves(value)):
            return json.loads(json.dumps(value))
        case "string" if not any(isinstance(leaf, Unknown | ResourceId) for leaf in leaves(value)):
            return str(value)
    return value


class _RefusedError(ValueError):
    """A value that a constraint refuses; the message may be shown."""


def _constraints(definition: Mapping[str, Data], hot: bool) -> list[tuple[str, Data]]:
    if not hot:
        named = [(*_CFN_CONSTRAINTS[key], value) for key, value in definition.items() if key in _CFN_CONSTRAINTS]
        return [(name, {bound: value} if bound else value) for name, bound, value in named]
    constraints = definition.get("constraints") or []
    if not isinstance(constraints, list) or not all(isinstance(one, dict) for one in constraints):
        raise _RefusedError("its constraints are no list of maps")
    return [(name, limit) for one in constraints for name, limit in one.items() if name != "description"]


def _check(constraint: str, limit: Data, kind: str, value: Data) -> None:
    """Raises _RefusedError for a value that the constraint refuses. Custom constraints ask the cloud: left to Heat."""
    match constraint, limit:
        case "range" | "length", dict():
            amount = len(value) if constraint == "length" else convert("number", value)  # type: ignore[arg-type]
            low, high = (
                limit.get(end) if limit.get(end) is None else convert("number", limit[end]) for end in ("min", "max")
            )
            if (low is not None and amount < low) or (high is not None and amount > high):  # type: ignore[operator]
                raise _RefusedError(
                    f"its {'length' if constraint == 'length' else 'value'} is not within {low} and {high}"
                )
        case "modulo", dict():
            if convert("number", value) % convert("number", limit["step"]) != convert("number", limit.get("offset", 0)):  # type: ignore[operator]
                raise _RefusedError(f"it is no multiple of {limit['step']} plus {limit.get('offset', 0)}")
        case "allowed_values", list():
            texts = {item for item in limit if not isinstance(item, dict | list)}
            allowed = texts.issuperset(value) if isinstance(value, list) else _allowed(kind, value, limit)
            if not allowed:
                raise _RefusedError(f"it is none of {', '.join(map(str, limit))[:200]}")
        case "allowed_pattern", str():
            if _harmless(limit, str(value)) and not re.fullmatch(limit, str(value)):
                raise _RefusedError(f"it does not match {limit[:200]}")
        case "custom_constraint", _:
            pass
        case _:
            raise _RefusedError(f"there is no constraint `{constraint}` of this form")


def _allowed(kind: str, value: Data, limit: list[Data]) -> bool:
    return any(convert(kind, one) == value for one in limit)


def _harmless(pattern: str, value: str) -> bool:
    """Whether matching surely ends soon: the pattern is the user's, and Heat checks again what is skipped here."""
    repeats = len(re.findall(r"[*+]|\{\d*,\d*\}", pattern))
    return len(value) <= 256 and repeats <= 3 and not re.search(r"[*+}|][^()]*\)[*+{?]|\\\d", pattern)
