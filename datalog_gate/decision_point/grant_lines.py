"""What unlocked grants request from their services, as lines of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datalog_gate.base.values import ResourceId, Unknown, show
from datalog_gate.decision.decision import Decision
from datalog_gate.decision_point.grant_requests import build_requests
from datalog_gate.services.contract import Request
from datalog_gate.stack.model import Data, Stack


def format_grants(stacks: Sequence[Stack], decision: Decision) -> tuple[str, ...]:
    """Format what unlocked grants request from their services, with the resources of the grant's own stack."""
    requests: dict[str, Request] = {}
    for stack in stacks:
        requests |= build_requests(stack, decision.grants, "")
    lines = []
    for grant in decision.grants:
        if grant.unlocked:
            request = requests[grant.grant.path]
            home = f"{grant.grant.stack}/"
            names = dict.fromkeys(part.id.removeprefix(home).partition("/")[0] for part in request.scope)
            options = f" ({_format_map(request.options)})" if request.options else ""
            lines.append(f"grant {request.grant} asks {request.service} for {', '.join(names)}{options}")
    return tuple(lines)


def _format_map(values: Mapping[str, Data]) -> str:
    return ", ".join(f"{name}: {_format_value(value)}" for name, value in values.items())


def _format_value(value: Data) -> str:
    match value:
        case None | Unknown() | ResourceId():  # a ResourceId is a tuple too
            return show(value)
        case Mapping():
            return f"{{{_format_map(value)}}}"
        case tuple():
            return f"[{', '.join(map(_format_value, value))}]"
        case bool():
            return str(value).lower()
    return str(value)
