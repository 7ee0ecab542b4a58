"""The cache of checked rules on disk."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.analysis.column_reads import read_columns
from datalog_gate.decision.policy_set import PolicySet, load
from datalog_gate.engine.budget import UNLIMITED
from datalog_gate.files import program_cache
from datalog_gate.files.discovery import discover_templates
from datalog_gate.files.program_cache import decode, encode, find_cache_folder, load_cached
from datalog_gate.files.rules import read_rules
from tests.commands import run
from tests.sources import ROOT

PACKS = sorted(path for path in (ROOT / "rules").iterdir() if path.is_dir())
NOW = "2027-01-01"
RULES = """\
@deny("net", "{n}", hint="none", enforce_from="2026-01-01")
p(n) :- os:neutron:net(_id=n, shared=s), not q(n), s ?? false = false.
q(n) :- os:cinder:volume(_id=n, size=x), x ?? 1 > 1.5.
"""


def plain(rules: PolicySet) -> list[object]:
    """All that a policy set holds, but programs, which only equal themselves."""
    program = rules.program
    return [
        list(program.strata),
        [rule.span for rule in program.rules],
        dict(program.relations),
        program.inputs,
        rules.policies,
        rules.unlocks,
        rules.warnings,
        rules.digest,
        rules.sources,
        rules.reads,
        rules.cloud_wide,
        rules.inputs_alone,
        dict(read_columns(program)),
    ]


@pytest.mark.parametrize(
    "pack", [*PACKS, pytest.param(ROOT / "rules", marks=pytest.mark.slow)], ids=lambda path: path.name
)
def test_the_rules_of_a_pack_are_the_same_from_the_cache(pack: Path) -> None:
    files = read_rules([pack], False)
    rules = load(files)
    assert plain(decode(encode(rules), files)) == plain(rules)


@pytest.mark.slow
def test_every_fixture_gets_the_same_decision_from_the_cache(tmp_path: Path) -> None:
    templates = discover_templates(ROOT / "fixtures").templates
    assert len(templates) > 15
    rules = dg.load_rules(ROOT / "rules", cache=tmp_path)
    cached = dg.load_rules(ROOT / "rules", cache=tmp_path)
    assert rules.program is not cached.program
    for template in templates:
        stack = dg.read_stack(template.source, environments=template.environments, strict=False)
        decisions = [known.decide(stack, now=NOW, near_misses=True, budget=UNLIMITED) for known in (rules, cached)]
        assert decisions[0].to_json() == decisions[1].to_json(), template
        assert decisions[0].near_misses == decisions[1].near_misses


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, empty; the working directory has rules and a template."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("m.dl").write_text(RULES)
    Path("web.yaml").write_text("heat_template_version: 2018-08-31\nresources: {a: {type: OS::Neutron::Net}}\n")
    return tmp_path / "cache/datalog-gate"


def check(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    return run(capsys, "check", "web.yaml", "--rules", "m.dl", "--now", NOW, *more)


def test_check_keeps_checked_rules_that_nobody_else_can_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = check(capsys, "--no-cache")
    assert (first[0], folder.exists()) == (1, False)
    assert check(capsys) == first
    [file] = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert check(capsys) == first
    Path("m.dl").write_text(RULES.replace("none", "some"))
    assert "hint  some" in check(capsys)[1]
    assert len([*folder.iterdir()]) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "no json", "other code", "mode", "link", "owner"])
def test_what_is_broken_or_foreign_is_ignored_and_written_again(
    damage: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = check(capsys)
    [file] = folder.iterdir()
    text = file.read_text()
    checksum, body = text.split("\n")
    other = body.replace('"net"', '"nix"')
    match damage:
        case "empty":
            file.write_text("")
        case "cut":
            file.write_text(text[:-9])
        case "changed":
            file.write_text(f"{checksum}\n{other}")
        case "no json":
            file.write_text(f"{sha256(b'[').hexdigest()}\n[")
        case "other code":
            changed = json.dumps([[[99, 0]], [0]])
            file.write_text(f"{sha256(changed.encode()).hexdigest()}\n{changed}")
        case _:
            file.write_text(f"{sha256(other.encode()).hexdigest()}\n{other}")
            assert "deny[nix]" in check(capsys)[1]
    if damage == "mode":
        file.chmod(0o640)
    elif damage == "link":
        file.rename(folder / "other")
        file.symlink_to(folder / "other")
    elif damage == "owner":
        uid = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert check(capsys) == first
    if damage != "owner":
        assert file.read_text() == text


def test_the_oldest_files_are_deleted(folder: Path) -> None:
    for at in range(program_cache.MOST_FILES + 3):
        Path("m.dl").write_text(RULES.replace("none", str(at)))
        files = read_rules([Path("m.dl")], False)
        load_cached(files, lambda: load(files), folder)  # noqa: B023
        for age, file in enumerate(sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)):
            os.utime(file, (age, age))
    assert len([*folder.iterdir()]) == program_cache.MOST_FILES


def test_a_folder_that_cannot_be_written_does_no_harm(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = check(capsys, "--no-cache")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert check(capsys) == first
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "nowhere")
    assert find_cache_folder() is None
    assert (check(capsys), folder.exists()) == (first, False)


def test_changed_code_makes_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = read_rules([Path("m.dl")], False)
    load_cached(files, lambda: load(files), folder)
    monkeypatch.setattr(program_cache, "_describe_code", lambda: ["other"])
    load_cached(files, lambda: load(files), folder)
    assert len([*folder.iterdir()]) == 2
