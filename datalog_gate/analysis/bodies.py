"""What a body says of its operands: classes of equal ones.

``a = b, b = "tcp"`` => `a` and `b` are one class, which must be "tcp".
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Mapping, Sequence
from functools import cached_property

from datalog_gate.analysis import program as ir
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Value
from datalog_gate.schema.declaration import RelationRef

Given = tuple[ir.Const, Span]
"""A constant that an operand must equal, and its place."""
Place = tuple[ir.Match, int]
"""A column: a match, and the position of the argument."""
Lists = Mapping[RelationRef, Sequence[ir.CheckedRule]]
"""The facts of relations that hold only facts."""


class BodyFacts:
    """The literals of a body, those with the bodies around it, and the classes of their equal operands.

    Operands are equal by equations, and by equal calls: ``n ?? 0`` is the same value wherever it occurs. `negated` says
    that the body is in a `not`.
    """

    def __init__(
        self,
        own: Sequence[ir.CheckedLiteral],
        outer: BodyFacts | None = None,
        lists: Lists | None = None,
        negated: bool = False,
    ) -> None:
        self.own, self.outer, self.negated = own, outer, negated
        self.around: Sequence[ir.CheckedLiteral] = (*outer.around, *own) if outer else own
        self._lists = lists or {}
        self._leaders: dict[ir.Operand, ir.Operand] = {**outer._leaders} if outer else {}
        self._computed: dict[Hashable, ir.Var] = {**outer._computed} if outer else {}
        self._join_equal()

    def within(self, inner: ir.Nesting) -> BodyFacts:
        """What the body of an aggregate or a negation in this one says."""
        return BodyFacts(inner.body, self, self._lists, self.negated or isinstance(inner, ir.Without))

    def leader(self, operand: ir.Operand) -> ir.Operand:
        """The operand that stands for the class."""
        while operand in self._leaders:
            operand = self._leaders[operand]
        return operand

    def constants(self, operand: ir.Pattern, span: Span) -> list[Given]:
        """The constants that an argument at the span is, or must be equal to."""
        if isinstance(operand, ir.Const):
            return [(operand, span)]
        return self._equal.get(self.leader(operand), []) if operand else []

    def listed(self, operand: ir.Pattern) -> list[Given]:
        """The constants of the lists and facts that the body joins with the operand."""
        if not isinstance(operand, ir.Var):
            return []
        rows = [(fact, at) for match, at in self.places(operand) for fact in self._lists.get(match.relation, ())]
        cells = ((fact.arguments[at], fact.span) for fact, at in rows)
        return [(term, span) for term, span in cells if isinstance(term, ir.Const)]

    def stated(self, operand: ir.Pattern, span: Span) -> list[Given]:
        """The constants that the operand must equal, by equations or by a list."""
        return [*self.constants(operand, span), *self.listed(operand)]

    def texts(self, operand: ir.Pattern, span: Span) -> list[tuple[str, Span]]:
        """The texts among what the operand must equal."""
        return [(given.value, at) for given, at in self.stated(operand, span) if isinstance(given.value, str)]

    def places(self, operand: ir.Operand) -> Sequence[Place]:
        """The columns that hold the variable."""
        return self._places.get(self.leader(operand), ())

    def classes(self) -> ItemsView[ir.Operand, Sequence[Place]]:
        """Each class of variables that columns hold, with these."""
        return self._places.items()

    def columns(self, operand: ir.Operand) -> list[Place]:
        """The columns that hold the variable, or its value before a default."""
        own, places = self.leader(operand), [*self.places(operand)]
        for call in self._defaults:
            if call.outputs[0] and self.leader(call.outputs[0]) == own:
                places += self.places(call.inputs[0])
        return places

    def defaults(self, operand: ir.Operand) -> dict[ir.Operand, Value]:
        """The classes of the operand, with None, and of ``operand ?? constant``, with the constant."""
        own = self.leader(operand)
        defaults: dict[ir.Operand, Value] = {own: None}
        for call in self._defaults:
            match call:
                case ir.Call(_, (value, ir.Const(default)), (ir.Var() as output,)) if self.leader(value) == own:
                    defaults[self.leader(output)] = default
        return defaults

    @cached_property
    def _defaults(self) -> list[ir.Call]:
        return [literal for literal in self.around if isinstance(literal, ir.Call) and literal.builtin == "??"]

    @cached_property
    def _equal(self) -> dict[ir.Operand, list[Given]]:
        equal: dict[ir.Operand, list[Given]] = {}
        for literal in self.around:
            match literal:
                case ir.Compare("=", ir.Var() as var, ir.Const() as constant, span):
                    equal.setdefault(self.leader(var), []).append((constant, span))
                case ir.Compare("=", ir.Const() as constant, ir.Var() as var, span):
                    equal.setdefault(self.leader(var), []).append((constant, span))
        return equal

    @cached_property
    def _places(self) -> dict[ir.Operand, Sequence[Place]]:
        places: dict[ir.Operand, list[Place]] = {}
        for literal in self.around:
            if isinstance(literal, ir.Match):
                for at, term in literal.column_terms:
                    if isinstance(term, ir.Var):
                        places.setdefault(self.leader(term), []).append((literal, at))
        return {**places}

    def _join_equal(self) -> None:
        """Join the sides of equations, then the results of equal calls."""
        for literal in self.own:
            if isinstance(literal, ir.Compare) and literal.equates_variables:
                self._join(literal.left, literal.right)
        for literal in self.own:
            match literal:
                case ir.Call(name, inputs, (ir.Var() as output,)):
                    key = name, tuple(map(self.leader, inputs))
                    self._join(self._computed.setdefault(key, output), output)

    def _join(self, var: ir.Operand, other: ir.Operand) -> None:
        first, second = self.leader(var), self.leader(other)
        if first != second:
            self._leaders[second] = first
