"""Heat's options that are defaults of properties."""

from __future__ import annotations

from heat.common import config  # noqa: F401 - registers the options
from oslo_config import cfg

from datalog_gate.decision_point.config_options import read_heat_defaults
from datalog_gate.schema.heat_defaults import HEAT_DEFAULTS


def test_they_are_read_from_the_configuration_of_heats_processes() -> None:
    assert read_heat_defaults(cfg.CONF) == {name: default for name, (_, default) in HEAT_DEFAULTS.items()}
    cfg.CONF.set_override("default_user_data_format", "RAW")
    try:
        assert read_heat_defaults(cfg.CONF)["default_user_data_format"] == "RAW"
    finally:
        cfg.CONF.clear_override("default_user_data_format")
