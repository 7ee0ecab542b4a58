"""The parameters of a template with their effective values.

Types and constraints are those of heat/engine/parameters.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from math import ceil, floor, isfinite
from typing import Any, NamedTuple

from datalog_gate.base.diagnostics import Span, closest, suggest_name
from datalog_gate.base.expression import Expression
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.secrecy import MASK
from datalog_gate.base.unknown import leaves, undecided
from datalog_gate.base.values import OPEN, Bounds, Kind, ResourceId, Unknown, Value, from_python, number
from datalog_gate.stack.model import Data, Locate, Parameter, nowhere
from datalog_gate.stack.property_values import read_number
from datalog_gate.template.allowed_pattern import matches_whole
from datalog_gate.template.assumptions import Assumptions
from datalog_gate.template.dialect import Dialect, dialect_of
from datalog_gate.template.document import read_integer, size_of, steps_of

MAX_CANDIDATES = 1000
"""The maximum number of names of which the one that was meant is looked for."""
TYPES = ("string", "number", "comma_delimited_list", "json", "boolean")
PSEUDO = ("OS::stack_name", "OS::stack_id", "OS::project_id")
"""The parameters that Heat adds to each stack."""
SCALARS = ("string", "number", "boolean")
WRITTEN = Kind.BOOLEAN | Kind.NUMBER | Kind.STRING
"""The kinds of a value written for a parameter: it is present, and not a resource of the stack."""
CFN_TYPES = dict(zip(("String", "Number", "CommaDelimitedList", "Json", "Boolean"), TYPES, strict=True))
_PER_PARAMETER, _PER_LETTER, _PER_ALLOWED = 20, 3, 1
"""The steps of reading a parameter, a character of its pattern, and an allowed value for each constraint; a character
of a text that holds JSON takes one."""
_TRUE, _FALSE = {"1", "t", "true", "on", "y", "yes"}, {"0", "f", "false", "off", "n", "no"}
_CFN_CONSTRAINTS = {
    "AllowedValues": ("allowed_values", None),
    "AllowedPattern": ("allowed_pattern", None),
    "MinValue": ("range", "min"),
    "MaxValue": ("range", "max"),
    "MinLength": ("length", "min"),
    "MaxLength": ("length", "max"),
}
CFN_KEYS = {"Type", "Default", "Description", "NoEcho", "ConstraintDescription", "Label", *_CFN_CONSTRAINTS}
_OFFERED_KEYS = ("type", "default", "description", "label", "hidden", "constraints", "immutable")
_HOT_KEYS = {*_OFFERED_KEYS, "schema"}
_CONSTRAINTS = {
    "modulo": ("number",),
    "range": ("number",),
    "length": ("string", "comma_delimited_list", "json"),
    "allowed_values": ("string", "number", "boolean", "comma_delimited_list"),
    "allowed_pattern": ("string",),
    "custom_constraint": ("string", "number", "boolean", "comma_delimited_list"),
}
"""The types that each constraint may apply to. If a map has several, Heat takes the first in this order."""
_BOUNDS = {"modulo": ("step", "offset"), "range": ("min", "max"), "length": ("min", "max")}
_LIMITS = {
    "modulo": "whole numbers `step` and `offset`, which is less",
    "range": "numbers `min`, `max` or both",
    "length": "whole numbers `min`, `max` or both",
    "allowed_values": "a list",
    "allowed_pattern": "a regular expression",
}
"""What each constraint takes that not every value can be."""

Report = Callable[[str, str, str, str | None, Span | None], None]
"""Reports a problem: code, message, name of the parameter, suggestion, and the place if it is not the definition."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value from outside the template. `origin` is as in `Parameter`, `place` is where the user names it, `written`
    where its value is written, `hidden` says that it came from a hidden parameter, `locate` returns the place of a
    path. `facade` says that it is a property of the resource whose type is the template, `named_by_hidden` that even
    its name came from a hidden parameter."""

    value: Data
    origin: str
    place: Span | None = None
    written: tuple[Span | None, ...] = ()
    hidden: bool = False
    locate: Locate = nowhere
    facade: bool = False
    named_by_hidden: bool = False


def list_parameter_keys(hot: bool) -> Sequence[str]:
    """The keys that define a parameter, in HOT or in CFN."""
    return _OFFERED_KEYS if hot else sorted(CFN_KEYS)


def list_parameter_types(hot: bool) -> Sequence[str]:
    """The types of parameters, in HOT or in CFN."""
    return TYPES if hot else list(CFN_TYPES)


def declared_types(template: Data) -> dict[str, Data]:
    """The declared type of each parameter of a template, in HOT's words; empty if the data is not a template."""
    dialect = dialect_of(template) if isinstance(template, dict) else ""
    if isinstance(dialect, str) or not isinstance(template, dict):
        return {}
    section = template.get(dialect.key("parameters"))
    if not isinstance(section, dict):
        return {}
    definitions = {name: definition for name, definition in section.items() if isinstance(definition, dict)}
    return {name: _type(definition, dialect) for name, definition in definitions.items()}


