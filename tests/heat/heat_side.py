"""Resolve a template with Heat's own classes, without an engine.

A template is what the API gets: its text, `files` and one environment. Nothing exists yet, so an attribute or a
reference has no value: every template is resolved once per `SHAPES`, and each time what only the cloud knows has
another value of another form. What then differs depends on the cloud; what stays is known. The members of groups,
nested stacks and what their attributes echo are computed by Heat's own classes.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import logging
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from heat.common import config, context, exception, identifier, template_format, urlfetch
from heat.engine import (
    attributes,
    constraints,
    environment,
    function,
    parameter_groups,
    stack,
    status,
    stk_defn,
    template,
)
from heat.engine import resource as heat_resource
from heat.engine.resources import stack_resource, template_resource
from heat.engine.resources.aws.autoscaling.launch_config import LaunchConfiguration
from heat.engine.resources.openstack.heat import instance_group, remote_stack, value
from heat.objects import service
from oslo_config import cfg
from oslo_log import log

from datalog_gate.base.values import ResourceId
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Resource
from datalog_gate.template.functions.attributes import read_property
from datalog_gate.template.functions.pure import Undecided

_INSTANTIATED = (stack_resource.StackResource, remote_stack.RemoteStack, value.Value, LaunchConfiguration)
"""The classes of which an instance is made: it needs no cloud to say what it holds."""

SHAPES = ("none", "digits", "word", "list", "map", "flag", "a")
"""What an attribute is: nothing, a text of which a number may be made, any text, a list, a map of lists, a truth as
text, the key that templates of tests use most."""
Data = Any


@dataclass(frozen=True)
class Refused:
    """Heat's error in place of a value."""

    reason: str


@dataclass
class HeatResource:
    """One resource with its functions resolved. `nested` is its stack, or why Heat could not make it."""

    type: str
    properties: Data
    metadata: Data
    deletion_policy: Data
    update_policy: Data
    requires: frozenset[str]
    nested: HeatStack | Refused | None = None


@dataclass
class HeatStack:
    """One stack as Heat resolves it: parameters, conditions, resources and outputs by name."""

    parameters: dict[str, Data] = field(default_factory=dict)
    conditions: dict[str, Data] = field(default_factory=dict)
    resources: dict[str, HeatResource] = field(default_factory=dict)
    outputs: dict[str, Data] = field(default_factory=dict)


def reference(path: str, shape: str) -> str:
    """The id of a resource, as `get_resource` gives it."""
    return path.rpartition("/")[2] if shape == "none" else f"{shape}:{path}"


def resolve(text: str, files: Mapping[str, str], env: Mapping[str, Data], shape: str) -> HeatStack | Refused:
    """Resolve a template of a stack `web`; a `Refused` if Heat refuses it."""
    try:
        parsed = template.Template(_sent(template_format.parse(text)), files=dict(files), env=_environment(env))
        return _stack(stack.Stack(_context(shape), "web", parsed), "web", shape)
    except Exception as error:  # noqa: BLE001 - whatever Heat raises is its answer
        return _refused(error)


def _sent(parsed: Data) -> Data:
    """A template as Heat builds from it: it is JSON on its way to the engine, and in the database. That of a group
    stays."""
    return json.loads(json.dumps(parsed)) if isinstance(parsed, dict) else parsed


def _environment(env: Mapping[str, Data]) -> environment.Environment:
    return environment.Environment(copy.deepcopy(dict(env)))


def _context(shape: str) -> context.RequestContext:
    return context.RequestContext(username="user", project_id=shape, roles=[], is_admin=False)


def _stack(own: stack.Stack, path: str, shape: str) -> HeatStack:
    own.t.validate()
    own.parameters.validate(context=own.context, validate_value=True)
    parameter_groups.ParameterGroups(own.t).validate()
    own.parameters.set_stack_id(identifier.HeatIdentifier(own.tenant_id, own.name, f"id-{shape}"))
    conditions = own.t.conditions(own.defn)
    conditions.validate()
    own._resources = {}
    answer = HeatStack(
        parameters={name: own.parameters[name] for name in own.parameters},
        conditions={name: conditions.is_enabled(name) for name in conditions._conditions},
    )
    names = own.defn.enabled_rsrc_names()
    needed = {name: own.defn.resource_definition(name).required_resource_names() for name in names}
    for name in names:
        if missing := needed[name] - own.defn.all_rsrc_names():
            raise ValueError(f"{name} needs {missing}")
    for name in _in_order({name: required & names for name, required in needed.items()}):
        answer.resources[name] = _resource(own, name, frozenset(needed[name] & names), f"{path}/{name}", shape)
        own.defn.resource_definition(name).validate()
    for name in own.defn.enabled_output_names():
        definition = own.defn.output_definition(name)
        definition.validate()
        answer.outputs[name] = _resolved(definition._value)
    return answer


