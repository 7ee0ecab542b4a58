"""The filters before Heat's two APIs (layer 6), as paste takes them and as a plain WSGI wrapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from datalog_gate.api import load_rules
from datalog_gate.enforce.wsgi import api, cfn
from datalog_gate.enforce.wsgi.fault import cfn_fault, heat_fault
from datalog_gate.enforce.wsgi.filter import Filter, Judge, Settings
from datalog_gate.enforce.wsgi.plain import Plain
from datalog_gate.enforce.wsgi.stored import Application
from datalog_gate.errors import UsageError
from datalog_gate.sources import default_rules

Factory = Callable[[Application], Filter]


def filter_factory(_global: Mapping[str, str], rules: str = "", services: str = "", **options: str) -> Factory:
    """The paste filter for heat-api. `rules` is a path (default: those that the command line takes), `services` a
    comma-separated list; the options are those of `Settings`. Errors: RulesError or UsageError, which keeps the
    pipeline from starting: a gate without rules must not look like one."""
    return partial(wrap, point=_point(rules, services), settings=_settings(options))


def cfn_filter_factory(_global: Mapping[str, str], rules: str = "", services: str = "", **options: str) -> Factory:
    """The paste filter for heat-api-cfn, as `filter_factory`."""
    return partial(wrap, point=_point(rules, services), settings=_settings(options), cfn=True)


def wrap(application: Application, *, point: Judge, settings: Settings | None = None, cfn: bool = False) -> Filter:
    """The application behind the gate, in plain WSGI."""
    opened = _cfn.opened if cfn else api.opened
    fault = partial(cfn_fault, as_json=False) if cfn else heat_fault
    return Filter(application, point, opened, fault, settings or Settings())


_cfn = cfn


def _point(rules: str, services: str) -> Judge:
    enabled = frozenset(name.strip() for name in services.split(",") if name.strip())
    return Plain(load_rules(rules or default_rules()), enabled)


def _settings(options: Mapping[str, str]) -> Settings:
    denial, unverified = options.get("create_denial", "refuse"), options.get("allow_unverified_context", "false")
    if unknown := options.keys() - {"create_denial", "allow_unverified_context"}:
        raise UsageError(f"the filter has no option {', '.join(sorted(unknown))}")
    if denial not in ("refuse", "failed_stack"):
        raise UsageError(f"create_denial is {denial}, but refuse or failed_stack is meant")
    if unverified.lower() not in ("true", "false"):
        raise UsageError(f"allow_unverified_context is {unverified}, but true or false is meant")
    return Settings("failed_stack" if denial == "failed_stack" else "refuse", unverified.lower() == "true")
