"""Strategies for rules as text, with facts for them.

They draw what authors can write: named columns, `or`, `in`, `??`, texts and networks, negations with locals, aggregates
of several terms, recursion, constants, resources, and builtins that fail. Most of what is drawn can be loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import TypeVar

from hypothesis import strategies as st

from datalog_gate.base.values import FALSE, TRUE, Kind, ResourceId, Row, Value, kind_of, print_value

GivenRows = dict[str, list[Row]]
Choose = Callable[[int], int]
"""Chooses a number from 0 to below the one given; the lower, the simpler."""
T = TypeVar("T")
NULL, NUMBER, STRING = Kind.NULL, Kind.NUMBER, Kind.STRING
VALUES: Mapping[Kind, tuple[Value, ...]] = {
    NUMBER: (1, 2, 0, 3, -1, Decimal("2.5"), 600),
    STRING: ("a", "b", "", "A", "a,b", "web-1", "10.0.0.0/8", "10.1.0.0/16", "2", "ab"),
    Kind.BOOLEAN: (TRUE, FALSE),
    Kind.RESOURCE: (ResourceId("w/a"), ResourceId("a"), ResourceId("w/b")),
    NULL: (None,),
}
INPUTS: Mapping[str, Mapping[str, Kind]] = {
    "edge": {"start": Kind.ANY, "end": Kind.ANY},
    "size": {"of": Kind.RESOURCE, "gb": NUMBER | NULL},
    "server": {"id": Kind.RESOURCE, "name": STRING, "flavor": STRING | NULL, "disk": NUMBER, "on": Kind.BOOLEAN | NULL},
    "rule": {"cidr": STRING | NULL, "port": NUMBER | NULL},
    "mixed": {"value": NUMBER | STRING},
}
DECLARED = "".join(
    f"relation {name}({', '.join(f'{column}: {kinds.describe()}' for column, kinds in columns.items())})"
    f"{' key(of)' if name == 'size' else ''}.\n"
    for name, columns in INPUTS.items()
).replace("anything", "any")
MOST_ROWS = 5
TESTS = {
    "starts_with": (STRING, STRING), "ends_with": (STRING, STRING), "contains": (STRING, STRING),
    "cidr_contains": (STRING, STRING), "cidr_overlaps": (STRING, STRING), "equal": (NUMBER, NUMBER),
    "lt": (NUMBER, NUMBER), "gteq": (STRING, STRING),
}  # fmt: skip
FUNCTIONS = {
    "concat": ((STRING, STRING), STRING), "lower": ((STRING,), STRING), "upper": ((STRING,), STRING),
    "trim": ((STRING,), STRING), "len": ((STRING,), NUMBER), "replace": ((STRING, STRING, STRING), STRING),
    "abs": ((NUMBER,), NUMBER), "round": ((NUMBER,), NUMBER), "div": ((NUMBER, NUMBER), NUMBER),
    "max2": ((NUMBER, NUMBER), NUMBER), "min2": ((STRING, STRING), STRING), "plus": ((NUMBER, NUMBER), NUMBER),
    "cidr_host_count": ((STRING,), NUMBER), "int": ((STRING,), NUMBER), "float": ((STRING,), NUMBER),
}  # fmt: skip


@dataclass
class Scope:
    """The variables of a body so far, with their kinds."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)
    """Those that no relation gives: they can't go round in a recursion."""

    def inner(self) -> Scope:
        return Scope(dict(self.kinds), set(self.computed))


