"""A release made by the commands of CONTRIBUTING.md runs README's first command.

`tox -e release` runs this over what is committed. If ``DATALOG_GATE_INSTALL`` names uv, that installs, in a second.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
INSTALL = os.environ.get("DATALOG_GATE_INSTALL", "pip install --quiet")
SECTION = re.compile(r"^## Make a release\n(.*?)^## ", re.M | re.S)
COMMAND = re.compile(r"^ {4}((?:git|python|reno) .*)\n", re.M)
FIRST_COMMAND = re.compile(r"^ {4}(pip install --quiet \. && [^\n]*)\n\n```\n(.*?)```", re.M | re.S)
TEMPLATE = "fixtures/stacks/bastion/template.yaml"
TAGGER = {"GIT_COMMITTER_NAME": "tests", "GIT_COMMITTER_EMAIL": "tests@example.invalid"}


class Release(NamedTuple):
    clone: Path
    files: list[str]
    """What is committed, sorted."""
    sdist: Path
    wheel: Path
    version: str


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release, with a tag that is not signed."""
    clone = tmp_path_factory.mktemp("release") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-tags", ROOT, clone], check=True)
    _, files = run("git ls-files", clone)
    [section] = SECTION.findall((clone / "CONTRIBUTING.md").read_text("utf-8"))
    codes = [run(command.replace("--sign", "--no-sign"), clone, TAGGER)[0] for command in COMMAND.findall(section)]
    assert codes == [0, 0, 0]
    [sdist], [wheel] = (clone / "dist").glob("*.tar.gz"), (clone / "dist").glob("*.whl")
    return Release(clone, files.splitlines(), sdist, wheel, wheel.name.split("-")[1])


def test_the_sdist_holds_what_is_committed(release: Release) -> None:
    with tarfile.open(release.sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert sorted(names) == sorted([*release.files, "PKG-INFO"])


def test_the_wheel_holds_the_package_the_rules_and_what_their_tests_read(release: Release) -> None:
    project = tomllib.loads((release.clone / "pyproject.toml").read_text("utf-8"))
    places = {"datalog_gate": "datalog_gate"} | project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    files = [
        place + name.removeprefix(source)
        for source, place in places.items()
        for name in release.files
        if name.startswith(f"{source}/")
    ]
    described = ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"]
    files += [f"datalog_gate-{release.version}.dist-info/{name}" for name in described]
    with zipfile.ZipFile(release.wheel) as archive:
        assert sorted(archive.namelist()) == sorted(files)


def test_the_version_is_the_same_everywhere(release: Release) -> None:
    extension = json.loads((release.clone / "examples/vscode/package.json").read_text("utf-8"))["version"]
    hooks = re.findall(r"rev: (.*)", (release.clone / "docs/samples/ci/pre-commit-config.yaml").read_text("utf-8"))
    _, tags = run("git tag --points-at HEAD", release.clone)
    assert [extension, *hooks, *tags.splitlines()] == [release.version] * 3


def test_the_report_of_reno_has_every_note(release: Release) -> None:
    notes = re.findall(r"^\.\. (releasenotes/notes/\S+)", (release.clone / "notes.rst").read_text("utf-8"), re.M)
    assert sorted(set(notes)) == [name for name in release.files if name.startswith("releasenotes/notes/")]


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_the_first_command_of_readme_prints_what_it_shows(kind: str, release: Release, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    variables = {
        "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}",
        "PIP_PYTHON": f"{tmp_path}/venv",
        "VIRTUAL_ENV": f"{tmp_path}/venv",
        "XDG_CACHE_HOME": str(release.clone.parent),
    }
    if kind == "sdist":
        with tarfile.open(release.sdist) as archive:
            archive.extractall(tmp_path, filter="data")
        folder, package = tmp_path / f"datalog_gate-{release.version}", "."
    else:  # nothing but the template is here: the rules are those of the wheel
        folder, package = tmp_path / "empty", str(release.wheel)
        (folder / TEMPLATE).parent.mkdir(parents=True)
        (folder / TEMPLATE).write_bytes((release.clone / TEMPLATE).read_bytes())
    [(command, output)] = FIRST_COMMAND.findall((release.clone / "README.md").read_text("utf-8"))
    command = command.replace("pip install --quiet .", f"{INSTALL} {package}")
    assert run(command, folder, variables) == (1, output)
    assert run("datalog-gate --version", folder, variables) == (0, f"datalog-gate {release.version}\n")


def run(command: str, folder: Path, variables: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The exit code of a command of the shell, and what it prints on stdout."""
    environment = {**os.environ, **(variables or {})}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout
