"""A stack, read through Heat's API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from datalog_gate.base.errors import InputError
from datalog_gate.base.values import ResourceId
from datalog_gate.files.stack_definition import Leftovers, StackDefinition, remove_masked
from datalog_gate.stack.model import Live
from datalog_gate.template.held import HeldStack, HeldStacks

MAX_DEPTH = 5
"""Heat's default depth of nested stacks (heat/common/config.py, max_nested_stack_depth)."""
CLEAN = ("UPDATE_COMPLETE", "RESTORE_COMPLETE", "ROLLBACK_COMPLETE")
"""The states of a stack after an update that deleted what the template does not have."""
SECTIONS = ("resources", "Resources")
"""The section of resources, in templates of HOT and of CloudFormation."""
FACADES = ("resource_facade", "Fn::ResourceFacade")
"""The functions by which a nested template reads the metadata of its parent resource."""
Get = Callable[[str], dict[str, Any]]
"""Gets the JSON object under a path of the stack's project. Errors: those of the caller."""


def read_heat_stack(
    get: Get, name: str, stack_id: str, root: str, status: str, as_built: bool = False
) -> tuple[StackDefinition, tuple[Live, ...]]:
    """Read the definition of a stack, and its resources in Heat, with the root id `root`. Masked values are unknown.
    With `as_built` nested stacks, and so the members of groups, are read from Heat, otherwise from the files of the
    stack. By its `status` failed updates may have left resources. Errors: InputError, and those of `get`."""
    path = _path_of(name, stack_id)
    template, environment, files = _parts(get, path, name)
    listed = _objects(get(f"{path}/resources?nested_depth={MAX_DEPTH}").get("resources"))
    paths, nesting = _stack_paths(listed, stack_id, root)
    live = tuple(_live_resources(listed, paths))
    held = HeldStacks()
    templates: dict[str, Any] = {root: template}
    if as_built:
        stacks = {paths[nested]: _read_nested(get, nested, resource) for nested, resource in nesting.items()}
        held = HeldStacks(stacks, {row.physical: row.id.path for row in live if row.physical})
        templates |= {path: stack.template for path, stack in stacks.items()}
    masked = remove_masked(environment, {})
    gone: list[tuple[str, str, str]] = []
    if not status.startswith(("CREATE_", "ADOPT_")) and status not in CLEAN:
        gone = [*_find_beyond(listed, paths, templates), *_find_replaced(get, path, listed, paths)]
    leftovers = tuple(Leftovers({stack: {name: kind}}) for stack, name, kind in gone)
    return StackDefinition(template, environment, files=files, masked=masked, held=held, leftovers=leftovers), live


