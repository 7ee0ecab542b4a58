"""What a stack is made of (layer 6), as a door got it of its host: enough to read the stack, at once or in a replay.

In: the parts as Heat takes them. Out: the `Stack`, and JSON data for the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from datalog_gate.catalogue import Catalogue
from datalog_gate.facts.stack import Data, Stack
from datalog_gate.sources import read_stack


@dataclass(frozen=True, slots=True)
class Definition:
    """The template, one environment, the parameters of the request and the files by their names, all as written."""

    template: str | Mapping[str, Data]
    environment: str | Mapping[str, Data] | None = None
    parameters: Mapping[str, Data] | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def stack(self, name: str, catalogue: Catalogue) -> Stack:
        """The stack of that name. Errors: InputError."""
        return read_stack(
            template=self.template,
            environment=self.environment,
            parameters=self.parameters,
            files=self.files,
            stack_name=name,
            catalogue=catalogue,
        )

    def to_json(self) -> dict[str, Data]:
        """As JSON data."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
