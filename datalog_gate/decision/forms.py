"""Values in another form than rules ask for: ``"m1.huge"`` for ``"M1.Huge"``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import TESTS, name_of, twins
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.patterns import compile_search
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Boolean, Kind, ResourceId, Value, kind_of, print_value
from datalog_gate.schema.declaration import Column

GUARDS = {"is_string": Kind.STRING, "is_number": Kind.NUMBER, "is_boolean": Kind.BOOLEAN}
MOST_ROWS = 1000
"""The maximum number of rows of a relation that are compared."""


class OtherForm(NamedTuple):
    """How the value of a column differs from what a rule requires: the rest of a message that begins with the
    column."""

    at: int
    asked: Value
    span: Span
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A column of a literal, and the values that the body requires of it, each with its place."""

    at: int
    column: Column
    given: Mapping[Value, Span]
    recalled: dict[str, list[OtherForm]] = field(default_factory=dict)
    """Cached forms by text: stacks repeat the same few texts."""

    def find_forms(self, value: Value) -> list[OtherForm]:
        """The required values of which this one is another form."""
        if not isinstance(value, str):
            return list(self._forms(value))
        if value not in self.recalled:
            if len(self.recalled) >= MOST_ROWS:
                self.recalled.clear()
            self.recalled[value] = list(self._forms(value))
        return self.recalled[value]

    def _forms(self, value: Value) -> Iterator[OtherForm]:
        name = self.column.name.strip("_")
        for given, span in self.given.items():
            match given, value:
                case str(), str() if given.casefold() == value.casefold():
                    advice = f"write {print_value(value)} as well, or instead"
                case str(), ResourceId() if given == value.path or given.casefold() == value.name.casefold():
                    advice = f'join it: `heat:resource(id={name}, name="{value.name}")`'
                case _ if value in twins(given) or given in twins(value):
                    advice = f"write `{name} in [{print_value(value)}, {print_value(given)}]`"
                case _:
                    continue
            message = f"is {print_value(value)}, but the rule asks for {print_value(given)}"
            yield OtherForm(self.at, given, span, message, advice)


def find_conditions(column: Column, term: ir.Operand, around: Sequence[ir.CheckedLiteral]) -> Iterator[ir.Call]:
    """The conditions on a column, or on its value if not null, that `find_form` can check."""
    names = {term} | {
        literal.outputs[0]
        for literal in around
        if isinstance(literal, ir.Call) and literal.builtin == "??" and literal.inputs[0] == term
    }
    for literal in around:
        match literal:
            case ir.Call(name, (ir.Var() as text, ir.Const(str()))) if name in TESTS and text in names:
                yield literal
            case ir.Call(name, (ir.Var() as value,)) if name in GUARDS and value == term and column.kinds == Kind.ANY:
                yield literal


def find_form(at: int, condition: ir.Call, value: Value, placed: bool) -> OtherForm | None:
    """How the value fails the condition, if by case or by kind. `placed` says that the rule names a place in a map,
    whose value must be of one kind."""
    match condition, value:
        case ir.Call(name, (text, ir.Const(str() as part))), str() if _differs_in_case(name, value, part):
            message = f"is {print_value(value)}: {name} with {print_value(part)} is case-sensitive"
            folded = f'lower({name_of(text)}, low), {name}(low, "{part.lower()}")'
            advice = f'write "(?i){part}"' if name == "matches" else f"write {folded}"
            return OtherForm(at, part, condition.span, message, advice)
        case ir.Call(name, (ir.Var(),)), str() | int() | Boolean() if placed and not kind_of(value) & GUARDS[name]:
            kind = kind_of(value).describe()
            message = f"is {print_value(value)}, a {kind}, which {name} excludes"
            return OtherForm(at, name, condition.span, message, f"write a second rule with is_{kind}")
    return None


def _differs_in_case(builtin: str, text: str, part: str) -> bool:
    with suppress(ValueError):  # a text that is too long for the pattern
        if TESTS[builtin](text, part):
            return False
        if builtin == "matches":
            return compile_search(part, ignore_case=True).find(text) is not None
        return TESTS[builtin](text.casefold(), part.casefold())
    return False
