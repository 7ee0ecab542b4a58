"""The definition of a stack, as sent by its host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog_gate.base.records import dataclass, field
from datalog_gate.base.secrecy import HEAT_MASK
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Data, Stack
from datalog_gate.template.held import HeldStacks

SECTIONS = ("parameters", "parameter_defaults")
"""The sections of an environment whose values Heat may mask."""


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

    def stack(self, name: str, catalogue: Catalogue, undeclared: bool = False) -> Stack:
        """Read the stack with that name; for `undeclared` see `read_stack`. Errors: InputError."""
        return read_stack(
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
        )

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
        )


def remove_masked(environment: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Remove masked values from an environment, except `own` values. Return the section and name of each."""
    sections = {name: section for name in SECTIONS if isinstance(section := environment.get(name), dict)}
    entries = [(name, key) for name, section in sections.items() for key in section if section[key] == HEAT_MASK]
    hidden = tuple((name, key) for name, key in entries if key not in own.get(name, {}))
    for name, key in hidden:
        del sections[name][key]
    return hidden
