"""The heat.conf of a Heat (layer 6), for commands beside its services: in, its path; out, what the gate reads there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.decision_point.settings import Settings, parse_plugin_options


def read_conf(path: Path) -> Any:
    """What Heat reads of its file, as oslo.config reads it. Errors: InputError, UsageError."""
    try:
        from oslo_config import cfg
    except ImportError:
        raise UsageError("oslo.config is missing: pip install 'datalog-gate[openstack]'") from None
    conf = cfg.ConfigOpts()
    try:
        conf(args=[], project="heat", default_config_files=[str(path)], default_config_dirs=[])
    except cfg.Error as error:
        raise InputError([Diagnostic("unreadable", f"{path} can't be read: {said(error)}")]) from None
    return conf


def read_settings(path: Path) -> tuple[Settings, Any]:
    """The gate's options, and the whole file. Errors: InputError, UsageError."""
    conf = read_conf(path)
    from datalog_gate.decision_point.config_options import build_settings

    try:
        return build_settings(conf), conf
    except ValueError as error:
        raise wrong(path, error) from None


def service_setting(path: Path, service: str, key: str) -> str:
    """What `service_option` says of a service's setting. Errors: InputError if nothing, UsageError."""
    chosen, _ = read_settings(path)
    try:
        found = parse_plugin_options("service_option", chosen.service_option).get(service, {}).get(key, "")
    except ValueError as error:
        raise wrong(path, error) from None
    if not found:
        raise InputError([Diagnostic("unreadable", f"{path} has no service_option {service}.{key}")])
    return found


def wrong(path: Path, error: Exception) -> InputError:
    """The error for a file that holds what no service would start with."""
    return InputError([Diagnostic("unreadable", f"{path}: {said(error)}")])


def said(error: Exception) -> str:
    """What oslo.config says of an option, without how it names files."""
    return re.sub(r" from LocationInfo\(.*\)(?= is not valid)", "", " ".join(str(error).split()))
