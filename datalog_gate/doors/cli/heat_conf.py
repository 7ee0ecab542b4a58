"""Options of heat.conf, and lines of ini files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.decision_point.settings import Settings, parse_plugin_options
from datalog_gate.files.templates import read_text, unreadable


def read_conf(path: Path) -> Any:
    """Read heat.conf as oslo.config does. Errors: InputError, UsageError."""
    try:
        from oslo_config import cfg
    except ImportError:
        raise UsageError("oslo.config is missing: pip install 'datalog-gate[openstack]'") from None
    conf = cfg.ConfigOpts()
    try:
        conf(args=[], project="heat", default_config_files=[str(path)], default_config_dirs=[])
    except cfg.ConfigFileParseError as error:
        problem: Any = error.__context__  # its own text quotes the line, which may hold a password
        raise InputError.of(f"{path} can't be read: {problem.msg} in line {problem.lineno}") from None
    except cfg.Error as error:
        raise InputError.of(f"{path} can't be read: {format_error(error)}") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return conf


def read_settings(path: Path) -> tuple[Settings, Any]:
    """Read the settings of the gate, and the whole heat.conf. Errors: InputError, UsageError."""
    conf = read_conf(path)
    from datalog_gate.decision_point.config_options import build_settings

    try:
        return build_settings(conf), conf
    except ValueError as error:
        raise invalid_file(path, error) from None


def read_service_option(path: Path, service: str, key: str, default: str = "") -> str:
    """Read an option of a service. Errors: InputError if it is not there and has no default, UsageError."""
    value = read_service_options(path, service).get(key, default)
    if not value:
        raise InputError.of(f"{path} has no service_option {service}.{key}")
    return value


def read_service_options(path: Path, service: str) -> Mapping[str, str]:
    """Read the options of a service. Errors: InputError, UsageError."""
    settings, _ = read_settings(path)
    try:
        return parse_plugin_options("service_option", settings.service_option).get(service, {})
    except ValueError as error:
        raise invalid_file(path, error) from None


def invalid_file(path: Path, error: Exception) -> InputError:
    """The error for a file with which no service would start."""
    return InputError.of(f"{path}: {format_error(error)}")


def format_error(error: Exception) -> str:
    """Format an error of oslo.config as one line, without its form of file names."""
    return re.sub(r" from LocationInfo\(.*\)(?= is not valid)", "", " ".join(str(error).split()))


@dataclass(frozen=True, slots=True)
class IniFile:
    """The options of an ini file by section, and the line of each option and section."""

    file: str
    sections: dict[str, dict[str, str]]
    lines: dict[tuple[str, str], int]
    """By section and option; the line of a section itself has the option ""."""

    def get(self, section: str, option: str) -> str:
        """The text of an option; empty if it is not there."""
        return self.sections.get(section, {}).get(option, "")

    def place(self, section: str, option: str = "") -> Span:
        """The place of an option, else of its section, else of the file."""
        line = self.lines.get((section, option)) or self.lines.get((section, ""), 1)
        return Span(self.file, line, 1, line, 1)


def read_ini(path: Path) -> IniFile:
    """Read the sections of an ini file as written: nothing is interpolated, and the last option of a name counts.

    Lines that are no option are skipped, since the service that owns the file reports them. Errors: InputError.
    """
    ini = IniFile(str(path), {}, {})
    name, options, last = "", dict[str, str](), ""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if line[0].isspace() and last:
            options[last] = f"{options[last]} {text}".strip()
        elif text[0] == "[" and "]" in text:
            name, last = text[1 : text.rindex("]")].strip(), ""
            options = ini.sections.setdefault(name, {})
            ini.lines.setdefault((name, ""), number)
        else:
            end = min((text.find(separator) for separator in "=:" if separator in text), default=len(text))
            last = text[:end].strip()
            options[last], ini.lines[name, last] = text[end + 1 :].strip(), number
    return ini
