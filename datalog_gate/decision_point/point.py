"""The decision point, which all doors in a running service ask."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from datalog_gate import __version__
from datalog_gate.analysis.policy import CHANGING
from datalog_gate.api import DecisionInputs, Rules
from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import DiagnosticsError, EngineError, InputError
from datalog_gate.base.gc import paused
from datalog_gate.base.records import replace
from datalog_gate.decision.decision import Decision, Grant
from datalog_gate.decision_point.break_glass import read_break_glass
from datalog_gate.decision_point.config_options import OptionFiles, build_settings
from datalog_gate.decision_point.enabled_plugins import create_broker, list_grantable
from datalog_gate.decision_point.engine_start import LIVE, PROBE
from datalog_gate.decision_point.grant_requests import build_operation_request, find_objection
from datalog_gate.decision_point.log import NOT_JUDGED, DecisionLog, DecisionTrace, build_event, build_record
from datalog_gate.decision_point.metrics import Labels, count_answer, count_outcome, measure_store
from datalog_gate.decision_point.metrics_port import MetricsPort
from datalog_gate.decision_point.operation import CLOSED, Answer, Operation, format_diagnostic, new_id, refuse
from datalog_gate.decision_point.policy_reload import InForce, PolicyReloader, Source
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.decision_point.settings import LIVE_OPTIONS, Settings
from datalog_gate.engine.budget import Budget
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.plugins.plugin_errors import PluginError, RefusedError
from datalog_gate.services.broker import Broker
from datalog_gate.services.consultation import Ending, consult, finish
from datalog_gate.services.journal_claim import JournalError
from datalog_gate.stack.model import Stack

LOG = logging.getLogger(__name__)
UNVERIFIED = "The caller is not authenticated: no authtoken comes before the gate."
_SOURCES: Mapping[Source, str] = {"rules": "rules", "options": "options", "policy_file": "rules of oslo.policy"}
"""The names of reloaded files in the service's log."""


