"""The places of violations in all fixtures.

They cover values that come from outside a template too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.doors.cli.main import main
from tests.pages import assert_written

ROOT = Path(__file__).parents[3]
STACKS = sorted((ROOT / "fixtures/stacks").iterdir())
NODE = """\
heat_template_version: 2018-08-31
parameters:
  flavor: {type: string}
  nets: {type: json, default: {a: [bad]}}
resources:
  srv:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: flavor}
      name: {get_param: [nets, a, 0]}
      image: {list_join: ['', [b, ad]]}
"""
MIDDLE = """\
heat_template_version: 2018-08-31
parameters: {size: {type: string}}
resources:
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 1
      resource_def:
        type: node.yaml
        properties: {flavor: {get_param: size}, nets: {a: [{get_param: size}]}}
"""
TOP = """\
heat_template_version: 2018-08-31
parameters:
  size: {type: string, default: bad}
resources:
  middle:
    type: middle.yaml
    properties:
      size: {get_param: size}
"""
ENV = """\
# sizes
parameters:
  size:
    bad
"""
RULE = """\
@deny("p", "bad")
p(s, v) :- os:nova:server(_id=s, {column}=v), v = "bad".
p(s, v) :- aws:ec2:instance(_id=s, ImageId=v), v = "bad".
"""


def places(rule: str, folder: Path, template: str, **inputs: object) -> list[str]:
    (folder / "m.dl").write_text(rule)
    stack = dg.read_stack(folder / template, **inputs)  # type: ignore[arg-type]
    violations = dg.load_rules(folder / "m.dl").decide(stack).violations
    return [str(violation.place).removeprefix(f"{folder}/") for violation in violations]


FILES = {"node.yaml": NODE, "middle.yaml": MIDDLE, "top.yaml": TOP, "env.yaml": ENV}


@pytest.mark.parametrize(
    ("template", "inputs", "column", "place"),
    [
        ("top.yaml", {}, "flavor", "top.yaml:3:33"),
        ("top.yaml", {"environments": ["env.yaml"]}, "flavor", "env.yaml:4:5"),
        ("top.yaml", {"environments": ["env.yaml"]}, "name", "env.yaml:4:5"),
        ("top.yaml", {"parameters": {"size": "bad"}}, "flavor", "top.yaml:8:13"),
        ("middle.yaml", {"environment": {"parameter_defaults": {"size": "bad"}}}, "flavor", "middle.yaml:10:30"),
        ("node.yaml", {"parameters": {"flavor": "x"}}, "name", "node.yaml:4:36"),
        ("node.yaml", {"parameters": {"flavor": "x"}}, "image", "node.yaml:11:14"),
    ],
)
def test_a_value_from_a_parameter_has_the_place_where_it_was_written(
    folder: Path, template: str, inputs: dict[str, object], column: str, place: str
) -> None:
    if "environments" in inputs:
        inputs = {"environments": [folder / "env.yaml"]}
    assert places(RULE.replace("{column}", column), folder, template, **inputs) == [place]


@pytest.mark.parametrize(
    "rule",
    [
        '@deny("p", "bad")\np(file) :- heat:environment(file=file, value="bad").\n',
        '@deny("p", "bad")\np(s, v) :- os:nova:server(_id=s, flavor=v), v = "bad".\n',
    ],
)
def test_a_finding_on_an_environment_of_one_line_has_its_place(rule: str, folder: Path) -> None:
    (folder / "env.yaml").write_text('{"parameters": {"size": "bad"}}')
    assert places(rule, folder, "top.yaml", environments=[folder / "env.yaml"]) == ["env.yaml:1:25"]


def test_an_error_over_an_environment_of_one_line_has_its_place(folder: Path) -> None:
    (folder / "env.yaml").write_text('{"parameters": {"size": "bad"}}')
    (folder / "m.dl").write_text(
        '@deny("p", "bad")\np(n) :- heat:environment(value=v), is_string(v), cidr_host_count(v, n).\n'
    )
    stack = dg.read_stack(folder / "top.yaml", environments=[folder / "env.yaml"])
    [error] = dg.load_rules(folder / "m.dl").decide(stack).errors
    assert str(error.place) == f"{folder}/env.yaml:1:25"


def test_a_reference_of_cloudformation_leads_to_the_parameter_too(folder: Path) -> None:
    (folder / "cfn.yaml").write_text(
        "HeatTemplateFormatVersion: 2012-12-12\nParameters:\n  Image: {Type: String, Default: bad}\n"
        "Resources:\n  Srv: {Type: AWS::EC2::Instance, Properties: {ImageId: {Ref: Image}}}\n"
    )
    assert places(RULE.replace("{column}", "name"), folder, "cfn.yaml") == ["cfn.yaml:3:34"]


def run_check(stack: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The findings of a fixture as `check` prints them: each with its line underlined."""
    template = next(stack.glob("template.*")).relative_to(ROOT)
    environment = [word for file in stack.glob("env.yaml") for word in ("-e", str(file.relative_to(ROOT)))]
    main(["check", str(template), *environment, "--rules", "rules", "--stack-name", stack.name])
    lines = capsys.readouterr().out.splitlines()[:-1]
    return "".join(f"{line}\n" for line in lines if not line.startswith(("  hint", "grant")))


