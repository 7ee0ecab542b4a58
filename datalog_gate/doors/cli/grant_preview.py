"""What services would be asked for (layer 6), for people to read: in, stacks and the decision on them; out, a line for
each grant that unlocks its service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datalog_gate.base.values import ResourceId, Unknown, show
from datalog_gate.decision.decision import Decision
from datalog_gate.decision_point.grant_requests import build_requests
from datalog_gate.services.contract import Request
from datalog_gate.stack.model import Data, Stack


def asks(stacks: Sequence[Stack], decision: Decision) -> tuple[str, ...]:
    """The lines, in the order of the decision's grants."""
    found: dict[str, Request] = {}
    for stack in stacks:
        found |= build_requests(stack, decision.grants, "")
    return tuple(_line(found[grant.grant.path]) for grant in decision.grants if grant.unlocked)


def _line(request: Request) -> str:
    """Resources by their names in the grant's own stack, without those that they hold."""
    home = f"{request.grant.rpartition('/')[0]}/"
    names = dict.fromkeys(part.id.removeprefix(home).partition("/")[0] for part in request.scope)
    options = _entries(request.options)
    return f"grant {request.grant} asks {request.service} for {', '.join(names)}" + (f" ({options})" if options else "")


def _entries(data: Mapping[str, Data]) -> str:
    return ", ".join(f"{name}: {_said(value)}" for name, value in data.items())


def _said(data: Data) -> str:
    match data:
        case None | Unknown() | ResourceId():  # which is a tuple, too
            return show(data)
        case Mapping():
            return f"{{{_entries(data)}}}"
        case tuple():
            return f"[{', '.join(map(_said, data))}]"
        case bool():
            return str(data).lower()
    return str(data)
