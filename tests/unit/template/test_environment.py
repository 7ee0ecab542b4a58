"""Environments: what each says, and how several are merged."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.base.records import replace
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Data, Stack
from datalog_gate.template.reader import TemplateSource, read_template
from tests.expressions import unknown_of
from tests.refusals import refusals
from tests.unit.template.test_reader import HEAD, problems, read


def types(environment: str, declared: str = "My::A", name: str = "r") -> str:
    return read(f"resources: {{{name}: {{type: '{declared}'}}}}\n", environment=environment).resources[0].type


@pytest.mark.parametrize(
    ("registry", "kind"),
    [
        ("{'My::A': 'OS::B'}", "OS::B"),
        ("{'My::A': 'My::B', 'My::B': 'OS::C'}", "OS::C"),
        ("{'My::*': 'OS::*'}", "OS::A"),
        ("{'My::*': 'OS::B'}", "OS::B"),
        ("{'My::A': null}", "My::A"),
        ("{'My::A': 'OS::B', 'My::*': null}", "My::A"),
        ("{'Other::*': 'OS::B', 'My::AB': 'OS::C'}", "My::A"),
        ("{'My::A': 'OS::B', resources: {r: {'My::A': 'OS::Own'}, s: {'My::A': 'OS::No'}}}", "OS::Own"),
        ("{resources: {'*': {hooks: pre-create}, r: {hooks: [pre-update], restricted_actions: update}}}", "My::A"),
    ],
)
def test_the_registry_says_what_a_type_is(registry: str, kind: str) -> None:
    assert types(f"resource_registry: {registry}\n") == kind


def test_a_later_environment_is_put_over_an_earlier_one() -> None:
    stack = read_stack(
        HEAD + "resources: {r: {type: A}}\nparameters: {p: {type: string}}\n",
        environment={"parameters": {"p": "x"}, "resource_registry": {"A": "B"}},
    )
    assert (stack.resources[0].type, stack.resources[0].declared, stack.parameters[0].value) == ("B", "A", "x")


@pytest.mark.parametrize(
    ("environment", "code", "line"),
    [
        ("- a\n", "bad-environment", 1),
        ("parametrs: {}\n", "bad-environment", 1),
        ("parameters:\n", "bad-environment", 1),
        ("resource_registry:\n  A: [B]\n", "bad-environment", 2),
        ("resource_registry:\n  A: B\n  B: A\n", "bad-environment", 2),
        ("parameter_merge_strategies: [p]\n", "bad-environment", 1),
        ("resource_registry:\n  resources:\n    r: {hooks: pre-delet}\n", "bad-environment", 3),
        ("resource_registry:\n  resources: {r: x}\n", "bad-environment", 2),
    ],
)
def test_a_wrong_environment_is_refused(environment: str, code: str, line: int) -> None:
    diagnostics = problems("resources: {r: {type: A}}\n", environment=environment)
    assert [diagnostic[:2] for diagnostic in diagnostics] == [(code, line)]


TYPED = (
    HEAD
    + """\
parameters:
  s: {type: string, default: ""}
  n: {type: number, default: 0}
  l: {type: comma_delimited_list, default: ""}
  j: {type: json, default: {}}
  b: {type: boolean, default: false}