def _type(definition: Mapping[str, Data], dialect: Dialect) -> Data:
    written = definition.get(dialect.key("type"))
    return written if dialect.hot else CFN_TYPES.get(str(written))


def steps_of_section(section: Mapping[str, Data], given: Mapping[str, Given]) -> int:
    """The steps of reading the parameters in a section with these values."""
    steps = sum(steps_of(source.value) for source in given.values()) + sum(map(steps_of, section.values()))
    for name, definition in section.items():
        if not isinstance(definition, dict):
            continue
        constraints = definition.get("constraints", [{"allowed_pattern": definition.get("AllowedPattern")}])
        entries = [entry for entry in constraints if isinstance(entry, dict)] if isinstance(constraints, list) else []
        patterns = [entry.get("allowed_pattern") for entry in entries]
        steps += _PER_LETTER * _letters(patterns)
        lists = [
            entry.get("allowed_values") for entry in (*entries, {"allowed_values": definition.get("AllowedValues")})
        ]
        steps += _PER_ALLOWED * len(lists) * sum(len(values) for values in lists if isinstance(values, list))
        if str(definition.get("type", definition.get("Type"))).lower() == "json":
            default = definition.get("default", definition.get("Default"))
            steps += _letters([default, given[name].value if name in given else None])
    return steps + _PER_PARAMETER * len(section)


def _letters(values: Iterable[Data]) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


class ParameterScope(NamedTuple):
    """What the parameters of a template are read with. `no_value` creates the unknown for one without a value, whose
    integer part is within its `limits`, if any."""

    dialect: Dialect
    given: Mapping[str, Given]
    defaults: Mapping[str, Given]
    report: Report
    no_value: Callable[[str], Unknown]
    assumed: Assumptions
    limits: Mapping[str, tuple[int, float]]

    def nobody_knows(self, name: str) -> Unknown:
        """The unknown for the parameter if nothing gives it a value."""
        if name not in self.limits:
            return self.no_value(name)
        low, high = self.limits[name]
        most = int(high) + 1 if isfinite(high) else OPEN.high  # Heat cuts fractions off
        return replace(self.no_value(name), bounds=Bounds(low - 1, most))


def read_parameters(section: Mapping[str, Data], scope: ParameterScope) -> tuple[Parameter, ...]:
    """The parameters in the order of the section."""
    for at, name in enumerate(sorted(scope.given.keys() - section.keys())):
        # after many bad names the search is not worthwhile
        source = scope.given[name]
        is_compared = at < 10 and len(section) <= MAX_CANDIDATES and not source.named_by_hidden
        near = closest(name, section) if is_compared else None
        message = f"there is no parameter `{MASK if source.named_by_hidden else name}`"
        scope.report("bad-parameter", message, name, suggest_name(near, mark="`"), source.place)
    return tuple(_parameter(name, definition, scope) for name, definition in section.items())


