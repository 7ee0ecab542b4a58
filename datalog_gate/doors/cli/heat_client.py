"""A live stack (layer 6), read over Heat's API as its user would.

In: the name or id of a stack, and credentials in the environment as the openstack client takes them (``OS_*``). Out:
the `Stack`. Whatever goes wrong is one InputError, and none tells a secret.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from datalog_gate.base.diagnostics import Diagnostic, printable
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.values import ResourceId
from datalog_gate.decision_point.redaction import MASK
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Live, Stack

DEEPEST = 5
"""How deep stacks nest, unless a Heat is configured to let them (heat/common/config.py, max_nested_stack_depth)."""
SECONDS = 30
"""How long an answer may take."""
SECRET = ("OS_PASSWORD", "OS_TOKEN", "OS_APPLICATION_CREDENTIAL_SECRET", "OS_PASSCODE", "OS_CLIENT_SECRET")
HELP = (
    "set OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME and OS_USER_DOMAIN_NAME, or whatever OS_AUTH_TYPE "
    "takes; for a Heat without Keystone OS_AUTH_TYPE=none and OS_ENDPOINT"
)


class Heat:
    """Heat's API, once the credentials hold. Errors: InputError; UsageError where keystoneauth1 is not installed."""

    def __init__(self) -> None:
        try:
            from keystoneauth1 import exceptions, loading
            from keystoneauth1.adapter import Adapter
        except ImportError:
            raise UsageError("keystoneauth1 is missing: pip install 'datalog-gate[openstack]'") from None
        logging.getLogger("keystoneauth").addHandler(logging.NullHandler())  # what went wrong is said once, below
        self._errors = (exceptions.ClientException, OSError)
        self._not_found = exceptions.NotFound
        options = argparse.ArgumentParser(add_help=False)
        try:
            kind = "token" if os.environ.get("OS_TOKEN") else "password"
            loading.register_auth_argparse_arguments(options, [], kind)
            loading.register_session_argparse_arguments(options)
            chosen = options.parse_args([])
            auth = loading.load_auth_from_argparse_arguments(chosen)
            session = loading.load_session_from_argparse_arguments(chosen, auth=auth, timeout=SECONDS)
            self._adapter = Adapter(
                session,
                service_type="orchestration",
                interface=os.environ.get("OS_INTERFACE"),
                region_name=os.environ.get("OS_REGION_NAME"),
            )
            if not self._adapter.get_endpoint():
                raise _unreadable("the credentials lead to no orchestration service", HELP)
        except self._errors as error:
            raise _unreadable(f"Heat can't be reached with these credentials: {_said(error)}", HELP) from None

    def get(self, path: str) -> dict[str, Any]:
        """The object that Heat holds under a path below the project. Errors: InputError."""
        what = path.partition("?")[0].strip("/")
        try:
            return _object(self._adapter.get(path, headers={"Accept": "application/json"}).json())
        except self._not_found:
            raise _unreadable(f"Heat has no {what}") from None
        except ValueError:
            raise _unreadable(f"Heat does not give {what}: it is no JSON") from None
        except self._errors as error:
            raise _unreadable(f"Heat does not give {what}: {_said(error)}") from None

    def caller(self) -> dict[str, object]:
        """Whom the credentials name, as oslo.policy is told. Errors: InputError."""
        session = self._adapter.session
        try:
            auth: Any = session.auth
            if not hasattr(auth, "get_access"):
                raise _unreadable("the credentials name nobody", HELP)
            access = auth.get_access(session)
        except self._errors as error:
            raise _unreadable(f"Keystone does not say whom the credentials name: {_said(error)}", HELP) from None
        names = ("user_id", "project_id", "user_domain_id", "project_domain_id", "domain_id")
        return {**{name: getattr(access, name) for name in names}, "roles": list(access.role_names)}

    def ask(self, path: str, project: str = "") -> tuple[int, dict[str, Any]]:
        """The status and the object that Heat answers with, below another project if one is given, whose id takes the
        place of one's own at the end of the address. Errors: InputError for no such answer."""
        headers = {"Accept": "application/json"}
        try:
            below = str(self._adapter.get_endpoint()).rstrip("/").rpartition("/")[0]
            where = {"endpoint_override": f"{below}/{quote(project, safe='')}"} if project else {}
            answer = self._adapter.get(path, headers=headers, raise_exc=False, **where)
            return answer.status_code, _object(answer.json() if answer.status_code == 200 else {})
        except ValueError:
            raise _unreadable(f"Heat does not give {path.strip('/')}: it is no JSON") from None
        except self._errors as error:
            raise _unreadable(f"Heat does not answer {path.strip('/')}: {_said(error)}") from None

    def post(self, path: str, body: Mapping[str, object]) -> tuple[int, Mapping[str, str]]:
        """The status and the headers of the answer, whatever it is. Errors: InputError."""
        try:
            answer = self._adapter.post(path, json=body, raise_exc=False)
        except self._errors as error:
            raise _unreadable(f"Heat does not answer {path.strip('/')}: {_said(error)}") from None
        return answer.status_code, answer.headers


