"""Each fault that `doctor` finds, as docs/doctor.md shows it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import invalidate_caches
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from stevedore.extension import ExtensionManager

import datalog_gate
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.point import create_point
from datalog_gate.doors.cli.commands.doctor import examine
from datalog_gate.doors.cli.doctor import CheckResult, format_results, run_check
from datalog_gate.doors.cli.doctor.engines import ENGINE_DOOR, ENGINE_FOLDER, RESOURCES
from tests.commands import read_conf
from tests.pages import DOCS, assert_generated
from tests.scripted_cloud import clear_credentials, running
from tests.unit.doors.cli.test_doctor import ENTRIES, RULES, edit, event, install

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
CONF = f"""\
[DEFAULT]
convergence_engine = true
plugin_dirs = {ENGINE_FOLDER},{RESOURCES}
rpc_response_timeout = 60
[paste_deploy]
flavor =
[keystone_authtoken]
auth_url = KEYSTONE
password = s3cret-of-heat
[oslo_policy]
policy_file = DIR/policy.yaml
[datalog_gate]
rules = DIR/rules
mode = enforce
policy_modes = flavor:warn
exempt_projects = 0123456789abcdef0123456789abcdef
exempt_users = 0123456789abcdef0123456789abcdef
inventory = DIR/cloud.jsonl
waivers = DIR/waivers.yaml
break_glass = DIR/glass
budget_seconds = 5
services = seats, approval
service_option = seats.url=https://licence.example
service_option = approval.ask=them
store = DIR/journal
decision_log = DIR/log/decisions.jsonl
"""
WAIVERS = """\
waivers:
- id: W-12
  policy: flavor
  subject: web
  owner: shop
  reason: the index is built anew
  expires: 2027-04-01
"""
POLICY = """\
"cloud_team": "role:admin"
"datalog_gate:break_glass": "rule:cloud_team"
"datalog_gate:grant:approval": "role:member"
"""
LOADED: dict[str, Any] = {"version": "0.1.0", "options": {}, "rules": "f00d" * 16}
Change = Callable[[Path], object]


def replaced(file: str, old: str, new: str) -> Change:
    return lambda root: edit(root, file, old, new)


def option(old: str, new: str) -> Change:
    return replaced("heat.conf", old, new)


def written(file: str, text: str) -> Change:
    return lambda root: (root / file).write_text(text)


def removed(file: str) -> Change:
    return lambda root: (root / file).unlink()


def logged(*records: str) -> Change:
    return lambda root: (root / "log" / "decisions.jsonl").write_text("".join(f"{record}\n" for record in records))


def aged(file: str, days: int) -> Change:
    then = NOW.timestamp() - days * 86400
    return lambda root: os.utime(root / file, (then, then))


def copied(root: Path) -> None:
    """Put a copy of the engine's door, of another version, in the place of our folder."""
    (root / "plugins").mkdir()
    (root / "plugins" / ENGINE_DOOR).write_text((ENGINE_FOLDER / ENGINE_DOOR).read_text().replace("JUDGED", "KNOWN"))
    edit(root, "heat.conf", str(ENGINE_FOLDER), "DIR/plugins")


def null_column(root: Path) -> None:
    """Collect servers without their flavors, which a rule reads."""
    written("cloud.jsonl", '{"relation": "nova:servers", "row": {"id": "s-1", "name": "web"}}\n')(root)
    aged("cloud.jsonl", 0)(root)
    rule = 'crowd(s) :- nova:servers(id=s, flavor_id=f), nova:flavors(id=f, name="huge"), heat:stack().\n'
    written("rules/m.dl", f'{RULES}@warn("crowd", "{{s}} is huge")\n{rule}')(root)


