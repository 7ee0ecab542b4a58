"""The resource types of the gate (layer 6), for `plugin_dirs` of heat.conf: an error here stops Heat's engine, so
nothing is imported but Heat.

`DatalogGate::Denial` is the record of a denied creation: a stack of it alone is CREATE_FAILED for the reason that it
holds, and any other template in its place makes the stack complete.
"""

from __future__ import annotations

from typing import Any

from heat.engine import properties, resource, support

ROOM = 2000
"""Characters of a reason at most."""


class DeniedError(Exception):
    """Why a stack was denied, of characters that any database of Heat's stores."""

    def __init__(self, reason: str) -> None:
        super().__init__("".join(one if one.isprintable() and one <= "\uffff" else "?" for one in reason[:ROOM]))


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
    """The types, for Heat."""
    return {"DatalogGate::Denial": Denial}
