"""Packs of rules: limits, listing and copies."""

from __future__ import annotations

from importlib import invalidate_caches
from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.base.errors import UsageError
from datalog_gate.decision_point.point import create_point
from datalog_gate.decision_point.policy_reload import PolicyReloader
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.main import main
from datalog_gate.files.packs import Pack, copy_packs, find_packs
from datalog_gate.files.rules import default_rules
from datalog_gate.policytest.suite import read_suite
from datalog_gate.policytest.suite import test_files as find_test_files
from tests.commands import read_conf, write_files
from tests.refusals import refusals

DECLARED = 'relation most(servers: number) "How many".\nrelation offer(name: string, gb: number) "What is there".\n'
RULES = """
@deny("many", "{s} is one of more than {n}")
many(s, n) :- os:nova:server(_id=s), cap:limits:most(n), count{ t : os:nova:server(_id=t) } > n.
@deny("flavor", "{f} is not on offer")
flavor(s, f) :- os:nova:server(_id=s, flavor=f), not cap:limits:offer(f, _).
"""
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "resources": {name: {"type": "OS::Nova::Server", "properties": {"flavor": "small"}} for name in ("a", "b")},
}
ABOUT = 'version: "2.1"\nsummary: what we may hold\n'


def pack(folder: Path, limits: str | None, rules: str = RULES) -> Path:
    """A folder with a pack `cap`."""
    files = {"cap/limits.dl": f"export most, offer.\n{DECLARED}", "cap/rules.dl": rules}
    return write_files(folder, files | ({} if limits is None else {"cap/limits.yaml": limits}))


def read_violations(rules: dg.Rules) -> list[str]:
    stack = dg.read_stack(template=TEMPLATE, stack_name="s")
    return [violation.message for violation in rules.decide(stack, now="2027-03-01").violations]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("most: 2\noffer: [[small, 1]]\n", []),
        ("most: [1]\noffer: [[small, 1], [large, 2.5]]\n", ["a is one of more than 1", "b is one of more than 1"]),
        ("most: []\noffer: []\n", ["small is not on offer", "small is not on offer"]),
        ('{"most": [7, 1], "offer": [["small", 1]]}', ["a is one of more than 1", "b is one of more than 1"]),
    ],
)
def test_limits_are_facts_of_the_module_that_declares_them(tmp_path: Path, limits: str, expected: list[str]) -> None:
    assert read_violations(dg.load_rules(pack(tmp_path, limits))) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (None, ["unreadable {}limits.yaml can't be read: No such file or directory"]),
        ("[1]", ["bad-limits {}limits.yaml:1:1: limits.yaml must be a mapping of relations to their rows"]),
        ("most: {n: 1}\noffer: [[[a]]]\n", [
            "bad-limits {}limits.yaml:1:7: this is not a row of most",
            "bad-limits {}limits.yaml:2:9: this is not a row of offer",
        ]),
        ("mots: 1\noffer: []\n", [
            "bad-limits {}limits.dl:2:1: limits.yaml does not set most",
            "bad-limits {}limits.yaml:1:1: {}limits.dl declares no relation mots",
        ]),
        ("most: two\noffer: [[a]]\n", [
            "arity {}limits.yaml:2:9: offer has 2 columns, found 1",
            "kind-mismatch {}limits.yaml:1:7: the column servers of cap:limits:most is number, not string",
        ]),
    ],
)  # fmt: skip
def test_limits_that_do_not_fit_their_declarations_are_errors_with_a_place(
    tmp_path: Path, limits: str | None, expected: list[str]
) -> None:
    with pytest.raises(dg.RulesError) as error:
        dg.load_rules(pack(tmp_path, limits))
    messages = [
        f"{diagnostic.code} {f'{diagnostic.span}: ' if diagnostic.span else ''}{diagnostic.message}"
        for diagnostic in error.value.diagnostics
    ]
    assert sorted(messages) == sorted(message.replace("{}", f"{tmp_path}/cap/") for message in expected)


def test_limits_are_part_of_the_digest_and_are_watched(tmp_path: Path) -> None:
    pack(tmp_path, "most: 1\noffer: [[small, 1]]\n")
    now = 0.0
    book = PolicyReloader(Settings(rules=(str(tmp_path),)), lambda: now, lambda *_: None, lambda *_: None)
    first = book.current().ruleset.rules
    (tmp_path / "cap/limits.yaml").write_text("most: 200\noffer: [[small, 1]]\n")
    now = 10.0
    second = book.current().ruleset.rules
    assert (len({first.digest, second.digest}), len(read_violations(first)), read_violations(second)) == (2, 2, [])


def test_a_file_of_limits_given_alone_has_its_values(tmp_path: Path) -> None:
    pack(tmp_path, "most: 1\noffer: [[small, 1]]\n")
    (tmp_path / "p.dl").write_text(RULES.replace("cap:limits", "limits"))
    assert len(read_violations(dg.load_rules(tmp_path / "cap/limits.dl", tmp_path / "p.dl"))) == 2


