"""What a stack is made of (layer 6), as a door got it of its host: enough to read the stack, at once or in a replay.

In: the parts as Heat takes them. Out: the `Stack`, and JSON data for the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Data, Stack


@dataclass(frozen=True, slots=True)
class Definition:
    """The template, one environment, the parameters of the request and the files by their names, all as written.

    `environment_files` are names of `files`, later over earlier and all over `parameters`; with any, the host must have
    left out the environment, as Heat does. `masked` names the sections' entries ("parameters" or "parameter_defaults",
    name) whose value the host has and does not show: the environment does not hold them, and they are unknown.
    """

    template: str | Mapping[str, Data]
    environment: str | Mapping[str, Data] | None = None
    parameters: Mapping[str, Data] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    environment_files: tuple[str, ...] = ()
    masked: tuple[tuple[str, str], ...] = ()

    def stack(self, name: str, catalogue: Catalogue, undeclared: bool = False) -> Stack:
        """The stack of that name; for `undeclared` see `read_stack`. Errors: InputError."""
        return read_stack(
            template=self.template,
            environment=self.environment,
            parameters=self.parameters,
            files=self.files,
            environment_files=self.environment_files,
            masked=self.masked,
            undeclared=undeclared,
            stack_name=name,
            catalogue=catalogue,
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON data."""
        return {
            "template": self.template,
            "environment": self.environment,
            "parameters": self.parameters,
            "files": dict(self.files),
            "environment_files": list(self.environment_files),
            "masked": [list(one) for one in self.masked],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Definition:
        """The definition that gave the data."""
        return cls(
            data["template"],
            data["environment"],
            data["parameters"],
            data["files"],
            tuple(data["environment_files"]),
            tuple((section, name) for section, name in data["masked"]),
        )
