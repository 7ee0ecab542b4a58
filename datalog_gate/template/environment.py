"""Environments: values of parameters, and mappings of resource types.

Merged as in heat/common/environment_util.py, resolved as in heat/engine/environment.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import translate
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from datalog_gate.base.diagnostics import Diagnostic, Span, closest, suggest_name
from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Unknown
from datalog_gate.stack.model import Data, Path
from datalog_gate.template.document import Document, Spend, steps_of
from datalog_gate.template.parameters import Given

_LISTS = ("encrypted_param_names", "event_sinks")
SECTIONS = ("parameters", "parameter_defaults", "resource_registry", "parameter_merge_strategies", *_LISTS)
STRATEGIES = ("overwrite", "merge", "deep_merge")
SPECIAL = {
    "hooks": tuple(f"{when}-{action}" for when in ("pre", "post") for action in ("create", "update", "delete")),
    "restricted_actions": ("update", "replace"),
}
"""The other keys of a resource besides mappings, with their values (heat/engine/environment.py:34-95)."""
TEMPLATE_ENDINGS = (".yaml", ".template")

_WILD = frozenset("*?[")
"""The characters that make a name a pattern."""
_PER_MAPPING, _PER_PATTERN, _PER_VALUE = 3, 300, 12
"""The steps for a look at the mappings of a type, for a pattern, and for a value of an environment."""
Entry = tuple[str, str]
"""A registry's value, and the file that its file names are relative to."""


class Resolved(NamedTuple):
    """The type that mappings lead to. For a template, the file that names it, and the key of its mapping, unless that
    is for a single resource."""

    type: str
    file: str | None = None
    key: str | None = None


