"""Inference of kinds and nullability for all columns and variables."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.program import variables
from datalog_gate.analysis.safety import binds
from datalog_gate.analysis.strata import settle
from datalog_gate.base.diagnostics import Advice, Code, Diagnostic, Severity, Span
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import NO_KIND, NOT_NULL, Kind, kind_of
from datalog_gate.schema.declaration import Column, Relation, RelationRef, relation_name
from datalog_gate.schema.signatures import CALLS, INTERPOLATE, KIND_TESTS

BUT_NULL, BUT_MIXED = ~Kind.NULL, ~Kind.MIXED
ORDERED = Kind.NUMBER | Kind.STRING
NEVER_MEET = "the two are never equal: compare values of the same kind"
ADVICE = {
    (Kind.STRING, Kind.NUMBER): "write it in quotes",
    (Kind.NUMBER, Kind.STRING): "write the number without quotes",
    (Kind.BOOLEAN, Kind.STRING): "write true or false without quotes",
    (Kind.BOOLEAN, Kind.NUMBER): "write true or false",
    (NO_KIND, Kind.STRING): "a constant is never a resource: join with the _id of another relation",
    (Kind.STRING, Kind.NULL): "it is never null: remove the test",
    (Kind.NUMBER, Kind.NULL): "it is never null: remove the test",
}
ORDERING = frozenset({"min2", "max2", "max", "lt", "lteq", "gt", "gteq"})
"""The builtins whose inputs must be of one kind."""
TAKEN_BY_AGGREGATES = {"sum": Kind.NUMBER, "avg": Kind.NUMBER, "min": ORDERED, "max": ORDERED}
Kinds = dict[ir.Var, Kind]


def infer(
    rules: Sequence[ir.CheckedRule],
    relations: Mapping[RelationRef, Relation],
    fixed: Iterable[str],
    given: Container[str],
    congress: Container[str],
) -> Inference:
    """Infer the kinds of all columns. The rules of `fixed` relations, which are declared, must fit the declarations.

    During inference columns of several kinds are marked as `MIXED`: a rule must say which kind it means, unless its
    module is in `congress`. Columns of `given` relations are not marked, since the caller chose their facts.
    """
    derived = {rule.relation for rule in rules}
    fixed = frozenset(fixed)
    kinds: dict[RelationRef, list[Kind]] = {}
    for name, relation in relations.items():
        kinds[name] = [column.kinds for column in relation.columns]
        if relation_name(name) not in given and (name not in derived or relation.name in fixed):
            kinds[name] = [kind | Kind.MIXED if (kind & NOT_NULL).bit_count() > 1 else kind for kind in kinds[name]]
    inference = Inference(dict(relations), kinds, fixed, congress)
    settle(rules, inference.spread)
    inference.judging = True
    for rule in rules:
        inference.judge(rule)
    inference.relations = {name: _with_kinds(relation, kinds[name]) for name, relation in relations.items()}
    return inference


def _with_kinds(relation: Relation, kinds: Sequence[Kind]) -> Relation:
    kinds = [kind & BUT_MIXED for kind in kinds]
    if kinds == [column.kinds for column in relation.columns]:
        return relation
    columns = zip(relation.columns, kinds, strict=True)
    same = (column if column.kinds == kind else replace(column, kinds=kind) for column, kind in columns)
    return replace(relation, columns=tuple(same))


@dataclass(slots=True)
class Inference:
    """The inference over some rules: first kinds spread, then each rule is checked, with `judging` set."""

    relations: dict[RelationRef, Relation]
    kinds: Mapping[RelationRef, list[Kind]]
    """The kinds of the columns, as far as they have spread."""
    fixed: frozenset[str]
    congress: Container[str]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    judging: bool = False
    _asks_for_kinds: bool = True
    """Whether the checked rule must say which of several kinds it means."""
    _mismatched: set[ir.Var] = field(default_factory=set)

    def spread(self, rule: ir.CheckedRule) -> bool:
        """Add the kinds of a rule's head to its relation; return whether a column changed."""
        if self.relations[rule.relation].name in self.fixed:
            return False
        kinds = self._narrow_all(rule.body, {})
        columns = self.kinds[rule.relation]
        before = list(columns)
        for at, argument in enumerate(rule.arguments):
            columns[at] |= self._kind(argument, kinds)
        return columns != before

    def judge(self, rule: ir.CheckedRule) -> None:
        self._mismatched.clear()
        self._asks_for_kinds = relation_name(rule.relation).rpartition(":")[0] not in self.congress
        kinds = self._settle(rule.body, {})
        relation = self.relations[rule.relation]
        if relation.name not in self.fixed:
            return
        for column, wanted, argument in zip(relation.columns, self.kinds[rule.relation], rule.arguments, strict=True):
            given = self._kind(argument, kinds)
            if given & ~wanted:
                if not given & wanted:
                    self._mismatch(f"the column {column.name} of {relation.name} is", wanted, given, rule.span)
                elif Kind.NULL in given & ~wanted:
                    message = f"the column {column.name} of {relation.name} may become null"
                    self._report("nullable", message, rule.span, "add `!= null`, or declare the column `... or null`")

    def _settle(self, body: Sequence[ir.CheckedLiteral], outer: Mapping[ir.Var, Kind]) -> Kinds:
        kinds = self._narrow_all(body, outer)
        for literal in body:
            self._judge(literal, kinds)
            if isinstance(literal, ir.Call) and literal.builtin == "??" and self._asks_for_kinds:
                self._judge_default(literal, body, kinds)
        return kinds

    def _narrow_all(self, body: Sequence[ir.CheckedLiteral], outer: Mapping[ir.Var, Kind]) -> Kinds:
        kinds: Kinds = dict(outer)
        binders = _binders(body, outer)
        before = None
        while kinds != before:
            before = dict(kinds)
            for literal in body:
                self._narrow(literal, kinds, binders)
        return kinds

    def _narrow(self, literal: ir.CheckedLiteral, kinds: Kinds, binders: dict[ir.Var, int]) -> None:
        match literal:
            case ir.Match():
                columns = self._columns(literal)
                for at, argument in literal.column_terms:
                    if isinstance(argument, ir.Var):
                        self._meet(kinds, argument, columns[at], binders[argument] > 1)
            case ir.Compare("=" | "!="):
                for term, _, other in literal.from_each_side:
                    if isinstance(term, ir.Var) and literal.comparator == "=":
                        self._meet(kinds, term, self._kind(other, kinds), binders[term] > 1)
                    elif isinstance(term, ir.Var) and other == ir.Const(None):
                        kinds[term] = kinds.get(term, Kind.ANY) & ~Kind.NULL
            case ir.Call(builtin, (ir.Var() as tested,)) if builtin in KIND_TESTS:
                kinds[tested] = kinds.get(tested, Kind.ANY) & KIND_TESTS[builtin]
            case ir.Without((ir.Call(builtin, (ir.Var() as tested,)),)) if builtin in KIND_TESTS:
                kinds[tested] = kinds.get(tested, Kind.ANY) & ~KIND_TESTS[builtin]
            case ir.Call():
                for column, output in zip(CALLS[literal.builtin].outputs, literal.outputs, strict=True):
                    if isinstance(output, ir.Var):
                        self._meet(kinds, output, self._given(literal, column, kinds), binders[output] > 1)
            case ir.Fold():
                judging, self.judging = self.judging, False
                inner = self._narrow_all(literal.body, kinds)
                self.judging = judging
                if literal.function in ("min", "max"):
                    given = self._kind(literal.terms[0], inner) & ORDERED
                else:
                    given = Kind.STRING if literal.function == "list" else Kind.NUMBER
                self._meet(kinds, literal.target, given, False)
            case ir.Without() | ir.Compare():
                pass

    def _columns(self, match: ir.Match) -> list[Kind]:
        """The kinds of the columns of a match. During checks, a column that no rule fills has any kind but null."""
        kinds = self.kinds[match.relation]
        return [kind or NOT_NULL for kind in kinds] if self.judging and NO_KIND in kinds else kinds

    @staticmethod
    def _meet(kinds: Kinds, var: ir.Var, given: Kind, joined: bool) -> None:
        if joined:
            given &= BUT_NULL
        before = kinds.get(var)
        if before is not given:  # every set of kinds is one object
            met = given if before is None else before & given
            kinds[var] = met if met & Kind.ANY else NO_KIND

    def _given(self, call: ir.Call, column: Column, kinds: Kinds) -> Kind:
        if call.builtin == "??":
            left, right = (self._kind(term, kinds) for term in call.inputs)
            return (left & ~Kind.NULL) | right
        if call.builtin == "+" and any(not self._kind(term, kinds) & Kind.NUMBER for term in call.inputs):
            return NOT_NULL  # reported once: results computed from the sum are not
        return column.kinds

    def _judge(self, literal: ir.CheckedLiteral, kinds: Kinds) -> None:
        match literal:
            case ir.Match():
                self._judge_match(literal, kinds)
            case ir.Compare():
                self._judge_compare(literal, kinds)
            case ir.Call():
                builtin, name = CALLS[literal.builtin], literal.builtin.partition(".")[0]
                before = len(self.diagnostics)
                for column, operand in zip(builtin.inputs, literal.inputs, strict=True):
                    if not builtin.total and (name != "+" or len(self.diagnostics) == before):
                        alike = self._alike(operand, literal.inputs, kinds) if name in ORDERING else column.kinds
                        self._need(operand, column.kinds, kinds, _takes(name), literal.span)
                        self._need_one(operand, alike, kinds, _takes(name), literal.span)
                if name in ORDERING and self._asks_for_kinds and len(self.diagnostics) == before:
                    self._judge_order(_takes(name), *literal.inputs, kinds=kinds, span=literal.span)
                for column, output in zip(builtin.outputs, literal.outputs, strict=True):
                    given = self._given(literal, column, kinds)
                    if output and given and not given & self._kind(output, kinds) and not self._is_reported(output):
                        message = f"{name_of(output)} can never equal the {given.describe()} that {name} returns"
                        self._report("kind-mismatch", message, literal.span, NEVER_MEET)
            case ir.Without():
                self._settle(literal.body, kinds)
            case ir.Fold():
                inner = self._settle(literal.body, kinds)
                wanted = TAKEN_BY_AGGREGATES.get(literal.function)
                given = self._kind(literal.terms[0], inner)
                if wanted and given and not given & wanted:
                    self._mismatch(_takes(literal.function), wanted, given, literal.span)
                elif wanted:
                    alike = self._alike(literal.terms[0], (), inner) if wanted == ORDERED else wanted
                    self._need_one(literal.terms[0], alike, inner, _takes(literal.function), literal.span)

    def _judge_default(self, call: ir.Call, body: Iterable[ir.CheckedLiteral], kinds: Kinds) -> None:
        """Report a default of another kind than the value, as in ``size ?? "0" > 5``, if the result is not merely
        shown."""
        (value, default), result = call.inputs, call.outputs[0]
        of_value, of_default = (self._kind(term, kinds) & NOT_NULL for term in (value, default))
        equations = [literal for literal in body if isinstance(literal, ir.Compare) and literal.equates_variables]
        names = {result}.union(*(sides for sides in map(ir.operands, equations) if result in sides))
        using = [literal for literal in body if literal is not call and not names.isdisjoint(variables(literal))]
        using = [literal for literal in using if literal not in equations or not names.issuperset(variables(literal))]
        if any(isinstance(literal, ir.Call) and literal.builtin in KIND_TESTS for literal in using):
            return
        ordered = any(isinstance(literal, ir.Call) or _orders(literal) for literal in using)
        if isinstance(default, ir.Const) and of_default and of_value and not of_value & of_default and using:
            message = f"the default {name_of(default)} is {of_default.describe()}, but {name_of(value)} is"
            message = f"{message} {of_value.describe()}"
            advice = _advice("", of_value, of_default, default)
            advice = "write a default of that kind" if advice == NEVER_MEET else advice
            severity: Severity = "error" if ordered else "warning"
            self.diagnostics.append(Diagnostic("kind-mismatch", message, call.span, advice, severity))

    def _judge_match(self, match: ir.Match, kinds: Kinds) -> None:
        columns, wanted = self.relations[match.relation].columns, self._columns(match)
        for at, argument in match.column_terms:
            given = self._kind(argument, kinds)
            if isinstance(argument, ir.Const):
                if not given & wanted[at]:
                    what = f"the column {columns[at].name} of {match.relation} is"
                    self._mismatch(what, wanted[at], given, match.span, argument)
            elif given == NO_KIND and not self._is_reported(argument):
                what = f"{columns[at].name} of {match.relation}, which is {wanted[at].describe()}"
                self._report("kind-mismatch", f"{name_of(argument)} can never equal {what}", match.span, NEVER_MEET)

    def _judge_compare(self, compare: ir.Compare, kinds: Kinds) -> None:
        left, right = self._kind(compare.left, kinds), self._kind(compare.right, kinds)
        if compare.comparator in ("=", "!="):
            common = left & right & (NOT_NULL if left & NOT_NULL and right & NOT_NULL else Kind.ANY)
            if not common and not compare.null_test and not self._is_reported(compare.left, compare.right):
                message = f"{name_of(compare.left)} and {name_of(compare.right)} are of different kinds and never equal"
                self._report("kind-mismatch", message, compare.span, NEVER_MEET)
            return
        what, sides = f"{compare.comparator} compares", (compare.left, compare.right)
        for operand, sign, other in compare.from_each_side:
            self._need(operand, ORDERED, kinds, what, compare.span, _widest(sign, other))
            self._need_one(operand, self._alike(operand, sides, kinds), kinds, what, compare.span)
        self._judge_order(what, *sides, kinds=kinds, span=compare.span)

    def _judge_order(self, what: str, first: ir.Operand, second: ir.Operand, *, kinds: Kinds, span: Span) -> None:
        """Report an order comparison of two operands that never have the same kind."""
        left, right = self._kind(first, kinds), self._kind(second, kinds)
        if left & ORDERED and right & ORDERED and not left & right & ORDERED:
            self._mismatch(what, left & ORDERED, right, span, second)

    def _is_reported(self, *operands: ir.Operand) -> bool:
        """Whether a mismatch of one of the variables was reported before. Marks them as reported."""
        named = {operand for operand in operands if isinstance(operand, ir.Var)}
        is_reported = bool(named & self._mismatched)
        self._mismatched |= named
        return is_reported

    def _need(
        self, operand: ir.Operand, wanted: Kind, kinds: Kinds, what: str, span: Span, default: str = "..."
    ) -> None:
        given = self._kind(operand, kinds)
        if given and not given & wanted:
            self._mismatch(what, wanted, given, span, operand)
        elif Kind.NULL in given and Kind.NULL not in wanted:
            name = name_of(operand)
            message = f"{name} may be null here"
            if isinstance(operand, ir.Var) and not operand.name:  # of `??`
                advice = f"write a default that is not null, `{default}`, for which the rule matches"
                self._report("nullable", message, span, advice)
                return
            condition = f"{name} != null"
            advice = Advice(
                f"give a default for which the rule matches, `{name} ?? {default}`; with `{condition}` a missing value "
                "passes",
                Code(default, "default", name),
                Code(condition, "condition"),
            )
            self._report("nullable", message, span, advice)

    def _need_one(self, operand: ir.Operand, wanted: Kind, kinds: Kinds, what: str, span: Span) -> None:
        """Report an operand that may have an unwanted kind which templates choose."""
        given = self._kind(operand, kinds) & ~Kind.NULL
        if given & Kind.MIXED and given & wanted and given & ~wanted & ~Kind.MIXED and self._asks_for_kinds:
            name, others = name_of(operand), (given & ~wanted & ~Kind.MIXED).describe()
            is_plain = isinstance(operand, ir.Var) and operand.name and Kind.NULL not in self._kind(operand, kinds)
            new = name if is_plain else "x"
            code = [f"{test}({new})" for test, kind in KIND_TESTS.items() if kind & wanted & given]
            tests = " or ".join(f"`{test}`" for test in code)
            message = f"{what} {(wanted & given).describe()}, but {name} may be {others} here"
            words = f"add {tests}" if is_plain else f"give it a name or a default, `x = ...`, and add {tests}"
            self._report("unguarded", message, span, Advice(words, *[Code(test, "condition") for test in code]))

    def _alike(self, operand: ir.Operand, beside: Iterable[ir.Operand], kinds: Kinds) -> Kind:
        """The one kind of operands that are compared by order: number or string if all can have it, else the first."""
        common = self._kind(operand, kinds) & ORDERED
        for other in beside:
            common = common & self._kind(other, kinds) or common
        return common & Kind.NUMBER or common

    def _kind(self, operand: ir.Pattern, kinds: Mapping[ir.Var, Kind]) -> Kind:
        if isinstance(operand, ir.Const):
            return kind_of(operand.value)
        return kinds.get(operand, Kind.ANY) if operand else Kind.ANY

    def _mismatch(self, what: str, wanted: Kind, given: Kind, span: Span, operand: ir.Operand | None = None) -> None:
        message = f"{what} {wanted.describe()}, not {given.describe()}"
        self._report("kind-mismatch", message, span, _advice(what, wanted, given & ~Kind.MIXED, operand))

    def _report(self, code: str, message: str, span: Span, suggestion: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, suggestion))


