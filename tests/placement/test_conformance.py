"""The services of Placement keep the promises of a service."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from datalog_gate.rack_affinity.service import RackAffinity
from datalog_gate.services.conformance import Conformance, asked
from datalog_gate.services.contract import Request, Service
from datalog_gate.services.licence_pool import LicencePool
from tests.placement.rig import Cloud


class _Placed(Conformance):
    """Each folder has a provider of its own, with room for two."""

    room = 2
    cloud: Cloud

    @pytest.fixture(autouse=True)
    def _cloud(self, cloud: Cloud, tmp_path: Path) -> None:
        self.cloud, name = cloud, _name(tmp_path)
        cloud.provider(name, {f"CUSTOM_{name}_L": 2, f"CUSTOM_{name}_VCPU": 2}, "CUSTOM_RACK_R1")

    def settings(self, folder: Path) -> dict[str, str]:
        name = _name(folder)
        return {
            "endpoint": self.cloud.url,
            "store": str(folder / "claims"),
            "prefix": f"CUSTOM_{name}_",
            "timeout": "30",
        }


def _name(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode()).hexdigest().upper()


class TestLicence(_Placed):
    def make(self, folder: Path) -> Service:
        return LicencePool(self.settings(folder))

    def request(self, uuid: str) -> Request:
        return asked("licence", uuid, "vm", type="OS::Nova::Server", name="l")

    def refused(self, uuid: str) -> Request:
        return replace(self.request(uuid), options={"name": "nobody"})


class TestRackAffinity(_Placed):
    def make(self, folder: Path) -> Service:
        return RackAffinity(self.settings(folder))

    def request(self, uuid: str) -> Request:
        return asked("rack_affinity", uuid, "vm", type="OS::Nova::Server", same="rack")

    def refused(self, uuid: str) -> Request:
        return replace(self.request(uuid), options={"spread": {"level": "rack", "at_least": 2}})
