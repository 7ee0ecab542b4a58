"""Values that differ from what rules ask for but mean the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import (
    TESTS,
    is_within,
    name_of,
    quoted,
    read_network,
    twins,
)
from datalog_gate.analysis.patterns import compile_search
from datalog_gate.base.diagnostics import Slips, Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Boolean, Kind, ResourceId, Row, Value, kind_of
from datalog_gate.schema.declaration import Column, Relation

GUARDS = {"is_string": Kind.STRING, "is_number": Kind.NUMBER, "is_boolean": Kind.BOOLEAN}
NUMBERS = re.compile(r"\d+").findall
ENDINGS = ("yaml", "yml", "json", "template")
"""The endings of template file names."""
WORLD = ("0.0.0.0/0", "::/0")
MOST_ROWS = 1000
"""The maximum number of rows of a relation that are compared."""


class Slip(NamedTuple):
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
    recalled: dict[str, list[Slip]] = field(default_factory=dict)
    """Cached slips by text: stacks repeat the same few texts."""

    def recall_slips(self, value: Value) -> list[Slip]:
        """As `slips`, computed once for each text."""
        if not isinstance(value, str):
            return list(self.slips(value))
        if value not in self.recalled:
            if len(self.recalled) >= MOST_ROWS:
                self.recalled.clear()
            self.recalled[value] = list(self.slips(value))
        return self.recalled[value]

    def slips(self, value: Value) -> Iterator[Slip]:
        """The required values that probably mean this one."""
        name = self.column.name.strip("_")
        for given, span in self.given.items():
            message = f"is {quoted(value)}, but the rule asks for {quoted(given)}"
            match given, value:
                case str(), None if not given or (given in WORLD and self.column.name == "remote_ip_prefix"):
                    message = "is not set, which lets everyone in" if given else "is not set, so it is null"
                    advice = f'give it that default, `{name} ?? "{given}"`'
                case str(), str() if _is_file_of(given, value):
                    advice = f"write {quoted(value)}: it is the name of a stack, not of a file"
                case str(), str() if fold(given) == fold(value) or _is_part(given, value):
                    advice = f"write {quoted(value)} as well, or instead"
                case str(), str() if (
                    name != "path" and _letters(given) == _letters(value) != "" and NUMBERS(given) == NUMBERS(value)
                ):
                    advice = f"write {quoted(value)} as well, or instead"
                case str(), str() if sorted(given) == sorted(value) and Slips([value]).of(given):
                    advice = f"write {quoted(value)}: two letters are swapped"
                case str(), str() if name == "path" and value == re.sub(r"[/\[\]]+", ".", given).strip("."):
                    advice = f"write {quoted(value)}"
                case str(), str() if name == "path" and value.startswith(f"{given}."):
                    message, advice = (
                        f"is {quoted(value)}, below {quoted(given)}",
                        f"write {quoted(value)}, or starts_with",
                    )
                case str(), str() if self.column.custom and _lies_in(value, given):
                    message = f"is {quoted(value)}, which is within {quoted(given)}"
                    advice = f'write cidr_contains("{given}", {name})'
                case str(), str() if value != given and value in re.split(r"[,;|\s]+", given):
                    advice = f"write each value as a separate text, {quoted(value)} among them"
                case str(), ResourceId() if given == value.path or fold(given) == fold(value.name):
                    advice = f'join it: `heat:resource(id={name}, name="{value.name}")`'
                case _ if value in twins(given) or given in twins(value):
                    advice = f"write `{name} in [{quoted(value)}, {quoted(given)}]`"
                case _:
                    continue
            yield Slip(self.at, None if value is None else given, span, message, advice)


def find_exchanged(missed: Sequence[Asked], row: Row) -> Iterator[Slip]:
    """Constants that are in each other's columns: ``heat:metadata(x, "front", "tier")``."""
    columns = {column.at: next((other for other in missed if row[column.at] in other.given), None) for column in missed}
    places = {other.at for other in columns.values() if other}
    if len(places) == len(missed):
        first = missed[0]
        other = next(column for column in missed if row[column.at] in first.given)
        span = next(iter(first.given.values()))
        message = f"is {quoted(row[first.at])}, but the rule asks for that in {other.column.name}"
        yield Slip(first.at, None, span, message, f"name the columns, {first.column.name}=..., {other.column.name}=...")