def _takes(name: str) -> str:
    return "an f-text takes" if name == INTERPOLATE else f"{name} takes"


def _advice(what: str, wanted: Kind, given: Kind, operand: ir.Operand | None) -> str | None:
    """What to write in place of a value of the wrong kind."""
    if what == _takes("+") and Kind.STRING in given:
        return "join strings with the condition concat(left, right, text), and use text"
    if given & BUT_NULL == Kind.RESOURCE:
        return "resources have only = and !=: read a column of it, such as name"
    otherwise = None if what.endswith((" takes", " compares")) else NEVER_MEET
    plain = wanted & ~(Kind.RESOURCE | Kind.NULL)
    if plain == Kind.NUMBER and given == Kind.STRING:
        if isinstance(operand, ir.Var):
            return f"convert it with the condition int({name_of(operand)}, number), and use number"
        if not isinstance(operand, ir.Const) or not str(operand.value).strip().lstrip("-").isdecimal():
            return otherwise
    return ADVICE.get((plain, given), otherwise)


def _widest(sign: str, limit: ir.Operand) -> str:
    """A default that satisfies the comparison with the limit; for ports the widest."""
    if not isinstance(limit, ir.Const) or not isinstance(limit.value, int):
        return "..."
    if sign.startswith("<"):
        return "0" if limit.value > 0 else str(limit.value - (sign == "<"))
    return "65535" if 0 < limit.value < 65535 else str(limit.value + (sign == ">"))


def _binders(body: Sequence[ir.CheckedLiteral], outer: Iterable[ir.Var]) -> dict[ir.Var, int]:
    """Count the literals that bind each variable: several mean a join. The two sides of an equation share binders."""
    counts = dict.fromkeys(outer, 1)
    same: dict[ir.Var, set[ir.Var]] = {}
    for literal in body:
        if not isinstance(literal, ir.Compare):
            for var in variables(literal) if isinstance(literal, ir.Match) else binds(literal):
                counts[var] = counts.get(var, 0) + 1
        elif literal.comparator == "=":
            pair = {side for side in (literal.left, literal.right) if isinstance(side, ir.Var)}
            group = pair.union(*(same.get(var, ()) for var in pair))
            same.update(dict.fromkeys(group, group))
    return counts | {var: sum(counts.get(member, 0) for member in group) for var, group in same.items()}


def _orders(literal: ir.CheckedLiteral) -> bool:
    return isinstance(literal, ir.Compare) and literal.comparator not in ("=", "!=")