class DecisionPoint:
    """The gate in a service, shared by threads. It always answers, and logs each answer. Errors on creation:
    RulesError, InputError, PluginLoadError, JournalError, ValueError."""

    def __init__(
        self,
        settings: Settings,
        entitlements: Entitlements,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        options: OptionFiles | None = None,
    ) -> None:
        self.entitlements, self._clock, self._now = entitlements, clock, now
        self._log = DecisionLog(settings.decision_log, settings.decision_log_bytes)
        self.broker = create_broker(settings)
        """The broker of the enabled services; None if none are enabled."""
        self.metrics = MetricsPort(
            settings.metrics_host,
            settings.metrics_port,
            settings.metrics_folder,
            self._measure,
            lambda: measure_store(settings.store, self._now().timestamp()),
        )
        """The metrics of this process, which other processes see if the options say so."""
        self._loaded_at = 0.0
        self._counted = Counter[str]()
        self.reloader = PolicyReloader(settings, clock, self._changed, self._failed, options, entitlements)

    @property
    def settings(self) -> Settings:
        """The options in force."""
        return self.reloader.in_force.settings

    def current(self) -> InForce:
        """The options and rules in force, reloaded if their files have changed."""
        return self.reloader.current()

    def judge(self, operation: Operation) -> Answer:
        """Decide whether the operation may go on. An exception of its `definition`, except InputError, is raised."""
        self.metrics.start()
        began = self._clock()
        answer = self._judge(operation)
        count_answer(self.metrics.numbers, operation, answer, self._clock() - began)
        return answer

    def count_failure(self, door: str, action: str) -> None:
        """Count that the gate failed to answer."""
        count_outcome(self.metrics.numbers, "failed", door, action)

    def _judge(self, operation: Operation) -> Answer:
        if operation.door in ("engine", "plugin") and (operation.action, operation.stack_name) == ("create", PROBE):
            return self._note(operation, refuse("denied", LIVE))
        if operation.action == "rollback":
            return self._note(operation, Answer("allowed", ""), why="a request for a rollback is not judged")
        in_force = self.current()
        settings, ruleset = in_force
        mode = settings.project_modes.get(operation.project, settings.mode)
        if mode == "off":
            return self._note(operation, Answer("allowed", ""), why="the gate is off")
        if operation.credentials is None:
            answer, why = self._lift(operation, mode, refuse("undecided", UNVERIFIED))
            return self._note(operation, answer, None, why)
        if operation.project in settings.exempt_projects:
            return self._note(operation, Answer("allowed", ""), why="the project is exempt")
        if operation.credentials.get("user_id") in settings.exempt_users:
            return self._note(operation, Answer("allowed", ""), why="the user is exempt")
        needs_stack = operation.action in CLOSED and self.broker
        if needs_stack or any(operation.action in policy.on for policy in ruleset.rules.policies):
            answer, trace = self._ask_policies(operation, mode, in_force, operation.credentials)
            answer, why = self._lift(operation, mode, answer)
        elif self.broker and self.broker.consults(operation.action):
            answer, why, trace = Answer("allowed", new_id()), NOT_JUDGED, None
        else:
            return Answer("allowed", "")
        if answer.allowed and trace and operation.compare and (difference := operation.compare(trace.stack)):
            refusal = refuse("unreadable", f"The gate and Heat differ on what this stack is: {difference}", answer)
            LOG.error("decision %s on %s of %s: %s", answer.id, operation.action, operation.stack_name, refusal.reason)
            answer, why = self._lift(operation, mode, refusal)
        if answer.allowed and trace and operation.action in CLOSED and operation.door in ("api", "cfn"):
            answer, why = self._lift(operation, mode, self._check_grants(operation, answer, trace), why)
        if answer.allowed and self.broker and not operation.dry_run and operation.asks_services:
            answer, why = self._lift(operation, mode, self._consult(self.broker, operation, answer, trace), why)
        return self._note(operation, answer, trace, why)

    def allows(self, operation: Operation) -> bool:
        """Whether the policies allow what an operation leads to, and it can be read. It is neither counted nor logged.
        Errors: EngineError."""
        caller = build_caller(operation.credentials or {})
        try:
            trace = self._decide(operation, "enforce", self.current(), caller)
        except InputError:
            return False
        return Answer.of(trace.decision).allowed

    def decide(self, operation: Operation, caller: Mapping[str, object] | None, explain: bool = False) -> DecisionTrace:
        """Judge an operation by the policies in force, without side effects. Nothing is reserved, no plugin is asked,
        and exemptions do not count. The answer is counted and logged as `judge` does. A gate that is off judges in mode
        `record`. Errors: InputError, EngineError."""
        self.metrics.start()
        began = self._clock()
        in_force = self.current()
        mode = in_force.settings.project_modes.get(operation.project, in_force.settings.mode)
        mode = "record" if mode == "off" else mode
        trace = self._decide(operation, mode, in_force, caller, explain)
        answer = self._note(operation, Answer.of(trace.decision), trace)
        count_answer(self.metrics.numbers, operation, answer, self._clock() - began)
        return trace

    @paused()
    def decide_grants(
        self,
        definition: StackDefinition,
        stack_name: str,
        action: str,
        caller: Mapping[str, object],
        services: Set[str],
    ) -> tuple[Stack, tuple[Grant, ...]]:
        """Decide which grants of a stack unlock a service that the caller may use. Errors: InputError, EngineError."""
        settings, ruleset = self.current()
        stack = definition.stack(stack_name, ruleset.rules.catalogue)
        decision = ruleset.rules.decide(
            stack,
            action,
            caller=caller,
            services=services,
            inventory=ruleset.inventory,
            now=self._now(),
            budget=_budget(settings),
        )
        return stack, decision.grants

    def finish(self, answer: Answer, ending: Ending, stack_id: str = "") -> None:
        """Tell the services for every stack how an allowed operation went on. `stack_id` is the id of a new stack.
        `datalog-gate services reconcile` finds out later how an `accepted` operation ended."""
        if self.broker and answer.held:
            finish(self.broker, answer.held, ending, stack_id)

    def abandon(self, stack_id: str, project: str, stack_name: str) -> None:
        """Record that the host abandoned the stack, whose resources stay. Errors: JournalError."""
        if self.broker:
            self.broker.journal.abandon(stack_id, project, stack_name)

    def flush(self) -> None:
        """Wait until the log is written, two seconds at most."""
        self._log.flush(2.0)

    def _ask_policies(
        self, operation: Operation, mode: str, in_force: InForce, credentials: Mapping[str, object]
    ) -> tuple[Answer, DecisionTrace | None]:
        """The answer of the policies, and the trace if the stack could be judged."""
        try:
            trace = self._decide(operation, mode, in_force, build_caller(credentials))
        except InputError as error:
            problems = "; ".join(map(format_diagnostic, error.diagnostics))
            return refuse("unreadable", f"The stack can't be read: {problems}"), None
        except EngineError as error:
            return refuse("undecided", f"The policies could not be evaluated: {error}"), None
        return Answer.of(trace.decision), trace

    @paused()
    def _decide(
        self,
        operation: Operation,
        mode: str,
        in_force: InForce,
        caller: Mapping[str, object] | None,
        explain: bool = False,
    ) -> DecisionTrace:
        settings, ruleset = in_force
        began = self._clock()
        definition = operation.definition()
        stack = definition.stack(operation.stack_name, ruleset.rules.catalogue)
        before = _read_before(operation, ruleset.rules)
        read = self._clock()
        given: DecisionInputs = {
            "against": before[1] if before else (),
            "tolerant": operation.tolerant,
            "caller": caller,
            "services": self.entitlements.services(operation.project, operation.credentials or {}),
            "inventory": ruleset.inventory,
            "waivers": ruleset.waivers,
            "now": self._now(),
            "mode": mode,
            "modes": dict(settings.policy_modes),
            "budget": _budget(settings),
            "explain": explain,
        }
        decision = ruleset.rules.decide(stack, operation.action, **given)
        return DecisionTrace(
            rules=ruleset.rules,
            definition=definition,
            stack=stack,
            before=before,
            decision=decision,
            inputs=_describe_inputs(operation, given, decision),
            seconds={"read": read - began, "decide": self._clock() - read},
            ages=ruleset.ages(decision.now),
        )

    def _check_grants(self, operation: Operation, answer: Answer, trace: DecisionTrace) -> Answer:
        """The answer after asking the services of the grants. In Heat's engine the grant resources ask them instead."""
        objection = find_objection(self.broker, operation, trace.stack, trace.decision.grants)
        return refuse(*objection, answer) if objection else answer

    def _consult(self, broker: Broker, operation: Operation, answer: Answer, trace: DecisionTrace | None) -> Answer:
        """The answer after the services for every stack, with their claims."""
        request = build_operation_request(operation, answer.id, trace.stack if trace else None)
        try:
            return replace(answer, held=consult(broker, request))
        except RefusedError as error:
            return refuse("denied", f"{error.plugin} refuses this: {error.reason}", answer)
        except PluginError as error:
            return refuse("undecided", f"{error.plugin} could not be consulted: {error.reason}", answer)
        except JournalError as error:
            return refuse("undecided", f"the services could not be consulted: {error}", answer)

    def _lift(self, operation: Operation, mode: str, answer: Answer, before: str = "") -> tuple[Answer, str]:
        """Lift a refusal that must not stop the operation, and say why; an allowed answer is returned as it is. A
        refusal is lifted in a mode that refuses nothing, by break-glass, and if the gate cannot judge an action that
        does not fail closed."""
        if answer.allowed:
            return answer, before
        if mode != "enforce":
            why, by = f"the mode is {mode}", "mode"
        elif answer.verdict != "denied" and operation.action not in CLOSED:
            why, by = f"{operation.action} is allowed when it can't be judged", "action"
        elif (
            override := read_break_glass(self.settings.break_glass, self._now())
        ) and self.entitlements.may_break_glass(operation.project, operation.credentials or {}):
            until, by = override.until.isoformat(), "break_glass"
            why = f"the break-glass file allows it until {until}: {override.why}"
            self._event("broken_glass", id=answer.id, until=until, why=override.why)
        else:
            return answer, ""
        self.metrics.numbers.count("datalog_gate_lifted_total", by)
        LOG.warning("decision %s refuses, but the request passes, since %s: %s", answer.id, why, answer.reason)
        allowed = replace(answer, verdict="allowed", reason="", warnings=(answer.reason, *answer.warnings))
        return allowed, f"{why}: {answer.reason}"

    def _note(self, operation: Operation, answer: Answer, trace: DecisionTrace | None = None, why: str = "") -> Answer:
        """Log the answer, and notify the operator if a policy says so."""
        stack_name = printable(operation.stack_name)
        if answer.verdict == "undecided":
            LOG.error("no decision on %s of %s: %s", operation.action, stack_name, answer.reason)
        if trace:
            notify = {policy.id: policy.lists.get("notify", ()) for policy in trace.rules.policies}
            for violation in (*trace.decision.violations, *trace.decision.undetermined):
                message = printable(violation.full_message)
                for policy in violation.policies:
                    if recipients := notify.get(policy):
                        LOG.warning(
                            "decision %s: %s: %s (notify %s)", answer.id, policy, message, ", ".join(recipients)
                        )
        LOG.info("decision %s on %s of %s: %s", answer.id, operation.action, stack_name, answer.verdict)
        if self.settings.decision_log:
            self._log.write(build_record(operation, answer, trace, why, self._now()))
        return answer

    def _changed(self, before: InForce | None, after: InForce) -> None:
        """Log the options and rules that are now in force."""
        settings, rules = after.settings, after.ruleset.rules
        self._loaded_at = self._now().timestamp()
        known = {policy.id for policy in rules.policies}
        for policy in sorted(settings.policy_modes.keys() - known):
            LOG.warning("policy_modes names %s, which is not a policy of the rules", policy)
        if before and (
            names := [name for name in LIVE_OPTIONS if getattr(before.settings, name) != getattr(settings, name)]
        ):
            LOG.info(
                "changed options are in force: %s", ", ".join(f"{name} {getattr(settings, name)}" for name in names)
            )
            self._event("options_loaded", options={name: getattr(settings, name) for name in names})
        for warning in after.ruleset.inventory.warnings:
            if not before or warning not in before.ruleset.inventory.warnings:
                LOG.warning("%s", format_diagnostic(warning))
        if before is None or before.ruleset is not after.ruleset:
            LOG.info("rules %s are in force: %s policies", rules.digest, len(known))
            self._event("loaded", rules=rules.digest, policies=len(known))

    def _failed(self, source: Source, error: DiagnosticsError) -> None:
        self.metrics.numbers.count("datalog_gate_load_failures_total", source)
        LOG.error("the changed %s can't be loaded, so the previous ones stay in force:\n%s", _SOURCES[source], error)
        kind = "reload_failed" if source == "rules" else f"{source}_failed"
        self._event(kind, diagnostics=[diagnostic.to_json() for diagnostic in error.diagnostics])

    def _measure(self) -> None:
        """Set the gauges of this process. Changed files are reloaded even if nobody asks for a decision."""
        numbers = self.metrics.numbers
        ruleset = self.current().ruleset
        numbers.set("datalog_gate_processes", 1.0, __version__, ruleset.rules.digest[:12])
        numbers.set("datalog_gate_rules_loaded_timestamp_seconds", self._loaded_at)
        if ruleset.written:
            numbers.set("datalog_gate_inventory_timestamp_seconds", ruleset.written.timestamp())
        readings = ruleset.inventory.readings.items()
        times: dict[Labels, float] = {(table,): reading.read.timestamp() for table, reading in readings if reading.read}
        numbers.set_all("datalog_gate_inventory_table_timestamp_seconds", times)
        totals = {"datalog_gate_log_records_lost_total": self._log.dropped}
        if self.broker:
            from datalog_gate.store.transaction import Store

            totals["datalog_gate_store_errors_total"] = Store.failures
        for name, total in totals.items():
            numbers.count(name, number=max(total - self._counted[name], 0))  # a fork begins at zero
            self._counted[name] = total

    def _event(self, kind: str, **fields: object) -> None:
        self._log.write(build_event(kind, self._now(), **fields))


