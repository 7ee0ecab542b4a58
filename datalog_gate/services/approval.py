"""The service `approval`, by which a person approves a grant.

A grant without an answer fails with ``awaiting approval A-12``. Once A-12 is approved, an update of the stack succeeds.
An approval is valid for the requested scope and options: others need a new one. Requests, verdicts and the claims that
use them, one for each approval, are in the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from datalog_gate.base.diagnostics import shorten
from datalog_gate.base.values import ResourceId
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.plugins.plugin_settings import UnknownSettingError, check_path, check_store
from datalog_gate.services.contract import Decision, Held, Request, Service, Status, digest, plain
from datalog_gate.services.webhook import DELAYS, Webhook
from datalog_gate.store.tables import approval_claims, approval_requests
from datalog_gate.store.transaction import Store, atomic, reading

State = Literal["awaiting", "approved", "refused", "used", "superseded", "expired"]
MODES = ("stop", "wait")
DEFAULTS = {
    "store": "", "ask": "", "mode": "stop", "days": "7", "wait_seconds": "3600", "wait_number": "8",
    "webhook": "", "webhook_secret_file": "",
}  # fmt: skip
EVENT = "datalog-gate/approval-event/1"
MOST_TOLD = 50
"""The maximum number of resources in scope that a webhook receives."""
LONGEST_TOLD = 1000
"""The maximum number of characters of a user's text that a webhook receives."""
OPEN = ("awaiting", "approved", "refused")
BUSY = 5.0
"""Seconds that a transaction waits for locks: less than the timeout of a service call."""
POLLED = 60.0
"""Seconds without a poll after which a grant no longer waits."""


class ApprovalError(UnavailableError):
    """A request that does not exist or can't be answered any more, or an inaccessible file."""