@dataclass(slots=True)
class Types:
    """Mappings of types, and what was resolved by them."""

    entries: dict[str, Entry] = field(default_factory=dict)
    resolved: dict[str, Resolved | str] = field(default_factory=dict)
    """The result for each type without mappings of its resource; a text for a cycle."""
    _wildcards: dict[str, str] = field(default_factory=dict)
    """The targets by wildcard, without those for templates: in Heat these match nothing."""
    _lengths: list[int] | None = None
    """The different lengths of the wildcards' prefixes, in order."""

    def matches(self, declared: str, spend: Spend) -> list[str]:
        """The keys that match a type, in Heat's order of preference."""
        if self._lengths is None:
            spend(len(self.entries))
            for key, (value, _) in self.entries.items():
                if key.endswith("*") and not value.endswith(TEMPLATE_ENDINGS):
                    self._wildcards[key] = value
            self._lengths = sorted({len(key) - 1 for key in self._wildcards})
        spend(_PER_MAPPING + len(self._lengths) + len(declared) // 16)
        keys = [declared] if declared in self.entries else []
        for length in self._lengths:
            if length > len(declared):
                break
            key = f"{declared[:length]}*"
            if key in self._wildcards and declared not in (key, self._wildcards[key]):
                keys.append(key)
        return sorted(keys)


@dataclass(slots=True)
class _Patterns:
    """What a registry says of resources, by name or name pattern, each with its position in the registry."""

    names: dict[str, tuple[int, Any]] = field(default_factory=dict)
    patterns: list[tuple[int, Callable[[str], object], Any]] = field(default_factory=list)

    def add(self, position: int, pattern: str, value: object, spend: Spend) -> None:
        """Add a value for the resources that a pattern matches."""
        start = pattern[:-1]
        if _WILD.isdisjoint(pattern):
            self.names[pattern] = position, value
        elif pattern[-1] == "*" and _WILD.isdisjoint(start):
            spend(_PER_MAPPING)
            self.patterns.append((position, lambda name: name.startswith(start), value))
        else:
            spend(_PER_PATTERN + 10 * len(pattern))
            self.patterns.append((position, re.compile(translate(pattern)).match, value))

    def of(self, name: str, spend: Spend) -> list[tuple[int, Any]]:
        """The values for a resource with their positions, in order."""
        spend(1 + len(self.patterns) * (1 + len(name) // 64))
        found = [(position, value) for position, matches, value in self.patterns if matches(name)]
        if name in self.names:
            found.append(self.names[name])
        return sorted(found, key=itemgetter(0))


@dataclass(slots=True)
class Registry:
    """Resource type mappings. `resources` has mappings of single resources by name pattern, and below a nested stack's
    name those of its resources. Nothing is added after the first resource is read."""

    types: Types = field(default_factory=Types)
    resources: dict[str, dict[str, object]] = field(default_factory=dict)
    _patterns: dict[str, _Patterns] = field(default_factory=dict)
    """By option what the patterns say; under the empty name, the mappings inside of nested stacks."""
    _children: dict[tuple[tuple[int, ...], str | None], Registry] = field(default_factory=dict)
    """The registries of nested stacks, by the positions of the patterns that match, and the mapping that is removed."""

    @property
    def is_empty(self) -> bool:
        return not (self.types.entries or self.resources)

    def resolve(self, declared: str, name: str, is_type: Callable[[str], object], spend: Spend) -> Resolved:
        """The type of a resource. Errors: ValueError for a cycle. A mapping that leads to no type is skipped, if
        another leads to one (heat/engine/environment.py:517)."""
        if self.is_empty:
            return Resolved(declared)
        known = self.types.resolved if name not in self.resources else {}
        if declared not in known:
            try:
                resolved = self._resolve(declared, name, is_type, {declared: True}, spend) or self._resolve(
                    declared, name, lambda _: True, {declared: True}, spend
                )
                known[declared] = resolved or Resolved(declared)
            except ValueError as error:
                known[declared] = str(error)
        result = known[declared]
        if isinstance(result, str):
            raise ValueError(result)
        return result

    def _resolve(
        self, declared: str, name: str, is_type: Callable[[str], object], way: dict[str, bool], spend: Spend
    ) -> Resolved | None:
        """The type that the mappings of `declared` lead to, if any. In `way` are the types of the search: true for
        those on the way to `declared`, false for those that lead nowhere."""
        own = self.resources.get(name, {}).get(declared)
        for key, entry in self._mappings(declared, name, spend):
            value, file = entry
            if key.endswith(TEMPLATE_ENDINGS) or value.endswith(TEMPLATE_ENDINGS):
                target = key if key.endswith(TEMPLATE_ENDINGS) else value
                return Resolved(target, file, None if entry is own else key)
            if key.endswith("*") and value.endswith("*"):
                value = value[:-1] + declared[len(key) - 1 :]
            if way.get(value):
                raise ValueError(f"the registry maps `{next(iter(way))}` in a circle")
            if value in way:
                continue
            way[value] = True
            if resolved := self._resolve(value, name, is_type, way, spend):
                return resolved
            way[value] = False
        return Resolved(declared) if is_type(declared) else None

    def spread(self, resources: Iterable[tuple[str, str]], spend: Spend) -> Registry:
        """The registry after Heat has loaded a stack's resources, given by name and type. Heat stores the target of one
        resource's mapping for all resources of the type, unless it is a template (heat/engine/environment.py:520). The
        legacy engine may have loaded others before, so mappings that lead to nothing hide none of them."""
        if not self.resources:
            return self
        added: dict[str, Entry] = {}
        for name, declared in resources:
            own, way, last = self.resources.get(name, {}), dict[str, Entry](), declared
            while isinstance(entry := own.get(last), tuple) and last not in way:
                spend(1)
                way[last], last = entry, entry[0]
            if not way:
                continue
            with suppress(ValueError):  # a cycle, which is reported when the resource is read
                resolved = self.resolve(declared, name, lambda _: True, spend)
                if resolved.file is None and resolved.type != "OS::Heat::None":
                    added |= way
        if added.items() <= self.types.entries.items():
            return self
        spend(len(self.types.entries))
        return Registry(Types({**self.types.entries, **added}), self.resources)

    def read_option(self, name: str, key: str, spend: Spend) -> tuple[str, ...]:
        """The `hooks` or `restricted_actions` in all patterns that match the resource's name."""
        if not self.resources:
            return ()
        options: dict[str, None] = {}
        for _, values in self._by_pattern(key, spend).of(name, spend):
            options |= dict.fromkeys(values)
        return tuple(options)

    def child(self, name: str, removed: str | None, spend: Spend) -> Registry:
        """The registry of the stack inside the resource with that name, without the mapping to the template of that
        stack (heat/engine/environment.py:788)."""
        found = self._by_pattern("", spend).of(name, spend)
        key = tuple([position for position, _ in found]), removed
        if key not in self._children:
            inner: dict[str, object] = {}
            for entries in (*(entries for _, entries in found), self.resources.get(name, {}) if found else {}):
                spend(len(entries))
                inner |= entries
            maps = {key: value for key, value in inner.items() if isinstance(value, dict)}
            types = self.types
            if removed:
                spend(len(types.entries))
                types = Types({kind: entry for kind, entry in types.entries.items() if kind != removed})
            self._children[key] = Registry(types, maps)
        return self._children[key]

    def _by_pattern(self, key: str, spend: Spend) -> _Patterns:
        """The lists of an option, or for the empty key all entries, if some are mappings inside of nested stacks."""
        if key not in self._patterns:
            patterns = self._patterns[key] = _Patterns()
            entered = self.resources.items()
            spend(sum(len(entries) for _, entries in entered))
            nested = not key and any(isinstance(part, dict) for _, entries in entered for part in entries.values())
            for position, (pattern, entries) in enumerate(entered):
                value = entries if nested else entries.get(key)
                if nested or isinstance(value, list):
                    patterns.add(position, pattern, value, spend)
        return self._patterns[key]

    def entries(self) -> Iterator[Entry]:
        """All targets of mappings."""
        parts: list[Mapping[str, object]] = [self.types.entries, self.resources]
        while parts:
            for value in parts.pop().values():
                if isinstance(value, dict):
                    parts.append(value)
                elif isinstance(value, tuple):
                    yield value

    def _mappings(self, declared: str, name: str, spend: Spend) -> Iterator[tuple[str, Entry]]:
        """The mappings of a type, in Heat's order of preference."""
        own = self.resources.get(name, {}).get(declared)
        if isinstance(own, tuple):
            yield declared, own
        for key in self.types.matches(declared, spend):
            yield key, self.types.entries[key]


@dataclass(slots=True)
class Environment:
    """The merged environments."""

    parameters: dict[str, Given] = field(default_factory=dict)
    defaults: dict[str, Given] = field(default_factory=dict)
    registry: Registry = field(default_factory=Registry)


Report = Callable[[Diagnostic], None]


class WorkAccount(NamedTuple):
    """Where problems are reported, and work is counted."""

    report: Report
    spend: Spend


def read_environments(
    body: Document | None,
    parameters: Mapping[str, Data],
    files: Iterable[Document],
    types: Mapping[str, Data],
    account: WorkAccount,
    has_base_url: bool = True,
) -> Environment:
    """Merge environments. `types` are the types of the parameters of all templates that were found. Without
    `has_base_url` no file is relative to a `base_url`."""
    environment, files, report = Environment(), list(files), account.report
    sections = read_sections(body, report) if body else {}
    account.spend(_PER_VALUE * sum(map(len, sections.values())))
    if body:
        for name, target in (("parameters", environment.parameters), ("parameter_defaults", environment.defaults)):
            target |= dict(_given(body, name, sections.get(name, {})))
    mappings = {key: (value, body) for key, value in sections.get("resource_registry", {}).items() if body}
    environment.parameters |= {name: Given(value, "parameters") for name, value in parameters.items()}
    merger = _ValueMerger(types, account)
    values: dict[tuple[int, str], dict[str, Given]] = {}
    if len(files) > 1:
        merges = any(isinstance(file.data, dict) and file.data.get("parameter_merge_strategies") for file in files)
        for file in {id(file): file for file in files}.values():
            _check_shared(file, merges, report)
    for file in files:
        sections = read_sections(file, report)
        account.spend(_PER_VALUE * (1 + sum(map(len, sections.values()))))
        wanted = sections.get("parameter_merge_strategies", {})
        for name in sections.keys() & {"parameters", "parameter_defaults"}:
            if (id(file), name) not in values:
                values[id(file), name] = dict(_given(file, name, sections[name]))
            target = environment.parameters if name == "parameters" else environment.defaults
            merger.add(target, values[id(file), name], wanted, name == "parameter_defaults")
        added = sections.get("resource_registry", {}).items()  # a null in a later file removes nothing
        mappings |= {key: (value, file) for key, value in added if value is not None or not mappings}
    for key, (value, file) in mappings.items():
        base, named_in = mappings.get("base_url", ("", None))
        is_based = has_base_url and named_in is file
        _add_mapping(environment.registry, key, value, file, str(base) if is_based else "", account)
    return environment


class _ValueMerger:
    """Merges the values of environment files one after another, each by the strategy that its file wants for it."""

    def __init__(self, types: Mapping[str, Data], account: WorkAccount) -> None:
        self.types, self.account = types, account
        self.strategies: dict[str, Data] = {}

    def add(
        self, target: dict[str, Given], values: Mapping[str, Given], wanted: Mapping[str, Data], are_defaults: bool
    ) -> None:
        """Add the values of a file to those of the files before it."""
        is_first = not target
        for key, given in values.items():
            if not is_first and key not in self.types:  # Heat ignores it, unless another template declares it
                if are_defaults and not (key in target and target[key].value == given.value):
                    merged = phrase(f"the value of {key} by several environment files")
                    target[key] = replace(given, value=Unknown(merged, given.place, unread=True))
                continue
            if given.value is None and not is_first:
                continue
            strategy = wanted.get(key, self.strategies.get(key, wanted.get("default")))
            strategy = strategy if strategy in STRATEGIES else wanted.get("default", STRATEGIES[0])
            if (earlier := self.strategies.setdefault(key, strategy)) != strategy:
                message = f"`{key}` is merged by `{strategy}` here and by `{earlier}` in an earlier file"
                self.account.report(Diagnostic("bad-environment", message, given.place))
            elif strategy in STRATEGIES[1:] and not is_first:
                _merge(target, key, given, self.types.get(key), strategy == "deep_merge", self.account)
            else:
                target[key] = given


def read_sections(document: Document, report: Report) -> dict[str, dict[str, Data]]:
    """The sections with maps; invalid ones are reported."""

    def wrong(message: str, path: Path, suggestion: str | None = None) -> None:
        place = document.key_place(path) if path else document.place(())
        report(Diagnostic("bad-environment", message, place, suggestion))

    if not isinstance(document.data, dict):
        wrong("an environment is a map of sections", ())
        return {}
    if "heat_template_version" in document.data:
        wrong("this is a template, not an environment", ("heat_template_version",), "give it without -e")
        return {}
    maps = {}
    for name, section in document.data.items():
        if name not in SECTIONS:
            near = closest(str(name), SECTIONS)
            wrong(f"an environment has no section `{name}`", (name,), suggest_name(near, mark="`"))
        elif not isinstance(section, list if name in _LISTS else dict):
            wrong(f"the section `{name}` has the wrong form", (name,))
        elif isinstance(section, dict):
            maps[name] = section
    return maps


def _check_shared(document: Document, inner: bool, report: Report) -> None:
    """Report a part of the document at two paths, by an alias, that Heat may change in place when it merges files: a
    section, or with `inner` any part (heat/common/environment_util.py:45)."""
    data = document.data if isinstance(document.data, dict) else {}
    seen: dict[int, Path] = {}
    pending: list[tuple[Path, Data]] = [((name,), section) for name, section in data.items()]
    for path, part in pending:
        if not part or not isinstance(part, dict | list):
            continue
        first = seen.setdefault(id(part), path)
        if first == path:
            items = part.items() if isinstance(part, dict) else enumerate(part)
            pending += [((*path, key), value) for key, value in items]
        elif inner or len(first) == 1:
            names = [".".join(map(str, way)) for way in (path, first)]
            message = f"Heat changes `{names[0]}` too when it merges files into `{names[1]}`"
            report(Diagnostic("bad-environment", message, document.key_place(path), "write it without an alias"))
            return


def _given(document: Document, name: str, section: Mapping[str, Data]) -> Iterator[tuple[str, Given]]:
    for key, value in section.items():
        places = document.key_place((name, key)), (document.place((name, key)),)
        yield (
            key if isinstance(key, str) else json.dumps(key),
            Given(value, "environment", *places, locate=document.below((name, key))),
        )


def _merge(target: dict[str, Given], key: str, given: Given, kind: Data, deep: bool, account: WorkAccount) -> None:
    old = target.get(key, Given(None, "environment"))
    written = old.written + given.written
    account.spend(len(written) + steps_of(old.value) + steps_of(given.value))
    try:
        merged = _merged(old.value, given.value, str(kind), deep)
        locate = partial(_locate_merged, old, given, deep)
        target[key] = Given(merged, "environment", given.place, written, locate=locate)
    except (TypeError, ValueError, AttributeError):
        message = f"`{key}` can't be merged as {kind}"
        if not kind:
            message = f"`{key}` can't be merged: its type is not known"
        account.report(Diagnostic("bad-environment", message, given.place))


def _locate_merged(old: Given, given: Given, deep: bool, path: Path) -> Span | None:
    """The place of a part of the merged value, in the text that it came from."""
    before, after = old.value, given.value
    for at, step in enumerate(path):
        if isinstance(step, int) and isinstance(before, str | list) and before:
            count = len(before) if isinstance(before, list) else before.count(",") + 1
            return old.locate(path) if step < count else given.locate((*path[:at], step - count, *path[at + 1 :]))
        if not (isinstance(before, dict) and isinstance(after, dict)):
            break
        if after.get(step) is None:
            return old.locate(path)
        if not deep:
            break
        before, after = before.get(step), after[step]
    return given.locate(path)


def _merged(old: Data, new: Data, kind: str, deep: bool) -> Data:
    if kind == "json" or (kind == "None" and isinstance(new, dict)):
        return _merged_map(old, json.loads(new) if isinstance(new, str) and new else new, deep)
    if kind == "comma_delimited_list" or (kind == "None" and isinstance(new, list)):
        return _merged_list(old, new)
    if kind in ("string", "number") and isinstance(new, str):
        return new if old is None and kind == "string" else old + new  # type: ignore[operator]
    raise TypeError


def _merged_list(old: Data, new: Data) -> Data:
    if not isinstance(new, str | list):
        raise TypeError
    if not old:
        return new
    return [*old, *new] if isinstance(old, list) and isinstance(new, list) else ",".join((old, new))  # type: ignore[arg-type]


def _merged_map(old: Data, new: Data, deep: bool) -> Data:
    if not old:
        return new
    if not isinstance(old, dict) or not isinstance(new, dict):
        raise TypeError
    result = dict(old)
    for key, value in new.items():
        match value:
            case None:
                continue
            case dict() if deep:
                result[key] = _merged_map(old.get(key), value, deep)
            case list() if deep:
                result[key] = _merged_list(old.get(key), value)
            case str() if deep:
                result[key] = old.get(key, "") + value
            case _:
                result[key] = value
    return result


def _add_mapping(
    registry: Registry, key: str, value: Data, document: Document, base: str, account: WorkAccount
) -> None:
    def wrong(message: str, *path: str) -> None:
        account.report(Diagnostic("bad-environment", message, document.key_place(("resource_registry", *path))))

    def entry(value: str) -> Entry:
        relative = base and value.endswith(TEMPLATE_ENDINGS) and "://" not in value
        return (f"{base.rstrip('/')}/{value}" if relative else value), document.file

    def within(target: dict[str, object], part: Mapping[str, Data], *at: str) -> None:
        account.spend(len(part))
        for key, value in part.items():
            match value:
                case None if key.endswith("*"):
                    account.spend(len(target))
                    _remove_mappings(target, key)
                case None | "":
                    target.pop(key, None)
                case _ if allowed := SPECIAL.get(key):
                    values = value if isinstance(value, list) else [value]
                    account.spend(len(values))
                    target[key] = list(dict.fromkeys(value for value in values if value in allowed))
                    for item in values:
                        if item not in allowed:
                            wrong(f"`{item}` is not one of {', '.join(allowed)}", *at, key)
                case dict():
                    known = target.get(key)
                    inner = known if isinstance(known, dict) else {}
                    within(inner, value, *at, key)
                    if inner:  # an empty map has no effect, and does not hide another pattern
                        target[key] = inner
                case str():
                    target[key] = entry(value)
                case _:
                    wrong(f"`{key}` must be mapped to a type or a template", *at, key)

    types = registry.types.entries
    match value:
        case _ if not isinstance(key, str):
            wrong("a type must be a string", key)
        case str() if value and key != "base_url":
            types[key] = entry(value)
        case None if key.endswith("*"):
            account.spend(len(types))
            _remove_mappings(types, key)
        case None | "":
            types.pop(key, None)
        case dict() if key == "resources":
            for name, entries in value.items():
                if isinstance(entries, dict) and isinstance(name, str):
                    within(registry.resources.setdefault(name, {}), entries, key, name)
                else:
                    wrong(f"`{name}` must be a map", key, name)
        case _ if key != "base_url":
            wrong(f"`{key}` must be mapped to a type or a template", key)


def _remove_mappings(target: dict[str, Entry] | dict[str, object], pattern: str) -> None:
    """Remove the mappings of the types that a pattern matches, as null does, and an empty text does not."""
    for name in [name for name, value in target.items() if isinstance(value, tuple) and name.startswith(pattern[:-1])]:
        del target[name]