_SHARED: list[DecisionPoint] = []
_CREATION = Lock()


def shared_point() -> DecisionPoint:
    """The decision point of this process, by the configuration of its host. Errors: as `DecisionPoint`."""
    from oslo_config import cfg

    with _CREATION:  # threads may come at the same time, and there must be only one decision point
        if not _SHARED:
            _SHARED.append(create_point(cfg.CONF, {}))
    return _SHARED[0]


def count_failure(door: str, action: str) -> None:
    """Count a failure of the gate to answer, if this process has a decision point."""
    if _SHARED:
        _SHARED[0].count_failure(door, action)


def create_point(conf: Any, paste_options: Mapping[str, str], defaults: Sequence[Any] = ()) -> DecisionPoint:
    """Create a decision point from a configuration; options of a paste section override it. `defaults` are the
    oslo.policy rules of its door."""
    settings = build_settings(conf, paste_options)
    entitlements = Entitlements(conf, list_grantable(settings), defaults)
    return DecisionPoint(settings, entitlements, options=OptionFiles(conf, paste_options))


def build_caller(credentials: Mapping[str, object]) -> dict[str, object]:
    """Build the caller for rules from the credentials of oslo.policy."""
    roles = credentials.get("roles")
    return {
        "user": credentials.get("user_id"),
        "project": credentials.get("project_id"),
        "domain": credentials.get("project_domain_id") or credentials.get("domain_id"),
        "roles": [str(role) for role in roles] if isinstance(roles, list | tuple) else [],
    }


