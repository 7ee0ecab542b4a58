"""The resource types of grants and denials, for `plugin_dirs` of heat.conf.

An error in this module stops Heat's engine, so it imports only Heat, and what needs nothing but the standard library.
The behaviour of grants is in `datalog_gate.doors.heat.grant_resource`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from heat.common import exception
from heat.engine import attributes, resource, support
from heat.engine.properties import Schema

from datalog_gate.base.failures import log_failure
from datalog_gate.doors.heat.status_reason import storable

LOG = logging.getLogger(__name__)


class DeniedError(Exception):
    """The stack is denied. The reason has only characters that every database of Heat stores."""

    def __init__(self, reason: object) -> None:
        super().__init__(storable(str(reason)))


class GrantError(DeniedError):
    """The grant is refused."""


class Denial(resource.Resource):  # type: ignore[misc]
    """A resource whose creation fails for the reason that it is given. It stands in the place of a stack that the
    policies deny."""

    support_status = support.SupportStatus(version="1.0.0")
    default_client_name = None
    properties_schema = {  # noqa: RUF012
        "reason": Schema(Schema.STRING, "Why the policies deny the stack that was asked for.", required=True)
    }

    def handle_create(self) -> None:
        raise DeniedError(self.properties["reason"])


class PolicyResource(resource.Resource):  # type: ignore[misc]
    """Lets one of the provider's services act on resources of this stack. What is in scope waits for what the service
    decides, and fails with it."""

    support_status = support.SupportStatus(version="1.0.0")
    default_client_name = None
    properties_schema = {  # noqa: RUF012
        "service": Schema(Schema.STRING, "The name of the service.", required=True),
        "scope": Schema(
            Schema.LIST,
            "The names of the resources that the service may act on: by default all but grants and what any requires.",
            schema=Schema(Schema.STRING),
        ),
        "options": Schema(Schema.MAP, "The options for the service.", default={}),
        "expires": Schema(Schema.STRING, "When the grant ends, in ISO 8601 and UTC.", update_allowed=True),
    }
    attributes_schema = {  # noqa: RUF012
        "decision": attributes.Schema("What the service decided, by resource in scope.", type=attributes.Schema.MAP)
    }

    def add_dependencies(self, deps: Any) -> None:
        """Make the resources in scope require the grant. If this raised, Heat would continue without the dependencies.
        So an unreadable scope counts as everything, and is refused later."""
        self.graph = deps
        for name in self._scope():
            deps += (self.stack[name], self)

    def validate(self) -> Any:
        self._call_grant_resource("check", self._invalid, definition=self.t)
        return super().validate()

    def validate_external(self) -> None:
        self._call_grant_resource("check", self._invalid, definition=self.t)

    def handle_create(self) -> None:
        """Heat calls `check_create_complete` only if this method exists."""

    def check_create_complete(self, _cookie: object) -> bool:
        """Called repeatedly while the grant waits, until Heat cancels it."""
        if reason := self._call_grant_resource("find_wait_reason"):
            self._show(str(DeniedError(reason)))
            return False
        self._call_grant_resource("reserve")
        return True

    def _show(self, reason: str) -> None:
        """Show what the grant waits for in its status, and once as an event."""
        if reason == self.status_reason:
            return
        try:
            self.state_set(self.action, self.status, reason)
            self._add_event(self.action, self.status, reason)
        except Exception:  # noqa: BLE001 - the grant waits all the same
            log_failure(LOG, "the reason why the grant %s waits could not be shown", self.name)

    def handle_adopt(self, resource_data: object = None) -> None:  # noqa: ARG002 - the user may have invented it
        self._call_grant_resource("reserve", adopts=True)

    def update(self, after: Any, *given: Any, **named: Any) -> Iterator[Any]:
        """Check for changes before Heat decides what to do, since Heat ignores a resource with an `external_id`."""
        self.changed = self._call_grant_resource("needs_replacement", self._failed, after=after)
        yield from super().update(after, *given, **named)

    def needs_replace(self, after_props: object) -> bool:  # noqa: ARG002 - changes of the scope count too
        return bool(getattr(self, "changed", False))

    def needs_replace_failed(self) -> bool:
        return not self._call_grant_resource("restore_decision", self._failed)

    def handle_update(self, _definition: object, _difference: object, prop_diff: Any) -> None:
        if "expires" in prop_diff:
            self._call_grant_resource("expire", expires=prop_diff["expires"])

    def handle_delete(self) -> None:
        with suppress(GrantError):  # the reconciler releases it later
            self._call_grant_resource("release")

    def _call_grant_resource(
        self, function: str, failing: Callable[[object], Exception] = GrantError, **named: object
    ) -> Any:
        """Call a function of `grant_resource`. Errors: the exception that `failing` makes of a reason."""
        try:
            from datalog_gate.doors.heat import grant_resource

            return getattr(grant_resource, function)(self, **named)
        except Exception as error:  # noqa: BLE001 - any failure must stop the operation, with an exception that Heat understands
            reason = getattr(error, "shown", None)
            if reason is None:
                log_failure(LOG, "%s of the grant %s is broken", function, self.name)
                reason = f"the grant could not be judged ({type(error).__name__}), see the log of heat-engine"
            raise failing(reason) from None

    def _invalid(self, reason: object) -> Exception:
        return exception.StackValidationFailed(message=f"{self.name}: {GrantError(reason)}")  # type: ignore[no-any-return]

    def _failed(self, reason: object) -> Exception:
        return exception.ResourceFailure(GrantError(reason), self, self.UPDATE)  # type: ignore[no-any-return]

    def _resolve_attribute(self, name: str) -> Any:
        return json.loads(self.data().get(name, "{}"))

    def _scope(self) -> set[str]:
        """The names of the resources that must wait for the grant."""
        try:
            scope = self.properties["scope"]
            names = None if scope is None else [str(name) for name in scope]
        except Exception:  # noqa: BLE001 - whatever is wrong with it
            names = None
        resources: dict[str, Any] = self.stack.resources
        if names is not None:
            known = {name if name in resources else name.partition(".")[0] for name in names}
            return known & resources.keys() - {self.name}
        outside: set[str] = set()
        waiting = [name for name, stack_resource in resources.items() if isinstance(stack_resource, PolicyResource)]
        while waiting:
            name = waiting.pop()
            if name not in outside and name in resources:
                outside.add(name)
                waiting.extend(resources[name].t.required_resource_names())
        return resources.keys() - outside


def resource_mapping() -> dict[str, Any]:
    """The resource types, for Heat."""
    return {"DatalogGate::Denial": Denial, "DatalogGate::Policy": PolicyResource}
