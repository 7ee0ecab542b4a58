"""What `check` prints about grants."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.doors.cli.main import main

RULES = """
@unlock("rack")
rack(g) :- gate:grant(id=g, service="rack"), not gate:grant_option(id=g, path="locked").
@deny("bad", "{k} is bad")
bad(k) :- os:nova:key_pair(_id=k, name="bad").
"""
STACK = """\
heat_template_version: 2018-08-31
parameters:
  pin: {{type: string, hidden: true, default: s3cret}}
resources:
  g: {{type: DatalogGate::Policy, properties: {{service: rack{more}}}}}
  a: {{type: OS::Nova::KeyPair, properties: {{name: k}}}}
  group:
    type: OS::Heat::ResourceGroup
    properties: {{count: 2, resource_def: {{type: OS::Nova::KeyPair, properties: {{name: k}}}}}}
"""
NONE = "grant s/g does not unlock rack: "


@pytest.mark.parametrize(
    ("more", "services", "line"),
    [
        ("", "rack", "grant s/g asks rack for a, group"),
        (", scope: [group.1], options: {same: rack}", "rack", "grant s/g asks rack for group (same: rack)"),
        (
            ", options: {spread: {level: rack, at_least: 2}, of: [x, 1.5, true, {get_resource: a}]}, scope: [group]",
            "other,rack",
            "grant s/g asks rack for group (spread: {level: rack, at_least: 2}, of: [x, 1.5, true, s/a])",
        ),
        (
            ", options: {pin: {get_param: pin}, nothing: null}",
            "rack",
            "grant s/g asks rack for a, group (pin: ***, nothing: null)",
        ),
        (", options: {locked: 1}", "rack", f"{NONE}no rule unlocks it"),
        (
            "",
            "other",
            f"{NONE}the service rack is not enabled here, or not for this caller: use --services rack on the "
            "command line, or ask the operator to enable it, and to allow it in the policy datalog_gate:grant:rack",
        ),
    ],
)
def test_check_says_which_service_would_be_asked_for_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, services: str, line: str
) -> None:
    (tmp_path / "m.dl").write_text(RULES)
    (tmp_path / "s.yaml").write_text(STACK.format(more=more))
    arguments = ["check", str(tmp_path / "s.yaml"), "--rules", str(tmp_path / "m.dl"), "--services", services]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [line]
    assert main([*arguments, "--format", "compact"]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == []
