"""The services and preflight plugins that the settings enable."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from datalog_gate.decision_point.settings import Settings, parse_plugin_options
from datalog_gate.plugins.loader import load_plugins
from datalog_gate.preflight.chain import Chain, load_chain
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.contract import GROUP, Service

if TYPE_CHECKING:
    from datalog_gate.services.outcomes import Outcomes


def load_preflight(settings: Settings) -> Chain | None:
    """Load the preflight plugins with their options; None if none are enabled. Errors: PluginLoadError, ValueError."""
    options = parse_plugin_options("preflight_option", settings.preflight_option)
    if not settings.preflight and not options:
        return None
    return load_chain(settings.preflight, options, settings.service_call_seconds)


def create_broker(settings: Settings, clock: Callable[[], float] = time.time) -> Broker | None:
    """Create the broker of the enabled services, if any. Errors: those of `load_enabled_services`, JournalError."""
    services = load_enabled_services(settings)
    if not services:
        return None
    from datalog_gate.services.journal import Journal  # SQLAlchemy takes a while, and many enable no service

    limits = Limits(settings.service_call_seconds, settings.service_step_seconds, settings.service_lease_seconds)
    journal = Journal(settings.store, settings.service_late_seconds)
    return Broker(journal, services, clock, time.monotonic, limits)


def load_enabled_services(settings: Settings) -> dict[str, Service]:
    """Load the enabled services, in their order. Errors: PluginLoadError, and ValueError for a setting."""
    options = parse_plugin_options("service_option", settings.service_option)
    if not settings.services and not options:
        return {}
    if not settings.store:
        raise ValueError("services need the option store, where their claims are kept")
    return load_plugins(GROUP, Service, settings.services, options, partial(_complete, settings))


def read_approval_settings(settings: Settings) -> dict[str, str]:
    """The settings of the service `approval`, with the gate's store unless it has its own. Errors: ValueError."""
    options = parse_plugin_options("service_option", settings.service_option)
    return {"store": settings.store, **options.get("approval", {})}


def open_outcomes(settings: Settings) -> Outcomes | None:
    """Open the table of operations whose outcome plugins must learn, if there is a store. Errors: JournalError."""
    if not (settings.preflight and settings.store):
        return None
    from datalog_gate.services.outcomes import Outcomes

    return Outcomes(settings.store)


def _complete(settings: Settings, service: type[Service], options: dict[str, str]) -> dict[str, str]:
    """Add the settings that a service uses to its options: the store, unless it has its own file, and timeouts."""
    if service.uses_call_seconds:
        options = {"call_seconds": str(settings.service_call_seconds), **options}
    return options if options.get("file") or not service.uses_store else {"store": settings.store, **options}
