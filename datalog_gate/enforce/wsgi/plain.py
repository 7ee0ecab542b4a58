"""A judge that has rules and nothing around them (layer 6), until the decision point stands in its place."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass

from datalog_gate.analysis.check import matches
from datalog_gate.api import Rules
from datalog_gate.collection import paused
from datalog_gate.diagnostics import Diagnostic
from datalog_gate.enforce.render import printable, reason
from datalog_gate.errors import EngineError, InputError, RulesError
from datalog_gate.gate.decision import Decision
from datalog_gate.point.asked import CLOSED, REASON, Answer, Asked

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plain:
    """The rules; `services` are enabled for everybody."""

    rules: Rules
    services: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        _check_answerable(self.rules)

    @paused()
    def judge(self, asked: Asked) -> Answer:
        """As `Judge.judge`."""
        if not any(asked.action in policy.on for policy in self.rules.policies) and asked.action not in CLOSED:
            return Answer("allowed", secrets.token_hex(16))
        try:
            stack = asked.definition().stack(asked.stack_name, self.rules.catalogue)
            decision = self.rules.decide(stack, action=asked.action, services=self.services)
        except InputError as error:
            return _open(asked, Answer("unreadable", secrets.token_hex(16), _shown(error)))
        except EngineError as error:
            return _open(asked, Answer("undecided", secrets.token_hex(16), str(error)))
        findings = [one for one in decision.undetermined if one.enforced and one.on_unknown != "allow"]
        if unread := [unknown for one in findings for unknown in one.because if unknown.unread]:
            said = f"the policies can't judge what depends on {unread[0].expression} yet"
            return _open(asked, Answer("unreadable", decision.id, said))
        if decision.outcome == "deny":
            return Answer("denied", decision.id, reason(decision, REASON), decision=decision)
        if decision.outcome == "indeterminate":
            return _open(asked, Answer("undecided", decision.id, reason(decision, REASON), decision=decision))
        return Answer("allowed", decision.id, warnings=_warnings(decision), decision=decision)

    def finish(self, answer: Answer, accepted: bool) -> None:
        """As `Judge.finish`."""


def _open(asked: Asked, answer: Answer) -> Answer:
    if asked.action in CLOSED:
        return answer
    LOG.error("decision %s: %s goes on undecided: %s", answer.id, asked.action, answer.reason)
    return Answer("allowed", answer.id, decision=answer.decision)


def _warnings(decision: Decision) -> tuple[str, ...]:
    said = [f"{one.policy}: {one.message}" for one in decision.violations if one.level != "record"]
    return (*said, *(f"{one.policy}: undetermined: {one.message}" for one in decision.undetermined))


def _shown(error: InputError) -> str:
    def line(one: Diagnostic) -> str:
        return (f"{one.span}: " if one.span else "") + one.message + (f" ({one.suggestion})" if one.suggestion else "")

    return printable("; ".join(map(line, error.diagnostics)))


def _check_answerable(rules: Rules) -> None:
    """Rules that ask for a caller would be judged as if nobody asked."""
    found = [
        Diagnostic("unsupported", f"{match.relation} is not known at this door yet", match.span)
        for stratum in rules.program.strata
        for rule in stratum.rules
        for match in matches(rule.body)
        if match.relation in ("gate:caller", "gate:role")
    ]
    if found:
        raise RulesError(found, rules.sources)
