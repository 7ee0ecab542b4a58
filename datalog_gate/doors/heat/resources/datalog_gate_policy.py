"""The resource type of grants (layer 6), for `plugin_dirs` of heat.conf: an error here stops Heat's engine, so nothing
is imported but Heat. All but the resource's place in Heat is in `datalog_gate.doors.heat.grant_resource`.
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

LOG = logging.getLogger(__name__)
ROOM = 2000
"""Characters of a reason at most."""


class GrantError(Exception):
    """Why there is no grant, of characters that any database of Heat's stores."""

    def __init__(self, reason: object) -> None:
        super().__init__("".join(one if one.isprintable() and one <= "\uffff" else "?" for one in str(reason)[:ROOM]))


class Policy(resource.Resource):  # type: ignore[misc]
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
        "options": Schema(Schema.MAP, "What is asked of the service.", default={}),
        "expires": Schema(Schema.STRING, "When the grant ends, in ISO 8601 and UTC.", update_allowed=True),
    }
    attributes_schema = {  # noqa: RUF012
        "decision": attributes.Schema("What the service decided, by resource in scope.", type=attributes.Schema.MAP)
    }

    def add_dependencies(self, deps: Any) -> None:
        """What is in scope requires the grant. Heat goes on without the edges where this raises: a scope that can't be
        read is everything here, and is refused later."""
        self.graph = deps
        for name in self._scope():
            deps += (self.stack[name], self)

    def validate(self) -> Any:
        self._ask("check", self._invalid, definition=self.t)
        return super().validate()

    def validate_external(self) -> None:
        self._ask("check", self._invalid, definition=self.t)

    def handle_create(self) -> None:
        """Heat asks further only where there is this."""

    def check_create_complete(self, _cookie: object) -> bool:
        """Called again and again while a service says that the grant waits, until Heat cancels it."""
        if self._ask("waits"):
            return False
        self._ask("reserve")
        return True

    def handle_adopt(self, resource_data: object = None) -> None:  # noqa: ARG002 - its user may have made it up
        self._ask("reserve", adopts=True)

    def update(self, after: Any, *given: Any, **named: Any) -> Iterator[Any]:
        """Before Heat looks at what it is to do, since it does not look far where there is an `external_id`."""
        self.changed = self._ask("changed", self._failed, after=after)
        yield from super().update(after, *given, **named)

    def needs_replace(self, after_props: object) -> bool:  # noqa: ARG002 - what is in scope counts too
        return bool(getattr(self, "changed", False))

    def needs_replace_failed(self) -> bool:
        return not self._ask("restored", self._failed)

    def handle_update(self, _definition: object, _difference: object, prop_diff: Any) -> None:
        if "expires" in prop_diff:
            self._ask("expire", expires=prop_diff["expires"])

    def handle_delete(self) -> None:
        with suppress(GrantError):  # what can't be released now is released by the reconciler
            self._ask("release")

    def _ask(self, what: str, failing: Callable[[object], Exception] = GrantError, **named: object) -> Any:
        """What `grant` has to say. Errors: as `failing` makes one of the reason."""
        try:
            from datalog_gate.doors.heat import grant_resource

            return getattr(grant_resource, what)(self, **named)
        except Exception as error:  # whatever is broken must stop what would build, and in a way that Heat understands
            reason = getattr(error, "shown", None)
            if reason is None:
                LOG.exception("%s of the grant %s is broken", what, self.name)
                reason = f"the grant could not be judged ({type(error).__name__}), see the log of heat-engine"
            raise failing(reason) from None

    def _invalid(self, reason: object) -> Exception:
        return exception.StackValidationFailed(message=f"{self.name}: {GrantError(reason)}")  # type: ignore[no-any-return]

    def _failed(self, reason: object) -> Exception:
        return exception.ResourceFailure(GrantError(reason), self, self.UPDATE)  # type: ignore[no-any-return]

    def _resolve_attribute(self, name: str) -> Any:
        return json.loads(self.data().get(name, "{}"))

    def _scope(self) -> set[str]:
        """The names of what must wait."""
        try:
            scope = self.properties["scope"]
            names = None if scope is None else [str(name) for name in scope]
        except Exception:  # noqa: BLE001 - whatever is wrong with it
            names = None
        there: dict[str, Any] = self.stack.resources
        if names is not None:
            return {name if name in there else name.partition(".")[0] for name in names} & there.keys() - {self.name}
        outside: set[str] = set()
        waiting = [name for name, one in there.items() if isinstance(one, Policy)]
        while waiting:
            name = waiting.pop()
            if name not in outside and name in there:
                outside.add(name)
                waiting.extend(there[name].t.required_resource_names())
        return there.keys() - outside


def resource_mapping() -> dict[str, Any]:
    """The type, for Heat."""
    return {"DatalogGate::Policy": Policy}