def _in_order(needed: Mapping[str, set[str]]) -> list[str]:
    ordered: list[str] = []
    left = dict(needed)
    while left:
        ready = sorted(name for name, required in left.items() if required <= set(ordered))
        if not ready:
            raise ValueError(f"circular dependency among {sorted(left)}")
        ordered += ready
        for name in ready:
            del left[name]
    return ordered


def _resource(own: stack.Stack, name: str, requires: frozenset[str], path: str, shape: str) -> HeatResource:
    definition = own.defn.resource_definition(name)
    try:
        info = own.env.get_resource_info(definition.resource_type, resource_name=name)
    except exception.EntityNotFound:  # a type of some provider's plugin
        info = None
    template_of = getattr(info, "template_name", None)
    kind = template_of or (info.name if info else definition.resource_type)
    resource = HeatResource(
        type=kind,
        properties=_resolved(definition._properties),
        metadata=_resolved(definition._metadata),
        deletion_policy=_resolved(definition._deletion_policy),
        update_policy=_resolved(definition._update_policy),
        requires=requires,
    )
    node = _Node(path, shape, resource, own.defn.all_rsrc_names())
    own.defn._resource_data[name] = node
    own.defn._resources.pop(name, None)
    own._resources[name] = node
    cls = info.get_class_to_instantiate() if info else None
    if cls and issubclass(cls, _INSTANTIATED):
        try:
            own._resources[name] = instance = cls(name, definition, own)
            instance.FnGetRefId = node.reference_id
            resource.nested = _nested(instance, node, path, shape)
        except Exception as error:  # noqa: BLE001
            node.failed = resource.nested = _refused(error)
    return resource


def _nested(instance: Any, node: _Node, path: str, shape: str) -> HeatStack | None:
    match instance:
        case value.Value():
            node.echo = instance.FnGetAtt
            return None
        case remote_stack.RemoteStack():
            answer = _remote(instance, path, shape)
            outputs = {key: value for key, value in answer.outputs.items() if not isinstance(value, Refused)}
            node.echo = lambda key, *rest: (
                attributes.select_from_attribute(outputs, rest)
                if key == "outputs"
                else of_the_cloud(f"{path} {key}", shape)
            )
            return answer
        case stack_resource.StackResource():
            if isinstance(instance, template_resource.TemplateResource) and not instance.validation_exception:
                instance.properties.validate()
            names = itertools.count()
            instance_group.short_id = SimpleNamespace(generate_id=lambda: str(next(names)))
            name = f"{instance.stack.name}-{instance.name}-{shape}"
            inner = instance._parse_nested_stack(name, _sent(instance.child_template()), instance.child_params())
            answer = _stack(inner, path, shape)
            members = sorted(answer.resources, key=lambda name: (len(name), name))
            instance._group_data = lambda **_: SimpleNamespace(member_names=lambda _failed: members)
            instance.resource_id, instance._nested = "made", inner
            instance.get_output = lambda name: _output(answer, instance, name)
            node.echo = instance.FnGetAtt
            return answer
    return None


def _remote(instance: Any, path: str, shape: str) -> HeatStack:
    child = environment.get_child_environment(instance.stack.env, instance.properties["parameters"])
    text, files = instance.properties["template"], dict(instance.stack.t.files)
    parsed = template.Template(
        _sent(template_format.parse(text)), files=files, env=_environment(child.user_env_as_dict())
    )
    return _stack(stack.Stack(instance.context, f"{instance.stack.name}-{shape}", parsed), path, shape)


def _output(answer: HeatStack, instance: Any, name: str) -> Data:
    if name not in answer.outputs:
        raise exception.NotFound(f"no output {name}")
    if isinstance(answer.outputs[name], Refused):
        raise exception.TemplateOutputError(resource=instance.name, attribute=name, message=answer.outputs[name].reason)
    return answer.outputs[name]


def of_the_cloud(key: str, shape: str) -> Data:
    """A value that only the cloud knows, another one in every shape."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    digits = str(2 + int(digest, 16) % 8)  # as a group's count it must stay small
    choices = {
        "digits": digits,
        "word": digest[:12],
        "list": [digest],
        "map": _Deep(key=[digest]),
        "flag": "true",
        "a": "a",
    }
    return choices.get(shape)


def _resolved(snippet: Data) -> Data:
    """Resolve the functions of a snippet; where a function can't be resolved its place is `Refused`."""
    value = _part(snippet)
    return None if value is ... else value


