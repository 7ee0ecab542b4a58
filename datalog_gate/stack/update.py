"""The outcome of an update for each resource of a stack.

Source: heat/engine/update.py:98-224, resource.py:646-698 and 1369-1403.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.unknown import resources_read
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import ResourceType
from datalog_gate.stack import replacement
from datalog_gate.stack.model import Data, Live, Path, Resource, Stack
from datalog_gate.stack.replacement import Difference, Doubt, Effect

STRENGTH = ("unchanged", "update", "replace")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The possible changes of a resource: one if it is certain, or several. `disruptions` are additional effects. `of`
    with `path` is the place in the text. `stirred` says that something in it may change, not only that Heat passes an
    update on to its nested stack."""

    of: Resource
    changes: dict[str, Doubt]
    disruptions: dict[str, Doubt]
    path: Path
    stirred: bool


def outcomes(old: Sequence[Stack], new: Sequence[Stack], catalogue: Catalogue) -> list[Outcome]:
    """The outcomes of all old and new resources, including nested ones. Those with the same id are the same."""
    before, after = ({stack.id: stack for stack in stacks} for stacks in (old, new))
    live = {live.id: live for stack in (*old, *new) for live in stack.live}
    pairs: list[_Pair] = []
    for id in sorted(before.keys() | after.keys()):
        pairs += _pair_resources(before.get(id), after.get(id), None)
    for pair in pairs:
        pair.compare(catalogue, live)
    known = {pair.id: pair for pair in pairs}
    moved = True
    while moved:  # from a replaced resource to those that refer to it
        moved = sum(pair.follow(known, _stirred(pairs)) for pair in pairs) > 0
    stirred = _stirred(pairs)
    return [pair.outcome(pair.id in stirred) for pair in pairs]


def reads_stirred(unknown: Unknown, stirred: Collection[ResourceId]) -> bool:
    """Whether the value of an unknown depends on one of these resources."""
    return bool(stirred) and any(read is None or read in stirred for read in resources_read(unknown))


def _stirred(pairs: Iterable[_Pair]) -> set[ResourceId]:
    """The resources that may change, and those whose nested stacks contain them."""
    return {stirred.id for pair in pairs if pair.stirred for stirred in (pair, *pair.holders)}


def _pair_resources(old: Stack | None, new: Stack | None, holder: _Pair | None) -> Iterator[_Pair]:
    before, after = ({resource.name: resource for resource in stack.resources} if stack else {} for stack in (old, new))
    for name in {**after, **before}:
        pair = _Pair(before.get(name), after.get(name), holder)
        yield pair
        was, will = (resource.nested if resource else None for resource in (pair.old, pair.new))
        if was or will:
            yield from _pair_resources(was, will, pair)


