"""Heat's own validation of a template, without an engine or a cloud.

What asks a service is taken as held: constraints such as ``neutron.network``, and the lookup of ids by name. `validate`
also takes as held what a class checks beyond its schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from heat.common import template_format
from heat.engine import constraints, environment, resources, stack, stk_defn, template, translation
from heat.engine import resource as heat_resource
from heat.engine.resources import stack_resource
from heat.engine.resources.openstack.heat import none_resource

from tests.heat import heat_side


def validate(text: str, files: Mapping[str, str], env: Mapping[str, Any]) -> str | None:
    """Heat's reason to refuse a template; None if it accepts it."""
    with _without_services():
        return _reason(lambda: _stack(text, files, env).validate())


def find_refused_resources(
    text: str, files: Mapping[str, str], env: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Heat's reasons to refuse the resources of a template, by name: what no schema allows, and what a class refuses
    beyond it."""
    by_schema: dict[str, str] = {}
    by_class: dict[str, str] = {}
    with _without_services(), _with_own_checks():
        parsed = _stack(text, files, env)
        parsed._update_all_resource_data(for_resources=True, for_outputs=True)
        for resource in parsed.resources.values():
            if resource.external_id is not None:
                continue
            if reason := _reason(resource.validate_template):
                by_schema[resource.name] = reason
            elif reason := _reason(resource.validate):
                by_class[resource.name] = reason
    return by_schema, by_class


def _reason(check: Callable[[], Any]) -> str | None:
    try:
        result = check()
    except Exception as error:  # noqa: BLE001 - whatever Heat raises is its answer
        return f"{type(error).__name__}: {error}"
    return None if result is None else str(result)


def _stack(text: str, files: Mapping[str, str], env: Mapping[str, Any]) -> stack.Stack:
    data = json.loads(json.dumps(template_format.parse(text)))
    parsed = template.Template(data, files=dict(files), env=environment.Environment(dict(env)))
    return stack.Stack(heat_side._context("none"), "web", parsed)


@contextmanager
def _without_services() -> Iterator[None]:
    with (
        mock.patch.object(constraints.CustomConstraint, "_is_valid", _is_valid),
        mock.patch.object(stk_defn.ResourceProxy, "attributes_schema", heat_side.REAL_ATTRIBUTES),
        mock.patch.object(heat_resource.Resource, "_validate_service_availability", return_value=None),
        mock.patch.object(heat_resource.Resource, "validate_external", return_value=None),
        mock.patch.object(translation, "resolve_and_find", lambda value, *_: value),
        mock.patch.object(stack.Stack, "_add_implicit_dependencies", return_value=None),
    ):
        yield


@contextmanager
def _with_own_checks() -> Iterator[None]:
    """Let each class check all, with services that have what is asked for, in every version."""
    services = mock.Mock()
    services.get_image.side_effect = LookupError
    services.absolute_limits.return_value = dict.fromkeys(("maxServerMeta", "maxPersonality", "maxPersonalitySize"), 99)
    services.network_id_from_subnet_id.return_value = services.find_resourceid_by_name_or_id.return_value
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(heat_resource.Resource, "client_plugin", return_value=services))
        for kind, check in OWN_CHECKS.items():
            patches.enter_context(mock.patch.object(kind, "validate", check))
        yield


def _is_valid(constraint: Any, value: Any, schema: Any, context: Any) -> bool:
    """Decide a custom constraint that needs no service; others hold."""
    if "." in constraint.name or constraint.name == "test_constr":
        return True
    return bool(heat_side.REAL_CHECK(constraint, value, schema, context))


def find_own_checks() -> dict[type, Any]:
    """The classes of resources that check more than their schema, each with its `validate`."""
    resources.initialise()
    waiting, checks = [heat_resource.Resource], {}
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith(resources.__name__) and "validate" in vars(kind):
                checks[kind] = vars(kind)["validate"]
    return checks


OWN_CHECKS = find_own_checks()
for _kind in OWN_CHECKS:
    if not issubclass(_kind, stack_resource.StackResource | none_resource.NoneResource):
        _kind.validate = heat_resource.Resource.validate  # type: ignore[attr-defined]
