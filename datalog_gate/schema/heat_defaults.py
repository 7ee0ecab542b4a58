"""Defaults of properties that heat.conf sets."""

from __future__ import annotations

from collections.abc import Mapping

from datalog_gate.base.records import replace
from datalog_gate.schema.catalogue import Catalogue

HEAT_DEFAULTS = {
    "default_deployment_signal_transport": ("signal_transport", "CFN_SIGNAL"),
    "default_software_config_transport": ("software_config_transport", "POLL_SERVER_CFN"),
    "default_user_data_format": ("user_data_format", "HEAT_CFNTOOLS"),
}
"""The property and Heat's own default, by the option of the section DEFAULT (heat/common/config.py)."""
TYPES = (
    "OS::Heat::DeployedServer",
    "OS::Heat::SoftwareDeployment",
    "OS::Heat::SoftwareDeploymentGroup",
    "OS::Heat::SoftwareDeployments",
    "OS::Heat::StructuredDeployment",
    "OS::Heat::StructuredDeploymentGroup",
    "OS::Heat::StructuredDeployments",
    "OS::Nova::Server",
)
"""The types with these properties."""


def apply_defaults(catalogue: Catalogue, values: Mapping[str, str]) -> Catalogue:
    """The catalogue with the values of these options. What an operator's file says differently stays."""
    changed = {HEAT_DEFAULTS[option]: value for option, value in values.items() if value != HEAT_DEFAULTS[option][1]}
    if not changed:
        return catalogue
    types = {}
    for name in TYPES:
        if kind := catalogue.type(name):
            properties = tuple(
                replace(part, default=changed.get((part.name, str(part.default)), part.default))
                for part in kind.properties
            )
            types[name] = replace(kind, properties=properties)
    return catalogue.with_types(types)
