"""The doctor's report on working and misconfigured doors."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

import pytest
from stevedore.extension import ExtensionManager

import datalog_gate
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.engine_start import KIND, LIVE, PROBE
from datalog_gate.doors.cli.commands.doctor import examine
from datalog_gate.doors.cli.doctor import CheckResult, engines, format_results, run_check
from datalog_gate.doors.cli.doctor.cloud_access import PREVIEW, probe_engine
from datalog_gate.doors.cli.doctor.engines import ENGINE_DOOR, ENGINE_FOLDER, SHIM
from datalog_gate.doors.cli.main import main
from tests.commands import write_files
from tests.pages import assert_written
from tests.scripted_cloud import Answer, clear_credentials, without_keystone

CONF = """\
[DEFAULT]
convergence_engine = true
plugin_dirs = DOOR
[paste_deploy]
flavor =
[datalog_gate]
rules = DIR/rules
decision_log = DIR/log
"""
PASTE = """\
[composite:heat-api]
use = egg:Paste#urlmap
/: api
[composite:heat-api-cfn]
use = egg:Paste#urlmap
/: api-cfn
[composite:api]
paste.composite_factory = heat.api:pipeline_factory
default = faultwrap authtoken context datalog_gate apiv1app
noauth = faultwrap noauth context apiv1app
[composite:api-cfn]
paste.composite_factory = heat.api:pipeline_factory
default = ec2authtoken authtoken context datalog_gate_cfn apicfnv1app
[app:apiv1app]
paste.app_factory = heat.common.wsgi:app_factory
heat.app_factory = heat.api.openstack.v1:API
[app:apicfnv1app]
paste.app_factory = heat.common.wsgi:app_factory
heat.app_factory = heat.api.cfn.v1:API
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:context]
paste.filter_factory = heat.common.context:ContextMiddleware_filter_factory
[filter:noauth]
paste.filter_factory = heat.common.noauth:filter_factory
[filter:datalog_gate]
use = egg:datalog_gate#datalog_gate
[filter:datalog_gate_cfn]
paste.filter_factory = datalog_gate.doors.wsgi:cfn_filter_factory
"""
RULES = '@deny("flavor", "{s} takes {f}")\nflavor(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".\n'
ENTRIES = """\
[heat.stack_lifecycle_plugins]
datalog_gate = lifecycle_of_a_test:Plugin
[datalog_gate.services]
seats = lifecycle_of_a_test:Seats
"""
MODULE = """\
class Plugin: pass
class Seats: pass
"""
GOLDEN = Path(__file__).parents[3] / "golden" / "doctor.txt"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Heat with live doors, and an installation of the gate with plugins."""
    install(tmp_path, {"heat.conf": CONF.replace("DIR", str(tmp_path)).replace("DOOR", str(ENGINE_FOLDER))}, ENTRIES)
    monkeypatch.syspath_prepend(tmp_path / "installed")
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    clear_credentials(monkeypatch)
    yield tmp_path
    sys.modules.pop("lifecycle_of_a_test", None)


def install(folder: Path, files: Mapping[str, str], entries: str) -> None:
    """Write the files of a Heat, rules, and an installation of the gate with plugins."""
    (folder / "rules").mkdir(mode=0o755, parents=True)
    installed = "installed/datalog_gate-9.dist-info"
    own = {"api-paste.ini": PASTE, "rules/m.dl": RULES, "installed/lifecycle_of_a_test.py": MODULE}
    own |= {f"{installed}/METADATA": "Metadata-Version: 2.1\nName: datalog-gate\nVersion: 9\n"}
    own |= {f"{installed}/entry_points.txt": entries, **files}
    write_files(folder, own)
    for name in own:
        (folder / name).chmod(0o644)


def run_doctor(folder: Path, log: Path | None = None) -> list[str]:
    """The doctor's report without the folder's own name."""
    signs = examine(folder / "heat.conf", log=log)
    package = str(Path(datalog_gate.__file__).parent)
    text = format_results(signs).replace(str(folder), "DIR").replace(package, "PACKAGE")
    return text.splitlines()


