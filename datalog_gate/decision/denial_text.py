"""Why a decision is no plain yes, in one bounded line (layer 4): for doors with little room."""

from __future__ import annotations

from datalog_gate.decision.decision import Decision
from datalog_gate.decision.finding import Violation

SHORT = 6
"""How many characters of a decision's id a person sees."""


def reason(decision: Decision, limit: int) -> str:
    """Why the decision is no plain yes, in at most `limit` characters: the first findings, how many more, the id."""
    stopping = [violation for violation in decision.violations if violation.enforced]
    stopping += [
        violation for violation in decision.undetermined if violation.enforced and violation.on_unknown == "deny"
    ]
    said = [
        f"{violation.policy}: {violation.said}{_where(violation)}{f' ({violation.hint})' if violation.hint else ''}"
        for violation in stopping
    ]
    said += [f"{error.policy} could not be evaluated: {error.message}" for error in decision.errors if error.enforced]
    end = f" [decision {decision.id[:SHORT]}]"
    shown = ""
    for at, one in enumerate(said):
        rest = f"; and {len(said) - at - 1} more" if at + 1 < len(said) else ""
        longer = f"{shown}; {one}" if shown else one
        if shown and len(longer) + len(rest) + len(end) > limit:
            shown += f"; and {len(said) - at} more"
            break
        shown = longer
    room = limit - len(end)
    return printable(shown if len(shown) <= room else shown[: room - 3] + "...") + end


def _where(violation: Violation) -> str:
    """The place, or, as a request's template may be no text, the resource."""
    where = violation.place or (violation.resource and violation.resource.path)
    return f" at {where}" if where else ""


def printable(line: str) -> str:
    """The text as one line that a template's author can't write escapes or further lines into."""
    return "".join(char if char.isprintable() else "\ufffd" for char in line)