def read_live(name: str, stack_name: str | None, catalogue: Catalogue) -> Stack:
    """The stack of that name or id, as it is in Heat. Its root id is its name, unless another is given. Hidden values
    that Heat masks are unknown. Errors: InputError; UsageError as `Heat`."""
    heat = Heat()
    found = _object(heat.get(f"/stacks/{quote(name, safe='')}?resolve_outputs=False").get("stack"))
    called, ident, status = (str(found.get(key, "")) for key in ("stack_name", "id", "stack_status"))
    if status == "DELETE_COMPLETE":
        raise _unreadable(f"the stack {name} is deleted")
    path = f"/stacks/{quote(called, safe='')}/{quote(ident, safe='')}"
    template, environment, files = (heat.get(f"{path}/{part}") for part in ("template", "environment", "files"))
    listed = heat.get(f"{path}/resources?nested_depth={DEEPEST}").get("resources")
    masked = [
        (section, parameter)
        for section in ("parameters", "parameter_defaults")
        for parameter, value in _object(environment.get(section) or {}).items()
        if value == MASK
    ]
    for section, parameter in masked:
        del environment[section][parameter]
    if not all(isinstance(text, str) for text in files.values()):
        raise _unreadable(f"Heat holds files of the stack {name} that are no text")
    definition = StackDefinition(template, environment, files=files, masked=tuple(masked))
    stack = definition.stack(stack_name or called, catalogue)
    if not any(one.resources for one in stack.walk()):
        raise InputError([Diagnostic("no-resources", f"the stack {name} leaves nothing to judge: it has no resource")])
    return replace(stack, live=tuple(_live(_list(listed), ident, stack.id)))


def _live(listed: list[dict[str, Any]], root: str, name: str) -> Iterator[Live]:
    """The resources of the whole tree by their paths. A parent's name may occur twice, so that only links tell which
    stack a resource holds and which one holds it."""
    paths = {root: name}
    holders = {nested: one for one in listed for nested in _linked(one, "nested")}
    while ready := [nested for nested, one in holders.items() if set(_linked(one, "stack")) & paths.keys()]:
        for nested in ready:
            paths[nested] = _path(holders.pop(nested), paths)
    for one in listed:
        action, _, status = str(one.get("resource_status", "")).partition("_")
        physical = str(one.get("physical_resource_id") or "")
        yield Live(ResourceId(_path(one, paths)), action, status, physical)


def _path(one: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    holder = next((paths[stack] for stack in _linked(one, "stack") if stack in paths), None)
    if holder is None or not isinstance(one.get("resource_name"), str):
        raise _unreadable("Heat lists a resource that belongs to no stack")
    return f"{holder}/{one['resource_name']}"


def _linked(one: Mapping[str, Any], relation: str) -> Iterator[str]:
    """The ids of the stacks that a resource links to under that relation."""
    for link in _list(one.get("links")):
        if link.get("rel") == relation:
            yield str(link.get("href", "")).rstrip("/").rpartition("/")[2]


def _object(data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _unreadable("Heat answers with something else than its API says")
    return data


def _list(data: object) -> list[dict[str, Any]]:
    return [_object(one) for one in data] if isinstance(data, list) else [_object(data)]


def _said(error: Exception) -> str:
    """What an error says, on one line, without passwords and whoever stands before the @ of an address."""
    said = " ".join(str(error).split())
    for secret in _secrets(os.environ):
        said = said.replace(secret, MASK)
    return printable(re.sub(r"//[^/@\s]*@", "//", said))


def _secrets(environ: Mapping[str, str]) -> Iterable[str]:
    return sorted(filter(None, (environ.get(name) for name in SECRET)), key=len, reverse=True)


def _unreadable(message: str, suggestion: str | None = None) -> InputError:
    return InputError([Diagnostic("unreadable", message, None, suggestion)])