def _describe_inputs(operation: Operation, given: DecisionInputs, decision: Decision) -> dict[str, object]:
    """The inputs of a decision besides stacks, as JSON data for the log."""
    return {
        "stack_name": operation.stack_name,
        "action": operation.action,
        "caller": given["caller"],
        "services": sorted(given["services"]),
        "now": decision.now.isoformat(),
        "mode": given["mode"],
        "modes": given["modes"],
        "waivers": [waiver.to_json() for waiver in decision.waivers],
    }


def _budget(settings: Settings) -> Budget:
    return Budget(facts=settings.budget_facts, seconds=settings.budget_seconds)


def _read_before(operation: Operation, rules: Rules) -> tuple[StackDefinition, Stack] | None:
    """Read the stack before a change, if a policy needs it. Errors: InputError, also if a denying policy lacks it."""
    if operation.action not in CHANGING or not any(operation.action in policy.on for policy in rules.policies):
        return None
    if operation.against is None:
        if rules.compares(operation.action):
            message = (
                "policies judge the changes of this operation, but the state of the stack before it is not known here"
            )
            raise InputError.of(message, "unsupported", "use the orchestration API")
        return None
    try:
        definition = operation.against()
        return definition, definition.stack(operation.stack_name, rules.catalogue, undeclared=True)
    except InputError as error:
        raise InputError(
            [replace(diagnostic, message=f"as it was: {diagnostic.message}") for diagnostic in error.diagnostics]
        ) from None
