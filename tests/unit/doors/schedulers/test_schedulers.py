"""The filters of Nova's and Cinder's schedulers.

Their Placement answers from a table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from keystoneauth1.exceptions import ConnectFailure
from oslo_config import cfg

from datalog_gate.doors.schedulers import reservation
from datalog_gate.services.placement import CONSUMER_TYPE, MICROVERSION

CLAIM, OTHER = str(UUID(int=1)), str(UUID(int=2))
UUIDS = {"h1": "u1", "h2": "u2", "h3": "u3", "c@b1#p": "u4"}
RACKS = {"u1": ["CUSTOM_RACK_R_1", "COMPUTE_NODE"], "u2": ["CUSTOM_RACK_R2"], "u3": ["CUSTOM_RACK_R2"], "u4": []}
HINTS: dict[str, object] = {"datalog_gate_claim": CLAIM, "datalog_gate_host": "h1", "rack": "r 1"}


class Placement:
    """An adapter of a Placement in which project p1 holds room on h1, h2 and a pool, and what it was asked."""

    def __init__(self, failing: object = None) -> None:
        self.failing, self.asked = failing, list[str]()

    def get(self, path: str, *, microversion: str, raise_exc: bool) -> Any:
        assert (microversion, raise_exc) == ("1.38", False)
        self.asked.append(path)
        if isinstance(self.failing, Exception):
            raise self.failing
        return SimpleNamespace(status_code=self.failing or 200, json=lambda: self.body(path))

    def body(self, path: str) -> Any:
        head, _, last = path.partition("?")
        match head.split("/")[1:]:
            case ["allocations", consumer]:
                held: dict[str, object] = {"u1": {}, "u2": {}, "u4": {}} if consumer == CLAIM else {"u3": {}}
                kind = CONSUMER_TYPE if consumer == CLAIM else "INSTANCE"
                return {"allocations": held, "project_id": "p1", "consumer_type": kind}
            case ["resource_providers", uuid, "traits"]:
                return {"traits": RACKS[uuid]}
        name, value = last.split("=")
        uuids = [UUIDS[value.replace("%40", "@").replace("%23", "#")]] if name == "name" else list(UUIDS.values())
        return {"resource_providers": [{"uuid": uuid} for uuid in uuids if name == "name" or value in RACKS[uuid]]}


def module(name: str, **contents: object) -> ModuleType:
    return cast(ModuleType, SimpleNamespace(__name__=name, __path__=[], **contents))


class Rig:
    """Both filters over Nova's and Cinder's base classes, which do nothing here."""

    def __init__(self, placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
        self.placement = placement
        utils = module("nova.utils", get_ksa_adapter=lambda service: {"placement": placement}[service])
        rebuilt = module("nova.scheduler.utils", request_is_rebuild=lambda spec: spec.rebuilt)
        stubs = [
            module("nova", utils=utils),
            utils,
            module("nova.scheduler", filters=module("nova.scheduler.filters", BaseHostFilter=object)),
            rebuilt,
            module("cinder"),
            module("cinder.scheduler", filters=module("cinder.scheduler.filters", BaseBackendFilter=object)),
            module("oslo_log", log=SimpleNamespace(getLogger=lambda _: self)),
        ]
        for stub in stubs:
            monkeypatch.setitem(sys.modules, stub.__name__, stub)
        self.logged: list[str] = []
        self.nova, self.cinder = (self.load(name, monkeypatch) for name in ("nova_filter", "cinder_filter"))
        self.pools = self.cinder.GrantedPoolFilter()
        monkeypatch.setattr(type(self.pools), "ask", staticmethod(reservation.make_ask(lambda: placement)))

    def load(self, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        full = f"datalog_gate.doors.schedulers.{name}"
        monkeypatch.delitem(sys.modules, full, raising=False)
        loaded = import_module(full)
        monkeypatch.delitem(sys.modules, full)
        return loaded

    def warning(self, message: str, *arguments: object) -> None:
        self.logged.append(message % arguments)

    def hosts(
        self,
        hints: Mapping[str, object] | None,
        project: str = "p1",
        names: Sequence[str] = ("h1", "h2", "h3"),
        rebuilt: bool = False,
        **destination: object,
    ) -> list[str]:
        """The hosts that pass for a server; it moves if a cell is its destination."""
        spec = Spec(
            scheduler_hints=hints, project_id=project, instance_uuid="i1", rebuilt=rebuilt,
            requested_destination=Spec(**destination) if destination else None,
        )  # fmt: skip
        states = [SimpleNamespace(nodename=name, uuid=UUIDS[name]) for name in names]
        return [state.nodename for state in self.nova.GrantedHostFilter().filter_all(iter(states), spec)]

    def volumes(self, hints: object, project: str = "p1") -> list[str]:
        """The pools that pass for a volume."""
        properties = {"context": SimpleNamespace(project_id=project), "scheduler_hints": hints}
        names = ("c@b1#p", "c@b1#q", "c@b2#p")
        states = [SimpleNamespace(host=name, backend_id=name) for name in names]
        properties["request_spec"] = {"volume_id": "v1"}
        return [state.host for state in self.pools.filter_all(iter(states), properties)]


class Spec(SimpleNamespace):
    """What Nova keeps of a request."""

    def obj_attr_is_set(self, name: str) -> bool:
        return hasattr(self, name)

    def get_scheduler_hint(self, name: str) -> object:
        hint = self.scheduler_hints[name]
        return hint[0] if isinstance(hint, list) and len(hint) == 1 else hint


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(Placement(), monkeypatch)


def test_a_server_goes_to_the_host_that_its_claim_holds(rig: Rig) -> None:
    assert rig.hosts({name: [hint] for name, hint in HINTS.items()}) == ["h1"]
    assert rig.hosts({**HINTS, "datalog_gate_host": "h2", "rack": "r2"}) == ["h2"]
    assert rig.placement.asked[:3] == [
        f"/allocations/{CLAIM}",
        "/resource_providers?name=h1",
        "/resource_providers/u1/traits",
    ]
    assert (len(rig.placement.asked), rig.logged) == (6, [])


def test_without_hints_of_a_grant_nothing_is_asked_and_all_pass(rig: Rig) -> None:
    assert [rig.hosts(hints) for hints in (None, {}, {"group": ["g"]})] == [["h1", "h2", "h3"]] * 3
    assert [len(rig.volumes(hints)) for hints in (None, {}, {"same_host": "v"})] == [3] * 3
    assert rig.placement.asked == []


FORGED: dict[str, tuple[dict[str, object], str, str]] = {
    "a rack alone": (
        {"rack": "r1"},
        "p1",
        "the hints of a grant are datalog_gate_claim and datalog_gate_host, each a string",
    ),
    "a claim alone": (
        {"datalog_gate_claim": CLAIM},
        "p1",
        "the hints of a grant are datalog_gate_claim and datalog_gate_host, each a string",
    ),
    "two claims": (
        {**HINTS, "datalog_gate_claim": [CLAIM, OTHER]},
        "p1",
        "the hints of a grant are datalog_gate_claim and datalog_gate_host, each a string",
    ),
    "no uuid": ({**HINTS, "datalog_gate_claim": "../x"}, "p1", "datalog_gate_claim is not a UUID"),
    "somebody else's claim": (HINTS, "p2", f"project p2 has no claim {CLAIM}"),
    "a server in place of a claim": ({**HINTS, "datalog_gate_claim": OTHER}, "p1", f"project p1 has no claim {OTHER}"),
    "a host that it does not hold": (
        {**HINTS, "datalog_gate_host": "h3", "rack": "r2"},
        "p1",
        f"claim {CLAIM} has no allocation on h3",
    ),
    "another rack": ({**HINTS, "rack": "r2"}, "p1", "h1 is not in rack r2"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_or_not_reserved_passes_nowhere(name: str, rig: Rig) -> None:
    hints, project, why = FORGED[name]
    assert (rig.hosts(hints, project), rig.volumes(hints, project)) == ([], [])
    assert rig.logged == [f"Nothing is reserved for instance i1: {why}", f"Nothing is reserved for volume v1: {why}"]


@pytest.mark.parametrize(
    ("failing", "why"),
    [
        (ConnectFailure("down"), "Placement does not answer: ConnectFailure: down"),
        (503, f"Placement answered 503 to /allocations/{CLAIM}"),
    ],
    ids=str,
)
def test_without_an_answer_of_placement_nothing_passes(
    failing: object, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(Placement(failing), monkeypatch)
    assert (rig.hosts(HINTS), rig.volumes(HINTS), rig.hosts({})) == ([], [], ["h1", "h2", "h3"])
    assert rig.logged == [f"Nothing is reserved for instance i1: {why}", f"Nothing is reserved for volume v1: {why}"]
    assert rig.hosts(HINTS, cell=None) == ["h1", "h2", "h3"]  # what exists may leave a host all the same


def test_a_server_that_moves_stays_in_its_rack_if_that_has_a_host(rig: Rig) -> None:
    second = {**HINTS, "datalog_gate_host": "h2", "rack": "r2"}
    assert rig.hosts(second, cell=None) == ["h2", "h3"]
    assert rig.hosts(second, names=["h1", "h3"], cell="c") == ["h3"]
    assert rig.hosts(second, names=["h1"], cell="c") == ["h1"]  # or its rack could never be emptied
    assert rig.hosts(second, rebuilt=True) == ["h2", "h3"]
    assert rig.hosts(second, host="h3") == ["h2"]  # no move: a user chose a host


def test_a_volume_goes_to_its_pool_or_to_a_pool_of_its_backend(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    hints = {**HINTS, "datalog_gate_host": "c@b1#p", "rack": "r7"}
    assert rig.volumes(hints) == ["c@b1#p"]  # a provider without a trait for its rack is in any
    monkeypatch.setitem(UUIDS, "c@b1", "u4")
    assert rig.volumes({**hints, "datalog_gate_host": "c@b1"}) == ["c@b1#p", "c@b1#q"]


def test_cinder_finds_placement_by_a_section_of_its_own(rig: Rig) -> None:
    options = {"auth_type": "none", "endpoint_override": "http://127.0.0.1:1/placement"}
    for name, value in options.items():
        cfg.CONF.set_override(name, value, "datalog_gate")
    try:
        adapter = rig.cinder.make_adapter()
        assert (adapter.service_type, adapter.get_endpoint()) == ("placement", options["endpoint_override"])
    finally:
        for name in options:
            cfg.CONF.clear_override(name, "datalog_gate")


def test_the_name_of_the_hint_with_the_rack_is_an_option(rig: Rig) -> None:
    cfg.CONF.set_override("hint", "shelf", "datalog_gate")
    try:
        assert rig.hosts({"rack": "r1"}) == ["h1", "h2", "h3"]
        assert rig.hosts({**HINTS, "shelf": "r2"}) == []
    finally:
        cfg.CONF.clear_override("hint", "datalog_gate")


def test_the_filters_know_placement_as_the_service_does() -> None:
    assert (reservation.CONSUMER_TYPE, reservation.MICROVERSION) == (CONSUMER_TYPE, MICROVERSION)


def test_the_filters_import_nothing_of_the_gate_but_names() -> None:
    code = """if True:
        import json, sys
        import datalog_gate.doors.schedulers.reservation
        print(json.dumps(sorted(name for name in sys.modules if name.startswith("datalog_gate"))))
        print(json.dumps(sorted({"yaml", "yaql", "sqlalchemy", "re2", "ortools"} & sys.modules.keys())))"""
    root = str(Path(reservation.__file__).parents[3])
    shown = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    ours, others = map(json.loads, shown.splitlines())
    assert ours == [
        "datalog_gate",
        "datalog_gate.doors",
        "datalog_gate.doors.schedulers",
        "datalog_gate.doors.schedulers.reservation",
        "datalog_gate.rack_affinity",
        "datalog_gate.rack_affinity.hints",
    ]
    assert others == []
