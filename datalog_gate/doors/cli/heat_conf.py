"""Options of heat.conf, and lines of ini files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.records import dataclass
from datalog_gate.decision_point.settings import Settings
from datalog_gate.files.templates import read_text, unreadable


def read_conf(path: Path) -> Any:
    """Read heat.conf as oslo.config does, then `heat.conf.d` beside it. Errors: InputError, UsageError."""
    try:
        from oslo_config import cfg
    except ImportError:
        raise UsageError("oslo.config is missing: pip install 'datalog-gate[openstack]'") from None
    conf = cfg.ConfigOpts()
    try:
        conf([], project="heat", default_config_files=[str(path)], default_config_dirs=[str(_conf_folder(path))])
    except cfg.ConfigFileParseError as error:
        problem: Any = error.__context__  # its own text quotes the line, which may hold a password
        raise InputError.of(f"{error.config_file} can't be read: {problem.msg} in line {problem.lineno}") from None
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


def invalid_file(path: Path, error: Exception) -> InputError:
    """The error for a file with which no service would start."""
    return InputError.of(f"{path}: {format_error(error)}")


def format_error(error: Exception) -> str:
    """Format an error of oslo.config as one line, without its form of file names."""
    # the error has its option and place in its text alone
    return re.sub(r" from LocationInfo\(.*\)(?= is not valid)", "", " ".join(str(error).split()))


@dataclass(frozen=True, slots=True)
class IniFile:
    """The options of an ini file by section, and the place of each option and section."""

    file: str
    sections: dict[str, dict[str, str]]
    places: dict[tuple[str, str], Span]
    """By section and option; the place of a section itself has the option ""."""

    def get(self, section: str, option: str) -> str:
        """The text of an option; empty if it is missing."""
        return self.sections.get(section, {}).get(option, "")

    def place(self, section: str, option: str = "") -> Span:
        """The place of an option, else of its section, else of the file."""
        place = self.places.get((section, option)) or self.places.get((section, ""))
        return place or Span(self.file, 1, 1, 1, 1)


def read_conf_places(path: Path) -> IniFile:
    """Read where heat.conf and the files of `heat.conf.d` have their options. Errors: InputError."""
    ini = read_ini(path)
    for more in sorted(_conf_folder(path).glob("*.conf")):
        _read_into(ini, more)
    return ini


def read_ini(path: Path) -> IniFile:
    """Read the sections of an ini file as written: nothing is interpolated, and the last option of a name counts. Other
    lines are skipped, since the service that owns the file reports them. Errors: InputError."""
    ini = IniFile(str(path), {}, {})
    _read_into(ini, path)
    return ini


def _conf_folder(path: Path) -> Path:
    """The folder of further files, which services read after it."""
    return path.with_name(f"{path.name}.d")


def _read_into(ini: IniFile, path: Path) -> None:
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
            ini.places.setdefault((name, ""), Span(str(path), number, 1, number, 1))
        else:
            end = min((text.find(separator) for separator in "=:" if separator in text), default=len(text))
            last = text[:end].strip()
            options[last], ini.places[name, last] = text[end + 1 :].strip(), Span(str(path), number, 1, number, 1)
