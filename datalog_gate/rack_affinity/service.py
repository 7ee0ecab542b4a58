"""The service `rack_affinity`, for the affinity of servers and volumes to racks.

The first grant of a stack that comes decides for all grants of the stack, and the others take their shares.
docs/grants.md shows the options of a grant and what a template reads.

What is decided is where it goes only if something steers: either each rack is a zone of its own, or the schedulers of
Nova and Cinder have the gate's filters, which read the hints of a decision (`doors.schedulers`). Claims are of resource
classes of its own, such as CUSTOM_GATE_VCPU for VCPU: Nova claims its own when it makes the
server, and would find no room beside these. The operator sets their inventories in Nova's provider configuration files,
or on providers made for them; see `places` and `demand` for what is read of them.

Settings, besides those of `placement.Placement`:

    store     the store of the gate, which gives it
    places    a file of racks and zones, see `places`; by default traits tell
    flavors   a file of what flavors take, see `demand.read_flavors`; by default each server takes one VCPU
    prefix    of the resource classes, CUSTOM_GATE_ by default
    hint      the scheduler hint that gets the rack, rack by default; without a name there is none
    steering  what leads servers and volumes to where they were decided: `zone`, the default, or `hint` for the filters
    seconds   that a decision may take, 6 by default: less than service_call_seconds
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, NamedTuple

from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import ResourceId
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.plugins.plugin_settings import check_prefix, read_seconds
from datalog_gate.rack_affinity import hints, solver
from datalog_gate.rack_affinity.availability import find_promises
from datalog_gate.rack_affinity.demand import KINDS, VOLUMES, read_demand, read_flavors
from datalog_gate.rack_affinity.places import PlaceRequest, find_places, read_places
from datalog_gate.rack_affinity.problem import (
    Constraint,
    Impossible,
    Item,
    Kind,
    LateError,
    Level,
    Place,
    Problem,
    SolverError,
)
from datalog_gate.services.claims import HELD, Account, PlacementClaim, PlacementService, Taken
from datalog_gate.services.contract import Decision, Held, Request, digest
from datalog_gate.services.placement import SERVER_CLASS

OWN = ("places", "flavors", "prefix", "hint", "steering", "seconds")
STEERING = ("zone", "hint")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacementQuestion:
    """What a decision for a request has to consider."""

    request: Request
    account: Account
    demands: Mapping[str, Problem]
    """Those of its grant, and of the others without claims, by grant."""
    others: Mapping[str, Problem]
    """Those of all other grants."""
    held: Mapping[str, PlacementClaim]
    """The claims of other grants, by key."""
    claims: Sequence[PlacementClaim]
    """The claims of the account."""
    every: Sequence[PlacementClaim]
    """The claims of all accounts."""
    lines: Mapping[str, str]
    """The line of each demand, by grant."""
    rows: Collection[Mapping[str, str]]
    """The racks and zones in the file."""

    @property
    def replaced(self) -> set[str]:
        """The lines whose claims the decision replaces."""
        return {*self.lines.values(), *(claim.line for claim in self.claims if claim.state == "shared")}

    @property
    def before(self) -> dict[str, list[Taken]]:
        """What the items have taken until now."""
        mine = [claim.items for claim in self.claims if claim.line in self.lines.values()]
        return {id_: taken for items in mine for id_, taken in items.items() if taken}


class _Placing(NamedTuple):
    """The answer to a question, over the places that there are, by uuid of their provider."""

    places: Mapping[str, Place]
    problem: Problem
    answer: dict[str, str] | Impossible
    notes: str


class RackAffinity(PlacementService):
    """Placement of whole stacks. Errors: ValueError for settings, OSError for a file."""

    places = True

    def __init__(self, settings: Mapping[str, str]) -> None:
        if not solver.installed():
            raise ValueError("OR-Tools is not installed: pip install 'datalog-gate[placement]'")
        self._places, self._flavors = settings.get("places", ""), settings.get("flavors", "")
        self._prefix = check_prefix(settings.get("prefix", "CUSTOM_GATE_"))
        self._hint = settings.get("hint", "rack")
        self._steering = settings.get("steering", STEERING[0])
        if self._steering not in STEERING:
            raise ValueError(f"steering must be {' or '.join(STEERING)}")
        self._seconds = read_seconds("seconds", settings.get("seconds", "6"))
        read_places(self._places)
        read_flavors(self._flavors)
        super().__init__(settings, OWN)

    def facts(self, request: Request) -> None:
        """As `Service.facts`. The first grant without a claim refuses what is impossible for all."""
        own, others = self._demands(request)
        account = self._claims.account(request)
        if own and account.decided(request.key, mend=False) is None:
            question = self._read_question(request, account, own, others)
            if request.grant == min(question.demands):
                self._decide(question)

    def reserve(self, request: Request) -> Decision:
        own, others = self._demands(request)
        if own is None:
            raise RefusedError(
                "not everything that this grant asks for is known: its options, or the number of members of a group"
            )
        with self._claims.account(request).locked() as account:
            if (decision := account.decided(request.key)) is not None:
                return decision
            shares = [claim for claim in account.claims if claim.state == "shared"]
            fingerprint = _fingerprint(own)
            for share in shares:
                if share.grant == request.grant and share.asked == fingerprint:
                    account.take(share, replace(share, key=request.key, state="held", owner="", asked=""))
                    return share.decision
            claims = self._decide(self._read_question(request, account, own, others))
            account.hold(claims, [share.key for share in shares])
        return claims[0].decision

    def misplaced(self, held: Held, members: Mapping[str, str]) -> list[str]:
        """As `Service.misplaced`. The place of a server is its provider in Placement, that of a volume is known by
        Cinder. A stack may have others besides the granted ones."""
        claim = next((claim for claim in self._claims.select(key=held.key) if claim.state in HELD), None)
        pool = {self._prefix + VOLUMES}
        decided: Counter[tuple[Kind, str]] = Counter()
        for taken in claim.items.values() if claim else ():
            if names := {name for _, name, _ in taken}:
                decided["volume" if names == pool else "server", taken[0][0]] += 1
        kinds = {kind for kind, _ in decided}
        actual = Counter(
            (kind, uuid)
            for id_, type_ in sorted(members.items())
            if (kind := KINDS.get(type_)) in kinds and kind and (uuid := self._find_provider(kind, id_))
        )
        name = self._claims.placement.name
        texts = []
        for (kind, uuid), number in sorted((decided - actual).items()):
            others = sorted(name(other) for of_kind, other in actual - decided if of_kind == kind)
            text = f"{number} {kind} of those granted on {name(uuid)} {'is' if number == 1 else 'are'} not there"
            texts.append(f"{text}, and the stack has others on {', '.join(others)}" if others else text)
        return texts

    def _find_provider(self, kind: Kind, id_: str) -> str | None:
        """The uuid of the provider of a server or volume."""
        placement = self._claims.placement
        if kind == "server":
            return next((uuid for uuid, name in placement.allocation(id_)[0] if name == SERVER_CLASS), None)
        if placement.cinder is None:
            return None
        host = placement.cinder.get(f"/volumes/{id_}")["volume"].get("os-vol-host-attr:host") or ""
        return placement.named(host) or placement.named(host.partition("#")[0])

    def _demands(self, request: Request) -> tuple[Problem | None, dict[str, Problem]]:
        """The demand of a request, and those of the other grants by path. Invalid or unknown demands of others are left
        out: they are refused when requested. Errors: RefusedError, UnavailableError."""
        try:
            flavors = read_flavors(self._flavors)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"flavors can't be read: {error}") from error
        others = {}
        for other in request.together:
            try:
                demand = read_demand(other, flavors)
            except RefusedError:
                continue
            if demand:
                others[other.grant] = demand
        return read_demand(request, flavors), others

    def _decide(self, question: _PlacementQuestion) -> list[PlacementClaim]:
        """The claim of a request, and shares for the other grants without claims. Errors: RefusedError."""
        request, consumer = question.request, question.account.consumer
        known, full = _providers(question.claims, self._prefix), _providers(question.every, self._prefix)
        placing = self._place(question, known)
        if isinstance(placing.answer, Impossible) and full - known:  # to name the full ones
            placing = self._place(question, full)
        placed = placing.answer
        if isinstance(placed, Impossible):
            why = "these are not possible together" if placed.irreducible else "not all of these are possible"
            raise RefusedError(f"{why}: {'; '.join(placed.conflict)}{placing.notes}")
        by_name = {(place.kind, place.name): uuid for uuid, place in placing.places.items()}
        uuids = {item.id: by_name[item.kind, placed[item.id]] for item in placing.problem.items}
        claims = []
        for grant, demand in question.demands.items():
            places = {item.id: placing.places[uuids[item.id]] for item in demand.items}
            claim = PlacementClaim(
                key=request.key,
                consumer=consumer,
                line=question.lines[grant],
                project=request.project,
                grant=grant,
                items={item.id: self._takes(item, uuids[item.id]) for item in demand.items},
                decision=self._decision(grant, places, consumer),
            )
            if grant != request.grant:
                key, asked = digest(request.key, grant), _fingerprint(demand)
                claim = replace(claim, key=key, state="shared", owner=request.key, asked=asked)
            claims.append(claim)
        return claims

    def _read_question(
        self, request: Request, account: Account, own: Problem, others: Mapping[str, Problem]
    ) -> _PlacementQuestion:
        keys = {other.key for other in request.together}
        of_project = self._claims.select(project=request.project)
        held = {claim.key: claim for claim in of_project if claim.key in keys and claim.state in HELD}
        waiting = [other for other in request.together if other.grant in others and other.key not in held]
        claims = account.claims
        line_of_grant = {claim.grant: claim.line for claim in claims}  # what the others replace is not known yet
        lines = {request.grant: account.line(request)}
        for other in waiting:
            lines[other.grant] = line_of_grant.get(other.grant, account.line(other))
        try:
            rows = read_places(self._places)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"places can't be read: {error}") from error
        return _PlacementQuestion(
            request=request,
            account=account,
            demands={request.grant: own} | {other.grant: others[other.grant] for other in waiting},
            others=others,
            held=held,
            claims=claims,
            every=self._claims.live(),
            lines=lines,
            rows=rows,
        )

    def _place(self, question: _PlacementQuestion, known: Collection[str]) -> _Placing:
        """Place the items, with all providers with free capacity, and these that may have none."""
        replaced = question.replaced
        asked = PlaceRequest(
            rows=question.rows,
            prefix=self._prefix,
            known=known,
            promises=find_promises(question.every, question.account.consumer, replaced, self._prefix),
            needed=sum_demands(question.demands.values()),
        )
        search = find_places(
            self._claims.placement, asked, lambda providers: question.account.free(providers, replaced)
        )
        places, before = search.by_uuid, question.before
        items, constraints = _join_demands(question, places)
        problem = Problem(tuple(places.values()), items, constraints)
        self._check_steering(problem)
        kept = tuple(item if item.place else self._keep(item, before.get(item.id), places) for item in items)
        answer = self._solve(problem, replace(problem, items=kept))
        return _Placing(places, problem, answer, "; ".join(("", *search.notes)))

    def _check_steering(self, problem: Problem) -> None:
        """Check that zones lead to racks and hosts, if nothing else does. Errors: RefusedError."""
        if self._steering == "hint":
            return
        kinds = {item.id: item.kind for item in problem.items}
        for constraint in problem.constraints:
            for kind in sorted({kinds[id_] for id_ in constraint.items}):
                for where in find_shared(problem.places, kind, constraint.level):
                    raise RefusedError(unsteered(kind, *where))

    def _solve(self, problem: Problem, kept: Problem) -> dict[str, str] | Impossible:
        """Solve a problem, if possible without moving items from `kept`. Errors: RefusedError, UnavailableError."""
        end = time.monotonic() + self._seconds
        for candidate in [kept, problem] if kept != problem else [problem]:
            try:
                left = end - time.monotonic()
                if left <= 0:
                    raise LateError
                answer = solver.solve(candidate, left)
            except LateError as error:
                raise RefusedError(f"no placement was found in {self._seconds:g} seconds") from error
            except SolverError as error:
                raise UnavailableError(str(error)) from error
            if isinstance(answer, dict):
                return answer
        return answer

    def _keep(self, item: Item, taken: list[Taken] | None, places: Mapping[str, Place]) -> Item:
        """The item pinned to its place, if its demand is unchanged or if moving would replace it."""
        same = taken and sorted(map(tuple, taken)) == sorted(self._takes(item, taken[0][0]))
        return _pin(item, taken, places) if taken and (same or self._steering == "hint") else item

    def _takes(self, item: Item, uuid: str) -> list[Taken]:
        return [(uuid, self._prefix + name, units) for name, units in sorted(item.demand.items()) if units]

    def _decision(self, grant: str, places: Mapping[str, Place], consumer: str) -> dict[str, Any]:
        """The attributes of items at these places, by their dotted path in the grant's stack."""
        home = f"{ResourceId(grant).stack}/"
        return {
            id_.removeprefix(home).replace("/", "."): {
                "availability_zone": place.zone or None,
                "rack": place.rack,
                "host": place.name,
                "aggregates": list(place.aggregates),
                "scheduler_hints": self._hints(place, consumer),
            }
            for id_, place in places.items()
        }

    def _hints(self, place: Place, consumer: str) -> dict[str, str]:
        """The hints for a place. Hints for the filters change with the host, which replaces a server, so they are left
        out without filters."""
        proof = {hints.CLAIM: consumer, hints.HOST: place.name} if self._steering == "hint" else {}
        return ({self._hint: place.rack} if self._hint else {}) | proof


