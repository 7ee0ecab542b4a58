"""A reader of the objects that Heat gives to a lifecycle plugin.

Only the definition of a stack is read, and it is copied. Reading its resources would create them, and might call the
cloud.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from operator import attrgetter
from typing import Any

from datalog_gate.base.errors import EngineError
from datalog_gate.decision_point.operation import CLOSED, Operation
from datalog_gate.decision_point.stack_definition import StackDefinition

STACK = (
    "id", "name", "owner_id", "parent_resource_name", "tenant_id", "status", "disable_rollback", "t.t", "t.files",
    "t.env.user_env_as_dict",
)  # fmt: skip
CONTEXT = ("user_id", "project_id", "request_id", "to_policy_values")


def read_operation(cnxt: Any, stack: Any, current_stack: Any, action: str | None) -> Operation | None:
    """Read the arguments of `do_pre_op`; None for a nested stack that changes with its judged root.

    `stack` is the old stack if there is a `current_stack`. Errors: EngineError if this Heat lacks an attribute.
    """
    new = stack if current_stack is None else current_stack
    try:
        from heat.common.context import StoredContext
        from heat.objects.resource import Resource

        attrgetter(*CONTEXT)(cnxt)
        attrgetter(*STACK)(stack)
        attrgetter(*STACK)(new)
    except (AttributeError, ImportError) as error:
        raise EngineError(f"Heat {version('openstack-heat')} is not known to this gate: {error}") from None
    name = str(action).lower()
    if stack.owner_id is not None and (name not in CLOSED or _changed_by_owner(Resource, cnxt, stack)):
        return None
    return Operation(
        door="plugin",
        action=name,
        stack_name=stack.name,
        project=stack.tenant_id,
        definition=lambda: copy_definition(new.t),
        credentials=owner_of(cnxt) if isinstance(cnxt, StoredContext) else cnxt.to_policy_values(),
        stack_id=stack.id,
        request_id=cnxt.request_id or "",
        against=None if current_stack is None else lambda: _read_old(stack),
    )


def owner_of(cnxt: Any) -> dict[str, object]:
    """The owner of a stored context, for whom a signal acts. Reading the roles too would call Keystone."""
    return {"user_id": cnxt.user_id, "project_id": cnxt.project_id, "roles": []}


def _changed_by_owner(resources: Any, cnxt: Any, stack: Any) -> bool:
    """Whether an operation on the owner of this nested stack changes it. If not, a signal scales it.

    Heat accepts no such signal while the parent resource is in progress (aws/autoscaling/autoscaling_group.py,
    `adjust`). The owner was judged together with this stack.
    """
    parent = resources.get_by_name_and_stack(cnxt, stack.parent_resource_name, stack.owner_id)
    return parent is not None and parent.status == "IN_PROGRESS"


def _read_old(stack: Any) -> StackDefinition:
    """The definition before an update; empty if nothing of the stack was ever built.

    Heat keeps the template of a creation that was refused here, so its resources do not count as there before.
    """
    return copy_definition(stack.t) if has_built(stack) else StackDefinition({"heat_template_version": "2018-08-31"})


def has_built(stack: Any) -> bool:
    """Whether Heat built anything of the stack."""
    from heat.objects.resource import Resource

    rows = Resource.get_all_by_stack(stack.context, stack.id)
    return any(resource.physical_resource_id for resource in rows.values())


def copy_definition(template: Any) -> StackDefinition:
    """Copy a template of Heat as a definition, whose parameters are in the environment. Errors: TypeError."""
    source, environment = json.loads(json.dumps([template.t, template.env.user_env_as_dict()]))
    return StackDefinition(source, environment, files={name: template.files[name] for name in template.files})
