"""A reader of requests to heat-api.

Bodies are read as in heat/api/openstack/v1/stacks.py:74-140, and updates are merged as in
heat/engine/service.py:941-1063. Errors are InputError, for the user.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.secrecy import HEAT_MASK
from datalog_gate.decision_point.operation import REASON, Operation
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi.body import parse_object, put_body, read_body
from datalog_gate.doors.wsgi.fault import deletion_fault, heat_fault
from datalog_gate.doors.wsgi.filter import GatedRequest, UnclearRequestError
from datalog_gate.doors.wsgi.heat_reading import find_difference
from datalog_gate.doors.wsgi.routes import Environ, Route, match_route
from datalog_gate.doors.wsgi.stored import Application, StoredStack, read_snapshot, read_stored_stack
from datalog_gate.files.stack_definition import StackDefinition, remove_masked
from datalog_gate.template.document import Document, Documents
from datalog_gate.template.environment import SPECIAL, read_sections
from datalog_gate.template.held import HeldStacks, read_adopted

LOG = logging.getLogger(__name__)
_ACTIONS = {"suspend": "suspend", "resume": "resume", "check": "check", "cancel_update": "rollback"}
"""The actions of policies for actions of Heat. `cancel_without_rollback` builds nothing, so it is not judged."""
_UNCLEAR = "the method is overridden or truncated, so the operation is not clear: send it as the method of the request"
_MAPS = ("parameters", "parameter_defaults", "resource_registry")
_OURS = "DatalogGate::"
_ENCRYPTED = "encrypted_param_names"
_SHAPES: dict[str, tuple[type, ...]] = {
    "environment": (dict, str, type(None)),
    "parameters": (dict, type(None)),
    "files": (dict, type(None)),
}
_ELSEWHERE = {
    "template_url": "send the template itself: heat stack create -t FILE reads an address for you",
    "files_container": "send the files themselves, in `files`",
}
"""Fields for a stack stored elsewhere, which may change between two reads, and what to do instead."""
_CONTENTS = {"template", "environment", "parameters", "files", "environment_files", "template_url", "files_container"}
_UNCHANGED = _CONTENTS | {"existing", "stack_name"}


def read_request(application: Application, environ: Environ, settings: Settings) -> GatedRequest | None:
    """Read a request to heat-api; None if it is not judged."""
    route = match_route(environ)
    if route is None:
        return None
    original = dict(environ)  # Heat's router writes to the environ, and the request may be replaced
    read_stored = partial(_read_stored, application, original, route)
    match route.kind:
        case "unclear":
            raise UnclearRequestError(_UNCLEAR)
        case "delete":
            request = _gated(route, "delete", read_stored)
            request.fault = deletion_fault
            return request
        case "abandon":
            return _gated(route, "delete", read_stored, abandons=True)
        case "snapshot":
            return _gated(route, "snapshot", read_stored)
        case "restore":
            return _gated(route, "restore", partial(_read_snapshot, application, original, route), against=read_stored)
    body, complete, error = _read_object(environ, settings.body_limit)
    match route.kind:
        case "actions":
            if error:
                raise UnclearRequestError("; ".join(diagnostic.message for diagnostic in error.diagnostics))
            action = _ACTIONS.get(next(iter(body))) if len(body) == 1 else None  # otherwise Heat rejects the request
            return _gated(route, action, read_stored) if action else None
        case "update" | "preview_update":
            request = _read_update(_Update(application, original, route, body, settings.body_limit), environ, error)
        case _:
            request = _read_new(route, body, environ, error)
    request.problem = None if complete else error
    return request


def _read_stored(application: Application, environ: Environ, route: Route) -> StackDefinition:
    return _stored_definition(read_stored_stack(application, environ, route.path))


def _read_snapshot(application: Application, environ: Environ, route: Route) -> StackDefinition:
    return _stored_definition(read_snapshot(application, environ, route.path, route.snapshot_id), masked=False)


def _read_update(update: _Update, environ: Environ, error: InputError | None) -> GatedRequest:
    """A request to update a stack, or to preview that. `error` is that of its body."""
    definition = partial(_raise, error) if error else update.read_definition
    dry_run = update.route.kind == "preview_update"
    request = _gated(update.route, "update", definition, dry_run=dry_run, against=update.read_old_definition)
    if not dry_run:
        request.forward, request.after = partial(update.forward, environ), update.compare
    return request


def _read_new(route: Route, body: dict[str, Any], environ: Environ, error: InputError | None) -> GatedRequest:
    """A request to create or adopt a stack, to preview that, or to validate its template. `error` is that of its
    body."""
    action, name = "adopt" if "adopt_stack_data" in body else "create", str(body.get("stack_name") or "")
    definition = partial(_raise, error) if error else partial(_read_creation, route.kind, body)
    request = _gated(route, action, definition, dry_run=route.kind != "create", stack_name=name)
    if action == "create" and route.kind == "create":
        request.record = lambda reason: put_body(environ, json.dumps(_denial_body(body, reason)).encode())
    return request


def _gated(
    route: Route,
    action: str,
    definition: Callable[[], StackDefinition],
    abandons: bool = False,
    **fields: Any,
) -> GatedRequest:
    names = {"stack_name": route.stack_name, "stack_id": route.stack_id, "compare": find_difference, **fields}
    operation = Operation("api", action, project=route.tenant, definition=definition, credentials=None, **names)
    return GatedRequest(operation, heat_fault, abandons=abandons)


def _read_object(environ: Environ, limit: int) -> tuple[dict[str, Any], bool, InputError | None]:
    """Read the JSON object in the body. Also return whether the whole body was read, and the error if any."""
    try:
        text = read_body(environ, limit)
    except InputError as error:
        return {}, False, error
    try:
        return parse_object(text), True, None
    except InputError as error:
        return {}, True, error


def _raise(error: InputError) -> StackDefinition:
    raise error


def _read_creation(kind: str, body: dict[str, Any]) -> StackDefinition:
    if kind != "validate" and not isinstance(body.get("stack_name"), str):
        raise InputError.of("stack_name is missing or of a wrong type")
    if kind == "validate" and "adopt_stack_data" in body:
        raise InputError.of("adopt_stack_data is only allowed in the creation of a stack")
    return _new_definition(body)


def _denial_body(body: dict[str, Any], reason: str) -> dict[str, Any]:
    """The body for a stack of the same name that fails with the reason."""
    denial = {"type": "DatalogGate::Denial", "properties": {"reason": reason[:REASON]}}
    kept: dict[str, Any] = {name: body[name] for name in ("stack_name", "timeout_mins", "tags") if name in body}
    template = {"heat_template_version": "2018-08-31", "resources": {"denial": denial}}
    return {**kept, "disable_rollback": True, "template": template}


@dataclass(slots=True)
class _Update:
    """An update, which Heat may merge with the stored stack.

    The gate judges and forwards the merged stack as a whole. If it cannot be sent (it has masked values, or the body is
    too large), Heat merges it. Then a comparison afterwards detects another update in between, and logs an ERROR.
    """

    application: Application
    environ: Environ
    route: Route
    body: dict[str, Any]
    limit: int
    """The maximum size of a body in bytes."""
    stored: StoredStack | None = None
    merged: StackDefinition | None = None
    forwarded: dict[str, Any] = field(default_factory=dict)
    """The body of a merged update: the whole stack, except masked values, which only Heat knows."""
    heat_merges: bool = False

    def read_definition(self) -> StackDefinition:
        """Read the definition after the update. Errors: InputError, HeatAnswerError."""
        patch = self.environ["REQUEST_METHOD"] == "PATCH"
        if "adopt_stack_data" in self.body:
            raise InputError.of("adopt_stack_data is only allowed in the creation of a stack")
        if not patch and not self.body.get("existing"):
            return _new_definition(self.body)
        _check(self.body)
        if not patch and self.body.get("template") is None:
            raise InputError.of("template is missing or of a wrong type")
        self.stored = read_stored_stack(self.application, self.environ, self.route.path)
        self.merged, self.forwarded = _merge_update(self.body, self.stored)
        if not self.merged.masked and self.body.get("tags") is None and self.stored.tags:
            self.forwarded["tags"] = ",".join(self.stored.tags)  # a complete update would remove them
        if self.body.get("environment_files") and len(self._whole()) > self.limit:
            # Heat merges what files of the request declare, and changes all that is one by an alias
            what = f"an update with `existing` of a stack of more than {self.limit} bytes"
            instead = "send their contents, in `environment`"
            raise InputError.of(f"{what} can't be judged with environment_files", "unsupported", instead)
        return self.merged

    def _whole(self) -> bytes:
        return json.dumps(self.forwarded, separators=(",", ":")).encode()

    def read_old_definition(self) -> StackDefinition:
        """Read the definition before the update. Errors: InputError, HeatAnswerError."""
        return _stored_definition(self.stored or read_stored_stack(self.application, self.environ, self.route.path))

    def forward(self, environ: Environ) -> None:
        """Replace the request by the whole stack, without masked values.

        An update without changes is forwarded as it is: it builds the remainder of an earlier update, which was judged,
        and Heat has a separate access rule for it.
        """
        has_changes = self.body.keys() - _UNCHANGED or any(self.body.get(name) for name in _CONTENTS)
        if self.merged is None or not has_changes:
            return
        body = self._whole()
        too_large = len(body) > self.limit
        self.heat_merges = too_large or bool(self.merged.masked)
        if not too_large:
            put_body(environ, body)
        if not self.heat_merges:
            environ["REQUEST_METHOD"] = "PUT"  # Heat merges every PATCH

    def compare(self) -> None:
        """Log an ERROR if Heat has stored another stack than the judged one."""
        if not (self.heat_merges and self.merged and self.stored):
            return
        stored = read_stored_stack(self.application, self.environ, self.route.path)
        if not _differs(_to_store(self.merged), stored):
            return
        if not _differs(self.stored, stored):  # the legacy engine stores an update at its end
            LOG.info("stack %s: the update is not stored yet", self.route.stack_id)
        else:
            LOG.error(
                "stack %s: another update came in between, so the state in Heat was not judged", self.route.stack_id
            )


def _new_definition(body: Mapping[str, Any]) -> StackDefinition:
    """Read the definition from a body that contains all of it; `adopt_stack_data` overrides `template`."""
    _check(body)
    environment: Any = None if body.get("environment_files") else body.get("environment")
    parameters = body.get("parameters") or {}
    template = body.get("template")
    held, documents = HeldStacks(), Documents()
    if "adopt_stack_data" in body:
        adopted = _adopted(body["adopt_stack_data"], documents)
        own = _data(documents, environment, "<environment>", as_json=False).get("parameters") or {}
        adopted_parameters = (adopted.get("environment") or {}).get("parameters") or {}
        if not isinstance(adopted_parameters, dict) or not isinstance(own, dict):
            raise InputError.of("the parameters of adopt_stack_data are no map")
        template, parameters = adopted.get("template"), {**adopted_parameters, **own, **parameters}
        held = HeldStacks(adopted=read_adopted(adopted, str(body.get("stack_name") or "")))
    if not isinstance(template, dict if "adopt_stack_data" in body else dict | str):
        raise InputError.of("template is missing or of a wrong type")
    names = _environment_files(body)
    files = body.get("files") or {}
    _check_environment(_environment_document(documents, environment, "<environment>"))
    for name in dict.fromkeys(names):
        _check_environment(_environment_document(documents, files[name], name))
    tags = _tags(body)
    definition = StackDefinition(template, environment, parameters or None, files, names, held=held, tags=tags)
    return replace(definition, documents=documents)


def _tags(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The tags in a body. Heat refuses those that are no text (heat/common/param_utils.py, `extract_tags`)."""
    tags = body.get("tags")
    return tuple(dict.fromkeys(tags.split(","))) if isinstance(tags, str) else ()


