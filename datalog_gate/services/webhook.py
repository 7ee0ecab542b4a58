"""Sends events to a URL by signed POST, without blocking.

The body is JSON. The header ``Datalog-Gate-Timestamp`` is the time of the attempt in seconds since 1970, and
``Datalog-Gate-Signature`` is ``sha256=`` with the HMAC-SHA256, in hex, of the timestamp, a dot and the body.
"""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Full, Queue
from threading import Lock, Thread
from urllib.parse import urlsplit

from datalog_gate.base.failures import log_failure

LOG = logging.getLogger(__name__)
TIMEOUT = 5.0
"""Seconds for the server to accept a connection, and then to answer."""
DELAYS = (1.0, 5.0, 25.0)
"""Seconds before each further attempt."""
MOST = 100
"""The maximum number of waiting events; further ones are lost, with an ERROR in the log."""
FOR_LATER = (408, 425, 429)
"""The statuses below 500 after which another attempt may succeed."""


class Webhook:
    """A URL with the file of its shared secret, which is read for each attempt. Errors: ValueError for an invalid URL,
    or an unreadable secret."""

    def __init__(
        self,
        url: str,
        secret_file: str,
        delays: Sequence[float] = DELAYS,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ValueError("webhook is not an address that begins with https:// or http://")
        self._url, self._secret_file, self._delays = url, secret_file, delays
        self._clock, self._sleep = clock, sleep
        self._events: Queue[Mapping[str, object]] = Queue(MOST)
        self._lock = Lock()
        self._thread: Thread | None = None
        self._read_secret()

    def tell(self, event: Mapping[str, object]) -> None:
        """Send an event in a thread. Return at once, and raise nothing: a lost event is an ERROR in the log."""
        try:
            self._events.put_nowait(event)
            with self._lock:
                if self._thread is None or not self._thread.is_alive():  # a fork does not have the thread
                    self._thread = Thread(target=self._run, daemon=True, name="datalog-gate-webhook")
                    self._thread.start()
        except (Full, RuntimeError) as error:
            LOG.error("the webhook was not notified: %s", str(error) or f"{MOST} events are waiting already")

    def deliver(self, event: Mapping[str, object]) -> str:
        """Send an event now, with further attempts. Return why the last one failed; empty if it was accepted."""
        body = json.dumps(event).encode()
        problem = ""
        for delay in (0.0, *self._delays):
            self._sleep(delay)
            problem, later = self._post(body)
            if not later:
                break
        return problem

    def _run(self) -> None:
        while True:
            event = self._events.get()
            try:
                problem = self.deliver(event)
            except Exception:  # noqa: BLE001 - the thread continues with the next event
                log_failure(LOG, "the webhook was not told")
            else:
                if problem:
                    LOG.error("the webhook was not notified: %s", problem)

    def _post(self, body: bytes) -> tuple[str, bool]:
        """Why the server did not accept the body, and whether another attempt may succeed."""
        import requests

        timestamp = str(int(self._clock()))
        try:
            signature = hmac.digest(self._read_secret(), f"{timestamp}.".encode() + body, "sha256").hex()
            headers = {
                "Content-Type": "application/json",
                "Datalog-Gate-Timestamp": timestamp,
                "Datalog-Gate-Signature": f"sha256={signature}",
            }
            with requests.post(
                self._url, body, headers=headers, timeout=TIMEOUT, allow_redirects=False, stream=True
            ) as answer:
                status = answer.status_code
        except requests.RequestException as error:
            return f"{urlsplit(self._url).hostname} gave no answer ({type(error).__name__})", True
        except ValueError as error:
            return str(error), True
        if 200 <= status < 300:
            return "", False
        return f"{urlsplit(self._url).hostname} answered {status}", status >= 500 or status in FOR_LATER

    def _read_secret(self) -> bytes:
        """The secret, without its line break. Errors: ValueError."""
        try:
            secret = Path(self._secret_file).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ValueError(f"webhook_secret_file {self._secret_file} can't be read: {reason}") from None
        if not secret:
            raise ValueError(f"webhook_secret_file {self._secret_file} is empty")
        return secret
