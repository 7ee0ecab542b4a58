"""The webhook tells of requests and verdicts, signed, and holds nothing up."""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.services.approval import Approval, Approvals, build_event, tell_verdict
from datalog_gate.services.conformance import asked
from datalog_gate.services.webhook import MOST, Webhook
from tests.pages import DOCS
from tests.servers import serving

NOW = 1_800_000_000.0
PATIENCE = 60.0


@dataclass
class Desk:
    """An address with the statuses that it answers next, then 204; what was posted: headers and body."""

    url: str
    secret: Path
    statuses: list[int] = field(default_factory=list)
    posted: Queue[tuple[dict[str, str], bytes]] = field(default_factory=Queue)

    def webhook(self, **more: Any) -> Webhook:
        return Webhook(self.url, str(self.secret), **{"clock": lambda: NOW, "sleep": lambda _: None, **more})

    def next(self) -> dict[str, Any]:
        """The next event, whose signature holds."""
        headers, body = self.posted.get(timeout=PATIENCE)
        stamp = headers["Datalog-Gate-Timestamp"]
        signature = hmac.new(b"s3cret", stamp.encode() + b"." + body, "sha256").hexdigest()
        assert headers["Datalog-Gate-Signature"] == f"sha256={signature}"
        event: dict[str, Any] = json.loads(body)
        return event


@contextmanager
def listening(folder: Path) -> Iterator[Desk]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listener.posted.put((dict(self.headers), body))
            self.send_response(listener.statuses.pop(0) if listener.statuses else 204)
            self.send_header("Location", f"{listener.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    (folder / "secret").write_text("s3cret\n")
    listener = Desk(f"http://127.0.0.1:{server.server_port}", folder / "secret")
    with serving(server):
        yield listener


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with listening(tmp_path) as listener:
        yield listener


@pytest.mark.parametrize(
    ("statuses", "problem", "attempts"),
    [
        ([204], "", 1),
        ([503, 429, 200], "", 3),
        ([500, 500, 500, 500], "127.0.0.1 answered 500", 4),
        ([403], "127.0.0.1 answered 403", 1),
        ([302], "127.0.0.1 answered 302", 1),
    ],
)
def test_what_may_go_better_later_is_tried_again_so_many_times(
    desk: Desk, statuses: list[int], problem: str, attempts: int
) -> None:
    waits: list[float] = []
    desk.statuses = list(statuses)
    assert (desk.webhook(sleep=waits.append).deliver({"a": 1}), desk.posted.qsize()) == (problem, attempts)
    assert waits == [0.0, 1.0, 5.0, 25.0][:attempts]
    assert [desk.next() for _ in range(attempts)] == [{"a": 1}] * attempts


def test_an_address_that_is_silent_and_a_secret_that_is_gone_are_problems(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    silent = Webhook(f"http://127.0.0.1:{port}", str(desk.secret), sleep=lambda _: None)
    assert silent.deliver({}) == "127.0.0.1 gave no answer (ConnectionError)"
    webhook = desk.webhook()
    desk.secret.unlink()
    assert webhook.deliver({}) == f"webhook_secret_file {desk.secret} can't be read: No such file or directory"


def test_a_notification_never_blocks_and_its_loss_is_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    gate: Queue[None] = Queue()
    webhook = desk.webhook(sleep=lambda _: gate.get())
    for at in range(MOST + 2):  # one is under way at most
        webhook.tell({"at": at})
    lost = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert lost[-1] == f"the webhook was not notified: {MOST} events are waiting already"
    gate.put(None)
    assert desk.next() == {"at": 0}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"webhook": "chat.example.org", "webhook_secret_file": "/secret"},
         "webhook is not an address that begins with https:// or http://"),
        ({"webhook": "https://chat.example.org"},
         "approval.webhook needs approval.webhook_secret_file, a file with a secret"),
        ({"webhook": "https://chat.example.org", "webhook_secret_file": "/none"},
         "webhook_secret_file /none can't be read: No such file or directory"),
        ({"webhook": "https://chat.example.org", "webhook_secret_file": "/dev/null"},
         "webhook_secret_file /dev/null is empty"),
    ],
)  # fmt: skip
def test_settings_that_can_not_work_are_refused_at_the_start(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Approval({"store": "/approvals", **settings})


def test_requests_and_verdicts_are_sent_once(desk: Desk, tmp_path: Path) -> None:
    settings = {"store": f"{tmp_path}/approvals", "webhook": desk.url, "webhook_secret_file": str(desk.secret)}
    service = Approval(settings, lambda: NOW)
    request = asked("approval", "u", "db", type="OS::Nova::Server", reason="x" * 2000)
    for _ in range(2):
        with pytest.raises(RefusedError):
            service.reserve(request)
    assert service.waits(request) == ""
    [waiting] = Approvals(settings["store"]).list(NOW)
    event = build_event("requested", waiting)
    assert desk.next() == event
    request_part: Any = event["request"]
    assert (event["schema"], event["event"]) == ("datalog-gate/approval-event/1", "requested")
    assert request_part["options"] == {"reason": "x" * 997 + "..."}
    assert request_part["scope"] == [{"resource": "s/db", "type": "OS::Nova::Server"}]
    refused = Approvals(settings["store"]).say("A-1", "refused", "ann", "too big", NOW)
    assert (tell_verdict(settings, "refused", refused), desk.next()) == ("", build_event("refused", refused))
    desk.secret.unlink()
    problem = f"webhook_secret_file {desk.secret} can't be read: No such file or directory"
    assert tell_verdict(settings, "approved", refused) == problem
    assert desk.posted.empty()


def test_the_command_of_the_page_computes_the_signature(desk: Desk, tmp_path: Path) -> None:
    page = (DOCS / "grants.md").read_text("utf-8")
    [command] = re.findall(r"```sh\n(python3 .*?)```", page, re.S)
    assert desk.webhook().deliver(event := {"event": "requested", "\u00e9": [1]}) == ""
    headers, body = desk.posted.get(timeout=PATIENCE)
    (tmp_path / "body.json").write_bytes(body)
    shell = {
        "TIMESTAMP": headers["Datalog-Gate-Timestamp"],
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    printed = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=shell, capture_output=True, text=True, check=True)
    assert (printed.stdout, json.loads(body)) == (f"{headers['Datalog-Gate-Signature']}\n", event)


def test_a_request_that_can_not_wait_is_sent_too(desk: Desk, tmp_path: Path) -> None:
    settings = {"store": f"{tmp_path}/approvals", "webhook": desk.url, "webhook_secret_file": str(desk.secret)}
    service = Approval({**settings, "mode": "wait", "wait_number": "1"}, lambda: NOW)
    for uuid, stack in (("u1", "1b1b"), ("u2", "2c2c")):
        service.waits(replace(asked("approval", uuid, "db", type="OS::Nova::Server"), stack=stack))
    assert [desk.next()["request"]["id"] for _ in range(2)] == ["A-1", "A-2"]
