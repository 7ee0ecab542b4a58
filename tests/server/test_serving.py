"""A running server: slow and broken requests, signals, and its first start."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Semaphore

import pytest
import requests

from bench.server import crowd
from tests.server.rig import PATIENCE, Site, serving
from tests.servers import free_ports
from tests.unit.doors.server.test_server import template
from tests.waiting import wait

HEAD = "POST /v2/decisions HTTP/1.1\r\nHost: gate\r\nContent-Type: application/json\r\nX-Auth-Token: {token}\r\n"


def send(site: Site, *parts: str, pause: float = 0.0) -> tuple[int, str]:
    """Send parts of a request with a pause after each; return the status and the code of the refusal."""
    address = site.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), PATIENCE) as line:
        for part in parts:
            try:
                line.sendall(part.encode())
            except OSError:
                break  # it has answered already
            time.sleep(pause)
        content = b""
        while part_ := line.recv(65536):
            content += part_
    head, _, body = content.decode().partition("\r\n\r\n")
    text = body[body.find("{") : body.rfind("}") + 1]
    return int(head.split()[1]), json.loads(text)["errors"][0]["code"] if text else ""


@pytest.mark.parametrize("code", ["slow_body", "slow_request"])
def test_a_slow_request_is_ended_and_others_are_answered_meanwhile(site: Site, code: str) -> None:
    head = HEAD.format(token=site.token("ann")) + "Connection: close\r\nContent-Length: 5000\r\n\r\n"
    parts = [head, *"x" * 40] if code == "slow_body" else HEAD
    with ThreadPoolExecutor(20) as pool:
        slow = [pool.submit(send, site, *parts, pause=0.1) for _ in range(20)]
        assert site.ask("rita", "GET", "/v2/policies").status_code == 200
    assert [answer.result() for answer in slow] == [(408, code)] * 20


def test_a_crowd_that_never_ends_its_requests_takes_no_thread(tmp_path: Path) -> None:
    (tmp_path / "server.conf").write_text(f"[datalog_gate_server]\nfolder = {tmp_path}/server\nbody_seconds = 3600\n")
    [port] = free_ports(1)
    with serving(tmp_path, port, "--config", str(tmp_path / "server.conf")), crowd(port) as lines:
        headers = {"X-Auth-Token": (tmp_path / "stdout").read_text().removeprefix("token: ").strip()}
        url, body = f"http://127.0.0.1:{port}", {"template": template(9)}
        checks = [requests.get(f"{url}/healthcheck", timeout=PATIENCE).status_code for _ in range(20)]
        decisions = [requests.post(f"{url}/v2/decisions", json=body, headers=headers, timeout=PATIENCE) for _ in "abc"]
        assert (checks, [decision.status_code for decision in decisions]) == ([200] * 20, [201] * 3)
        assert select.select(lines, [], [], 0)[0] == []  # none was ended to make room


@pytest.mark.parametrize(
    ("headers", "body", "answer"),
    [
        ("Content-Length: 99999999\r\n", "", (413, "body_too_large")),
        ("Transfer-Encoding: chunked\r\n", "2\r\n{]\r\n0\r\n\r\n", (400, "malformed_json")),
        ("Transfer-Encoding: chunked\r\n", "zz\r\n", (400, "malformed_body")),
        ("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n", (408, "slow_body")),
        ("Content-Length: -1\r\n", "", (400, "malformed_request")),
        ("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "{}", (400, "malformed_request")),
        ("Content-Length: 2\r\nX-Forwarded-For: 1\r\nBad Header: x\r\n", "{}", (400, "malformed_request")),
        ("X-Auth-Token l0st\r\nContent-Length: 2\r\n", "{}", (400, "malformed_request")),
        (f"X-Long: {'x' * 20_000}\r\nContent-Length: 2\r\n", "{}", (431, "malformed_request")),
    ],
)  # fmt: skip
def test_broken_requests_are_refused(site: Site, headers: str, body: str, answer: tuple[int, str]) -> None:
    head = HEAD.format(token=site.token("ann"))
    assert send(site, f"{head}Connection: close\r\n{headers}\r\n{body}") == answer
    log = (site.folder / "stderr").read_text()
    assert "l0st" not in log
    assert site.token("ann") not in log


def test_a_line_that_is_no_request_is_refused_and_not_logged(site: Site) -> None:
    assert send(site, "X-Auth-Token: l0st\r\n\r\n") == (400, "malformed_request")
    assert send(site, f"GET /{'x' * 9000}?l0st HTTP/1.1\r\nHost: gate\r\n\r\n") == (414, "malformed_request")
    assert "l0st" not in (site.folder / "stderr").read_text()


def test_a_worker_that_is_killed_is_replaced(site: Site) -> None:
    children = read_workers(site.process)
    os.kill(int(children[0]), signal.SIGKILL)
    token = site.token("ann")

    def ask() -> int:
        headers = {"X-Auth-Token": token}
        return requests.get(f"{site.url}/v2/policies", headers=headers, timeout=PATIENCE).status_code

    def replaced() -> bool:
        now = read_workers(site.process)
        return len(now) == len(children) and now != children

    wait(replaced)
    assert [ask() for _ in range(10)] == [200] * 10


def decide(port: int, token: str, sent: Semaphore) -> int:
    """Ask for a decision, release `sent` once the request is sent, and return the status of the answer."""
    content = json.dumps({"template": template(9)})
    head = f"{HEAD.format(token=token)}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        line.sendall(f"{head}{content}".encode())
        sent.release()
        return int(line.makefile("rb").readline().split()[1])


def read_workers(process: subprocess.Popen[bytes]) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def test_requests_that_wait_are_answered_when_workers_are_replaced_and_when_the_server_ends(tmp_path: Path) -> None:
    options = f"[datalog_gate_server]\nfolder = {tmp_path}/server\nthreads = 1\n"
    (tmp_path / "server.conf").write_text(options)
    [port] = free_ports(1)
    statuses, sent = list[int](), Semaphore(0)
    with serving(tmp_path, port, "--config", str(tmp_path / "server.conf")) as process:
        token = (tmp_path / "stdout").read_text().removeprefix("token: ").strip()
        before, ended = read_workers(process), Event()

        def ask_often() -> None:
            while not ended.is_set():
                statuses.append(decide(port, token, sent))

        threads = [threading.Thread(target=ask_often) for _ in range(8)]
        for thread in threads:
            thread.start()
        sent.acquire()
        process.send_signal(signal.SIGHUP)
        wait(lambda: not set(before) & set(read_workers(process)))
        ended.set()
        for thread in threads:
            thread.join()
        while sent.acquire(blocking=False):
            pass
        with ThreadPoolExecutor(8) as pool:
            last = [pool.submit(decide, port, token, sent) for _ in range(8)]
            for _ in last:
                sent.acquire()
            process.terminate()
        assert process.wait(PATIENCE) == 0
    assert {*statuses, *(answer.result() for answer in last)} == {201}


def test_it_starts_from_nothing_with_a_token_and_ends_by_a_signal_after_the_last_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    [port] = free_ports(1)
    sent = Semaphore(0)
    with serving(tmp_path, port) as process:
        [line] = (tmp_path / "stdout").read_text().splitlines()
        token = line.removeprefix("token: ")
        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(decide, port, token, sent) for _ in range(4)]
            for _ in answers:
                sent.acquire()
            process.terminate()
        assert process.wait(PATIENCE) == 0
    assert [answer.result() for answer in answers] == [201] * 4
    with serving(tmp_path, port):
        assert (tmp_path / "stdout").read_text() == ""
        assert decide(port, token, sent) == 201
