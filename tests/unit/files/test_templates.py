"""Stacks from files, and the corpus of real templates."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.files.templates import MAX_BYTES, read_stack, read_text
from datalog_gate.stack.model import Data
from tests.refusals import refusals

TEMPLATE = """\
heat_template_version: 2018-08-31
parameters: {key: {type: string}}
resources: {a: {type: 'My::A', properties: {key: {get_param: key}, text: {get_file: a.txt}}}}
"""
SHARED = Path(os.environ.get("DATALOG_GATE_SHARED", Path(__file__).parents[4] / "shared"))
CORPUS = SHARED / "corpus" / "templates"
FILES = {
    "web.yaml": TEMPLATE,
    "a.txt": "text of a",
    "env.yaml": "parameters: {key: ops}\nresource_registry: {'My::A': 'OS::B'}\n",
}


def test_a_template_is_read_from_its_path_with_environments(folder: Path) -> None:
    stack = read_stack(str(folder / "web.yaml"), environments=[str(folder / "env.yaml")])
    [resource] = stack.resources
    assert (resource.id.path, resource.type, resource.properties) == (
        "web/a",
        "OS::B",
        {"key": "ops", "text": "text of a"},
    )
    assert resource.locate(()) == Span(str(folder / "web.yaml"), 3, 13, 3, 14)
    assert stack.files == {"a.txt": "text of a"}
    assert stack.sources == {str(folder / name): (folder / name).read_text() for name in ("env.yaml", "web.yaml")}


def test_later_environments_win_over_earlier_ones_and_over_parameters(folder: Path) -> None:
    (folder / "more.yaml").write_text("parameters: {key: more}\n")
    paths = [folder / "env.yaml", folder / "more.yaml"]
    keys = [
        read_stack(folder / "web.yaml", environments=paths, parameters=parameters).resources[0].properties["key"]
        for parameters in (None, {"key": "mine"})
    ]
    assert keys == ["more", "more"]


@pytest.mark.parametrize(
    "body",
    [
        TEMPLATE,
        json.dumps(
            {
                "heat_template_version": "2018-08-31",
                "parameters": {"key": {"type": "string"}},
                "resources": {
                    "a": {"type": "My::A", "properties": {"key": {"get_param": "key"}, "text": {"get_file": "a.txt"}}}
                },
            }
        ),
    ],
)
def test_the_body_of_a_request_is_read_with_its_files_and_no_others(body: str) -> None:
    environment = {"parameters": {"key": "ops"}}
    stacks = [
        read_stack(template=template, environment=environment, files={"a.txt": "given"}, stack_name="web")
        for template in ([body, json.loads(body)] if body.startswith("{") else [body])
    ]
    assert {(stack.id, json.dumps(dict(stack.resources[0].properties))) for stack in stacks} == {
        ("web", '{"key": "ops", "text": "given"}')
    }
    assert refusals(lambda: read_stack(body, environment=environment), "code") == ["missing-file"]


def test_the_body_of_a_request_is_never_a_path(folder: Path) -> None:
    for body in (str(folder / "web.yaml"), str(folder), "/etc/hostname"):
        assert refusals(partial(read_stack, template=body), "code") == ["not-a-template"]
    with pytest.raises(UsageError):
        read_stack()
    with pytest.raises(UsageError):
        read_stack(folder / "web.yaml", template=TEMPLATE)


@pytest.mark.parametrize("way", ["web", "./web", "../{name}/web", "{folder}", "{folder}/../{name}/web"])
def test_facts_do_not_depend_on_how_paths_are_written(folder: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "web").mkdir()
    for name in ("web.yaml", "env.yaml", "a.txt"):
        (folder / name).rename(folder / "web" / name)
    written = Path(way.format(folder=folder / "web" if way == "{folder}" else folder, name=folder.name))
    stack = read_stack(written / "web.yaml", environments=[f"{written}/env.yaml"])
    assert ([*stack.files], [file.file for file in stack.environments]) == (["a.txt"], ["env.yaml"])


def test_a_folder_is_its_template_with_its_environment(folder: Path) -> None:
    (folder / "web.yaml").rename(folder / "template.yaml")
    stack = read_stack(folder)
    assert (stack.id, stack.resources[0].properties["key"]) == (folder.name, "ops")


def test_the_name_of_the_stack_can_be_given(folder: Path) -> None:
    assert read_stack(folder / "web.yaml", stack_name="db").resources[0].id.path == "db/a"


def test_files_are_found_beside_the_file_that_names_them(folder: Path) -> None:
    child = folder / "sub" / "child.yaml"
    child.parent.mkdir()
    child.write_text(
        "heat_template_version: 2018-08-31\n"
        "resources: {x: {type: A, properties: {t: {get_file: ../a.txt}, b: {get_file: b.bin}}}}\n"
    )
    (child.parent / "b.bin").write_bytes(b"\xff\x00")
    (folder / "web.yaml").write_text(
        f"heat_template_version: 2018-08-31\nresources: {{c: {{type: sub/child.yaml}}, d: {{type: 'file://{child}'}}}}\n"
    )
    properties = [
        resource.nested.resources[0].properties
        for resource in read_stack(folder / "web.yaml").resources
        if resource.nested
    ]
    assert properties == [{"t": "text of a", "b": "/wA=\n"}] * 2


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("{get_file: sub/child.yaml}", "Net"),
        ("{str_replace: {template: {get_file: sub/child.yaml}, params: {Net: Port}}}", "Port"),
    ],
)
def test_a_nested_template_is_the_text_that_the_client_sends(folder: Path, written: str, kind: str) -> None:
    """Its names of files start from its own folder (heatclient/common/template_utils.py:137)."""
    child = folder / "sub" / "child.yaml"
    child.parent.mkdir()
    head = "heat_template_version: 2018-08-31\nresources: "
    child.write_text(head + "{n: {type: OS::Neutron::Net, properties: {name: {get_file: b.txt}}}, t: {type: b.yaml}}\n")
    (child.parent / "b.txt").write_text("text of b")
    (child.parent / "b.yaml").write_text(head + "{}\n")
    (folder / "web.yaml").write_text(head + f"{{s: {{type: OS::Heat::Stack, properties: {{template: {written}}}}}}}\n")
    [stack] = read_stack(folder / "web.yaml").resources
    assert stack.properties == {
        "template": '{"heat_template_version": "2018-08-31", "resources": {"n": {"type": "OS::Neutron::'
        f'{kind}", "properties": {{"name": {{"get_file": "sub/b.txt"}}}}}}, "t": {{"type": "sub/b.yaml"}}}}}}'
    }
    assert stack.nested
    assert [(part.type, part.properties) for part in stack.nested.resources] == [
        (f"OS::Neutron::{kind}", {"name": "text of b"}),
        ("b.yaml" if kind == "Net" else "sub/b.yaml", {}),
    ]


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "file:///etc/hostname", "link", "sub/../../secret"])
def test_no_file_outside_the_root_is_read(folder: Path, name: str) -> None:
    root = folder / "root"
    root.mkdir()
    (folder / "secret").write_text("s")
    (root / "link").symlink_to(folder / "secret")
    (root / "t.yaml").write_text(
        f"heat_template_version: 2018-08-31\nresources: {{a: {{type: A, properties: {{x: {{get_file: '{name}'}}}}}}}}\n"
    )
    assert refusals(lambda: read_stack(root / "t.yaml"), "code") == ["outside-root"]
    if not name.startswith(("/", "file")):
        assert read_stack(root / "t.yaml", files_root=folder).resources[0].properties == {"x": "s"}


def test_files_may_be_read_from_several_roots(folder: Path) -> None:
    for name in ("one", "two", "three"):
        (folder / name).mkdir()
        (folder / name / "f").write_text(name)
    properties = "x: {get_file: f}, y: {get_file: ../two/f}"
    template = folder / "one" / "t.yaml"
    template.write_text(
        f"heat_template_version: 2018-08-31\nresources: {{a: {{type: A, properties: {{{properties}}}}}}}\n"
    )
    roots = [folder / "one", folder / "two"]
    assert read_stack(template, files_root=roots).resources[0].properties == {"x": "one", "y": "two"}
    template.write_text(template.read_text().replace("two", "three"))
    [message] = refusals(lambda: read_stack(template, files_root=roots), "message")
    assert message == f"../three/f is outside {roots[0]} and {roots[1]}, the folders that may be read"


@pytest.mark.parametrize("link", ["link.yaml", "other/template.yaml", "linked/web.yaml"])
def test_names_in_a_template_behind_a_link_start_from_its_target(folder: Path, link: str) -> None:
    """As in Heat's client since 5.2.0 (heatclient/common/utils.py:430)."""
    home = folder / "home"
    home.mkdir()
    (home / "web.yaml").write_text(TEMPLATE.replace("a.txt", "../a.txt"))
    (home / "env.yaml").write_text("parameters: {key: ops}\nresource_registry: {'My::A': nested.yaml}\n")
    parameters = "parameters: {key: {type: string}, text: {type: string}}"
    (home / "nested.yaml").write_text(
        f"heat_template_version: 2018-08-31\n{parameters}\nresources: {{b: {{type: 'OS::B'}}}}\n"
    )
    (folder / "deep" / "other").mkdir(parents=True)
    for name, target in {"link.yaml": "web.yaml", "other/template.yaml": "web.yaml", "env.yaml": "env.yaml"}.items():
        (folder / "deep" / name).symlink_to(home / target)
    (folder / "deep" / "linked").symlink_to(home)
    stack = read_stack(folder / "deep" / link, environments=[folder / "deep" / "env.yaml"], files_root=folder)
    [resource] = stack.resources
    assert resource.nested
    assert resource.properties["text"] == "text of a"
    assert resource.nested.resources[0].locate(()) == Span(str(home / "nested.yaml"), 3, 13, 3, 14)