def pseudo_parameters(dialect: Dialect, stack: str, name: str | None, defaults: Mapping[str, Given]) -> dict[str, Data]:
    """The parameters that Heat adds to the stack with that id, for which it takes defaults of the environment too.
    Names of nested stacks are unknown."""
    names = PSEUDO if dialect.hot else ("AWS::StackName", "AWS::StackId")
    known: dict[str, Data] = {} if name is None else {names[0]: name}
    for parameter in names[len(known) :]:
        known[parameter] = Unknown(Expression("get_param", parameter, stack), unread=True, scalar=True)
    if not dialect.hot:
        known["AWS::Region"] = "ap-southeast-1"  # heat/engine/cfn/parameters.py: its fixed default
    given = {parameter: defaults[parameter].value for parameter in known.keys() & defaults.keys()}
    return known | {parameter: convert("string", value) for parameter, value in given.items() if value is not None}


class _Declaration(NamedTuple):
    """A parameter as its template declares it."""

    name: str
    kind: str
    hidden: bool
    constraints: Limits


def _parameter(name: str, definition: Data, scope: ParameterScope) -> Parameter:
    dialect, report = scope.dialect, scope.report
    keys = CFN_KEYS if not dialect.hot else _HOT_KEYS | {"tags"} if dialect.date >= "2018-03-02" else _HOT_KEYS
    nobody_knows = scope.nobody_knows(name)
    if not isinstance(definition, dict):
        report("bad-template", f"the definition of parameter `{name}` must be a map", name, None, None)
        return Parameter(name, "string", nobody_knows, "none", False, {})
    definition = _as_meant(name, definition, keys, report)
    declared = _declare(name, definition, scope)
    kind, hidden = declared.kind, declared.hidden
    default_key = dialect.key("default")
    rest = {key: value for key, value in definition.items() if key not in (dialect.key("type"), default_key)}
    if definition.get(default_key) is not None:  # for Heat null is not a default
        rest["default"] = definition[default_key]
    sources = (source for source in (scope.given.get(name), scope.defaults.get(name)) if source)
    chosen = next((source for source in sources if source.facade or source.value is not None), None)
    own = definition.get(default_key)
    checked = kind == TYPES[2] or any(constraint != "custom_constraint" for constraint, _ in declared.constraints)
    if chosen and own is not None and checked:  # Heat checks unused defaults too
        _read(declared, report, Given(own, "default"), own)
    if chosen is None and own is not None:
        chosen = Given(own, "default")
    bounds = OPEN if hidden else _within(nobody_knows.bounds, _bounds(kind, declared.constraints))
    if chosen is None:
        nobody_knows = _without_value(nobody_knows, declared, bounds)
        value = scope.assumed.of(nobody_knows)
        if value is nobody_knows:
            return Parameter(name, kind, nobody_knows, "none", hidden, rest)
        chosen = Given("" if value is None else value, "none")  # as for a property, null means missing
    elif not isinstance(chosen.value, Unknown):
        scope.assumed.note_known(nobody_knows)
    value = _read(declared, report, chosen, nobody_knows)
    if isinstance(value, Unknown) and not value.hidden:
        value = replace(value, bounds=_within(value.bounds, bounds))
    return Parameter(name, kind, value, chosen.origin, hidden, rest)


def _declare(name: str, definition: Mapping[str, Data], scope: ParameterScope) -> _Declaration:
    """The type and constraints in a definition. Wrong ones are reported."""
    dialect, report = scope.dialect, scope.report
    kind = _type(definition, dialect)
    if kind not in TYPES:
        known = ", ".join(TYPES if dialect.hot else CFN_TYPES)
        near = closest(str(kind if dialect.hot else definition.get("Type")), TYPES if dialect.hot else CFN_TYPES)
        advice = suggest_name(near, mark="`")
        report("bad-template", f"the type of parameter `{name}` is not one of {known}", name, advice, None)
        kind = "string"
    try:
        constraints = list(_constraints(definition, str(kind), dialect))
        if not isinstance(definition.get("tags", []), list):
            raise _RefusedError("`tags` must be a list")
    except _RefusedError as error:
        report("bad-template", f"parameter `{name}`: {error}", name, None, None)
        constraints = []
    return _Declaration(name, str(kind), _is_hidden(definition), constraints)


