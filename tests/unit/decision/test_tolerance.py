"""What a check tolerates at a desk, and no door does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import datalog_gate as dg
from datalog_gate.doors.cli.main import main
from tests.commands import run

RULES = """\
@deny("flavor", "{s} takes {f}", hint="take a small one")
huge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".
@deny("image", "{s} runs {i}")
old(s, i) :- os:nova:server(_id=s, image=i), i = "old".
"""
STACK = """\
heat_template_version: 2018-08-31
resources:
  web:
    type: OS::Nova::Server
    properties:
      flavor: huge{}
      image: old
"""
IGNORE = "  # datalog-gate: ignore[flavor] until 2027-01-31: the new image is late"
JANUARY = ("--now", "2027-01-30T23:59")
FILES = {"m.dl": RULES, "web.yaml": STACK.format(IGNORE)}
pytestmark = pytest.mark.usefixtures("folder")


def check(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str], str]:
    """The exit code, the lines without ids, and what is on stderr."""
    code, out, err = run(capsys, "check", "web.yaml", "--rules", "m.dl", "--format", "compact", *more)
    return code, re.sub(r"decision \w+", "decision ID", out).splitlines(), err


def test_an_ignore_waives_the_finding_of_its_policy_on_its_line_until_its_day(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check(capsys, *JANUARY, "--ignore", "image") == (
        0,
        [
            "web.yaml:6:15: waived[flavor] web takes huge",
            "0 denied, 0 warnings, 1 waived (web.yaml:6, 1 day left), 0 undetermined; 1 policy, 3 facts; allow; "
            "decision ID",
        ],
        "datalog-gate: waiver web.yaml:6 ends soon: 1 day left\n",
    )
    code, lines, error = check(capsys, "--now", "2027-01-31", "--ignore", "image")
    assert (code, lines[0], error.splitlines()[0]) == (
        1,
        "web.yaml:6:15: deny[flavor] web takes huge",
        "web.yaml:6:21: warning[bad-ignore] the finding of flavor is no longer ignored: the comment ended on "
        "2027-01-31",
    )
    assert check(capsys, *JANUARY)[:2] == (
        1,
        [
            "web.yaml:7:14: deny[image] web runs old",
            "web.yaml:6:15: waived[flavor] web takes huge",
            "1 denied, 0 warnings, 1 waived (web.yaml:6, 1 day left), 0 undetermined; 2 policies, 3 facts; deny; "
            "decision ID",
        ],
    )


@pytest.mark.parametrize(
    ("comment", "warning", "advice"),
    [
        ("ignore[flavor] until 2027-01-31", "this comment ignores nothing: it has no reason", "write"),
        ("ignore[flavor] until 2027-01-31: ", "this comment ignores nothing: it has no reason", "write"),
        ("ignore[flavor]: reason", "this comment ignores nothing: it has no end date", "write"),
        ("ignore[flavor] until soon: reason", "this comment ignores nothing: soon is not a date", "write"),
        (
            "ignore[flavor] until 2027-01-31T12:30",
            "this comment ignores nothing: 2027-01-31T12:30 is not a date",
            "write",
        ),
        ("ignore flavor until 2027-01-31: reason", "this comment ignores nothing: it has the wrong form", "write"),
        ("ignore[flavour] until 2027-01-31: reason", "there is no policy flavour to ignore", "did you mean flavor?"),
    ],
)
def test_an_ignore_without_day_reason_or_policy_is_reported_and_has_no_effect(
    comment: str, warning: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("web.yaml").write_text(STACK.format(f"  # datalog-gate: {comment}"))
    code, lines, error = check(capsys, *JANUARY, "--ignore", "image")
    assert (code, lines[0]) == (1, "web.yaml:6:15: deny[flavor] web takes huge")
    assert error.splitlines()[0] == f"web.yaml:6:21: warning[bad-ignore] {warning}"
    assert error.splitlines()[3].startswith(f"  help  {advice}")


def test_an_ignore_covers_no_finding_that_ends_above_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.dl").write_text(
        '@deny("key", "{s} has {k}")\nkey(s, k) :- os:nova:server.metadata(_id=s, _key=k, _value=v), v != null.\n'
    )
    head = "heat_template_version: 2018-08-31\nresources:\n  web:\n    type: OS::Nova::Server\n    properties:\n"
    ignore = "# datalog-gate: ignore[key] until 2027-01-31: the new image is late"
    Path("web.yaml").write_text(
        f"{head}      flavor: small\n      metadata:\n        a: |\n          bad\n        b: bad  {ignore}\n"
        f'        c: >-\n          bad\n\n        {ignore}\n        d: "ba\n          d"  {ignore}\n'
    )
    assert check(capsys, *JANUARY)[1][:4] == [
        "web.yaml:8:12: deny[key] web has a",
        "web.yaml:11:12: deny[key] web has c",
        "web.yaml:10:12: waived[key] web has b",
        "web.yaml:15:12: waived[key] web has d",
    ]


def test_an_ignore_covers_an_undetermined_finding(capsys: pytest.CaptureFixture[str]) -> None:
    stack = STACK.replace("huge", "{{get_attr: [seed, value]}}") + "  seed: {{type: OS::Heat::RandomString}}\n"
    options = (*JANUARY, "--ignore", "image", "--strict-unknown")
    Path("web.yaml").write_text(stack.format(""))
    assert check(capsys, *options)[0] == 4
    Path("web.yaml").write_text(stack.format(IGNORE))
    assert check(capsys, *options)[:2] == (
        0,
        [
            "web.yaml:6:15: waived[flavor] web takes ?: depends on value of `seed`",
            "0 denied, 0 warnings, 1 waived (web.yaml:6, 1 day left), 0 undetermined; 1 policy, 3 facts; allow; "
            "decision ID",
        ],
    )


def test_a_finding_of_several_policies_is_ignored_for_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    def codes(policies: str) -> list[int]:
        Path("web.yaml").write_text(stack.format(IGNORE.replace("flavor", policies)))
        return [check(capsys, *JANUARY, "--strict-unknown", *more)[0] for more in ((), ("--ignore", "image"))]

    stack = "heat_template_version: 2018-08-31\nresources:\n  web:{}\n    type: http://example.org/web.yaml\n"
    assert (codes("flavor"), codes("flavor, image")) == ([4, 0], [0, 0])


def test_an_ignore_is_read_in_capitals_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("web.yaml").write_text(
        STACK.format("  # Datalog-Gate: Ignore[flavor] Until 2027-01-31: the new image is late")
    )
    code, lines, error = check(capsys, *JANUARY, "--ignore", "image")
    assert (code, lines[0]) == (0, "web.yaml:6:15: waived[flavor] web takes huge")
    assert error == "datalog-gate: waiver web.yaml:6 ends soon: 1 day left\n"


def test_an_ignore_that_covers_nothing_in_any_template_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("web.yaml").write_text(STACK.format(IGNORE).replace("huge", "small"))
    Path("two.yaml").write_text("heat_template_version: 2018-08-31\nresources: {a: {type: web.yaml}}\n")
    code, _, error = run(capsys, "check", "web.yaml", "two.yaml", "--rules", "m.dl", *JANUARY, "--ignore", "image")
    assert (code, error.count("warning"), error.splitlines()[0]) == (
        0,
        1,
        "web.yaml:6:22: warning[bad-ignore] flavor finds nothing on this line to ignore",
    )
    assert check(capsys, *JANUARY, "--ignore", "flavor,image") == (
        64,
        [],
        "datalog-gate: --select and --ignore exclude all policies\n",
    )
    assert check(capsys, *JANUARY, "--ignore", "flavor", "--fail-on", "never")[2] == ""


def test_quiet_counts_what_the_older_stack_has(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("web.yaml", "old.yaml"):
        Path(name).write_text(STACK.format(""))
    assert check(capsys, "--against", "old.yaml", "--quiet") == (0, ["2 findings preexisting: not shown"], "")


def test_quiet_counts_what_is_undetermined_in_the_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    text = STACK.replace("resources", "parameters: {f: {type: string}}\nresources").replace("huge{}", "{get_param: f}")
    Path("web.yaml").write_text(text)
    check(capsys, "--output", "baseline=known.json")
    assert check(capsys, "--baseline", "known.json", "-q") == (0, ["2 findings preexisting: not shown"], "")


def test_github_annotates_comments_that_ignore_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    bad = STACK.format(IGNORE).replace("image: old", "image: old  # datalog-gate: ignore[image]")
    Path("web.yaml").write_text(bad)
    command = ("check", "web.yaml", "--rules", "m.dl", "--format", "github", "--output", "github=lines.txt")
    _, out, _ = run(capsys, *command, "--now", "2027-02-01")
    assert (
        out
        == Path("lines.txt").read_text()
        == """\
