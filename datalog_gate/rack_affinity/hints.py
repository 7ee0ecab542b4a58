"""The names shared by decisions and scheduler filters."""

from __future__ import annotations

CLAIM, HOST = "datalog_gate_claim", "datalog_gate_host"
"""The scheduler hints with the consumer in Placement that holds the reservation, and with its provider."""
RACK_TRAIT, ZONE_TRAIT = "CUSTOM_RACK_", "CUSTOM_ZONE_"
"""The prefixes of the traits that name a provider's rack and zone."""
