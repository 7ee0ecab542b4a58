"""The service `licence_server`, which asks a server before stacks are built.

It is for every stack, and passes a refusal on with the server's reason. ``POST {url}`` asks, as JSON:

    {"action": "create", "project": "p1", "stack": "web", "decision": "7f3a91",
     "resources": [{"id": "web/db", "type": "OS::Nova::Server", "image": "debian", "flavor": null, "open": false}]}

with null for what is not there, not known yet or hidden, and `open` for a group that may get more members than are
told. The server says, with 200, ``{"allowed": true}`` or ``{"allowed": false, "reason": "..."}``; anything else is no
answer. ``POST {url}/outcome`` tells it afterwards ``{"action", "project", "stack", "outcome"}``, where the outcome is
complete, failed or unknown; any 2xx does. Both carry the same ``Idempotency-Key``, which is the same for the same
request: a server counts a key once, and forgets one that failed, though it may never have seen it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from datalog_gate.analysis.policy import ACTIONS
from datalog_gate.base.secrecy import mask_urls
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.plugins.plugin_settings import UnknownSettingError, check_address, check_path, read_seconds
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.stack.model import Data

LOG = logging.getLogger(__name__)
DEFAULTS = {
    "url": "",
    "actions": "create,update,adopt,restore",
    "connect_timeout": "2",
    "read_timeout": "5",
    "retries": "2",
    "cafile": "",
    "cert": "",
    "token_file": "",
}
"""The settings, all of text. Times are seconds. `cafile` holds the authorities to trust instead of those of certifi,
`cert` a client's certificate with its key, `token_file` a bearer token, read each time."""
ANSWER_LIMIT = 64 * 1024
"""The maximum number of bytes of an answer."""


class LicenceServer(Service):
    """The mandatory consultation. Errors: ValueError for invalid or unknown settings, OSError for a file."""

    for_every_stack = True

    def __init__(self, settings: Mapping[str, str]) -> None:
        if unknown := sorted(settings.keys() - DEFAULTS.keys()):
            raise UnknownSettingError(unknown, DEFAULTS)
        given = {**DEFAULTS, **settings}
        self._url = check_address("url", given["url"])
        self.actions = tuple(action.strip() for action in given["actions"].split(","))
        if wrong := sorted(set(self.actions) - set(ACTIONS) | {"rollback"} & set(self.actions)):
            raise ValueError(f"actions: services are not consulted before {', '.join(wrong)}")
        connect, read = (read_seconds(name, given[name]) for name in ("connect_timeout", "read_timeout"))
        self._timeouts = (connect, read)
        for name in ("cafile", "cert", "token_file"):
            if check_path(given[name]) and not Path(given[name]).exists():
                raise ValueError(f"{name}: there is no {given[name]}")
        self._token_file = Path(given["token_file"]) if given["token_file"] else None
        self._token()
        if not 0 <= int(given["retries"]) <= 10:
            raise ValueError("retries must be 0 to 10")
        self._session = _session(int(given["retries"]), given["cafile"], given["cert"])

    def reserve(self, request: Request) -> Decision:
        resources = [
            {
                "id": part.id,
                "type": part.type,
                "image": _text(part.properties.get("image")),
                "flavor": _text(part.properties.get("flavor")),
                "open": part.open,
            }
            for part in request.scope
        ]
        status, body = self._ask(self._url, request, {"decision": request.decision_id, "resources": resources})
        answer = None
        if status == 200 and len(body) <= ANSWER_LIMIT:
            with suppress(ValueError, RecursionError):
                answer = json.loads(body)
        match answer:
            case {"allowed": True, **rest} if not rest:
                return {}
            case {"allowed": False, "reason": str(reason), **rest} if not rest:
                raise RefusedError(reason or "the licence server refuses without a reason")
        raise UnavailableError(f"the licence server gave an unreadable answer, with status {status}")

    def commit(self, held: Held) -> None:
        self._tell(held, held.outcome)

    def release(self, held: Held) -> None:
        self._tell(held, "failed")

    def status(self, held: Held) -> Status:  # noqa: ARG002 - only the server knows
        return "unknown"

    def _tell(self, held: Held, outcome: str) -> None:
        status, _ = self._ask(f"{self._url}/outcome", held, {"outcome": outcome})
        if not 200 <= status < 300:
            raise UnavailableError(f"the licence server answered {status}")

    def _ask(self, url: str, about: Request | Held, data: Mapping[str, object]) -> tuple[int, bytes]:
        """Status and body of the answer. Errors: UnavailableError."""
        what = {"action": about.action, "project": about.project, "stack": about.stack_name}
        try:
            headers = {"Content-Type": "application/json", "Idempotency-Key": about.key, **self._token()}
            with self._session.post(
                url,
                data=json.dumps({**what, **data}).encode(),
                headers=headers,
                timeout=self._timeouts,
                allow_redirects=False,
                stream=True,
            ) as response:
                return response.status_code, response.raw.read(ANSWER_LIMIT + 1, decode_content=False)
        except (OSError, ValueError, HTTPError) as error:  # exceptions of requests are OSErrors too
            LOG.warning("%s", mask_urls(f"{url}: {type(error).__name__}: {error}"))
            raise UnavailableError("the licence server can't be reached, or broke off its answer") from error

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


def _text(value: Data) -> str | None:
    return value if isinstance(value, str) else None
