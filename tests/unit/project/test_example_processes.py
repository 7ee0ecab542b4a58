"""The processes of examples/cloud: their logs, their failures and their end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.cloud.processes import CloudError, Processes
from tests.servers import free_ports


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    (tmp_path / "log").mkdir()
    return Processes(tmp_path)


def test_a_failed_command_is_reported_with_the_end_of_its_log(processes: Processes, tmp_path: Path) -> None:
    with pytest.raises(CloudError) as failure:
        processes.run("sync", ["sh", "-c", 'seq 20; echo "no $TABLE" >&2; exit 3'], {"TABLE": "stack"})
    lines = "".join(f"\n  {number}" for number in range(7, 21))
    assert str(failure.value) == f"sync failed with exit code 3\n{tmp_path}/log/sync.log:{lines}\n  no stack"


def test_who_waits_for_a_process_learns_that_it_ended_or_takes_too_long(processes: Processes, tmp_path: Path) -> None:
    processes.start("api", ["sh", "-c", "echo no port; exit 1"])
    with pytest.raises(CloudError, match=rf"^api has ended\n{tmp_path}/log/api\.log:\n  no port$"):
        processes.wait("api", lambda: False)
    processes.start("slow", ["sleep", "60"], port=free_ports(1)[0])
    with pytest.raises(CloudError, match=r"^slow is not ready after 0 seconds\n"):
        processes.wait("slow", lambda: False, seconds=0)
    processes.stop()


def test_another_command_stops_processes_with_their_children(processes: Processes, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; sleep 60 & echo $! > child; wait; wait"
    processes.start("stubborn", ["sh", "-c", stubborn])
    processes.start("meek", ["sleep", "60"])
    later = Processes(tmp_path)
    assert {name: later.is_alive(name) for name in later} == {"stubborn": True, "meek": True}
    later.wait("stubborn", (tmp_path / "child").exists)
    later.stop(seconds=0.5)
    assert {name: later.is_alive(name) for name in later} == {"stubborn": False, "meek": False}
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    assert not child.exists() or re.search(r"\) [ZX] ", child.read_text())


def test_a_process_is_started_again_as_it_was(processes: Processes, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    server = ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    processes.start("server", ["sh", "-c", f'echo "$NAME" >> names; exec {" ".join(server)}'], {"NAME": "x"}, port)
    processes.wait_for_port("server")
    Processes(tmp_path).restart("server")
    later = Processes(tmp_path)
    later.wait_for_port("server")
    later.stop()
    assert (tmp_path / "names").read_text() == "x\nx\n"