::error file=web.yaml,line=6,col=15,title=flavor::web takes huge (take a small one)
::error file=web.yaml,line=7,col=14,title=image::web runs old
::warning file=web.yaml,line=7,col=19,title=bad-ignore::this comment ignores nothing: it has no end date \
(write `ignore[policy] until 2027-01-31: reason`)
::warning file=web.yaml,line=6,col=21,title=bad-ignore::the finding of flavor is no longer ignored: the comment ended \
on 2027-01-31 (correct the template)
"""
    )


def test_what_is_ignored_is_in_the_decision_as_waived(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("check", "web.yaml", "--rules", "m.dl", "--ignore", "image", "--format", "json")
    before = json.loads(run(capsys, *command, "--now", "2027-02-01")[1])
    after = json.loads(run(capsys, *command, *JANUARY)[1])
    [violation] = before["violations"]
    waiver = {
        "id": "web.yaml:6",
        "policy": "flavor",
        "owner": "ignored in the template",
        "reason": "the new image is late",
        "expires": "2027-01-31",
    }
    assert (after["outcome"], after["violations"], after["waived"]) == ("allow", [], [violation | {"waiver": waiver}])
    assert after["id"] != before["id"]


def test_no_door_takes_the_word_of_a_template() -> None:
    decision = dg.load_rules("m.dl").decide(dg.read_stack("web.yaml"), now="2027-01-30")
    assert (decision.outcome, [violation.policy for violation in decision.violations]) == ("deny", ["flavor", "image"])


def test_a_baseline_stops_nothing_that_was_there_and_all_that_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    Path("web.yaml").write_text(STACK.format("").replace("image: old", "image: new"))
    assert check(capsys, "--output", "baseline=known.json")[0] == 1
    assert Path("known.json").read_text() == (
        '{"schema": "datalog-gate/baseline/1", "findings": [\n'
        '  {"template": "web.yaml", "policy": "flavor", "key": {"s": "web/web", "f": "huge"}}\n]}\n'
    )
    Path("web.yaml").write_text("# a line more\n" + STACK.format(""))
    code, lines, error = check(capsys, "--baseline", "known.json")
    assert (code, error, lines) == (
        1,
        "",
        [
            "web.yaml:8:14: deny[image] web runs old",
            "web.yaml:7:15: preexisting[flavor] web takes huge",
            "1 denied, 1 preexisting, 0 warnings, 0 undetermined; 2 policies, 3 facts; deny; decision ID",
        ],
    )
    assert check(capsys, "--baseline", "known.json", "--quiet") == (
        1,
        ["web.yaml:8:14: deny[image] web runs old", "1 finding preexisting: not shown"],
        "",
    )
    assert check(capsys, "--baseline", "known.json", "--ignore", "image")[0] == 0
    Path("web.yaml").write_text(STACK.format("").replace("huge", "small").replace("image: old", "image: new"))
    assert check(capsys, "--baseline", "known.json")[::2] == (
        0,
        "datalog-gate: 1 finding of known.json is gone: write it again with --output baseline=known.json\n",
    )
    assert check(capsys, "--baseline", "known.json", "--quiet") == (0, [], "")


def test_a_baseline_makes_nothing_of_an_update_new_that_was_there(capsys: pytest.CaptureFixture[str]) -> None:
    Path("web.yaml").write_text(STACK.format("").replace("image: old", "image: new"))
    assert check(capsys, "--output", "baseline=known.json")[0] == 1
    Path("old.yaml").write_text(STACK.format("").replace("huge", "small"))
    Path("web.yaml").write_text(STACK.format(""))
    assert check(capsys, "--baseline", "known.json", "--against", "old.yaml")[:2] == (
        0,
        [
            "web.yaml:6:15: preexisting[flavor] web takes huge",
            "web.yaml:7:14: preexisting[image] web runs old",
            "0 denied, 2 preexisting, 0 warnings, 0 undetermined; 2 policies, 3 facts; allow_with_warnings; decision "
            "ID",
        ],
    )


@pytest.mark.parametrize("name", ["a, b.yaml", ", .yaml", "web, too: [\u00e9]?+.yaml"])
@pytest.mark.parametrize("others", [(), ("web.yaml",)])
def test_a_baseline_names_templates_from_its_folder(name: str, others: tuple[str, ...]) -> None:
    Path("k").mkdir()
    Path(name).write_text(STACK.format(""))
    command = ["check", name, *others, *(["--together"] if others else []), "--rules", "m.dl"]
    assert main([*command, "--output", "baseline=k/known.json"]) == 1
    templates = {finding["template"] for finding in json.loads(Path("k/known.json").read_text())["findings"]}
    assert templates == {", ".join(f"../{template}" for template in (name, *others))}
    assert main([*command, "--baseline", "k/known.json"]) == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "there is no baseline b.json"),
        ("[]", "b.json is not a baseline"),
        ('{"schema": "datalog-gate/baseline/1", "findings": [{}]}', "b.json is not a baseline"),
        ("{", "b.json is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_an_error(
    text: str | None, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        Path("b.json").write_text(text)
    code, _, printed = check(capsys, "--baseline", "b.json")
    assert (code, printed.splitlines()[0]) == (3, f"error[unreadable] {error}")


def test_a_baseline_with_an_undecodable_name_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    code, _, printed = check(capfd, "--baseline", "\ud800", "--output", "baseline=b.json")
    assert (code, printed.splitlines()[0]) == (3, "error[unreadable] there is no baseline ?")


def test_select_and_ignore_take_names_and_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    def policies(*more: str) -> list[str]:
        return re.findall(r"deny\[(\w+)\]", "\n".join(check(capsys, *more, "--now", "2027-02-01")[1]))

    assert policies("--select", "flavor") == ["flavor"]
    assert policies("--select", "*", "--ignore", "fl*") == ["image"]
    assert policies("--select", "image", "--select", "flavor") == ["flavor", "image"]
    assert check(capsys, "--select", "flavour") == (
        64,
        [],
        "datalog-gate: --select: there is no policy flavour: did you mean flavor?\n",
    )


def test_a_finding_has_the_same_fingerprint_on_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fingerprints() -> list[str]:
        document = json.loads(run(capsys, "check", "web.yaml", "--rules", "m.dl", "--format", "sarif")[1])
        return sorted(result["partialFingerprints"]["datalogGate/v1"] for result in document["runs"][0]["results"])

    before = fingerprints()
    assert len(set(before)) == 2
    Path("web.yaml").write_text("\n\n" + STACK.format(""))
    assert fingerprints() == before


def test_sarif_marks_an_ignore_as_in_source(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = "  seed: {type: OS::Heat::RandomString}\n"
    Path("web.yaml").write_text(STACK.format(IGNORE))
    Path("db.yaml").write_text(STACK.format(IGNORE).replace("huge", "{get_attr: [seed, value]}") + unknown)
    waiver = {"id": "W-1", "policy": "image", "subject": "web", "owner": "o", "reason": "r", "expires": "2027-05-01"}
    Path("waivers.yaml").write_text(json.dumps({"waivers": [waiver]}))
    options = ("--rules", "m.dl", "--waivers", "waivers.yaml", "--format", "sarif", *JANUARY)
    results = json.loads(run(capsys, "check", "web.yaml", "db.yaml", *options)[1])["runs"][0]["results"]
    assert [
        (result["ruleId"], result["kind"], result["level"], [part["kind"] for part in result["suppressions"]])
        for result in results
    ] == [
        ("image", "fail", "error", ["external"]),
        ("flavor", "fail", "error", ["inSource"]),
        ("image", "fail", "error", ["external"]),
        ("flavor", "open", "none", ["inSource"]),
    ]


def test_an_ignored_finding_is_explained_as_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("check", "web.yaml", "--rules", "m.dl", "--ignore", "image", "--explain", "--format", "json")
    [ignored] = json.loads(run(capsys, *command, *JANUARY)[1])["waived"]
    [denied] = json.loads(run(capsys, *command, "--now", "2027-02-01")[1])["violations"]
    assert {**ignored["why"], "fix": None} == {**denied["why"], "fix": None}


def test_the_version_is_printed_wherever_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["check", "web.yaml", "--version"], ["scan", "run", "--version"]):
        with pytest.raises(SystemExit) as raised:
            main(words)
        assert (raised.value.code, capsys.readouterr().out) == (0, f"datalog-gate {dg.__version__}\n")
