"""Chooses values for the variables of a sketch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from datalog_gate.analysis.program import NULL, Call, Compare, Const, Operand, Var
from datalog_gate.base.values import FALSE, TRUE, Kind, ResourceId, Value, kind_of
from datalog_gate.engine import builtins
from datalog_gate.examples.conditions import Bindings, Condition, Conjunction, propagate, resolve
from datalog_gate.examples.hints import Columns
from datalog_gate.examples.inverses import NETWORKS, invert, neighbours
from datalog_gate.examples.unfolding import InputRow, Sketch, Unfolder
from datalog_gate.schema.declaration import Column, relation_name

ROOT = "stack"
"""The id of the stack of an example, as of a case with a template of its own."""
STACKS = frozenset({"stack", "_stack"})
TIMES = ("2027-03-01T09:00:00Z", "2027-03-01T09:30:00Z", "2026-01-01T00:00:00Z")
WORDS = {
    "flavor": "m1.small",
    "image": "ubuntu-24.04",
    "name": "web",
    "key_name": "ops",
    "project": "lab",
    "user": "alice",
    "description": "a text",
}
"""Readable values by column."""
TYPES = ("OS::Nova::Server", "OS::Neutron::Port", "OS::Cinder::Volume", "OS::Heat::ResourceGroup")
MOST = 48
"""The maximum number of values that are tried for a variable."""
DEEPEST = 6
"""How many builtins away the values that reach a variable may be."""


class Valuation:
    """The values of the variables of a sketch, found depth first in a limited number of steps."""

    def __init__(
        self, unfolder: Unfolder, sketch: Sketch, hints: Mapping[Columns, Sequence[Value]], steps: int
    ) -> None:
        self._bindings = sketch.bindings
        self._rows = sketch.rows
        self._hints = hints
        self._steps = steps
        self._conditions = sketch.conditions
        self._forbidden = tuple(unfolder.forbidden(sketch))
        self._columns: dict[Var, list[tuple[str, Column]]] = {}
        self._of_row = {row.relation: unfolder.columns(row.relation) for row in sketch.rows}
        for row in sketch.rows:
            for column, term in zip(self._of_row[row.relation], row.terms, strict=True):
                term = resolve(term, self._bindings)
                if isinstance(term, Var):
                    self._columns.setdefault(term, []).append((relation_name(row.relation), column))
        for condition in (*self._conditions, *self._forbidden):
            for variable in condition.variables(self._bindings):
                self._columns.setdefault(variable, [])
        self._counts = {resolve(repeat.target, self._bindings): repeat.function for repeat in sketch.repeats}
        for target in self._counts:
            if isinstance(target, Var):
                self._columns.setdefault(target, [])
        self._reaching: dict[Var, tuple[Value, ...]] = {}

    def solutions(self) -> Iterator[Bindings]:
        computed = {
            resolve(condition.literal.outputs[0], self._bindings)
            for condition in self._conditions
            if isinstance(condition.literal, Call) and condition.literal.outputs
        }
        order = sorted(self._columns, key=lambda variable: (self._rank(variable), variable in computed))
        return self._search(order, self._bindings, self._conditions)

    def _search(
        self, order: Sequence[Var], bindings: Bindings, conditions: Sequence[Condition]
    ) -> Iterator[Bindings]:
        self._steps -= 1
        settled = propagate(conditions, bindings) if self._steps > 0 else None
        if settled is None:
            return
        bindings, open_ = settled
        if any(conjunction.decide(bindings) is False for conjunction in self._forbidden):
            return
        free = [variable for variable in order if isinstance(resolve(variable, bindings), Var)]
        if not free:
            yield bindings
            return
        for value in self._candidates(free[0], bindings):
            yield from self._search(free[1:], {**bindings, free[0]: Const(value)}, open_)

    def _rank(self, variable: Var) -> int:
        """The order in which variables get values: stacks, names of resources, resources, others."""
        columns = self._columns[variable]
        if any(column.name in STACKS or (name, column.name) == ("heat:stack", "id") for name, column in columns):
            return 0
        if any((name, column.name) == ("heat:resource", "name") for name, column in columns):
            return 1
        return 2 if self._kinds(variable) == Kind.RESOURCE else 3

    def _kinds(self, variable: Var) -> Kind:
        kinds = Kind.ANY
        for _, column in self._columns[variable]:
            kinds &= column.kinds
        return kinds

    def _candidates(self, variable: Var, bindings: Bindings) -> Sequence[Value]:
        match self._rank(variable):
            case 0:
                return self._stacks(variable, bindings)
            case 2:
                return self._resources(variable, bindings)
        kinds, columns = self._kinds(variable), [column for _, column in self._columns[variable]]
        if any(column.name.startswith("_index") for column in columns):
            return 0, 1, 2
        wished = (*self._asked(variable, bindings), *self._wished(variable, kinds))
        values = [value for value in wished if _fits(value, kinds, columns)]
        return list(dict.fromkeys(values))[:MOST]

    def _asked(self, variable: Var, bindings: Bindings) -> Iterator[Value]:
        """The values that calls ask for whose other inputs are known by now."""
        for condition, holds in self._all_conditions():
            call = condition.literal
            if isinstance(call, Compare) or len(call.inputs) < 2:
                continue
            inputs = [resolve(term, bindings) for term in call.inputs]
            if variable in inputs and all(isinstance(term, Const) or term == variable for term in inputs):
                others = [term.value if isinstance(term, Const) else None for term in inputs]
                output = resolve(call.outputs[0], bindings) if call.outputs else None
                result = output.value if isinstance(output, Const) else None
                yield from invert(call.builtin, inputs.index(variable), others, result, holds)

    def _wished(self, variable: Var, kinds: Kind) -> Iterator[Value]:
        columns = self._columns[variable]
        reaching = self._reach(variable)
        if self._counts.get(variable) == "count":
            yield from sorted({1, 2, 3, *(value for value in reaching if isinstance(value, int) and 0 < value < 300)})
            return
        if reaching:
            yield from reaching
        elif Kind.NULL in kinds and columns:
            yield None
        for name, column in columns:
            yield from self._hints.get((name, column.name), ())
        for name, column in columns:
            yield from _typical(name, column, kinds)
        if not columns:
            yield from (1, "text")
        if Kind.NULL in kinds and columns:
            yield None

    def _reach(self, variable: Var) -> tuple[Value, ...]:
        if variable not in self._reaching:
            values = (value for value in self._reaching_values(variable, DEEPEST, ()) if value is not None)
            self._reaching[variable] = tuple(dict.fromkeys(values))[:MOST]
        return self._reaching[variable]

    def _reaching_values(self, variable: Var, depth: int, seen: tuple[Var, ...]) -> Iterator[Value]:
        """The values that the conditions on a variable ask for."""
        if depth == 0 or variable in seen:
            return
        seen = (*seen, variable)
        for condition, holds in self._all_conditions():
            literal = condition.literal
            if isinstance(literal, Compare):
                for one, _, other in literal.from_each_side:
                    if resolve(one, self._bindings) == variable:
                        for value in self._values_of(other, depth, seen):
                            yield from neighbours(value)
                continue
            for at, term in enumerate(literal.inputs):
                if resolve(term, self._bindings) == variable:
                    yield from self._inverted(literal, at, holds, depth, seen)
            if literal.outputs and resolve(literal.outputs[0], self._bindings) == variable:
                yield from self._computed(literal, depth, seen)

    def _all_conditions(self) -> Iterator[tuple[Condition, bool]]:
        for condition in self._conditions:
            yield condition, condition.holds
        for conjunction in self._forbidden:
            for condition in conjunction.conditions:
                yield condition, not condition.holds

    def _values_of(self, term: Operand | None, depth: int, seen: tuple[Var, ...]) -> list[Value]:
        term = resolve(term, self._bindings)
        if isinstance(term, Const):
            return [term.value]
        if term is None:
            return []
        return list(dict.fromkeys(self._reaching_values(term, depth - 1, seen)))[:16]

    def _inverted(
        self, call: Call, at: int, holds: bool, depth: int, seen: tuple[Var, ...]
    ) -> Iterator[Value]:
        others = [next(iter(self._values_of(term, depth, seen)), None) for term in call.inputs]
        results = self._values_of(call.outputs[0], depth, seen) if call.outputs else []
        for result in results or [None]:
            yield from invert(call.builtin, at, others, result, holds)

    def _computed(self, call: Call, depth: int, seen: tuple[Var, ...]) -> Iterator[Value]:
        inputs = [self._values_of(term, min(depth, 3), seen)[:6] for term in call.inputs]
        if not all(inputs):
            return
        for at in range(max(map(len, inputs))):
            try:
                yield builtins.compute(call.builtin, [values[at % len(values)] for values in inputs])
            except builtins.EvaluationError:
                continue

    def _stacks(self, variable: Var, bindings: Bindings) -> Sequence[Value]:
        holder = self._holder(variable, bindings)
        if isinstance(holder, Var):
            return ()
        if holder is not None:
            return (holder.value.path,) if isinstance(holder.value, ResourceId) else ()
        words = [value for value in self._reach(variable) if isinstance(value, str) and re.fullmatch(r"\w+", value)]
        return ROOT, "other", *words

    def _holder(self, stack: Operand, bindings: Bindings) -> Operand | None:
        """The resource that holds a stack; None for a root."""
        for row in self._rows:
            match relation_name(row.relation):
                case "heat:nested" if resolve(row.terms[1], bindings) == stack:
                    return resolve(row.terms[0], bindings)
                case "heat:stack" if resolve(row.terms[0], bindings) == stack:
                    parent = resolve(row.terms[2], bindings)
                    if parent != NULL and (isinstance(parent, Const) or len(self._columns.get(parent, ())) > 1):
                        return parent
        return None

    def _resources(self, variable: Var, bindings: Bindings) -> Sequence[Value]:
        stack, name, kind = ROOT, None, variable.name.lower() or "resource"
        for row in self._rows:
            cells = self._cells(row, bindings)
            group = cells.get("group")
            if relation_name(row.relation) == "heat:member" and cells.get("id") == variable:
                inside = group.value if isinstance(group, Const) else None
                return [ResourceId(f"{inside.path}/{at}") for at in range(3)] if isinstance(inside, ResourceId) else ()
            if resolve(row.terms[0], bindings) != variable:
                continue
            given = cells.get("_stack") or cells.get("stack")
            if isinstance(given, Const) and relation_name(row.relation) != "heat:nested":
                stack = str(given.value)
            if relation_name(row.relation) == "heat:resource" and isinstance(cells["name"], Const):
                name = str(cells["name"].value)
            if relation_name(row.relation).startswith(("os:", "aws:", "datalog_gate:")):
                kind = relation_name(row.relation).rpartition(":")[2].partition(".")[0]
        if name is not None:
            return (ResourceId(f"{stack}/{name}"),)
        if "/" in stack:
            return [ResourceId(f"{stack}/{at}") for at in range(3)]
        taken = {term.value for term in bindings.values() if isinstance(term, Const)}
        names = (kind, *(f"{kind}_{at}" for at in range(2, 20)))
        free = next((path for word in names if (path := ResourceId(f"{stack}/{word}")) not in taken), None)
        return (free,) if free else ()

    def _cells(self, row: InputRow, bindings: Bindings) -> dict[str, Operand]:
        return {
            column.name: resolve(term, bindings)
            for column, term in zip(self._of_row[row.relation], row.terms, strict=True)
        }


def _typical(name: str, column: Column, kinds: Kind) -> Iterator[Value]:
    """Readable values of a column."""
    if column.allowed:
        yield from column.allowed[:40]
        if column.closed:
            return
    yield from column.numbers
    if (name, column.name) == ("heat:resource", "type"):
        yield from TYPES
    if "cidr" in column.custom:
        yield from NETWORKS
    if Kind.NUMBER in kinds:
        low, high = column.range
        yield from (value for value in (low, 1, 0, 2, 10, high) if value is not None)
    if Kind.STRING in kinds and (column.name.endswith("_at") or column.name in ("time", "read", "updated_time")):
        yield from TIMES
    elif Kind.STRING in kinds:
        word = column.name.strip("_")
        yield from (WORDS.get(word, f"{word}-1"), f"{word}-2", f"other-{word}")
    if Kind.BOOLEAN in kinds:
        yield from (FALSE, TRUE) if column.name == "hidden" else (TRUE, FALSE)


def _fits(value: Value, kinds: Kind, columns: Sequence[Column]) -> bool:
    if not kind_of(value) & kinds:
        return False
    for column in columns:
        if isinstance(value, str) and column.closed and value not in column.allowed:
            return False
        low, high = column.range
        if isinstance(value, int | Decimal) and ((low is not None and value < low) or (high is not None and value > high)):
            return False
    return True