def _join_demands(
    question: _PlacementQuestion, places: Mapping[str, Place]
) -> tuple[tuple[Item, ...], tuple[Constraint, ...]]:
    """Items and constraints of all demands. Items of other grants' claims stay where they are, and take no additional
    capacity."""
    others, held = question.others, question.held
    items = {item.id: item for demand in question.demands.values() for item in demand.items}
    constraints = [constraint for demand in question.demands.values() for constraint in demand.constraints]
    for other in question.request.together:
        claim = held.get(other.key)
        if claim and other.grant in others and claim.items.keys() & items.keys():
            constraints += others[other.grant].constraints
            for item in others[other.grant].items:
                pinned = _pin(item, claim.items.get(item.id, []), places)
                items[item.id] = replace(pinned, demand={}) if pinned.place else item
    return tuple(items.values()), tuple(constraints)


def find_shared(places: Iterable[Place], kind: Kind, level: Level) -> list[tuple[str, Level, list[str]]]:
    """Find the zones that several locations of a level share, for places of a kind."""
    locations: dict[str, set[str]] = {}
    for place in places:
        if place.kind == kind and level != "zone":
            locations.setdefault(place.zone, set()).add(place.at(level))
    return [(zone, level, sorted(names)) for zone, names in sorted(locations.items()) if len(names) > 1]


