"""The resource type of denials, for `plugin_dirs` of heat.conf.

An error in this module stops Heat's engine, so it imports only Heat. `DatalogGate::Denial` records a denied creation: a
stack with it is CREATE_FAILED with the reason, and an update to any other template makes the stack complete.
"""

from __future__ import annotations

from typing import Any

from heat.engine import properties, resource, support

MAX_LENGTH = 2000
"""Maximum characters of a reason."""


class DeniedError(Exception):
    """The stack is denied, for a reason of characters that any database of Heat stores."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "".join(char if char.isprintable() and char <= "\uffff" else "?" for char in reason[:MAX_LENGTH])
        )


class Denial(resource.Resource):  # type: ignore[misc]
    """A resource whose creation fails for the reason that it is given. It stands in the place of a stack that the
    policies deny."""

    support_status = support.SupportStatus(version="1.0.0")
    default_client_name = None
    properties_schema = {  # noqa: RUF012
        "reason": properties.Schema(
            properties.Schema.STRING, "Why the policies deny the stack that was asked for.", required=True
        )
    }

    def handle_create(self) -> None:
        raise DeniedError(self.properties["reason"])


def resource_mapping() -> dict[str, Any]:
    """The resource type, for Heat."""
    return {"DatalogGate::Denial": Denial}