def _stored_definition(stored: StoredStack, masked: bool = True) -> StackDefinition:
    """The definition of a stored stack. With `masked`, Heat shows hidden values as `HEAT_MASK`."""
    own = {} if masked else stored.environment
    definition = _definition(stored.template, stored.environment, own, stored.files, Documents())
    return replace(definition, tags=stored.tags)


def _merge_update(body: Mapping[str, Any], stored: StoredStack) -> tuple[StackDefinition, dict[str, Any]]:
    """Merge a body that contains only changes with the stored stack; also return the body to forward."""
    template = stored.template if body.get("template") is None else body["template"]
    if not isinstance(template, dict | str):
        raise InputError.of("template is missing or of a wrong type")
    files = {**stored.files, **(body.get("files") or {})}
    documents = Documents()
    own = _request_environment(body, files, documents)
    cleared = body.get("clear_parameters") or []
    if not isinstance(cleared, list) or not all(isinstance(name, str) for name in cleared):
        raise InputError.of("clear_parameters is not a list of names")
    environment = _merge_environment(stored, own, cleared)
    tags = stored.tags if body.get("tags") is None else _tags(body)
    definition = replace(_definition(template, environment, own, files, documents), tags=tags)
    merged = definition.environment
    assert isinstance(merged, dict)
    forwarded = {name: value for name, value in body.items() if name not in _UNCHANGED | {"clear_parameters"}}
    forwarded |= {"template": template, "files": files, "environment": merged}
    if definition.masked:
        known = {name for section, name in definition.masked if section == "parameters"} | merged["parameters"].keys()
        rest = sorted({*cleared, *_declared(documents, template)} - known)
        registry = own["resource_registry"] if _removes(own["resource_registry"]) else merged["resource_registry"]
        forwarded["environment"] = {**merged, "resource_registry": registry, "event_sinks": own["event_sinks"]}
        forwarded |= {"existing": True, "clear_parameters": rest}
    return definition, forwarded


