"""The section ``[datalog_gate]`` of heat.conf (layer 6): oslo.config's options, made of the fields of `Settings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
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
    """The options, for oslo.config's generator of samples."""
    return [(GROUP, [option(field) for field in fields(Settings)])]


def option(field: Field[Any]) -> Any:
    """The option of a field of `Settings`."""
    how = dict(field.metadata)
    kind = cfg.MultiStrOpt if how.pop("several", False) else KINDS[str(field.type)]
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return kind(field.name, default=list(default) if isinstance(default, tuple) else default, **how)


def settings(conf: Any, given: Mapping[str, str] | None = None) -> Settings:
    """What a configuration says, and over it what a paste section gives as texts. Errors: ValueError, or oslo.config's
    own."""
    options = {field.name: option(field) for field in fields(Settings)}
    if unknown := sorted((given or {}).keys() - options):
        raise ValueError(f"there is no option {', '.join(unknown)}")
    conf.register_opts(options.values(), group=GROUP)
    values: dict[str, Any] = {name: getattr(conf[GROUP], name) for name in options}
    for name, text in (given or {}).items():
        values[name] = text.splitlines() if options[name].multi else options[name].type(text)
    plain: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
    return Settings(**plain)
