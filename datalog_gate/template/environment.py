"""Environments: parameters from outside, and what each resource type really is (layer 2).

In: environment files in order (or one body of data). Out: an `Environment`, later files over earlier ones. The registry
resolves as heat/engine/environment.py does: a mapping for the resource's name, then the mappings for the type in the
order of their patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from datalog_gate.diagnostics import Diagnostic, closest
from datalog_gate.facts.stack import Data
from datalog_gate.template.document import Document
from datalog_gate.template.parameters import Given

SECTIONS = (
    "parameters",
    "parameter_defaults",
    "resource_registry",
    "parameter_merge_strategies",
    "encrypted_param_names",
    "event_sinks",
)
TEMPLATE_ENDINGS = (".yaml", ".template")

Entry = tuple[str, str]
"""A registry's value, and the file that file names in it are relative to."""


@dataclass(slots=True)
class Registry:
    """Resource type mappings. `resources` holds what is said of single resources by their name's pattern: mappings, and
    below a nested stack's name those of its own resources."""

    types: dict[str, Entry] = field(default_factory=dict)
    resources: dict[str, dict[str, object]] = field(default_factory=dict)

    def resolve(self, declared: str, name: str) -> tuple[str, str | None]:
        """The type, and if it is a template of the registry the file to which its name is relative.

        Errors: ValueError for a type that leads back to itself.
        """
        if not self.types and not self.resources:
            return declared, None
        seen = {declared}
        current = declared
        while (found := self._mapping(current, name)) is not None:
            key, (value, file) = found
            if key.endswith(TEMPLATE_ENDINGS) or value.endswith(TEMPLATE_ENDINGS):
                return (key if key.endswith(TEMPLATE_ENDINGS) else value), file
            if key.endswith("*") and value.endswith("*"):
                value = value[:-1] + current[len(key) - 1 :]
            if value in seen:
                raise ValueError(f"the registry maps `{declared}` in a circle")
            seen.add(value)
            current = value
        return current, None

    def child(self, name: str) -> Registry:
        """The registry of the stack that the resource of that name holds."""
        inner: dict[str, object] = {}
        for pattern, said in self.resources.items():
            if fnmatchcase(name, pattern):
                inner |= said
        inner |= self.resources.get(name, {})
        return Registry(self.types, {key: value for key, value in inner.items() if isinstance(value, dict)})

    def _mapping(self, declared: str, name: str) -> tuple[str, Entry] | None:
        own = self.resources.get(name, {}).get(declared)
        if isinstance(own, tuple):
            return declared, own
        keys = [declared] if declared in self.types else []
        for key, (value, _) in self.types.items():
            if key.endswith("*") and declared.startswith(key[:-1]) and declared != value and key != declared:
                keys.append(key)
        return (min(keys), self.types[min(keys)]) if keys else None


@dataclass(slots=True)
class Environment:
    """What all environment files say together."""

    parameters: dict[str, Given] = field(default_factory=dict)
    defaults: dict[str, Given] = field(default_factory=dict)
    registry: Registry = field(default_factory=Registry)


def add_environment(environment: Environment, document: Document, report: Callable[[Diagnostic], None]) -> None:
    """Puts one more file over the environment."""

    def wrong(message: str, *path: str, code: str = "bad-environment", suggestion: str | None = None) -> None:
        report(Diagnostic(code, message, document.key_place(path) if path else document.place(()), suggestion))

    if not isinstance(document.data, dict):
        return wrong("an environment is a map of sections")
    for name, section in document.data.items():
        if name not in SECTIONS:
            near = closest(str(name), SECTIONS)
            wrong(f"an environment has no section `{name}`", name, suggestion=near and f"did you mean `{near}`?")
        elif not isinstance(section, list if name in ("encrypted_param_names", "event_sinks") else dict):
            wrong(f"the section `{name}` has the wrong form", name)
        elif isinstance(section, list):
            pass
        elif name == "parameter_merge_strategies" and any(how != "overwrite" for how in section.values()):
            wrong("parameters can only be overwritten as yet", name, code="unsupported")
        elif name in ("parameters", "parameter_defaults"):
            target = environment.parameters if name == "parameters" else environment.defaults
            for key, value in section.items():
                target[str(key)] = Given(
                    value, "environment", document.key_place((name, key)), document.place((name, key))
                )
        elif name == "resource_registry":
            _add_registry(
                environment.registry, section, document.file, lambda text, *at: wrong(text, "resource_registry", *at)
            )
    return None


def _add_registry(registry: Registry, section: Mapping[str, Data], file: str, wrong: Callable[..., None]) -> None:
    base = section.get("base_url", "")

    def entry(value: str) -> Entry:
        relative = base and value.endswith(TEMPLATE_ENDINGS) and "://" not in value
        return (f"{str(base).rstrip('/')}/{value}" if relative else value), file

    def within(target: dict[str, object], part: Mapping[str, Data], *at: str) -> None:
        for key, value in part.items():
            match value:
                case None | "":
                    target.pop(key, None)
                case dict():
                    inner = target.setdefault(key, {})
                    within(inner if isinstance(inner, dict) else {}, value, *at, key)
                case str():
                    target[key] = entry(value)
                case list() if key in ("hooks", "restricted_actions"):
                    pass
                case _:
                    wrong(f"`{key}` must be mapped to a type or a template", *at, key)

    for key, value in section.items():
        match value:
            case _ if not isinstance(key, str):
                wrong("a type must be a text", key)
            case str() if value and key != "base_url":
                registry.types[key] = entry(value)
            case None | "" if key.endswith("*"):
                for gone in [one for one in registry.types if one.startswith(key[:-1])]:
                    del registry.types[gone]
            case None | "":
                registry.types.pop(key, None)
            case dict() if key == "resources":
                for name, said in value.items():
                    if isinstance(said, dict) and isinstance(name, str):
                        within(registry.resources.setdefault(name, {}), said, key, name)
                    else:
                        wrong(f"`{name}` must hold a map", key, name)
            case _ if key != "base_url":
                wrong(f"`{key}` must be mapped to a type or a template", key)
