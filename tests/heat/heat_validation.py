"""Heat's own validation of a template, without an engine or a cloud.

What asks a service is taken as held: constraints such as ``neutron.network``, the lookup of ids by name, and what a
class checks beyond its schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from unittest import mock

from heat.common import template_format
from heat.engine import constraints, environment, resources, stack, stk_defn, template, translation
from heat.engine import resource as heat_resource
from heat.engine.resources import stack_resource
from heat.engine.resources.openstack.heat import none_resource

from tests.heat import heat_side


def validate(text: str, files: Mapping[str, str], env: Mapping[str, Any], name: str = "web") -> str | None:
    """Heat's reason to refuse a template; None if it accepts it."""
    with (
        mock.patch.object(constraints.CustomConstraint, "_is_valid", _is_valid),
        mock.patch.object(stk_defn.ResourceProxy, "attributes_schema", heat_side.REAL_ATTRIBUTES),
        mock.patch.object(heat_resource.Resource, "_validate_service_availability", return_value=None),
        mock.patch.object(heat_resource.Resource, "validate_external", return_value=None),
        mock.patch.object(translation, "resolve_and_find", lambda value, *_: value),
        mock.patch.object(stack.Stack, "_add_implicit_dependencies", return_value=None),
    ):
        try:
            data = json.loads(json.dumps(template_format.parse(text)))
            parsed = template.Template(data, files=dict(files), env=environment.Environment(dict(env)))
            stack.Stack(heat_side._context("none"), name, parsed).validate()
        except Exception as error:  # noqa: BLE001 - whatever Heat raises is its answer
            return f"{type(error).__name__}: {error}"
    return None


def _is_valid(constraint: Any, value: Any, schema: Any, context: Any) -> bool:
    """Decide a custom constraint that needs no service; others hold."""
    if "." in constraint.name or constraint.name == "test_constr":
        return True
    return bool(heat_side.REAL_CHECK(constraint, value, schema, context))


def _leave_out_own_checks() -> None:
    """Let each class that nests no stack check its schema alone."""
    resources.initialise()
    for info in resources.global_env().registry._registry.values():
        kind = getattr(info, "value", None)
        if isinstance(kind, type) and not issubclass(kind, stack_resource.StackResource | none_resource.NoneResource):
            kind.validate = heat_resource.Resource.validate  # type: ignore[attr-defined]


_leave_out_own_checks()
