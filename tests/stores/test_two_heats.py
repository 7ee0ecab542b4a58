"""Two hosts with one database for Heat, and one store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from datalog_gate.doors.cli.heat_client import HeatClient as Client
from datalog_gate.doors.cli.heat_client import HeatStacks
from datalog_gate.doors.cli.main import main
from datalog_gate.services.approval import Approvals
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.journal import Journal
from datalog_gate.services.reconcile import FREE, STUCK, reconcile
from tests.heat.doors.grant_heat import grant, value
from tests.heat.doors.rig import PROJECT, Heat, install, running, wait
from tests.heat.doors.templates import string, template
from tests.heat.doors.trial_service import ENTRY_POINTS, Trial
from tests.stores.database_servers import DatabaseServer

ROOT = Path(__file__).parents[2]
RULES = """\
@unlock("approval") asked(grant) :- gate:grant(id=grant, service="approval").
@unlock("edge") places(grant) :- gate:grant(id=grant, service="edge").
@unlock("trial") tried(grant) :- gate:grant(id=grant, service="trial").
@deny("long", "{string} is long") long(string) :- os:heat:random_string(_id=string, length=length), length > 64.
"""
LIMITS = Limits(call=10.0, step=11.0, lease=12.0)


class Cloud:
    """A host that is here, one that is there, and the store of both."""

    def __init__(self, here: Heat, there: Heat, store: str, folder: Path) -> None:
        self.here, self.there, self.store, self.folder = here, there, store, folder

    @property
    def states(self) -> list[str]:
        """The states of the claims that are not over."""
        return [claim.state for claim in Journal(self.store).claims()]


@pytest.fixture
def cloud(server: DatabaseServer, tmp_path: Path) -> Iterator[Cloud]:
    store, heats = server.database("gate"), server.database("heat")
    (tmp_path / "heat.conf").write_text(f"[datalog_gate]\nstore = {store}\n")
    assert main(["store", "upgrade", "--heat-conf", str(tmp_path / "heat.conf")]) == 0
    settings = [f"edge.file={tmp_path}/places", "edge.places=1", f"trial.folder={tmp_path}"]
    options = {
        "services": "approval, edge, trial",
        "service_option": settings,
        "store": store,
        "service_late_seconds": "0",
        "service_call_seconds": str(LIMITS.call),
        "service_step_seconds": str(LIMITS.step),
        "service_lease_seconds": str(LIMITS.lease),
    }
    with ExitStack() as started:
        hosts = []
        for name in ("here", "there"):
            folder = tmp_path / name
            folder.mkdir()
            install(folder, "trial", ENTRY_POINTS)
            heat = running(
                folder,
                convergence=True,
                filtered=True,
                rules=RULES,
                options=options,
                host=name,
                database=heats,
            )
            hosts.append(started.enter_context(heat))
        yield Cloud(hosts[0], hosts[1], store, tmp_path)


def test_what_is_approved_and_given_back_on_a_host_is_so_on_the_other(cloud: Cloud) -> None:
    by = {"get_attr": ["g", "decision", "s", "approved_by"]}
    body = template(g=grant("approval", ["s"], options={"mode": "stop"}), s=string(8), by=value(by))
    name, status, why = cloud.here.built(body)
    assert (status, "awaiting approval A-1" in why) == ("CREATE_FAILED", True)
    Approvals(cloud.store).say("A-1", "approved", "ann", "for March", time.time())
    assert cloud.there.updated(name, body)[0] == "UPDATE_COMPLETE"
    assert cloud.states == ["reserved"]
    code, answer = run(cloud.there, "services", "reconcile")
    assert (code, answer.partition(": ")[0]) == (0, "committed"), answer
    cloud.here.delete(name)
    assert run(cloud.there, "services", "status") == (0, "0 claims, 0 to look at\n")

    body = template(g=grant("edge", ["s"]), s=string(8))
    name = cloud.here.created(body)
    assert cloud.there.create(body)[1].status_code == 403  # there is one place
    cloud.there.delete(name)
    assert cloud.states == []
    cloud.there.delete(cloud.here.created(body))


def test_what_a_killed_host_was_about_is_settled_by_the_other_or_named(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = template(g=grant("trial", ["s"]), s=string(8))
    kept = cloud.here.created(body)
    (cloud.folder / "behave").write_text("slow")
    name, _ = cloud.here.create(body)
    wait(lambda: len(Trial({"folder": str(cloud.folder)}).holdings()) == 2)
    os.kill(cloud.here.process, signal.SIGKILL)
    assert sorted(cloud.states) == ["intent", "reserved"]
    (cloud.folder / "behave").write_text("kindly")

    cloud.there.login(monkeypatch)
    settle(cloud, lambda: cloud.states == ["committed"])
    [claim] = Journal(cloud.store).claims()
    assert Trial({"folder": str(cloud.folder)}).holdings() == [claim.key]
    assert cloud.there.stack(name)["stack_status"] == "CREATE_IN_PROGRESS"
    cloud.there.delete(name)
    cloud.there.delete(kept)
    assert (cloud.states, Trial({"folder": str(cloud.folder)}).holdings()) == ([], [])


def test_a_stack_whose_engine_died_is_named_with_the_command_that_frees_it(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {"type": "OS::Heat::TestResource", "properties": {"value": "a", "wait_secs": 60}}
    name, _ = cloud.here.create(template(g=grant("trial", ["s"]), s=slow))
    wait(lambda: cloud.states == ["reserved"])
    os.kill(cloud.here.process, signal.SIGKILL)
    cloud.there.login(monkeypatch)
    [(done, why)] = settle(cloud, lambda: True, STUCK + 60)
    assert (done, why.endswith(FREE.format(stack=cloud.there.stack(name)["id"]))) == ("stuck", True)


def run(host: Heat, *command: str) -> tuple[int, str]:
    """Run a command on a host, as somebody who is an admin to its Heat. Return the exit code and what it prints."""
    login = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": f"{host.url}/v1/{PROJECT}"}
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{host.folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    program = [sys.executable, "-m", "datalog_gate.doors.cli.main", *command]
    ended = subprocess.run(
        [*program, "--heat-conf", str(host.folder / "heat.conf")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **login, **paths},
    )
    return ended.returncode, ended.stdout + ended.stderr


def settle(cloud: Cloud, over: Callable[[], bool], later: float = 0.0) -> list[tuple[str, str]]:
    """Reconcile on the host that is there, so many seconds later by its clock, until it is over. Return what was done
    last."""
    services = {"trial": Trial({"folder": str(cloud.folder)})}
    broker = Broker(Journal(cloud.store, 0.0), services, lambda: time.time() + later, time.monotonic, LIMITS)
    done: list[tuple[str, str]] = []

    def settled() -> bool:
        done[:] = [
            (result.done, result.why) for result in reconcile(broker, HeatStacks(Client(), broker.journal, "there"))
        ]
        return over()

    wait(settled)
    return done
