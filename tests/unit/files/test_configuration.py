"""A configuration: its keys, where it is found, what it changes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.option_parser import parse_options
from datalog_gate.files.check_options import BY_NAME, OUTPUTS
from datalog_gate.files.configuration import Configuration, load_configuration
from tests.commands import run, write_files

STACK = """\
heat_template_version: 2018-08-31
parameters: {f: {type: string, default: small}, n: {type: number, default: 1}}
resources:
  web: {type: OS::Nova::Server, properties: {image: debian, flavor: {get_param: f}}}
"""
FILES = {
    "policies/m.dl": '@deny("flavor", "{s} takes {f}")\nhuge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".\n',
    "stacks/a.yaml": STACK,
    "stacks/b.yaml": STACK,
    "stacks/parts/part.yaml": STACK,
    "stacks/c.yaml": "heat_template_version: 2018-08-31\nparameters: {n: {type: number}}\n"
    "resources: {a: {type: parts/part.yaml}}\n",
    "huge.env": "parameters: {f: huge}\n",
    "small.env": "parameters: {f: small}\n",
    "sub/notes": "",
}
PROJECT = """\
[project]
name = "stacks"

[tool.datalog-gate]
rules = "policies"
services = ["edge"]
fail-on = "never"

[[tool.datalog-gate.templates]]
path = ["stacks/b.yaml"]
environment = ["huge.env"]

[[tool.datalog-gate.templates]]
path = "stacks/**/*.yaml"

[tool.datalog-gate.templates.parameter]
n = 3
"""
TOTAL = "total of 3: 1 denied, 0 warnings, 0 undetermined; 2 allow, 1 deny"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    write_files(folder, {**FILES, "pyproject.toml": PROJECT})
    (folder / ".git").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DATALOG_GATE_WAIVERS", raising=False)
    return folder


def test_every_key_is_an_option_of_check_and_every_option_a_key() -> None:
    options = parse_options(["check", "a.yaml"])
    others = {"command", "home", "pytest", "template", "configured", "configuration", "given", "show_config"} | {
        "fix",
        "diff",
    }
    assert vars(options).keys() - others == {option.attribute for option in BY_NAME.values()}


def test_check_judges_the_templates_of_the_project_with_their_environments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, "check", "--format", "compact")
    assert (code, err, [re.sub("; .*", "", line) for line in out.splitlines()]) == (
        0,
        "",
        [
            "huge.env:1:17: deny[flavor] web takes huge (in stacks/b.yaml)",
            "stacks/b.yaml: 1 denied, 0 warnings, 0 undetermined",
            "stacks/a.yaml: 0 denied, 0 warnings, 0 undetermined",
            "stacks/c.yaml: 0 denied, 0 warnings, 0 undetermined",
            "total of 3: 1 denied, 0 warnings, 0 undetermined",
        ],
    )
    monkeypatch.chdir("sub")
    assert run(capsys, "check", "--fail-on", "deny")[:2] == (1, run(capsys, "check")[1])
    assert run(capsys, "check", "../stacks/b.yaml", "--fail-on", "deny")[0] == 1


def test_an_option_on_the_command_line_wins_over_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("check", "stacks/b.yaml", "--fail-on", "deny")
    assert run(capsys, *command)[0] == 1
    assert run(capsys, *command, "-e", "small.env")[0] == 0
    assert parse_options(["check", "a.yaml", "--services", "x,y"]).services == ("x", "y")
    Path("datalog-gate.toml").write_text("together = true\njobs = 3\n")
    assert [parse_options(["check", *more]).together for more in ([], ["--no-together"])] == [True, False]


def test_facts_are_those_that_check_judges(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "facts", "stacks/b.yaml", "--relation", "os:nova:server")
    assert (code, "huge" in out) == (0, True)


def test_a_stack_in_heat_is_read_without_what_the_project_says_of_templates() -> None:
    Path("datalog-gate.toml").write_text('parameter = {f = "huge"}\nmodule = ["stacks/a.yaml"]\nservices = ["edge"]\n')
    options = parse_options(["check", "--stack", "web"])
    assert (options.parameter, options.module, options.stack, options.services) == ([], [], ["web"], ("edge",))


def test_show_config_says_where_each_value_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setenv("DATALOG_GATE_WAIVERS", "w.yaml")
    code, out, err = run(
        capsys, "check", "--show-config", "-P", "n=2", "--now", "2027-01-01T00:00", "--output", "sarif=a.sarif"
    )
    wanted = f"""\
