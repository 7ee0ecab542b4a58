"""The difference that an update makes to the properties of a resource.

Heat compares them as values, at the top level only (heat/engine/resource.py:646-698).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from datalog_gate.base.expression import phrase
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.stack.model import Data, Resource
from datalog_gate.stack.property_values import EMPTY, typed
from datalog_gate.stack.translation import as_heat_reads

UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
Doubt = Unknown | None
"""What decides whether something is so; None if it is."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`after` is what Heat has of the properties after the change. `properties` names those that differ, with what
    decides it. `same` holds the references and unknowns in others: written as before, they may differ."""

    after: Mapping[str, Data]
    properties: dict[str, Doubt] = field(default_factory=dict)
    same: dict[str, list[ResourceId | Unknown]] = field(default_factory=dict)


def difference(old: Resource, new: Resource, kind: ResourceType | None) -> Difference:
    """How the properties differ. Of a type that nobody knows nothing is known but what the template says."""
    before, after = (as_heat_reads(resource, kind).properties for resource in (old, new))
    if kind:
        schemas = {schema.name: schema for schema in kind.properties}
    else:
        schemas = {name: Property(name, "any") for name in {**before, **after}}
    found = Difference({name: _given(schema, after) for name, schema in schemas.items()})
    for name, schema in schemas.items():
        if name not in before and name not in after:
            continue
        compared = _Comparison()
        compared.values(_given(schema, before), found.after[name], schema)
        if compared.differ or compared.doubt:
            found.properties[name] = None if compared.differ else compared.doubt
        elif compared.same:
            found.same[name] = compared.same
    return found


def differ(left: Data, right: Data) -> tuple[bool, Doubt]:
    """Whether two pieces of plain data differ, and else what decides it, if anything does."""
    compared = _Comparison()
    compared.values(left, right, None)
    return compared.differ, compared.doubt


@dataclass(slots=True)
class _Comparison:
    """What came out of comparing: that values differ, or may, or the references and unknowns that both have."""

    differ: bool = False
    doubt: Doubt = None
    same: list[ResourceId | Unknown] = field(default_factory=list)

    def values(self, left: Data, right: Data, schema: Property | None) -> None:
        match left, right:
            case dict(), dict():
                self.differ |= left.keys() != right.keys()
                children = {child.name: child for child in schema.children} if schema else {}
                for key in left.keys() & right.keys():
                    self.values(left[key], right[key], children.get(key))
            case list(), list():
                self.differ |= len(left) != len(right)
                item = schema and (replace(schema, kind="map") if schema.children else schema.item)
                for old, new in zip(left, right, strict=False):
                    self.values(old, new, item)
            case (Unknown() | ResourceId(), _) | (_, Unknown() | ResourceId()):
                self._symbols(left, right)
            case _ if left != right:
                looked_up = schema.custom if schema and "." in schema.custom else ""  # Heat takes a name or an id
                ids = [isinstance(side, str) and UUID.fullmatch(side) is not None for side in (left, right)]
                if looked_up and ids[0] != ids[1]:
                    self.doubt = self.doubt or Unknown(phrase(f"whether the two are one {looked_up}"))
                else:
                    self.differ = True

    def _symbols(self, left: Data, right: Data) -> None:
        """A reference differs from all but itself, and from an unknown or a text that may be an id nobody knows."""
        if left == right and isinstance(left, Unknown | ResourceId):
            self.same.append(left)
        elif unknown := next((side for side in (right, left) if isinstance(side, Unknown)), None):
            self.doubt = self.doubt or unknown
        elif isinstance(left, ResourceId) and isinstance(right, ResourceId):
            self.differ = True
        else:
            reference = next(side for side in (left, right) if isinstance(side, ResourceId))
            text = isinstance(left, str) or isinstance(right, str)
            if text:
                self.doubt = self.doubt or Unknown(phrase(f"the id of {reference.path}"))
            self.differ |= not text


def _given(schema: Property, data: Mapping[str, Data]) -> Data:
    """The value of a property (heat/engine/properties.py:514): nothing is said and there is no default: None."""
    if schema.name not in data and schema.default is None:
        return None
    return _value(schema, data.get(schema.name))


def _value(schema: Property, data: Data) -> Data:
    """The data as a value of the schema (heat/engine/properties.py:350), a null as the default or an empty value."""
    data = schema.default if data is None else data
    match schema.kind, data:
        case "any", _:
            return data
        case _, Unknown() | ResourceId():
            return data
        case "map", None:
            return _value(schema, {})
        case "list", None:
            return []
        case "map", dict() if schema.children:
            return {child.name: _given(child, data) for child in schema.children}
        case "list", list() if schema.children:
            inner = replace(schema, kind="map", default=None)
            return [_value(inner, member) for member in data]
        case "list", list() if schema.item:
            return [_value(schema.item, member) for member in data]
        case "map" | "list", _:
            return data
    return EMPTY[schema.kind] if data is None else typed(schema.kind, data)
