"""The decision point (layer 6): what every door in a running service asks, with one policy for what may pass unjudged.

In: `Asked`. Out: `Answer`, whatever happens, and a record of it. Threads share a point.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from uuid import uuid4

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import DiagnosticsError, EngineError, InputError
from datalog_gate.base.gc import paused
from datalog_gate.decision.denial_text import printable
from datalog_gate.decision.finding import Grant
from datalog_gate.decision_point.break_glass import broken
from datalog_gate.decision_point.feasibility import objection
from datalog_gate.decision_point.log import SCHEMA, DecisionLog
from datalog_gate.decision_point.operation import CLOSED, Answer, Asked
from datalog_gate.decision_point.policy_reload import Rulebook, Ruleset
from datalog_gate.decision_point.record import NOT_ASKED, Judged, record
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.decision_point.service_broker import broker_of, outcomes_of
from datalog_gate.decision_point.settings import Settings, plugin_options
from datalog_gate.decision_point.stack_definition import Definition
from datalog_gate.decision_point.verdict import bounded, line, verdict_of, warnings_of
from datalog_gate.engine.budget import Budget
from datalog_gate.plugins.loader import load_chain
from datalog_gate.preflight.chain import Chain
from datalog_gate.preflight.plugin import Outcome, PreflightError, RefusedError
from datalog_gate.preflight.snapshot import snapshot
from datalog_gate.services.journal import JournalError
from datalog_gate.stack.model import Stack

LOG = logging.getLogger(__name__)
UNVERIFIED = "Nobody vouches for who asks: no authtoken came before the gate."
COUNTED = 300.0
"""Seconds between two lines of counters in the service's log."""


