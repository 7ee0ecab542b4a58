"""A cluster of Spark loses no findings if a worker dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from bench.scan import CLOUD_RULES, write_stacks
from datalog_gate.engine.sql.database import open_database
from datalog_gate.scan.batch import ScanRequest
from datalog_gate.scan.folder_feed import FolderFeed
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.spark_judgement import ExportedStore, judge_cloud_stored, judge_stacks
from datalog_gate.scan.stored_judgement import rejudge
from datalog_gate.schema.catalogue import SHIPPED
from tests.spark.test_spark import NEW_RULES, STACKS
from tests.unit.scan.test_rejudge import NOW
from tests.unit.scan.test_scan import policy_set

ASKED = ScanRequest(policy_set(NEW_RULES + CLOUD_RULES), NOW)
Found = TypeVar("Found")


class Cluster:
    """A master and two workers with a core each, all processes of this machine."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        self._folder, self._ending = folder, ending
        self._start("master", "master.Master", "--port", "0")
        (url,) = self._wait_for("master", r"Starting Spark master at (spark://\S+)", 1)
        work = folder / "work"
        limits = ["--cores", "1", "--memory", "1g"]
        self.workers = [
            self._start(name, "worker.Worker", *limits, "--work-dir", f"{work}", url) for name in ("first", "second")
        ]
        self._wait_for("master", r"Registering worker", 2)
        settings = {"spark.master": url, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        lines = [f"{name} {value}\n" for name, value in (settings | {"spark.ui.enabled": "false"}).items()]
        (folder / "spark-defaults.conf").write_text("".join(lines))
        self.environment = {"SPARK_CONF_DIR": f"{folder}", "PYSPARK_PYTHON": sys.executable}

    def kill_a_working_one(self) -> None:
        """Kill the first worker that judges stacks with all its processes, as if its machine died."""
        for process in wait_until(self._find_judging, 120):
            os.kill(process, signal.SIGKILL)

    def _find_judging(self) -> list[int]:
        """The processes of a worker below which Python has begun to work."""
        lines = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in lines.splitlines()]
        for worker in self.workers:
            below = [(worker.pid, "")]
            for parent, _ in below:
                below += [(int(row[0]), row[2]) for row in rows if int(row[1]) == parent]
            if ["pyspark.daemon" in text for _, text in below].count(True) > 1:  # it has forked
                return [process for process, _ in below]
        return []

    def _start(self, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        deployed = [f"{home / 'bin/spark-class'}", f"org.apache.spark.deploy.{kind}"]
        command = [*deployed, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            environment = {**os.environ, "SPARK_HOME": f"{home}"}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self._ending.callback(end, process)
        return process

    def _wait_for(self, name: str, pattern: str, count: int) -> list[str]:
        log = self._folder / f"{name}.log"
        return wait_until(lambda: found if len(found := re.findall(pattern, log.read_text())) >= count else [], 120)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition: Callable[[], list[Found]], seconds: float) -> list[Found]:
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with ExitStack() as ending:
        yield Cluster(tmp_path / "cluster", ending)


def test_a_dead_worker_loses_no_findings(cluster: Cluster, tmp_path: Path) -> None:
    write_stacks(tmp_path / "stacks", range(STACKS))
    stored = ScanRequest(policy_set(), NOW)
    with open_database() as database:
        store = ScanStore(database)
        run(FolderFeed(tmp_path / "stacks", {}), "test", store, Judges(stored, 1), stored)
        store.export(tmp_path / "facts")
        expected = to_json(rejudge(store, ASKED, Judges(ASKED, 1)))
    with start(cluster, tmp_path / "facts") as undisturbed:
        output, errors = undisturbed.communicate()
    assert (output, undisturbed.returncode) == (expected, 0), errors
    with start(cluster, tmp_path / "facts") as disturbed:
        cluster.kill_a_working_one()
        output, errors = disturbed.communicate()
    assert (output, disturbed.returncode) == (expected, 0), errors
    assert [worker.poll() for worker in cluster.workers].count(-signal.SIGKILL) == 1


def start(cluster: Cluster, facts: Path) -> subprocess.Popen[str]:
    """Start a process that prints what the cluster finds in an export."""
    command = [sys.executable, "-W", "ignore", "-m", __name__, str(facts)]
    environment = {**os.environ, **cluster.environment}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def print_findings(facts: str) -> None:
    from datalog_gate.engine.sql.spark import Spark, open_session

    with open_session() as session, Spark(session) as database:
        store = ExportedStore(facts, database, SHIPPED)
        rows = [*judge_cloud_stored(store, ASKED), *judge_stacks(store, ASKED).collect()]
    print(to_json(Counter((row.root, row.policy) for row in rows)), end="")


def to_json(counts: Mapping[tuple[str, str], int]) -> str:
    """The number of findings of each stack and policy."""
    return json.dumps(sorted([*pair, number] for pair, number in counts.items()))


if __name__ == "__main__":
    print_findings(sys.argv[1])
