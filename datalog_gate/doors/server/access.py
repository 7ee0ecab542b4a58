"""Identity and permissions of callers, and the projects they see."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from datalog_gate.base.records import dataclass
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.doors.server.endpoint import ANYBODY, ApiError, Endpoint

LOG = logging.getLogger(__name__)
ALL_PROJECTS = "datalog_gate:all_projects"
PERSONAS = ("admin", "manager", "member", "reader")
Environ = dict[str, Any]
WSGI = Callable[..., Iterable[bytes]]


@dataclass(frozen=True)
class Client:
    """The caller, with credentials for oslo.policy, verified by Keystone or by the server's token."""

    credentials: Mapping[str, Any]
    entitlements: Entitlements
    domain_projects: Callable[[], frozenset[str]]
    """The ids of the projects in the caller's domain, for a token with domain scope."""

    @property
    def user(self) -> str:
        return self.credentials.get("user_id") or ""

    @property
    def project(self) -> str:
        """The project of the token; empty for domain or system scope."""
        return self.credentials.get("project_id") or ""

    def may(self, rule: str) -> bool:
        """Whether an oslo.policy rule allows it."""
        return self.entitlements.allows(rule, {"project_id": self.project}, self.credentials)

    @cached_property
    def projects(self) -> frozenset[str] | None:
        """The projects that the caller sees; None for all."""
        if self.may(ALL_PROJECTS):
            return None
        if self.credentials.get("domain_id"):
            return self.domain_projects()
        return frozenset({self.project} - {""})

    def narrow(self, project: str | None) -> frozenset[str] | None:
        """The projects that the caller sees, restricted to one if requested."""
        if project is None:
            return self.projects
        return frozenset({project}) if self.sees(project) else frozenset()

    def sees(self, project: str | None) -> bool:
        """Whether the caller sees objects of a project. Objects without a project need permission for all."""
        return self.projects is None or project in self.projects


def list_rules() -> list[Any]:
    """The rules of the server with their defaults, for the sample generator of oslo.policy."""
    from oslo_policy import policy

    from datalog_gate.doors.server.api_table import ENDPOINTS

    everything = policy.DocumentedRuleDefault(
        ALL_PROJECTS,
        "role:admin or system_scope:all",
        "See and change what belongs to any project. A token of the system may, as far as its roles go.",
        [{"path": "/v2/findings", "method": "GET"}],
        scope_types=["system", "project"],
    )
    return [everything, *map(_build_rule, ENDPOINTS)]


def _build_rule(endpoint: Endpoint) -> Any:
    from oslo_policy import policy

    return policy.DocumentedRuleDefault(
        endpoint.rule,
        endpoint.allowed,
        endpoint.summary,
        [{"path": endpoint.path, "method": endpoint.method}],
        scope_types=list(endpoint.scopes) if endpoint.allowed != ANYBODY else None,
    )


class TokenAuthentication:
    """Accepts requests with the server's token as a system administrator."""

    def __init__(self, application: WSGI, token: str) -> None:
        self._application, self._token = application, token.encode()

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        for name in [name for name in environ if name.startswith("HTTP_X_") and name != "HTTP_X_AUTH_TOKEN"]:
            if name.removeprefix("HTTP_X_") not in ("OPENSTACK_REQUEST_ID", "FORWARDED_FOR", "FORWARDED_PROTO"):
                del environ[name]  # only Keystone may set these headers
        given = environ.get("HTTP_X_AUTH_TOKEN") or environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
        if hmac.compare_digest(given.encode("latin-1", "replace"), self._token):
            roles = ",".join(PERSONAS)
            environ |= {"HTTP_X_USER_ID": "operator", "HTTP_X_ROLES": roles, "HTTP_OPENSTACK_SYSTEM_SCOPE": "all"}
            environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
        return self._application(environ, start_response)


class KeystoneAuthentication:
    """Keystone's middleware, with refusals in the server's format. Public paths pass without a token."""

    def __init__(
        self, application: WSGI, conf: Any, public: frozenset[str], format_error: Callable[..., Mapping[str, Any]]
    ) -> None:
        from keystonemiddleware import auth_token

        self._application, self._public, self._format_error = application, public, format_error
        self._middleware = auth_token.AuthProtocol(self._reached, {"oslo_config_config": conf})

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "").rstrip("/") in self._public:
            environ.pop("HTTP_X_IDENTITY_STATUS", None)
            return self._application(environ, start_response)
        answered: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            if environ.get("datalog_gate.reached"):
                return start_response(status, headers, *more)
            answered.append((status, headers))
            return None

        body: Iterable[bytes] = self._middleware(environ, start)
        if not answered:
            return body
        status, headers = answered[0]
        code = int(status.split()[0])
        message = "the token is missing, or not valid any more" if code == 401 else "Keystone can't be reached"
        content = json.dumps(self._format_error(environ, code, message)).encode()
        kept = [header for header in headers if header[0].lower() == "www-authenticate"]
        start_response(status, [*kept, ("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
        return [content]

    def _reached(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["datalog_gate.reached"] = True
        return self._application(environ, start_response)


def list_domain_projects(environ: Environ, conf: Any) -> frozenset[str]:
    """Ask Keystone for the projects in the domain of a token, as its user. Errors: ApiError."""
    from keystoneauth1.exceptions import ClientException
    from keystoneauth1.session import Session

    options = conf.keystone_authtoken
    session = Session(environ["keystone.token_auth"], verify=options.cafile or not options.insecure, timeout=10)
    wanted = {"service_type": "identity", "interface": options.interface, "version": "3"}
    domain = {"domain_id": environ["HTTP_X_DOMAIN_ID"]}
    try:
        answer = session.get("/projects", endpoint_filter=wanted, params=domain)
    except ClientException as error:
        LOG.error("the projects of a domain can't be listed (%s)", type(error).__name__)
        raise ApiError(503, "keystone", "Keystone does not list the projects of the domain now") from None
    return frozenset(str(project["id"]) for project in answer.json()["projects"])