def _without_value(unknown: Unknown, declared: _Declaration, bounds: Bounds) -> Unknown:
    """The unknown for a parameter without a value, with what its declaration says of the value."""
    domain = () if declared.hidden else _domain(declared.kind, declared.constraints)
    if unknown.bounds != OPEN:
        domain = tuple(value for value in domain if _is_inside(value, unknown.bounds)) or domain
    return replace(unknown, scalar=declared.kind in SCALARS, kinds=WRITTEN, domain=domain, bounds=bounds)


def _as_meant(name: str, definition: Mapping[str, Data], keys: Collection[str], report: Report) -> Mapping[str, Data]:
    """The definition of a parameter without wrong keys, which are reported, but with the values of misspelt ones."""
    near = {key: closest(str(key), keys) for key in definition if key not in keys}
    if not near:
        return definition
    meant = {near.get(key, key): value for key, value in definition.items() if near.get(key) not in definition}
    for key, other in near.items():
        shown = MASK if _is_hidden(meant) and not other else key  # may be the end of an unquoted default with a comma
        message = f"the definition of parameter `{name}` has no key `{shown}`"
        report("bad-template", message, name, suggest_name(other, mark="`"), None)
    return {key: value for key, value in meant.items() if key is not None}


def _is_hidden(definition: Mapping[Any, Data]) -> bool:
    return bool(definition.get("hidden")) or str(definition.get("NoEcho")).lower() == "true"


def _bounds(kind: str, constraints: Limits) -> Bounds:
    """The bounds by the ranges of a number, rounded outwards, since a property for whole numbers converts 1.5 to 1."""
    ranges: list[Any] = [limit for constraint, limit in constraints if constraint == "range" and kind == "number"]
    lows = [floor(low) for low, _ in ranges if low is not None and isfinite(low)]
    highs = [ceil(high) for _, high in ranges if high is not None and isfinite(high)]
    return Bounds(max(lows, default=OPEN.low), min(highs, default=OPEN.high))


def _within(bounds: Bounds, other: Bounds) -> Bounds:
    return Bounds(max(bounds.low, other.low), min(bounds.high, other.high))


def _is_inside(value: Value, bounds: Bounds) -> bool:
    """Whether a value, or the number in a text, is within the bounds."""
    try:
        return bounds.low < Decimal(str(value)) < bounds.high
    except InvalidOperation:
        return False


def _domain(kind: str, constraints: Limits) -> tuple[Value, ...]:
    """All values that the parameter can have, if it is a boolean or has allowed values. Numbers are as written there:
    ``1.0``, which Heat allows for ``1`` and writes differently in a text, is ignored."""
    allowed = [limit for constraint, limit in constraints if constraint == "allowed_values"]
    if kind not in SCALARS or not (allowed or kind == "boolean"):
        return ()
    values: dict[Value, None] = {}
    for candidate in allowed[0].written if allowed else [False, True]:
        try:
            value = convert(kind, candidate)
            for constraint, limit in constraints:
                _check(constraint, limit, kind, value)
            values[from_python(value)] = None
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
            continue  # Heat refuses it, too
    return tuple(values)


def _read(declared: _Declaration, report: Report, given: Given, refused: Data) -> Data:
    """The parameter's value; `refused` for an invalid one, which is reported."""
    kind = declared.kind
    try:
        value = convert(kind, _as_property(kind, given.value) if given.facade else given.value)
        if not undecided(value) and not isinstance(value, ResourceId):
            seen = given.value
            if kind == "comma_delimited_list":
                seen = [""] if seen == "" and given.origin == "default" else value
            elif kind == "json" and given.origin != "default":
                seen = value
            for constraint, limit in declared.constraints:
                _check(constraint, limit, kind, seen)
        return value
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        secret = declared.hidden or given.hidden
        shown = "a hidden value" if secret else _brief(given.value)
        known = isinstance(error, _RefusedError) and not secret
        reason = error if known else f"it is not a valid {kind}"
        report(
            "bad-parameter", f"parameter `{declared.name}` can't be {shown}: {reason}", declared.name, None, given.place
        )
        return refused


