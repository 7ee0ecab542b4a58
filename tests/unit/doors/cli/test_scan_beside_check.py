"""A scan and `check` decide alike, however a path is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from datalog_gate.engine.sql.database import open_database
from datalog_gate.files.discovery import FOLDER_ENVIRONMENT, FOLDER_TEMPLATE, environments_of
from datalog_gate.scan.scan_store import Page, ScanStore
from tests.commands import run, write_files

FIXTURES = Path("fixtures/stacks").resolve()
CORPUS = Path(os.environ.get("DATALOG_GATE_SHARED", FIXTURES.parents[2] / "shared")) / "corpus/templates"
HOT = "heat_template_version: 2018-08-31\n"
FLAVOR = f"{HOT}parameters: {{f: {{type: string}}}}\nresources: {{vm: {{type: OS::Nova::Server, properties: {{flavor: "
FILES = {
    "rules/size.dl": '@deny("size", "{s}")\np(s) :- os:nova:server(_id=s, flavor=f), f = "huge".\n',
    "stacks/web.yaml": FLAVOR + "{get_param: f}, user_data: {get_file: deep/run.sh}}}}\n",
    "stacks/web.env": "parameters: {f: huge}\n",
    "stacks/deep/run.sh": "true\n",
    "stacks/deep/template.yaml": f"{HOT}resources: {{part: {{type: ../part.yaml, properties: {{f: huge}}}}}}\n",
    "stacks/part.yaml": FLAVOR + "{get_param: f}}}}\n",
    "stacks/deep/open.yaml": FLAVOR + "{get_param: f}}}}\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with stacks and a link to them, and the working directory."""
    (tmp_path / "link").symlink_to("stacks")
    monkeypatch.chdir(write_files(tmp_path, FILES))
    return tmp_path


def test_a_scan_decides_as_check_however_a_path_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scanned = scan(capsys, folder / "rules")
    assert {root: outcome for root, (_, outcome) in scanned.items()} == {
        "deep/open.yaml": "allow_with_warnings",
        "deep/template.yaml": "deny",
        "web.yaml": "deny",
    }
    for way in ways(folder):
        assert check_each(capsys, folder / "rules", way, scanned) == scanned, way


@pytest.mark.parametrize(
    "templates",
    [
        FIXTURES,
        pytest.param(
            CORPUS, marks=[pytest.mark.slow, pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")]
        ),
    ],
)
def test_a_scan_decides_as_check_on_each_template(
    templates: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder / "stacks")
    shutil.copytree(templates, folder / "stacks", copy_function=shutil.copyfile, ignore_dangling_symlinks=True)
    scanned = scan(capsys, folder / "rules")
    assert len(scanned) > 10
    assert check_each(capsys, folder / "rules", "stacks", scanned) == scanned


def ways(folder: Path) -> Iterator[str]:
    """The folder of the stacks in each way it can be written, from one working directory after the other."""
    yield from ("stacks", "./stacks/", "link", str(folder / "stacks"), str(folder / "link"), "rules/../stacks")
    for place, way in (("rules", "../stacks"), ("stacks", ""), ("link", "./")):
        os.chdir(folder / place)
        yield way
    os.chdir(folder)


def scan(capsys: pytest.CaptureFixture[str], rules: Path) -> dict[str, tuple[str, str]]:
    """The id and outcome of the decision on each template below `stacks`, by its path there."""
    assert run(capsys, "scan", "run", "--folder", "stacks", "--rules", rules)[0] in (0, 1, 3)
    with open_database("datalog-gate.duckdb") as database:
        stacks = ScanStore(database).stacks_page(Page(limit=9999))
    return {stack["root"]: (stack["decision"], stack["outcome"]) for stack in stacks}


def check_each(
    capsys: pytest.CaptureFixture[str], rules: Path, way: str, roots: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """As `scan`, from a check of the whole folder that is so written, and from one of each template in it."""
    folder, alone = way or ".", {}
    together = check(capsys, rules, folder, folder)
    for root in roots:
        source = os.path.dirname(root) if os.path.basename(root) == FOLDER_TEMPLATE else root
        path = os.path.join(way, root)
        environments = [name for name in environments_of(path) if os.path.basename(name) != FOLDER_ENVIRONMENT]
        options = [f"--files-root={folder}", *(f"--environment={name}" for name in environments)]
        alone[root] = check(capsys, rules, folder, *options, os.path.join(way, source))[source or "."]
        assert alone[root] == together[source or "."], path
    assert len(alone) == len(together)
    return alone


def check(capsys: pytest.CaptureFixture[str], rules: Path, folder: str, *arguments: str) -> dict[str, tuple[str, str]]:
    """The id and outcome of each template's decision, by its path in the folder; empty where none is made."""
    lines = run(capsys, "check", f"--rules={rules}", "--format=json", *arguments)[1].splitlines()
    decisions = [json.loads(line) for line in lines]
    return {
        os.path.relpath(decision.get("template", arguments[-1]), folder): (
            decision.get("id", ""),
            decision.get("outcome", ""),
        )
        for decision in decisions
    }