class Point:
    """The gate in a service. `broker` has the services for grants, if any are enabled. Errors when made: RulesError,
    InputError, ChainError, JournalError; ValueError for a setting."""

    def __init__(
        self,
        settings: Settings,
        entitlements: Entitlements,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.settings = settings
        self._entitlements, self._clock, self._now = entitlements, clock, now
        self._log = DecisionLog(settings.decision_log, settings.decision_log_bytes)
        self._lock = Lock()
        self._counters: Counter[str] = Counter()
        self._told = clock()
        self._chain = chain_of(settings)
        self.broker, self._outcomes = broker_of(settings), outcomes_of(settings)
        self._book = Rulebook(settings, clock, self._loaded, self._failed)

    @property
    def rules(self) -> Rules:
        """The rules in force."""
        return self._book.current().rules

    def counters(self) -> dict[str, int]:
        """How many answers of each verdict there were, how many operations went on though they could not be judged
        (opened) or though they were refused (broken_glass), how many reloads failed, and how many records were lost."""
        with self._lock:
            counted = dict(sorted(self._counters.items()))
        return {**counted, **({"records_lost": self._log.dropped} if self._log.dropped else {})}

    def judge(self, asked: Asked) -> Answer:
        """Whether the operation may go on. What a door's own `definition` raises but for InputError comes through."""
        if asked.action == "rollback":
            return self._note(asked, Answer("allowed", ""), why="a rollback is never judged")
        mode = self.settings.project_modes.get(asked.project, self.settings.mode)
        if mode == "off":
            return self._note(asked, Answer("allowed", ""), why="the gate is off")
        if asked.credentials is None:
            answer, why = self._lifted(asked, mode, Answer("undecided", _made_id(), UNVERIFIED))
            return self._note(asked, answer, None, why)
        if asked.project in self.settings.exempt_projects:
            return self._note(asked, Answer("allowed", ""), why="the project is exempt")
        if asked.credentials.get("user_id") in self.settings.exempt_users:
            return self._note(asked, Answer("allowed", ""), why="the user is exempt")
        ruleset = self._book.current()
        read = asked.action in CLOSED and (self._chain or self.broker)
        if read or any(asked.action in policy.on for policy in ruleset.rules.policies):
            answer, why, judged = self._opinion(asked, mode, ruleset, asked.credentials)
        elif self._chain:
            answer, why, judged = Answer("allowed", _made_id()), NOT_ASKED, None
        else:
            return Answer("allowed", "")
        if answer.allowed and judged and asked.action in CLOSED and asked.door != "plugin":
            answer, why = self._granted(asked, mode, answer, judged, why)
        if answer.allowed and self._chain and not asked.dry_run:
            answer, why = self._consulted(self._chain, asked, mode, answer, judged, why)
        return self._note(asked, answer, judged, why)

    def entitled(self, project: str, credentials: Mapping[str, object]) -> frozenset[str]:
        """The enabled services that the caller may grant."""
        return self._entitlements.services(project, credentials)

    @paused()
    def grants(
        self, definition: Definition, stack_name: str, action: str, caller: Mapping[str, object], services: Set[str]
    ) -> tuple[Stack, tuple[Grant, ...]]:
        """The stack, and which of its grants unlock one of the services that the caller may use. Errors: InputError,
        EngineError."""
        ruleset = self._book.current()
        stack = definition.stack(stack_name, ruleset.rules.catalogue)
        budget = Budget(facts=self.settings.budget_facts, seconds=self.settings.budget_seconds)
        decision = ruleset.rules.decide(
            stack,
            action,
            caller=caller,
            services=services,
            inventory=ruleset.inventory,
            now=self._now(),
            budget=budget,
        )
        return stack, decision.grants

    def finish(self, answer: Answer, outcome: Outcome, stack_id: str = "") -> None:
        """The host has answered: what it made of the operation, and the id of a stack that had none before. What
        becomes of one that is `accepted` is told by whoever settles claims, if there is a file for it."""
        ran, problems = answer.ran, tuple[str, ...]()
        if ran is None:
            return
        if stack_id:
            ran = replace(ran, snapshot=replace(ran.snapshot, stack_id=stack_id))
        if outcome == "accepted" and self._outcomes:
            try:
                self._outcomes.add(ran.snapshot, ran.plugins, answer.began)
            except JournalError as error:
                problems = (f"nobody will be told what becomes of the operation: {error}",)
                LOG.error("decision %s: %s", answer.id, problems[0])
        if problems := (*problems, *ran.after(outcome)):
            self._event("preflight", id=answer.id, problems=problems)

    def abandoned(self, stack_id: str, project: str, stack_name: str) -> None:
        """The host has let the stack go, and its resources stay. Errors: JournalError."""
        if self.broker:
            self.broker.journal.abandon(stack_id, project, stack_name)

    def flush(self) -> None:
        """Wait until the log is written, two seconds at most."""
        self._log.flush(2.0)

    def _opinion(
        self, asked: Asked, mode: str, ruleset: Ruleset, credentials: Mapping[str, object]
    ) -> tuple[Answer, str, Judged | None]:
        """The answer of the policies, why it passes what it would refuse, and what was judged if anything could be."""
        try:
            judged = self._decide(asked, mode, ruleset, credentials)
        except InputError as error:
            message = f"The stack can't be read: {'; '.join(map(line, error.diagnostics))}"
            return *self._lifted(asked, mode, Answer("unreadable", _made_id(), bounded(message))), None
        except EngineError as error:
            message = f"The policies could not be evaluated: {error}"
            return *self._lifted(asked, mode, Answer("undecided", _made_id(), bounded(message))), None
        decision = judged.decision
        verdict, said = verdict_of(decision)
        answer = Answer(verdict, decision.id, bounded(said), warnings_of(decision), decision)
        return *((answer, "") if answer.allowed else self._lifted(asked, mode, answer)), judged

    def _granted(self, asked: Asked, mode: str, answer: Answer, judged: Judged, why: str) -> tuple[Answer, str]:
        """The answer after all services that grants unlock: those of Heat's engine answer for themselves there."""
        found = objection(self.broker, asked, judged.stack, judged.decision.grants)
        if found is None:
            return answer, why
        verdict, said = found
        return self._lifted(asked, mode, replace(answer, verdict=verdict, reason=bounded(said)))

    def _consulted(
        self, chain: Chain, asked: Asked, mode: str, answer: Answer, judged: Judged | None, why: str
    ) -> tuple[Answer, str]:
        """The answer after all pre-operations, with what is to be told when the host has answered."""
        picture = snapshot(
            action=asked.action,
            stack_name=asked.stack_name,
            project=asked.project,
            decision_id=answer.id,
            stack=judged.stack if judged else None,
            stack_id=asked.stack_id,
            credentials=asked.credentials,
            request_id=asked.request_id,
        )
        try:
            return replace(answer, ran=chain.before(picture), began=self._now().timestamp()), why
        except PreflightError as error:
            if error.problems:
                self._event("preflight", id=answer.id, problems=error.problems)
            refused = isinstance(error, RefusedError)
            message = f"{error.plugin} {'refuses this' if refused else 'could not be consulted'}: {error.reason}"
            no = replace(answer, verdict="denied" if refused else "undecided", reason=bounded(message))
            return self._lifted(asked, mode, no)

    @paused()
    def _decide(self, asked: Asked, mode: str, ruleset: Ruleset, credentials: Mapping[str, object]) -> Judged:
        began = self._clock()
        definition = asked.definition()
        stack = definition.stack(asked.stack_name, ruleset.rules.catalogue)
        before = _before(asked, ruleset.rules)
        read = self._clock()
        now = self._now()
        services = self._entitlements.services(asked.project, credentials)
        caller = caller_of(credentials)
        budget = Budget(facts=self.settings.budget_facts, seconds=self.settings.budget_seconds)
        modes = dict(self.settings.policy_modes)
        decision = ruleset.rules.decide(
            stack,
            asked.action,
            against=before[1] if before else (),
            caller=caller,
            services=services,
            inventory=ruleset.inventory,
            waivers=ruleset.waivers,
            now=now,
            mode=mode,
            modes=modes,
            budget=budget,
        )
        inputs = {
            "stack_name": asked.stack_name,
            "action": asked.action,
            "caller": caller,
            "services": sorted(services),
            "now": now.isoformat(),
            "mode": mode,
            "modes": modes,
            "waivers": [waiver.to_json() for waiver in decision.waivers],
        }
        seconds = {"read": read - began, "decide": self._clock() - read}
        ages = {"inventory": (now - ruleset.written).total_seconds()} if ruleset.written else {}
        return Judged(ruleset.rules, definition, stack, before, decision, inputs, seconds, ages)

    def _lifted(self, asked: Asked, mode: str, answer: Answer) -> tuple[Answer, str]:
        """The answer, unless it must not stop the operation, and then why: in a mode that stops nothing, where a broken
        glass lifts it, or where the gate that can't judge has to let others than `CLOSED` ones go on."""
        if mode != "enforce":
            lifted = f"the mode is {mode}"
        elif answer.verdict != "denied" and asked.action not in CLOSED:
            lifted = f"{asked.action} goes on where it can't be judged"
            self._count("opened")
        elif (glass := broken(self.settings.break_glass, self._now())) and self._entitlements.may_break_glass(
            asked.project, asked.credentials or {}
        ):
            lifted = f"the glass is broken until {glass.until.isoformat()}: {glass.why}"
            self._count("broken_glass")
            self._event("broken_glass", id=answer.id, until=glass.until.isoformat(), why=glass.why)
        else:
            return answer, ""
        LOG.warning("decision %s lets pass what it refuses, as %s: %s", answer.id, lifted, answer.reason)
        passed = replace(answer, verdict="allowed", reason="", warnings=(answer.reason, *answer.warnings))
        return passed, f"{lifted}: {answer.reason}"

    def _note(self, asked: Asked, answer: Answer, judged: Judged | None = None, why: str = "") -> Answer:
        """Count and record the answer, and tell the operator of what policies want told."""
        self._count(answer.verdict)
        name = printable(asked.stack_name)
        if answer.verdict == "undecided":
            LOG.error("no decision on %s of %s: %s", asked.action, name, answer.reason)
        if judged:
            notify = {policy.id: policy.lists.get("notify", ()) for policy in judged.rules.policies}
            for violation in (*judged.decision.violations, *judged.decision.undetermined):
                if to := notify.get(violation.policy):
                    told = printable(violation.said)
                    LOG.warning("decision %s: %s: %s (notify %s)", answer.id, violation.policy, told, ", ".join(to))
        LOG.info("decision %s on %s of %s: %s", answer.id, asked.action, name, answer.verdict)
        if self.settings.decision_log:
            self._log.write(record(asked, answer, judged, why, self._now()))
        return answer

    def _count(self, what: str) -> None:
        with self._lock:
            self._counters[what] += 1
            due = self._clock() - self._told >= COUNTED
            if due:
                self._told = self._clock()
        if due:
            LOG.info("counters: %s", ", ".join(f"{name} {count}" for name, count in self.counters().items()))

    def _loaded(self, ruleset: Ruleset) -> None:
        rules = ruleset.rules
        known = {policy.id for policy in rules.policies}
        for one in sorted(self.settings.policy_modes.keys() - known):
            LOG.warning("policy_modes names %s, which is no policy of the rules", one)
        LOG.info("rules %s are in force: %s policies", rules.digest, len(known))
        self._event("loaded", rules=rules.digest, policies=len(known))

    def _failed(self, error: DiagnosticsError) -> None:
        self._count("reload_failures")
        LOG.error("the rules that changed don't load, those before stay in force:\n%s", error)
        self._event("reload_failed", diagnostics=[diagnostic.to_json() for diagnostic in error.diagnostics])

    def _event(self, kind: str, **more: object) -> None:
        where = {"time": self._now().isoformat(), "host": socket.gethostname(), "process": os.getpid()}
        self._log.write({"schema": SCHEMA, "kind": kind, **where, **more})


_SHARED: list[Point] = []
_MAKING = Lock()


def shared() -> Point:
    """The point of this process, by the configuration that its host has read. Errors: as `Point` has them."""
    from oslo_config import cfg

    with _MAKING:  # first callers come from several threads, and two points would tell two stories
        if not _SHARED:
            _SHARED.append(make(cfg.CONF, {}))
    return _SHARED[0]


def make(conf: Any, given: Mapping[str, str]) -> Point:
    """A point by a configuration, and over it what a paste section gives. Errors: as `shared`."""
    from datalog_gate.decision_point.config_options import settings

    chosen = settings(conf, given)
    return Point(chosen, Entitlements(conf, chosen.services))


def _before(asked: Asked, rules: Rules) -> tuple[Definition, Stack] | None:
    """What a stack that is changed was made of, if a policy judges its change. Errors: InputError for what can't be
    read, and where a policy that denies reads it and the door can't say; what the door raises."""
    if asked.action not in CHANGING or not any(asked.action in policy.on for policy in rules.policies):
        return None
    if asked.against is None:
        if rules.compares(asked.action):
            message = "policies judge what this changes, and nothing here says what the stack was"
            raise InputError([Diagnostic("unsupported", message, None, "use the orchestration API")])
        return None
    try:
        definition = asked.against()
        return definition, definition.stack(asked.stack_name, rules.catalogue, undeclared=True)
    except InputError as error:
        raise InputError(
            [replace(diagnostic, message=f"as it was: {diagnostic.message}") for diagnostic in error.diagnostics]
        ) from None


def caller_of(credentials: Mapping[str, object]) -> dict[str, object]:
    """The caller that rules see, of oslo.policy's credentials."""
    roles = credentials.get("roles")
    return {
        "user": credentials.get("user_id"),
        "project": credentials.get("project_id"),
        "domain": credentials.get("project_domain_id") or credentials.get("domain_id"),
        "roles": [str(role) for role in roles] if isinstance(roles, list | tuple) else [],
    }


def chain_of(settings: Settings) -> Chain | None:
    """The plugins with their options, if there are any. Errors: ChainError, ValueError."""
    given = plugin_options("preflight_option", settings.preflight_option)
    return load_chain(settings.preflight, given) if settings.preflight or given else None


def _made_id() -> str:
    """An id for what was logged where there is no decision."""
    return uuid4().hex[:16]