def test_packs_named_by_their_own_folders_keep_their_modules_apart(tmp_path: Path) -> None:
    folders = [tmp_path / "here", tmp_path / "there"]
    for most, folder in enumerate(folders):
        folder.mkdir()
        (folder / "limits.dl").write_text("export most.\n" + DECLARED.splitlines()[0])
        (folder / "limits.yaml").write_text(f"most: {most}\n")
        (folder / "many.dl").write_text(
            f'import {folder.name}:limits.\n@deny("{folder.name}", "more than {{n}}")\nmany(s, n) :- '
            "os:nova:server(_id=s), most(n), count{ t : os:nova:server(_id=t) } > n.\n"
        )
    problems = refusals(lambda: dg.load_rules(*folders), "message")
    clashes = [message for message in problems if message.startswith("two files")]
    assert clashes == ["two files define the module limits", "two files define the module many"]
    for folder in folders:
        (folder / "pack.yaml").write_text(ABOUT)
    apart, above, alone = dg.load_rules(*folders), dg.load_rules(tmp_path), dg.load_rules(folders[0])
    assert [policy.relation for policy in apart.policies] == ["here:many:many", "there:many:many"]
    assert [policy.relation for policy in alone.policies] == ["many:many"]
    assert (read_violations(apart), apart.digest) == (read_violations(above), above.digest)
    assert read_violations(apart) == ["more than 0", "more than 0", "more than 1", "more than 1"]


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is a pack, one that is no folder, and two that are one pack."""
    site = tmp_path / "site"
    pack(site / "acme_rules", "most: 1\noffer: [[small, 1]]\n", RULES.replace("cap:", "acme:cap:"))
    write_files(
        site, {"acme_rules/__init__.py": "raise SystemExit\n", "acme_rules/pack.yaml": ABOUT, "one_module.py": ""}
    )
    for name, entries in {"acme": "acme = acme_rules\nflat = one_module\ntwice = acme_rules", "b": "twice = b"}.items():
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
        files = {"METADATA": metadata, "entry_points.txt": f"[datalog_gate.rules]\n{entries}\n"}
        write_files(site / f"{name}-1.dist-info", files)
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    invalidate_caches()


@pytest.mark.usefixtures("_installed")
def test_an_installed_pack_goes_by_its_name_and_none_of_its_code_is_run() -> None:
    rules = dg.load_rules("acme")
    assert [policy.relation for policy in rules.policies] == ["acme:cap:rules:flavor", "acme:cap:rules:many"]
    assert read_violations(rules) == ["a is one of more than 1", "b is one of more than 1"]


@pytest.mark.usefixtures("_installed")
def test_a_service_does_not_take_a_folder_where_it_runs_for_an_installed_pack(tmp_path: Path) -> None:
    write_files(tmp_path, {"acme/other.dl": '@deny("m", "{s}") m(s) :- heat:stack(id=s).\n'})
    rules = create_point(read_conf(), {"rules": "acme"}).current().ruleset.rules
    assert [policy.relation for policy in rules.policies] == ["acme:cap:rules:flavor", "acme:cap:rules:many"]


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flat", "the pack flat is in one_module, and none is a folder"),
        ("twice", "the pack twice is in acme_rules, b, and one is a folder"),
        ("gone", "gone can't be read: No such file or directory"),
    ],
)
def test_a_pack_that_can_not_be_found_is_an_error(name: str, message: str) -> None:
    assert refusals(lambda: dg.load_rules(name), "message") == [message]


def test_each_pack_says_what_it_is(tmp_path: Path) -> None:
    pack(tmp_path, "most: 1\noffer: []\n")
    (tmp_path / "cap/pack.yaml").write_text(ABOUT)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/m.dl").write_text('@deny("m", "{s}") m(s) :- heat:stack(id=s).\n')
    (tmp_path / "empty").mkdir()
    assert find_packs(tmp_path) == [
        Pack("bare", "", 1, ""),
        Pack("cap", "2.1", 2, "what we may hold"),
    ]


def test_the_packs_of_this_project_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    folder = Path("rules")
    ours = find_packs(folder)
    assert [mine.name for mine in ours] == sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert all(mine.version and mine.summary and mine.policies for mine in ours)
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(None, 3) for line in lines] == [
        [mine.name, mine.version, str(mine.policies), mine.summary] for mine in ours
    ]


def test_packs_are_copied_into_a_new_folder_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = Path(__file__).parents[3] / "rules"
    assert main(["rules", "init", str(tmp_path / "own"), "net"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/own/net\n"
    copied = {path.name: path.read_text() for path in (tmp_path / "own/net").iterdir() if path.is_file()}
    assert copied == {
        path.name: path.read_text().replace("../../fixtures/stacks", "fixtures/stacks")
        for path in (ours / "net").iterdir()
    }
    assert main(["rules", "init", str(tmp_path / "own")]) == 64
    with pytest.raises(UsageError, match=r"^there is no pack nett: did you mean net\?$"):
        copy_packs(ours, tmp_path / "more", ["nett"])
    assert not (tmp_path / "more").exists()
    assert {copy_pack.name for copy_pack in copy_packs(ours, tmp_path / "all", [])} == {
        pack.name for pack in find_packs(ours)
    }
    assert sorted(path.relative_to(tmp_path / "all") for path in (tmp_path / "all").rglob("*.dl")) == sorted(
        path.relative_to(ours) for path in ours.rglob("*.dl")
    )


@pytest.mark.slow
def test_the_tests_of_copied_packs_pass_where_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = default_rules().resolve()
    monkeypatch.chdir(tmp_path)
    copy_packs(ours, Path("own"), [])
    for suite in [read_suite(file, packs=["own"]) for file in find_test_files(["own"])]:
        assert {case.name: suite.report(case) for case in suite.cases} == {case.name: "" for case in suite.cases}
