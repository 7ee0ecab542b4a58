"""Grants, flavors and places as `rack_affinity` reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.base.values import ResourceId
from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.rack_affinity.demand import read_demand, read_flavors
from datalog_gate.rack_affinity.places import read_places
from datalog_gate.rack_affinity.problem import LARGEST, Constraint, Item, Problem
from datalog_gate.services.contract import Request
from datalog_gate.services.parts import Part
from tests.expressions import worded
from tests.ledger import request


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
