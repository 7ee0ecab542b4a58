"""Which files are stacks of their own, and with which environments."""

from __future__ import annotations

import os
import tracemalloc
from hashlib import sha256
from pathlib import Path

import pytest

from datalog_gate.base.diagnostics import Span
from datalog_gate.files.configuration import Configuration, TemplateEntry
from datalog_gate.files.discovery import Discovery, discover_templates
from tests.commands import write_files

HOT = "heat_template_version: 2018-08-31\n"
NET = f"{HOT}resources: {{net: {{type: OS::Neutron::Net}}}}\n"


def nesting(*files: str) -> str:
    return f"{HOT}resources: {{{', '.join(f'r{at}: {{type: {file}}}' for at, file in enumerate(files))}}}\n"


def discover(folder: Path, files: dict[str, str]) -> dict[str, tuple[list[str], list[str]]]:
    """Each template with its environments, and with what else it reads, by paths in the folder."""
    write_files(folder, files)
    answer: dict[str, tuple[list[str], list[str]]] = {}
    for template in discover_templates(folder).templates:
        own = [template.path, *template.environments]
        more = [name for name in template.files if name not in own]
        environments, rest = (
            [Path(path).relative_to(folder).as_posix() for path in paths] for paths in (template.environments, more)
        )
        answer[Path(template.source).relative_to(folder).as_posix()] = environments, rest
    return answer


def test_a_template_names_its_version_at_its_top(tmp_path: Path) -> None:
    files = {
        "hot.yaml": NET,
        "short.yml": NET,
        "cfn.template": "AWSTemplateFormatVersion: 2010-09-09\n",
        "data.json": '{"heat_template_version": "2018-08-31", "resources": {}}',
        "quoted.yaml": '"heat_template_version": 2018-08-31\n',
        "broken.yaml": f"{HOT}resources: [\n",
        "latin.yaml": HOT + "\xe9",
        "environment.yaml": "parameters: {heat_template_version: 2018-08-31}\n",
        "playbook.yaml": f"- copy:\n    content: |\n      {NET}",
        "values.yaml": "a: 1\n",
        "README.md": HOT,
        ".hidden.yaml": NET,
        ".git/web.yaml": NET,
        "deep/er/web.yaml": NET,
    }
    (tmp_path / "latin.yaml").write_bytes(f"{HOT}# \xe9\n".encode("latin-1"))
    names = ["broken.yaml", "cfn.template", "data.json", "deep/er/web.yaml", "hot.yaml", "latin.yaml"]
    assert list(discover(tmp_path, files)) == [*names, "quoted.yaml", "short.yml"]


def test_environments_belong_to_the_template_of_their_name(tmp_path: Path) -> None:
    environment = "parameters: {a: 1}\n"
    files = {
        "web.yaml": NET,
        "web.env": environment,
        "web.env.yaml": environment,
        "db.yaml": NET,
        "env.yaml": environment,
        "app/template.yaml": NET,
        "app/env.yaml": environment,
    }
    assert discover(tmp_path, files) == {
        "app": ([], ["app/env.yaml"]),  # `read_stack` reads it with the folder
        "db.yaml": ([], []),
        "web.yaml": (["web.env", "web.env.yaml"], []),
    }


def test_what_another_template_reads_is_a_part_of_it(tmp_path: Path) -> None:
    group = "{type: OS::Heat::ResourceGroup, properties: {resource_def: {type: nested/member.yaml}}}"
    files = {
        "web.yaml": f"{HOT}resources: {{g: {group}, s: {{get_file: run.sh}}, x: {{type: no.yaml}}}}\n",
        "web.env": "resource_registry: {Site: site.yaml, base_url: nested, resources: {a: {B: 'file:///%s'}}}\n",
        "run.sh": "true\n",
        "nested/member.yaml": nesting("../deep.yaml"),
        "nested/site.yaml": NET,
        "deep.yaml": NET,
        "mentioned.yaml": f"{NET}# deep.yaml, web.yaml\n",
    }
    parts = ["deep.yaml", "nested/member.yaml", "nested/site.yaml", "run.sh"]
    assert discover(tmp_path, files) == {"mentioned.yaml": ([], []), "web.yaml": (["web.env"], parts)}


