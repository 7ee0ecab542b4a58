"""A client of OpenStack Placement for services.

Settings of every service that holds things there:

    endpoint       its URL: alone for one without Keystone (auth_strategy noauth2), else in place of the catalogue's
    auth_type      a plugin of keystoneauth, password by default; the plugin's own options are settings too, such as
                   auth_url, username, user_domain_id, project_name, project_domain_id
    password_file  a file that holds the password; likewise for whatever else the plugin keeps secret, as it may stand
                   in no setting
    interface      internal by default
    region         the region in the catalogue
    cafile         the authorities to trust in place of those of certifi
    timeout        seconds to connect, and seconds between two bytes; 3 by default

Errors: UnavailableError for whatever is no answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote, urlencode

from datalog_gate.plugins.plugin_errors import UnavailableError
from datalog_gate.plugins.plugin_settings import UnknownSettingError, check_address, check_path, read_seconds

MICROVERSION = "1.38"
"""The first version with consumer types (Yoga)."""
NOVA_MICROVERSION, CINDER_MICROVERSION = "2.53", "3.50"
"""The versions of Pike: hypervisors have their provider's uuid, and both are older than Placement's."""
CONSUMER_TYPE = "DATALOG_GATE"
SERVER_CLASS = "MEMORY_MB"
"""The resource class that every server of Nova takes."""
RECENT, STALE = 5.0, 60.0
"""Seconds for which an answer is recent, and for which it is used if there is no newer one."""
KNOWN = 20_000
"""The number of servers whose project is cached."""
OWN = ("endpoint", "auth_type", "interface", "region", "cafile", "timeout")
WORDS = 300

Amounts = Counter[tuple[str, str]]
"""Whole units by provider and resource class."""


class FullError(Exception):
    """There is no room for an allocation, or its provider no longer has the resource."""


class ChangedError(Exception):
    """The allocation or its provider was changed concurrently, or the database had such a conflict."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider with its capacity and usage by resource class."""

    uuid: str
    name: str
    capacity: Mapping[str, int]
    used: Mapping[str, int]
    traits: frozenset[str]


class Api:
    """An API of the cloud: its name for messages, and its keystoneauth adapter."""

    def __init__(self, name: str, adapter: Any, errors: tuple[type[Exception], ...]) -> None:
        self.name, self.adapter, self._errors = name, adapter, errors
        self._recent: dict[str, tuple[float, Any]] = {}
        self._lock = Lock()

    def recent(self, path: str) -> Any:
        """The JSON at a path, a few seconds old, or a minute if there is no answer now. Concurrent decisions share an
        answer."""
        with self._lock:
            since, body = self._recent.get(path, (-STALE, None))
            age = time.monotonic() - since
            try:
                if age >= RECENT:
                    body = self.get(path)
                    self._recent[path] = time.monotonic(), body
            except UnavailableError:
                if age >= STALE:
                    raise
        return body

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        return self.ask("GET", path)[1]

    def ask(self, method: str, path: str, body: object = None, also: tuple[int, ...] = ()) -> tuple[int, Any]:
        """Status and body of a successful answer, or of one with a status in `also`."""
        try:
            answer = self.adapter.request(path, method, json=body, headers={"Accept": "application/json"})
            data = answer.json() if answer.content else {}
        except ValueError:
            raise UnavailableError(f"{self.name} answered {answer.status_code} without JSON") from None
        except self._errors as error:
            raise UnavailableError(f"{self.name} does not answer: {type(error).__name__}") from error
        if answer.status_code // 100 != 2 and answer.status_code not in also:
            raise UnavailableError(f"{self.name} answered {answer.status_code}: {_detail(data)}")
        return answer.status_code, data


