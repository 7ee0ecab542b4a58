"""A reader of the objects of Heat's engine.

Only the definition of a stack is read, and it is copied. Reading its resources would create them, and might call the
cloud.
"""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.metadata import version
from operator import attrgetter
from typing import Any

from datalog_gate.base.errors import EngineError
from datalog_gate.files.stack_definition import StackDefinition

STACK = (
    "context", "id", "name", "owner_id", "parent_resource_name", "tenant_id", "action", "status",
    "disable_rollback", "convergence", "tags", "adopt_stack_data", "identifier", "defn.parent_resource", "t.id", "t.t",
    "t.files", "t.env.user_env_as_dict", "t.env.registry.global_registry", "prev_raw_template_id",
)  # fmt: skip
CONTEXT = ("user_id", "project_id", "request_id", "to_policy_values")


def check_shape(context: Any, *stacks: Any) -> None:
    """Check that Heat's objects have the attributes that the gate reads. Errors: EngineError if one is missing."""
    try:
        attrgetter(*CONTEXT)(context)
        for stack in stacks:
            attrgetter(*STACK)(stack)
    except AttributeError as error:
        raise EngineError(f"Heat {version('openstack-heat')} is not supported by this gate: {error}") from None


def owner_of(cnxt: Any) -> dict[str, object]:
    """The owner of a stored context, on whose behalf a signal acts. Roles are not read, since that calls Keystone."""
    return {"user_id": cnxt.user_id, "project_id": cnxt.project_id, "roles": []}


def has_built(stack: Any) -> bool:
    """Whether Heat has built anything of the stack."""
    from heat.objects.resource import Resource

    rows = Resource.get_all_by_stack(stack.context, stack.id)
    return any(resource.physical_resource_id for resource in rows.values())


def copy_definition(template: Any) -> StackDefinition:
    """Copy a template of Heat as a definition, with the parameters in its environment. Errors: TypeError."""
    source, environment = json.loads(json.dumps([template.t, template.env.user_env_as_dict()]))
    mappings, files = _operators_types(template)
    if mappings:
        environment["resource_registry"] = {**mappings, **environment["resource_registry"]}
    files |= {name: template.files[name] for name in template.files}
    texts = {name: file.decode() if isinstance(file, bytes) else file for name, file in files.items()}
    return StackDefinition(source, environment, files=texts)


def _operators_types(template: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The types that the operator maps to others in `environment_dir`, and the templates among these, as bytes. Missing
    templates are left out, since Heat refuses stacks with their types."""
    from heat.common.exception import NotFound
    from heat.engine.environment import GlobResourceInfo, MapResourceInfo, TemplateResourceInfo
    from heat.engine.resources.template_resource import LOCAL_SCHEMES, TemplateResource

    mappings: dict[str, str] = {}
    files: dict[str, Any] = {}
    for name, info in template.env.registry.global_registry._registry.items():
        if isinstance(info, GlobResourceInfo | MapResourceInfo | TemplateResourceInfo):
            mappings[name] = info.value
        if isinstance(info, TemplateResourceInfo):
            with suppress(NotFound):
                files[info.value] = TemplateResource.get_template_file(info.value, LOCAL_SCHEMES)
    return mappings, files
