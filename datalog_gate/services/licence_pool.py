"""The service `licence`, which counts licences in OpenStack Placement.

The licence `acme_db` is the class CUSTOM_LICENSE_ACME_DB; the totals of its inventories are the seats that there are.

Settings, besides those of `placement.Placement`:

    store       the store of the gate, which gives it
    providers   names of the resource providers that have the seats, comma-separated; by default any that has some left
    prefix      of the resource classes, CUSTOM_LICENSE_ by default
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.plugins.plugin_settings import check_prefix
from datalog_gate.services.claims import Account, PlacementClaim, PlacementService
from datalog_gate.services.contract import Decision, Request, names
from datalog_gate.services.placement import Provider

OWN = ("providers", "prefix")
NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
MOST = 10**6


class LicencePool(PlacementService):
    """Counted licences. Errors: ValueError for settings, OSError for a file."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._providers = [name for text in settings.get("providers", "").split(",") if (name := text.strip())]
        self._prefix = check_prefix(settings.get("prefix", "CUSTOM_LICENSE_"))
        super().__init__(settings, OWN)

    def facts(self, request: Request) -> None:
        if any(isinstance(option, Unknown) for option in request.options.values()):
            return
        name, seats = _read_options(request)
        account = self._claims.account(request)
        if seats is not None and account.decided(request.key, mend=False) is None:
            self._seats(request, account, name, seats)

    def reserve(self, request: Request) -> Decision:
        name, seats = _read_options(request)
        if seats is None:
            raise RefusedError("the number of resources of the grant is not known: give the option seats")
        with self._claims.account(request).locked() as account:
            if (before := account.decided(request.key)) is not None:
                return before
            line = account.line(request)
            items = {f"{line} {self._class(name)}": self._seats(request, account, name, seats)}
            decision = {resource: {"licence": name, "seats": seats} for resource in names(request)}
            claim = PlacementClaim(
                key=request.key,
                consumer=account.consumer,
                line=line,
                project=request.project,
                grant=request.grant,
                items=items,
                decision=decision,
            )
            account.hold([claim])
        return decision

    def _seats(self, request: Request, account: Account, name: str, seats: int) -> list[tuple[str, str, int]]:
        """The providers to take seats from; those that the grant's line already uses come first. Errors:
        RefusedError."""
        resource_class, line = self._class(name), account.line(request)
        claims = self._claims.select(naming=resource_class)
        mine = {uuid for claim in claims if claim.line == line for uuid in _places(claim, resource_class)}
        held = {uuid for claim in claims for uuid in _places(claim, resource_class)}
        providers = self._find_providers(resource_class, held)
        free = account.free(providers, [line])
        left = sum(max(0, free[provider.uuid, resource_class]) for provider in providers)
        if left < seats:
            total = sum(provider.capacity.get(resource_class, 0) for provider in providers)
            if not total:
                raise RefusedError(f"there are no seats of the licence {name}, and {_many(seats)}")
            raise RefusedError(f"the licence {name} has {left} of {total} seats left, and {_many(seats)}")
        taken = []
        for provider in sorted(providers, key=lambda provider: (provider.uuid not in mine, provider.name)):
            if take := min(seats, max(0, free[provider.uuid, resource_class])):
                taken.append((provider.uuid, resource_class, take))
                seats -= take
        return taken

    def _find_providers(self, resource_class: str, held: set[str]) -> list[Provider]:
        """The providers with seats. If any may be used, those with some left and those where some are held."""
        placement = self._claims.placement
        if not self._providers:
            providers = placement.providers(resource_class)
            more = [provider for uuid in sorted(held - providers.keys()) if (provider := placement.provider(uuid))]
            return [*providers.values(), *more]
        uuids = [uuid for name in self._providers if (uuid := placement.named(name))]
        return [provider for uuid in dict.fromkeys(uuids) if (provider := placement.provider(uuid))]

    def _class(self, name: str) -> str:
        return self._prefix + re.sub(r"[^A-Z0-9]", "_", name.upper())


def _read_options(request: Request) -> tuple[str, int | None]:
    """The name of the licence and the seats; None if the resources can't be counted yet. Errors: RefusedError."""
    options = request.options
    if unknown := sorted(options.keys() - {"name", "seats"}):
        raise RefusedError(f"there is no option {', '.join(unknown)}, only name and seats")
    name, seats = options.get("name"), options.get("seats")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RefusedError("the option name must be that of a licence, of letters, digits, and _ - .")
    if seats is not None:
        if type(seats) is not int or not 0 < seats <= MOST:
            raise RefusedError(f"the option seats must be a whole number from 1 to {MOST}")
        return name, seats
    holders = {ResourceId(part.id).stack for part in request.scope}
    if any(part.open for part in request.scope):
        return name, None
    parts = [part for part in request.scope if part.id not in holders]
    # a group without members counts as none
    return name, sum(not (part.type.startswith("OS::Heat::") and part.type.endswith("Group")) for part in parts)


def _places(claim: PlacementClaim, resource_class: str) -> list[str]:
    return [uuid for taken in claim.items.values() for uuid, name, _ in taken if name == resource_class]


def _many(seats: int) -> str:
    return f"{seats} {'is' if seats == 1 else 'are'} asked for"