FAULTS: dict[str, dict[str, Change]] = {
    "Rules": {
        "The path of the rules is wrong": option("rules = DIR/rules", "rules = DIR/rule"),
        "The path of the rules is relative": option("rules = DIR/rules", "rules = rules"),
        "The rules are writable by all": lambda root: (root / "rules" / "m.dl").chmod(0o666),
        "The rules are broken": written("rules/m.dl", RULES.replace("os:nova:server", "os:nova:servr")),
        "A service found the rules broken on reload": logged(
            event("loaded", **LOADED),
            event("reload_failed", hour=11, diagnostics=[{"message": "there is no relation os:nova:servr",
                                                         "place": {"file": "/etc/heat/rules/m.dl", "line": 2}}]),
        ),
        "`policy_modes` has an unknown policy": option("flavor:warn", "flavour:warn"),
    },
    "Inventory and waivers": {
        "The inventory is missing": removed("cloud.jsonl"),
        "The inventory is 40 days old": aged("cloud.jsonl", 40),
        "The inventory leaves a column null that a rule reads": null_column,
        "The store has no inventory": option("inventory = DIR/cloud.jsonl", "inventory = store"),
        "waivers.yaml is broken": written("waivers.yaml", WAIVERS.replace("owner: shop", "owner")),
    },
    "Options": {
        "The mode is unknown": option("mode = enforce", "mode = enfroce"),
        "`exempt_projects` has a name": option("exempt_projects = 0123", "exempt_projects = service,0123"),
        "`exempt_users` has a name": option("exempt_users = 0123", "exempt_users = mistral,0123"),
        "The budget is beyond the RPC timeout": option("budget_seconds = 5", "budget_seconds = 30"),
        "The option of a door's section is misspelt": replaced(
            "api-paste.ini", "use = egg:datalog_gate#datalog_gate", "use = egg:datalog_gate#datalog_gate\nmods = warn"
        ),
    },
    "Break-glass": {
        "The break-glass file holds garbage": written("glass", "open it please"),
        "Its time is too far ahead": written("glass", "2027-03-09T12:00 the licence server is down"),
        "Break-glass is in force": written("glass", "2027-03-01T18:00 the licence server is down"),
    },
    "Decision log": {
        "The log is writable by all": lambda root: (root / "log" / "decisions.jsonl").chmod(0o666),
    },
    "Filters in api-paste.ini": {
        "No filter": replaced("api-paste.ini", "context datalog_gate apiv1app", "context apiv1app"),
        "The filter stands before `context`": replaced(
            "api-paste.ini", "authtoken context datalog_gate apiv1app", "authtoken datalog_gate context apiv1app"
        ),
        "The filter stands before `authtoken`": replaced(
            "api-paste.ini", "authtoken context datalog_gate apiv1app", "datalog_gate authtoken context apiv1app"
        ),
        "`context` stands before `authtoken`": replaced(
            "api-paste.ini", "authtoken context datalog_gate apiv1app", "context authtoken datalog_gate apiv1app"
        ),
        "The filter has a wrong egg name": replaced("api-paste.ini", "egg:datalog_gate#", "egg:datalog_gates#"),
        "api-paste.ini is missing": removed("api-paste.ini"),
    },
    "Engines": {
        "The engine's door is off": option(f"{ENGINE_FOLDER},", ""),
        "The installed door is of another shape": copied,
        "A folder of `plugin_dirs` is missing": option(str(ENGINE_FOLDER), "/opt/plugins"),
        "Our types are not in `plugin_dirs`": option(f",{RESOURCES}", ""),
    },
    "Services": {
        "A service is not installed": option("services = seats", "services = seat"),
        "A setting of a service is misspelt": option("approval.ask", "approval.aks"),
        "There is no store for services": option("store = DIR/journal", ""),
    },
    "policy.yaml": {
        "policy.yaml is missing": removed("policy.yaml"),
        "policy.yaml is writable by all": lambda root: (root / "policy.yaml").chmod(0o666),
        "policy.yaml has a rule that the gate does not know": written(
            "policy.yaml", POLICY.replace("break_glass", "brake_glass")
        ),
        "policy.yaml names a service that is not enabled": written(
            "policy.yaml", POLICY.replace("approval", "night")
        ),
    },
    "Hosts": {
        "The hosts differ in their rules": logged(
            event("loaded", **LOADED), event("loaded", "two", **LOADED | {"rules": "cafe" * 16})
        ),
        "The hosts differ in their versions": logged(
            event("loaded", **LOADED), event("loaded", "two", **LOADED | {"version": "0.2.0"})
        ),
        "The hosts differ in their options": logged(
            event("loaded", **LOADED),
            event("loaded", "two", **LOADED | {"options": {"exempt_users": ["0123456789abcdef0123456789abcdef"]}}),
            event("options_loaded", "two", 11, options={"mode": "warn"}),
        ),
        "The hosts differ in the version of Heat": logged(
            event("engine_started", heat="27.0.1"), event("engine_started", "two", heat="26.0.2")
        ),
    },
}  # fmt: skip


def build(root: Path, keystone: str) -> None:
    """A Heat with all that the gate takes, in order."""
    services = "[datalog_gate.services]\napproval = datalog_gate.services.approval:Approval\n"
    files = {
        "heat.conf": CONF.replace("DIR", str(root)).replace("KEYSTONE", keystone),
        "policy.yaml": POLICY,
        "cloud.jsonl": "",
        "waivers.yaml": WAIVERS,
        "log/decisions.jsonl": f"{event('loaded', **LOADED)}\n",
        "log/decisions.jsonl.lock": "",
    }
    install(root, files, ENTRIES + services)
    aged("cloud.jsonl", 0)(root)


@pytest.fixture
def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Change], list[str]]]:
    """The findings about a sound Heat after a change, as the doctor of an installed gate shows them."""
    clear_credentials(monkeypatch)
    package, roots = str(Path(datalog_gate.__file__).parent), count()
    with running() as cloud:
        cloud.give("GET /", {"versions": {"values": []}}, 300)

        def examine_after(change: Change) -> list[str]:
            root = tmp_path / str(next(roots))
            build(root, f"{cloud.url}/")
            sys.modules.pop("lifecycle_of_a_test", None)
            with monkeypatch.context() as patch:
                change(root)
                patch.syspath_prepend(root / "installed")
                patch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
                invalidate_caches()
                shown = [str(result) for result in examine(root / "heat.conf", now=NOW) if result.level == "finding"]
            texts = [text.replace(str(root), "/etc/heat").replace(package, "/opt/datalog_gate") for text in shown]
            return [text.replace(cloud.url, "http://keystone") for text in texts]

        yield examine_after


@pytest.mark.slow
def test_the_page_shows_what_each_fault_looks_like(findings: Callable[[Change], list[str]]) -> None:
    assert findings(lambda _: None) == []
    page = []
    for section, faults in FAULTS.items():
        page.append(f"\n## {section}\n")
        for title, change in faults.items():
            shown = "\n".join(findings(change))
            page.append(f"\n{title}:\n\n```\n{shown}\n```\n")
    assert_generated(DOCS / "doctor.md", "".join(page))


def test_no_result_shows_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clear_credentials(monkeypatch)
    build(tmp_path, "http://heat:s3cret-of-heat@127.0.0.1:1/")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    sys.modules.pop("lifecycle_of_a_test", None)
    echo = "class Licence:\n    def __init__(self, settings): raise ValueError(settings)\n"
    (tmp_path / "installed" / "lifecycle_of_a_test.py").write_text(echo)
    option("seats.url=", "seats.password=hunter2\nservice_option = seats.url=")(tmp_path)
    shown = format_results(examine(tmp_path / "heat.conf", now=NOW), "json")
    option("approval.ask=", "approval password=hunter2\nservice_option = approval.ask=")(tmp_path)
    shown += format_results(examine(tmp_path / "heat.conf", now=NOW), "json")
    assert [secret for secret in ("s3cret", "hunter2") if secret in shown] == []
    assert "ValueError: {'password': '***', 'url': 'https://licence.example'}" in shown
    option("flavor =", "password s3cret-of-heat")(tmp_path)
    assert [str(result) for result in examine(tmp_path / "heat.conf", now=NOW)] == [
        f"finding[files] {tmp_path}/heat.conf can't be read: No ':' or '=' found in assignment in line 6\n"
        "  fix   name Heat's configuration with --heat-conf, and run the doctor as the user of Heat's services"
    ]


def test_a_check_that_fails_is_a_finding_and_ends_no_other() -> None:
    def broken() -> Iterator[CheckResult]:
        yield CheckResult("ok", "rules", "this much is well")
        raise RuntimeError("no\nway")

    def unreadable() -> Iterator[CheckResult]:
        yield from ()
        raise OSError(13, "Permission denied", "/etc/heat")

    def wrong() -> Iterator[CheckResult]:
        yield from ()
        raise InputError.of("it is wrong", suggestion="write it anew")

    results = [str(result) for check in (broken, unreadable, wrong) for result in run_check("rules", check)]
    assert results == [
        "ok[rules] this much is well",
        "finding[rules] this could not be checked: RuntimeError: no way\n"
        "  fix   correct what it names, or report it as a bug of the doctor",
        "finding[rules] /etc/heat can't be read: Permission denied\n"
        "  fix   run the doctor as the user of Heat's services",
        "finding[rules] it is wrong\n  fix   write it anew",
    ]


def test_hosts_write_into_the_log_what_they_differ_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clear_credentials(monkeypatch)
    build(tmp_path, "")
    (tmp_path / "log" / "decisions.jsonl").unlink()
    for host, text in (("one", ""), ("two", "mode = warn\nstore = mysql+pymysql://heat:hunter2@db/gate\n")):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        log = tmp_path / "log" / "decisions.jsonl"
        (tmp_path / "host.conf").write_text(f"[datalog_gate]\nrules = {tmp_path}/rules\ndecision_log = {log}\n{text}")
        create_point(read_conf(tmp_path / "host.conf"), {}).flush()
    assert "hunter2" not in (tmp_path / "log" / "decisions.jsonl").read_text()
    results = [str(result) for result in examine(tmp_path / "heat.conf", now=NOW) if result.about == "hosts"]
    assert results == [
        "finding[hosts] the hosts have different values of the option mode: enforce on one; warn on two\n"
        "  fix   give mode the same value under [datalog_gate] on all hosts",
        "finding[hosts] the hosts have different values of the option store: nothing on one; mysql+pymysql://db/gate "
        "on two\n  fix   give store the same value under [datalog_gate] on all hosts",
    ]
