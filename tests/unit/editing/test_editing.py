"""Answers to an editor about rules, templates and tests, without a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from datalog_gate.base.errors import UsageError
from datalog_gate.editing import case_answers, rule_completion, rule_names, template_answers
from datalog_gate.editing.actions import rule_actions, template_actions
from datalog_gate.editing.template_edits import apply_edits
from datalog_gate.editing.workspace import Workspace
from datalog_gate.template.dialect import CFN_VERSIONS, Dialect, dialect_of
from tests.commands import write_files


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('f > "m1"', 'is_string(f), f > "m1"'),
        ('not f in ["m1", "m2"]', 'not (f in ["m1", "m2"])'),
        ('f not in ["m1", "m2"]', 'not (f in ["m1", "m2"])'),
        ('f in ("m1", "m2")', 'f in ["m1", "m2"]'),
        ('f in {"m1", "m2"}', 'f in ["m1", "m2"]'),
        ('nova:flavors(name=f, ram=r), r > "8"', "nova:flavors(name=f, ram=r), r > 8"),
        ("n = count(v : nova:flavors(name=f, id=v)), n > 3", "n = count{ v : nova:flavors(name=f, id=v) }, n > 3"),
        ("nova:flavors(name=f, ram > 8)", "nova:flavors(name=f, ram=ram), ram > 8"),
        ("OS::Nova::KeyPair(name=f)", "os:nova:key_pair(name=f)"),
        ('is_string(f) and f != "m1"', 'is_string(f), f != "m1"'),
    ],
)
def test_a_slip_has_an_edit_that_keeps_what_was_meant(workspace: Workspace, wrong: str, right: str) -> None:
    path = workspace.root / "rules" / "own.dl"
    rule = '@deny("net.own", "{s}")\nown(s) :- os:nova:server(_id=s, flavor=f), '
    workspace.edit(path, f"{rule}{wrong}.\n")
    problems = workspace.check_pack(path)[str(path)]
    actions = rule_actions(workspace.folder(path), path, problems)
    sources = {str(path): f"{rule}{wrong}.\n"}
    assert [apply_edits(sources, action.edits)[str(path)] for action in actions] == [f"{rule}{right}.\n"]


VOLUME = "    type: OS::Cinder::Volume\n    properties:"
VOLUMES = f"heat_template_version: 2018-08-31\nresources:\n  v:\n{VOLUME}"
BELOW = f"{VOLUMES}\n      "
JSON = '{"heat_template_version": "2018-08-31", "resources": {"v": {"type": "OS::Cinder::Volume", "properties": {}}}}'
TWICE = f"  w:\n{VOLUME} *p\n"
EC2 = "AWSTemplateFormatVersion: 2010-09-09\nResources: {v: {Type: AWS::EC2::Volume, Properties: {Size: 20}}}\n"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (f"{BELOW}size: 20  # GB\n", f"{BELOW}size: 10  # GB\n"),
        (f"{BELOW}size: |-\n        20\n      name: n\n", f"{BELOW}size: 10\n      name: n\n"),
        (f"{BELOW}<<: {{size: 20}}\r\n", f"{BELOW}size: 10\r\n      <<: {{size: 20}}\r\n"),
        (f"{BELOW}size: &s 20\n      metadata: {{n: *s}}\n", ""),
        (f"{VOLUMES} &p\n      size: 20\n{TWICE}", ""),
        (f"{BELOW}? size\n      : 20\n", ""),
        (VOLUMES.replace("v:", "1:") + " {size: 2}\n", VOLUMES.replace("v:", '"1":') + " {size: 2}\n"),
        (
            JSON.replace("{}", '{"availability_zone": "b", "metadata": {"m": 1}}'),
            JSON.replace("{}", '{"availability_zone": "a", "metadata": {"m": 1}}'),
        ),
        (
            JSON.replace("{}", '{"metadata": {"m": 1}}'),
            JSON.replace("{}", '{"availability_zone": "a", "metadata": {"m": 1}}'),
        ),
        (EC2, EC2.replace("20}", "10}")),
    ],
)
def test_a_fix_of_a_template_changes_what_was_proved_and_nothing_else(
    workspace: Workspace, wrong: str, right: str
) -> None:
    rule = '@deny("size", "{v}")\nlarge(v) :- os:cinder:volume(_id=v, size=n), n != null, n > 10.\n'
    rule += "large(v) :- aws:ec2:volume(_id=v, Size=n), n ?? 0 > 10.\n"
    rule += '@deny("zone", "{v}")\nzoned(v) :- os:cinder:volume(_id=v, availability_zone=z), z ?? "" != "a", '
    rule += "os:cinder:volume.metadata(_id=v, _value=1).\n"
    (workspace.root / "rules").mkdir()
    (workspace.root / "rules" / "own.dl").write_text(rule)
    path = workspace.root / "web.yaml"
    workspace.edit(path, wrong)
    problems = workspace.judge(path)[str(path)]
    assert problems
    changed = [
        apply_edits({str(path): wrong}, action.edits)[str(path)]
        for action in template_actions(workspace, path, problems)
    ]
    assert changed == [right] * bool(right)


def offered(workspace: Workspace, name: str, text: str) -> list[str]:
    """What the completions at `|` insert, the first one first."""
    path = workspace.root / name
    before, _, behind = text.partition("|")
    workspace.edit(path, before + behind)
    if path.suffix == ".dl":
        _, completions = rule_completion.complete(workspace.folder(path), path, before + behind, len(before))
    elif workspace.is_test(path):
        _, completions = case_answers.complete(workspace, path, len(before))
    else:
        _, completions = template_answers.complete(workspace, path, len(before))
    return [completion.text for completion in completions]


VALUES = ["null", "true", "false"]


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        ("|", ["relation", "export", "import", "@deny(", "@warn(", "@record(", "@unlock("]),
        ('relation r(a: string) "R" |', ["key("]),
        ('relation r(a: string, b: string) "R" key(|', ["a", "b"]),
        ("p(x) :- x = cou|", ["count{ ", "cidr_host_count(", "os:swift:container.X_Account_Meta("]),
        ("p(n) :- n = count{ x : q(|", ["n", "x", *VALUES]),
        ('p(x) :- heat:change(x, "|', ["create", "delete", "update", "replace", "unchanged"]),
        ("p(x) :- server_group.rul|", ["os:nova:server_group.rules("]),
        ("p(x) :- all:heat:stack(_pro|", ["_project="]),
        ("p(x) :- old:server_group.rul|", ["os:nova:server_group.rules("]),
        ("p(x) :- old:gate:role|", []),
        ("p(x) :- old:p|", ["p("]),
        ("import net:ssh.\np(x) :- open_s|", ["open_ssh(", "net:ssh:open_ssh("]),
        ('@deny("p", "{x}", subject="|")\np(x, y) :- q(x, y, z).', ["x", "y"]),
    ],
)
def test_rules_are_completed(workspace: Workspace, text: str, completions: list[str]) -> None:
    workspace.edit(workspace.root / "rules" / "net" / "ssh.dl", "open_ssh(1).\nexport open_ssh.\n")
    assert offered(workspace, "rules/own.dl", text) == completions


HOT = "heat_template_version: wallaby\n"
CFN = "AWSTemplateFormatVersion: 2010-09-09\nParameters:\n  Size: {Type: String}\n"
NESTING = (
    HOT + "resources:\n  n: {type: nested.yaml}\n  p: {type: OS::Neutron::Port}\noutputs:\n  o:\n    value:\n      "
)
GROUP = HOT + "resources:\n  g:\n    type: OS::Heat::ResourceGroup\n    properties:\n      resource_def:\n        "


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        (
            HOT + "resources:\n  x:\n    type: t\n    properties: {}\n    de|",
            ["depends_on: ", "deletion_policy: ", "description: "],
        ),
        (HOT + "resources:\n  x:\n    deletion_policy: |", ["Delete", "Retain", "Snapshot"]),
        (HOT + "resources:\n  x:\n    type: KeyPair|", ["OS::Nova::KeyPair"]),
        (HOT + "resources:\n  x:\n    type: Monasca|", []),
        (GROUP + "typ|", ["type: "]),
        (GROUP + "type: OS::Nova::KeyPair\n        properties:\n          pub|", ["public_key: "]),
        ("AWSTemplateFormatVersion: |", ["2010-09-09"]),
        ("|", ["heat_template_version:", "AWSTemplateFormatVersion:", "HeatTemplateFormatVersion:"]),
        (CFN + "Res|", ["Resources:"]),
        (CFN + "  Other: {Ty|", ["Type: "]),
        (CFN + "  Other: {Type: |", ["String", "Number", "CommaDelimitedList", "Json", "Boolean"]),
        (CFN + "Resources:\n  v:\n    Type: AWS::EC2::Volume\n    Properties: {Size: {Ref: |", ["Size", "v"]),
        (CFN + "Resources:\n  v:\n    Type: AWS::EC2::Volume\n    Properties: {Size: {Fn::J|", ["Fn::Join: "]),
        (
            CFN + "Resources:\n  v:\n    Type: AWS::EC2::Volume\n    Properties: {Size: {Fn::S|",
            ["Fn::Split: ", "Fn::Select: "],
        ),
        (
            CFN + "Resources:\n  v:\n    Type: AWS::EC2::Volume\n    Properties: {Size: {Fn::R|",
            ["Fn::Replace: ", "Fn::ResourceFacade: "],
        ),
        (CFN + "Resources:\n  v:\n    DeletionPolicy: R|", ["Retain"]),
        (CFN + "Outputs:\n  o:\n    Value: {Fn::GetA|", ["Fn::GetAtt: ", "Fn::GetAZs: "]),
        (HOT + "outputs:\n  o:\n    value: {get_re|", ["get_resource: "]),
        (HOT + "conditions:\n  c:\n    eq|", ["equals: "]),
        (HOT + "conditions:\n  c: {not: {equals: [{get_|", ["get_param: "]),
        (HOT + "resources:\n  x:\n    condition: {n|", ["not: "]),
        (HOT + "resources:\n  x:\n    metadata: {a: {yaq|", ["yaql: "]),
        (NESTING + "get_attr: [n, |", ["address"]),
        (NESTING + "get_attr: [p, subn|", ["subnets"]),
        (VOLUMES + "\n      desc|: text", ["description"]),
        (JSON.replace("{}", '{"desc|"}'), ["description"]),
        (JSON.replace("{}", "{desc|}"), ['"description": ']),
        (JSON.replace("OS::Cinder::Volume", "EncryptedVol|"), ["OS::Cinder::EncryptedVolumeType"]),
        (JSON.replace('"OS::Cinder::Volume"', "EncryptedVol|"), ['"OS::Cinder::EncryptedVolumeType"']),
        (JSON.replace("{}", '{"multiattach": |}'), ["true", "false"]),
    ],
)
def test_templates_are_completed(workspace: Workspace, text: str, completions: list[str]) -> None:
    nested = f"{HOT}resources: {{v: {{type: OS::Heat::Value}}}}\noutputs: {{address: {{value: 1}}}}\n"
    write_files(workspace.root, {"nested.yaml": nested})
    assert offered(workspace, "web.yaml", text) == completions


def test_types_and_properties_are_those_of_the_catalogue_of_the_project(workspace: Workspace) -> None:
    kind = '{"relation": "my:box", "properties": {"width": {"kind": "integer"}}, "attributes": {"weight": null}}'
    files = {"datalog-gate.toml": 'catalogue = ["types.json"]\n', "types.json": f'{{"source": "s", "My::Box": {kind}}}'}
    write_files(workspace.root, files)
    head = f"{HOT}resources:\n  b:\n    type: My::Box"
    texts = (f"{HOT}resources:\n  b:\n    type: My|", f"{head}\n    properties:\n      wi|")
    assert [offered(workspace, "web.yaml", text) for text in texts] == [["My::Box"], ["width: "]]
    assert offered(workspace, "web.yaml", f"{head}\noutputs:\n  o:\n    value: {{get_attr: [b, |") == ["weight"]


@pytest.mark.parametrize(
    ("written", "completions"),
    [
        ("nes", ["nested.yaml"]),
        ("ap", ["apps/"]),
        ("apps/", ["apps/old/", "apps/template.yaml", "apps/web.template", "apps/../"]),
        ("apps/../", ["apps/../apps/", "apps/../nested.yaml", "apps/../../"]),
    ],
)
def test_nested_templates_are_completed_below_folders(
    workspace: Workspace, written: str, completions: list[str]
) -> None:
    write_files(
        workspace.root,
        {
            "nested.yaml": HOT,
            "apps/template.yaml": HOT,
            "apps/web.template": HOT,
            "apps/env.yaml": "parameters: {}\n",
            "apps/old/n.yaml": HOT,
        },
    )
    assert offered(workspace, "web.yaml", f"{HOT}resources:\n  x:\n    type: {written}|") == completions


CASE = "cases:\n  - name: n\n    stack: web.yaml\n    "


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        (CASE + "na|", []),
        ("cases:\n  - na|me: n\n", ["name"]),
        ('cases:\n  - "na|', ["name"]),
        (CASE + "caller: {user: u, |", ["project: ", "domain: ", "roles: "]),
        (CASE + "waivers:\n      - {policy: p, subj|", ["subject: "]),
        (CASE + "waivers:\n      - {subject: |", ["web"]),
        (CASE + "environment: {parameters: {|", ["size: "]),
        (CASE + "against: |", ["web.yaml", "../"]),
        (CASE + "against: ../|", ["../rules/", "../web.yaml", "../../"]),
    ],
)
def test_policy_tests_are_completed(workspace: Workspace, text: str, completions: list[str]) -> None:
    template = HOT + "parameters:\n  size: {type: number}\nresources:\n  web: {type: OS::Nova::Server}\n"
    (workspace.root / "rules").mkdir()
    for folder in ("rules", "."):
        (workspace.root / folder / "web.yaml").write_text(template)
    assert offered(workspace, "rules/test.yaml", text) == completions


def test_a_rename_reaches_tests_as_they_are_written_and_not_as_they_were_saved(workspace: Workspace) -> None:
    rules, test = workspace.root / "rules" / "own.dl", workspace.root / "rules" / "test.yaml"
    rules.parent.mkdir()
    rows = "cases:\n  - {name: n, stack: s, expect: {rows: {own:old: []}}}\n"
    test.write_text(rows)
    workspace.edit(rules, "old(1).\np(x) :- old(x).\n")
    workspace.edit(test, f"# more\n{rows}")
    edits = rule_names.rename(rule_names.find_name(workspace.folder(rules), rules, 1), "new", workspace.text)
    texts = {str(path): workspace.text(path).text for path in (rules, test)}
    assert apply_edits(texts, edits) == {
        str(rules): "new(1).\np(x) :- new(x).\n",
        str(test): f"# more\n{rows}".replace("old", "new"),
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("export", "with that name the rules would not load: found `(`, expected the name of a relation"),
        ("own", "above has another relation or builtin own"),
        ("other", "with that name the rules would not load: other is below:other and third:other"),
    ],
)
def test_a_rename_changes_no_meaning_in_other_modules_and_beside_tests(
    workspace: Workspace, name: str, message: str
) -> None:
    texts = {
        "below.dl": "export old.\nold(1).\n",
        "third.dl": "export other.\nother(1).\n",
        "above.dl": "import below.\nimport third.\nown(2).\np(x) :- old(x), own(x), other(x).\n",
        "test.yaml": "cases:\n  - {name: n, stack: s, expect: {rows: {below:old: []}}}\n",
    }
    for file, text in texts.items():
        workspace.edit(workspace.root / "rules" / file, text)
    path = workspace.root / "rules" / "below.dl"
    with pytest.raises(UsageError) as refused:
        rule_names.rename(rule_names.find_name(workspace.folder(path), path, 13), name, workspace.text)
    assert str(refused.value) == message


def test_rules_are_checked_with_all_rules_of_the_project(workspace: Workspace) -> None:
    files = {
        "datalog-gate.toml": 'rules = ["own", "vendor"]\n',
        "own/app/web.dl": '@deny("app.web", "{x}")\np(x) :- sizes:large(x), net:names:named(x).\n',
        "own/net/names.dl": "export named.\nnamed(x) :- heat:resource(id=x).\n",
        "vendor/sizes.dl": "export large.\nlarge(x) :- os:nova:server(_id=x).\n",
    }
    write_files(workspace.root, files)
    path = workspace.root / "own" / "app" / "web.dl"
    workspace.edit(path, files["own/app/web.dl"])
    assert workspace.check_pack(path) == {str(path): ()}
    assert workspace.check_rules(path)[str(path)] == ()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rules/m.dl": "p("}, "no"),
        ({"rules/m.dl": ""}, "error[no-policy] rules holds no rule file"),
        (
            {"datalog-gate.toml": 'rules = ["new"]\n', "new/m.dl": "p("},
            "new/m.dl:1:3: error[syntax] found the end of the text, expected a value",
        ),
        (
            {"datalog-gate.toml": 'rules = ["new"]\n'},
            "error[unreadable] new can't be read: No such file or directory",
        ),
    ],
)
def test_the_last_valid_rules_judge_while_they_are_invalid(
    workspace: Workspace, changed: dict[str, str], message: str
) -> None:
    web = workspace.root / "web.yaml"
    resources = "resources: {a: {type: OS::Heat::None}}"
    rules = {"rules/m.dl": '@deny("p", "no")\np(x) :- heat:stack(id=x).\n'}
    write_files(workspace.root, {"web.yaml": f"heat_template_version: wallaby\n{resources}\n", **rules})
    assert [problem.message for problem in workspace.judge(web)[str(web)]] == ["no"]
    write_files(workspace.root, {name: text for name, text in changed.items() if text})
    for name in [name for name, text in changed.items() if not text]:
        (workspace.root / name).unlink()
    workspace.refresh()
    (problem,) = workspace.judge(web)[str(web)]
    answer = problem.message.replace(f"{os.path.relpath(workspace.root)}/", "").replace(f"{workspace.root}/", "")
    assert answer.removeprefix("this template can't be judged: ") == message


def test_cases_run_by_the_rules_of_the_project(workspace: Workspace) -> None:
    stack = "stack: {heat_template_version: wallaby, resources: {w: {type: My::Server}}}"
    expect = "expect: {violations: [{policy: app.web}]}"
    files = {
        "datalog-gate.toml": 'rules = ["own", "vendor"]\ncatalogue = ["types.json"]\n',
        "types.json": '{"source": "s", "My::Server": {"relation": "my:server", "properties": {}, "attributes": {}}}',
        "own/app/web.dl": '@deny("app.web", "{x}")\np(x) :- my:server(_id=x), net:names:named(x), sizes:large(x).\n',
        "vendor/sizes.dl": "export large.\nlarge(x) :- heat:resource(id=x).\n",
        "own/net/names.dl": "export named.\nnamed(x) :- heat:resource(id=x).\n",
        "own/app/test.yaml": f"cases:\n  - name: n\n    {stack}\n    {expect}\n",
    }
    write_files(workspace.root, files)
    path = workspace.root / "own" / "app" / "test.yaml"
    workspace.edit(path, files["own/app/test.yaml"])
    assert workspace.check_test(path) == {str(path): ()}
    assert workspace.run_cases(path) == ([("n", "")], {str(path): ()})


def test_a_lens_counts_the_cases_that_expect_a_policy(workspace: Workspace) -> None:
    rules = workspace.root / "rules" / "own.dl"
    policies = "".join(f'@deny("{name}", "") {name}(x) :- heat:stack(id=x).\n' for name in ("a", "b", "c"))
    expected = "expect: {violations: [{policy: a}]}"
    workspace.edit(rules, policies)
    workspace.edit(
        rules.with_name("test.yaml"),
        f"cases:\n  - {{name: one, {expected}}}\n  - {{name: two, waivers: [{{policy: b}}], {expected}}}\n"
        "  - {name: three, expect: {undetermined: [{policy: c}, {policy: c}]}}\n",
    )
    lenses = case_answers.policy_lenses(workspace, rules)
    assert [(lens.policy, lens.title) for lens in lenses] == [("a", "run its 2 cases"), ("c", "run its case")]


def test_cases_run_by_rules_and_templates_as_they_are_written(workspace: Workspace) -> None:
    folder = workspace.root / "rules"
    folder.mkdir()
    rules, test, web = folder / "own.dl", folder / "test.yaml", folder / "web.yaml"
    rules.write_text('@deny("old", "") p(x) :- os:nova:server(_id=x).\n')
    web.write_text(HOT)
    case = "cases:\n  - {name: n, stack: web.yaml, expect: {violations: [{policy: new, resource: web}]}}\n"
    workspace.edit(test, case)
    assert [problem.code for problem in workspace.check_test(test)[str(test)]] == ["bad-test"]
    workspace.edit(rules, rules.read_text().replace("old", "new"))
    workspace.edit(web, f"{HOT}resources:\n  web: {{type: OS::Nova::Server, properties: {{flavor: f}}}}\n")
    assert workspace.check_test(test) == {str(test): ()}
    assert workspace.run_cases(test) == ([("n", "")], {str(test): ()})


CALLS = """\
@deny("a", "{s}") p(s) :-
  os:nova:server(_id=s, name=n), t = capture(lower(n ?? ""), "x"), len(f"{t}", m), m > 1, heat:physical(s, i), i = "a".
