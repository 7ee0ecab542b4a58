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

from datalog_gate.decision_point.enabled_plugins import load_enabled_services
from datalog_gate.decision_point.settings import Settings
from datalog_gate.plugins.plugin_errors import UnavailableError
from datalog_gate.rack_affinity import solver
from datalog_gate.rack_affinity.service import RackAffinity
from datalog_gate.services import placement
from datalog_gate.services.claims import PlacementClaim, needs
from datalog_gate.services.contract import Service
from datalog_gate.services.licence_pool import LicencePool
from datalog_gate.services.placement import Api, Placement
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


NO_PREFIX = "prefix must begin with CUSTOM_, and contain only capitals, digits and _"


@pytest.mark.parametrize(
    ("service", "settings", "message"),
    [
        (LicencePool, {"prefix": "VCPU"}, NO_PREFIX),
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
    assert LicencePool({"endpoint": LOCAL, "store": str(tmp_path / "own")})._claims.lease == 20.0


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
        service: Service = LicencePool({"endpoint": url, "store": str(tmp_path / "f"), "timeout": "0.2"})
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


def test_lines_add_up_to_the_most_of_each_and_an_item_counts_once() -> None:
    def claim(key: str, line: str, grant: str, **items: int) -> PlacementClaim:
        taken = {name: [("p", "C", units)] for name, units in items.items()}
        return PlacementClaim(key=key, consumer="", line=line, project="", grant=grant, items=taken, decision={})

    first, second = claim("a", "1", "g", x=2, y=1), claim("b", "1", "g", x=1)
    assert needs([first, second]) == Counter({("p", "C"): 3})
    assert needs([first, second, claim("c", "2", "h", y=1, z=5)]) == Counter({("p", "C"): 8})
    assert needs([first, claim("c", "2", "h", y=3)]) == Counter({("p", "C"): 6})
    assert needs([first, claim("c", "2", "g", x=2, y=1)]) == Counter({("p", "C"): 6})