@pytest.mark.slow
def test_each_violation_of_the_fixtures_has_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    output = "".join(run_check(stack, capsys) for stack in STACKS)
    assert_written(ROOT / "tests/golden/positions.txt", output)


def test_a_secret_is_not_shown_where_its_parameter_leads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "node.yaml").write_text(NODE.replace("flavor: {type: string}", "flavor: {type: string, hidden: true}"))
    (folder / "m.dl").write_text(RULE.replace("{column}", "flavor"))
    main(["check", str(folder / "top.yaml"), "-e", str(folder / "env.yaml"), "--rules", str(folder / "m.dl")])
    place, row, underline, _ = capsys.readouterr().out.splitlines()
    assert (place, row, underline) == (f"{folder}/env.yaml:4:5: deny[p] bad", "  4 |     ***", "    |     ^^^")


def test_nested_servers_stand_where_the_stacks_around_them_say_their_values(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text(
        '@deny("p", "{server} {value}")\np(server, value) :- os:nova:server(_id=server, flavor=value).\n'
        "p(server, value) :- os:nova:server(_id=server, availability_zone=value).\n"
        "p(server, value) :- os:neutron:port.security_groups(_id=server, _value=value).\n"
    )
    shop = ROOT / "fixtures/stacks/shop"
    decision = dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(shop, environment={"parameters": {"workers": 1}}))
    assert [f"{violation.message} {violation.place}".replace(f"{shop}/", "") for violation in decision.violations] == [
        "shop/back/workers/0/port shop_sg template.yaml:29:14",
        "shop/back/workers/0/server m1.small back.yaml:17:19",
        "shop/back/workers/0/server nova-1 template.yaml:8:33",
        "shop/front/port shop_sg template.yaml:22:14",
        "shop/front/server m1.medium template.yaml:20:15",
        "shop/front/server nova-1 template.yaml:8:33",
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (
            "heat_template_version: 2018-08-31\nparameters:\n  n: {type: number, default: 1, description: d}\n"
            "conditions:\n  c: {equals: [1, 1]}\noutputs:\n  o: {value: 1}\nresources: {r: {type: OS::Heat::None}}\n",
            "condition 5:3, output 7:3, parameter 3:3, parameter_attribute 3:21, parameter_attribute 3:33, "
            "section 4:1, section 1:1, section 6:1, section 2:1, section 8:1",
        ),
        (
            "AWSTemplateFormatVersion: 2010-09-09\nParameters:\n  n: {Type: Number, Default: 1, Description: d}\n"
            "Outputs:\n  o: {Value: 1}\nResources: {r: {Type: OS::Heat::None}}\n",
            "output 5:3, parameter 3:3, parameter_attribute 3:33, parameter_attribute 3:6, section 1:1, section 4:1, "
            "section 2:1, section 6:1",
        ),
    ],
)
def test_the_other_sections_of_a_template_have_their_places(
    text: str, places: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.yaml").write_text(text)
    relations = [
        f"--relation=heat:{relation}"
        for relation in ("condition", "output", "parameter", "parameter_attribute", "section")
    ]
    main(["facts", str(tmp_path / "t.yaml"), *relations])
    lines = [
        line.partition("(")[0] + " " + line.partition("t.yaml:")[2] for line in capsys.readouterr().out.splitlines()
    ]
    assert ", ".join(lines).replace("heat:", "") == places