# {project}/pyproject.toml
environment = []  # default
parameter = {{"n" = "2"}}  # command line
rules = ["policies"]  # pyproject.toml:5:1
services = ["edge"]  # pyproject.toml:6:1
waivers = "w.yaml"  # $DATALOG_GATE_WAIVERS
now = "2027-01-01T00:00:00"  # command line
fail-on = "never"  # pyproject.toml:7:1
mode = "enforce"  # default
output = ["sarif=a.sarif"]  # command line

[[templates]]  # pyproject.toml:9:3
path = ["stacks/b.yaml"]
environment = ["huge.env"]

[[templates]]  # pyproject.toml:13:3
path = ["stacks/**/*.yaml"]
parameter = {{"n" = 3}}
"""
    lines = out.splitlines()
    assert (code, err, [line for line in lines if line in wanted.splitlines()]) == (0, "", wanted.splitlines())
    Path("datalog-gate.toml").write_text(out)
    read = load_configuration()
    assert {option.name for option in BY_NAME.values() if f"# {option.name} is not given" not in lines} == {
        *read.values
    }
    assert {key: tomllib.loads(out)[key] for key in ("rules", "jobs")} == {"rules": ["policies"], "jobs": 1}


def test_show_config_names_the_variable_that_gives_the_rules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATALOG_GATE_RULES", "elsewhere/")
    Path("pyproject.toml").unlink()
    assert 'rules = ["elsewhere"]  # $DATALOG_GATE_RULES' in run(capsys, "check", "--show-config")[1].splitlines()


def test_all_errors_of_a_file_are_reported_with_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    Path("datalog-gate.toml").write_text(
        'fail-onn = "deny"\njobs = "x"\nfail-on = "all"\nservices = 3\ntogether = "yes"\nrules = [3]\n'
        "now = 2027-01-01\n"
        'templates = ["a.yaml", {paths = "b"}, {path = "c", enviroment = []}, {path = 3}]\noutput = ["pdf=x"]\n'
        "parameter = 3\nsources = {'vendor' = 'v'}\n[servics]\n"
    )
    code, out, err = run(capsys, "check", "stacks/a.yaml")
    assert (code, out, [line for line in err.splitlines() if line.startswith(("datalog", "  help"))]) == (
        3,
        "",
        [
            "datalog-gate.toml:1:1: error[bad-configuration] there is no key `fail-onn`",
            "  help  did you mean fail-on?",
            "datalog-gate.toml:2:1: error[bad-configuration] 'x' is not a number from 1 to 64",
            "datalog-gate.toml:3:1: error[bad-configuration] `fail-on` must be one of deny, warn, record, never",
            "datalog-gate.toml:4:1: error[bad-configuration] `services` must be a string",
            "datalog-gate.toml:5:1: error[bad-configuration] `together` must be true or false",
            "datalog-gate.toml:6:1: error[bad-configuration] `rules` must be a list of strings",
            "datalog-gate.toml:8:1: error[bad-configuration] `path` must be a path with wildcards, or a list of them",
            "datalog-gate.toml:8:1: error[bad-configuration] a template must be a path, or a table with a `path`",
            "datalog-gate.toml:8:52: error[bad-configuration] there is no key `enviroment`",
            "  help  did you mean environment?",
            "datalog-gate.toml:9:1: error[bad-configuration] 'pdf=x' is not FMT=FILE with one of " + ", ".join(OUTPUTS),
            "datalog-gate.toml:10:1: error[bad-configuration] `parameter` must be a list of strings",
            "datalog-gate.toml:11:13: error[bad-configuration] `sources` must be folders by URLs of HTTP, "
            '`"https://example.com/t/" = "t"`',
            "datalog-gate.toml:12:2: error[bad-configuration] there is no key `servics`",
            "  help  did you mean services?",
        ],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rules = [\n  x\n", "2:3: error[bad-configuration] this is not TOML: invalid value\n  2 |   x\n    |   ^\n"),
        (
            "rules = {'x (at 9' = 1, 'x (at 9' = 2}\n",
            "1:38: error[bad-configuration] this is not TOML: duplicate inline table key 'x (at 9'\n"
            f"  1 | rules = {{'x (at 9' = 1, 'x (at 9' = 2}}\n    | {' ' * 37}^\n",
        ),
    ],
)
def test_a_text_that_is_not_toml_is_an_error_with_its_place(
    text: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("datalog-gate.toml").write_text(text)
    assert run(capsys, "check", "--show-config") == (3, "", f"datalog-gate.toml:{expected}")


def test_a_pattern_that_meets_no_template_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("datalog-gate.toml").write_text('templates = ["stack/*.yaml"]\n')
    assert run(capsys, "check")[::2] == (
        3,
        "datalog-gate.toml:1:1: error[bad-configuration] no template matches stack/*.yaml\n"
        '  1 | templates = ["stack/*.yaml"]\n    | ^^^^^^^^^\n',
    )


def test_the_nearest_file_counts_and_none_outside_the_repository(project: Path) -> None:
    assert load_configuration("sub").file == project / "pyproject.toml"
    (project / "sub/pyproject.toml").write_text("[tool.ruff]\n# datalog-gate\n")
    assert load_configuration("sub").file == project / "pyproject.toml"
    (project / "datalog-gate.toml").write_text("")
    assert load_configuration("sub").file == project / "datalog-gate.toml"
    (project / "sub/.git").mkdir()
    assert load_configuration("sub") == Configuration()


@pytest.mark.parametrize(
    ("pattern", "met"),
    [
        ("stacks/*.yaml", "stacks/a.yaml"),
        ("stacks/[!b].yaml", "stacks/a.yaml"),
        ("**/a.yaml", "stacks/a.yaml a.yaml x/y/a.yaml"),
        ("stacks/**/*.yaml", "stacks/a.yaml stacks/x/y.yaml stacks/x"),
        ("./stacks", "stacks/a.yaml stacks/x/y.yaml stacks/x"),
        ("stacks/?", "stacks/x/y.yaml stacks/x"),
        ("stacks/x/template.yaml", "stacks/x"),
        ("stack.", ""),
        (".", "stacks/a.yaml a.yaml x/y/a.yaml stacks/x/y.yaml stacks/x"),
    ],
)
def test_a_pattern_meets_paths_below_the_file(pattern: str, met: str) -> None:
    Path("datalog-gate.toml").write_text(f'templates = ["{pattern}"]\n')
    configuration = load_configuration()
    paths = ["stacks/a.yaml", "a.yaml", "x/y/a.yaml", "stacks/x/y.yaml", "stacks/x"]
    assert {path for path in paths if configuration.entry_of(path)} == {*met.split()}


@pytest.mark.parametrize(
    "pattern", ["{0}/stacks/b.yaml", "{0}/stacks/b*", "../{0.name}/stacks/b.yaml", "stacks/b.yaml"]
)
def test_an_entry_holds_for_a_template_however_both_are_named(project: Path, pattern: str) -> None:
    Path("datalog-gate.toml").write_text(f'templates = ["{pattern.format(project)}"]\n')
    link = project.with_name("link")
    link.symlink_to(project)
    configuration = load_configuration()
    paths = [template.path for template in configuration.find_templates()]
    assert paths == ["stacks/b.yaml"]
    assert all(configuration.entry_of(path) for path in (paths[0], project / paths[0], link / paths[0]))


def test_a_template_below_two_entries_is_found_once_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.yaml").write_text("heat_template_version: wallaby\nresources: {}\n")
    (tmp_path / "datalog-gate.toml").write_text('templates = ["a/b/*.yaml", "a"]\n')
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert [template.path for template in load_configuration().find_templates()] == ["c.yaml"]


def test_a_path_with_brackets_is_found_as_it_is_written() -> None:
    for folder in ("plain", "a[1]"):
        Path(folder).mkdir()
        Path(folder, "b[2].yaml").write_text("heat_template_version: wallaby\nresources: {}\n")
    Path("datalog-gate.toml").write_text('templates = ["plain/b[2].yaml", "a[1]"]\n')
    configuration = load_configuration()
    assert [template.path for template in configuration.find_templates()] == ["plain/b[2].yaml", "a[1]/b[2].yaml"]
    assert [bool(configuration.entry_of(path)) for path in ("plain/b[2].yaml", "a[1]/b[2].yaml", "a")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("text", ["[[tool.datalog-gate]]\nquiet = true\n", '[tool]\ndatalog-gate = "policies"\n'])
def test_a_configuration_that_is_no_table_is_an_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text(text)
    error = "pyproject.toml:1:1: error[bad-configuration] tool.datalog-gate is not a table\n"
    assert run(capsys, "check", "--show-config") == (3, "", f"{error}  help  write [tool.datalog-gate]\n")


def test_a_file_that_is_not_utf_8_is_an_error_only_if_it_is_ours() -> None:
    Path("pyproject.toml").write_bytes(b"[tool.datalog-gate]\xff")
    assert load_configuration() == Configuration()
    Path("datalog-gate.toml").write_bytes(b"\xff")
    with pytest.raises(InputError):
        load_configuration()


def test_wrong_words_of_an_option_say_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        parse_options(["check", "a.yaml", "-P", "x"])
    assert raised.value.code == 64
    assert "argument -P/--parameter: 'x' is not KEY=VALUE" in capsys.readouterr().err
