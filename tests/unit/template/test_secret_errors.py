"""Errors over hidden values, which do not show them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import yaml

import datalog_gate as dg
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.doors.cli.main import main
from datalog_gate.stack.model import Data
from tests.refusals import refusals
from tests.unit.doors.test_secrets import PW, decided, stack_of


def test_an_error_over_a_hidden_value_does_not_quote_it(tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text("""
    @deny("p", "{s}")
    p(s) :- os:nova:server(_id=s, admin_pass=p), p != null, q(p, n), n > 1.
    q(p, n) :- os:nova:server(admin_pass=p), p != null, int(p, n).
    """)
    rules = dg.load_rules(tmp_path / "m.dl")
    stack = dg.read_stack(template=stack_of({"admin_pass": {"get_param": "pw"}}), parameters={"pw": PW, "open": "o"})
    assert [error.message for error in rules.decide(stack).errors] == [
        "what a hidden parameter gives has no value here"
    ]
    with pytest.raises(EngineError, match=rf"^pyDatalog refuses the rule of m:q at {tmp_path}/m.dl:4:5: an expression"):
        rules.decide(stack, engine="pydatalog")


OPEN_NAME = {"type": "OS::Nova::Server", "properties": {"flavor": "small", "name": "web"}}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"pw": "7"}, ["int('web'): the text is not a number"]),
        ({"pw": PW}, ["what a hidden parameter gives has no value here"]),
        ({"pw": "web"}, ["what a hidden parameter gives has no value here"]),
    ],
)
def test_an_error_over_a_row_without_hidden_values_is_shown(
    parameters: dict[str, Data], expected: list[str], tmp_path: Path
) -> None:
    rules = '@deny("p", "{s}")\np(s) :- os:nova:server(_id=s, name=n), n != null, int(n, i), i > 9.\n'
    template = stack_of({"name": {"get_param": "pw"}}, tail=OPEN_NAME)
    assert [error.message for error in decided(rules, template, tmp_path, **parameters).errors] == expected


PAIR = {"a": {"get_param": "pw"}, "b": {"get_param": "pw"}}
WORDS = (PW, "a", "the", "text", "has", "1", "flavr", "networks")
"""Hidden values: one that stands in no message, words of messages, and names like those of properties."""


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"name": {"get_file": {"get_param": "pw"}}}, "there is no file ***"),
        ({"name": {"get_resource": {"get_param": "pw"}}}, "there is no resource `***`"),
        ({"name": {"get_attr": [{"get_param": "pw"}, "x"]}}, "there is no resource `***`"),
        ({"name": {"get_param": {"digest": ["md5", {"get_param": "pw"}]}}}, "there is no parameter `***`"),
        ({"name": {"if": [{"get_param": "pw"}, 1, 2]}}, "there is no condition `***`"),
        (
            {"name": {"str_replace_strict": {"template": "", "params": {"get_param": "blob"}}}},
            "`str_replace_strict` has params that the template does not name: ***",
        ),
        ({"name": {"str_split": ["?", {"get_param": "pw"}, 9]}}, "`str_split` takes an index from 0 to ***"),
        ({"name": {"map_replace": [{"a": 1, "b": 2}, {"keys": PAIR}]}}, "`map_replace` gives the key `***` twice"),
        ({"name": {"digest": [{"get_param": "pw"}, "x"]}}, "`digest` can't digest this text with ***"),
        ({"name": {"repeat": {"get_param": "blob"}}}, "`repeat` takes `for_each`, a map of lists, and `template`"),
    ],
)
def test_errors_of_a_template_show_no_hidden_value(properties: dict[str, Data], message: str) -> None:
    for word in WORDS:
        read = partial(
            dg.read_stack,
            template=stack_of(properties),
            parameters={"pw": word, "blob": {word: word}, "open": "o"},
        )
        assert refusals(read, "message", "suggestion") == [(message, None)]


@pytest.mark.parametrize("name", [f"/{PW}", f"../{PW}", f"file:///etc/{PW}"])
def test_a_file_named_by_a_hidden_value_is_refused_without_its_name(name: str, tmp_path: Path) -> None:
    path, parameters = tmp_path / "t.yaml", {"pw": name, "open": "o"}
    path.write_text(json.dumps(stack_of({"user_data": {"get_file": {"get_param": "pw"}}})))
    refused = refusals(lambda: dg.read_stack(path, parameters=parameters), "code", "message")
    assert refused == [("outside-root", "the file *** can't be read")]


def test_a_nested_parameter_refuses_what_came_from_a_hidden_one_without_showing_it() -> None:
    nested = {
        "heat_template_version": "wallaby",
        "parameters": {"arg": {"type": "string", "constraints": [{"allowed_values": ["a"]}]}},
    }
    more = {"type": "nested.yaml", "properties": {"arg": {"list_join": ["", ["x", {"get_param": "pw"}]]}}}
    template, files = stack_of({}, more=more), {"nested.yaml": yaml.safe_dump(nested)}
    parameters = {"pw": PW, "open": "o"}
    assert refusals(lambda: dg.read_stack(template=template, parameters=parameters, files=files), "message") == [
        "parameter `arg` can't be a hidden value: it is not a valid string"
    ]


def test_excerpts_are_cut_where_a_hidden_value_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "web.yaml").write_text(f"""heat_template_version: wallaby
parameters:
  a: {{type: string, hidden: true, constraints: [{{length: {{max: 3}}}}], default: {PW}, label: A}}
  b: {{default: {PW}, hidden: true, type: number}}
  c:
    type: json
    hidden: true
