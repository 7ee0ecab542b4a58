"""What a door makes of a decision (layer 6): in, the decision; out, whether to go on, why not, and what to tell."""

from __future__ import annotations

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.denial_text import printable, reason
from datalog_gate.decision_point.operation import REASON, Verdict


def verdict_of(decision: Decision) -> tuple[Verdict, str]:
    """What a door does with a decision, and why it stops. What hangs on what only Heat can read is not let through."""
    deferred = [
        violation for violation in decision.undetermined if violation.enforced and violation.on_unknown != "allow"
    ]
    unread = next((unknown for violation in deferred for unknown in violation.because if unknown.unread), None)
    if decision.outcome == "deny":
        return "denied", f"The policies deny this stack: {reason(decision, REASON - 40)}"
    if decision.outcome == "indeterminate":
        return "undecided", f"The policies could not be evaluated: {reason(decision, REASON - 40)}"
    if unread:
        return "unreadable", f"The policies can't judge what depends on {unread.expression} yet."
    return "allowed", ""


def warnings_of(decision: Decision) -> tuple[str, ...]:
    """What whoever asked is told: nothing of what is recorded only, or allowed where it is not known."""
    said = [("preexisting: " if violation.tolerated else "", violation) for violation in decision.violations]
    said += [("undetermined: ", violation) for violation in decision.undetermined if violation.on_unknown != "allow"]
    said += [
        (f"waived until {violation.waiver.expires} by {violation.waiver.id}: ", violation)
        for violation in decision.waived
        if violation.waiver
    ]
    shown = [(word, violation) for word, violation in said if "record" not in (violation.level, violation.mode)]
    return tuple(printable(f"{violation.policy}: {word}{violation.said}") for word, violation in shown)


def line(diagnostic: Diagnostic) -> str:
    """What is wrong, with its place and what to do."""
    place = f"{diagnostic.span}: " if diagnostic.span else ""
    suggestion = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    return f"{place}{diagnostic.message}{suggestion}"


def bounded(text: str) -> str:
    """The text as the one line that a reason is."""
    shown = printable(text)
    return shown if len(shown) <= REASON else f"{shown[: REASON - 3]}..."
