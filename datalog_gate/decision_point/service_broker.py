"""The services of a process (layer 6): in, what the operator configured; out, the broker that asks them."""

from __future__ import annotations

import time
from collections.abc import Callable

from datalog_gate.decision_point.settings import Settings, plugin_options
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.contract import Service
from datalog_gate.services.journal import Journal
from datalog_gate.services.loading import load_services
from datalog_gate.services.outcomes import Outcomes


def services_of(settings: Settings) -> dict[str, Service]:
    """The services that are enabled, in their order. Errors: ChainError, and ValueError for a setting."""
    given = plugin_options("service_option", settings.service_option)
    if not settings.services and not given:
        return {}
    if not settings.service_journal:
        raise ValueError("services need service_journal, the file in which is written down what they hold")
    return load_services(settings.services, given)


def outcomes_of(settings: Settings) -> Outcomes | None:
    """The operations whose end plugins are to be told; None without plugins, or a file for that. Errors:
    JournalError."""
    return Outcomes(settings.service_journal) if settings.preflight and settings.service_journal else None


def broker_of(settings: Settings, clock: Callable[[], float] = time.time) -> Broker | None:
    """The services with their journal; None if none are enabled. Errors: as `services_of`, and JournalError."""
    services = services_of(settings)
    if not services:
        return None
    limits = Limits(settings.service_call_seconds, settings.service_step_seconds, settings.service_lease_seconds)
    journal = Journal(settings.service_journal, settings.service_late_seconds)
    return Broker(journal, services, clock, time.monotonic, limits)