class Approval(Service):
    """The service. Its settings:

    store         the store of the gate, which gives it
    ask           whom users are told to ask
    mode          what a grant without the option `mode` does: stop or wait
    days          for which a request and its verdict count
    wait_seconds  that a grant of the mode `wait` waits
    wait_number   of grants that may wait at once
    webhook       an address that is told of requests and verdicts: see `services.webhook`
    webhook_secret_file  the file of the secret that signs what it is told

    The options of a grant are `mode`, and `reason`, for the person who approves it.
    """

    uses_store = True

    def __init__(self, settings: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        if unknown := sorted(settings.keys() - DEFAULTS.keys()):
            raise UnknownSettingError(unknown, DEFAULTS)
        values = {**DEFAULTS, **settings}
        if values["mode"] not in MODES:
            raise ValueError(f"approval.mode is {values['mode']}, but must be one of {', '.join(MODES)}")
        self._ask, self._default_mode = values["ask"], values["mode"]
        self._valid_seconds = _read_positive("days", values["days"]) * 86400
        self._wait_seconds = _read_positive("wait_seconds", values["wait_seconds"])
        self._wait_number = int(_read_positive("wait_number", values["wait_number"]))
        self._approvals, self._clock = Approvals(check_store(values["store"])), clock
        self._webhook = read_webhook(values)

    def facts(self, request: Request) -> None:
        """Refuse grants that a person refused. Only `reserve` asks for approval."""
        self._mode(request)
        approval = self._approvals.find(request, self._clock())
        if approval and approval.state == "refused":
            raise RefusedError(f"{approval.name} was {approval.answer}")

    def waits(self, request: Request) -> str:
        if self._mode(request) != "wait":
            return ""
        allowed, approval = self._approvals.wait(
            request, self._clock(), self._valid_seconds, wait_seconds=self._wait_seconds, number=self._wait_number
        )
        self._tell(approval)
        return self._awaiting(approval) if allowed else ""

    def reserve(self, request: Request) -> Decision:
        self._mode(request)
        held, approval = self._approvals.use(request, self._clock(), self._valid_seconds)
        self._tell(approval)
        if approval is None:
            raise RefusedError("this was released before")
        if held:
            attributes = {"approval": approval.name, "approved_by": approval.verdicts[-1].who}
            return {ResourceId(part.id).name: attributes for part in request.scope}
        if approval.state == "refused":
            raise RefusedError(f"{approval.name} was {approval.answer}")
        raise RefusedError(self._awaiting(approval))

    def release(self, held: Held) -> None:
        self._approvals.release(held.key)

    def status(self, held: Held) -> Status:
        return "held" if self._approvals.holds(held.key) else "absent"

    def _mode(self, request: Request) -> str:
        """Whether the grant stops or waits. Errors: RefusedError for wrong options."""
        if unknown := sorted(map(str, request.options.keys() - {"mode", "reason"})):
            raise RefusedError(f"there is no option {', '.join(unknown)}, only mode and reason")
        mode = request.options.get("mode", self._default_mode)
        if mode not in MODES:
            raise RefusedError("mode is stop or wait")
        return str(mode)

    def _tell(self, approval: ApprovalRequest | None) -> None:
        """Notify the webhook of a new request."""
        if self._webhook and approval and approval.is_new:
            self._webhook.tell(build_event("requested", approval))

    def _awaiting(self, approval: ApprovalRequest) -> str:
        return f"awaiting approval {approval.name}" + (f" of {self._ask}" if self._ask else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A person's answer to a request."""

    verdict: str
    who: str
    at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A request for approval, a row of the table."""

    number: int
    digest: str
    project: str
    stack: str
    stack_name: str
    path: str
    """The path of the requesting grant."""
    options: dict[str, Any]
    scope: list[dict[str, Any]]
    at: float
    """When it was created, in seconds since 1970."""
    state: State = "awaiting"
    until: float
    """When it expires unless it is used."""
    verdicts: tuple[Verdict, ...] = ()
    """All verdicts in order; the last one counts."""
    uuid: str = ""
    """The uuid of the grant that waits."""
    since: float = 0.0
    """When it began to wait."""
    polled: float = 0.0
    """When it was last called."""
    is_new: bool = field(default=False, compare=False)
    """Whether the call that returned it created it."""

    @property
    def name(self) -> str:
        return f"A-{self.number}"

    @property
    def answer(self) -> str:
        if self.state not in ("approved", "refused", "used"):
            return f"{self.state} approval" if self.state == "awaiting" else self.state
        last = self.verdicts[-1]
        return f"{self.state} by {last.who}" + (f": {last.why}" if last.why else "")

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.name,
            "state": self.state,
            "project": self.project,
            "stack": self.stack,
            "stack_name": self.stack_name,
            "grant": self.path,
            "options": self.options,
            "scope": self.scope,
            "asked": format_time(self.at),
            "until": format_time(self.until),
            "said": [asdict(verdict) | {"at": format_time(verdict.at)} for verdict in self.verdicts],
        }


class Approvals:
    """The requests in a store: the URL of a database, or the path of a file, which is created on demand. Times are
    seconds since 1970. Errors of all methods: ApprovalError."""

    lock = "approvals"

    def __init__(self, store: str) -> None:
        self.store = Store(store, ApprovalError, BUSY)

    @reading
    def find(self, rows: Connection, request: Request, now: float) -> ApprovalRequest | None:
        """The last valid request for the same digest."""
        return _find(rows, request, now)

    @atomic
    def use(
        self, rows: Connection, request: Request, now: float, seconds: float
    ) -> tuple[bool, ApprovalRequest | None]:
        """Whether a claim may be held, and the request that it needs, or None if its key is dead. It may be held if it
        is already held, if a claim that it replaces holds the same, or if it was approved: that uses the approval.
        Otherwise a request is created, valid for so many seconds, unless there is one for the same."""
        known, number = _find_claim(rows, request.key)
        if known:
            return number is not None, None if number is None else _get(rows, number, now)
        for key in request.replaces:
            _, number = _find_claim(rows, key)
            if number is not None and (shared := _get(rows, number, now)).digest == _digest(request):
                _insert_claim(rows, request.key, number)
                return True, shared
        approval = _find(rows, request, now) or _insert(rows, request, now, seconds)
        if approval.state != "approved":
            return False, approval
        _insert_claim(rows, request.key, approval.number)
        return True, _update(rows, approval, state="used")

    @atomic
    def wait(
        self, rows: Connection, request: Request, now: float, seconds: float, wait_seconds: float, number: int
    ) -> tuple[bool, ApprovalRequest]:
        """The request, as for `use`, and whether its grant's resource may continue to wait for the answer: for so many
        seconds, and while fewer than this number of others wait."""
        approval = _find(rows, request, now) or _insert(rows, request, now, seconds)
        if approval.state != "awaiting":
            return False, approval
        since = approval.since if approval.uuid == request.uuid else now
        others = approval_requests.c.number != approval.number, approval_requests.c.polled > now - POLLED
        waiting = rows.execute(select(func.count()).select_from(approval_requests).where(*others)).scalar() or 0
        allowed = now - since < wait_seconds and waiting < number
        return allowed, _update(rows, approval, uuid=request.uuid, since=since, polled=now if allowed else 0.0)

    @atomic
    def say(
        self, rows: Connection, name: str, verdict: Literal["approved", "refused"], who: str, why: str, now: float
    ) -> ApprovalRequest:
        """Add the verdict of a person. Until the approval is used another verdict may follow, but not the same
        again."""
        letter, _, number = name.upper().rpartition("A-")
        known = not letter and number.isdecimal() and len(number) < 10
        found = _select(rows, now, approval_requests.c.number == int(number)) if known else []
        if not found:
            raise ApprovalError(f"there is no request {name}")
        [approval] = found
        if approval.verdicts and approval.verdicts[-1].verdict == verdict and approval.state in (verdict, "used"):
            last = approval.verdicts[-1]
            reason = f": {last.why}" if last.why else ""
            raise ApprovalError(
                f"{approval.name} was already {verdict}, by {last.who} at {format_time(last.at)}{reason}"
            )
        if approval.state not in OPEN:
            raise ApprovalError(f"{approval.name} can no longer be {verdict}: it is {approval.answer}")
        verdicts = (*approval.verdicts, Verdict(verdict=verdict, who=who, at=now, why=why))
        return _update(rows, approval, state=verdict, verdicts=verdicts)

    @atomic
    def release(self, rows: Connection, key: str) -> None:
        """Mark a key as dead, held or not."""
        rows.execute(approval_claims.delete().where(approval_claims.c.key == key))
        _insert_claim(rows, key, None)

    @reading
    def holds(self, rows: Connection, key: str) -> bool:
        """Whether a claim holds an approval."""
        return _find_claim(rows, key)[1] is not None

    @reading
    def list(
        self,
        rows: Connection,
        now: float,
        *,
        after: int = 0,
        projects: Collection[str] | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> tuple[ApprovalRequest, ...]:
        """The requests with numbers above `after`, of these projects and in this state, at most `limit`."""
        table = approval_requests.c
        conditions = [table.number > after]
        if projects is not None:
            conditions.append(table.project.in_(projects))
        expired = (table.until <= now) & table.state.in_(OPEN)
        if state is not None:
            conditions.append(expired if state == "expired" else (table.state == state) & ~expired)
        return tuple(_select(rows, now, *conditions, limit=limit))


def read_webhook(settings: Mapping[str, str], delays: Sequence[float] = DELAYS) -> Webhook | None:
    """The webhook in the settings; None if there is none. `delays` are the seconds before each further attempt. Errors:
    ValueError."""
    url, secret_file = settings.get("webhook", ""), settings.get("webhook_secret_file", "")
    if not url:
        return None
    if not secret_file:
        raise ValueError("approval.webhook needs approval.webhook_secret_file, a file with a secret")
    return Webhook(url, check_path(secret_file), delays)


def tell_verdict(
    settings: Mapping[str, str], verdict: Literal["approved", "refused"], approval: ApprovalRequest
) -> str:
    """Notify the webhook in the settings, if any, of a verdict. Return why it was not told; empty if it was. The
    verdict is stored in any case."""
    try:
        webhook = read_webhook(settings, delays=(1.0,))
        return webhook.deliver(build_event(verdict, approval)) if webhook else ""
    except ValueError as error:
        return str(error)


def build_event(kind: Literal["requested", "approved", "refused"], approval: ApprovalRequest) -> dict[str, object]:
    """The event about a request for a webhook: everything except the properties of resources in scope."""
    request = approval.to_json() | {
        "options": {name: shorten(str(value), LONGEST_TOLD) for name, value in approval.options.items()},
        "scope": [{name: part[name] for name in ("resource", "type")} for part in approval.scope[:MOST_TOLD]],
    }
    return {"schema": EVENT, "event": kind, "request": request}


def format_time(seconds: float) -> str:
    """A time in ISO 8601, to the second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _digest(request: Request) -> str:
    """The digest of what is approved: everything except the uuid, which changes if a grant is tried again."""
    return digest(request.project, request.stack, request.grant, request.reserved)


def _find(rows: Connection, request: Request, now: float) -> ApprovalRequest | None:
    table = approval_requests.c
    same = _select(rows, now, table.digest == _digest(request), table.until > now, table.state.in_(OPEN))
    return same[-1] if same else None


def _insert(rows: Connection, request: Request, now: float, seconds: float) -> ApprovalRequest:
    """Add a request. It supersedes unanswered ones of the grant."""
    table = approval_requests.c
    grant = table.project == request.project, table.stack == request.stack, table.path == request.grant
    rows.execute(approval_requests.update().where(*grant, table.state == "awaiting").values(state="superseded"))
    scope = [{"resource": part.id, "type": part.type, "properties": part.properties} for part in request.scope]
    number = (rows.execute(select(func.max(table.number))).scalar() or 0) + 1  # requests are never deleted
    approval = ApprovalRequest(
        number=number,
        digest=_digest(request),
        project=request.project,
        stack=request.stack,
        stack_name=request.stack_name,
        path=request.grant,
        options=json.loads(json.dumps(request.options, default=plain)),
        scope=json.loads(json.dumps(scope, default=plain)),
        at=now,
        until=now + seconds,
        is_new=True,
    )
    rows.execute(approval_requests.insert(), _build_row(approval))
    return approval


def _update(rows: Connection, approval: ApprovalRequest, **changes: Any) -> ApprovalRequest:
    changed = replace(approval, **changes)
    update = approval_requests.update().where(approval_requests.c.number == approval.number)
    rows.execute(update, _build_row(changed))
    return changed


def _build_row(approval: ApprovalRequest) -> dict[str, Any]:
    return {name: value for name, value in asdict(approval).items() if name != "is_new"}


def _find_claim(rows: Connection, key: str) -> tuple[bool, int | None]:
    """Whether a key is known, and the number of the request that its claim uses; None if it is dead."""
    claim = rows.execute(select(approval_claims.c.number).where(approval_claims.c.key == key)).first()
    return claim is not None, claim[0] if claim else None


def _insert_claim(rows: Connection, key: str, number: int | None) -> None:
    rows.execute(approval_claims.insert().values(key=key, number=number))


def _get(rows: Connection, number: int, now: float) -> ApprovalRequest:
    [approval] = _select(rows, now, approval_requests.c.number == number)
    return approval


def _select(rows: Connection, now: float, *conditions: Any, limit: int | None = None) -> list[ApprovalRequest]:
    query = select(approval_requests).where(*conditions).order_by(approval_requests.c.number).limit(limit)
    return [_read_row(dict(row), now) for row in rows.execute(query).mappings()]


def _read_row(row: Mapping[str, Any], now: float) -> ApprovalRequest:
    approval = ApprovalRequest(**{**row, "verdicts": tuple(Verdict(**verdict) for verdict in row["verdicts"])})
    is_expired = approval.until <= now and approval.state in OPEN
    return replace(approval, state="expired") if is_expired else approval


def _read_positive(name: str, text: str) -> float:
    """A number above zero. Errors: ValueError."""
    with suppress(ValueError):
        if 0 < (number := float(text)) < float("inf"):
            return number
    raise ValueError(f"approval.{name} is {text}, but must be a number above zero")
