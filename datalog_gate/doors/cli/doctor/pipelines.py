"""Checks of the pipelines of api-paste.ini."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass
from datalog_gate.doors.cli.doctor import CheckResult
from datalog_gate.doors.cli.heat_conf import IniFile

Api = Literal["api", "cfn"]
APPS: dict[str, Api] = {"heat.api.openstack.v1:API": "api", "heat.api.cfn.v1:API": "cfn"}
"""Heat's two applications, by their factories (etc/heat/api-paste.ini)."""
DOORS: dict[Api, str] = {"api": "datalog_gate", "cfn": "datalog_gate_cfn"}
"""The entry point of the filter for each API, which is also its section name in the documentation."""
FACTORIES: dict[str, Api] = {
    "egg:datalog-gate#datalog_gate": "api",
    "datalog_gate.doors.wsgi:filter_factory": "api",
    "egg:datalog-gate#datalog_gate_cfn": "cfn",
    "datalog_gate.doors.wsgi:cfn_filter_factory": "cfn",
}
SERVICES: dict[Api, str] = {"api": "heat-api", "cfn": "heat-api-cfn"}
COMPOSITES: dict[Api, str] = {"api": "composite:api", "cfn": "composite:api-cfn"}
UNUSED: dict[Api, str] = {
    "api": "",
    "cfn": ", or remove the sections of heat-api-cfn and api-cfn if it is not deployed",
}
PIPELINE_FACTORY = "heat.api:pipeline_factory"
CONTEXT = "heat.common.context:ContextMiddleware_filter_factory"
AUTHTOKEN = "keystonemiddleware.auth_token:filter_factory"
"""The only filter that leaves a proof of verified credentials, which the door requires."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that heat.conf chooses and that leads to one of Heat's APIs."""

    api: Api
    name: str
    """Its section and key, as shown in messages."""
    filters: Sequence[str]
    app: str
    place: Span


def check_pipelines(paste: IniFile, flavor: str) -> Iterator[CheckResult]:
    """Check each pipeline."""
    pipelines = _find_pipelines(paste, flavor)
    for api in SERVICES:
        used = any(pipeline.api == api for pipeline in pipelines)
        if not used and (api == "api" or any(name.partition(":")[2] == SERVICES[api] for name in paste.sections)):
            message = f"{SERVICES[api]} has no pipeline of the flavor {flavor or 'default'}"
            fix = f"write `{flavor or 'default'} = ... {DOORS[api]} APPLICATION` under [{COMPOSITES[api]}]{UNUSED[api]}"
            yield CheckResult("finding", "door", message, paste.place(COMPOSITES[api]), fix)
    for pipeline in pipelines:
        findings = list(_check_pipeline(pipeline, paste))
        yield from findings or [CheckResult("ok", "door", f"{pipeline.name} has its door", pipeline.place)]


def _find_pipelines(paste: IniFile, flavor: str) -> list[Pipeline]:
    """The used pipelines to Heat's APIs: flavors of composites, plain pipelines, and directly mounted applications."""
    pipelines: list[Pipeline] = []
    for section, options in paste.sections.items():
        kind, _, name = section.partition(":")
        keys: list[str] = []
        if kind == "pipeline" and (name in _started(paste, flavor) or not name.startswith("heat-api")):
            keys = ["pipeline"]
        elif kind in ("composite", "composit") and options.get("paste.composite_factory") == PIPELINE_FACTORY:
            keys = [flavor or "default"]
        elif kind in ("composite", "composit"):
            keys = [key for key in options if key.startswith("/") or "://" in key]
        for key in keys:
            names = options.get(key, "").split()
            for position, app in enumerate(names):
                if api := _api(paste, app):
                    pipeline = Pipeline(
                        api=api,
                        name=f"[{section}]" if kind == "pipeline" else f"[{section}] {key}",
                        filters=names[:position],
                        app=app,
                        place=paste.place(section, key),
                    )
                    pipelines.append(pipeline)
                    break
    return pipelines


def _started(paste: IniFile, flavor: str) -> set[str]:
    """The applications that Heat starts: those of the configured flavor if they exist
    (heat/common/config.py:544-557)."""
    names = {section.partition(":")[2] for section in paste.sections}
    flavored = {service: f"{service}-{flavor}" for service in SERVICES.values()}
    return {name if name in names else service for service, name in flavored.items()}


def _check_pipeline(pipeline: Pipeline, paste: IniFile) -> Iterator[CheckResult]:
    """Yield what is wrong with the place of the door in a pipeline."""
    api, place = pipeline.api, pipeline.place
    factories = [_factory(paste, name) for name in pipeline.filters]
    fix = f"end it with `{DOORS[api]} {pipeline.app}`, behind authtoken and context in this order"
    if not pipeline.filters:
        fix = "map it to a pipeline with a door, or remove it"
    positions = [position for position, factory in enumerate(factories) if FACTORIES.get(factory) == api]
    if not positions:
        message = f"there is no door before {pipeline.app} in {pipeline.name}: its requests are not judged"
        yield CheckResult("finding", "door", message, place, fix + UNUSED[api] * bool(pipeline.filters))
        return
    between = pipeline.filters[positions[-1] + 1 :]
    if early := [name for name in between if _factory(paste, name) in (AUTHTOKEN, CONTEXT)]:
        names = " and ".join(early)
        message = f"the door is before {names} in {pipeline.name}: it does not know the caller, and judges nothing"
        yield CheckResult("finding", "door", message, place, fix)
    elif between:
        names = ", ".join(between)
        message = (
            f"{names} is between the door and {pipeline.app} in {pipeline.name}: changes made there are not judged"
        )
        yield CheckResult("finding", "door", message, place, fix)
    before_context = factories[: factories.index(CONTEXT)] if CONTEXT in factories else []
    if AUTHTOKEN not in before_context:
        message = f"in {pipeline.name} no authtoken verifies the caller before the context is made"
        if AUTHTOKEN not in factories:
            fix = "choose a flavor with `authtoken context` in this order, in [paste_deploy] of heat.conf"
        yield CheckResult("finding", "door", message, place, fix)


def _api(paste: IniFile, app: str) -> Api | None:
    """The API of the application of that name."""
    for kind in ("app", "application"):
        for name in _used_names(paste, kind, app):
            if api := APPS.get(paste.get(f"{kind}:{name}", "heat.app_factory")):
                return api
    return None


def _factory(paste: IniFile, name: str) -> str:
    """The factory of a filter: ``module:function``, or ``egg:distribution#entry``; empty if there is none."""
    for used in _used_names(paste, "filter", name):
        if factory := paste.get(f"filter:{used}", "paste.filter_factory"):
            return factory
        scheme, colon, rest = paste.get(f"filter:{used}", "use").partition(":")
        if scheme == "egg":
            distribution, _, entry = rest.partition("#")
            return f"egg:{distribution.lower().replace('_', '-')}#{entry or 'main'}"
        if colon:
            return rest if scheme == "call" else f"{scheme}:{rest}"
    return ""


def _used_names(paste: IniFile, kind: str, name: str) -> Iterator[str]:
    """The name, and the sections that it uses in turn."""
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        yield name
        name = paste.get(f"{kind}:{name}", "use")
