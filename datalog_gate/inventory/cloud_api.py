"""Reads lists from the APIs of a cloud: paged, retried, rate-limited."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock
from typing import Any
from urllib.parse import quote, urlsplit

from datalog_gate.base.errors import InputError
from datalog_gate.base.secrecy import find_url_secrets
from datalog_gate.inventory.table_sources import ApiList, ApiService, ReadingError
from datalog_gate.plugins.plugin_errors import printable_line

PAGE = 1000
"""The number of items requested at a time. A service may be configured to return fewer."""
RETRIES = 4
RETRIED = [429, 500, 502, 503, 504]
"""The status codes after which a request is repeated."""
TIMEOUT = 60.0
"""Seconds to wait for an answer."""


class MissingError(ReadingError):
    """A list that this cloud does not have."""


class ForbiddenError(ReadingError):
    """A list that the credentials may not read."""


class PartialError(ReadingError):
    """A list of which only a part could be read."""


def check_auth_url(url: str) -> None:
    """Errors: InputError for a URL of Keystone with a password, since keystoneauth1 logs it."""
    if find_url_secrets(url):
        raise InputError.of("the URL of Keystone holds a password", suggestion="set OS_USERNAME and OS_PASSWORD")


class CloudApi:
    """The APIs of the cloud in `clouds.yaml` or ``OS_*``. Threads may share it.

    At most `rate` requests begin each second. `pause` is the number of seconds before the first retry; it doubles with
    each. Errors: InputError if the credentials are refused.
    """

    def __init__(self, name: str | None = None, rate: float | None = None, pause: float = 0.5) -> None:
        try:
            from keystoneauth1.exceptions import ClientException, EmptyCatalog, EndpointNotFound
            from openstack.config import OpenStackConfig
            from openstack.exceptions import ConfigException
        except ImportError as error:
            raise InputError.of(f"{error}: install datalog-gate[inventory]") from None

        self._errors, self._absent = ClientException, (EmptyCatalog, EndpointNotFound)
        self._rate, self._pause = rate, pause
        self._lock, self._next = Lock(), 0.0
        self._adapters: dict[str, Any] = {}
        try:
            self._config = OpenStackConfig().get_one(cloud=name)
            check_auth_url(str(self._config.config["auth"].get("auth_url", "")))
            self._config.config["api_timeout"] = self._config.config.get("api_timeout") or TIMEOUT
            self._session = self._config.get_session()
            self.project = str(self._session.get_project_id() or "")
            self.limit = self._find_limit()
            """Why lists may lack what there is of other projects, without any error; empty if nothing says so."""
        except (ClientException, ConfigException, OSError, ValueError) as error:
            message = f"the cloud can't be reached with these credentials: {printable_line(error)}"
            raise InputError.of(message, suggestion="set OS_*, or name an entry of clouds.yaml with --cloud") from None

    def pages(self, api: ApiList, path: str) -> Iterator[list[Any]]:
        """The items of a list, page by page. Errors: ReadingError; MissingError if the service lacks the list."""
        where, _, own = path.partition("?")
        own = f"{own}&" if own else ""
        query = f"{own}limit={PAGE}" if api.paging else own
        seen: set[str] = set()
        read = 0
        while query not in seen:
            seen.add(query)
            body = self.get(api.service, f"{where}?{query}".rstrip("?&"))
            items = _items(body, api)
            yield items
            read += len(items)
            if api.paging == "links":
                query = _next_query(body, api.key)
            elif api.paging == "marker" and items:
                query = f"{own}limit={PAGE}&marker={quote(str(items[-1].get('name', '')), safe='')}"
            elif api.paging == "offset" and items:
                query = f"{own}limit={PAGE}&offset={read}"
            else:
                return
            if not query:
                return
        raise ReadingError(f"{api.service.name} answers {api.path} with the same page again and again")

    def get(self, service: ApiService, path: str) -> Any:
        """The JSON under a path of the service. Errors: ReadingError."""
        self._wait()
        adapter = self._adapter(service)
        where = path.partition("?")[0]
        options: dict[str, Any] = {}
        try:
            if path.startswith("../"):
                options["endpoint_override"] = str(adapter.get_endpoint()).rstrip("/").rpartition("/")[0]
            answer = adapter.get(path.removeprefix(".."), raise_exc=False, **options)
        except self._absent:
            raise MissingError(f"the catalogue has no {service.type}") from None
        except self._errors as error:
            raise ReadingError(f"{service.name} does not answer {where}: {printable_line(error)}") from None
        if answer.status_code != 200:
            kind = {401: ForbiddenError, 403: ForbiddenError, 404: MissingError}.get(answer.status_code, ReadingError)
            raise kind(f"{service.name} answers {answer.status_code} for {where}")
        try:
            return answer.json()
        except ValueError:
            raise ReadingError(f"{service.name} does not answer {where} with JSON") from None

    def _find_limit(self) -> str:
        """Whether the user is not an admin: then Neutron, Cinder and Glance show only the user's project."""
        get_access = getattr(self._session.auth, "get_access", None)  # which few kinds of credentials lack
        roles = get_access(self._session).role_names if get_access else []
        if not roles or "admin" in map(str.lower, roles):
            return ""
        names = printable_line(", ".join(sorted(roles)))
        return f"the user has the roles {names}, but not admin: tables may only have the objects of one project"

    def _adapter(self, service: ApiService) -> Any:
        if service.type not in self._adapters:
            from keystoneauth1.adapter import Adapter

            self._adapters[service.type] = Adapter(
                self._session,
                service_type=service.type,
                interface=self._config.get_interface(service.type),
                region_name=self._config.get_region_name(service.type),
                endpoint_override=self._config.get_endpoint(service.type),
                version=service.version or None,
                default_microversion=service.microversion or None,
                additional_headers={"Accept": "application/json"},
                connect_retries=RETRIES,
                connect_retry_delay=self._pause,
                status_code_retries=RETRIES,
                status_code_retry_delay=self._pause,
                retriable_status_codes=RETRIED,
            )
        return self._adapters[service.type]

    def _wait(self) -> None:
        """Wait for the turn of this request."""
        if self._rate:
            with self._lock:
                begin = max(time.monotonic(), self._next)
                self._next = begin + 1 / self._rate
            time.sleep(max(0.0, begin - time.monotonic()))


def _items(body: Any, api: ApiList) -> list[Any]:
    items = body.get(api.key) if api.key and isinstance(body, dict) else body if not api.key else None
    if not api.key and isinstance(items, dict):
        return [items]
    if not isinstance(items, list):
        raise ReadingError(f"the answer of {api.service.name} for {api.path} has no list {api.key}")
    return items


def _next_query(body: Any, key: str) -> str:
    """The query of the link to the next page. Its host and path may be internal ones behind a proxy."""
    links = body.get("links")
    candidates = [body.get("next"), links.get("next") if isinstance(links, dict) else None]
    for several in (body.get(f"{key}_links"), links):
        if isinstance(several, list):
            candidates += [link.get("href") for link in several if isinstance(link, dict) and link.get("rel") == "next"]
    return next((urlsplit(link).query for link in candidates if isinstance(link, str)), "")