def edit(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / file
    text = path.read_text().replace(str(folder), "DIR")
    assert old in text
    path.write_text(text.replace(old, new).replace("DIR", str(folder)))


PLAIN = """\
[pipeline:heat-api]
pipeline = authtoken
  context
  # a comment
  datalog_gate apiv1app
"""
CHANGES: list[tuple[str, str, str]] = [
    # engine and plugin
    ("heat.conf", "plugin_dirs = DOOR", "plugin_dirs ="),
    ("heat.conf", "plugin_dirs = DOOR", "plugin_dirs = DOOR,/opt/plugins,/opt/engine"),
    ("heat.conf", "convergence_engine = true", "convergence_engine = false"),
    ("heat.conf", "convergence_engine = true", "convergence_engine = perhaps"),
    ("installed/lifecycle_of_a_test.py", "Plugin: pass", "Plugin:\n  def __init__(self): raise ValueError('no\\nway')"),
    ("installed/datalog_gate-9.dist-info/entry_points.txt", "[heat.stack", "[other.stack"),
    # doors
    ("api-paste.ini", "authtoken context datalog_gate apiv1app", "authtoken datalog_gate context apiv1app"),
    ("api-paste.ini", "authtoken context datalog_gate apiv1app", "datalog_gate authtoken context apiv1app"),
    ("api-paste.ini", "authtoken context datalog_gate apiv1app", "context authtoken datalog_gate apiv1app"),
    ("api-paste.ini", "context datalog_gate apiv1app", "context datalog_gate osprofiler apiv1app"),
    ("api-paste.ini", "default = faultwrap authtoken context", "default = faultwrap noauth context"),
    ("api-paste.ini", "context datalog_gate apiv1app", "context datalog_gate_cfn apiv1app"),
    ("api-paste.ini", "use = egg:datalog_gate#datalog_gate", "paste.filter_factory = other:factory"),
    ("api-paste.ini", "[filter:datalog_gate]\nuse = egg:datalog_gate#datalog_gate", ""),
    ("api-paste.ini", "[filter:datalog_gate]\nuse", "[filter:datalog_gate]\nuse = gate\n[filter:gate]\nuse"),
    ("api-paste.ini", "[filter:datalog_gate]\nuse", "[filter:datalog_gate]\nuse = datalog_gate\n[filter:gate]\nuse"),
    ("api-paste.ini", "context datalog_gate_cfn", "context"),
    ("api-paste.ini", PASTE, "nothing"),
    ("api-paste.ini", "default = faultwrap", "other = faultwrap"),
    ("api-paste.ini", "default = ec2authtoken", "other = ec2authtoken"),
    ("api-paste.ini", "/: api\n", "/: api\n/v2: apiv1app\n"),
    ("api-paste.ini", "/: api\n", "/: api\n/v2: other\n[app:other]\nuse = apiv1app\n"),
    ("api-paste.ini", "[composite:api]", f"{PLAIN}[composite:api]"),
    ("api-paste.ini", "[composite:api]", f"{PLAIN.replace('gate', 'gates')}[composite:api]"),
    ("api-paste.ini", "[composite:api]", f"{PLAIN.replace('heat-api', 'heat-api-noauth')}[composite:api]"),
    ("api-paste.ini", "noauth = faultwrap noauth context apiv1app", "noauth = noauth context datalog_gate apiv1app"),
    ("heat.conf", "flavor =", "flavor = noauth"),
    ("heat.conf", "flavor =", "flavor = absent"),
    ("heat.conf", "flavor =", "flavor = $nope"),
    ("heat.conf", "flavor =", "flavor =\napi_paste_config = paste"),
    # options
    ("heat.conf", "rules =", "mode = enfroce\nrules ="),
    ("heat.conf", "rules =", "create_denial = failed_stack\nrules ="),
    ("heat.conf", "rules =", "services = seats\nrules ="),
    ("heat.conf", "rules =", "budget_seconds = 20\nrules ="),
    # the log
    ("heat.conf", "decision_log = DIR/log", ""),
    ("heat.conf", "decision_log = DIR/log", "decision_log = DIR/absent/log"),
]  # fmt: skip


@pytest.mark.slow
def test_the_doctor_says_what_is_in_order_and_what_each_change_breaks(folder: Path) -> None:
    well = run_doctor(folder)
    pages = ["\n".join(well)]
    for file, old, new in CHANGES:
        text = (folder / file).read_text()
        edit(folder, file, old.replace("DOOR", str(ENGINE_FOLDER)), new.replace("DOOR", str(ENGINE_FOLDER)))
        sys.modules.pop("lifecycle_of_a_test", None)
        invalidate_caches()
        after = run_doctor(folder)
        (folder / file).write_text(text)
        lost = [f"- {line}" for line in well if line not in after and "in order" not in line]
        came = [f"+ {line}" for line in after if line not in well]
        pages.append("\n".join([f"{file}: {old!r} -> {new!r}", *lost, *came]))
    assert_written(GOLDEN, "\n\n".join(pages) + "\n")


def test_files_of_heat_conf_d_count_after_heat_conf(folder: Path) -> None:
    (folder / "heat.conf.d").mkdir()
    (folder / "heat.conf.d" / "a.conf").write_text("[DEFAULT]\nconvergence_engine = perhaps\n")
    (folder / "heat.conf.d" / "b.conf").write_text("[DEFAULT]\nconvergence_engine = it is not valid: no\n")
    (folder / "heat.conf.d" / "c.conf.old").write_text("no option")
    problem = "Value for option convergence_engine is not valid: Unexpected boolean value 'it is not valid: no'"
    assert run_doctor(folder) == [
        f"finding[options] DIR/heat.conf: {problem}", "  fix   correct it", "1 finding, 0 notes, 0 in order"
    ]  # fmt: skip
    (folder / "heat.conf.d" / "b.conf").write_text("no option\n")
    problem = "DIR/heat.conf.d/b.conf can't be read: No ':' or '=' found in assignment in line 1"
    assert run_doctor(folder)[0] == f"finding[files] {problem}"


@pytest.mark.parametrize(
    ("installed", "options", "advice"),
    [
        ("27.0.3", "", ""),
        ("25.0.1", "catalogue = DIR/heat.json", ""),
        ("25.0.1", "", 'check templates with --heat 25, or `heat = "25"` in the configuration of projects'),
        ("23.0.0", "", "give authors of templates its types for check --catalogue, as docs/catalogue.md shows"),
    ],
)
def test_the_catalogue_is_compared_with_the_heat_beside_it(
    installed: str, options: str, advice: str, folder: Path
) -> None:
    heat = folder / "installed" / f"openstack_heat-{installed}.dist-info"
    heat.mkdir()
    (heat / "METADATA").write_text(f"Metadata-Version: 2.1\nName: openstack-heat\nVersion: {installed}\n")
    invalidate_caches()
    server = '"OS::Nova::Server": {"relation": "os:nova:server", "properties": {"flavor": {"kind": "string"}}}'
    (folder / "heat.json").write_text(f'{{"source": "openstack-heat 25", {server}}}')
    edit(folder, "heat.conf", "[datalog_gate]\n", f"[datalog_gate]\n{options}\n")
    results = [str(result) for result in examine(folder / "heat.conf") if result.about == "catalogue"]
    expected = f"Heat {installed} is installed here, and rules know the resource types of Heat 27.0.1\n  fix   {advice}"
    assert results == ([f"{folder}/heat.conf:6: note[catalogue] {expected}"] if advice else [])


def test_the_types_of_the_gate_are_known_where_plugin_dirs_has_them(folder: Path) -> None:
    edit(folder, "heat.conf", "rules =", "create_denial = failed_stack\nrules =")
    edit(folder, "heat.conf", "\n[paste_deploy]", ",DIR/types\n[paste_deploy]")
    (folder / "types").mkdir()
    (folder / "types" / SHIM).touch()
    assert run_doctor(folder)[-1] == "0 findings, 1 note, 2 in order"


ENGINE = """\
import os, sys, time
from datalog_gate.decision_point import engine_start
from datalog_gate.decision_point.settings import Settings
if len(sys.argv) > 3:
    engine_start.record_start(Settings(decision_log=sys.argv[3]), "27.0.1", "c0ffee" * 10)
if os.fork():  # a worker
    print("started", flush=True)
time.sleep(600)
"""


@contextmanager
def engine(folder: Path, *arguments: str, heat_conf: str = "heat.conf", title: str = "") -> Iterator[int]:
    """A process with the name of Heat's engine, which has that heat.conf, and a worker; its id."""
    (folder / "heat-engine").write_text(ENGINE)
    program = title or sys.executable
    command = [program, str(folder / "heat-engine"), "--config-file", str(folder / heat_conf), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # a title hides where Python is
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, executable=sys.executable,
                               env=environment)  # fmt: skip
    try:
        assert process.stdout
        assert process.stdout.readline() == b"started\n"
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def about_engine(folder: Path) -> list[str]:
    """What the doctor says of the engine, and how to correct it."""
    return re.findall(r".*\[engine\].*(?:\n  fix .*)?", "\n".join(run_doctor(folder)))


def test_an_engine_without_a_record_is_starting_for_a_minute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine(folder) as process:
        assert about_engine(folder) == [
            f"DIR/heat.conf:2: note[engine] heat-engine {process} is starting: it has not recorded its door yet\n"
            "  fix   run the doctor again in a minute"
        ]
        monkeypatch.setattr(engines, "STARTING", 0.0)
        assert about_engine(folder)[0].startswith(
            f"DIR/heat.conf:2: finding[engine] heat-engine {process} started without its door"
        )


@pytest.mark.slow
def test_each_engine_that_runs_is_compared_with_the_records_of_those_that_started_with_the_door(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "STARTING", 0.0)
    at = "DIR/heat.conf:2: "
    assert about_engine(folder) == [
        f"{at}note[engine] no heat-engine runs on this host: run the doctor on each host that has one"
    ]
    other = engine(folder, heat_conf="another.conf")
    with engine(folder, str(folder / "log")) as good, engine(folder) as bad, other:
        earlier = event(KIND, socket.gethostname(), process=bad, began=1)  # of an older process with the same id
        (folder / "log").write_text(f"{(folder / 'log').read_text()}{earlier}\n")
        lines = {good: f"{at}ok[engine] heat-engine {good} runs with its door, in Heat 27.0.1 (converge_stack "
                 "c0ffeec0ffee)",
                 bad: f"{at}finding[engine] heat-engine {bad} started without its door: what it builds is not judged "
                 "in the engine\n  fix   restart it; if that does not help, search its log for datalog_gate, and check "
                 "that it may write "
                 "DIR/log"}  # fmt: skip
        assert about_engine(folder) == [line for _, line in sorted(lines.items())]
    edit(folder, "heat.conf", "decision_log", "# decision_log")
    assert about_engine(folder) == [
        f"{at}finding[engine] it is not known which engines run with their door, since they write that into the "
        "decision log"
        "\n  fix   set decision_log, and restart heat-engine"
    ]


def test_an_engine_that_calls_itself_by_a_title_is_seen(folder: Path) -> None:
    title = f"heat-engine: master process [/venv/bin/heat-engine --config-file {folder / 'heat.conf'}]"
    with engine(folder, str(folder / "log"), heat_conf="another.conf", title=title) as process:
        assert about_engine(folder) == [
            f"DIR/heat.conf:2: ok[engine] heat-engine {process} runs with its door, in Heat 27.0.1 (converge_stack "
            "c0ffeec0ffee)"
        ]


def event(kind: str, host: str = "one", hour: int = 10, **more: object) -> str:
    at = f"2027-03-01T{hour}:00:00+00:00"
    return json.dumps({"schema": "datalog-gate/log/1", "kind": kind, "time": at, "host": host, "process": 7, **more})


def test_hosts_with_other_rules_are_named(folder: Path) -> None:
    well = run_doctor(folder)
    (folder / "collected").write_text(
        "\n".join(
            [
                event("loaded", hour=12, rules="cafe" * 16, policies=1),
                event("loaded", rules="f00d" * 16, policies=1),
                event("loaded", host="two", hour=11, rules="f00d" * 16, policies=1),
                event("loaded", host="three", rules="cafe" * 16, policies=1),
                event("decision", verdict="allowed"),
                '{"schema": "datalog-ga',
            ]
        )
    )
    fix = "  fix   give all hosts the same rules, and restart the services that can't load them"
    assert [line for line in run_doctor(folder, log=folder / "collected") if line not in well] == [
        "finding[rules] one has had cafecafecafe in force since 2027-03-01T12:00:00+00:00",
        fix,
        "finding[rules] three has had cafecafecafe in force since 2027-03-01T10:00:00+00:00",
        fix,
        "finding[rules] two has had f00df00df00d in force since 2027-03-01T11:00:00+00:00",
        fix,
        "3 findings, 1 note, 2 in order",
    ]


def test_hosts_of_one_digest_are_in_order(folder: Path) -> None:
    well = run_doctor(folder)
    (folder / "log").write_text(event("loaded", rules="cafe" * 16) + "\n" + event("loaded", "two", rules="cafe" * 16))
    assert [line for line in run_doctor(folder) if line not in well] == [
        "ok[rules] one has had cafecafecafe in force since 2027-03-01T10:00:00+00:00",
        "ok[rules] two has had cafecafecafe in force since 2027-03-01T10:00:00+00:00",
        "0 findings, 1 note, 4 in order",
    ]


def test_what_can_be_read_is_checked_where_a_named_file_can_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--paste", str(folder / "paste"), "--log", str(folder / "collected")]
    assert main(["doctor", "--heat-conf", str(folder / "heat.conf"), *files]) == 3
    assert capsys.readouterr().out.replace(str(folder), "DIR").splitlines() == [
        "finding[files] DIR/paste can't be read: No such file or directory",
        "  fix   correct it",
        "finding[files] DIR/collected can't be read",
        "  fix   name a decision log with --log that the user of the doctor can read",
        "2 findings, 0 notes, 0 in order",
    ]


def test_a_file_that_is_no_log_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(folder / "api-paste.ini")
    assert main(["doctor", "--heat-conf", str(folder / "heat.conf"), "--log", log]) == 3
    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"finding[files] {log} is no decision log: no line is a record of datalog-gate/log/1",
        "  fix   name the file of the option decision_log",
        "1 finding, 0 notes, 2 in order",
    ]


