"""Defaults of properties that heat.conf sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.decision_point.point import create_point
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.heat_defaults import HEAT_DEFAULTS, TYPES, apply_defaults
from tests.commands import read_conf, run
from tests.unit.decision_point.test_decision_point import make_operation

RULES = """\
@deny("signal", "{id} signals by {t}")
signal(id, t) :- os:heat:software_deployment(_id=id, signal_transport=t), t != "HEAT_SIGNAL".
@deny("format", "{id} is a {f}")
format(id, f) :- os:nova:server(_id=id, user_data_format=f), f != "RAW".
"""
TEMPLATE: dict[str, Any] = {
    "heat_template_version": "2018-08-31",
    "resources": {
        "d": {"type": "OS::Heat::SoftwareDeployment", "properties": {"server": "s", "config": "c"}},
        "web": {"type": "OS::Nova::Server", "properties": {"image": "i", "flavor": "f"}},
    },
}
CONF = "[DEFAULT]\ndefault_deployment_signal_transport = HEAT_SIGNAL\ndefault_user_data_format = RAW\n"
FILES = {"m.dl": RULES, "web.yaml": json.dumps(TEMPLATE), "heat.conf": CONF, "stock.conf": "[DEFAULT]\n"}
pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize(("conf", "verdict"), [("heat.conf", "allowed"), ("stock.conf", "denied")])
def test_a_service_reads_the_defaults_of_its_heat_conf(folder: Path, conf: str, verdict: str) -> None:
    point = create_point(read_conf(folder / conf), {"rules": f"{folder}/m.dl"})
    assert point.judge(make_operation(TEMPLATE)).verdict == verdict


@pytest.mark.parametrize(("more", "expected"), [([], 1), (["--heat-conf", "heat.conf"], 0)])
def test_check_takes_the_defaults_of_a_heat_conf(
    capsys: pytest.CaptureFixture[str], more: list[str], expected: int
) -> None:
    assert run(capsys, "check", "web.yaml", "--rules", "m.dl", "--no-cache", *more)[0] == expected


def test_replay_takes_the_defaults_of_a_heat_conf(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point = create_point(
        read_conf(folder / "heat.conf"), {"rules": f"{folder}/m.dl", "decision_log": f"{folder}/log.jsonl"}
    )
    point.judge(make_operation(TEMPLATE))
    point.flush()
    same = (0, "1 the same, 0 others, 0 that can't be decided\n", "")
    assert run(capsys, "replay", "log.jsonl", "--rules", "m.dl", "--heat-conf", "heat.conf") == same
    assert run(capsys, "replay", "log.jsonl", "--rules", "m.dl")[0] == 1


def test_every_type_with_such_a_default_is_known() -> None:
    stock = set(HEAT_DEFAULTS.values())
    having = [
        name
        for name in SHIPPED.types()
        if (kind := SHIPPED.type(name)) and any((part.name, str(part.default)) in stock for part in kind.properties)
    ]
    assert sorted(having) == sorted(TYPES)
    assert apply_defaults(SHIPPED, {name: default for name, (_, default) in HEAT_DEFAULTS.items()}) is SHIPPED
