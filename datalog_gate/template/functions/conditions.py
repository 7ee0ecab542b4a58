"""The functions of conditions: `equals`, `not`, `and` and `or`.

Their arguments are not resolved in advance: Heat reads no further than it must.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datalog_gate.base.values import Unknown
from datalog_gate.stack.model import Data, Path
from datalog_gate.template.functions.arguments import BadFunction
from datalog_gate.template.functions.pure import same

if TYPE_CHECKING:
    from datalog_gate.template.resolver import Scope


def logic(scope: Scope, name: str, raw: Data, path: Path) -> bool | Unknown:
    """What one of `expressions.LOGIC` gives. Errors: BadFunction."""
    function = name.removeprefix("Fn::").lower()
    if function == "equals":
        return _equals(scope, name, raw, path)
    parts = [raw] if name == "not" else raw
    if not isinstance(parts, list) or (len(parts) != 1 if function == "not" else len(parts) < 2):
        raise BadFunction("takes one condition" if function == "not" else "takes a list of conditions")
    if parts == [None] and name == "not":
        raise BadFunction("takes a condition")
    if function == "not":
        truth = scope.condition(parts[0], path if name == "not" else (*path, 0))
        return _undecided(scope, name, truth, path) if isinstance(truth, Unknown) else not truth
    open_ones: list[Data] = []
    values = scope.resolve(parts, path, scope.dialect.conditional)  # Heat calls all functions before it reads a name
    for at, part in enumerate(values if isinstance(values, list) else []):
        truth = scope.condition(part, (*path, at))
        if truth is (function == "or"):  # it decides, and Heat reads no further
            return truth
        open_ones += [truth] if isinstance(truth, Unknown) else []
    return _undecided(scope, name, open_ones, path) if open_ones else function == "and"


def _equals(scope: Scope, name: str, raw: Data, path: Path) -> bool | Unknown:
    if not isinstance(raw, list) or len(raw) != 2:
        raise BadFunction("takes [value, value]")
    values = scope.resolve(raw, path, scope.dialect.conditional)
    equal = same(*values) if isinstance(values, list) and len(values) == 2 else None
    if equal is None:
        return _undecided(scope, name, values, path)
    scope.known(name, values)
    return equal


def _undecided(scope: Scope, name: str, arguments: Data, path: Path) -> bool | Unknown:
    value = scope.write(name, arguments, path[:-1])
    assert isinstance(value, bool | Unknown)  # nothing else is assumed of a condition
    return value