class Placement:
    """The API of Placement. Errors: ValueError for settings, OSError for a file.

    `nova` and `cinder` are the APIs of these, with the same user; None for a Placement without Keystone.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        import requests
        from keystoneauth1 import exceptions, loading
        from keystoneauth1.adapter import Adapter
        from keystoneauth1.session import Session
        from keystoneauth1.token_endpoint import Token

        endpoint = check_address("endpoint", settings["endpoint"]) if settings.get("endpoint") else None
        auth_settings = {name: text for name, text in settings.items() if name not in OWN}
        alone = endpoint and not auth_settings and "auth_type" not in settings
        if alone:
            auth: Any = Token(endpoint, "admin")
        else:
            loader: Any = loading.get_plugin_loader(settings.get("auth_type", "password"))
            auth = loader.load_from_options(**_options(loader, auth_settings))
        plain = requests.Session()
        plain.trust_env = False
        timeout = read_seconds("timeout", settings.get("timeout", "3"))
        if (cafile := check_path(settings.get("cafile", ""))) and not Path(cafile).exists():
            raise ValueError(f"cafile: there is no {cafile}")
        session = Session(auth=auth, session=plain, timeout=timeout, verify=cafile or True, redirect=False)

        def api(name: str, service_type: str, microversion: str, endpoint: str | None = None) -> Api:
            adapter = Adapter(
                session,
                service_type=service_type,
                interface=settings.get("interface", "internal"),
                region_name=settings.get("region"),
                endpoint_override=endpoint,
                default_microversion=microversion,
                raise_exc=False,
            )
            return Api(name, adapter, (exceptions.ClientException, OSError))

        self._projects: dict[str, str] = {}
        self._api = api("Placement", "placement", MICROVERSION, endpoint)
        self.nova = None if alone else api("Nova", "compute", NOVA_MICROVERSION)
        self.cinder = None if alone else api("Cinder", "block-storage", CINDER_MICROVERSION)

    def providers(self, resource_class: str) -> dict[str, Provider]:
        """The providers with free units of a resource class, by uuid; none if the class does not exist."""
        query = urlencode({"resources": f"{resource_class}:1"})
        status, body = self._api.ask("GET", f"/allocation_candidates?{query}", also=(400,))
        if status == 400:
            if self._api.ask("GET", f"/resource_classes/{quote(resource_class)}", also=(404,))[0] == 404:
                return {}
            raise UnavailableError(f"Placement rejects a request: {_detail(body)}")
        summaries = {
            uuid: summary
            for uuid, summary in body["provider_summaries"].items()
            if resource_class in summary["resources"]
        }
        rows = self._api.get(f"/resource_providers?{query}")["resource_providers"]
        names = {row["uuid"]: row["name"] for row in rows}
        return {
            uuid: Provider(
                uuid,
                names[uuid],
                {name: amount["capacity"] for name, amount in summary["resources"].items()},
                {name: amount["used"] for name, amount in summary["resources"].items()},
                frozenset(summary["traits"]),
            )
            for uuid, summary in sorted(summaries.items())
            if uuid in names
        }

    def provider(self, uuid: str) -> Provider | None:
        """A provider that may be full; None if it does not exist any more."""
        path = f"/resource_providers/{quote(uuid, safe='')}"
        status, body = self._api.ask("GET", path, also=(404,))
        if status == 404:
            return None
        inventories = self._api.get(f"{path}/inventories")["inventories"]
        return Provider(
            uuid,
            body["name"],
            {
                name: int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])
                for name, inventory in inventories.items()
            },
            self._api.get(f"{path}/usages")["usages"],
            frozenset(self._api.get(f"{path}/traits")["traits"]),
        )

    def name(self, uuid: str) -> str:
        """The name of a provider."""
        return str(self._api.get(f"/resource_providers/{quote(uuid, safe='')}")["name"])

    def named(self, name: str) -> str | None:
        body = self._api.get(f"/resource_providers?{urlencode({'name': name})}")["resource_providers"]
        return str(body[0]["uuid"]) if body else None

    def members(self, aggregate: str) -> frozenset[str]:
        """The uuids of the providers in an aggregate."""
        body = self._api.get(f"/resource_providers?{urlencode({'member_of': aggregate})}")["resource_providers"]
        return frozenset(provider["uuid"] for provider in body)

    def allocation(self, consumer: str) -> tuple[Amounts, int | None]:
        """The allocation of a consumer, and its generation; None without one."""
        body = self._api.get(f"/allocations/{consumer}")
        held: Amounts = Counter()
        for uuid, allocation in body["allocations"].items():
            held.update({(uuid, name): amount for name, amount in allocation["resources"].items()})
        return held, body.get("consumer_generation")

    def servers(self, uuid: str) -> Counter[str]:
        """The number of Nova's servers on a provider by project."""
        allocations = self._api.get(f"/resource_providers/{uuid}/allocations")["allocations"]
        count: Counter[str] = Counter()
        for consumer, allocation in allocations.items():
            if SERVER_CLASS in allocation["resources"]:
                if len(self._projects) > KNOWN:
                    self._projects.clear()
                if consumer not in self._projects:  # which never changes
                    self._projects[consumer] = self._api.get(f"/allocations/{consumer}").get("project_id", "")
                count[self._projects[consumer]] += 1
        return count

    def allocate(self, consumer: str, project: str, amounts: Amounts, generation: int | None) -> None:
        """Set the allocation of a consumer with this generation to these amounts. Errors: FullError, ChangedError."""
        resources: dict[str, dict[str, dict[str, int]]] = {}
        for (uuid, name), amount in amounts.items():
            if amount:
                resources.setdefault(uuid, {"resources": {}})["resources"][name] = amount
        body = {
            "allocations": resources,
            "project_id": project,
            "user_id": "datalog_gate",
            "consumer_generation": generation,
            "consumer_type": CONSUMER_TYPE,
        }
        status, answer = self._api.ask("PUT", f"/allocations/{consumer}", body, also=(409, 500, 503))
        if status >= 500:
            raise ChangedError(f"it answered {status}: {_detail(answer)}")
        if status == 409:
            changed = any(error.get("code") == "placement.concurrent_update" for error in answer.get("errors", ()))
            raise (ChangedError if changed else FullError)(_detail(answer))


def _options(loader: Any, settings: Mapping[str, str]) -> dict[str, str]:
    """The options of a keystoneauth plugin, with its secrets from their files."""
    secret = {get_option.dest: get_option.secret for get_option in loader.get_options()}
    options = {}
    for name, text in settings.items():
        plain = name.removesuffix("_file")
        if secret.get(name) is False:
            options[name] = text
        elif name != plain and secret.get(plain):
            options[plain] = Path(check_path(text)).read_text().strip()
        elif secret.get(name):
            raise ValueError(f"{name} must not be written in a setting: use {name}_file")
        else:
            raise UnknownSettingError([name], [*secret, *OWN])
    return options


def _detail(body: object) -> str:
    match body:
        case {"errors": [{"detail": str(detail)}, *_]}:
            return " ".join(detail.split())[:WORDS]
    return "without a reason"
