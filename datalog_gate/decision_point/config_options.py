"""The oslo.config options of the section ``[datalog_gate]``: the fields of `Settings`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from oslo_config import cfg, types

from datalog_gate.base.errors import InputError
from datalog_gate.base.records import Field, fields
from datalog_gate.decision_point.settings import GROUP, MODES, Settings
from datalog_gate.files.rules import GROUP as PACKS
from datalog_gate.plugins.plugin_settings import check_path, check_store
from datalog_gate.schema.heat_defaults import HEAT_DEFAULTS


class PathType(types.String):
    """The type of an option that names a file or folder. It is absolute, or one of the `words`."""

    def __init__(self, words: Collection[str] = (), check: Callable[[str], str] = check_path) -> None:
        super().__init__()
        self._words, self._check = words, check

    def __call__(self, value: object) -> str:
        text = str(super().__call__(value))
        return text if text in self._words else self._check(text)


def _check_rules(text: str) -> str:
    """A path to rules, or the name of an installed pack. Errors: ValueError."""
    return text if entry_points(group=PACKS, name=text) else check_path(text)


PLACES: dict[str, types.ConfigType] = {
    "path": PathType(),
    "path or store": PathType(["store"]),
    "rules": PathType(check=_check_rules),
    "database": PathType(check=check_store),
}
"""The types of options that name files, by what else they may be."""
KINDS: dict[str, Callable[..., Any]] = {
    "str": cfg.StrOpt,
    "bool": cfg.BoolOpt,
    "int": cfg.IntOpt,
    "float": cfg.FloatOpt,
    "tuple[str, ...]": cfg.ListOpt,
    "Mapping[str, str]": partial(cfg.Opt, type=types.Dict(types.String(choices=MODES))),
}


def list_opts() -> list[tuple[str, list[Any]]]:
    """The options, for the sample generator of oslo.config."""
    return [(GROUP, [_option(field) for field in fields(Settings)])]


def build_settings(conf: Any, paste_options: Mapping[str, str] | None = None) -> Settings:
    """Build the settings from a configuration; options of a paste section override it. Errors: ValueError,
    cfg.Error."""
    options = {field.name: _option(field) for field in fields(Settings)}
    texts = paste_options or {}
    if unknown := sorted(texts.keys() - options):
        raise ValueError(f"there is no option {', '.join(unknown)}")
    conf.register_opts(options.values(), group=GROUP)
    values: dict[str, Any] = {name: getattr(conf[GROUP], name) for name in options}
    for name, text in texts.items():
        values[name] = text.splitlines() if options[name].multi else options[name].type(text)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Settings(**values)


def read_heat_defaults(conf: Any) -> dict[str, str]:
    """Read the options of Heat that are defaults of properties. Heat's own processes have them registered."""
    try:
        return {name: str(conf[name]) for name in HEAT_DEFAULTS}
    except cfg.NoSuchOptError:
        conf.register_opts([cfg.StrOpt(name, default=default) for name, (_, default) in HEAT_DEFAULTS.items()])
        return {name: str(conf[name]) for name in HEAT_DEFAULTS}


class OptionFiles:
    """The configuration files of a host, for reading the options again. The host's own configuration is not changed."""

    def __init__(self, conf: Any, paste_options: Mapping[str, str]) -> None:
        # not set before the configuration was read; a service may change its working folder later
        self._files = [os.path.abspath(file) for file in getattr(conf, "config_file", None) or ()]
        self._folders = [os.path.abspath(folder) for folder in getattr(conf, "config_dir", None) or ()]
        self._paste_options = paste_options
        self.heat_defaults = read_heat_defaults(conf)
        """The options of Heat that are defaults of properties, which a restart of Heat changes."""
        self._has_section = GROUP in conf.list_all_sections()

    def paths(self) -> Iterator[Path]:
        """The files that are read."""
        yield from map(Path, self._files)
        for folder in self._folders:
            yield from sorted(Path(folder).glob("*.conf"))

    def read(self) -> Settings:
        """Read the options. Errors: InputError, also if their section is missing, as in a half-written file."""
        if gone := [file for file in self._files if not Path(file).exists()]:
            raise InputError.of(f"{gone[0]} is missing now")
        conf = cfg.ConfigOpts()
        try:
            conf([], default_config_files=self._files, default_config_dirs=self._folders)
            if self._has_section and GROUP not in conf.list_all_sections():
                raise InputError.of(f"{', '.join(self._files)}: the section [{GROUP}] is missing now")
            return build_settings(conf, self._paste_options)
        except cfg.ConfigFileParseError as error:
            problem: Any = error.__context__  # the text of the error quotes the line, which may hold a password
            message = f"{error.config_file} can't be read: {problem.msg} in line {problem.lineno}"
            raise InputError.of(message) from None
        except (cfg.Error, OSError, ValueError) as error:
            raise InputError.of(f"{', '.join(self._files)}: {error}") from None


def _option(field: Field[Any]) -> Any:
    arguments = dict(field.metadata)
    if place := arguments.pop("place", ""):
        arguments["item_type" if str(field.type).startswith("tuple") else "type"] = PLACES[place]
    kind = cfg.MultiStrOpt if arguments.pop("several", False) else KINDS[str(field.type)]
    kind = cfg.Opt if "type" in arguments else kind
    return kind(field.name, **arguments)