def _find_beyond(
    listed: list[dict[str, Any]], paths: Mapping[str, str], templates: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """What exists beyond the templates of stacks: path of the stack, name, type. What is within such a resource belongs
    to the same stack."""
    names = {
        path: {name for section in SECTIONS for name in template.get(section) or ()}
        for path, template in templates.items()
    }
    gone: dict[str, str] = {}
    for resource in sorted(listed, key=lambda resource: _path(resource, paths)):
        if not resource.get("physical_resource_id"):
            continue
        path = _path(resource, paths)
        stack, _, name = path.rpartition("/")
        above = next((known for known in gone if path.startswith(f"{known}/")), None)
        if above is None and name in names.get(stack, {name}):
            continue
        gone[path] = gone[above] if above else stack
        yield gone[path], path.removeprefix(f"{gone[path]}/"), str(resource.get("resource_type"))


def _find_replaced(
    get: Get, path: str, listed: list[dict[str, Any]], paths: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """What a failed update replaced and did not delete, as `_find_beyond`. Heat lists only the newest resource of a
    name, and shows others only by their ids, which are in its events."""
    known = {resource.get("physical_resource_id") for resource in listed}
    try:
        events = _objects(get(f"{path}/events?nested_depth={MAX_DEPTH}&sort_dir=asc").get("events"))
    except InputError:  # the caller may read the stack, but not its events
        return
    last = {str(event["physical_resource_id"]): event for event in events if event.get("physical_resource_id")}
    for physical, event in last.items():
        if physical in known or physical in paths or event.get("resource_status") == "DELETE_COMPLETE":
            continue
        for name, stack in _linked_stacks(event, "stack"):
            found = get(f"{_path_of(name, stack)}/resources?physical_resource_id={quote(physical, safe='')}")
            for resource in _objects(found.get("resources")) if stack in paths else ():
                key = f"{resource.get('resource_name')}*{physical}"
                yield paths[stack], key, str(resource.get("resource_type"))


def _path_of(name: str, stack_id: str) -> str:
    return f"/stacks/{quote(name, safe='')}/{quote(stack_id, safe='')}"


def _parts(get: Get, path: str, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """The template, environment and files of the stack at a path."""
    template, environment, files = (get(f"{path}/{part}") for part in ("template", "environment", "files"))
    if not all(isinstance(text, str) for text in files.values()):
        raise InputError.of(f"Heat holds files of the stack {name} that are not text")
    return template, environment, files


def _read_nested(get: Get, stack_id: str, resource: Mapping[str, Any]) -> HeldStack:
    """Read the nested stack with that id, which a resource holds."""
    name = next(name for name, nested in _linked_stacks(resource, "nested") if nested == stack_id)
    template, environment, files = _parts(get, _path_of(name, stack_id), name)
    metadata = None
    if any(function in json.dumps(template) for function in FACADES):
        parent = next((_path_of(*owner) for owner in _linked_stacks(resource, "stack")), "")
        metadata = get(f"{parent}/resources/{quote(str(resource['resource_name']), safe='')}/metadata").get("metadata")
    masked = remove_masked(environment, {})
    return HeldStack(name, template, environment, files, metadata, masked)


def _stack_paths(
    resources: list[dict[str, Any]], root: str, name: str
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """The path of each stack by its id, and the resource that holds each nested one. Names of parents are not unique,
    so only links show which stack contains a resource, and which stack it holds."""
    paths = {root: name}
    holders = {nested: resource for resource in resources for _, nested in _linked_stacks(resource, "nested")}
    waiting = dict(holders)
    while True:
        ready = [
            nested
            for nested, parent in waiting.items()
            if {stack for _, stack in _linked_stacks(parent, "stack")} & paths.keys()
        ]
        if not ready:
            return paths, {nested: holders[nested] for nested in paths if nested != root}
        for nested in ready:
            paths[nested] = _path(waiting.pop(nested), paths)


def _live_resources(resources: list[dict[str, Any]], paths: Mapping[str, str]) -> Iterator[Live]:
    for resource in resources:
        action, _, status = str(resource.get("resource_status", "")).partition("_")
        physical = str(resource.get("physical_resource_id") or "")
        updated = str(resource.get("updated_time") or resource.get("creation_time") or "")
        yield Live(ResourceId(_path(resource, paths)), action, status, physical, updated)


def _path(resource: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    stack_path = next((paths[stack] for _, stack in _linked_stacks(resource, "stack") if stack in paths), None)
    if stack_path is None or not isinstance(resource.get("resource_name"), str):
        raise InputError.of("Heat lists a resource that belongs to no stack")
    return f"{stack_path}/{resource['resource_name']}"


def _linked_stacks(resource: Mapping[str, Any], relation: str) -> Iterator[tuple[str, str]]:
    """The names and ids of the stacks that a resource links to under a relation."""
    for link in _objects(resource.get("links")):
        if link.get("rel") == relation:
            head, _, stack_id = str(link.get("href", "")).rstrip("/").rpartition("/")
            yield unquote(head.rpartition("/")[2]), stack_id


def json_object(data: object) -> dict[str, Any]:
    """The data as a JSON object. Errors: InputError."""
    if not isinstance(data, dict):
        raise InputError.of("Heat's answer does not match its API")
    return data


def _objects(data: object) -> list[dict[str, Any]]:
    return [json_object(item) for item in data] if isinstance(data, list) else [json_object(data)]