@dataclass
class Writer:
    """Draws rules. `relations` are those that can be read, with the kinds of their columns."""

    choose: Choose
    relations: dict[str, list[Kind]]
    own: str = ""
    numbers: count[int] = field(default_factory=lambda: count(1))
    grouped: bool = False
    """Whether a set is being written that a variable may group: each branch of an `or` would have to match it."""

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.choose(len(choices))]

    def rarely(self, one_in: int = 4) -> bool:
        return self.choose(one_in) == one_in - 1

    def new(self) -> str:
        return f"x{next(self.numbers)}"

    def constant(self, kinds: Kind) -> str:
        """A constant of one of the kinds that can be written."""
        pool = [value for kind, values in VALUES.items() if kind & kinds & ~Kind.RESOURCE for value in values]
        return print_value(self.pick(pool)) if pool else '"a"'

    def function(self, kinds: Kind, scope: Scope, depth: int) -> str:
        """A function of these kinds, or an f-text."""
        names = [name for name, known in scope.kinds.items() if not known & ~(NUMBER | STRING)]
        if kinds & STRING and names and self.rarely(3):
            return f'f"{self.pick(("", "a", "-{{"))}{{{self.pick(names)}}}{self.pick(("", "{" + names[0] + "}b"))}"'
        if kinds & STRING and self.rarely():
            pattern = self.pick(('"(a)"', '"^(.)"', '"([a-z]+)-([0-9])", 2', '"(a)|(b)", 2'))
            return f"capture({self.term(STRING, scope, depth)}, {pattern})"
        name = self.pick(sorted(name for name, (_, given) in FUNCTIONS.items() if given & kinds))
        return f"{name}({', '.join(self.term(taken, scope, depth) for taken in FUNCTIONS[name][0])})"

    def term(self, kinds: Kind, scope: Scope, depth: int = 2) -> str:
        """A term that can be of these kinds and is not null, NUMBER or STRING or both."""
        if depth and self.rarely(6):
            return self.function(kinds, scope, depth - 1)
        names = [name for name, known in scope.kinds.items() if known & kinds and not known & ~kinds & ~NULL]
        if not names or self.rarely(6):
            return self.constant(kinds)
        name = self.pick(names)
        text = f"{name} ?? {self.constant(kinds)}" if scope.kinds[name] & NULL else name
        if depth and kinds == NUMBER and self.rarely():
            other = self.term(NUMBER, scope, 0)
            return f"({text}) {self.pick('/+-*%/')} ({other})"
        return f"({text})" if " " in text and not depth else text

    def body(self, scope: Scope, depth: int, least: int = 1) -> list[str]:
        """Literals that the variables of the scope and their own make safe."""
        literals = [self.atom(scope) for _ in range(least)]
        kinds: list[Callable[[Scope, int], str]] = [
            self.test,
            self.atom,
            self.equation,
            self.compute,
            self.membership,
            self.call,
        ]
        kinds += [self.negation, self.aggregate, self.disjunction] if depth else []
        for _ in range(self.pick((1, 0, 2, 1, 3))):
            literals.append(self.pick(kinds)(scope, max(0, depth - 1)))
        words = re.findall(r"\bx\d+\b", " ".join(literals))
        for name in sorted(scope.computed & {word for word in words if words.count(word) == 1}):
            literals.append(f"{name} != {self.constant(scope.kinds[name])}")
        return [literals.pop(self.choose(len(literals))) for _ in range(len(literals))]

    def atom(self, scope: Scope, _: int = 0, fresh: bool = True) -> str:
        names = sorted(self.relations)
        name = self.pick(
            names + [other for other in names if other not in INPUTS] * 2 + [self.own] * (3 * bool(self.own))
        )
        columns = self.relations[name]
        terms: list[str] = []
        for kinds in columns:
            joined = [known for known, other in scope.kinds.items() if other & kinds & ~NULL]
            choice = self.choose(8)
            if joined and (choice in (3, 4) or not fresh):
                term = self.pick(joined)
                scope.kinds[term] &= kinds & ~NULL
            elif choice == 5 and kinds & ~Kind.RESOURCE:
                term = self.constant(kinds)
            elif choice == 6 and kinds & (NUMBER | STRING) and self.rarely():
                term = self.term(self.pick([kind for kind in (NUMBER, STRING) if kind & kinds]), scope)
            elif choice == 7 or not fresh:
                term = "_"
            else:
                term = self.new()
                scope.kinds[term] = kinds
            terms.append(term)
        if name in INPUTS and self.rarely(3):
            named = [f"{column}={term}" for column, term in zip(INPUTS[name], terms, strict=True) if term != "_"]
            return f"{name}({', '.join(named)})" if named else f"{name}({', '.join(terms)})"
        return f"{name}({', '.join(terms)})"

    def test(self, scope: Scope, _: int) -> str:
        wide = [name for name, known in scope.kinds.items() if known & NUMBER and known & STRING]
        if wide and self.rarely(2):
            name, kind = self.pick(wide), self.pick((NUMBER, STRING))
            scope.kinds[name] = kind
            return f"is_{kind.describe()}({name})"
        if self.rarely(3):
            name = self.pick(sorted(TESTS))
            return f"{name}({', '.join(self.term(kinds, scope) for kinds in TESTS[name])})"
        kinds = self.pick((NUMBER, NUMBER, STRING))
        return f"{self.term(kinds, scope)} {self.pick(('<', '<=', '>', '>='))} {self.term(kinds, scope)}"

    def equation(self, scope: Scope, _: int) -> str:
        if not scope.kinds:
            return "true"
        name = self.pick(list(scope.kinds))
        kinds, sign = scope.kinds[name], self.pick(("!=", "="))
        if kinds & NULL and self.rarely(3):
            if sign == "!=":
                scope.kinds[name] &= ~NULL
            return f"{name} {sign} null"
        others = [other for other, known in scope.kinds.items() if known & kinds & ~NULL and other != name]
        if others and not self.rarely(3):
            other = self.pick(others)
            if sign == "=":
                scope.kinds[name] = scope.kinds[other] = kinds & scope.kinds[other] & ~NULL
            return self.pick((f"{name} {sign} {other}", f"{other} {sign} {name}"))
        if not kinds & ~NULL & ~Kind.RESOURCE:
            return f"{name} = {name}"
        kind = self.pick([kind for kind in VALUES if kind & kinds & ~NULL & ~Kind.RESOURCE])
        if sign == "=":
            scope.kinds[name] = kind
        return f"{name} {sign} {self.constant(kind)}"

    def compute(self, scope: Scope, _: int) -> str:
        """A new variable, and what uses it."""
        new = self.new()
        choice = self.choose(4)
        if choice == 0 or not scope.kinds:
            text, kinds = self.term(NUMBER, scope), NUMBER
        elif choice == 1:
            old = self.pick(list(scope.kinds))
            text, kinds = old, scope.kinds[old]
        elif choice == 2:
            text, kinds = "null", NULL
        else:
            old = self.pick(list(scope.kinds))
            kinds = scope.kinds[old] & ~NULL or NUMBER
            text = f"{old} ?? {self.constant(kinds)}" if kinds & ~Kind.RESOURCE else old
        scope.computed.add(new)
        scope.kinds[new] = kinds
        literals = [self.pick((f"{new} = {text}", f"{text} = {new}")), self.equation(Scope({new: kinds}), 0)]
        return ", ".join(reversed(literals) if self.rarely() else literals)

    def call(self, scope: Scope, _: int) -> str:
        new = self.new()
        if self.rarely(6):
            inputs = [self.term(STRING, scope), self.pick(('","', '"a"', '"-"')), self.pick(("0", "1"))]
            name, kinds = "split", STRING
        else:
            name = self.pick(sorted(FUNCTIONS))
            inputs, kinds = [self.term(taken, scope) for taken in FUNCTIONS[name][0]], FUNCTIONS[name][1]
        known = [other for other, of in scope.kinds.items() if of & kinds]
        if known and self.rarely():
            return f"{name}({', '.join(inputs)}, {self.pick(known)})"
        if self.rarely():
            return f"{name}({', '.join(inputs)}, {self.constant(kinds)})"
        scope.kinds[new] = kinds
        scope.computed.add(new)
        return f"{name}({', '.join(inputs)}, {new}), {self.test(Scope({new: kinds}), 0)}"

    def membership(self, scope: Scope, _: int) -> str:
        if not scope.kinds:
            return "true"
        name = self.pick(list(scope.kinds))
        if not scope.kinds[name] & ~NULL & ~Kind.RESOURCE:
            return "true"
        items = [self.constant(scope.kinds[name]) for _ in range(self.pick((2, 1, 3)))]
        written = [kind for kind in (NUMBER, STRING) if scope.kinds[name] & kind]
        if written and self.rarely():
            items[0] = self.term(self.pick(written), scope)
        subject = self.function(self.pick(written), scope, 1) if written and self.rarely() else name
        return f"{subject} in [{', '.join(items)}]"

    def disjunction(self, scope: Scope, depth: int) -> str:
        if self.grouped:
            return "true"
        if self.rarely(2):  # each branch binds the same variable
            new, branches, bound = self.new(), [], Kind(0)
            for _ in range(2):
                name = self.pick(sorted(self.relations))
                at = self.choose(max(1, len(self.relations[name])))
                inner = scope.inner()
                terms = [new if column == at else "_" for column in range(len(self.relations[name]))]
                if not terms:
                    return "true"
                inner.kinds[new] = self.relations[name][at]
                bound |= self.relations[name][at]
                more = [self.test(inner, 0)] if self.rarely(2) else []
                branches.append(", ".join([f"{name}({', '.join(terms)})", *more]))
            scope.kinds[new] = bound
            return f"({' or '.join(branches)})"
        branches = [", ".join(self.body(scope.inner(), depth, self.choose(2))) or "true" for _ in range(2)]
        branches[1] = "false" if self.rarely() else branches[1]
        return f"({' or '.join(branches)})"

    def negation(self, scope: Scope, depth: int) -> str:
        if self.rarely(2):
            return f"not {self.atom(scope.inner(), fresh=False)}"
        body = ", ".join(self.body(scope.inner(), depth))
        return f"not ({once_to_any(body, scope)})"

    def aggregate(self, scope: Scope, depth: int) -> str:
        inner = scope.inner() if self.rarely(2) else Scope()
        before, grouped = set(inner.kinds), self.grouped
        self.grouped |= bool(before)
        body = self.body(inner, depth)
        self.grouped = grouped
        local = [name for name in inner.kinds if name not in before and name not in inner.computed]
        numbers = [name for name in local if inner.kinds[name] & ~NULL == NUMBER]
        if numbers and self.rarely(3):  # an error of some tuples, which other assignments may give
            body.append(f"{self.constant(NUMBER)} / ({self.pick(numbers)} ?? 0) < 9")
        function = self.pick(("count", "sum", "min", "max", "list", "avg", "sum", "count"))
        wanted = NUMBER if function in ("sum", "avg") else Kind.ANY
        firsts = [name for name in local if inner.kinds[name] & wanted and not inner.kinds[name] & ~wanted & ~NULL]
        if not firsts:
            function, firsts = "count", local or ["1"]
        first = self.pick(firsts)
        rest = [name for name in local if name != first]
        terms = [first, *(rest if self.rarely(2) else rest[: self.choose(2)])]
        if function == "sum" and self.rarely():
            terms[0] = f"({first} ?? 0) * 2" if inner.kinds.get(first, NUMBER) & NULL else f"{first} * 2"
        elif first in inner.kinds and not inner.kinds[first] & ~(NUMBER | STRING) and self.rarely():
            terms[0] = self.function(inner.kinds[first], inner, 1)
        distinct = "distinct " if self.rarely(2 if function in ("sum", "avg") else 6) else ""
        text = f"{function}{{ {distinct}{', '.join(terms)} : {', '.join(body)} }}"
        numeric = function in ("count", "sum", "avg")
        if numeric and self.rarely(3):
            return f"{text} {self.pick(('>', '=', '<', '!='))} {self.pick(('1', '0', '2'))}"
        new = self.new()
        scope.computed.add(new)
        scope.kinds[new] = (
            NUMBER if numeric else STRING if function == "list" else inner.kinds.get(first, NUMBER) & ~NULL
        )
        return f"{new} = {text}"

    def rule(self, name: str, width: int, recursive: bool) -> str:
        """A rule of the relation, whose columns take the kinds of the head."""
        scope = Scope()
        self.own = name if recursive and name in self.relations else ""
        hidden = {} if recursive else {name: self.relations.pop(name)} if name in self.relations else {}
        body = self.body(scope, 2, self.pick((1, 2)))
        self.relations |= hidden
        names = [variable for variable in scope.kinds if not recursive or variable not in scope.computed]
        head: list[str] = []
        columns = self.relations.setdefault(name, [Kind(0)] * width)
        for at in range(width):
            if names and not self.rarely(8):
                term = self.pick([*names, *[variable for variable in names if variable in scope.computed] * 2])
                given = scope.kinds[term]
            else:
                value = self.pick([value for values in VALUES.values() for value in values[:2]])
                value = "a" if isinstance(value, ResourceId) else value
                term, given = print_value(value), kind_of(value)
            if not recursive and given & ~NULL == NUMBER and self.rarely(6):
                term, given = f"({term} ?? 1) + 1" if given & NULL else f"{term} / 2", NUMBER
            elif not recursive and given == STRING and self.rarely(6):
                term = self.function(STRING, scope, 1)
            head.append(term)
            columns[at] |= given
        return f"{name}({', '.join(head)}) :- {', '.join(body)}."

    def program(self) -> str:
        """Rules of a few relations, each over those before it."""
        lines = []
        if self.rarely(2):
            lines += [f"flat({self.constant(NUMBER)}, {self.constant(STRING)})." for _ in range(self.pick((2, 1, 3)))]
            self.relations["flat"] = [NUMBER, STRING]
        for name in ("p", "q", "r", "s")[: 1 + self.choose(4)]:
            width, recursive = self.pick((1, 2, 2, 3)), self.rarely(3)
            lines += [self.rule(name, width, recursive and bool(at)) for at in range(self.pick((1, 2, 3)))]
        return "\n".join(lines)


def once_to_any(body: str, scope: Scope) -> str:
    """The body of a negation with `_` for each of its own variables that occurs once."""
    words = re.findall(r"\bx\d+\b", body)
    for word in set(words):
        if words.count(word) == 1 and word not in scope.kinds:
            body = re.sub(rf"\b{word}\b", "_", body)
    return body


def write_program(choose: Choose) -> str:
    """Draw the text of a module."""
    writer = Writer(choose, {name: list(columns.values()) for name, columns in INPUTS.items()})
    return DECLARED + writer.program()


def draw_rows(choose: Choose) -> GivenRows:
    """Draw rows of the inputs."""

    def value(kinds: Kind) -> Value:
        pool = [value for kind, values in VALUES.items() if kind & kinds for value in (*values[:2] * 2, *values)]
        return pool[choose(len(pool))]

    return {
        name: [tuple(map(value, columns.values())) for _ in range(choose(MOST_ROWS + 1))]
        for name, columns in INPUTS.items()
    }


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, GivenRows]:
    """The text of a module, and rows of its inputs."""

    def choose(size: int) -> int:
        return draw(st.integers(0, size - 1))

    return write_program(choose), draw_rows(choose)