def test_a_log_with_an_impossible_name_is_a_finding(folder: Path) -> None:
    assert run_doctor(folder, log=Path("\udc80\ud800"))[-3] == "finding[files] \ufffd\ufffd can't be read"


MARKED = {"Datalog-Gate": "deny 7f3a91; flavor: web takes huge"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, {"stack": {}}, MARKED), ["ok[preview] a door is live: it answers deny 7f3a91"]),
        ((403, {}, MARKED), ["ok[preview] a door is live: it answers deny 7f3a91"]),
        ((200, {"stack": {}}, {}), [
            "finding[preview] no door is live: a preview was answered with 200 and no Datalog-Gate",
            "  fix   correct the findings about doors and restart the API; or Heat rejected the caller before a door "
            "could answer",
        ]),
    ],
)  # fmt: skip
def test_a_preview_shows_whether_a_door_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, expected: list[str]
) -> None:
    well = run_doctor(folder)
    with without_keystone(monkeypatch, "p") as cloud:
        cloud.answers["POST /v1/p/stacks/preview"] = answer
        assert [line for line in run_doctor(folder)[:-1] if line not in well] == expected
        assert cloud.bodies == [json.dumps(PREVIEW).encode()]


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("CREATE_FAILED", f"{LIVE} [decision 7f]", f"ok[probe] the engine that was asked answers: {LIVE}"),
        ("CREATE_COMPLETE", "", f"finding[probe] no door is live in the engine that was asked: {PROBE} became "
         "CREATE_COMPLETE\n  fix   correct the findings about engines and restart heat-engine"),
    ],
)  # fmt: skip
def test_a_probe_shows_whether_the_engine_has_a_door(
    monkeypatch: pytest.MonkeyPatch, status: str, reason: str, expected: str
) -> None:
    with without_keystone(monkeypatch, "p") as cloud:
        stack = {"id": "1", "stack_status": status, "stack_status_reason": reason}
        cloud.answers["POST /v1/p/stacks"] = (201, {}, {})
        cloud.answers[f"GET /v1/p/stacks/{PROBE}"] = (200, {"stack": stack}, {})
        assert str(probe_engine()) == expected
        assert cloud.requests[-1][0] == f"DELETE /v1/p/stacks/{PROBE}/1"