"""
)


def with_files(*files: str, **parameters: Data) -> Stack:
    named = [(f"{at}.yaml", file) for at, file in enumerate(files)]
    return read_template(
        TemplateSource(TYPED, "t.yaml", "web", environments=named, parameters=parameters), lambda *_: None
    )


@pytest.mark.parametrize(
    ("how", "name", "first", "second", "value"),
    [
        ("overwrite", "s", "a", "b", "b"),
        ("deep_merge", "s", "a", "b", "ab"),
        ("mistyped", "s", "a", "b", "b"),
        ("merge", "n", "'1'", "'2'", 12),
        ("merge", "l", "a", "b", ["a", "b"]),
        ("merge", "l", "[a]", "[b]", ["a", "b"]),
        ("merge", "j", "{a: {x: 1}, b: 1}", "{a: {y: 1}, b: null}", {"a": {"y": 1}, "b": 1}),
        ("merge", "j", "{a: 1}", "'{\"b\": 2}'", {"a": 1, "b": 2}),
        ("deep_merge", "j", "{a: {x: 1}, l: [1], s: a, n: 1}", "{a: {y: 1}, l: [2], s: b, n: 2}", {"a": {"x": 1, "y": 1}, "l": [1, 2], "s": "ab", "n": 2}),
        ("merge", "s", "a", "null", "a"),
    ],
)  # fmt: skip
def test_files_merge_a_parameter_as_they_say(how: str, name: str, first: str, second: str, value: Data) -> None:
    for strategy in (f"{{{name}: {how}}}", f"{{default: {how}}}"):
        files = [
            f"parameters: {{{name}: {value}}}\nparameter_merge_strategies: {strategy}\n" for value in (first, second)
        ]
        [parameter] = [parameter for parameter in with_files(*files).parameters if parameter.name == name]
        assert (parameter.value, parameter.origin) == (value, "environment")


BELOW = {
    "a.yaml": HEAD + "parameters: {below: {type: string}, both: {type: string}}\nresources: {b: {type: My::B}}\n",
    "b.yaml": HEAD + "parameters: {list: {type: comma_delimited_list}, both: {type: json}}\n"
              "resources: {c: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: c.yaml}}}}\n",
    "c.yaml": HEAD + "parameters: {map: {type: json}}\nresources: {n: {type: A}}\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("how", "kind", "first", "second", "places"),
    [
        ("merge", "comma_delimited_list", "[a, b]", "[c]", ["0.yaml:18", "0.yaml:21", "1.yaml:18"]),
        ("merge", "comma_delimited_list", "'a,b'", "c", ["0.yaml:17", "0.yaml:17", "1.yaml:17"]),
        ("deep_merge", "json", "{0: {l: [a], k: b}}", "{0: {l: [c]}}", ["0.yaml:26", "0.yaml:33"]),
    ],
)
def test_each_part_of_a_merged_value_has_the_place_of_its_own_file(
    tmp_path: Path, how: str, kind: str, first: str, second: str, places: list[str]
) -> None:
    (tmp_path / "t.yaml").write_text(
        f"{HEAD}parameters: {{p: {{type: {kind}}}}}\nresources: {{a: {{type: A, metadata: {{get_param: p}}}}}}\n"
    )
    for at, value in enumerate((first, second)):
        (tmp_path / f"{at}.yaml").write_text(f"parameters: {{p: {value}}}\nparameter_merge_strategies: {{p: {how}}}\n")
    [resource] = read_stack(tmp_path / "t.yaml", environments=[tmp_path / "0.yaml", tmp_path / "1.yaml"]).resources
    paths = [(0,), (1,), (2,)] if isinstance(resource.metadata, list) else [("0", "l", 0), ("0", "k")]
    spans = [resource.locate(("metadata", *path)) for path in paths]
    assert [span and f"{Path(span.file).name}:{span.column}" for span in spans] == places


@pytest.mark.parametrize(
    ("environment", "code", "column"),
    [
        ("parameters: {n: ten}", "bad-parameter", 14),
        ("parameter_defaults: {n: ten}", "bad-parameter", 22),
        ("{parameters: {n: 1}, resource_registry: {'My::A': none.yaml}}", "missing-file", 51),
        ("{parameters: {n: 1}, resource_registry: {resources: {a: {'My::A': none.yaml}}}}", "missing-file", 57),
        ("{parameters: {n: 1}, resource_registry: {'My::A': B, B: 'My::A'}}", "bad-environment", 51),
    ],
)
def test_a_mistake_in_an_environment_has_its_place_there(
    tmp_path: Path, environment: str, code: str, column: int
) -> None:
    (tmp_path / "t.yaml").write_text(
        f"{HEAD}parameters: {{n: {{type: number}}}}\nresources: {{a: {{type: 'My::A'}}}}\n"
    )
    (tmp_path / "e.yaml").write_text(environment)
    said = refusals(lambda: read_stack(tmp_path / "t.yaml", environments=[tmp_path / "e.yaml"]), "code", "span")
    assert [(code, Path(span.file).name, span.column) for code, span in said] == [(code, "e.yaml", column)]


def merged_below(key: str, first: str, second: str) -> Stack:
    text = (
        HEAD
        + "resources: {a: {type: a.yaml}, other: {type: absent.yaml, condition: never}}\nconditions: {never: false}\n"
    )
    registry = "resource_registry: {resources: {x: {'My::B': b.yaml}}, 'My::B': b.yaml}\n"
    how = "parameter_merge_strategies: {default: merge}\n"
    files = [f"{registry}{how}parameter_defaults: {{{key}: {value}}}\n" for value in (first, second)]
    source = TemplateSource(text, "t.yaml", "web", environments=[(f"{at}.env", file) for at, file in enumerate(files)])
    return read_template(source, lambda name, _: (name, BELOW[name]) if name in BELOW else None)


@pytest.mark.parametrize(
    ("key", "first", "second", "value"),
    [
        ("below", "x", "y", "xy"),
        ("list", "x", "y", ["x", "y"]),
        ("map", "{a: 1}", "'{\"b\": 2}'", {"a": 1, "b": 2}),
    ],
)
def test_what_only_a_nested_template_declares_is_merged_by_its_type(
    key: str, first: str, second: str, value: Data
) -> None:
    stacks = [merged_below(key, first, second)]
    for stack in stacks:
        stacks += [resource.nested for resource in stack.resources if resource.nested]
    assert [parameter.value for stack in stacks for parameter in stack.parameters if parameter.name == key] == [value]


def test_what_nested_templates_declare_as_different_types_is_not_merged() -> None:
    assert refusals(lambda: merged_below("both", "x", "y"), "code", "message") == [
        ("bad-environment", "`both` can't be merged: its type is not known")
    ]


def test_a_sent_template_that_nothing_names_counts_where_files_merge() -> None:
    how = "parameter_merge_strategies: {default: merge}\n"
    files = {
        "1.env": f"{how}parameter_defaults: {{below: 10.0.0.0}}\n",
        "2.env": f"{how}parameter_defaults: {{below: /8}}\n",
        "a.yaml": BELOW["a.yaml"],
        "unnamed.yaml": HEAD + "parameters: {below: {type: comma_delimited_list}}\n",
    }
    definition = StackDefinition(f"{HEAD}resources: {{a: {{type: a.yaml}}}}\n", None, None, files, ("1.env", "2.env"))
    assert refusals(lambda: definition.stack("web", SHIPPED), "code", "message") == [
        ("bad-environment", "`below` can't be merged: its type is not known")
    ]
    unread = {"unnamed.yaml": f"%YAML 1.3\n---\n{files['unnamed.yaml']}"}  # Heat reads it by another loader
    definition = replace(definition, files=files | unread)
    assert refusals(lambda: definition.stack("web", SHIPPED), "code") == ["yaml"]
    for text in ("a: 1\n---\nb: 2\n", "a: !Ref b\n", "%YAML 1.3\n---\na: {b: 1, b: 2}\n", "[\n"):
        stack = replace(definition, files=files | {"unnamed.yaml": text}).stack("web", SHIPPED)
        [nested] = [resource.nested for resource in stack.resources if resource.nested]
        assert (stack.warnings, nested.parameters[0].value) == ((), "10.0.0.0/8"), text


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["parameters: {s: a}\nparameter_merge_strategies: {s: merge}\n", "parameters: {s: b}\nparameter_merge_strategies: {s: deep_merge}\n"], "`s` is merged by `deep_merge` here and by `merge` in an earlier file"),
        (["parameters: {s: a}\n", "parameters: {s: b}\nparameter_merge_strategies: {default: merge, s: merge}\n"], "`s` is merged by `merge` here and by `overwrite` in an earlier file"),
        (["parameters: {s: a}\n", "parameters: {n: 2}\nparameter_merge_strategies: {n: merge}\n"], "`n` can't be merged as number"),
        (["parameters: {j: [1]}\nparameter_merge_strategies: {j: merge}\n", "parameters: {j: {a: 1}}\nparameter_merge_strategies: {j: merge}\n"], "`j` can't be merged as json"),
        (["parameters: {l: &l [a]}\nparameter_defaults: {x: *l}\nparameter_merge_strategies: {l: merge}\n", "parameters: {l: [b]}\n"], "Heat changes `parameter_defaults.x` too when it merges files into `parameters.l`"),
        (["parameters: &p {s: a}\nparameter_defaults: *p\n", "parameters: {s: b}\n"], "Heat changes `parameter_defaults` too when it merges files into `parameters`"),
    ],
)  # fmt: skip
def test_a_merge_that_heat_refuses_is_refused_at_the_later_file(files: list[str], message: str) -> None:
    refused = refusals(lambda: with_files(*files), "code", "span.file", "message")
    at = 0 if message.startswith("Heat changes") else len(files) - 1
    assert refused == [("bad-environment", f"{at}.yaml", message)]


def test_parts_that_are_one_by_an_alias_are_taken_where_nothing_changes_them() -> None:
    text = "parameters: {l: &l [a]}\nparameter_defaults: {x: *l}\n"
    assert with_files(text, "parameters: {l: [b]}\n").parameters[2].value == ["b"]


@pytest.mark.parametrize(
    ("files", "value"),
    [
        (["{x: a}", "{s: '', x: b}"], "?"),
        (["{x: a}", "{x: a}"], "a"),
        (["{s: ''}", "{x: b}"], "?"),
        (["{x: }", "{x: b}"], "?"),
        (["{}", "{x: b}"], "b"),
    ],
)
@pytest.mark.parametrize("how", ["", "parameter_merge_strategies: {default: merge}\n"])
def test_a_default_that_no_file_declares_is_not_known_after_the_first_environment(
    how: str, files: list[str], value: str
) -> None:
    inner = HEAD + "parameters: {x: {type: string, default: own}}\nresources: {}\n"
    text = TYPED + f"resources: {{r: {{type: OS::Heat::Stack, properties: {{template: '{inner}'}}}}}}\n".replace(
        "\n", "\n\n", inner.count("\n")
    )
    named = [(f"{at}.yaml", f"{how}parameter_defaults: {file}\n") for at, file in enumerate(files)]
    stack = read_template(TemplateSource(text, "t.yaml", "web", environments=named), lambda *_: None)
    [nested] = [resource.nested for resource in stack.resources if resource.nested]
    unknown = unknown_of("the value of x by several environment files")
    assert nested.parameters[0].value == (unknown if value == "?" else value)


def test_files_are_over_what_the_caller_gives_and_a_body_is_under_it() -> None:
    file = "parameters: {s: file, unknown: x}\n"
    assert with_files(file, s="caller").parameters[0].value == "file"
    source = TemplateSource(TYPED, "t", "web", environment="parameters: {s: body}", parameters={"s": "caller"})
    body = read_template(source, lambda *_: None)
    assert body.parameters[0].value == "caller"


def test_a_later_file_replaces_registry_entries_and_takes_none_away() -> None:
    files = [
        ("a.yaml", "resource_registry: {A: One, B: One, resources: {b: {B: Own}}}\n"),
        ("b.yaml", "resource_registry: {A: Two, B: null, resources: {c: {C: Own}}}\n"),
    ]
    text = HEAD + "resources: {a: {type: A}, b: {type: B}, c: {type: C}}\n"
    stack = read_template(TemplateSource(text, "t", "web", environments=files), lambda *_: None)
    assert [resource.type for resource in stack.resources] == ["Two", "One", "Own"]


def test_what_says_nothing_about_facts_is_accepted_in_an_environment() -> None:
    environment = "encrypted_param_names: [s]\nevent_sinks: [{type: zaqar-queue, target: q}]\nresource_registry: {base_url: 'file:///x'}\n"
    assert read("resources: {r: {type: A}}\n", environment=environment).resources[0].type == "A"
