"""The names that decisions and the filters of schedulers share."""

from __future__ import annotations

CLAIM, HOST = "datalog_gate_claim", "datalog_gate_host"
"""The scheduler hints with the consumer in Placement that holds the room, and with the provider on which it does."""
RACK_TRAIT, ZONE_TRAIT = "CUSTOM_RACK_", "CUSTOM_ZONE_"
"""What begins the traits of a provider that name its rack and its zone."""