"""


@pytest.mark.parametrize(
    ("before", "label", "active"),
    [
        ('capture(lower(n ?? ""), ', "capture(text: string, pattern: string, group: number) = part", "pattern: string"),
        ("capture(lower(", "lower(text: string) = result", "text: string"),
        ('len(f"{t}", ', "len(text: string, length: number)", "length: number"),
        ("heat:physical(s, ", "heat:physical(id: resource, physical_id: string)", "physical_id: string"),
        ("heat:physical(s, i), ", None, None),
    ],
)
def test_the_call_that_is_written_in_rules_is_described(
    workspace: Workspace, before: str, label: str | None, active: str | None
) -> None:
    path = workspace.root / "rules" / "a.dl"
    workspace.edit(path, CALLS)
    found = rule_completion.describe_call(workspace.folder(path), path, CALLS, CALLS.index(before) + len(before))
    assert (found and (found.label, found.parameters[found.active])) == (label and (label, active))


def test_the_column_that_is_named_is_the_active_one(workspace: Workspace) -> None:
    path = workspace.root / "rules" / "a.dl"
    workspace.edit(path, CALLS)
    found = rule_completion.describe_call(workspace.folder(path), path, CALLS, CALLS.index("=n)") + 1)
    assert found is not None
    assert found.parameters[found.active] == "name: string or null"


NAMES = """\
heat_template_version: 2018-08-31
parameters:
  net: {type: string, default: public}
