"""Each command and each filter imports what it uses, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalog_gate.doors.cli.option_parser import COMMANDS
from tests.fake_heat import point_of
from tests.imports import run_program
from tests.unit.decision_point.test_decision_point import make_operation

SERVER = "heat_template_version: 2018-08-31\nresources:\n  web: {type: OS::Nova::Server, properties: {flavor: huge}}\n"
FILES = {
    "rules/m.dl": '@deny("flavor", "{s} takes huge")\nflavor(s) :- os:nova:server(_id=s, flavor="huge").\n',
    "rules/test.yaml": "cases: [{name: a, stack: ../web.yaml, expect: {violations: [{policy: flavor}]}}]",
    "pattern.dl": '@deny("name", "{s}")\nname(s) :- os:nova:server(_id=s, name=n), is_string(n), matches(n, "^x").\n',
    "grant.dl": '@unlock("approval")\napproval(g) :- gate:grant(id=g).\n'
    '@deny("flavor", "{s}")\nflavor(s) :- os:nova:server(_id=s), not gate:unlocked("approval", s).\n',
    "web.yaml": SERVER,
    "grant.yaml": f"{SERVER}  grant: {{type: DatalogGate::Policy, properties: {{service: approval, scope: [web]}}}}\n",
    "cloud.jsonl": '{"relation": "nova:tags", "row": {"server_id": "s-1", "tag": "front"}}\n',
}
RUN = """if True:
    import json, os, sys
    from tests.imports import names
    before = names()
    from datalog_gate.doors.cli.main import main
    os.chdir(sys.argv[1])
    codes = set()
    for command in json.loads(sys.argv[2]):
        try:
            codes.add(main(command))
        except SystemExit as end:
            codes.add(end.code)
    print(json.dumps([*codes, sorted(names() - before)]))
"""
JUDGE = """if True:
    import json, os, sys
    import pytest
    from oslo_config import cfg
    from oslo_policy import policy
    from tests.imports import names
    cfg.CONF([], project="heat", default_config_files=[])
    policy.RuleDefault("stacks:create", "role:member")
    before = names()
    from urllib.parse import urlencode
    from datalog_gate.doors.wsgi import cfn_filter_factory, filter_factory
    from tests.fake_heat import Client, FakeHeat
    os.chdir(sys.argv[1])
    options, template = json.loads(sys.argv[2]), open(sys.argv[3]).read()
    options |= {name: os.path.abspath(options[name]) for name in ("rules", "inventory") if name in options}
    form = urlencode({"Action": "CreateStack", "StackName": "s", "TemplateBody": template})
    sent = [
        (filter_factory, json.dumps({"stack_name": "s", "template": template}), {}),
        (cfn_filter_factory, form, {"PATH_INFO": "/", "CONTENT_TYPE": "application/x-www-form-urlencoded"}),
    ]
    heat = FakeHeat()
    statuses = [Client(make({}, **options)(heat), heat).send(body.encode(), **more)[0][:3] for make, body, more in sent]
    print(json.dumps([*statuses, sorted(names() - before)]))
"""
"""Before the filters it imports what Heat's API has: oslo.policy with its checks."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "names"),
    [
        ("check web.yaml", 1, ["yaml"]),
        ("check web.yaml --format json --inventory cloud.jsonl", 1, ["yaml"]),
        ("check web.yaml --output html=page.html", 1, ["jinja2", "markupsafe", "yaml"]),
        ("check web.yaml --rules pattern.dl", 0, ["re2", "yaml"]),
        ("facts web.yaml", 0, ["yaml"]),
        ("query flavor(x) --rules rules/m.dl", 0, []),
        ("lint rules", 0, ["yaml"]),
        ("fmt --check rules", 0, []),
        ("relations os:nova:server", 0, []),
        ("inventory pull --tables nothing --output rows", 64, ["stevedore"]),
    ],
)
def test_a_command_imports_what_it_uses(command: str, code: int, names: list[str], folder: Path) -> None:
    assert run_program(RUN, str(folder), json.dumps([command.split()])) == [code, names]


def test_the_help_of_each_command_imports_nothing(folder: Path) -> None:
    helps = [["--help"], *([command, "--help"] for command in COMMANDS)]
    assert run_program(RUN, str(folder), json.dumps(helps)) == [0, []]


def test_an_explanation_of_a_template_in_json_imports_nothing(folder: Path) -> None:
    point = point_of(folder / "rules", decision_log=str(folder / "log"))
    answer = point.judge(make_operation())
    point.flush()
    command = ["explain", answer.id, "--log", "log", "--rules", "rules"]
    assert run_program(RUN, str(folder), json.dumps([command])) == [0, []]


@pytest.mark.slow
def test_policy_tests_import_what_a_check_does_beside_pytest(folder: Path) -> None:
    command = ["test", "rules", "--", "--disable-plugin-autoload", "-p", "datalog_gate"]
    answer = run_program(f"import pytest, pygments\n{RUN}", str(folder), json.dumps([command]))
    assert answer == [0, ["yaml"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "status", "names"),
    [
        ({"rules": "rules"}, "403", []),
        ({"rules": "pattern.dl", "inventory": "cloud.jsonl"}, "201", ["re2"]),
    ],
)
def test_the_filters_import_what_heats_apis_have_not(
    options: dict[str, str], status: str, names: list[str], folder: Path
) -> None:
    assert run_program(JUDGE, str(folder), json.dumps(options), "web.yaml") == [status, status, names]


@pytest.mark.slow
def test_the_filters_import_nothing_but_sqlalchemy_for_a_store(folder: Path) -> None:
    options = {"rules": "grant.dl", "services": "approval", "store": f"sqlite:///{folder}/store"}
    answer = run_program(f"import sqlalchemy\n{JUDGE}", str(folder), json.dumps(options), "grant.yaml")
    assert (answer, (folder / "store").exists()) == (["201", "201", []], True)