def _to_store(definition: StackDefinition) -> StoredStack:
    """What Heat should store after a merged update."""
    assert isinstance(definition.environment, dict)
    sections = {name: dict(definition.environment[name]) for name in _MAPS}
    for section, name in definition.masked:
        sections[section][name] = HEAT_MASK
    template = _data(definition.documents, definition.template, "<template>")
    return StoredStack(template, sections, definition.files)


def _differs(expected: StoredStack, actual: StoredStack) -> bool:
    """Whether a stored stack differs from the expected one, except for values that Heat masks."""
    for name in _MAPS:
        old, new = (dict(_map(stack.environment, name)) for stack in (expected, actual))
        if name == "resource_registry":  # Heat adds each template type as an alias of itself
            old, new = ({key: kind for key, kind in types.items() if key != kind} for types in (old, new))
        if old.keys() != new.keys():
            return True
        if any(new[key] not in (HEAT_MASK, value) for key, value in old.items()):
            return True
    return (expected.template, expected.files) != (actual.template, actual.files)


def _check(body: Mapping[str, Any]) -> None:
    for name, instead in _ELSEWHERE.items():
        if body.get(name) is not None:
            raise InputError.of(f"the policies can't judge a stack given by {name}", "unsupported", instead)
    for name, types in _SHAPES.items():
        if not isinstance(body.get(name), types):
            raise InputError.of(f"{name} is of a wrong type")
    if not all(isinstance(text, str) for text in (body.get("files") or {}).values()):
        raise InputError.of("files contains something that is not a string")


