"""What Heat will take a stack to be made of (layer 6).

In: the JSON body of a request, and what Heat holds of the stack. Out: the `Definition` to judge, and for an update that
Heat would merge the body to forward in its place. Heat's ways: heat/api/openstack/v1/stacks.py:74-140 for what a body
means, heat/engine/service.py:941-1063 for the merge. Errors are InputError, for the user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.redaction import MASK
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.doors.wsgi.body import wrong
from datalog_gate.doors.wsgi.stored import Stored
from datalog_gate.template.document import Document, read_document

MAPS = ("parameters", "parameter_defaults", "resource_registry")
OURS = "DatalogGate::"
ENCRYPTED = "encrypted_param_names"
_SHAPES: dict[str, tuple[type, ...]] = {
    "environment": (dict, str, type(None)),
    "parameters": (dict, type(None)),
    "files": (dict, type(None)),
}
_ELSEWHERE = {
    "template_url": "send the template itself: heat stack create -t FILE reads an address for you",
    "files_container": "send the files themselves, in `files`",
}
"""Fields whose stack lies where it may change between two readings, and what to do instead."""
_UNCHANGED = frozenset({"existing", "stack_name", "template", "environment", "parameters", "files",
                        "environment_files", "template_url", "files_container"})  # fmt: skip


def new_definition(body: Mapping[str, Any]) -> StackDefinition:
    """That of a stack which the body holds whole: `adopt_stack_data` over `template`."""
    _check(body)
    environment: Any = None if body.get("environment_files") else body.get("environment")
    parameters = body.get("parameters") or {}
    template = body.get("template")
    if "adopt_stack_data" in body:
        adopted = _adopted(body["adopt_stack_data"])
        own = _data(environment, "<environment>").get("parameters") or {}
        given = (adopted.get("environment") or {}).get("parameters") or {}
        if not isinstance(given, dict) or not isinstance(own, dict):
            raise wrong("the parameters of adopt_stack_data are no map")
        template, parameters = adopted.get("template"), {**given, **own, **parameters}
    if not isinstance(template, dict if "adopt_stack_data" in body else dict | str):
        raise wrong("template is missing or of a wrong type")
    names = _environment_files(body)
    files = body.get("files") or {}
    _check_environment(environment, "<environment>")
    for name in names:
        _check_environment(files[name], name)
    return StackDefinition(template, environment, parameters or None, files, names)


def stored_definition(stored: Stored, masked: bool = True) -> StackDefinition:
    """That of a stack as Heat holds it; with `masked` hidden values are shown as `MASK`."""
    return _definition(stored.template, stored, {}, stored.files, masked)


@dataclass(frozen=True, slots=True)
class Merged:
    """An update that Heat merges with what it holds. `body` is what to forward: with `whole` the whole stack, of which
    nothing is merged any more. Else it names all but the masked values, which only Heat knows, and `expected` is what
    Heat should hold afterwards."""

    definition: StackDefinition
    body: dict[str, Any]
    whole: bool
    expected: Stored


def merged(body: Mapping[str, Any], stored: Stored) -> Merged:
    """The update of a stack by a body that says only what changes."""
    _check(body)
    if "adopt_stack_data" in body:
        raise wrong("adopt_stack_data belongs to the creation of a stack")
    template = stored.template if body.get("template") is None else body["template"]
    if not isinstance(template, dict | str):
        raise wrong("template is missing or of a wrong type")
    files = {**stored.files, **(body.get("files") or {})}
    own = _own(body, files)
    cleared = body.get("clear_parameters") or []
    if not isinstance(cleared, list) or not all(isinstance(name, str) for name in cleared):
        raise wrong("clear_parameters is no list of names")
    environment = _over(stored, own, cleared)
    definition = _definition(template, Stored(stored.template, environment, files), own, files, True)
    given = definition.environment
    assert isinstance(given, dict)
    forwarded = {name: value for name, value in body.items() if name not in _UNCHANGED | {"clear_parameters"}}
    forwarded |= {"template": template, "files": files, "environment": given}
    if definition.masked:
        known = {name for section, name in definition.masked if section == "parameters"} | given["parameters"].keys()
        rest = sorted({*cleared, *_declared(template)} - known)
        registry = own["resource_registry"] if _removes(own["resource_registry"]) else given["resource_registry"]
        forwarded["environment"] = {**given, "resource_registry": registry, "event_sinks": own["event_sinks"]}
        forwarded |= {"existing": True, "clear_parameters": rest}
    there = {name: dict(given[name]) for name in MAPS}
    for section, name in definition.masked:
        there[section][name] = MASK
    expected = Stored(_data(template, "<template>"), there, files)
    return Merged(definition, forwarded, not definition.masked, expected)


def differs(expected: Stored, found: Stored) -> bool:
    """Whether a stack is not the one that was judged, but for the values that Heat masks."""
    for name in MAPS:
        # Heat notes each type that is a template in the registry, as itself
        wanted, there = (
            {key: one for key, one in stored.section(name).items() if name != "resource_registry" or key != one}
            for stored in (expected, found)
        )
        if wanted.keys() != there.keys():
            return True
        if any(there[key] not in (MASK, value) for key, value in wanted.items()):
            return True
    return (expected.template, expected.files) != (found.template, found.files)


def merges(body: Mapping[str, Any], patch: bool) -> bool:
    """Whether Heat merges the update with what it holds; it takes any value that is true for `existing`."""
    return patch or bool(body.get("existing"))


def changes(body: Mapping[str, Any]) -> bool:
    """Whether a merging update says anything new. If not, what it builds is what another one left, judged by itself."""
    return bool(body.keys() - _UNCHANGED) or any(body.get(name) for name in _UNCHANGED - {"existing", "stack_name"})


def _check(body: Mapping[str, Any]) -> None:
    for name, instead in _ELSEWHERE.items():
        if body.get(name) is not None:
            raise wrong(f"the policies can't judge a stack given by {name}", "unsupported", instead)
    for name, types in _SHAPES.items():
        if not isinstance(body.get(name), types):
            raise wrong(f"{name} is of a wrong type")
    if not all(isinstance(text, str) for text in (body.get("files") or {}).values()):
        raise wrong("files holds something that is no text")


def _adopted(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        raise wrong("adopt_stack_data is no text")
    data = read_document(text, "<adopt_stack_data>").data
    if not isinstance(data, dict) or not isinstance(data.get("environment") or {}, dict):
        raise wrong("adopt_stack_data is no map of a stack")
    adopted: dict[str, Any] = json.loads(json.dumps(data))  # names that are numbers become texts, on Heat's way too
    return adopted


def _environment_files(body: Mapping[str, Any]) -> tuple[str, ...]:
    names = body.get("environment_files") or ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise wrong("environment_files is no list of names")
    if missing := [name for name in names if name not in (body.get("files") or {})]:
        raise wrong(f"{missing[0]} of environment_files is not among the files", "missing-file")
    return tuple(names)


def _own(body: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """The environment that the request gives, in its sections: as heat/common/environment_util.py merges its files,
    but for strategies."""
    names = _environment_files({**body, "files": files})
    data = _data(None if names else body.get("environment"), "<environment>")
    _check_environment(data, "<environment>")
    own: dict[str, Any] = {name: dict(_map(data, name)) for name in MAPS} | {
        "event_sinks": list(data.get("event_sinks") or [])
    }
    own["parameters"] |= body.get("parameters") or {}
    for name in names:
        data = _data(files[name], name)
        _check_environment(files[name], name)
        if data.get("parameter_merge_strategies"):
            message = "an update that is merged can't be judged with parameter_merge_strategies"
            raise wrong(message, "unsupported", "send the whole stack, without `existing`")
        for section in MAPS:
            alone = not own[section]
            own[section] |= {key: one for key, one in _map(data, section).items() if alone or one is not None}
        own["event_sinks"] = own["event_sinks"] or list(data.get("event_sinks") or [])
    return own


def _over(stored: Stored, own: Mapping[str, Any], cleared: list[str]) -> dict[str, Any]:
    """The stored environment with the request's on it (heat/engine/environment.py:826-836)."""
    kept = {name: one for name, one in stored.section("parameters").items() if name not in cleared}
    return {
        "parameters": kept | own["parameters"],
        "parameter_defaults": {**stored.section("parameter_defaults"), **own["parameter_defaults"]},
        "resource_registry": _loaded(stored.section("resource_registry"), own["resource_registry"]),
        "event_sinks": [*(stored.environment.get("event_sinks") or []), *own["event_sinks"]],
    }


