"""Which requests pass a door of the gate on their way to Heat (layer 6).

In: api-paste.ini, and the flavor that heat.conf chooses. Out: a `Sign` for each pipeline to one of Heat's two APIs, and
the options that the sections of the doors give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from datalog_gate.base.diagnostics import Span
from datalog_gate.doors.cli.doctor.check_result import Sign
from datalog_gate.doors.cli.ini import Ini

Api = Literal["api", "cfn"]
APPS: dict[str, Api] = {"heat.api.openstack.v1:API": "api", "heat.api.cfn.v1:API": "cfn"}
"""Heat's two applications by their factories (etc/heat/api-paste.ini)."""
DOORS: dict[Api, str] = {"api": "datalog_gate", "cfn": "datalog_gate_cfn"}
"""The entry point of each API's filter, which is also what its section is called in the pages."""
FACTORIES: dict[str, Api] = {
    "egg:datalog-gate#datalog_gate": "api",
    "datalog_gate.doors.wsgi:filter_factory": "api",
    "egg:datalog-gate#datalog_gate_cfn": "cfn",
    "datalog_gate.doors.wsgi:cfn_filter_factory": "cfn",
}
SERVICES: dict[Api, str] = {"api": "heat-api", "cfn": "heat-api-cfn"}
COMPOSITES: dict[Api, str] = {"api": "composite:api", "cfn": "composite:api-cfn"}
NO_CFN: dict[Api, str] = {"api": "", "cfn": ", or say --no-cfn if it is not deployed"}
FLAVORED = "heat.api:pipeline_factory"
CONTEXT = "heat.common.context:ContextMiddleware_filter_factory"
VERIFIES = "keystonemiddleware.auth_token:filter_factory"
"""The only filter that leaves a proof of what it verified: the door looks for it."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A way to one of Heat's APIs: the names of its filters and of the application, and whether heat.conf takes it."""

    api: Api
    name: str
    filters: Sequence[str]
    app: str
    used: bool
    place: Span

    def with_door(self, door: str) -> str:
        """The names of the pipeline as they should be."""
        others = [one for one in self.filters if one not in (door, *DOORS.values())]
        return " ".join([*others, door, self.app])


def examine_doors(paste: Ini, flavor: str, cfn: bool, unverified: bool) -> Iterator[Sign]:
    """What there is to say of each pipeline. Without `cfn` heat-api-cfn is not deployed; `unverified` contexts are
    trusted."""
    found = pipelines(paste, flavor)
    for api in ("api", "cfn") if cfn else ("api",):
        if not any(pipeline.used for pipeline in found if pipeline.api == api) and (
            api == "api" or _serves(paste, api)
        ):
            message = f"{SERVICES[api]} has no pipeline of the flavor {flavor or 'default'}"
            fix = f"write `{flavor or 'default'} = ... {DOORS[api]} APPLICATION` under [{COMPOSITES[api]}]{NO_CFN[api]}"
            yield Sign("finding", "door", message, paste.place(COMPOSITES[api]), fix)
    for pipeline in found:
        if pipeline.api == "cfn" and not cfn:
            yield Sign("note", "door", f"{pipeline.name} is said not to be deployed", pipeline.place)
        else:
            yield from _examine(pipeline, paste, unverified)


def pipelines(paste: Ini, flavor: str) -> list[Pipeline]:
    """Every way to one of Heat's APIs: flavors of composites, plain pipelines, and applications mounted as they are."""
    found: list[Pipeline] = []
    for section, told in paste.sections.items():
        kind, _, name = section.partition(":")
        ways: list[tuple[str, str, bool]] = []
        if kind == "pipeline":
            ways = [("pipeline", "", name in _started(paste, flavor) or not name.startswith("heat-api"))]
        elif kind in ("composite", "composit") and told.options.get("paste.composite_factory") == FLAVORED:
            ways = [(key, f" {key}", key == (flavor or "default")) for key in told.options if "." not in key]
        elif kind in ("composite", "composit"):
            ways = [(key, f" {key}", True) for key in told.options if key.startswith("/") or "://" in key]
        for key, label, used in ways:
            *filters, app = told.options.get(key, "").split() or [""]
            if api := _api(paste, app):
                found.append(Pipeline(api, f"[{section}]{label}", filters, app, used, paste.place(section, key)))
    return found


