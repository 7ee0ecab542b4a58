"""The commands `examples` and `diff`, and `test --init POLICY`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalog_gate.doors.cli.commands.rule_examples import brief
from datalog_gate.doors.cli.main import main

RULES = '@deny("big", "{v} is big")\nbig(v) :- os:cinder:volume(_id=v, size=n), n ?? 0 > 500.\n'
NEVER = '@deny("never", "{v}")\nnever(v) :- os:cinder:volume(_id=v, name=n), n = "a", ends_with(n, "b").\n'
OTHER_TYPE = "volume: {type: AWS::EC2::Volume, Size: 501, AvailabilityZone: AvailabilityZone-1, no size}"
VOLUME = "volume: {type: OS::Cinder::Volume, size: %s}"
TEMPLATE = "heat_template_version: 2018-08-31\nresources: {data: {type: OS::Cinder::Volume, properties: {size: 501}}}\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "m.dl").write_text(RULES)
    return tmp_path / "rules"


def test_examples_are_printed_for_people(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "big", "--rules", str(rules)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"big  {rules}/m.dl:2",
        f"denies    {VOLUME % 501}",
        f"passes    {OTHER_TYPE}    os:cinder:volume(_id=v, size=n) is false",
        "passes    volume: {no size, ...}    n ?? 0 > 500 is false",
        "passes    volume: {size: 500, ...}    n ?? 0 > 500 is false",
    ]


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        (
            "os:nova:server.networks(_id=v, port=null).",
            [
                "denies    server: {type: OS::Nova::Server, networks: [{}], flavor: m1.small}",
                "denies    the same with any networks.allocate_network",
                "passes    server: {networks: [{port: port-1}], ...}    port=null is false",
                "passes    server: {no networks, ...}    os:nova:server.networks(_id=v, port=null) is false",
            ],
        ),
        (
            'os:heat:value(_id=v), gate:role(role="guest").',
            [
                "denies    value: {type: OS::Heat::Value, value: value-1}, caller: {roles: [guest]}",
                "passes    caller: {roles: [role-1]}, ...    role=guest is false",
                'passes    caller: {roles: [role-2]}, ...    gate:role(role="guest") is false',
            ],
        ),
        (
            "os:heat:value(_id=v), n = count{ s : os:nova:server(_id=s) }, n >= 0.",
            [
                "denies    value: {type: OS::Heat::Value, value: value-1}",
                "not shown n >= 0: no stack was found in which it alone is false",
            ],
        ),
        (
            'os:heat:software_deployment.actions(_id=v, _value="REBOOT").',
            [
                "denies    software_deployment: {type: OS::Heat::SoftwareDeployment, actions: [REBOOT], "
                "server: server-1}    Heat refuses it: not-allowed",
                "passes    software_deployment: {actions: [x], ...}    _value=REBOOT is false",
                "passes    software_deployment: {no actions, "
                '...}    os:heat:software_deployment.actions(_id=v, _value="REBOOT") is false',
            ],
        ),
        (
            'os:nova:server.metadata(_id=v, _key="a"), heat:metadata(v, "ok").',
            [
                "denies    server: {type: OS::Nova::Server, properties: {metadata: {a: x}, flavor: m1.small}, "
                "metadata: {ok: value-1}}",
                "passes    server: {properties: {metadata: {key-1: x}, ...}, ...}    _key=a is false",
                "passes    v: {type: OS::Heat::Value, value: value-1, metadata: {ok: value-1}}    "
                'os:nova:server.metadata(_id=v, _key="a") is false',
                "passes    server: {metadata: {name: value-1}, ...}    path=ok is false",
                'passes    server: {no metadata, ...}    heat:metadata(v, "ok") is false',
            ],
        ),
    ],
)
def test_what_passes_is_printed_by_its_differences(
    rule: str, lines: list[str], rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rules / "m.dl").write_text(f'@deny("p", "no")\np(v) :- {rule}\n')
    assert main(["examples", "--rules", str(rules)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == lines


def test_many_that_are_alike_are_printed_once(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (rules / "m.dl").write_text(
        '@deny("p", "{n}")\np(n) :- n = count{ v : os:cinder:volume(_id=v) }, n > 3.\n'
        '@deny("q", "{n}")\nq(n) :- n = count{ v : cinder:volumes(id=v) }, n > 3, os:cinder:volume().\n'
    )
    assert main(["examples", "--rules", str(rules)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("denies")]
    assert lines == [
        "denies    volume to volume_4 (4 alike): {type: OS::Cinder::Volume}",
        "denies    volume: {type: OS::Cinder::Volume}, "
        'inventory: {"cinder:volumes": [{id: id-1, size: 1}, 3 more, which differ in id]}',
    ]


def test_what_has_no_example_says_so(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (rules / "n.dl").write_text(NEVER)
    assert main(["examples", "never", "--rules", str(rules)]) == 0
    said = "no-example: no stack was found that it denies; the furthest attempt failed at"
    assert capsys.readouterr().out.splitlines()[1] == f'{said} ends_with(n, "b"), {rules}/n.dl:2'


def test_examples_are_printed_for_programs(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "--rules", str(rules), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (policy,) = data["policies"]
    (example,) = policy["examples"]
    assert (data["schema"], policy["policy"], policy["no-example"]) == ("datalog-gate/examples/1", "big", None)
    assert (example["message"], example["resource"]) == ("volume is big", "stack/volume")
    conditions = ["os:cinder:volume(_id=v, size=n)", "n ?? 0 > 500", "n ?? 0 > 500"]
    assert ([flip["condition"] for flip in example["passes"]], policy["unshown"]) == (conditions, [])
    assert (example["alike"], example["refused"]) == ([], [])


def test_yaml_is_a_test_file_that_passes(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "--rules", str(rules), "--format", "yaml"]) == 0
    text = capsys.readouterr().out
    (rules / "test.yaml").write_text(text)
    assert main(["test", str(rules), "--mutate", "--mutants", "1"]) == 0
    assert text.count("- name:") == 4


def test_the_examples_of_a_policy_become_cases(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(rules)]) == 2
    assert "datalog-gate test --init big" in capsys.readouterr().out
    assert main(["test", "--init", "big", str(rules)]) == 0
    file = rules / "test.yaml"
    assert capsys.readouterr() == (file.read_text(), f"datalog-gate: added to {file}: review what they expect\n")
    assert main(["lint", str(rules)]) == 0
    assert main(["test", "--init", "big", str(rules)]) == 64
    assert "already has a case" in capsys.readouterr().err


OWN = 'relation small(name: string) key(name).\nsmall("m1.small").\n'


@pytest.mark.parametrize(
    ("facts", "inventory"),
    [(OWN, []), ("relation small(name: string) key(name).\n", ["inventory: {small: [{name: m1.small}]}"] * 2)],
)
def test_cases_hold_for_each_folder_that_is_loaded(facts: str, inventory: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "packs" / "own"
    folder.mkdir(parents=True)
    rule = "small_server(s) :- os:nova:server(_id=s, flavor=f), small(f).\n"
    (folder / "m.dl").write_text(f'{facts}@deny("small", "{{s}} is small")\n{rule}')
    assert main(["test", "--init", "small", str(folder)]) == 0
    lines = (folder / "test.yaml").read_text().splitlines()
    assert [line.strip() for line in lines if "inventory" in line] == inventory
    assert [main(["test", str(path)]) for path in (folder, tmp_path)] == [0, 0]


def test_a_policy_without_an_example_has_no_cases(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (rules / "m.dl").write_text(NEVER)
    assert main(["test", "--init", "never", str(rules)]) == 64
    assert "no stack was found that never denies" in capsys.readouterr().err
    assert not (rules / "test.yaml").exists()


def test_rules_are_compared(rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, template = tmp_path / "new.dl", tmp_path / "web.yaml"
    new.write_text(RULES.replace("> 500", "> 501"))
    template.write_text(TEMPLATE)
    assert main(["diff", str(rules), str(new), str(template)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"big: no longer denied: {VOLUME % 501}",
        f"big: no longer denied: {template}: web/data",
    ]
    assert main(["diff", "--policy", "big", str(rules), str(rules), str(template)]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("examples bgi --rules RULES", "bgi: did you mean big?"),
        ("examples other --rules RULES", "other: docs lists all policies"),
        ("diff RULES RULES --policy bgi", "bgi: did you mean big?"),
    ],
)
def test_a_policy_that_is_not_there_is_said(
    command: str, advice: str, rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(rules) if word == "RULES" else word for word in command.split()]) == 64
    assert capsys.readouterr().err == f"datalog-gate: there is no policy {advice}\n"


def test_many_resources_that_change_alike_are_written_once() -> None:
    denied, passed = (
        {"stack": {"heat_template_version": "2018-08-31", "resources": {f"s{n}": {"type": kind} for n in range(4)}}}
        for kind in ("OS::Nova::Server", "AWS::EC2::Instance")
    )
    assert brief(passed, denied) == "s0 to s3 (4 alike): {type: AWS::EC2::Instance}"
