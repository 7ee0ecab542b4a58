"""A client for Heat's API, with the openstack client's credentials.

It reads live stacks and the states of stacks. `services reconcile` releases claims by these answers, so they are None
unless Heat's answer proves the state. Heat's API shows the replaced resources of a failed update only by their physical
ids (convergence), or not at all (the backup stack of the legacy engine). So such a stack proves nothing. Heat shows a
deleted stack until it is purged.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.records import replace
from datalog_gate.base.secrecy import HEAT_MASK, masked
from datalog_gate.inventory.cloud_api import check_auth_url
from datalog_gate.inventory.heat_stack import json_object, read_heat_stack
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.services.contract import Outcome
from datalog_gate.services.journal_claim import Claim
from datalog_gate.services.reconcile import StackState
from datalog_gate.stack.model import Stack

TIMEOUT = 30
"""Seconds to wait for an answer."""
SECRETS = ("OS_PASSWORD", "OS_TOKEN", "OS_APPLICATION_CREDENTIAL_SECRET", "OS_PASSCODE", "OS_CLIENT_SECRET")
HELP = (
    "set OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME and OS_USER_DOMAIN_NAME, or the variables that "
    "OS_AUTH_TYPE needs; for a Heat without Keystone set OS_AUTH_TYPE=none and OS_ENDPOINT"
)

if TYPE_CHECKING:  # SQLAlchemy takes a while, and many commands ask Heat alone
    from datalog_gate.services.journal import Journal

LOG = logging.getLogger(__name__)
SETTLED = ("CREATE", "UPDATE", "ADOPT", "ROLLBACK", "RESTORE", "IMPORT")
"""Actions after which a complete stack has all its resources. A check or suspend may hide a failed update."""
DEPTH = 20
"""The maximum depth of nested stacks that are read."""
LAST_EVENT = "events?sort_dir=desc&limit=1"
OUTCOMES: dict[str, Outcome] = {"COMPLETE": "complete", "FAILED": "failed"}
STACK_EVENTS = "sort_dir=asc&resource_type=OS%3A%3AHeat%3A%3AStack"
EVENT_DELAY = 60.0
"""Seconds after which an accepted operation must appear in the events. Their times are whole seconds."""


class HeatClient:
    """A session with Heat. Errors: InputError, without secrets; UsageError if keystoneauth1 is not installed."""

    def __init__(self) -> None:
        try:
            from keystoneauth1 import exceptions, loading
            from keystoneauth1.adapter import Adapter
        except ImportError:
            raise UsageError("keystoneauth1 is missing: pip install 'datalog-gate[openstack]'") from None
        logging.getLogger("keystoneauth").addHandler(logging.NullHandler())  # errors are reported once, below
        self._errors = (exceptions.ClientException, OSError)
        options = argparse.ArgumentParser(add_help=False)
        check_auth_url(os.environ.get("OS_AUTH_URL", ""))
        try:
            kind = "token" if os.environ.get("OS_TOKEN") else "password"
            loading.register_auth_argparse_arguments(options, [], kind)
            loading.register_session_argparse_arguments(options)
            arguments = options.parse_args([])
            auth = loading.load_auth_from_argparse_arguments(arguments)
            session = loading.load_session_from_argparse_arguments(arguments, auth=auth, timeout=TIMEOUT)
            self._adapter = Adapter(
                session,
                service_type="orchestration",
                interface=os.environ.get("OS_INTERFACE"),
                region_name=os.environ.get("OS_REGION_NAME"),
            )
            if not self._adapter.get_endpoint():
                raise InputError.of(
                    "with these credentials there is no orchestration service in the catalogue", suggestion=HELP
                )
        except self._errors as error:
            raise InputError.of(
                f"Heat can't be reached with these credentials: {_format_error(error)}", suggestion=HELP
            ) from None

    def get(self, path: str) -> dict[str, Any]:
        """Get the JSON object under a path of the project. Errors: InputError."""
        resource = path.partition("?")[0].strip("/")
        try:
            return json_object(self._adapter.get(path, headers={"Accept": "application/json"}).json())
        except ValueError:
            raise InputError.of(f"Heat's answer for {resource} is not JSON") from None
        except self._errors as error:
            if getattr(error, "http_status", 0) == 404:
                raise InputError.of(f"Heat has no {resource}") from None
            raise InputError.of(f"Heat does not return {resource}: {_format_error(error)}") from None

    def ask(self, path: str, project: str = "") -> tuple[int, dict[str, Any]]:
        """Get the status and the JSON object under a path, of another project if one is given: its id replaces the
        caller's at the end of the endpoint. Errors: InputError without an answer."""
        answer = self._request("GET", path, project, headers={"Accept": "application/json"})
        try:
            return answer.status_code, json_object(answer.json() if answer.status_code == 200 else {})
        except ValueError:
            raise InputError.of(f"Heat's answer for {path.strip('/')} is not JSON") from None

    def post(self, path: str, body: Mapping[str, object]) -> tuple[int, Mapping[str, str]]:
        """Post a JSON object; return the status and headers of any answer. Errors: InputError."""
        answer = self._request("POST", path, json=body)
        return answer.status_code, answer.headers

    def delete(self, path: str) -> None:
        """Delete the object under a path, if it exists. Errors: InputError without an answer."""
        self._request("DELETE", path)

    def _request(self, method: str, path: str, project: str = "", **more: Any) -> Any:
        try:
            if project:
                below = str(self._adapter.get_endpoint()).rstrip("/").rpartition("/")[0]
                more["endpoint_override"] = f"{below}/{quote(project, safe='')}"
            return self._adapter.request(path, method, raise_exc=False, **more)
        except self._errors as error:
            raise InputError.of(f"Heat does not answer {path.strip('/')}: {_format_error(error)}") from None


