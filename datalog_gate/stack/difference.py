"""The difference between the properties of a resource before and after an update.

Heat compares values as properties, with defaults and of their declared kinds, and only at the top level
(heat/engine/resource.py:646-698): a change within a list or a map changes the property that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
    """`after` is what Heat has of the properties after the change. `properties` names those that differ, each with
    what decides it. `same` holds of the others the references and unknowns in them: these are written as before, and
    differ if what they come from does."""

    after: Mapping[str, Data]
    properties: dict[str, Doubt] = field(default_factory=dict)
    same: dict[str, list[ResourceId | Unknown]] = field(default_factory=dict)


def difference(old: Resource, new: Resource, kind: ResourceType | None) -> Difference:
    """How the properties differ. Of a type that nobody knows nothing is known but what the template says."""
    before, after = (as_heat_reads(resource, kind).properties for resource in (old, new))
    if kind:
        schema = {one.name: one for one in kind.properties}
    else:
        schema = {name: Property(name, "any") for name in {**before, **after}}
    found = Difference({name: _given(one, after) for name, one in schema.items()})
    for name, one in schema.items():
        if name not in before and name not in after:
            continue
        compared = _Comparison()
        compared.values(_given(one, before), found.after[name], one)
        if compared.differ or compared.doubt:
            found.properties[name] = None if compared.differ else compared.doubt
        elif compared.same:
            found.same[name] = compared.same
    return found


def differ(one: Data, other: Data) -> tuple[bool, Doubt]:
    """Whether two pieces of plain data differ, and else what decides it, if anything does."""
    compared = _Comparison()
    compared.values(one, other, None)
    return compared.differ, compared.doubt


@dataclass(slots=True)
class _Comparison:
    """What came out of comparing: that values differ, or may, or the references and unknowns that both have."""

    differ: bool = False
    doubt: Doubt = None
    same: list[ResourceId | Unknown] = field(default_factory=list)

    def values(self, one: Data, other: Data, schema: Property | None) -> None:
        match one, other:
            case dict(), dict():
                self.differ |= one.keys() != other.keys()
                children = {child.name: child for child in schema.children} if schema else {}
                for key in one.keys() & other.keys():
                    self.values(one[key], other[key], children.get(key))
            case list(), list():
                self.differ |= len(one) != len(other)
                item = schema and (replace(schema, kind="map") if schema.children else schema.item)
                for left, right in zip(one, other, strict=False):
                    self.values(left, right, item)
            case (Unknown() | ResourceId(), _) | (_, Unknown() | ResourceId()):
                self._symbols(one, other)
            case _ if one != other:
                looked_up = schema.custom if schema and "." in schema.custom else ""  # Heat takes a name or an id
                ids = [isinstance(each, str) and UUID.fullmatch(each) is not None for each in (one, other)]
                if looked_up and ids[0] != ids[1]:
                    self.doubt = self.doubt or Unknown(f"whether the two are one {looked_up}")
                else:
                    self.differ = True

    def _symbols(self, one: Data, other: Data) -> None:
        """A reference differs from all but itself, and from an unknown or a text that may be an id nobody knows."""
        if one == other and isinstance(one, Unknown | ResourceId):
            self.same.append(one)
        elif unknown := next((each for each in (other, one) if isinstance(each, Unknown)), None):
            self.doubt = self.doubt or unknown
        elif isinstance(one, ResourceId) and isinstance(other, ResourceId):
            self.differ = True
        else:
            reference = next(each for each in (one, other) if isinstance(each, ResourceId))
            text = isinstance(one, str) or isinstance(other, str)
            if text:
                self.doubt = self.doubt or Unknown(f"the id of {reference.path}")
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
