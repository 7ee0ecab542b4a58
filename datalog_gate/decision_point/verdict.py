"""What a door makes of a decision (layer 6): in, the decision; out, whether to go on, why not, and what to tell."""

from __future__ import annotations

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.denial_text import printable, reason
from datalog_gate.decision_point.operation import REASON, Verdict


def verdict_of(decision: Decision) -> tuple[Verdict, str]:
    """What a door does with a decision, and why it stops. What hangs on what only Heat can read is not let through."""
    deferred = [one for one in decision.undetermined if one.enforced and one.on_unknown != "allow"]
    unread = next((unknown for one in deferred for unknown in one.because if unknown.unread), None)
    if decision.outcome == "deny":
        return "denied", f"The policies deny this stack: {reason(decision, REASON - 40)}"
    if decision.outcome == "indeterminate":
        return "undecided", f"The policies could not be evaluated: {reason(decision, REASON - 40)}"
    if unread:
        return "unreadable", f"The policies can't judge what depends on {unread.expression} yet."
    return "allowed", ""


def warnings_of(decision: Decision) -> tuple[str, ...]:
    """What whoever asked is told: nothing of what is recorded only, or allowed where it is not known."""
    said = [("preexisting: " if one.tolerated else "", one) for one in decision.violations]
    said += [("undetermined: ", one) for one in decision.undetermined if one.on_unknown != "allow"]
    said += [(f"waived until {one.waiver.expires} by {one.waiver.id}: ", one) for one in decision.waived if one.waiver]
    shown = [(word, one) for word, one in said if "record" not in (one.level, one.mode)]
    return tuple(printable(f"{one.policy}: {word}{one.said}") for word, one in shown)


def line(one: Diagnostic) -> str:
    """What is wrong, with its place and what to do."""
    return f"{f'{one.span}: ' if one.span else ''}{one.message}{f' ({one.suggestion})' if one.suggestion else ''}"


def bounded(text: str) -> str:
    """The text as the one line that a reason is."""
    shown = printable(text)
    return shown if len(shown) <= REASON else f"{shown[: REASON - 3]}..."