def test_a_preview_that_finds_no_heat_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_AUTH_URL", "nowhere")
    previews = [line.partition(": ")[0] for line in run_doctor(folder) if "[preview]" in line]
    assert previews == ["finding[preview] Heat can't be reached with these credentials"]


def test_the_command_exits_with_1_for_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["doctor", "--heat-conf", str(folder / "heat.conf")]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 findings, 1 note, 2 in order"
    edit(folder, "api-paste.ini", "context datalog_gate apiv1app", "context apiv1app")
    assert main(command) == 1


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


def test_an_engine_door_of_another_version_is_a_finding(folder: Path) -> None:
    (folder / "plugins").mkdir()
    (folder / "plugins" / ENGINE_DOOR).write_text("")
    edit(folder, "heat.conf", str(ENGINE_FOLDER), "DIR/plugins")
    assert about_engine(folder)[0] == (
        "DIR/heat.conf:2: finding[engine] the engine's door DIR/plugins/datalog_gate_engine_door.py differs from that "
        f"of datalog_gate {datalog_gate.__version__}\n"
        "  fix   write PACKAGE/doors/heat/engine in place of DIR/plugins in plugin_dirs, and restart heat-engine"
    )


def test_no_result_shows_a_password(folder: Path) -> None:
    edit(folder, "heat.conf", "rules =", "mode = enfroce\nstore = mysql+pymysql://heat:hunter2@db/gate\nrules =")
    edit(folder, "heat.conf", "rules =", "service_option = seats.password=hunter2\nrules =")
    assert "hunter2" not in "\n".join(run_doctor(folder))
    edit(folder, "heat.conf", "flavor =", "password hunter2")
    assert run_doctor(folder)[0] == (
        "finding[files] DIR/heat.conf can't be read: No ':' or '=' found in assignment in line 5"
    )


@pytest.mark.parametrize(
    ("more", "code"),
    [("--heat-conf absent", 3), ("--heat-conf DIR/heat.conf --paste absent", 3), ("", 64), ("--heat-conf", 64),
     ("--heat-conf DIR/heat.conf --log absent", 3), ("--heat-conf DIR/rules/m.dl", 3)],
)  # fmt: skip
def test_files_that_can_not_be_read_exit_with_3(folder: Path, more: str, code: int) -> None:
    try:
        ended: object = main(["doctor", *more.replace("DIR", str(folder)).split()])
    except SystemExit as stop:
        ended = stop.code
    assert ended == code