def find_stack(missed: Asked, relation: Relation, row: Row) -> Iterator[Slip]:
    """The name or path of something else where its stack is required: ``heat:resource(x, "server")``."""
    if missed.column.name not in ("stack", "_stack"):
        return
    given = {fold(text): text for text in missed.given if isinstance(text, str)}
    for column, value in zip(relation.columns, row, strict=True):
        names = (value.name, value.path) if isinstance(value, ResourceId) else (value,) if column.name == "name" else ()
        for name in (name for name in names if isinstance(name, str) and fold(name) in given):
            meant = given[fold(name)]
            own = value.name if isinstance(value, ResourceId) else name
            message = f"is {quoted(row[missed.at])}, and {quoted(name)} is {'the name' if name == own else 'a path'}"
            joined = relation.named_only and isinstance(value, ResourceId)
            advice = f'join it: `heat:resource(id=x, name="{own}")`' if joined else f'write name="{own}"'
            yield Slip(missed.at, meant, missed.given[meant], message, advice)
            return


def find_conditions(
    relation: Relation, at: int, term: ir.Operand, around: Sequence[ir.CheckedLiteral]
) -> Iterator[ir.Call | ir.Compare]:
    """The conditions on a column, or on its value if not null, that `find_slip` can check."""
    column = relation.columns[at]
    twin = column.name.replace("min", "max") if "min" in column.name else column.name.replace("max", "min")
    is_bound = twin != column.name and twin in relation.positions
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
            case ir.Compare("!=", left, right) if is_bound and literal.null_test and term in (left, right):
                yield literal


def find_slip(at: int, column: Column, literal: ir.Call | ir.Compare, value: Value, placed: bool) -> Slip | None:
    """How the value fails the condition, if by case, by kind, or by being left out. `placed` says that the rule names a
    place in a map, whose value must be of one kind."""
    match literal, value:
        case ir.Call(name, (text, ir.Const(str() as part))), str() if _differs_in_case(name, value, part):
            message = f"is {quoted(value)}: {name} with {quoted(part)} is case-sensitive"
            folded = f'lower({name_of(text)}, low), {name}(low, "{part.lower()}")'
            advice = f'write "(?i){part}"' if name == "matches" else f"write {folded}"
            return Slip(at, part, literal.span, message, advice)
        case ir.Call("matches", (_, ir.Const(str() as pattern))), str() if meant := _other_pattern(pattern, value):
            message = f"is {quoted(value)}: {quoted(pattern)} does not match it, but {quoted(meant)} does"
            return Slip(at, pattern, literal.span, message, f'write "{meant}"')
        case ir.Call(name, (ir.Var(),)), str() | int() | Boolean() if placed and not kind_of(value) & GUARDS[name]:
            kind = kind_of(value).describe()
            message = f"is {quoted(value)}, a {kind}, which {name} excludes"
            return Slip(at, name, literal.span, message, f"write a second rule with is_{kind}")
        case ir.Compare(), None:
            wide = 0 if "min" in column.name else 65535
            advice = f"give it the widest default, `{column.name} ?? {wide}`, instead of `!= null`"
            return Slip(at, None, literal.span, "is not set, which means no bound", advice)
    return None


def _differs_in_case(builtin: str, text: str, part: str) -> bool:
    with suppress(ValueError):  # a text that is too long for the pattern
        if TESTS[builtin](text, part):
            return False
        if builtin == "matches":
            return compile_search(part, ignore_case=True)(text)
        return TESTS[builtin](text.casefold(), part.casefold())
    return False


def _is_file_of(name: str, stack: str) -> bool:
    """Whether the text is the name of a template file after which a stack is named."""
    stem, _, ending = name.rpartition(".")
    return ending.lower() in ENDINGS and stem.lower() == stack.lower()


def _other_pattern(pattern: str, text: str) -> str | None:
    """The intended pattern instead of one that does not match the text: without slashes around it, with `.*` instead of
    a shell's `*`, or with one backslash instead of two."""
    with suppress(ValueError):
        if compile_search(pattern)(text):
            return None
    for meant in (
        re.sub("^/(.*)/$", r"\1", pattern), re.sub(r"(?<=[\w-]{2})\*", ".*", pattern), pattern.replace(2 * "\\", "\\"),
    ):  # fmt: skip
        with suppress(ValueError):
            if meant != pattern and compile_search(meant)(text):
                return meant
    return None


def _is_part(given: str, value: str) -> bool:
    """Whether the value is a network that contains the address, or a path that ends with the text."""
    head, _, tail = value.rpartition("/")
    return (given == head and tail.isdigit() and given[-1:] in "0123456789:") or value.endswith(f"/{given}")


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def _lies_in(text: str, around: str) -> bool:
    """Whether the first network lies in the second, which is not the whole address space."""
    network = read_network(around)
    inner = read_network(text) if network and network.prefixlen else None
    return inner is not None and network is not None and is_within(inner, network)


def fold(text: str) -> str:
    return "_".join(text.casefold().replace("-", " ").replace("_", " ").split())