def given(paste: Ini, flavor: str) -> dict[str, dict[str, str]]:
    """The options that the sections of the doors in use give, by section."""
    used = {one for way in pipelines(paste, flavor) if way.used for one in way.filters}
    told = {
        section: paste.sections[section].options
        for name in sorted(used)
        if _factory(paste, name) in FACTORIES and (section := f"filter:{name}")
    }
    return {
        section: {key: value for key, value in options.items() if key != "use" and not key.startswith("paste.")}
        for section, options in told.items()
    }


def _started(paste: Ini, flavor: str) -> set[str]:
    """What Heat starts: the application of the flavor if there is one (heat/common/config.py:544-557)."""
    there = {section.partition(":")[2] for section in paste.sections}
    return {named if (named := f"{service}-{flavor}") in there else service for service in SERVICES.values()}


def _serves(paste: Ini, api: Api) -> bool:
    return any(section.partition(":")[2] == SERVICES[api] for section in paste.sections)


def _examine(way: Pipeline, paste: Ini, unverified: bool) -> Iterator[Sign]:
    factories = [_factory(paste, one) for one in way.filters]
    defined = (name.removeprefix("filter:") for name in paste.sections if name.startswith("filter:"))
    door = next((one for one in defined if FACTORIES.get(_factory(paste, one)) == way.api), None)
    right = f"write `{way.with_door(door or DOORS[way.api])}` there"
    if not way.filters:
        right = "let a pipeline with a door lead there, or nothing"
    doors = [at for at, one in enumerate(factories) if FACTORIES.get(one) == way.api]
    said: list[tuple[str, Span, str]] = []
    for name, factory in zip(way.filters, factories, strict=True):
        section = f"filter:{name}"
        if factory in FACTORIES and FACTORIES[factory] != way.api:
            said.append((f"{name} in {way.name} is the door of {SERVICES[FACTORIES[factory]]}", way.place, right))
        elif name.startswith("datalog_gate") and factory not in FACTORIES:
            message = f"{name} in {way.name} is no door: [{section}] {f'names {factory}' if factory else 'is missing'}"
            fix = f"write `use = egg:datalog-gate#{DOORS[way.api]}` under [{section}]"
            said.append((message, paste.place(section) if factory else way.place, fix))
    if not doors and not said:
        name = DOORS[way.api]
        fix = right if door else f"{right}, and a section [filter:{name}] with `use = egg:datalog-gate#{name}`"
        what = f"no door stands before {way.app} in {way.name}: its requests are not judged"
        said.append((what, way.place, fix + NO_CFN[way.api]))
    if doors and (between := way.filters[doors[-1] + 1 :]):
        what = (
            f"between the door and {way.app} in {way.name} stands {', '.join(between)}: what that changes is not judged"
        )
        said.append((what, way.place, right))
    if doors and VERIFIES not in factories[: factories.index(CONTEXT) if CONTEXT in factories else 0]:
        believed = "any is believed" if unverified else "none is believed, and no operation can be judged"
        what = f"in {way.name} no authtoken verifies who asks before the context is made: {believed}"
        fix = "choose a flavor with `authtoken context` in this order, in [paste_deploy] of heat.conf"
        said.append((what, way.place, fix))
    if not way.used:
        state = "has no door that would hold" if said else "has its door"
        yield Sign("note", "door", f"{way.name}, which is not in use, {state}", way.place)
        return
    for message, place, fix in said:
        yield Sign("finding", "door", message, place, fix)
    if not said:
        yield Sign("ok", "door", f"{way.name} has its door", way.place)


def _api(paste: Ini, app: str) -> Api | None:
    """Which of Heat's APIs the application of that name is."""
    for kind in ("app", "application"):
        for name in _same(paste, kind, app):
            if api := APPS.get(paste.get(f"{kind}:{name}", "heat.app_factory")):
                return api
    return None


def _factory(paste: Ini, name: str) -> str:
    """What makes the filter of that name: ``module:function``, or ``egg:distribution#entry``; empty if nothing does."""
    for one in _same(paste, "filter", name):
        if factory := paste.get(f"filter:{one}", "paste.filter_factory"):
            return factory
        scheme, colon, rest = paste.get(f"filter:{one}", "use").partition(":")
        if scheme == "egg":
            distribution, _, entry = rest.partition("#")
            return f"egg:{distribution.lower().replace('_', '-')}#{entry or 'main'}"
        if colon:
            return rest if scheme == "call" else f"{scheme}:{rest}"
    return ""


def _same(paste: Ini, kind: str, name: str) -> Iterator[str]:
    """The name, and those of the sections that it uses in turn."""
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        yield name
        name = paste.get(f"{kind}:{name}", "use")
