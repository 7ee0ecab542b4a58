"""Checks of what a service loads when it starts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from datalog_gate.base.diagnostics import closest, format_count
from datalog_gate.base.errors import DiagnosticsError
from datalog_gate.base.records import replace
from datalog_gate.decision_point.inventory_source import STORE, open_store
from datalog_gate.decision_point.policy_reload import PolicyReloader, Ruleset, find_roots
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult, Locate, format_first, hide_secrets
from datalog_gate.plugins.breaker import within
from datalog_gate.plugins.plugin_errors import PluginLoadError, UnavailableError
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.resource_types import HEATS, NEWEST
from datalog_gate.services.contract import Service

NO_START = "correct it: no service starts with this, and a running one keeps what it has"
STALE = 24 * 3600
"""The age in seconds from which an inventory is a finding: pulls happen every few minutes, or every night."""


def check_plugins(settings: Settings, locate: Locate, secrets: Set[str]) -> Iterator[CheckResult]:
    """Check that the enabled services load, and that their configuration lets them keep their promises."""
    from datalog_gate.decision_point.enabled_plugins import load_enabled_services

    try:
        with TemporaryDirectory() as folder:  # loading services may create tables, and the doctor must not
            own = replace(settings, store=str(Path(folder, "store"))) if settings.store else settings
            services = load_enabled_services(own)
            for name, service in services.items():
                yield from _check_promises(name, service, settings.service_call_seconds, locate)
    except (PluginLoadError, ValueError) as error:
        message = hide_secrets(str(error), secrets)
        yield CheckResult("finding", "services", message, locate("services"), NO_START)
        return
    if settings.services:
        yield CheckResult("ok", "services", f"they load: {', '.join(settings.services)}", locate("services"))


def _check_promises(name: str, service: Service, seconds: float, locate: Locate) -> Iterator[CheckResult]:
    def list_problems() -> tuple[str, ...]:
        return tuple(service.problems())

    try:
        for problem in within(seconds, name, list_problems):
            fix = f"see {name} in docs/services.md"
            yield CheckResult("finding", "services", f"{name}: {problem}", locate("service_option"), fix)
    except UnavailableError as error:
        yield CheckResult("note", "services", f"{name} can't be checked: {error.reason}", locate("services"))


def check_rules(settings: Settings, locate: Locate, now: datetime, secrets: Set[str]) -> Iterator[CheckResult]:
    """Check that rules, catalogue, waivers and inventory load together, and that nothing of them is silently unused."""
    try:
        ruleset = _load(settings)
    except DiagnosticsError as error:
        message = hide_secrets(f"they can't be loaded: {format_first(error)}", secrets)
        yield CheckResult("finding", "rules", message, locate("rules"), error.diagnostics[0].suggestion or NO_START)
        return
    policies = {policy.id for policy in ruleset.rules.policies}
    source = ", ".join(settings.rules) or f"none are set, so {find_roots(settings)[0]}"
    count = format_count(len(policies), "policy", "policies")
    yield CheckResult("ok", "rules", f"{ruleset.rules.digest[:12]} with {count}: {source}", locate("rules"))
    for name in sorted(settings.policy_modes.keys() - policies):
        near = closest(name, policies)
        message = f"policy_modes names {name}, which is not a policy of the rules: it has no effect"
        fix = f"write {near} in place of {name}" if near else f"remove {name} from policy_modes"
        yield CheckResult("finding", "rules", message, locate("policy_modes"), fix)
    for name, seconds in ruleset.ages(now).items():
        if seconds > STALE:
            message = f"{name} was read {seconds // 3600:.0f} hours ago: rules see the cloud as it was then"
            fix = "run `datalog-gate inventory pull`, and see in its output why not before"
            yield CheckResult("finding", "inventory", message, locate("inventory"), fix)
    for warning in ruleset.inventory.warnings:
        yield CheckResult("finding", "inventory", warning.message, warning.span, warning.suggestion or "")
    yield from _compare_types(ruleset.rules.catalogue, locate)


def _load(settings: Settings) -> Ruleset:
    """Load as a service does, without creating a store. Errors: RulesError, InputError."""
    if STORE in (settings.inventory, settings.waivers) and settings.store:
        from datalog_gate.store.transaction import read_revision

        open_store(settings).read(read_revision)
    ignore = partial(lambda *_: None)
    return PolicyReloader(settings, time.monotonic, ignore, ignore).in_force.ruleset


def _compare_types(catalogue: Catalogue, locate: Locate) -> Iterator[CheckResult]:
    """Compare the catalogue with the installed Heat."""
    try:
        installed = version("openstack-heat")
    except PackageNotFoundError:
        return
    release = installed.partition(".")[0]
    if release == NEWEST or not catalogue.is_shipped:
        return
    message = f"Heat {installed} is installed here, and rules know the resource types of Heat {HEATS[NEWEST]}"
    advice = "give authors of templates its types for check --catalogue, as docs/catalogue.md shows"
    if release in HEATS:
        advice = f'check templates with --heat {release}, or `heat = "{release}"` in the configuration of projects'
    yield CheckResult("note", "catalogue", message, locate("catalogue"), advice)
