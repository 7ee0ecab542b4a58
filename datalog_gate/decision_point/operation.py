"""An operation on a stack, and the decision point's answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Literal

from datalog_gate.base.diagnostics import Diagnostic, printable, shorten
from datalog_gate.base.expression import CONTENT
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Unknown
from datalog_gate.decision.decision import Decision, format_denial
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.stack.model import Stack

Door = Literal["api", "cfn", "plugin", "engine", "server"]
Verdict = Literal["allowed", "denied", "unreadable", "undecided"]
CLOSED = frozenset({"create", "update", "adopt", "restore"})
"""The actions that fail closed: they stop if the gate cannot decide. Others continue, with an alarm."""
REASON = 2000
"""The maximum length of a reason. The first 255 characters must suffice (heat/db/models.py:230)."""

WARNINGS = 20
"""The maximum number of warnings that a user gets one by one: a header holds no more, and the log has a line for
each."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on a stack. Each door creates it from the request of its host."""

    door: Door
    action: str
    stack_name: str
    project: str
    definition: Callable[[], StackDefinition]
    """Returns the definition of the stack; called only if a policy or service needs it. An InputError is for the user;
    other exceptions go back to the door."""
    credentials: Mapping[str, object] | None
    """The credentials of oslo.policy (user_id, project_id, roles, ...); None if the host cannot verify them."""
    stack_id: str = ""
    request_id: str = ""
    dry_run: bool = False
    """A dry run reserves nothing."""
    against: Callable[[], StackDefinition] | None = None
    """Returns the definition before a change; None if the door does not know it."""
    tolerant: bool = True
    """Whether a violation that existed before the change stops nothing."""
    compare: Callable[[Stack], str | None] | None = None
    """Returns the first difference between what was judged and what the host would build, or None."""
    asks_services: bool = True
    """Whether services for every stack are asked. They are not if another operation began this one, since they were
    asked about that."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether an operation may go on, and why not."""

    verdict: Verdict
    id: str
    """The id of the decision, or of the log record where nothing was decided."""
    reason: str = ""
    """One plain line of at most `REASON` characters; empty if the operation is allowed."""
    warnings: tuple[str, ...] = ()
    """Messages for the user."""
    decision: Decision | None = None
    names_decision: bool = field(default=False, repr=False)
    """Whether the reason ends with the id of the decision."""
    held: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The uuids of the claims of services for every stack, which must learn the outcome."""

    @property
    def allowed(self) -> bool:
        """Whether the operation may go on."""
        return self.verdict == "allowed"

    @classmethod
    def of(cls, decision: Decision) -> Answer:
        """The answer for a decision."""
        verdict, reason = _compute_verdict(decision)
        named = decision.outcome in ("deny", "indeterminate")
        warnings = format_warnings(decision)
        return cls(verdict, decision.id, truncate_reason(reason), warnings, decision, names_decision=named)


def _compute_verdict(decision: Decision) -> tuple[Verdict, str]:
    """The verdict and its reason. A violation that depends on a value only Heat can read is refused."""
    if decision.outcome == "deny":
        return "denied", f"The policies deny this stack: {format_denial(decision, REASON - 40)}"
    if decision.outcome == "indeterminate":
        blamed = all(error.blames_stack for error in decision.errors if error.enforced)
        begin = "The policies can't judge this stack" if blamed else "The policies could not be evaluated"
        return "unreadable" if blamed else "undecided", f"{begin}: {format_denial(decision, REASON - 40)}"
    for violation in decision.undetermined:
        if violation.enforced and violation.on_unknown != "allow":
            for unknown in violation.because:
                if unknown.unread:
                    advice = _advise(unknown, decision.action)
                    return "unreadable", f"The policies can't judge what depends on {unknown.expression}: {advice}"
    return "allowed", ""


def _advise(unknown: Unknown, action: str) -> str:
    """What to write instead of values that Heat knows and the gate does not."""
    while inner := next((part for part in unknown.of if part.unread and part != unknown), None):
        unknown = inner
    match unknown.source.function, unknown.source.arguments:
        case "get_param" | "Ref", str(name) if "::" in name:
            return f"do not use {name} here, which only Heat knows"
        case "get_param" | "Ref", name if action in ("create", "update"):
            return f"send the value of the parameter {name} with the request, since Heat does not show it"
        case "get_param" | "Ref", name:
            return f"update the stack instead, with the value of the parameter {name}, since Heat does not show it"
        case "yaql", _:
            return "write its result, or use other functions"
        case function, _ if function == CONTENT:
            return "send that template among the files of the request, and name it as the type"
    return "write it out in the template"


def format_warnings(decision: Decision) -> tuple[str, ...]:
    """Format the findings for the user, except recorded ones and undetermined ones that are allowed. If there are more
    than `WARNINGS`, the first of each policy and kind, and the number of others."""
    shown = [("preexisting: " if violation.tolerated else "", violation) for violation in decision.violations]
    shown += [("undetermined: ", violation) for violation in decision.undetermined if violation.on_unknown != "allow"]
    shown += [
        (f"waived until {violation.waiver.expires} by {violation.waiver.id}: ", violation)
        for violation in decision.waived
        if violation.waiver
    ]
    warnings: dict[tuple[str, str], list[str]] = {}
    for label, violation in shown:
        if "record" not in (violation.level, violation.mode):
            text = printable(f"{violation.policy}: {label}{violation.full_message}")
            warnings.setdefault((label, violation.policy), []).append(text)
    if sum(map(len, warnings.values())) <= WARNINGS:
        return tuple(text for texts in warnings.values() for text in texts)
    return tuple(f"{texts[0]}; and {len(texts) - 1} more" if texts[1:] else texts[0] for texts in warnings.values())


def format_diagnostic(diagnostic: Diagnostic) -> str:
    """Format a diagnostic as one line: place, message, suggestion."""
    place = f"{diagnostic.span.readable}: " if diagnostic.span else ""
    suggestion = f" ({diagnostic.suggestion})" if diagnostic.suggestion else ""
    return f"{place}{diagnostic.message}{suggestion}"


def refuse(verdict: Verdict, message: str, answer: Answer | None = None) -> Answer:
    """Refuse an operation that was allowed, or not decided."""
    answer = answer or Answer("allowed", new_id())
    return replace(answer, verdict=verdict, reason=truncate_reason(message), names_decision=False)


def truncate_reason(text: str, limit: int = REASON) -> str:
    """Make the text a single line of at most so many characters."""
    return shorten(printable(text), limit)


def new_id() -> str:
    """An id for an answer without a decision."""
    return secrets.token_hex(8)
