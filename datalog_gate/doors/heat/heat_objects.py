"""What Heat hands to a lifecycle plugin, as a question (layer 6): the one reader of Heat's private classes.

In: the arguments of `do_pre_op`. Out: an `Asked`, whose definition is a copy. Only what a stack is defined by is read:
to look at its resources makes them, and may ask the cloud.
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


def asked(cnxt: Any, stack: Any, current_stack: Any, action: str | None) -> Operation | None:
    """The question, or None for a nested stack that is changed by what its root was judged for. `stack` is the old one
    where there is a `current_stack`. Errors: EngineError where Heat has no longer what is read here."""
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
        definition=lambda: definition_of(new.t),
        credentials=owner_of(cnxt) if isinstance(cnxt, StoredContext) else cnxt.to_policy_values(),
        stack_id=stack.id,
        request_id=cnxt.request_id or "",
        against=None if current_stack is None else lambda: _older(Resource, cnxt, stack),
    )


def owner_of(cnxt: Any) -> dict[str, object]:
    """Whom a signal stands for, as Heat stored it: without the roles, for which the context would ask Keystone."""
    return {"user_id": cnxt.user_id, "project_id": cnxt.project_id, "roles": []}


def _changed_by_owner(resources: Any, cnxt: Any, stack: Any) -> bool:
    """Whether an operation on the stack that owns this one goes on at the resource that this one is of. If not, a
    signal scales it: Heat takes no such signal while the resource is in progress (aws/autoscaling/autoscaling_group.py,
    `adjust`). What the owner was judged for holds this stack too."""
    parent = resources.get_by_name_and_stack(cnxt, stack.parent_resource_name, stack.owner_id)
    return parent is not None and parent.status == "IN_PROGRESS"


def _older(resources: Any, cnxt: Any, stack: Any) -> StackDefinition:
    """What the stack was made of: nothing, if nothing of it was ever built. Heat keeps the template of a creation that
    was stopped here, and what was refused then was not there."""
    built = any(one.physical_resource_id for one in resources.get_all_by_stack(cnxt, stack.id).values())
    return definition_of(stack.t) if built else StackDefinition({"heat_template_version": "2018-08-31"})


def definition_of(template: Any) -> StackDefinition:
    """What a stack with this template is made of, in plain data of its own. The parameters lie in the environment."""
    return StackDefinition(
        template=_copy(template.t),
        environment=_copy(template.env.user_env_as_dict()),
        files={name: template.files[name] for name in template.files},
    )


def _copy(data: Any) -> Any:
    """As the data went over Heat's own wire, so that nothing else hides in it. Errors: TypeError."""
    return json.loads(json.dumps(data))