@dataclass(slots=True)
class _Pair:
    """A resource before and after. `must` is the minimum change, `may` other possible ones, each with its doubt."""

    old: Resource | None
    new: Resource | None
    holder: _Pair | None
    kind: ResourceType | None = None
    difference: Difference | None = None
    must: str = "unchanged"
    may: dict[str, Unknown] = field(default_factory=dict)
    disruptions: dict[str, Doubt] = field(default_factory=dict)
    path: Path = ()

    @property
    def of(self) -> Resource:
        resource = self.new or self.old
        assert resource
        return resource

    @property
    def id(self) -> ResourceId:
        return self.of.id

    @property
    def holders(self) -> Iterator[_Pair]:
        """The resources whose nested stacks contain it, the innermost first."""
        if self.holder:
            yield self.holder
            yield from self.holder.holders

    @property
    def stirred(self) -> bool:
        return not (self.old and self.new) or self.must != STRENGTH[0] or bool(self.may)

    def compare(self, catalogue: Catalogue, live: Mapping[ResourceId, Live]) -> None:
        """Determine the effects of its own definition."""
        old, new = self.old, self.new
        if not old or not new:
            return
        self.kind = catalogue.type(new.type)
        same_type = old.type == new.type or replacement.SUBSTITUTED.get(old.type) == new.type
        if not same_type and not (replacement.is_template(old) and replacement.is_template(new)):
            self._add_effect(Effect("replace"), None, ())
            return
        gone = self.kind and not self.kind.properties and new.type not in replacement.HANDLES
        if gone or self._kept or new.external is True:  # resource.py:1641
            return
        self.difference = replacement.difference(old, new, self.kind)
        self._add_effects(self.difference)
        for status_effect in replacement.status_effects(old, live.get(old.id)):
            self._add_effect(status_effect, None, ())
        if self.must == STRENGTH[0]:
            for section, doubt in _find_differing_sections(old, new):
                self._add_effect(Effect("update"), doubt, (section,))

    def follow(self, known: Mapping[ResourceId, _Pair], stirred: Collection[ResourceId]) -> bool:
        """Whether changes of others affect this one."""
        before = self._state()
        if self.holder and self.old and self.new and not self._kept:
            for effect in self.holder.replacement():
                self._add_effect(effect, None, ())
        if self.difference:
            for name, symbols in self.difference.same.items():
                doubts = [doubt for symbol in symbols for doubt in _find_doubts(symbol, known, stirred)]
                if doubts and (name not in self.difference.properties or self.difference.properties[name]):
                    self.difference.properties[name] = None if None in doubts else doubts[0]
            self._add_effects(self.difference)
        return before != self._state()

    def replacement(self) -> list[Effect]:
        """Its possible replacement."""
        if self.must == "replace":
            return [Effect("replace")]
        return [Effect("replace", doubt=self.may["replace"])] if "replace" in self.may else []

    def outcome(self, stirred: bool) -> Outcome:
        old, new = self.old, self.new
        was, will = self._doubts()
        changes: dict[str, Doubt]
        if old is None or new is None:
            what, doubt = ("create", will) if old is None else ("delete", was)
            if unread := self._unread():  # it may be an unread member
                kinds: Iterable[str] = replacement.KINDS if self.of.type in replacement.DISRUPTED else ()
                changes = dict.fromkeys((what, *STRENGTH), unread)
                return Outcome(self.of, changes, dict.fromkeys(kinds, unread), (), True)
            return Outcome(self.of, {what: doubt}, {}, (), stirred)
        must = "update" if self.must == STRENGTH[0] and (old.nested and new.nested) else self.must
        may = {what: doubt for what, doubt in self.may.items() if STRENGTH.index(what) > STRENGTH.index(must)}
        unsure = next(iter(may.values()), None)
        changes = {must: unsure, **may}
        if was != will:
            unsure = will or was
            changes = {what: doubt or unsure for what, doubt in changes.items()}
            changes |= {"delete": will} if will else {}
            changes |= {"create": was} if was else {}
        elif was:
            unsure = was
            changes = {what: doubt or was for what, doubt in changes.items()}
        done = {} if must == "replace" else {kind: doubt or unsure for kind, doubt in self.disruptions.items()}
        return Outcome(new, changes, done, self.path, stirred)

    def _doubts(self) -> tuple[Doubt, Doubt]:
        """The conditions under which it exists, before and after."""
        outer = self.holder._doubts() if self.holder else (None, None)
        was, will = (resource.maybe if resource else None for resource in (self.old, self.new))
        return outer[0] or was, outer[1] or will

    def _unread(self) -> Doubt:
        """For a resource on one side alone, the surrounding group that may have more members on the other."""
        holders = [holder.old if self.old is None else holder.new for holder in self.holders]
        return next((holder.open_members for holder in holders if holder and holder.open_members), None)

    @property
    def _kept(self) -> bool:
        """Whether its group leaves it unchanged."""
        group = self.holder.new if self.holder else None
        policy = replacement.KEPT_MEMBERS.get(group.type) if group else None
        if group is None or policy is None:
            return False
        return not (isinstance(group.update_policy, dict) and group.update_policy.get(policy))

    def _add_effects(self, differing: Difference) -> None:
        template = replacement.is_template(self.of) or (self.kind is None and self.of.nested is not None)
        for name, doubt in differing.properties.items():
            for effect in [Effect("update")] if template else replacement.effects(self.kind, name, differing):
                self._add_effect(effect, doubt, ("properties", name))
        assert self.old
        for further_effect in replacement.further_effects(self.old, self.of, differing):
            self._add_effect(further_effect, None, ("properties",))

    def _add_effect(self, effect: Effect, doubt: Doubt, path: Path) -> None:
        """Add an effect with its doubt."""
        doubt = doubt or effect.doubt
        stronger = STRENGTH.index(effect.change) > STRENGTH.index(self.must)
        if stronger and doubt:
            self.may.setdefault(effect.change, doubt)
        elif stronger:
            self.must = effect.change
        if stronger:
            self.path = path
        kind = effect.disruption
        if kind and (kind not in self.disruptions or self.disruptions[kind]):
            self.disruptions[kind] = doubt

    def _state(self) -> tuple[object, ...]:
        return self.must, tuple(self.may), tuple(self.disruptions.items())


def _find_differing_sections(old: Resource, new: Resource) -> Iterator[tuple[str, Doubt]]:
    """The sections of two definitions that differ, each with its doubt (resource.py:1388, rsrc_defn.py:374)."""
    sections: dict[str, tuple[Data, Data]] = {
        "properties": (dict(old.properties), dict(new.properties)),
        "metadata": (old.metadata, new.metadata),
        "update_policy": (old.update_policy, new.update_policy),
        "deletion_policy": (old.deletion_policy, new.deletion_policy),
    }
    was, will = (resource.written(("depends_on", "condition"), frozenset()) for resource in (old, new))
    sections |= {section: (was.get(section), will.get(section)) for section in {**was, **will}}
    for section, (before, after) in sections.items():
        certain, doubt = replacement.differ(before, after)
        if certain or doubt:
            yield section, None if certain else doubt


def _find_doubts(
    symbol: ResourceId | Unknown, known: Mapping[ResourceId, _Pair], stirred: Collection[ResourceId]
) -> Iterator[Doubt]:
    """The unknowns that decide whether a reference or unknown written as before has another value; None if it has."""
    if isinstance(symbol, Unknown):
        if reads_stirred(symbol, stirred):
            yield symbol
    elif symbol in known and known[symbol].new:
        for effect in known[symbol].replacement():
            by_name = known[symbol].kind is None or known[symbol].of.type in replacement.BY_NAME
            yield effect.doubt or (Unknown(phrase(f"the id of {symbol.path}")) if by_name else None)