@pytest.mark.parametrize("name", ["none.txt", "a\\0b", "x" * 5000, ".", "ftp://host/x"])
def test_a_file_that_does_not_exist_is_missing(folder: Path, name: str) -> None:
    (folder / "t.yaml").write_text(
        f'heat_template_version: 2018-08-31\nresources: {{a: {{type: A, properties: {{x: {{get_file: "{name}"}}}}}}}}\n'
    )
    assert refusals(lambda: read_stack(folder / "t.yaml"), "code") == ["missing-file"]


def test_texts_that_can_not_be_read_are_diagnostics(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("a: b\nc: \u00e9\n".encode("latin-1"))
    (tmp_path / "big.yaml").write_bytes(b"x" * (MAX_BYTES + 1))
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    latin = str(tmp_path / "latin.yaml")
    assert refusals(lambda: read_text(latin), "code", "span") == [("encoding", Span(latin, 2, 4, 2, 5))]
    assert refusals(lambda: read_text(tmp_path / "big.yaml"), "code") == ["too-large"]
    assert refusals(lambda: read_text(tmp_path / "none.yaml"), "code") == ["unreadable"]
    assert refusals(lambda: read_stack(str(tmp_path)), "code") == ["unreadable"]
    assert refusals(lambda: read_stack("a\0b"), "code") == ["unreadable"]
    assert read_text(tmp_path / "bom.yaml") == "a: 1\n"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of templates is not there")
def test_every_template_of_the_corpus_is_read_but_those_that_are_wrong() -> None:
    refused: dict[str, set[str]] = {}
    counts: dict[str, tuple[Data, int]] = {}
    for line in (CORPUS / "manifest.jsonl").read_text().splitlines():
        entry = json.loads(line)
        environments = [CORPUS / name for name in entry["envs"]]
        try:
            stack = read_stack(CORPUS / entry["root"], environments=environments, files_root=CORPUS)
        except InputError as error:
            refused[entry["root"]] = {diagnostic.code for diagnostic in error.diagnostics}
        else:
            counts[entry["root"]] = (entry["n_resources"], len(stack.resources))
    assert refused == {  # attributes of resources, and a property, that do not exist; Heat refuses it too
        "openstack+magnum/contrib/drivers/k8s_opensuse_v1/templates/kubecluster.yaml": {
            "bad-reference",
            "bad-parameter",
        },
    }
    assert {root: pair for root, pair in counts.items() if pair[0] != pair[1]} == {
        # what is off by its condition with the defaults of the template
        "openstack+heat-templates/hot/condition.yaml": (8, 3),
        "openstack+magnum/magnum/drivers/k8s_fedora_coreos_v1/templates/kubecluster.yaml": (18, 0),
    }
