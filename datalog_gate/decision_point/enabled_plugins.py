"""The services that the settings enable."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from datalog_gate.decision_point.settings import Settings, parse_service_options
from datalog_gate.plugins.loader import load_extension, load_plugins
from datalog_gate.plugins.plugin_errors import PluginLoadError
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.consultation import order_services
from datalog_gate.services.contract import GROUP, Service


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
    """Load the enabled services. Errors: PluginLoadError, also without a valid order, and ValueError for a setting."""
    options = parse_service_options(settings.service_option)
    if not settings.services and not options:
        return {}
    if not settings.store:
        raise ValueError("services need the option store, where their claims are kept")
    services = load_plugins(GROUP, Service, settings.services, options, partial(_complete, settings))
    order_services(services)
    return services


def list_grantable(settings: Settings) -> tuple[str, ...]:
    """The enabled services that grants may name: all but those for every stack."""
    names = []
    for name in settings.services:
        with suppress(PluginLoadError):  # the broker reports it
            if getattr(load_extension(GROUP, name), "for_every_stack", False):
                continue
        names.append(name)
    return tuple(names)


def _complete(settings: Settings, service: type[Service], options: dict[str, str]) -> dict[str, str]:
    """Add the settings that a service uses to its options: the store of the gate, and timeouts. Errors: ValueError for
    a store of its own."""
    if service.uses_call_seconds:
        options = {"call_seconds": str(settings.service_call_seconds), **options}
    if not service.uses_store:
        return options
    if "store" in options:
        raise ValueError("store: claims are kept in that of the gate, the option `store`")
    return {**options, "store": settings.store}
