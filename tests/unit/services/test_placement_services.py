"""The services of Placement without a server: settings and requests."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from datalog_gate.base.values import ResourceId
from datalog_gate.decision_point.enabled_plugins import load_enabled_services
from datalog_gate.decision_point.settings import Settings
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.rack_affinity import solver
from datalog_gate.rack_affinity.demand import read_demand, read_flavors
from datalog_gate.rack_affinity.places import read_places
from datalog_gate.rack_affinity.problem import LARGEST, Constraint, Item, Problem
from datalog_gate.rack_affinity.service import RackAffinity
from datalog_gate.services import placement
from datalog_gate.services.claims import PlacementClaim, needs
from datalog_gate.services.contract import Request, Service
from datalog_gate.services.licence_pool import LicencePool
from datalog_gate.services.parts import Part
from datalog_gate.services.placement import Api, Placement
from tests.expressions import worded
from tests.ledger import request

LOCAL = "http://127.0.0.1:1"
KEYSTONE = {"auth_url": "https://identity/v3", "username": "gate", "project_name": "service"}

SETTINGS: dict[str, tuple[dict[str, str], str]] = {
    "plain http elsewhere": ({"endpoint": "http://placement"}, "endpoint must begin with https"),
    "no time": ({"endpoint": LOCAL, "timeout": "0"}, "timeout must be more than 0 seconds, and 300 at most"),
    "no authorities": ({"endpoint": LOCAL, "cafile": "/none"}, "cafile: there is no /none"),
    "unknown": ({**KEYSTONE, "colour": "red"}, "there is no setting colour"),
    "a password in the open": (
        {**KEYSTONE, "password": "x"},
        "password must not be written in a setting: use password_file",
    ),
    "a file of what is no secret": ({**KEYSTONE, "username_file": "x"}, "there is no setting username_file"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_placement_that_are_wrong_are_refused(name: str) -> None:
    settings, message = SETTINGS[name]
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared below
        Placement(settings)
    assert str(error.value) == message


def test_a_password_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    placement = Placement({**KEYSTONE, "password_file": str(tmp_path / "password"), "user_domain_id": "default"})
    auth: Any = placement._api.adapter.session.auth
    assert (auth._username, auth._password) == ("gate", "secret")
    with pytest.raises(FileNotFoundError):
        Placement({**KEYSTONE, "password_file": str(tmp_path / "none")})


def test_authorities_are_those_of_a_file_or_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("")
    for settings, verify in (({"cafile": str(tmp_path / "ca")}, str(tmp_path / "ca")), ({}, True)):
        assert Placement({"endpoint": LOCAL, **settings})._api.adapter.session.verify == verify


NO_FILE = "the service needs a store for its claims: a URL, or the path of a file"
NO_PREFIX = "prefix must begin with CUSTOM_, and contain only capitals, digits and _"


@pytest.mark.parametrize(
    ("service", "settings", "message"),
    [
        (LicencePool, {}, NO_FILE),
        (LicencePool, {"prefix": "VCPU"}, NO_PREFIX),
        (RackAffinity, {}, NO_FILE),
        (RackAffinity, {"prefix": "VCPU"}, NO_PREFIX),
        (RackAffinity, {"seconds": "-1"}, "seconds must be more than 0 seconds, and 300 at most"),
    ],
)
def test_settings_of_a_service_that_are_wrong_are_refused(service: Any, settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared below
        service({"endpoint": LOCAL, **settings})
    assert str(error.value) == message


def test_leases_and_patience_grow_with_the_time_of_a_call(tmp_path: Path) -> None:
    settings = Settings(
        services=("licence",),
        service_option=(f"licence.endpoint={LOCAL}",),
        store=str(tmp_path / "store"),
        service_call_seconds=100.0,
    )
    [service] = load_enabled_services(settings).values()
    assert isinstance(service, LicencePool)
    assert (service._claims.lease, service._claims.patience) == (200.0, 80.0)
    assert LicencePool({"endpoint": LOCAL, "file": str(tmp_path / "own")})._claims.lease == 20.0


def test_without_or_tools_the_service_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _name: None)
    with pytest.raises(ValueError, match="OR-Tools is not installed: pip install"):
        RackAffinity({})


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_placement_without_an_answer_is_unavailable(silent: str, tmp_path: Path) -> None:
    reasons = {}
    for url in (silent, LOCAL):
        service: Service = LicencePool({"endpoint": url, "file": str(tmp_path / "f"), "timeout": "0.2"})
        with pytest.raises(UnavailableError) as error:
            service.reserve(replace(request("u", "db"), options={"name": "l"}))
        reasons[url] = error.value.reason
    assert reasons == {
        silent: "Placement does not answer: ConnectTimeout",
        LOCAL: "Placement does not answer: ConnectFailure",
    }


def test_a_recent_answer_serves_again_and_an_older_one_while_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers = [1000.0], ["first", OSError("down"), "second", OSError("down"), OSError("down")]

    def ask(_path: str, _method: str, **_more: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return SimpleNamespace(status_code=200, content=b"x", json=lambda: answer)

    monkeypatch.setattr(placement, "time", SimpleNamespace(monotonic=lambda: now[0]))
    api = Api("Nova", SimpleNamespace(request=ask), (OSError,))
    seen = []
    for after in (0, 4, 6, 7, 60):
        now[0] = 1000.0 + after
        seen.append(api.recent("/x"))
    assert (seen, len(answers)) == (["first", "first", "first", "second", "second"], 1)
    now[0] = 1070.0
    with pytest.raises(UnavailableError) as error:
        api.recent("/x")
    assert error.value.reason == "Nova does not answer: OSError"


def part(id_: str, type_: str = "OS::Nova::Server", open_: bool = False, **properties: Any) -> Part:
    return Part(id_, type_, properties, None, frozenset(), False, open_)


def of(*scope: Part, **options: Any) -> Request:
    return replace(request("u", service="rack_affinity"), scope=scope, options=options)


VOLUME = part("s/v", "OS::Cinder::Volume", size=10, availability_zone="z1")
WORD = "the option spread must be {level: rack, at_least: 2}, with a whole number from 1"
FLAVORS = {"large": {"VCPU": 8, "MEMORY_MB": 16}}
REQUESTS: dict[str, tuple[Request, Problem | None]] = {
    "a server and a volume in a rack": (
        of(part("s/a", flavor="large"), VOLUME, part("s/n", "OS::Neutron::Net"), same="rack"),
        Problem(
            (),
            (Item("s/a", "server", FLAVORS["large"]), Item("s/v", "volume", {"DISK_GB": 10}, "z1")),
            (Constraint("s/grant", "same: rack", "rack", ("s/a", "s/v")),),
        ),
    ),
    "what nobody knows counts one": (
        of(
            part("s/a", flavor=ResourceId("s/f"), availability_zone=worded("x")),
            part("s/b", flavor="small"),
            part("s/v", "OS::Cinder::Volume", size=worded("x")),
            part("s/w", "OS::Cinder::Volume", size="7"),
        ),
        Problem(
            (),
            (
                Item("s/a", "server", {"VCPU": 1}),
                Item("s/b", "server", {"VCPU": 1}),
                Item("s/v", "volume", {"DISK_GB": 1}),
                Item("s/w", "volume", {"DISK_GB": 7}),
            ),
        ),
    ),
    "a volume larger than any": (
        of(part("s/v", "OS::Cinder::Volume", size="9" * 5000)),
        Problem((), (Item("s/v", "volume", {"DISK_GB": 10 * LARGEST}),)),
    ),
    "members over hosts": (
        of(part("s/g", "OS::Heat::ResourceGroup"), part("s/g/0"), spread={"level": "host", "at_least": 1}),
        Problem(
            (),
            (Item("s/g/0", "server", {"VCPU": 1}),),
            (Constraint("s/grant", "spread: host, at least 1", "host", ("s/g/0",), 1),),
        ),
    ),
    "an option that nobody knows": (
        of(part("s/a"), spread={"level": "host", "at_least": worded("x")}),
        None,
    ),
    "members that nobody can count": (of(part("s/g", open_=True)), None),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_grant_is_read(name: str) -> None:
    request, expected = REQUESTS[name]
    assert read_demand(request, FLAVORS) == expected


REFUSED: dict[str, tuple[Request, str]] = {
    "another option": (of(part("s/a"), rack=1), "there is no option rack, only same and spread"),
    "no level": (of(part("s/a"), same="row"), "the option same must name a level, host, rack or zone"),
    "no level to spread": (
        of(part("s/a"), spread={"level": 1, "at_least": 1}),
        "the option spread must name a level, host, rack or zone",
    ),
    "none": (of(part("s/a"), spread={"level": "rack", "at_least": 0}), WORD),
    "more than there can be": (of(part("s/a"), spread={"level": "rack", "at_least": 2**63}), WORD),
    "a yes": (of(part("s/a"), spread={"level": "rack", "at_least": True}), WORD),
    "a word": (of(part("s/a"), spread="rack"), WORD),
    "one too many": (of(part("s/a"), spread={"level": "rack", "at_least": 1, "most": 2}), WORD),
    "nothing to place": (of(part("s/n", "OS::Neutron::Net")), "there is no server and no volume in scope"),
    "a volume on a host": (
        of(part("s/a"), VOLUME, same="host"),
        "s/v is a volume, which is not on a host: use rack, or remove it from the scope",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_grant_with_wrong_options_is_refused(name: str) -> None:
    request, reason = REFUSED[name]
    with pytest.raises(RefusedError) as error:
        read_demand(request, {})
    assert error.value.reason == reason


def test_files_of_flavors_and_places_are_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text('{"flavor": "small", "MEMORY_MB": 512}\n{"flavor": "large", "VCPU": 4}\n')
    assert read_flavors(str(file)) == {"small": {"VCPU": 1, "MEMORY_MB": 512}, "large": {"VCPU": 4}}
    file.write_text('{"provider": "h", "rack": "r"}\n{"aggregate": "a", "name": "n", "zone": "z"}\n')
    assert read_places(str(file)) == [{"provider": "h", "rack": "r"}, {"aggregate": "a", "name": "n", "zone": "z"}]
    assert (read_flavors(""), read_places("")) == ({}, [])


@pytest.mark.parametrize("line", ["[]", "{}", '{"flavor": 1}', '{"flavor": "f", "VCPU": -1}', "{"])
def test_what_is_no_flavor_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "file").write_text(line)
    with pytest.raises(ValueError):  # noqa: PT011 - one is json's own
        read_flavors(str(tmp_path / "file"))


@pytest.mark.parametrize("line", ["[]", "{}", '{"provider": "h", "aggregate": "a"}', '{"provider": 1}', '{"row": "r"}'])
def test_what_is_no_place_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "file").write_text(line)
    with pytest.raises(ValueError, match="this is not a place"):
        read_places(str(tmp_path / "file"))


def test_lines_add_up_to_the_most_of_each_and_an_item_counts_once() -> None:
    def claim(key: str, line: str, grant: str, **items: int) -> PlacementClaim:
        taken = {name: [("p", "C", units)] for name, units in items.items()}
        return PlacementClaim(key=key, consumer="", line=line, project="", grant=grant, items=taken, decision={})

    first, second = claim("a", "1", "g", x=2, y=1), claim("b", "1", "g", x=1)
    assert needs([first, second]) == Counter({("p", "C"): 3})
    assert needs([first, second, claim("c", "2", "h", y=1, z=5)]) == Counter({("p", "C"): 8})
    assert needs([first, claim("c", "2", "h", y=3)]) == Counter({("p", "C"): 6})
    assert needs([first, claim("c", "2", "g", x=2, y=1)]) == Counter({("p", "C"): 6})