def _adopted(text: object, documents: Documents) -> dict[str, Any]:
    if not isinstance(text, str):
        raise InputError.of("adopt_stack_data is not a string")
    data = documents.read(text, "<adopt_stack_data>").data
    if not isinstance(data, dict) or not isinstance(data.get("environment") or {}, dict):
        raise InputError.of("adopt_stack_data is not a map of a stack")
    adopted: dict[str, Any] = json.loads(json.dumps(data))  # numbers as names become texts, in Heat too
    return adopted


def _environment_files(body: Mapping[str, Any]) -> tuple[str, ...]:
    names = body.get("environment_files") or ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError.of("environment_files is not a list of names")
    if missing := [name for name in names if name not in (body.get("files") or {})]:
        raise InputError.of(f"{missing[0]} of environment_files is missing in files", "missing-file")
    return tuple(names)


def _request_environment(body: Mapping[str, Any], files: Mapping[str, str], documents: Documents) -> dict[str, Any]:
    """The environment of the request by sections, merged as in heat/common/environment_util.py, without merge
    strategies."""
    names = _environment_files({**body, "files": files})
    data = _request_sections(documents, None if names else body.get("environment"), "<environment>")
    own: dict[str, Any] = {name: dict(_map(data, name)) for name in _MAPS}
    own["event_sinks"] = data.get("event_sinks", [])
    own["parameters"] |= body.get("parameters") or {}
    for name in names:
        data = _request_sections(documents, files[name], name)
        if data.get("parameter_merge_strategies"):
            message = "an update with `existing` can't be judged with parameter_merge_strategies"
            raise InputError.of(message, "unsupported", "send the whole stack, without `existing`")
        documents.spend(sum(map(len, own.values())))
        for section in _MAPS:
            first = not own[section]
            own[section] |= {key: value for key, value in _map(data, section).items() if first or value is not None}
        own["event_sinks"] = own["event_sinks"] or data.get("event_sinks", [])
    return own


def _request_sections(documents: Documents, environment: object, label: str) -> Mapping[str, Any]:
    """The sections of an environment. Wrong ones are refused, since Heat would not see them: it gets the rest."""
    document = _environment_document(documents, environment, label)
    _check_environment(document)
    problems: list[Diagnostic] = []
    read_sections(document, problems.append)
    if problems:
        raise InputError(problems)
    return _data(documents, document.data, label)