def test_what_another_template_reads_is_a_part_of_it_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"web.yaml": nesting("part.yaml"), "part.yaml": NET, "template.yaml": NET}
    files |= {"below/web.yaml": nesting("part.yaml"), "below/part.yaml": NET}
    assert list(discover(Path(), files)) == ["below/web.yaml", ".", "web.yaml"]


@pytest.mark.parametrize("folder", ["stacks", "rules/../stacks", "link", "../in/stacks", "stacks/."])
def test_a_template_is_a_part_of_another_however_their_folder_is_written(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"stacks/web.yaml": nesting("../stacks/part.yaml"), "stacks/part.yaml": NET, "rules/a.dl": ""}
    write_files(tmp_path / "in", files)
    (tmp_path / "in" / "link").symlink_to("stacks")
    for place, path in ((tmp_path / "in", Path(folder)), (tmp_path / "in" / "stacks", Path())):
        monkeypatch.chdir(place)
        [template] = discover_templates(path).templates
        assert (template.path, [*template.files]) == (str(path / "web.yaml"), [str(path / "part.yaml"), template.path])


def test_of_templates_in_a_circle_the_first_is_judged(tmp_path: Path) -> None:
    files = {"a.yaml": nesting("b.yaml"), "b.yaml": nesting("a.yaml"), "own.yaml": nesting("own.yaml")}
    assert discover(tmp_path, files) == {"a.yaml": ([], ["b.yaml"]), "own.yaml": ([], [])}


def test_the_digest_of_each_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    discover(tmp_path, {"web.yaml": NET})
    [template] = discover_templates(tmp_path).templates
    assert template.files == {str(tmp_path / "web.yaml"): sha256(NET.encode()).hexdigest()}


def test_a_template_behind_a_link_reads_what_is_beside_its_target(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "web.yaml").symlink_to("../b/web.yaml")
    files = {"b/web.yaml": nesting("nested.yaml"), "b/nested.yaml": NET}
    assert discover(tmp_path, files) == {"a/web.yaml": ([], ["b/nested.yaml"]), "b/web.yaml": ([], ["b/nested.yaml"])}


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    assert discover_templates(tmp_path / "none") == Discovery((), (tmp_path / "none",))


def test_a_file_that_cannot_be_read_may_be_a_template_and_a_pipe_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "mem.yaml").symlink_to("/proc/self/mem")  # not even root reads from its start
    (tmp_path / "gone.yaml").symlink_to("none")
    assert discover_templates(tmp_path) == Discovery((), (tmp_path / "mem.yaml",))
    entry = TemplateEntry(("*.yaml",), (), {}, Span("", 1, 1, 1, 1))
    found = Configuration(file=tmp_path / "datalog-gate.toml", templates=(entry,)).find_templates()
    assert [Path(template.path).resolve() for template in found] == [Path("/proc/self/mem").resolve()]


def test_a_pattern_meets_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shut").mkdir()
    closed = Discovery((), (tmp_path / "shut",))
    monkeypatch.setattr("datalog_gate.files.configuration.discover_templates", lambda _: closed)
    entry = TemplateEntry(("**/*.yaml",), (), {}, Span("", 1, 1, 1, 1))
    found = Configuration(file=tmp_path / "datalog-gate.toml", templates=(entry,)).find_templates()
    assert [template.path for template in found] == [str(tmp_path / "shut")]


def test_the_contents_of_files_are_not_kept(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.yaml").write_text(NET + "#" * 500_000)
    tracemalloc.start()
    try:
        discovery = discover_templates(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(discovery.templates) == 12
    assert peak < 3_000_000
