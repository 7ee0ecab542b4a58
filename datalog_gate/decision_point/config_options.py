"""The oslo.config options of the section ``[datalog_gate]``: the fields of `Settings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import partial
from typing import Any

from oslo_config import cfg, types

from datalog_gate.decision_point.settings import GROUP, MODES, Settings

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
    """Build the settings of a configuration, and a paste section over it. Errors: ValueError, cfg.Error."""
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


def _option(field: Field[Any]) -> Any:
    arguments = dict(field.metadata)
    kind = cfg.MultiStrOpt if arguments.pop("several", False) else KINDS[str(field.type)]
    return kind(field.name, **arguments)