def unsteered(kind: Kind, zone: str, level: Level, names: Collection[str]) -> str:
    """Why nothing steers items of a kind to their location."""
    where = f"the zone {zone} has" if zone else "without zones there are"
    return (
        f"{where} the {level}s {', '.join(names)}, and nothing places a {kind} in the right one: the operator "
        f"must make a zone of each {level}, or install the filters for schedulers and set rack_affinity.steering=hint"
    )


def sum_demands(demands: Iterable[Problem]) -> dict[Kind, Mapping[str, int]]:
    """The total demand of all items of each kind for each resource class."""
    total: dict[Kind, Counter[str]] = {}
    for item in chain.from_iterable(demand.items for demand in demands):
        total.setdefault(item.kind, Counter()).update(item.demand)
    return dict(total)


def _providers(claims: Iterable[PlacementClaim], prefix: str) -> set[str]:
    """The providers from which claims take the service's classes."""
    taken = chain.from_iterable(chain.from_iterable(claim.items.values()) for claim in claims)
    return {uuid for uuid, resource_class, _ in taken if resource_class.startswith(prefix)}


def _pin(item: Item, taken: list[Taken], places: Mapping[str, Place]) -> Item:
    """The item pinned to its provider in the claim, if that is still a place."""
    place = places.get(taken[0][0]) if taken else None
    return replace(item, place=place.name) if place else item


def _fingerprint(demand: Problem) -> str:
    return json.dumps(asdict(demand))
