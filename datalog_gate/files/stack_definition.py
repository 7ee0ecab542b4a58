"""The definition of a stack, as sent by its host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog_gate.base.records import dataclass, field
from datalog_gate.base.secrecy import HEAT_MASK
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.leftover import add_leftovers, describe_leftover, mark_leftover
from datalog_gate.stack.model import Data, Resource, Stack
from datalog_gate.stack.update import outcomes
from datalog_gate.template.document import Documents
from datalog_gate.template.held import HeldStacks

SECTIONS = ("parameters", "parameter_defaults")
"""The sections of an environment whose values Heat may mask."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Resources that failed updates left in a stack."""

    path: str
    """The path of the stack, ``web`` or ``web/db``."""
    resources: Mapping[str, str]
    """By the name under which they are judged: the name in the `definition`, or without one the type."""
    definition: StackDefinition | None = None
    """The definition of the whole tree when they were built."""
    if_replaced: bool = False
    """Whether those are left out that the judged definition has too, and that the update does not replace."""

    def read(self, new: Stack, catalogue: Catalogue) -> list[Resource]:
        """The resources that are left over beside the judged root stack. Errors: InputError."""
        if self.definition is None:
            return [describe_leftover(self.path, key, kind, catalogue) for key, kind in self.resources.items()]
        [tree] = self.trees(new.id, catalogue)
        built = next((stack.apart for stack in tree.walk() if stack.id == self.path), tree.apart)
        changes = outcomes([tree], [new], catalogue) if self.if_replaced else ()
        replaced = {outcome.of.id for outcome in changes if "replace" in outcome.changes}
        return [
            mark_leftover(resource, self.path, key)
            for key, name in self.resources.items()
            if (resource := built.resource(name)) and (resource.id in replaced or not self.if_replaced)
        ]

    def trees(self, name: str, catalogue: Catalogue) -> list[Stack]:
        """The root stack as the resources were built; none without a definition. Errors: InputError."""
        return [self.definition.stack(name, catalogue, undeclared=True)] if self.definition else []


@dataclass(frozen=True, slots=True)
class StackDefinition:
    """A template with one environment, the request's parameters, and the files by name, as written."""

    template: str | Mapping[str, Data]
    environment: str | Mapping[str, Data] | None = None
    """None if there are `environment_files`, as in Heat."""
    parameters: Mapping[str, Data] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    environment_files: tuple[str, ...] = ()
    """Names in `files`. Later ones override earlier ones, and all override `parameters`."""
    masked: tuple[tuple[str, str], ...] = ()
    """Section ("parameters" or "parameter_defaults") and name of each value that the host hides. The environment does
    not hold these values, and they are unknown."""
    held: HeldStacks = field(default_factory=HeldStacks)
    """Nested stacks in the host."""
    leftovers: tuple[Leftovers, ...] = ()
    """What failed updates left in the host."""
    documents: Documents = field(default_factory=Documents, compare=False, repr=False)
    """What was parsed already."""

    def stack(self, name: str, catalogue: Catalogue, undeclared: bool = False) -> Stack:
        """Read the stack with that name; for `undeclared` see `read_stack`. Errors: InputError."""
        stack = read_stack(
            template=self.template,
            environment=self.environment,
            parameters=self.parameters,
            files=self.files,
            environment_files=self.environment_files,
            masked=self.masked,
            undeclared=undeclared,
            held=self.held,
            stack_name=name,
            catalogue=catalogue,
            documents=self.documents,
        )
        found: dict[str, list[Resource]] = {}
        for leftovers in self.leftovers:
            found.setdefault(leftovers.path, []).extend(leftovers.read(stack, catalogue))
        return add_leftovers(stack, found) if found else stack

    def to_json(self) -> dict[str, Any]:
        """The definition as JSON data."""
        return {
            "template": self.template,
            "environment": self.environment,
            "parameters": self.parameters,
            "files": dict(self.files),
            "environment_files": list(self.environment_files),
            "masked": [list(entry) for entry in self.masked],
            **({"held": self.held.to_json()} if self.held != HeldStacks() else {}),
            **({"leftovers": [_leftovers_to_json(entry) for entry in self.leftovers]} if self.leftovers else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StackDefinition:
        return cls(
            data["template"],
            data["environment"],
            data["parameters"],
            data["files"],
            tuple(data["environment_files"]),
            tuple((section, name) for section, name in data["masked"]),
            HeldStacks.from_json(data["held"]) if "held" in data else HeldStacks(),
            tuple(_leftovers_from_json(entry) for entry in data.get("leftovers", ())),
        )


def _leftovers_to_json(leftovers: Leftovers) -> dict[str, Any]:
    definition = leftovers.definition.to_json() if leftovers.definition else None
    return {
        "path": leftovers.path,
        "resources": dict(leftovers.resources),
        "definition": definition,
        "if_replaced": leftovers.if_replaced,
    }


def _leftovers_from_json(data: Mapping[str, Any]) -> Leftovers:
    definition = StackDefinition.from_json(data["definition"]) if data["definition"] else None
    return Leftovers(data["path"], data["resources"], definition, data["if_replaced"])


def remove_masked(environment: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Remove masked values from an environment, except `own` values. Return the section and name of each."""
    sections = {name: section for name in SECTIONS if isinstance(section := environment.get(name), dict)}
    entries = [(name, key) for name, section in sections.items() for key in section if section[key] == HEAT_MASK]
    hidden = tuple((name, key) for name, key in entries if key not in own.get(name, {}))
    for name, key in hidden:
        del sections[name][key]
    return hidden
