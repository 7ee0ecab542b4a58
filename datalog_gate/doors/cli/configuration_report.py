"""`check --show-config`: prints the configuration of a project."""

from __future__ import annotations

import argparse
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from datalog_gate.files.check_options import BY_NAME, CheckOption
from datalog_gate.files.rules import default_rules


def print_configuration(options: argparse.Namespace) -> None:
    """Print each option of a check as TOML, and where its value comes from."""
    file = options.configuration.file
    print(f"# {file or 'no datalog-gate.toml and no [tool.datalog-gate] in a pyproject.toml here or above'}")
    for option in BY_NAME.values():
        value = getattr(options, option.attribute)
        source = _describe_source(option, options)
        if option.name == "rules" and not value:
            default, named = default_rules(), os.environ.get("DATALOG_GATE_RULES")
            value = [str(default)]
            source = "$DATALOG_GATE_RULES" if named and default == Path(named) else source
        if value is None:
            print(f"# {option.name} is not given")
        else:
            print(f"{option.name} = {_format_value(option, value)}  # {source}")
    if sources := options.configuration.sources:
        print(f"sources = {_to_toml(sources)}")
    if options.template:
        print(f"templates = {_to_toml(options.template)}  # command line")
    else:
        for entry in options.configuration.templates:
            print(f"\n[[templates]]  # {entry.place}")
            keys = {"path": entry.patterns, "environment": entry.environments, "parameter": entry.parameters}
            print("\n".join(f"{key} = {_to_toml(value)}" for key, value in keys.items() if value))


def _describe_source(option: CheckOption, options: argparse.Namespace) -> str:
    """Where the value of an option comes from."""
    if option.name in options.configuration.given:
        return "command line"
    if option.name in options.configuration.values:
        return str(options.configuration.values[option.name].place)
    return f"${option.variable}" if option.initial() not in (option.default, []) else "default"


def _format_value(option: CheckOption, value: Any) -> str:
    """A value as TOML, as the option's key takes it."""
    match option.name:
        case "parameter":
            return _to_toml(dict(value))
        case "module":
            return _to_toml([",".join([template, *environments]) for template, environments in value])
        case "output":
            return _to_toml([f"{form}={path}" for form, path in value])
    return _to_toml(value)


def _to_toml(value: Any) -> str:
    """Data as TOML; texts are JSON's, whose escapes TOML has too."""
    match value:
        case bool():
            return str(value).lower()
        case datetime() | Path():
            return _to_toml(value.isoformat() if isinstance(value, datetime) else str(value))
        case dict():
            return f"{{{', '.join(f'{_to_toml(str(key))} = {_to_toml(member)}' for key, member in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_to_toml, value))}]"
        case int() | float():
            return str(value)
    return json.dumps(str(value), ensure_ascii=False)
