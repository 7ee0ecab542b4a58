"""The plugin of `openstack`, which finds the policy server in the catalogue."""

from __future__ import annotations

import argparse
from typing import Any

from datalog_gate.base.errors import UsageError

API_NAME = "gate"
API_VERSION_OPTION = "os_gate_api_version"
API_VERSIONS = ("2",)
DEFAULT_API_VERSION = "2"


def make_client(instance: Any) -> Any:
    """The adapter of `gate_client`. Errors: UsageError if there is no server."""
    from datalog_gate.doors.openstack_client.gate_client import SERVICE_TYPE, connect

    interface, region = instance.interface or "public", instance.region_name
    url = instance.get_endpoint_for_service_type(SERVICE_TYPE, region_name=region, interface=interface)
    if not url:
        message = f"the catalogue has no {interface} endpoint of the type {SERVICE_TYPE}"
        raise UsageError(f"{message}: set OS_POLICY_ENDPOINT_OVERRIDE to the address of the policy server")
    return connect(instance.session, url, user_agent="openstack-gate")


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The options of `openstack` itself."""
    parser.add_argument("--os-gate-api-version", metavar="<version>", help="version of the gate's API: 2")
    return parser
