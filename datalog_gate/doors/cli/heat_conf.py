"""A reader of heat.conf by oslo.config, and of ini files with the line of each option."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.decision_point.settings import Settings, parse_plugin_options
from datalog_gate.files.templates import read_text


def read_conf(path: Path) -> Any:
    """Read heat.conf as oslo.config does. Errors: InputError, UsageError."""
    try:
        from oslo_config import cfg
    except ImportError:
        raise UsageError("oslo.config is missing: pip install 'datalog-gate[openstack]'") from None
    conf = cfg.ConfigOpts()
    try:
        conf(args=[], project="heat", default_config_files=[str(path)], default_config_dirs=[])
    except cfg.Error as error:
        raise InputError([Diagnostic("unreadable", f"{path} can't be read: {format_error(error)}")]) from None
    return conf


def read_settings(path: Path) -> tuple[Settings, Any]:
    """Read the settings of the gate, and the whole heat.conf. Errors: InputError, UsageError."""
    conf = read_conf(path)
    from datalog_gate.decision_point.config_options import build_settings

    try:
        return build_settings(conf), conf
    except ValueError as error:
        raise invalid_file(path, error) from None


def read_service_option(path: Path, service: str, key: str) -> str:
    """Read an option of a service. Errors: InputError if it is not there, UsageError."""
    settings, _ = read_settings(path)
    try:
        value = parse_plugin_options("service_option", settings.service_option).get(service, {}).get(key, "")
    except ValueError as error:
        raise invalid_file(path, error) from None
    if not value:
        raise InputError([Diagnostic("unreadable", f"{path} has no service_option {service}.{key}")])
    return value


def invalid_file(path: Path, error: Exception) -> InputError:
    """The error for a file with which no service would start."""
    return InputError([Diagnostic("unreadable", f"{path}: {format_error(error)}")])


def format_error(error: Exception) -> str:
    """Format an error of oslo.config as one line, without its form of file names."""
    return re.sub(r" from LocationInfo\(.*\)(?= is not valid)", "", " ".join(str(error).split()))


@dataclass(frozen=True, slots=True)
class IniSection:
    """The options of a section with their places, and the place of the section."""

    place: Span
    options: dict[str, str] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IniFile:
    """The sections of an ini file by name."""

    file: str
    sections: Mapping[str, IniSection]

    def get(self, section: str, option: str) -> str:
        """The text of an option; empty if it is not there."""
        found = self.sections.get(section)
        return found.options.get(option, "") if found else ""

    def place(self, section: str, option: str = "") -> Span:
        """The place of an option, else of its section, else of the file."""
        found = self.sections.get(section)
        return found.places.get(option, found.place) if found else _line_span(self.file, 1)


def read_ini(path: Path) -> IniFile:
    """Read the sections of an ini file as written: nothing is interpolated, and the last option of a name counts.

    Lines that are no option are skipped, since the service that owns the file reports them. Errors: InputError.
    """
    sections: dict[str, IniSection] = {}
    section, last = IniSection(_line_span(str(path), 1)), ""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        place = _line_span(str(path), number)
        if line[0].isspace() and last:
            section.options[last] = f"{section.options[last]} {text}".strip()
        elif text[0] == "[" and "]" in text:
            section, last = sections.setdefault(text[1 : text.rindex("]")].strip(), IniSection(place)), ""
        else:
            end = min((text.find(separator) for separator in "=:" if separator in text), default=len(text))
            last = text[:end].strip()
            section.options[last], section.places[last] = text[end + 1 :].strip(), place
    return IniFile(str(path), sections)


def _line_span(file: str, line: int) -> Span:
    return Span(file, line, 1, line, 1)