def _part(snippet: Data) -> Data:
    try:
        return copy.deepcopy(function.resolve(snippet, nullable=True))
    except Exception as error:  # noqa: BLE001
        if isinstance(snippet, Mapping):
            return {key: value for key, item in snippet.items() if (value := _part(item)) is not ...}
        if isinstance(snippet, list):
            return [value for item in snippet if (value := _part(item)) is not ...]
        return _refused(error)


def _refused(error: Exception) -> Refused:
    assert not isinstance(error, NameError), error
    return Refused(f"{type(error).__name__}: {error}"[:300])


def refusals(value: Data) -> Iterator[Refused]:
    """All that is refused in a value."""
    if isinstance(value, Refused):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from refusals(part)


class _Deep(dict[str, Any]):
    """A map with a value under every key, at any depth."""

    def __missing__(self, key: str) -> _Deep:
        return _Deep(key=[f"{self['key'][0]} {key}"])


class _Every:
    """The attributes of a resource: only Heat knows which these are."""

    def __contains__(self, name: object) -> bool:
        return True


class _Node(status.ResourceStatus):  # type: ignore[misc]
    """A resource that exists, for Heat's stack definition, and its stand-in."""

    action, status, state, primary_key, uuid = "CREATE", "COMPLETE", ("CREATE", "COMPLETE"), None, None

    def __init__(self, path: str, shape: str, resource: HeatResource, names: Collection[str]) -> None:
        self.path, self.shape, self.name = path, shape, path.rpartition("/")[2]
        self.resolved, self.names = resource, names
        self.echo: Any = None
        self.failed: Refused | None = None

    def reference_id(self) -> str:
        return reference(self.path, self.shape)

    FnGetRefId = reference_id

    def FnGetAtt(self, *key: str) -> Data:  # noqa: N802
        return self.attribute(key)

    def attributes(self) -> Data:
        return {"everything": of_the_cloud(self.path, self.shape)}

    def attribute(self, key: Data) -> Data:
        if self.failed:
            raise ValueError(self.failed.reason)
        keys = key if isinstance(key, tuple) else (key,)
        value = self.echo(*keys) if self.echo else self._stored(*keys)
        if wrong := next(refusals(value), None):
            raise ValueError(wrong.reason)
        return value

    def _stored(self, *keys: Data) -> Data:
        """What the cloud will say, or where the catalogue knows that it gives back a property: Heat's own value of it,
        by the rule of `echo`, which `test_echo` holds to Heat's classes."""
        properties = self.resolved.properties if isinstance(self.resolved.properties, dict) else {}
        marked = {name: ResourceId(value) if self._refers(value) else value for name, value in properties.items()}
        resource = Resource(ResourceId(self.path), self.name, self.resolved.type, self.resolved.type, marked)
        try:
            value = read_property(resource, SHIPPED.type(self.resolved.type), list(keys))
        except (Undecided, LookupError, ValueError, TypeError):
            key = keys[0] if len(keys) == 1 else keys
            return of_the_cloud(f"{self.path} {key}", self.shape)
        return value.path if isinstance(value, ResourceId) else value

    def _refers(self, value: Data) -> bool:
        if self.shape == "none":
            return isinstance(value, str) and value in self.names
        return isinstance(value, str) and value.startswith(f"{self.shape}:")


REAL_CHECK = constraints.CustomConstraint._is_valid
REAL_ATTRIBUTES = stk_defn.ResourceProxy.attributes_schema
"""What `_boot` replaces."""


def _boot() -> None:
    """Configure Heat without files, database, services or cloud."""
    logging.disable()
    log.register_options(cfg.CONF)
    cfg.CONF([], project="heat", prog="heat-engine", version="x", default_config_files=[])
    config.set_config_defaults()
    cfg.CONF.set_override("max_resources_per_stack", -1)
    cfg.CONF.set_override("max_template_size", 100_000_000)
    constraints.CustomConstraint._is_valid = lambda *_args: True  # it asks the cloud
    service.Service.active_service_count = lambda _context: 1000
    urlfetch.get = _no_network
    stk_defn.StackDefinition.get_availability_zones = lambda own: [of_the_cloud("zone", own._context.project_id)]
    stk_defn.ResourceProxy.attributes_schema = _Every()
    heat_resource.Resource.rpc_client = lambda _self: None
    sys.setrecursionlimit(10_000)


def _no_network(url: str, **_: Any) -> Data:
    raise urlfetch.URLFetchError(f"{url} is not fetched")


_boot()