resources: {{}}
""")
    (tmp_path / "env.yaml").write_text(f"parameters:\n  c: {{x: {PW},\n    y: {PW}}}\n  d: {{x: 1}}\n")
    arguments = ["facts", str(tmp_path / "web.yaml"), "-e", str(tmp_path / "env.yaml")]
    assert main(arguments) == 3
    assert (
        capsys.readouterr().err.replace(f"{tmp_path}/", "")
        == """\
env.yaml:4:3: error[bad-parameter] there is no parameter `d`
  4 |   d: {x: 1}
    |   ^
web.yaml:3:3: error[bad-parameter] parameter `a` can't be a hidden value: it is not a valid string
  3 |   a: {type: string, hidden: true, constraints: [{length: {max: 3}}], default: ***
    |   ^
web.yaml:4:3: error[bad-parameter] parameter `b` can't be a hidden value: it is not a valid number
  4 |   b: {default: ***
    |   ^
"""
    )
    with pytest.raises(InputError) as error:
        dg.read_stack(tmp_path / "web.yaml", environments=[tmp_path / "env.yaml"])
    assert error.value.sources[str(tmp_path / "env.yaml")] == "parameters:\n  c: ***\n***\n  d: {x: 1}"


def test_a_default_with_a_comma_and_no_quotes_is_not_quoted(tmp_path: Path) -> None:
    line = f"  pw: {{type: string, hidden: true, default: {PW},{PW}}}"
    (tmp_path / "t.yaml").write_text(f"heat_template_version: wallaby\nparameters:\n{line}\nresources: {{}}\n")
    with pytest.raises(InputError) as error:
        dg.read_stack(tmp_path / "t.yaml")
    (problem,) = error.value.diagnostics
    assert problem.message == "the definition of parameter `pw` has no key `***`"
    assert PW not in str(error.value)


@pytest.mark.parametrize(
    "nested",
    [
        "%pw",
        '{"heat_template_version": "%pw"}',
        '{"heat_template_version": "wallaby", "a%pwb": {}}',
        '{"heat_template_version": "wallaby", "resources": {"a%pwb/": {"type": "a%pwb.yaml"}}}',
        '{"heat_template_version": "wallaby", "resources": {"a": {"type": "%pw", "depends_on": "a%pwb"}}}',
    ],
)
def test_an_error_in_a_template_made_of_a_hidden_value_shows_nothing_of_it(nested: str) -> None:
    text = {"str_replace": {"template": nested, "params": {"%pw": {"get_param": "pw"}}}}
    template = stack_of({}, more={"type": "OS::Heat::Stack", "properties": {"template": text}})
    with pytest.raises(InputError) as error:
        dg.read_stack(template=template, parameters={"pw": PW, "open": "o"})
    (problem,) = error.value.diagnostics
    assert problem.message == "the template of stack/more came from a hidden parameter, and Heat does not accept it"
    assert problem.span
    assert problem.span.path == "resources.more.properties.template"
    assert PW not in str(error.value.sources)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://gate:s3cr3t@127.0.0.1:1/gate", "postgresql://gate:***@127.0.0.1:1/gate"),
        ("postgresql://gate:s3cr3t/word@x@127.0.0.1:1/gate", "postgresql://gate:***@127.0.0.1:1/gate"),
        ("postgresql://127.0.0.1:1/gate?user=gate&password=s3cr3t", "postgresql://127.0.0.1:1/gate?user=gate&password=***"),
    ],
)  # fmt: skip
def test_a_store_of_scans_that_is_away_is_named_without_its_password(
    url: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg")
    code = main(["scan", "history", "--store", url])
    error = capsys.readouterr().err
    assert (code, error.startswith(f"error[unreadable] the store {shown} fails: ")) == (3, True)
    assert "s3cr3t" not in error