def _as_property(kind: str, value: Data) -> Data:
    """A property's value for the parameter's type: null becomes empty, a list becomes a text with commas
    (heat/engine/properties.py:258-348, resources/template_resource.py:147-171). Errors: ValueError, TypeError."""
    match kind, value:
        case _, Unknown() | ResourceId():
            return value
        case _, None:
            return {"number": 0, "boolean": False, "json": {}}.get(kind, "")
        case "string", bool() | int():
            return str(value)
        case "boolean", str() if value.lower() not in ("true", "false"):
            raise _RefusedError("it is neither true nor false")
        case ("string", float() | list() | dict()) | ("boolean", int() | float()) if not isinstance(value, bool):
            raise _RefusedError(f"it is not a {kind}")
        case "comma_delimited_list", [dict(), *_] as members:
            maps = [member for member in members if isinstance(member, dict)]
            if len(maps) < len(members):
                raise _RefusedError("it is a list of maps and other values")
            pairs = [(at, key, part) for at, member in enumerate(maps) for key, part in member.items()]
            return ",".join(f".member.{at}.{key}={part}" for at, key, part in pairs)
        case "comma_delimited_list", list() as items:
            pieces: list[Data] = []
            for item in items:
                if not isinstance(item, str | Unknown | ResourceId | None):
                    raise _RefusedError("it holds something that is not a string")
                pieces += (item or "").split(",") if isinstance(item, str | None) else [item]
            return [] if pieces == [""] else pieces
        case "comma_delimited_list", dict() | int() | float():
            raise _RefusedError("it is not a list")
        case "json", bool() | int() | float():
            raise _RefusedError("it is not a map")
    return value


def convert(kind: str, value: Data) -> Data:
    """The value for a parameter of that type. Errors: ValueError, TypeError, AttributeError, RecursionError."""
    if isinstance(value, Unknown | ResourceId):
        is_list = kind == "comma_delimited_list" and isinstance(value, ResourceId)  # ids have no commas
        return [value] if is_list else value
    match kind:
        case "number" if not isinstance(value, int | float):
            return _checked(read_number(value))
        case "number" if type(value) is int:
            return _checked(value)
        case "boolean":
            text = str(value).strip().lower()
            if text not in _TRUE | _FALSE:
                raise _RefusedError("it is neither true nor false")
            return text in _TRUE
        case "comma_delimited_list" if isinstance(value, list):
            return [item if isinstance(item, Unknown | ResourceId) else str(item) for item in value]
        case "comma_delimited_list":
            return [] if value == "" else value.split(",")  # type: ignore[attr-defined]
        case "json" if isinstance(value, str):
            parsed = json.loads(value, parse_int=read_integer) if value else value
            if size_of(parsed) is None:
                raise _RefusedError("it is too large or too deep")
            return parsed
        case "json" if not any(isinstance(leaf, Unknown | ResourceId) for leaf in leaves(value)):
            return json.loads(json.dumps(value), parse_int=read_integer)
        case "string" if not any(isinstance(leaf, Unknown | ResourceId) for leaf in leaves(value)):
            return str(value)
    return value


def _brief(value: Data) -> str:
    try:
        return repr(value)[:80]
    except ValueError:
        return "a number of thousands of digits"


def _checked(value: int | float) -> int | float:
    if isinstance(value, int):
        number(value)
    return value


class _RefusedError(ValueError):
    """A constraint refuses a value; the message may be shown."""


Limits = list[tuple[str, Any]]