def read_live(name: str, stack_name: str | None, catalogue: Catalogue) -> Stack:
    """Read a stack by its name or id. Masked values are unknown. Errors: InputError; UsageError as `Heat`. The root id
    of the stack is `stack_name`, or else its name in Heat."""
    heat = HeatClient()
    shown = json_object(heat.get(f"/stacks/{quote(name, safe='')}?resolve_outputs=False").get("stack"))
    shown_name, stack_id, status = (str(shown.get(key, "")) for key in ("stack_name", "id", "stack_status"))
    if status == "DELETE_COMPLETE":
        raise InputError.of(f"the stack {name} is deleted")
    definition, live = read_heat_stack(heat.get, shown_name, stack_id, stack_name or shown_name, status)
    stack = definition.stack(stack_name or shown_name, catalogue)
    if not any(nested.resources for nested in stack.walk()):
        raise InputError.of(f"the stack {name} leaves nothing to judge: it has no resource", "no-resources")
    return replace(stack, live=live, tags=tuple(map(str, shown.get("tags") or ())))


def _format_error(error: Exception) -> str:
    """Format an error as one line, without secrets or the user in a URL."""
    secrets = filter(None, map(os.environ.get, SECRETS))
    text = masked(" ".join(str(error).split()), secrets, HEAT_MASK)
    return printable(re.sub(r"//[^/@\s]*@", "//", text))


def find_outcome(heat: HeatClient, claim: Claim, now: float) -> Outcome | None:
    """Find the outcome of a claim's operation in the events of its stack. After a failed update only the events show
    it. It is "unknown" if another operation came in between, and None if it is not known yet."""
    stack = claim.stack
    try:
        status, answer = heat.ask(f"/stacks/{quote(stack, safe='')}/events?{STACK_EVENTS}", claim.project)
        if status != 200:
            LOG.warning("Heat answers %s for the events of stack %s: use an admin of all projects", status, stack)
            return None
        events = [
            (datetime.fromisoformat(event["event_time"]).timestamp(), *event["resource_status"].split("_", 1))
            for event in answer["events"]
            if event["physical_resource_id"] == stack
        ]
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        LOG.warning("the state of stack %s is not clear: %s", stack, error)
        return None
    return _outcome(events, claim, now)


def _outcome(events: list[tuple[float, str, str]], claim: Claim, now: float) -> Outcome | None:
    """The outcome by events of a time, an action and a status, in order. An earlier operation may have left events in
    the second in which this one was requested. An operation that was stopped has no start event."""
    expected = claim.action.upper()
    earliest = 0.0 if claim.action in ("create", "adopt") else int(claim.since)
    own = [index for index, (time, action, _) in enumerate(events) if action == expected and time >= earliest]
    if not own or (events[own[0]][0] == earliest and now - claim.since < EVENT_DELAY):
        return None
    starts = [index for index in own if events[index][2] == "IN_PROGRESS"]
    if len(starts) > 1:
        return "unknown"
    for _, action, state in events[(starts or own)[0] :]:
        if action == expected and state in OUTCOMES:
            return OUTCOMES[state]
        if action != expected and state == "IN_PROGRESS":
            return "failed" if action == "ROLLBACK" else "unknown"
    return None


