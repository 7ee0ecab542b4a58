"""A write that is repeated with its key happens once.

Worker and database die at random moments. DATALOG_GATE_KILLS says how often for each database; 200 is the full form.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import requests

from bench.server import CONF, ENTRY, database, write_rules
from datalog_gate.store.transaction import Store
from tests.server.rig import PATIENCE, serving
from tests.servers import free_ports

KILLS = int(os.environ.get("DATALOG_GATE_KILLS", "4"))
LONGEST = 0.06
"""The seconds of a write and its answer, within which something dies."""


def kill_worker(process: subprocess.Popen[bytes]) -> None:
    for worker in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(worker), signal.SIGKILL)


def post(url: str, headers: dict[str, str]) -> Any:
    """Repeat a waiver until it is answered."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            entry = {**ENTRY, "reason": headers["Idempotency-Key"]}
            answer = requests.post(f"{url}/v2/waivers", json=entry, headers=headers, timeout=PATIENCE)
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):  # also within an answer
            continue
        if answer.status_code != 503:
            assert answer.status_code == 201, answer.text
            return answer.json()
    raise AssertionError("no answer")


@pytest.mark.timeout(60 + 30 * KILLS)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_write_is_done_once_wherever_its_worker_or_database_dies(kind: str, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    write_rules(tmp_path, 64)
    moments = random.Random(KILLS)
    [port] = free_ports(1)
    url, given = f"http://127.0.0.1:{port}", dict[str, Any]()
    with database(tmp_path, kind) as (store, restart):
        Store(store).upgrade()
        conf = CONF.format(folder=tmp_path, store=store).replace("workers = 2", "workers = 1")
        (tmp_path / "server.conf").write_text(conf)
        with serving(tmp_path, port, "--config", str(tmp_path / "server.conf")) as process:
            headers = {"X-Auth-Token": (tmp_path / "stdout").read_text().removeprefix("token: ").strip()}
            post(url, {**headers, "Idempotency-Key": "first"})
            for at in range(KILLS):
                kill: Callable[[], None] = restart if at % 4 == 3 and kind != "sqlite" else lambda: kill_worker(process)
                killing = Timer(moments.uniform(0, LONGEST), kill)
                killing.start()
                given[f"key-{at}"] = post(url, {**headers, "Idempotency-Key": f"key-{at}"})
                killing.join()
                assert post(url, {**headers, "Idempotency-Key": f"key-{at}"}) == given[f"key-{at}"]
            kept = requests.get(f"{url}/v2/waivers?limit=1000", headers=headers, timeout=PATIENCE).json()["waivers"]
    found = sorted((waiver["reason"], waiver["id"]) for waiver in kept if waiver["reason"] != "first")
    assert found == sorted((key, waiver["id"]) for key, waiver in given.items())
