"""Options and policy files that change without a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from oslo_config import cfg

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.config_options import OptionFiles, build_settings
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.decision_point.watched_files import WatchedFiles, read_states
from tests.commands import read_conf
from tests.unit.decision_point.test_decision_point import FLAVOR, IMAGE, MEMBER, Clock, make_operation

KEPT = "the previous ones stay in force"


class Site:
    """A host with heat.conf, its folder conf.d, policy.yaml and rules, and a service that runs there."""

    def __init__(self, folder: Path, **paste_options: str) -> None:
        self.folder, self.clock = folder, Clock()
        for name in ("conf.d", "rules", "other"):
            (folder / name).mkdir()
        (folder / "rules/m.dl").write_text(FLAVOR)
        (folder / "other/m.dl").write_text(IMAGE.replace("@warn", "@deny").replace('"old"', '"debian"'))
        (folder / "policy.yaml").write_text('"datalog_gate:break_glass": "role:admin"\n')
        self.write()
        self.conf = cfg.ConfigOpts()
        self.conf(
            [], project="heat",
            default_config_files=[str(folder / "heat.conf")], default_config_dirs=[str(folder / "conf.d")],
        )  # fmt: skip
        settings = build_settings(self.conf, paste_options)
        self.point = DecisionPoint(
            settings, Entitlements(self.conf, ()), self.clock, self.clock.now, OptionFiles(self.conf, paste_options)
        )

    def write(self, text: str = "", **options: str) -> None:
        """Write heat.conf with these options, or the whole text."""
        base = {"rules": f"{self.folder}/rules", "decision_log": f"{self.folder}/log"}
        lines = [f"{name} = {value}" for name, value in (base | options).items()]
        policy = f"[oslo_policy]\npolicy_file = {self.folder}/policy.yaml\n"
        (self.folder / "heat.conf").write_text(text or "\n".join(["[datalog_gate]", *lines, policy]))

    def ask(self, later: float = 6.0) -> str:
        """The verdict on a huge server of debian, after so many seconds."""
        self.clock.time += later
        return self.point.judge(make_operation()).verdict


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"mode": "warn"}, "allowed"),
        ({"mode": "off"}, "allowed"),
        ({"project_modes": "p1:record"}, "allowed"),
        ({"policy_modes": "flavor:warn"}, "allowed"),
        ({"exempt_projects": "p9,p1"}, "allowed"),
        ({"exempt_users": "u1"}, "allowed"),
        ({"budget_seconds": "0"}, "undecided"),
        ({"rules": "FOLDER/other"}, "denied"),
        ({"waivers": "FOLDER/waivers.yaml"}, "allowed"),
    ],
)
def test_a_changed_option_counts_for_the_next_request_and_no_longer_once_it_is_taken_back(
    site: Site, options: dict[str, str], verdict: str
) -> None:
    (site.folder / "waivers.yaml").write_text(
        "waivers:\n- {id: W, policy: flavor, subject: web, owner: o, reason: r, expires: 2027-04-01}\n"
    )
    before = site.point.judge(make_operation()).reason
    site.write(**{name: value.replace("FOLDER", str(site.folder)) for name, value in options.items()})
    changed = [site.ask(later=4.0), site.ask(later=1.0)]
    reason = site.point.judge(make_operation()).reason
    site.write()
    assert (changed, site.ask(), reason == before) == (["denied", verdict], "denied", False)
    assert site.conf.datalog_gate.mode == "enforce"
    site.point.flush()
    kinds = [record["kind"] for record in read_log(site.folder / "log") if isinstance(record, dict)]
    assert kinds.count("options_loaded") == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[datalog_gate]\nmode = wran\nexempt_users = u1\n", "mode"),
        ("[datalog_gate]\nexempt_users = u1\nrules = FOLDER/none\n", "FOLDER/none can't be read"),
        ("[datalog_gate]\nexempt_users = u1\nwaivers = FOLDER/none\n", "FOLDER/none can't be read"),
        pytest.param("[datalog_gate]\nexempt_users = u1\nstore s3cret\n", "in line 3", id="a line without a sign"),
        ("[DEFAULT]\n", "the section [datalog_gate] is missing now"),
        ("", "FOLDER/heat.conf is empty now"),
        (None, "FOLDER/heat.conf is missing now"),
    ],
)
def test_options_that_do_not_load_change_nothing_and_are_an_error_each_time(
    site: Site, text: str | None, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    conf = site.folder / "heat.conf"
    if text is None:
        conf.unlink()
    else:
        conf.write_text(text.replace("FOLDER", str(site.folder)))
    verdicts = [site.ask(later) for later in (6.0, 6.0, 61.0)]
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert (verdicts, [error for error in errors if "s3cret" in error]) == (["denied"] * 3, [])
    assert [("options" in error and KEPT in error, problem.replace("FOLDER", str(site.folder)) in error)
            for error in errors] == [(True, True)] * 2  # fmt: skip
    site.write(mode="warn")
    assert site.ask() == "allowed"


def test_options_that_count_at_a_start_are_named_without_their_values(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.write(mode="warn", service_option="licence.token=s3cret", body_limit="5")
    assert (site.ask(), site.point.settings.body_limit) == ("allowed", 1024 * 1024)
    late = [record.getMessage() for record in caplog.records if "restarted" in record.getMessage()]
    assert late == ["changed options take effect when this service is restarted: service_option, body_limit"]


def test_an_option_of_the_paste_section_stays(tmp_path: Path) -> None:
    site = Site(tmp_path, mode="enforce")
    site.write(mode="off", exempt_users="nobody")
    assert (site.ask(), site.point.settings.exempt_users) == ("denied", ("nobody",))


def test_a_file_that_appears_in_a_folder_of_the_configuration_counts(site: Site) -> None:
    (site.folder / "conf.d/50-gate.conf").write_text("[datalog_gate]\nmode = record\n")
    verdicts = [site.ask()]
    (site.folder / "conf.d/50-gate.conf").unlink()
    assert [*verdicts, site.ask()] == ["allowed", "denied"]


def test_options_change_while_the_rules_on_disk_are_broken(site: Site) -> None:
    (site.folder / "rules/m.dl").write_text("p(")
    verdicts = [site.ask()]
    site.write(mode="warn")
    assert [*verdicts, site.ask()] == ["denied", "allowed"]


def test_policy_files_are_read_again_and_bad_ones_leave_the_last_good(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    file, allowed = site.folder / "policy.yaml", []
    changes: list[Callable[[], object]] = [
        lambda: file.write_text('"datalog_gate:break_glass": "role:member"\n'),
        lambda: file.write_text("- a list\n"),
        lambda: file.write_text('"a": [\n'),
        file.unlink,
        lambda: file.write_text('"datalog_gate:break_glass": "role:reader"\n'),
    ]
    for change in changes:
        change()
        site.ask()
        allowed.append(site.point.entitlements.may_break_glass("p1", MEMBER))
    assert allowed == [True, True, True, True, False]
    errors = [record.getMessage() for record in caplog.records if KEPT in record.getMessage()]
    assert [error.partition(" can't")[0] for error in errors] == ["the changed rules of oslo.policy"] * 3
    assert f"{file} is missing now" in errors[-1]
    file.write_text("- a list\n")
    with pytest.raises(InputError):
        Entitlements(read_conf(site.folder / "heat.conf"), ())


def test_threads_never_see_half_of_a_change(site: Site) -> None:
    over, answers = Event(), set()

    def change() -> None:
        for number in range(12):
            rules = "other" if number % 2 else "rules"
            policy = "flavor" if number % 2 else "image"  # the policy that the rules in force do not have
            site.write(rules=f"{site.folder}/{rules}", policy_modes=f"{policy}:off", reload_seconds="0")
            over.wait(0.01)
        over.set()

    def ask() -> None:
        while not over.is_set():
            site.clock.time += 6.0
            answers.add(site.point.judge(make_operation()).reason.partition(" at ")[0])

    with ThreadPoolExecutor(5) as pool:
        for waiting in [pool.submit(change), *(pool.submit(ask) for _ in range(4))]:
            waiting.result()
    assert answers <= {
        "The policies deny this stack: flavor: web takes huge",
        "The policies deny this stack: image: web runs debian",
    }


def test_a_file_that_changes_while_it_is_read_is_read_once_more(tmp_path: Path) -> None:
    file, problems = tmp_path / "file", list[Exception]()
    file.write_text("one")

    def load(before: str | None) -> str:
        text = file.read_text()
        if before == "one" and text == "two":
            file.write_text("three and more")
        return text

    watched = WatchedFiles(lambda: read_states(lambda: [file]), load)
    seen = [watched.value]
    file.write_text("two")
    for now in (1.0, 2.0):
        watched.look(now, problems.append)
        seen.append(watched.value)
    assert (seen, problems) == (["one", "one", "three and more"], [])