resources:
  web:
    type: OS::Nova::Server
    properties:
      flavor: m1.small
      image: debian
      networks: [{network: {get_param: net}}]
      user_data: {str_replace: {template: a, params: {a: {get_param: net}}}}
      name: {list_join: ['-', [a, b]]}
outputs:
  id: {value: {get_resource: web}}
"""


@pytest.mark.parametrize(
    ("before", "label", "active"),
    [
        ("{get_param: ", "get_param: NAME or [NAME, KEY...]", "NAME or [NAME, KEY...]"),
        ("{template: ", "str_replace: {template: TEXT, params: {NAME: VALUE}}", "template: TEXT"),
        ("['-', ", "list_join: [DELIMITER, LIST...]", "LIST..."),
    ],
)
def test_the_function_that_is_written_in_a_template_is_described(
    workspace: Workspace, before: str, label: str, active: str
) -> None:
    path = workspace.root / "web.yaml"
    workspace.edit(path, NAMES)
    found = template_answers.describe_call(workspace, path, NAMES.index(before) + len(before))
    assert found is not None
    assert (found.label, found.parameters[found.active]) == (label, active)


@pytest.mark.parametrize(("name", "uses"), [("net: {type", 3), ("net}}]", 3), ("web:", 2), ("web}", 2), ("a, b", 0)])
def test_names_of_a_template_are_found_where_they_are_used(workspace: Workspace, name: str, uses: int) -> None:
    path = workspace.root / "web.yaml"
    workspace.edit(path, NAMES)
    places = template_answers.references(workspace, path, NAMES.index(name))
    assert [NAMES[place.start : place.end] for place in places] == [name[:3]] * uses


def test_the_outline_of_a_template_lists_its_sections_and_names(tmp_path: Path) -> None:
    shown = [
        (symbol.name, symbol.detail, NAMES.count("\n", symbol.range.start, symbol.range.end))
        for symbol in template_answers.outline(NAMES, tmp_path / "web.yaml")
    ]
    assert shown == [
        ("heat_template_version", "", 0),
        ("parameters", "", 1),
        ("net", "string", 0),
        ("resources", "", 8),
        ("web", "OS::Nova::Server", 7),
        ("outputs", "", 1),
        ("id", "", 0),
    ]


def test_policies_and_relations_of_the_project_are_searched(workspace: Workspace) -> None:
    write_files(workspace.root, {"rules/a.dl": '@deny("net.own", "{s}")\nown(s) :- r(s).\nr(s) :- heat:stack(id=s).\n'})
    found = {query: rule_names.search(workspace.rule_files(), query) for query in ("NET", "r", "x")}
    assert {query: [symbol.name for symbol in symbols] for query, symbols in found.items()} == {
        "NET": ["own"],
        "r": ["r"],
        "x": [],
    }


def test_a_finding_leads_to_the_page_of_its_policy(workspace: Workspace) -> None:
    rule = '@deny("a", "{s}", url="https://example.org/a")\np(s) :- os:nova:server(_id=s).\n'
    write_files(workspace.root, {"rules/a.dl": rule, "web.yaml": NAMES})
    problems = workspace.judge(workspace.root / "web.yaml")[str(workspace.root / "web.yaml")]
    assert [(problem.code, problem.url) for problem in problems] == [("a", "https://example.org/a")]


def test_hover_shows_the_columns_of_the_version(workspace: Workspace) -> None:
    path = workspace.root / "rules" / "own.dl"
    workspace.edit(path, "p(x) :- all:heat:root(stack=x).")
    use = rule_names.find_name(workspace.folder(path), path, 15)
    assert use
    hover = rule_names.hover(use)
    assert hover
    assert hover.text.splitlines()[2:4] == [
        "  stack*    string          The id of a stack.",
        "  _project  string or null  The project of the root stack; null where it is not known.",
    ]


HOT_VERSIONS = (("heat_template_version", version) for version in ("2013-05-23", "wallaby"))


@pytest.mark.parametrize("version", [*CFN_VERSIONS.items(), *HOT_VERSIONS])
def test_hover_says_what_each_function_means(workspace: Workspace, version: tuple[str, str]) -> None:
    dialect = dialect_of(dict([version]))
    assert isinstance(dialect, Dialect)
    path = workspace.root / "web.yaml"
    for name in dialect.functions | dialect.conditional:
        text = f"{version[0]}: {version[1]}\n{dialect.resources}: {{v: {{{name}: x}}}}\n"
        workspace.edit(path, text)
        hover = template_answers.hover(workspace, path, text.index(name))
        arguments, meaning = template_answers.FUNCTIONS[name]
        assert hover
        assert hover.text == f"`{name}: {arguments}`\n\n{meaning}"
        place = f"{dialect.key('outputs')}: {{o: {{{dialect.key('value')}: "
        if name not in dialect.functions:
            place = f"{dialect.key('conditions')}: {{c: "
        assert f"{name}: " in offered(workspace, "web.yaml", f"{version[0]}: {version[1]}\n{place}{{{name}|")


def test_hover_shows_a_single_bound(workspace: Workspace) -> None:
    path = workspace.root / "web.yaml"
    workspace.edit(path, GROUP.replace("resource_def", "count"))
    hover = template_answers.hover(workspace, path, GROUP.index("resource_def"))
    assert hover
    assert hover.text == "**count**: integer\n\ndefault: 1; from 0; changes in place"


def test_hover_shows_a_parameter_s_value_as_a_template_writes_it(workspace: Workspace) -> None:
    path = workspace.root / "web.yaml"
    (workspace.root / "rules").mkdir()
    (workspace.root / "rules" / "own.dl").write_text('@deny("a", "{v}")\np(v) :- os:cinder:volume(_id=v).\n')
    text = f"{HOT}parameters: {{a: {{type: boolean, default: true}}, b: {{type: comma_delimited_list, default: x}}}}\n"
    text += "resources: {v: {type: OS::Heat::Value, properties: {value: [{get_param: a}, {get_param: b}]}}}\n"
    workspace.edit(path, text)
    workspace.judge(path)
    hovers = [template_answers.hover(workspace, path, text.rindex(f"{name}}}")) for name in "ab"]
    assert [hover and hover.text.partition(" here: ")[2] for hover in hovers] == ["true (default)", '["x"] (default)']


@pytest.mark.parametrize(("hidden", "default"), [("true", "***"), ("false", "S3CR3T")])
def test_hover_shows_no_default_of_a_hidden_parameter(workspace: Workspace, hidden: str, default: str) -> None:
    path = workspace.root / "web.yaml"
    text = f"{HOT}parameters:\n  pw: {{type: string, hidden: {hidden}, default: S3CR3T}}\n"
    text += "resources:\n  v: {type: OS::Heat::Value, properties: {value: {get_param: pw}}}\n"
    workspace.edit(path, text)
    hover = template_answers.hover(workspace, path, text.rindex("pw"))
    assert hover
    assert hover.text == f"The parameter `pw`, type: string, default: {default}"


def test_a_file_that_was_closed_before_it_was_saved_has_no_problems(workspace: Workspace) -> None:
    path = workspace.root / "rules" / "new.dl"
    workspace.edit(path, "wrong")
    workspace.close(path)
    assert workspace.check_pack(path) == {str(path): ()}


def test_a_check_sees_what_changed_in_the_files_below(workspace: Workspace) -> None:
    below, above = workspace.root / "rules" / "below.dl", workspace.root / "rules" / "above.dl"
    workspace.edit(above, '@deny("net.large", "{r}")\nlarge(r) :- below:size(r, n), n > 3.\n')
    told = []
    for body in (
        "os:cinder:volume(_id=r, size=n), n != null",
        "os:cinder:volume(_id=r, name=n), n != null",
        'os:cinder:volume(_id=r, size=n), n != null, not gate:unlocked("quota", r)',
        "os:cinder:volume(_id=r, size=n), above:large(r)",
    ):
        workspace.edit(below, f"export size.\nsize(r, n) :- {body}.\n")
        problems = workspace.check_pack(below) | workspace.check_pack(above)
        told.append([problem.message for own in problems.values() for problem in own])
    assert told == [
        [],
        ["> compares string, not number"],
        ["no rule unlocks the service quota"],
        ["large is private to the module above"],
    ]


def test_a_check_reads_what_unlocks_a_service_for_its_old_grants_too(workspace: Workspace) -> None:
    reads, unlocks = workspace.root / "rules" / "reads.dl", workspace.root / "rules" / "unlocks.dl"
    workspace.edit(unlocks, '@unlock("quota")\nlarge(g) :- gate:grant(g, "quota").\n')
    workspace.edit(reads, '@deny("had", "{r}", on=["update"])\nhad(r) :- old:gate:unlocked("quota", r).\n')
    assert workspace.check_pack(reads) == {str(reads): ()}


def test_a_template_warns_of_inputs_that_the_configuration_does_not_give(workspace: Workspace) -> None:
    rules, web = workspace.root / "rules", workspace.root / "web.yaml"
    rules.mkdir()
    (rules / "own.dl").write_text('@deny("own", "") p(s) :- os:nova:server(_id=s, name=n), nova:servers(name=n).\n')
    workspace.edit(web, HOT)
    message = "the rules read nova:servers, but there is no inventory"
    (problem,) = workspace.judge(web)[str(web)]
    assert (problem.code, problem.severity, problem.message) == ("no-inventory", "warning", message)
    assert (problem.range.start, problem.help) == (0, "give --inventory FILE.jsonl")
    (workspace.root / "servers.jsonl").write_text('{"relation": "nova:servers", "row": {"id": "s", "name": "s"}}\n')
    (workspace.root / "datalog-gate.toml").write_text('rules = ["rules"]\ninventory = "servers.jsonl"\n')
    workspace.refresh()
    assert workspace.judge(web) == {str(web): ()}
