"""Chooses values for the variables of a sketch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from datalog_gate.analysis.program import Call, Compare, Const, Operand, Pattern, Var, variables
from datalog_gate.base.values import Kind, ResourceId, Value
from datalog_gate.engine import builtins
from datalog_gate.examples.column_hints import Columns, fits, times_of, typical_values
from datalog_gate.examples.conditions import Bindings, Condition, propagate, resolve
from datalog_gate.examples.inverses import invert, neighbours, write_pattern
from datalog_gate.examples.sample_texts import tell_apart
from datalog_gate.examples.unfolding import InputRow, Sketch, Unfolder, list_matches
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Column, is_all, relation_name

ROOT = "stack"
"""The id of the stack of an example, as of a case with a template of its own."""
STACKS = frozenset({"stack", "_stack"})
PORT = "OS::Neutron::Port"
"""A type with a property that replaces resources in every update."""
RESOURCE_TABLES = ("os:", "aws:", "datalog_gate:")
"""How the names of relations begin whose rows are properties of resources."""
GENERAL = ("id", "name", "_value", "value")
"""Names of columns that say little of their values."""
MOST = 60
"""The maximum number of values that are tried for a variable."""
FIRST = 24
"""How many usual values are tried before those that follow from values of other variables."""
MOST_REACHING, MOST_APART = 32, 12
MOST_MEMBERS = 100
"""The maximum index of the member of a group."""
VALUE_STEPS = 150
ROUNDS = 5
"""How many conditions away the values that reach a variable may be."""


class Valuation:
    """The values of the variables of a sketch, found depth first in a limited number of steps. Those of `near` are
    tried first. Texts with `rivals` are told apart from these."""

    def __init__(
        self,
        unfolder: Unfolder,
        catalogue: Catalogue,
        sketch: Sketch,
        hints: Mapping[Columns, Sequence[Value]],
        near: Mapping[Columns, Sequence[Value]] = MappingProxyType({}),
        rivals: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._catalogue = catalogue
        self._bindings = sketch.bindings
        self._rows = sketch.rows
        self._hints = hints
        self._near = near
        self._rivals = rivals
        self._effort = unfolder.effort
        self._steps = VALUE_STEPS
        self._conditions = sketch.conditions
        self._columns: dict[Var, list[tuple[str, Column]]] = {}
        self._of_row = {row.relation: unfolder.columns(row.relation) for row in sketch.rows}
        for row in sketch.rows:
            for column, term in zip(self._of_row[row.relation], row.terms, strict=True):
                term = resolve(term, self._bindings)
                if isinstance(term, Var):
                    self._columns.setdefault(term, []).append((relation_name(row.relation), column))
        self._places = {
            relation: {column.name: at for at, column in enumerate(columns)}
            for relation, columns in self._of_row.items()
        }
        self._keys = {relation: unfolder.keys(relation) for relation in self._of_row}
        all_columns = self._columns
        self._columns = {term: columns for term, columns in all_columns.items() if not _may_stay_open(columns)}
        for condition in self._conditions:
            for variable in condition.variables(self._bindings):
                self._columns.setdefault(variable, all_columns.get(variable, []))
        for negation in sketch.negated:
            for variable in variables(negation):
                term = resolve(variable, self._bindings)
                if isinstance(term, Var) and term in all_columns:
                    self._columns.setdefault(term, all_columns[term])
        self._nested = {
            resolve(term, self._bindings)
            for negation in sketch.negated
            for match in list_matches(negation.body)
            if relation_name(match.relation) == "heat:root"
            for _, term in match.column_terms
        }
        resources = {self._cell(row, "id", self._bindings) for row in self._rows} - {None}
        self._holders = [
            (holder, stack)
            for row in self._rows
            for name, column, key in (("heat:stack", "parent", "id"), ("heat:nested", "id", "stack"))
            for holder, stack in [(self._cell(row, column, self._bindings), self._cell(row, key, self._bindings))]
            if relation_name(row.relation) == name and holder in resources
        ]
        """The resources that hold a nested stack, with that stack."""
        self._nested |= {inner for holder, inner in self._holders if inner and isinstance(holder, Var)}
        self._counts = {resolve(repeat.target, self._bindings): repeat.function for repeat in sketch.repeats}
        for target in self._counts:
            if isinstance(target, Var):
                self._columns.setdefault(target, all_columns.get(target, []))
        self._reaching: dict[Var, dict[Value, None]] | None = None

    def solutions(self) -> Iterator[Bindings]:
        computed = {
            resolve(condition.literal.outputs[0], self._bindings)
            for condition in self._conditions
            if isinstance(condition.literal, Call) and condition.literal.outputs
        }
        order = sorted(self._columns, key=lambda variable: (self._rank(variable), variable in computed))
        return self._search(order, self._bindings, self._conditions)

    def _search(self, order: Sequence[Var], bindings: Bindings, conditions: Sequence[Condition]) -> Iterator[Bindings]:
        is_left = self._effort.spend(1 + len(order) // 8) and self._steps > 0
        settled = propagate(conditions, bindings) if is_left else None
        if settled is None:
            return
        self._steps -= 1
        bindings, open_ = settled
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
        taken = self._taken(variable, bindings)
        if any(column.name.startswith("_index") for column in columns):
            return [at for at in range(len(taken) + 3) if at not in taken]
        for row in self._rows:
            if self._cell(row, "index", bindings) == variable:
                member = self._cell(row, "id", bindings)
                name = member.value.name if isinstance(member, Const) and isinstance(member.value, ResourceId) else ""
                return (int(name) if name.isdigit() else 0,)
            stack = self._cell(row, "stack", bindings)
            if self._cell(row, "name", bindings) == variable and isinstance(stack, Const) and "/" in str(stack.value):
                return [str(at) for at in range(3)]
        wished = list(dict.fromkeys(self._wished(variable, kinds)))
        if Kind.RESOURCE in kinds and kinds != Kind.ANY:
            wished.insert(
                len(self._reach(variable)) + 2,
                ResourceId(f"{ROOT}/{variable.name.lower() or columns[0].name.strip('_')}"),
            )
        places = [(name, column.name) for name, column in self._columns[variable]]
        if ("heat:property", "path") in places:
            at = len(self._reach(variable))
            wished[at:at] = self._declared_paths(variable, bindings)
        if known := self._known_paths(variable, bindings):
            wished = sorted([*wished, *known], key=lambda path: str(path).partition(".")[0] not in known)
        if ("heat:resource", "type") in places:
            owners = list(self._owners(variable, bindings))
            wished.sort(key=lambda kind: (kind not in owners, self._catalogue.type(str(kind)) is None))
        near = [value for name, column in self._columns[variable] for value in self._near.get((name, column.name), ())]
        if len(places) > 1:  # a null joins nothing
            taken.add(None)
        asked = self._ask(variable, bindings)
        values = [*near, *wished[:FIRST], *asked, *wished[FIRST:]]
        values = [value for value in values if value not in taken and fits(value, kinds, columns)]
        values = list(dict.fromkeys(values))
        usual = {value for column in columns if not column.allowed for value in typical_values("", column, Kind.STRING)}
        usual -= {*self._reach(variable)}
        terms = (resolve(other, bindings) for other in self._columns)
        used = {term.value for term in terms if isinstance(term, Const)}
        fresh = iter(sorted((value for value in values if value in usual), key=used.__contains__))
        # A usual text that no other variable has comes first: where the rule lacks a join, the example shows it.
        return [next(fresh) if value in usual else value for value in values][:MOST]

    def _ask(self, variable: Var, bindings: Bindings) -> Iterator[Value]:
        """What the conditions on a variable ask for by the values that others have by now."""
        for condition in self._conditions:
            before, now = set(condition.variables(self._bindings)), set(condition.variables(bindings))
            if variable in now and before != now:
                yield from (value for term, value in self._passed(condition, {}, bindings) if term == variable)
                yield from self._tell_apart(bindings).get(variable, ())

    def _taken(self, variable: Var, bindings: Bindings) -> set[Value]:
        """The values with which one of the rows would have the key of another."""
        taken = set()
        for row in self._rows:
            keys = [resolve(row.terms[at], bindings) for at in self._keys[row.relation]]
            if variable not in keys:
                continue
            at = keys.index(variable)
            for other in self._rows:
                others = [resolve(other.terms[place], bindings) for place in self._keys.get(other.relation, ())]
                same = other.relation == row.relation and keys[:at] + keys[at + 1 :] == others[:at] + others[at + 1 :]
                if same and isinstance(own := others[at], Const):
                    taken.add(own.value)
        return taken

    def _wished(self, variable: Var, kinds: Kind) -> Iterator[Value]:
        columns = self._columns[variable]
        reaching = self._reach(variable)
        if self._counts.get(variable) == "count":
            yield from sorted({1, 2, 3, *(value for value in reaching if isinstance(value, int) and 0 < value < 300)})
            return
        if reaching:
            yield from times_of(columns, reaching)
            yield from reaching
        elif Kind.NULL in kinds and columns and not any(column.name in ("_value", "value") for _, column in columns):
            yield None
        if ("heat:property", "path") in [(name, column.name) for name, column in columns]:
            yield from self._optional_paths()
        columns = sorted(columns, key=lambda place: place[1].name in GENERAL)
        for name, column in columns:
            yield from self._hints.get((name, column.name), ())
            yield from typical_values(name, column, kinds)
        if not columns:
            yield from (1, "text")
        if Kind.NULL in kinds and columns:
            yield None

    def _optional_paths(self) -> Iterator[str]:
        """The paths of properties that may be null, of the rows of resources."""
        for relation, columns in self._of_row.items():
            name = relation_name(relation)
            if not name.startswith(RESOURCE_TABLES):
                continue
            below = name.partition(".")[2]
            steps = [below, *("0" for column in columns if column.name.startswith("_index"))] if below else []
            free = sorted(columns, key=lambda column: bool(column.allowed or column.custom))
            yield from (".".join([*steps, column.name]) for column in free if Kind.NULL in column.kinds)

    def _owners(self, kind: Var, bindings: Bindings) -> Iterator[str | None]:
        """The types of resources whose type is the variable, as other rows of them say."""
        subjects = [row.terms[0] for row in self._rows if self._cell(row, "type", bindings) == kind]
        for row in self._rows:
            relation = relation_name(row.relation)
            same = any(resolve(row.terms[0], bindings) == resolve(subject, bindings) for subject in subjects)
            if same and self._cell(row, "change", bindings) == Const("replace"):
                yield PORT
            if same and relation.startswith(RESOURCE_TABLES):
                yield self._catalogue.owner(relation.partition(".")[0])

    def _declared_paths(self, variable: Var, bindings: Bindings) -> Iterator[str]:
        """The properties of the type of the resource whose property has the variable as its path."""
        own = [row for row in self._rows if self._cell(row, "path", bindings) == variable]
        subjects = [self._cell(row, "id", bindings) for row in own]
        for row in self._rows:
            kind = self._cell(row, "type", bindings)
            if isinstance(kind, Const) and resolve(row.terms[0], bindings) in subjects:
                schema = self._catalogue.type(str(kind.value))
                yield from (declared.name for declared in (schema.properties if schema else ()) if declared.implemented)

    def _known_paths(self, variable: Var, bindings: Bindings) -> list[str]:
        """The properties of the resource with a path that is the variable, if rows of its type are read too."""
        own = [row for row in self._rows if self._cell(row, "path", bindings) == variable]
        subjects = [self._cell(row, "id", bindings) for row in own]
        tables = [relation_name(row.relation) for row in self._rows if resolve(row.terms[0], bindings) in subjects]
        owners = [self._catalogue.owner(table.partition(".")[0]) for table in tables]
        schemas = [self._catalogue.type(owner) for owner in owners if owner]
        return [declared.name for schema in schemas if schema for declared in schema.properties if declared.implemented]

    def _reach(self, variable: Var) -> tuple[Value, ...]:
        """The values that the conditions on a variable ask for, also through other variables."""
        if self._reaching is None:
            reaching: dict[Var, dict[Value, None]] = {}
            self._reaching = reaching
            self._spread_far(reaching, MOST_REACHING)
            apart = self._tell_apart(self._bindings)
            for term, texts in apart.items():
                reaching.setdefault(term, {}).update(dict.fromkeys(texts))
            if apart:
                self._spread_far(reaching, MOST_REACHING + MOST_APART)
        return tuple(self._reaching.get(variable, ()))

    def _spread_far(self, reaching: dict[Var, dict[Value, None]], most: int) -> None:
        """Pass values through the conditions until none is new. A variable has a maximum number of them."""
        for _ in range(ROUNDS):
            if not self._spread(reaching, most):
                return

    def _spread(self, reaching: dict[Var, dict[Value, None]], most: int) -> bool:
        """Pass values through each condition once; whether any is new."""
        grown = False
        for condition in self._conditions:
            for term, value in list(self._passed(condition, reaching, self._bindings)):
                if not isinstance(term, Var) or value is None:
                    continue
                values = reaching.setdefault(term, {})
                if value not in values and len(values) < most:
                    values[value] = None
                    grown = True
        return grown

    def _tell_apart(self, bindings: Bindings) -> Mapping[Var, Sequence[str]]:
        """Texts that meet all tests of a variable, where there are several: few usual texts do."""
        tests: dict[Var, dict[tuple[str, bool], None]] = {}
        for condition in self._conditions:
            literal = condition.literal
            if not isinstance(literal, Call) or len(literal.inputs) < 2:
                continue
            term, other = (resolve(side, bindings) for side in literal.inputs[:2])
            text = other.value if isinstance(other, Const) else None
            if isinstance(term, Var) and isinstance(text, str) and (pattern := write_pattern(literal.builtin, text)):
                found = tests.setdefault(term, {})
                found[pattern, condition.holds] = None
                rivals = (write_pattern(literal.builtin, rival) for rival in self._rivals.get(text, ()))
                found |= dict.fromkeys((rival, not condition.holds) for rival in rivals if rival)
        return {
            term: tell_apart(*(tuple(pattern for pattern, own in found if own is holds) for holds in (True, False)))
            for term, found in tests.items()
            if len(found) > 1
        }

    def _passed(
        self, condition: Condition, reaching: Mapping[Var, Mapping[Value, None]], bindings: Bindings
    ) -> Iterator[tuple[Pattern, Value]]:
        """The values that a condition asks of its terms, by those of the others."""
        literal = condition.literal

        def values_of(term: Pattern) -> list[Value]:
            term = resolve(term, bindings)
            return [term.value] if isinstance(term, Const) else list(reaching.get(term, ())) if term else []

        if isinstance(literal, Compare):
            for side, _, other in literal.from_each_side:
                for value in values_of(other):
                    for near in neighbours(value):
                        yield resolve(side, bindings), near
            return
        inputs = [values_of(term) for term in literal.inputs]
        results = values_of(literal.outputs[0]) if literal.outputs else []
        others = [next(iter(values), None) for values in inputs]
        for at, term in enumerate(literal.inputs):
            for result in [*results[:4], *results[4:][-4:]] or [None]:  # the first and the newest
                for value in invert(literal.builtin, at, others, result, condition.holds):
                    yield resolve(term, bindings), value
        if literal.outputs and all(inputs):
            for value in _compute(literal.builtin, inputs):
                yield resolve(literal.outputs[0], bindings), value

    def _stacks(self, variable: Var, bindings: Bindings) -> Sequence[Value]:
        for holder, inner in self._holders:
            for row in self._rows:
                outer = self._cell(row, "stack", bindings) if relation_name(row.relation) == "heat:resource" else None
                if outer is None or self._cell(row, "id", bindings) != resolve(holder, bindings):
                    continue
                inner = resolve(inner, bindings)
                if variable == outer and isinstance(inner, Const) and "/" in str(inner.value):
                    return (str(inner.value).rpartition("/")[0],)
                if variable == inner and isinstance(outer, Const):
                    return (f"{outer.value}/{0 if '/' in str(outer.value) else 'group'}",)
        words = [value for value in self._reach(variable) if isinstance(value, str)]
        names = (word if word[:1].isalpha() else f"a{word}" for word in words)
        is_cloud = any(is_all(row.relation) for row in self._rows)  # its stacks have projects of their own
        nested = () if is_cloud else (f"{ROOT}/group",)
        usual = (*nested, ROOT) if variable in self._nested else (ROOT, *nested)
        return *usual, "other", *(name for name in names if re.fullmatch(r"[A-Za-z][\w.-]*", name))

    def _resources(self, variable: Var, bindings: Bindings) -> Sequence[Value]:
        for holder, inner in self._holders:
            inside = resolve(inner, bindings)
            if resolve(holder, bindings) == variable and isinstance(inside, Const) and "/" in str(inside.value):
                return (ResourceId(str(inside.value)),)
        stack, name, kind = ROOT, None, variable.name.lower() or "resource"
        for row in self._rows:
            relation = relation_name(row.relation)
            if relation == "heat:member" and self._cell(row, "id", bindings) == variable:
                inside = self._cell(row, "group", bindings)
                group = inside.value if isinstance(inside, Const) else None
                index = self._cell(row, "index", bindings)
                asked = [at for at in (self._reach(index) if isinstance(index, Var) else ()) if isinstance(at, int)]
                places = (*(at for at in asked if 0 <= at < MOST_MEMBERS), *range(3))
                return [ResourceId(f"{group.path}/{at}") for at in places] if isinstance(group, ResourceId) else ()
            if resolve(row.terms[0], bindings) != variable:
                continue
            given = self._cell(row, "_stack", bindings) or self._cell(row, "stack", bindings)
            if isinstance(given, Const) and relation != "heat:nested":
                stack = str(given.value)
            if relation == "heat:resource" and isinstance(own := self._cell(row, "name", bindings), Const):
                name = str(own.value)
            if relation.startswith(RESOURCE_TABLES):
                kind = relation.rpartition(":")[2].partition(".")[0]
        if name is not None:
            return (ResourceId(f"{stack}/{name}"),)
        if "/" in stack:
            return [ResourceId(f"{stack}/{at}") for at in range(3)]
        taken = {term.value for term in bindings.values() if isinstance(term, Const)}
        names = (kind, *(f"{kind}_{at}" for at in range(2, 20)))
        free = next((path for word in names if (path := ResourceId(f"{stack}/{word}")) not in taken), None)
        return (free,) if free else ()

    def _cell(self, row: InputRow, name: str, bindings: Bindings) -> Operand | None:
        at = self._places[row.relation].get(name)
        return None if at is None else resolve(row.terms[at], bindings)


def _may_stay_open(columns: Sequence[tuple[str, Column]]) -> bool:
    """Whether a variable is a property that only one row has, and so needs no value if no condition is on it."""
    (name, column), *others = columns
    is_property = name.startswith(RESOURCE_TABLES) and not column.name.startswith("_")
    return not others and (is_property or (name == "heat:stack" and column.name in ("version", "description", "name")))


def _compute(builtin: str, inputs: Sequence[Sequence[Value]]) -> Iterator[Value]:
    """The results for some of the inputs."""
    for at in range(min(6, max(map(len, inputs)))):
        try:
            yield builtins.compute(builtin, [values[at % len(values)] for values in inputs])
        except builtins.EvaluationError:
            continue
