"""Small changes of a case."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice, zip_longest

from datalog_gate.base.values import ResourceId, Value
from datalog_gate.examples.case_building import Case, templates_of
from datalog_gate.examples.column_hints import Columns
from datalog_gate.examples.example_properties import Data, Step, complete, get, list_tables, plain, put, sample
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import RelationRef, ResourceType

Path = tuple[Step, ...]
FIXED = ("heat_template_version", "type", "resources", "now", "stack", "modules", "against")
"""Keys that no case can do without."""
REQUEST: Mapping[str, Path] = {
    "gate:caller": ("caller",),
    "gate:role": ("caller", "roles"),
    "gate:service": ("services",),
}
"""Where a case has the rows of relations about the request."""
SHRINKING_STEPS = 60
MOST_VALUES = 6
"""The maximum number of values that are tried for a property."""
MOST_CHOICES = 8
"""The maximum number of values that Heat accepts for a property of which all are tried."""


def shrink(case: Case, catalogue: Catalogue, holds: Callable[[Case], bool]) -> Case:
    """The case without what it does not need to hold, in a limited number of steps."""
    left, changed = SHRINKING_STEPS, True
    while changed:
        changed = False
        for path in sorted(_paths(case), key=lambda path: (len(path), list(map(str, path)))):
            smaller = _without(case, path, catalogue)
            if smaller is None or len(json.dumps(smaller)) >= len(json.dumps(case)):
                continue
            left -= 1
            if left < 0:
                return case
            if holds(smaller):
                case, changed = smaller, True
    return case


def change_values(case: Case, catalogue: Catalogue, hints: Mapping[Columns, Sequence[Value]]) -> Iterator[Case]:
    """Cases in which one value is another."""
    yield from _change_places(case, catalogue, hints, written=True)


def add_or_remove(case: Case, catalogue: Catalogue, hints: Mapping[Columns, Sequence[Value]]) -> Iterator[Case]:
    """Cases with one property more, then those with one part less."""
    for path, value in _absent(case, catalogue, hints):
        other = copy.deepcopy(case)
        put(other, path, value)
        yield _completed(other, catalogue)
    yield from _change_places(case, catalogue, hints, written=False)
    for path in _paths(case):
        smaller = _without(case, path, catalogue)
        if smaller is not None and smaller != case:
            yield smaller


def take_away(case: Case, catalogue: Catalogue) -> Iterator[Case]:
    """Cases without one part, then those with a property that is null."""
    for path in _paths(case):
        smaller = _without(case, path, catalogue)
        if smaller is not None and smaller != case:
            yield smaller
    for path in _paths(case):
        if "properties" in path[:-1] and path[-1] not in (*FIXED, "properties") and get(case, path) is not None:
            other = copy.deepcopy(case)
            put(other, path, None)
            yield _completed(other, catalogue)


def change_choices(case: Case, catalogue: Catalogue, read: Collection[RelationRef]) -> Iterator[tuple[str, str, Case]]:
    """Cases with another of the values that Heat accepts for a property, with its name and that value: of what is
    written, and of all that members of lists and maps may have, where a relation is `read` from them."""
    for where, resource in _resources(case):
        properties = resource.get("properties", {})
        for table in list_tables(catalogue, resource["type"]):
            names = [step.name for step in table.steps]
            for path in islice(_containers(properties, names, ()), table.relation.name in read):
                for declared in table.columns:
                    place = (*where, "properties", *path, declared.name)
                    old = get(case, place)
                    is_few = len(declared.allowed) <= MOST_CHOICES and (old is not None or names)
                    for value in declared.allowed if is_few else ():
                        if value != (declared.default if old is None else old):
                            other = copy.deepcopy(case)
                            put(other, place, value)
                            yield ".".join([*names, declared.name]), str(value), other


def leave_out(case: Case, other: Case, catalogue: Catalogue) -> Iterator[Case]:
    """The case without each of its properties that has another value in the other one."""
    for path in _paths(case):
        old, new = get(case, path), get(other, path)
        if "properties" in path and old != new and new is not None and not isinstance(new, dict | list):
            smaller = _without(case, path, catalogue)
            if smaller is not None and get(smaller, path) is None:
                yield smaller


def without_rows(case: Case, relation: str, catalogue: Catalogue) -> Iterator[Case]:
    """The case without what fills the relation: a part of the request, a table of the inventory, or a list or map of
    properties, for each resource that has it."""
    for path in _paths(case):
        owners: Sequence[Step] = [path[-1]] if path == REQUEST.get(relation, ("inventory", relation)) else ()
        if path[-2:-1] == ("properties",) and path[-4:-3] == ("resources",):
            tables = list_tables(catalogue, get(case, path[:-2])["type"])
            owners = [table.steps[0].name for table in tables if table.relation.name == relation and table.steps]
        smaller = _without(case, path, catalogue) if path[-1] in owners else None
        if smaller is not None:
            yield smaller


def change_types(case: Case, kind: str, schema: ResourceType, catalogue: Catalogue) -> Case:
    """The case with resources of another type in place of those of one, and their properties that both types have."""
    other = copy.deepcopy(case)
    names = {name.lower(): name for name in schema.parts}
    for path in [path for path in _paths(case) if path[-1] == "type" and get(case, path) == kind]:
        resource = get(other, path[:-1])
        given = {names.get(key.replace("_", "")): value for key, value in resource.get("properties", {}).items()}
        kept = {key: value for key, value in given.items() if key and not isinstance(value, dict | list)}
        resource.update(type=schema.name, properties=kept)
    return _completed(other, catalogue)


def _change_places(
    case: Case, catalogue: Catalogue, hints: Mapping[Columns, Sequence[Value]], written: bool
) -> Iterator[Case]:
    """Cases with another value at a place that has one, or with a value at one that has none."""
    for path, column in _columns(case, catalogue):
        old = get(case, path)
        if (old is not None) is not written or isinstance(old, dict | list):
            continue
        values = [plain(value) for value in hints.get(column, ()) if not isinstance(value, ResourceId)]
        for value in [value for value in values if value is not None and value != old][:MOST_VALUES]:
            other = copy.deepcopy(case)
            put(other, path, value)
            yield _completed(other, catalogue)


def approach(case: Case, goal: Case, catalogue: Catalogue, holds: Callable[[Case], bool]) -> Case:
    """The case with no difference from the other that it does not need to hold."""
    for path in sorted({*_paths(case), *_paths(goal)}, key=lambda path: (len(path), list(map(str, path)))):
        wanted = get(goal, path)
        if get(case, path) == wanted or (path[-1] in FIXED and wanted is None):
            continue
        other = copy.deepcopy(case)
        inside = get(other, path[:-1])
        if wanted is not None and not isinstance(inside, dict):
            continue
        if wanted is not None:
            inside[path[-1]] = copy.deepcopy(wanted)
        elif isinstance(inside, dict | list):
            del inside[path[-1]]  # type: ignore[arg-type]
        other = _completed(other, catalogue)
        if get(other, path) == wanted and holds(other):
            case = other
    return case


def distance(case: Case, other: Case) -> int:
    """The number of paths at which the cases differ."""
    return sum(get(case, path) != get(other, path) for path in {*_paths(case), *_paths(other)})


def count_differences(case: Data, other: Data) -> int:
    """The number of places at which the cases differ, each as a whole that is added, removed or replaced."""
    if type(case) is not type(other) or not isinstance(case, dict | list):
        return int(case != other)
    if isinstance(case, list):
        pairs = list(zip_longest(case, other))
    else:
        pairs = [(case.get(key), other.get(key)) for key in {**case, **other}]
    return sum(count_differences(*pair) for pair in pairs)


def _absent(case: Case, catalogue: Catalogue, hints: Mapping[Columns, Sequence[Value]]) -> Iterator[tuple[Path, Data]]:
    """The properties that the resources of a case do not have and the rules may read: those that they name by their
    path, and the lists and maps, each with a value that Heat accepts."""
    named = {str(value).partition(".")[0] for value in hints.get(("heat:property", "path"), ())}
    rows = [row for rows in case.get("inventory", {}).values() for row in rows]
    given = [value for row in rows for value in row.values() if isinstance(value, str)]
    for where, resource in _resources(case):
        schema = catalogue.type(resource["type"])
        texts = {
            table.steps[0].name: table.relation.name
            for table in list_tables(catalogue, resource["type"])
            if table.steps
        }
        for declared in schema.properties if schema else ():
            is_read = declared.name in named or declared.kind in ("list", "map")
            if not is_read or declared.name in resource["properties"] or not declared.implemented:
                continue
            asked = [plain(value) for value in hints.get((texts.get(declared.name, ""), "_value"), ())][:2]
            values = [*asked, *given[:3]] if declared.kind == "list" and not declared.children else []
            yield from (((*where, "properties", declared.name), [value]) for value in values)
            yield (*where, "properties", declared.name), sample(declared)


def _resources(case: Case) -> Iterator[tuple[Path, Data]]:
    roots: list[Path] = [("stack",), *(("modules", name) for name in case.get("modules", {}))]
    for root in roots:
        for name, resource in get(case, root)["resources"].items():
            yield (*root, "resources", name), resource


def _columns(case: Case, catalogue: Catalogue) -> Iterator[tuple[Path, Columns]]:
    """The places of a case where columns of relations come from."""
    yield ("now",), ("gate:now", "time")
    yield ("action",), ("gate:request", "action")
    for key in ("user", "project", "domain"):
        yield ("caller", key), ("gate:caller", key)
    for at, _ in enumerate(case.get("caller", {}).get("roles", ())):
        yield ("caller", "roles", at), ("gate:role", "role")
    for relation, rows in case.get("inventory", {}).items():
        for at, row in enumerate(rows):
            for key in row:
                yield ("inventory", relation, at, key), (relation, key)
    yield ("stack", "description"), ("heat:stack", "description")
    for where, resource in _resources(case):
        yield (*where, "deletion_policy"), ("heat:deletion_policy", "policy")
        for path, column in _property_columns(resource, catalogue):
            yield (*where, "properties", *path), column


def _property_columns(resource: Data, catalogue: Catalogue) -> Iterator[tuple[Path, Columns]]:
    properties = resource.get("properties", {})
    for table in list_tables(catalogue, resource["type"]):
        for path in _containers(properties, [step.name for step in table.steps], ()):
            if table.shape == "value":
                yield path, (table.relation.name, "_value")
            elif table.shape == "free":
                for key in get(properties, path) or ():
                    yield (*path, key), (table.relation.name, "_value")
            for column in table.columns:
                yield (*path, column.name), (table.relation.name, column.name)


def _containers(properties: Data, names: Sequence[str], path: Path) -> Iterator[Path]:
    """The paths to the members of the list or map that the names lead to."""
    here = get(properties, path)
    if isinstance(here, list):
        for at, _ in enumerate(here):
            yield from _containers(properties, names, (*path, at))
    elif not names:
        yield path
    elif isinstance(here, dict) and names[0] in here:
        yield from _containers(properties, names[1:], (*path, names[0]))


def _paths(data: Data, path: Path = ()) -> Iterator[Path]:
    steps = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, inner in steps:
        yield (*path, step)
        yield from _paths(inner, (*path, step))


def _without(case: Case, path: Path, catalogue: Catalogue) -> Case | None:
    if path[-1] in FIXED:
        return None
    other = copy.deepcopy(case)
    inside = get(other, path[:-1])
    if not isinstance(inside, dict | list) or path[-1] not in (
        inside if isinstance(inside, dict) else range(len(inside))
    ):
        return None
    del inside[path[-1]]  # type: ignore[arg-type]
    if inside == {} and path[:-1] in (("modules",), ("caller",), ("inventory",), ("environment",)):
        del other[str(path[0])]
    return _completed(other, catalogue)


def _completed(case: Case, catalogue: Catalogue) -> Case:
    for template in templates_of(case):
        complete(catalogue, template)
    return case