def _loaded(registry: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A registry with another loaded into it: null takes away (heat/engine/environment.py, `_register_info`)."""
    result = dict(registry)
    for key, value in more.items():
        if value is None:
            gone = [one for one in result if one.startswith(key[:-1]) and not isinstance(result[one], dict)]
            for one in gone if key.endswith("*") else [key]:
                result.pop(one, None)
        elif isinstance(value, dict):
            there = result.get(key)
            result[key] = _loaded(there if isinstance(there, dict) else {}, value)
        else:
            result[key] = value
    return result


def _removes(registry: Mapping[str, Any]) -> bool:
    return any(one is None or (isinstance(one, dict) and _removes(one)) for one in registry.values())


def _definition(
    template: Mapping[str, Any] | str, stored: Stored, own: Mapping[str, Any], files: Mapping[str, str], masked: bool
) -> StackDefinition:
    """The definition with the stored environment: without the parameters that the template does not declare, which Heat
    drops, and without the values that are masked unless the request says them itself."""
    declared = _declared(template)
    environment: dict[str, Any] = {name: dict(stored.section(name)) for name in MAPS}
    environment["parameters"] = {key: one for key, one in environment["parameters"].items() if key in declared}
    environment["event_sinks"] = stored.environment.get("event_sinks") or []
    _check_environment(environment, "<environment>")
    hidden = [
        (section, name)
        for section in MAPS[:2]
        for name, value in environment[section].items()
        if masked and value == MASK and name not in own.get(section, {})
    ]
    for section, name in hidden:
        del environment[section][name]
    return StackDefinition(template, environment, None, files, (), tuple(hidden))


def _declared(template: Mapping[str, Any] | str) -> set[str]:
    data = _data(template, "<template>")
    return {str(name) for key in ("parameters", "Parameters") for name in _map(data, key)}


def _map(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = data.get(name) or {}
    if not isinstance(section, dict):
        raise wrong(f"the section {name} is no map", "bad-environment")
    return section


def _data(text: object, label: str) -> Mapping[str, Any]:
    data = read_document(text, label).data if isinstance(text, str) else text or {}
    if not isinstance(data, dict):
        raise wrong(f"{label} is no map of sections", "bad-environment")
    return data


def _check_environment(environment: object, label: str) -> None:
    """Refuses an environment by which a type of the gate's would be another: what it gates could be mapped away. And
    one that says which values are encrypted: Heat would read them through a function that the user names, and build
    with another value than the one that was judged (heat/objects/raw_template.py:56-80, heat/common/crypt.py:118)."""
    document = (
        read_document(environment, label) if isinstance(environment, str) else Document(label, None, environment or {})
    )
    data = document.data if isinstance(document.data, dict) else {}
    wrongly = [
        (path, f"`{path[-1]}` maps the types {OURS}* to others, which no stack may", "leave them out of the pattern")
        for path in _away(data.get("resource_registry"), ("resource_registry",))
    ]
    if data.get(ENCRYPTED):
        wrongly.append(((ENCRYPTED,), f"{ENCRYPTED} is for Heat alone to say", "leave it out"))
    if wrongly:
        found = [Diagnostic("bad-environment", said, document.key_place(path), help_) for path, said, help_ in wrongly]
        raise InputError(found)


def _away(registry: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in registry.items() if isinstance(registry, dict) else ():
        key = str(key)
        if isinstance(value, dict):
            yield from _away(value, (*path, key))
        elif value is not None and value != key:
            start = key[:-1] if key.endswith("*") else None
            if key.startswith(OURS) or (start is not None and OURS.startswith(start)):
                yield *path, key