def _constraints(definition: Mapping[str, Data], kind: str, dialect: Dialect) -> Iterator[tuple[str, Any]]:
    """The constraints with their limits, numbers parsed. Raises _RefusedError for one that the type can't have."""
    if dialect.hot:
        given = definition.get("constraints")
        given = [] if given is None else given
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            raise _RefusedError("the constraints are not a list of maps")
    else:
        merged: dict[str, Any] = {}
        for key in definition.keys() & _CFN_CONSTRAINTS:
            constraint, bound = _CFN_CONSTRAINTS[key]
            merged[constraint] = merged.get(constraint, {}) | {bound: definition[key]} if bound else definition[key]
        given = [{constraint: limit} for constraint, limit in merged.items()]
    known = [name for name in _CONSTRAINTS if name != "modulo" or dialect.date >= "2017-02-24"]
    for entry in given:
        name = next((name for name in known if name in entry), None)
        if wrong := [key for key in entry if key not in (*_CONSTRAINTS, "description")]:
            raise _RefusedError(f"there is no constraint `{wrong[0]}`")
        if name is None or kind not in _CONSTRAINTS[name]:
            raise _RefusedError(f"a {kind} can't have the constraint `{name or next(iter(entry), '')}`")
        try:
            yield name, _limit(name, entry[name], kind)
        except (ValueError, TypeError, ArithmeticError, AttributeError, re.error):
            raise _RefusedError(f"the constraint `{name}` takes {_LIMITS[name]}") from None


class _Allowed(NamedTuple):
    """The allowed values as written and, for a type without items, converted; or why one can't be converted."""

    written: list[Data]
    converted: frozenset[Data] | Exception


def _allowed(values: list[Data], kind: str) -> _Allowed:
    try:
        return _Allowed(values, frozenset([convert(kind, value) for value in values] if kind in SCALARS else ()))
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        return _Allowed(values, error)


def _limit(name: str, limit: Data, kind: str) -> Any:
    if name in _BOUNDS:
        if not isinstance(limit, dict) or limit.keys() - set(_BOUNDS[name]):
            raise ValueError
        low, high = (None if limit.get(key) is None else convert("number", limit[key]) for key in _BOUNDS[name])
        if low is None and high is None:
            raise ValueError
        if name == "length" and not all(isinstance(bound, int | None) for bound in (low, high)):
            raise ValueError
        if name == "modulo" and (low % 1 or high % 1 or not 0 <= high / low < 1):  # type: ignore[operator]
            raise ValueError
        return low, high
    if name == "allowed_values":
        if not isinstance(limit, list):
            raise ValueError
        return _allowed(limit, kind)
    if name == "allowed_pattern":
        re.compile(limit)  # type: ignore[call-overload]
    return limit


def _check(constraint: str, limit: Any, kind: str, value: Any) -> None:
    """Raise _RefusedError for a refused value. Custom constraints query the cloud and are left to Heat."""
    match constraint:
        case "range" | "length":
            low, high = limit
            amount = len(value) if constraint == "length" else convert("number", value)
            if (low is not None and amount < low) or (high is not None and amount > high):
                what = "length" if constraint == "length" else "value"
                bound = f"at most {high}" if low is None else f"at least {low}" if high is None else ""
                raise _RefusedError(f"its {what} is not {bound or f'from {low} to {high}'}")
        case "modulo":
            step, offset = limit
            if convert("number", value) % step != offset:
                raise _RefusedError(f"it is not a multiple of {step} plus {offset}")
        case "allowed_values":
            if isinstance(value, list):
                allowed = {item for item in limit.written if not isinstance(item, dict | list)}.issuperset(value)
            elif isinstance(limit.converted, Exception):
                raise limit.converted
            else:
                allowed = convert(kind, value) in limit.converted
            if not allowed:
                raise _RefusedError(f"it is not one of {', '.join(map(str, limit.written))[:200]}")
        case "allowed_pattern":
            if not isinstance(value, str):
                raise _RefusedError("it is not a string")
            if matches_whole(limit, value) is False:
                raise _RefusedError(f"it does not match {limit[:200]}")