class HeatStacks:
    """The `Stacks` of a Heat, for `services reconcile`.

    `host` is the name under which the engine on this host reports (the option `host` of heat.conf). A Heat without such
    an engine is another Heat, so a stack that it does not know may still exist.
    """

    def __init__(self, heat: HeatClient, journal: Journal, host: str) -> None:
        self._heat, self._journal, self._host = heat, journal, host
        self._own = False
        self.refused = False
        """Whether Heat refuses what an admin of all projects may see."""

    def __call__(self, stack: str) -> StackState | None:
        """The state of the stack with this id; None if Heat's answer proves nothing."""
        claims = self._journal.claims(stack)
        try:
            return self._read(stack, claims[0].project, [claim.uuid for claim in claims]) if claims else None
        except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
            LOG.warning("the state of stack %s is not clear: %s", stack, error)
            return None

    def members(self, stack: str) -> dict[str, str] | None:
        """The types of all resources of a stack, by physical id; None if Heat's answer proves nothing."""
        claims = self._journal.claims(stack)
        try:
            project = claims[0].project
            name = self._get(f"/stacks/{quote(stack, safe='')}?resolve_outputs=False", project)["stack"]["stack_name"]
            path = f"/stacks/{quote(name, safe='')}/{quote(stack, safe='')}/resources?nested_depth={DEPTH}"
            rows = self._get(path, project)["resources"]
            return {row["physical_resource_id"]: row["resource_type"] for row in rows if row["physical_resource_id"]}
        except (InputError, IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            LOG.warning("the resources of stack %s are not clear: %s", stack, error)
            return None

    def _read(self, stack: str, project: str, uuids: list[str]) -> StackState | None:
        status, answer = self._heat.ask(f"/stacks/{quote(stack, safe='')}?resolve_outputs=False", project)
        if status == 404:
            return StackState("absent") if self._is_own() else None
        if status != 200:
            self.refused = self.refused or status == 403
            LOG.warning("Heat answers %s for stack %s: use an admin of all projects", status, stack)
            return None
        shown = answer["stack"]
        if shown["id"] != stack:  # another stack has this id as its name
            return None
        action, _, state = shown["stack_status"].partition("_")
        path = f"/stacks/{quote(shown['stack_name'], safe='')}/{quote(stack, safe='')}"
        if (action, state) == ("DELETE", "COMPLETE"):
            return StackState("absent")
        if state == "IN_PROGRESS" or action == "INIT":
            events = self._get(f"{path}/{LAST_EVENT}", project)["events"]
            last = events[0]["event_time"] if events else shown["creation_time"]
            return StackState("in_progress", since=datetime.fromisoformat(last).timestamp())
        if state == "COMPLETE" and action in SETTLED:
            return StackState("complete", self._resources(path, project, uuids))
        if (action, state) == ("CREATE", "FAILED"):
            return StackState("failed", self._resources(path, project, uuids))
        return None

    def _resources(self, path: str, project: str, uuids: list[str]) -> frozenset[str]:
        """The physical ids of all resources. Heat lists only one of several with the same name."""
        ids = {resource["physical_resource_id"] for resource in self._get(f"{path}/resources", project)["resources"]}
        for uuid in uuids:
            if uuid not in ids:
                hidden = self._get(f"{path}/resources?physical_resource_id={quote(uuid, safe='')}", project)
                ids |= {resource["physical_resource_id"] for resource in hidden["resources"]}
        return frozenset(ids - {None, ""})

    def _get(self, path: str, project: str) -> dict[str, Any]:
        status, answer = self._heat.ask(path, project)
        if status != 200:
            raise ValueError(f"Heat answers {status} for {path}")
        return answer

    def _is_own(self) -> bool:
        """Whether the journal belongs to this Heat, according to the engines that an admin sees."""
        if not self._own:
            status, answer = self._heat.ask("/services")
            self.refused = self.refused or status == 403
            services = answer["services"] if status == 200 else []
            self._own = any(self._host in (service["host"], service["hostname"]) for service in services)
            if not self._own:
                LOG.warning("Heat shows no engine of host %s, so no stack counts as deleted", self._host)
        return self._own
