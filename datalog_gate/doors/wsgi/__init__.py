"""The filters in front of Heat's two APIs.

`filter_factory` and `cfn_filter_factory` are the entry points that api-paste.ini names.

>>> from datalog_gate.doors.wsgi.fault import heat_fault
>>> heat_fault(403, "denied by net.open_ssh").status
'403 Forbidden'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from datalog_gate.decision_point.point import DecisionPoint, create_point, shared_point
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi import heat_api, heat_api_cfn
from datalog_gate.doors.wsgi.fault import cfn_fault, heat_fault
from datalog_gate.doors.wsgi.filter import Filter
from datalog_gate.doors.wsgi.stored import Application

DEFAULTS = Settings()
Factory = Callable[[Application], Filter]


def filter_factory(_global: Mapping[str, str], **options: str) -> Factory:
    """Create the paste filter for heat-api from options over ``[datalog_gate]``. Errors: as `DecisionPoint`."""
    point = _point(options)
    return partial(wrap, point=point, settings=point.settings)


def cfn_filter_factory(_global: Mapping[str, str], **options: str) -> Factory:
    """Create the paste filter for heat-api-cfn, as `filter_factory`."""
    point = _point(options)
    return partial(wrap_cfn, point=point, settings=point.settings)


def wrap(application: Application, *, point: DecisionPoint, settings: Settings = DEFAULTS) -> Filter:
    """Put the gate in front of heat-api, as plain WSGI."""
    return Filter(application, point, heat_api.read_request, heat_fault, settings)


def wrap_cfn(application: Application, *, point: DecisionPoint, settings: Settings = DEFAULTS) -> Filter:
    """Put the gate in front of heat-api-cfn, as plain WSGI."""
    return Filter(application, point, heat_api_cfn.read_request, partial(cfn_fault, as_json=False), settings)


def _point(options: Mapping[str, str]) -> DecisionPoint:
    from oslo_config import cfg

    return create_point(cfg.CONF, options) if options else shared_point()
