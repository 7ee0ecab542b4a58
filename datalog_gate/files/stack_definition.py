"""The definition of a stack, as sent by its host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from datalog_gate.base.diagnostics import SENT
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.secrecy import HEAT_MASK
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.leftover import add_leftovers, describe_leftover, mark_leftover
from datalog_gate.stack.model import Data, Resource, Stack
from datalog_gate.template.document import Documents
from datalog_gate.template.held import HeldStacks
from datalog_gate.template.reader import TemplateSource, read_template

SECTIONS = ("parameters", "parameter_defaults")
"""The sections of an environment whose values Heat may mask."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Resources that failed updates left in a stack."""

    resources: Mapping[str, Mapping[str, str]]
    """By the path of their stack, ``web/db``, and the name under which each is judged: the path in the `definition`, or
    without one the type."""
    definition: StackDefinition | None = None
    """The definition of the whole tree when they were built. What is in its held stacks is left over only by itself."""

    def read(self, name: str, catalogue: Catalogue) -> Iterator[tuple[str, Resource]]:
        """The leftovers beside the root stack with that name, each with its stack's path. Errors: InputError."""
        stacks = {stack.id: stack for tree in self.trees(name, catalogue) for stack in tree.walk()}
        for stack, key, built in ((path, *names) for path, part in self.resources.items() for names in part.items()):
            if self.definition is None:
                yield stack, describe_leftover(stack, key, built, catalogue)
                continue
            holder, _, own = built.rpartition("/")
            if holder in stacks and (resource := stacks[holder].named.get(own)):
                if resource.nested and resource.nested.id in self.definition.held.stacks:
                    resource = replace(resource, nested=replace(resource.nested, resources=()))
                yield stack, mark_leftover(resource, stack, key)

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
    only_leftovers: bool = False
    """Whether the stack has no resources but these."""
    tags: tuple[str, ...] = ()
    """The tags of the stack in the host."""
    documents: Documents = field(default_factory=Documents, compare=False, repr=False)
    """What was parsed already."""

    def stack(self, name: str, catalogue: Catalogue, undeclared: bool = False) -> Stack:
        """Read the stack with that name; for `undeclared` see `read_stack`. Errors: InputError."""
        files = self.files
        source = TemplateSource(
            text=self.template or "",
            file=SENT,
            stack_name=name,
            environments=[(file, files[file]) for file in self.environment_files],
            environment=None if self.environment_files else self.environment,
            parameters=self.parameters or {},
            masked=self.masked,
            undeclared=undeclared,
            held=self.held,
            has_base_url=False,
            type_of=catalogue.type,
            sent=files,
            documents=self.documents,
        )
        stack = read_template(source, lambda named, _: (named, files[named]) if named in files else None)
        found: dict[str, list[Resource]] = {}
        for leftovers in self.leftovers:
            for path, resource in leftovers.read(name, catalogue):
                found.setdefault(path, []).append(resource)
        if self.only_leftovers:
            stack = replace(stack, resources=())
        stack = add_leftovers(stack, found) if found or self.only_leftovers else stack
        return replace(stack, tags=self.tags) if self.tags else stack

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
            **({"only_leftovers": True} if self.only_leftovers else {}),
            **({"tags": list(self.tags)} if self.tags else {}),
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
            data.get("only_leftovers", False),
            tuple(data.get("tags", ())),
        )


def _leftovers_to_json(leftovers: Leftovers) -> dict[str, Any]:
    definition = leftovers.definition.to_json() if leftovers.definition else None
    resources = {path: dict(names) for path, names in leftovers.resources.items()}
    return {"resources": resources, "definition": definition}


def _leftovers_from_json(data: Mapping[str, Any]) -> Leftovers:
    definition = StackDefinition.from_json(data["definition"]) if data["definition"] else None
    return Leftovers(data["resources"], definition)


def remove_masked(environment: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Remove masked values from an environment, except `own` values. Return the section and name of each."""
    sections = {name: section for name in SECTIONS if isinstance(section := environment.get(name), dict)}
    entries = [(name, key) for name, section in sections.items() for key in section if section[key] == HEAT_MASK]
    hidden = tuple((name, key) for name, key in entries if key not in own.get(name, {}))
    for name, key in hidden:
        del sections[name][key]
    return hidden
