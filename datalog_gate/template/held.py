"""Nested stacks in the state that Heat holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import ResourceId
from datalog_gate.stack.model import Data

Fetch = Callable[[str, str], tuple[str, str] | None]
"""Returns the file for a name in a template or environment, given as (name, file with the name): its own name and text.
None if it does not exist. Errors: InputError whose diagnostics have no place, for a file that may not be read."""


@dataclass(frozen=True, slots=True)
class HeldStack:
    """A nested stack: its name, template, environment, files, the metadata of its parent resource, and the section and
    name of each value that its host hides."""

    name: str
    template: str | Mapping[str, Data]
    environment: str | Mapping[str, Data]
    files: Mapping[str, str] = field(default_factory=dict)
    metadata: Data = None
    masked: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HeldStacks:
    """The nested stacks of a tree that already exist in Heat."""

    stacks: Mapping[str, HeldStack] = field(default_factory=dict)
    """By the path of the stack, ``web/db``."""
    built: Mapping[str, str] = field(default_factory=dict)
    """The path of each existing resource, by its id in Heat: in these stacks the id is a reference."""
    adopted: Mapping[str, Mapping[str, Data]] = field(default_factory=dict)
    """The parameters from adopted data for nested stacks, by the path of the stack. They are used if the parent gives
    none (heat/engine/service.py:779)."""

    def refer(self, data: Data) -> Data:
        """The data with ids of existing resources replaced by references."""
        match data:
            case str() if data in self.built:
                return ResourceId(self.built[data])
            case dict():
                return {key: self.refer(value) for key, value in data.items()}
            case list():
                return [self.refer(item) for item in data]
        return data

    def to_json(self) -> dict[str, Any]:
        """The stacks as JSON data."""
        from dataclasses import asdict  # brings `inspect`, which no command needs

        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HeldStacks:
        """The stacks in such JSON data."""
        stacks = {
            path: HeldStack(**{**stack, "masked": tuple(map(tuple, stack.get("masked", ())))})
            for path, stack in data["stacks"].items()
        }
        return cls(stacks, data["built"], data.get("adopted", {}))


def read_adopted(data: object, path: str) -> dict[str, Mapping[str, Data]]:
    """The `adopted` parameters in the data of an adopted stack with that path; empty if nothing is adopted."""
    adopted: dict[str, Mapping[str, Data]] = {}
    resources = data.get("resources") if isinstance(data, dict) else None
    for name, resource in resources.items() if isinstance(resources, dict) else ():
        environment = resource.get("environment") if isinstance(resource, dict) else None
        parameters = environment.get("parameters") if isinstance(environment, dict) else None
        below = f"{path}/{name}"
        if parameters and isinstance(parameters, dict):
            adopted[below] = parameters
        adopted |= read_adopted(resource, below)
    return adopted


def label_of(path: str) -> str:
    """The label of a held stack's template, used as a file name."""
    return f"<{path}>"


def fetch_held(held: HeldStacks, fetch: Fetch) -> Fetch:
    """Create a `Fetch` for the files of held stacks, each under its own label."""
    homes = {label_of(path): path for path in held.stacks}

    def fetch_file(name: str, base: str) -> tuple[str, str] | None:
        if base not in homes:
            return fetch(name, base)
        path = homes[base]
        text = held.stacks[path].files.get(name)
        if text is None:
            return None
        label = f"{name} of {label_of(path)}"
        homes[label] = path
        return label, text

    return fetch_file