def _merge_environment(stored: StoredStack, own: Mapping[str, Any], cleared: list[str]) -> dict[str, Any]:
    """Merge the environment of the request into the stored one (heat/engine/environment.py:826-836)."""
    kept = {name: value for name, value in _map(stored.environment, "parameters").items() if name not in cleared}
    return {
        "parameters": kept | own["parameters"],
        "parameter_defaults": {**_map(stored.environment, "parameter_defaults"), **own["parameter_defaults"]},
        "resource_registry": _merge_registry(_map(stored.environment, "resource_registry"), own["resource_registry"]),
        "event_sinks": [*(stored.environment.get("event_sinks") or []), *own["event_sinks"]],
    }


def _merge_registry(registry: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a registry into another; null removes a type (heat/engine/environment.py, `_register_info`)."""
    result = dict(registry)
    for key, value in more.items():
        if not isinstance(key, str):
            raise InputError.of("a type must be a string", "bad-environment")
        if value is None:
            removed = [key]
            if key.endswith("*"):
                removed = [name for name in result if name.startswith(key[:-1]) and _is_mapping(name, result[name])]
            for name in removed:
                result.pop(name, None)
        elif isinstance(value, dict):
            old = result.get(key)
            result[key] = _merge_registry(old if isinstance(old, dict) else {}, value)
        else:
            result[key] = value
    return result


def _is_mapping(name: str, value: object) -> bool:
    return name not in SPECIAL and not isinstance(value, dict)


def _removes(registry: Mapping[str, Any]) -> bool:
    return any(value is None or (isinstance(value, dict) and _removes(value)) for value in registry.values())


def _definition(
    template: Mapping[str, Any] | str,
    stored: Mapping[str, Any],
    own: Mapping[str, Any],
    files: Mapping[str, str],
    documents: Documents,
) -> StackDefinition:
    """The definition with a stored environment, without parameters that the template does not declare, which Heat
    drops, and without masked values, unless they are the request's own."""
    declared = _declared(documents, template)
    environment: dict[str, Any] = {name: dict(_map(stored, name)) for name in _MAPS}
    environment["parameters"] = {key: value for key, value in environment["parameters"].items() if key in declared}
    environment["event_sinks"] = stored.get("event_sinks") or []
    _check_environment(_environment_document(documents, environment, "<environment>"))
    masked = remove_masked(environment, own)
    return StackDefinition(template, environment, None, files, masked=masked, documents=documents)


def _declared(documents: Documents, template: Mapping[str, Any] | str) -> set[str]:
    data = _data(documents, template, "<template>")
    return {str(name) for key in ("parameters", "Parameters") for name in _map(data, key)}


def _map(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = data.get(name) or {}
    if not isinstance(section, dict):
        raise InputError.of(f"the section {name} is not a map", "bad-environment")
    return section


def _data(documents: Documents, text: object, label: str, as_json: bool = True) -> Mapping[str, Any]:
    data = documents.read(text, label, as_json).data if isinstance(text, str) else text or {}
    if not isinstance(data, dict):
        raise InputError.of(f"{label} is not a map of sections", "bad-environment")
    return data


def _check_environment(document: Document) -> None:
    """Refuse an environment that redefines a type of the gate, or that says which values are encrypted.

    The former would let a template escape the gate. With the latter Heat would decrypt values with a method that the
    user names, and build with other values than the judged ones (heat/objects/raw_template.py:56-80,
    heat/common/crypt.py:118).
    """
    data = document.data if isinstance(document.data, dict) else {}
    problems = [
        (path, f"`{path[-1]}` maps the types {_OURS}* to others, which is not allowed", "exclude them from the pattern")
        for path in _redefined_types(data.get("resource_registry"), ("resource_registry",))
    ]
    if data.get(_ENCRYPTED):
        problems.append(((_ENCRYPTED,), f"only Heat may set {_ENCRYPTED}", "leave it out"))
    if problems:
        raise InputError(
            [
                Diagnostic("bad-environment", message, document.key_place(path), help_)
                for path, message, help_ in problems
            ]
        )


def _environment_document(documents: Documents, environment: Any, label: str) -> Document:
    if isinstance(environment, str):
        return documents.read(environment, label, as_json=False)
    return Document(label, None, environment or {})


def _redefined_types(registry: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(registry, dict):
        return
    for key, value in registry.items():
        key = str(key)
        if isinstance(value, dict):
            yield from _redefined_types(value, (*path, key))
        elif value is not None and value != key:
            start = key[:-1] if key.endswith("*") else None
            if key.startswith(_OURS) or (start is not None and _OURS.startswith(start)):
                yield *path, key
