"""The plugin `licence`, which asks a licence server over HTTP.

It asks before a stack is built or changed, and passes a refusal on with the server's reason.
``POST {url}`` asks, as JSON:

    {"action": "create", "project": "p1", "stack": "web", "decision": "7f3a91",
     "resources": [{"id": "web/db", "type": "OS::Nova::Server", "image": "debian", "flavor": null, "open": false}]}

with null for what is not there, not known yet or hidden, and `open` for a group that may get more members than are
told. The server says, with 200, ``{"allowed": true}`` or ``{"allowed": false, "reason": "..."}``; anything else is no
answer. ``POST {url}/outcome`` tells it afterwards ``{"action", "project", "stack", "decision", "outcome"}``; any 2xx
does. Both carry the same ``Idempotency-Key``, which is the same for the same request: a server counts a key once, and
forgets one of which it is never told the outcome.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from datalog_gate.analysis.policy import ACTIONS
from datalog_gate.base.secrecy import mask_urls
from datalog_gate.plugins.breaker import Breaker, within
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.plugins.plugin_settings import UnknownSettingError, check_address, check_path, read_seconds
from datalog_gate.preflight.plugin import Outcome, Plugin
from datalog_gate.preflight.snapshot import Snapshot
from datalog_gate.stack.model import Data

Answer = tuple[int, bytes]
LOG = logging.getLogger(__name__)
DEFAULTS = {
    "url": "",
    "actions": "create,update,adopt,restore",
    "connect_timeout": "2",
    "read_timeout": "5",
    "deadline": "10",
    "retries": "2",
    "cafile": "",
    "cert": "",
    "token_file": "",
}
"""The settings, all of text. `deadline` bounds one consultation with all its retries; times are seconds. `cafile` holds
the authorities to trust instead of those of certifi, `cert` a client's certificate with its key, `token_file` a bearer
token, read each time."""
ANSWER_LIMIT = 64 * 1024
"""The maximum number of bytes of an answer."""


class LicenceServerPlugin(Plugin):
    """The mandatory consultation. Errors: ValueError for invalid or unknown settings, OSError for a file."""

    def __init__(self, settings: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        if unknown := sorted(settings.keys() - DEFAULTS.keys()):
            raise UnknownSettingError(unknown, DEFAULTS)
        given = {**DEFAULTS, **settings}
        self._url = check_address("url", given["url"])
        self._actions = frozenset(action.strip() for action in given["actions"].split(","))
        if wrong := sorted(self._actions - set(ACTIONS) | self._actions & {"rollback"}):
            raise ValueError(f"actions: plugins are not consulted before {', '.join(wrong)}")
        times = ("connect_timeout", "read_timeout", "deadline")
        connect, read, self._deadline = (read_seconds(name, given[name]) for name in times)
        self._timeouts = (connect, read)
        for name in ("cafile", "cert", "token_file"):
            if check_path(given[name]) and not Path(given[name]).exists():
                raise ValueError(f"{name}: there is no {given[name]}")
        self._token_file = Path(given["token_file"]) if given["token_file"] else None
        self._token()
        self._breaker = Breaker(clock)
        if not 0 <= int(given["retries"]) <= 10:
            raise ValueError("retries must be 0 to 10")
        self._session = _session(int(given["retries"]), given["cafile"], given["cert"])

    def pre(self, snapshot: Snapshot) -> None:
        """As `Plugin.pre`."""
        if snapshot.action not in self._actions:
            return
        resources = [
            {
                "id": part.id,
                "type": part.type,
                "image": _text(part.properties.get("image")),
                "flavor": _text(part.properties.get("flavor")),
                "open": part.open,
            }
            for part in snapshot.parts
        ]
        status, body = self._ask(self._url, snapshot, {"resources": resources})
        answer = None
        if status == 200 and len(body) <= ANSWER_LIMIT:
            with suppress(ValueError, RecursionError):
                answer = json.loads(body)
        match answer:
            case {"allowed": True, **rest} if not rest:
                self._breaker.succeeded()
            case {"allowed": False, "reason": str(reason), **rest} if not rest:
                self._breaker.succeeded()
                raise RefusedError(reason or "the licence server refuses without a reason")
            case _:
                self._breaker.failed()
                raise UnavailableError(f"the licence server gave an unreadable answer, with status {status}")

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """As `Plugin.post`."""
        if snapshot.action not in self._actions:
            return
        status, _ = self._ask(f"{self._url}/outcome", snapshot, {"outcome": outcome})
        if not 200 <= status < 300:
            self._breaker.failed()
            raise UnavailableError(f"the licence server answered {status}")
        self._breaker.succeeded()

    def _ask(self, url: str, snapshot: Snapshot, data: Mapping[str, object]) -> Answer:
        """Status and body of the answer; the caller reports the result to the breaker. Errors: UnavailableError."""
        if not self._breaker.admits():
            raise UnavailableError("the licence server has not answered for a while, and is not asked for now")
        what = {
            "action": snapshot.action,
            "project": snapshot.project,
            "stack": snapshot.stack_name,
            "decision": snapshot.decision_id,
        }
        try:
            headers = {"Content-Type": "application/json", "Idempotency-Key": _key(snapshot), **self._token()}
            content = json.dumps({**what, **data}).encode()
            return within(self._deadline, "licence", lambda: self._send(url, content, headers))
        except UnavailableError as error:
            why = error.reason
        except (OSError, ValueError, HTTPError) as error:  # exceptions of requests are OSErrors too
            LOG.warning("%s", mask_urls(f"{url}: {type(error).__name__}: {error}"))
            why = "can't be reached, or broke off its answer"
        self._breaker.failed()
        raise UnavailableError(f"the licence server {why}")

    def _send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        with self._session.post(
            url, data=body, headers=headers, timeout=self._timeouts, allow_redirects=False, stream=True
        ) as response:
            return response.status_code, response.raw.read(ANSWER_LIMIT + 1, decode_content=False)

    def _token(self) -> dict[str, str]:
        """The header with the token. Errors: OSError; ValueError, which does not show it."""
        if self._token_file is None:
            return {}
        token = self._token_file.read_bytes().strip()
        if not token or any(not 0x21 <= byte <= 0x7E for byte in token):
            raise ValueError(f"{self._token_file} contains no token")
        return {"Authorization": f"Bearer {token.decode('ascii')}"}


def _session(retries: int, cafile: str, cert: str) -> requests.Session:
    """A session that ignores the environment, keeps no cookies, and retries requests with a key."""
    retry = Retry(
        total=retries,
        status_forcelist=(502, 503, 504),
        allowed_methods=None,
        backoff_factor=0.1,
        respect_retry_after_header=False,  # the server may ask for any delay
        raise_on_status=False,
    )
    session = requests.Session()
    session.trust_env = False
    session.verify = cafile or True
    session.cert = cert or None
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.headers["Accept-Encoding"] = "identity"
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    return session


def _key(snapshot: Snapshot) -> str:
    """The key of a request, the same in the host's API and in its engine."""
    request = snapshot.request_id or snapshot.decision_id
    parts = snapshot.project, snapshot.stack_name, snapshot.action, request
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _text(value: Data) -> str | None:
    return value if isinstance(value, str) else None
