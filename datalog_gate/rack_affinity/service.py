"""The service `rack_affinity` (layer 5): servers and volumes together in a rack, or spread over several.

Options of a grant: `same: rack`, `host` or `zone`, all that are in scope; `spread: {level: rack, at_least: 3}`, those
in scope over at least so many. All grants of a stack are decided on as a whole by the first that comes, and the others
take their share. A template reads by the name of a server or a volume, with dots for those within a resource in scope:

    {get_attr: [GRANT, decision, db, availability_zone]}     null where there are no zones
    {get_attr: [GRANT, decision, group.0, rack]}             also: host, aggregates, scheduler_hints

The scheduler still chooses the host: that there is one, with room that nobody else was promised, is what is claimed.
Claims are of resource classes of their own, since Nova claims its own when it makes the server, and would find no room
beside ours: CUSTOM_GATE_VCPU for VCPU and so on. The operator sets their inventories, in Nova's provider configuration
files or on providers made for it; what `places` and `asked` say tells what is needed of them.

Settings, besides those of `placement.Placement`:

    file      where it writes down what it holds: one for all processes of the host
    places    a file of racks and zones, see `places`; by default traits tell
    flavors   a file of what flavors take, see `asked`; by default each server takes one VCPU
    prefix    of the resource classes, CUSTOM_GATE_ by default
    hint      the scheduler hint that gets the rack, rack by default; without a name there is none
    seconds   that a decision may take, 6 by default: less than service_call_seconds
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from datalog_gate.plugins.errors import RefusedError, UnavailableError
from datalog_gate.plugins.settings import check_prefix, read_seconds
from datalog_gate.rack_affinity import process
from datalog_gate.rack_affinity.demand import Demand, read_demand, read_flavors
from datalog_gate.rack_affinity.places import Places, Where, read_places
from datalog_gate.rack_affinity.problem import Impossible, Item, Placed, Problem, to_json
from datalog_gate.services.claims import Account, Claims, PlacementClaim
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.services.placement import Placement

OWN = ("file", "places", "flavors", "prefix", "hint", "seconds")


class RackAffinity(Service):
    """Placement of whole stacks. Errors: ValueError for settings, OSError for a file."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        if not process.installed():
            raise ValueError("OR-Tools is not installed: pip install 'datalog-gate[placement]'")
        self._places, self._flavors = settings.get("places", ""), settings.get("flavors", "")
        self._prefix = check_prefix(settings.get("prefix", "CUSTOM_GATE_"))
        self._hint = settings.get("hint", "rack")
        self._seconds = read_seconds("seconds", settings.get("seconds", "6"))
        read_places(self._places)
        read_flavors(self._flavors)
        placement = Placement({name: text for name, text in settings.items() if name not in OWN})
        self._claims = Claims(settings.get("file", ""), placement)

    def facts(self, request: Request) -> None:
        """As `Service.facts`; what is impossible the first of the grants that have nothing yet refuses for all."""
        mine, others = self._asked(request)
        account = self._claims.account(request)
        if mine.sure and account.decided(request.key, mend=False) is None:
            held = self._held(request)
            waiting = [one.grant for one in request.together if one.grant in others and one.key not in held]
            if request.grant == min([request.grant, *waiting]):
                self._decide(request, account, mine, others, held)

    def reserve(self, request: Request) -> Decision:
        """As `Service.reserve`."""
        mine, others = self._asked(request)
        if not mine.sure:
            raise RefusedError(
                "not all that this grant asks for is known: its options, or how many members a group has"
            )
        with self._claims.account(request).locked() as account:
            if (before := account.decided(request.key)) is not None:
                return before
            shares = [claim for claim in account.claims if claim.state == "shared"]
            what = _fingerprint(mine)
            for share in shares:
                if share.grant == request.grant and share.asked == what:
                    own = replace(share, key=request.key, state="held", owner="", asked="")
                    account.take(share, own)
                    return own.decision
            claims = self._decide(request, account, mine, others, self._held(request))
            account.hold(claims, [share.key for share in shares])
        return claims[0].decision

    def release(self, held: Held) -> None:
        """As `Service.release`."""
        self._claims.release(held)

    def status(self, held: Held) -> Status:
        """As `Service.status`."""
        return self._claims.status(held)

    def _asked(self, request: Request) -> tuple[Demand, dict[str, Demand]]:
        """What a request asks, and by their paths the others: without those that are wrong or not known, which will be
        told so themselves. Errors: RefusedError, and UnavailableError."""
        try:
            flavors = read_flavors(self._flavors)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"flavors can't be read: {error}") from error
        others = {}
        for one in request.together:
            try:
                others[one.grant] = read_demand(one, flavors)
            except RefusedError:
                continue
        return read_demand(request, flavors), {path: one for path, one in others.items() if one.sure}

    def _held(self, request: Request) -> dict[str, PlacementClaim]:
        """The claims of the other grants that hold what they ask for, by key."""
        keys = {one.key for one in request.together}
        return {claim.key: claim for claim in self._claims.select("state = 'held' AND project = ?", request.project)
                if claim.key in keys}  # fmt: skip

    def _decide(
        self,
        request: Request,
        account: Account,
        mine: Demand,
        others: Mapping[str, Demand],
        held: Mapping[str, PlacementClaim],
    ) -> list[PlacementClaim]:
        """The claim of a request, and shares for the others that hold nothing. Errors: RefusedError."""
        waiting = [one for one in request.together if one.grant in others and one.key not in held]
        new = [mine, *(others[request.grant] for request in waiting)]
        lines = {mine.grant: account.line(request)}
        claims = account.claims
        by_grant = {claim.grant: claim.line for claim in claims}  # nobody has said yet what the others replace
        lines |= {request.grant: by_grant.get(request.grant, account.line(request)) for request in waiting}
        places = self._there({uuid for claim in claims for taken in claim.items.values() for uuid, _, _ in taken})
        before = {
            name: taken
            for claim in claims
            if claim.line in lines.values()
            for name, taken in claim.items.items()
            if taken
        }
        items = {item.id: item for one in new for item in one.items}
        constraints = [constraint for one in new for constraint in one.constraints]
        for one in request.together:  # what is held stays, and takes nothing more
            if (claim := held.get(one.key)) and one.grant in others and claim.items.keys() & items.keys():
                constraints += others[one.grant].constraints
                for item in others[one.grant].items:
                    stays = _stays(item, claim.items.get(item.id, []), places)
                    items[item.id] = replace(stays, demand={}) if stays.place else item
        free = account.free(
            places.providers, {*lines.values(), *(claim.line for claim in claims if claim.state == "shared")}
        )
        problem = Problem(tuple(places.places(free)), tuple(items.values()), tuple(constraints))
        kept = [item if item.place else _stays(item, self._same(item, before), places) for item in problem.items]
        answer = self._solved(problem, replace(problem, items=tuple(kept)))
        found = {item.id: places.uuids[item.kind, answer.places[item.id]] for item in problem.items}
        return [
            PlacementClaim(
                key=request.key if one is mine else f"{request.key} {one.grant}",
                consumer=account.consumer,
                line=lines[one.grant],
                project=request.project,
                grant=one.grant,
                items={item.id: self._takes(item, found[item.id]) for item in one.items},
                decision=self._decision(one, {id_: places.where[uuid] for id_, uuid in found.items()}),
                state="held" if one is mine else "shared",
                owner="" if one is mine else request.key,
                asked="" if one is mine else _fingerprint(one),
            )
            for one in new
        ]

    def _there(self, known: set[str]) -> Places:
        try:
            rows = read_places(self._places)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"places can't be read: {error}") from error
        return Places(self._claims.placement, rows, self._prefix, known)

    def _solved(self, problem: Problem, kept: Problem) -> Placed:
        """Where all is: what was there before stays if it can. Errors: RefusedError, or UnavailableError."""
        end = time.monotonic() + self._seconds
        for one in [kept, problem] if kept != problem else [problem]:
            try:
                left = end - time.monotonic()
                if left <= 0:
                    raise process.LateError
                answer = process.solve(one, left)
            except process.LateError as error:
                raise RefusedError(f"no placement was found in {self._seconds:g} seconds") from error
            except process.SolverError as error:
                raise UnavailableError(str(error)) from error
            if isinstance(answer, Placed):
                return answer
        assert isinstance(answer, Impossible)
        why = "these can't all be had" if answer.irreducible else "not all of these can be had"
        raise RefusedError(f"{why}: {'; '.join(reason.text for reason in answer.conflict)}")

    def _same(self, item: Item, before: Mapping[str, list[tuple[str, str, int]]]) -> list[tuple[str, str, int]]:
        """What the item takes already, if it needs the same."""
        taken = before.get(item.id, [])
        same = sorted(map(tuple, taken)) == sorted(self._takes(item, taken[0][0])) if taken else False
        return taken if same else []

    def _takes(self, item: Item, uuid: str) -> list[tuple[str, str, int]]:
        return [(uuid, self._prefix + name, units) for name, units in sorted(item.demand.items()) if units]

    def _decision(self, of: Demand, where: Mapping[str, Where]) -> dict[str, Any]:
        """By the address of each item as a scope would have it."""
        decision: dict[str, Any] = {}
        home = f"{of.grant.rpartition('/')[0]}/"
        for item in of.items:
            one = where[item.id]
            decision[item.id.removeprefix(home).replace("/", ".")] = {
                "availability_zone": one.zone or None,
                "rack": one.rack,
                "host": one.provider.name,
                "aggregates": list(one.aggregates),
                "scheduler_hints": {self._hint: one.rack} if self._hint else {},
            }
        return decision


def _stays(item: Item, taken: list[tuple[str, str, int]], places: Places) -> Item:
    """The item, where it is, if that is a place still."""
    where = places.where.get(taken[0][0]) if taken else None
    return replace(item, place=where.provider.name) if where else item


def _fingerprint(one: Demand) -> str:
    return to_json(Problem((), one.items, one.constraints))
