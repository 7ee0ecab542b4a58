"""The services that the operator enabled (layer 5): in, their names and the settings of each; out, the services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datalog_gate.plugins.loader import load_plugins
from datalog_gate.services.contract import Service

GROUP = "datalog_gate.services"


def load_services(names: Sequence[str], settings: Mapping[str, Mapping[str, str]]) -> dict[str, Service]:
    """The services of these names, in this order: a grant may have reserved what its service must release, so one that
    does not load is an error and never skipped. Errors: ChainError."""
    services = load_plugins(GROUP, Service, names, settings)
    return {name: services[name] for name in names}
