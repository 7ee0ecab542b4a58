"""Valid rules that probably do not mean what they say, as warnings.

They may let stacks pass by mistake: ``starts_with("web-", name)`` asks whether `name` begins the constant, and ``min ??
65535 <= 22`` is false of a rule without a lower bound, which opens every port.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import (
    LONGEST,
    constants,
    name_of,
    quoted,
    read_day,
    read_network,
    takes_given,
    twins,
)
from datalog_gate.analysis.lint.allowed_values import OF_PROPERTIES
from datalog_gate.analysis.lint.builtin_inputs import ADDRESSES, OF_NETWORKS, find_addresses_in_order, find_bad_inputs
from datalog_gate.analysis.lint.port_ranges import Bounds, find_bounds, find_narrow_ranges
from datalog_gate.analysis.lint.units import Sizes, find_other_units, find_sizes
from datalog_gate.analysis.patterns import find_looseness
from datalog_gate.analysis.same_values import SameValues
from datalog_gate.base.diagnostics import Advice, Code, Diagnostic, Span, suggest_code
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Kind
from datalog_gate.schema.declaration import Relation, RelationRef, relation_name

WILD = re.compile(r"\^.+|.+\$|.*\.[*+].*|[\w./:-]+[*%]|[*%][\w./:-]+")
"""A text that looks like a pattern of a shell, of SQL or of `matches`."""
BESIDE_VALUES = ("heat:metadata", "heat:environment", "heat:condition")
"""Relations whose column `value` holds a template value of any kind."""
OF_ONE_RESOURCE = ("heat:deletion_policy", "heat:metadata", "heat:property", "heat:reference", "heat:update_policy")
NULLS = ("null", "None", "nil", "NULL", "Null")
LIKE_PATTERN = re.compile(r"\.[*+]|\[[^]]+\][*+]|\[\^?\w-\w\]|^\^|\$$|[\w-]\*$|\w\|\w|[A-Za-z-]%$")
INDEX = re.compile(r"\[(\d+)\]")
TIME_START = re.compile(r"\d{1,4}|\d{4}-[\d-]*(T[\d:+.]*)?")
TIME_PART = re.compile(r"[\dT:+.-]+")
A_NETWORK = "write an address, or a network such as 10.0.0.0/8"
HAYSTACK = {
    "starts_with": "whether {1} begins with {0}", "ends_with": "whether {1} ends with {0}",
    "contains": "whether {1} contains {0}", "matches": "whether the pattern {0} occurs in {1}",
}  # fmt: skip
"""Builtins that take the text first, with what they say if their arguments are swapped."""


def find_misuse(
    rules: Sequence[ir.CheckedRule],
    relations: Mapping[RelationRef, Relation],
    policies: Collection[RelationRef],
    congress: Collection[str],
) -> Iterator[Diagnostic]:
    """Check the rules, except those of `congress` modules, which have another language."""
    own = [rule for rule in rules if relation_name(rule.relation).rpartition(":")[0] not in congress]
    facts: dict[RelationRef, list[ir.CheckedRule]] = {}
    for rule in own:
        if not rule.body:
            facts.setdefault(rule.relation, []).append(rule)
    derived = {rule.relation for rule in rules}
    computed = {rule.relation for rule in rules if rule.body and not takes_given(rule)}
    lists = {name: rules for name, rules in facts.items() if name not in computed}
    bounds = {name: pairs for name, relation in relations.items() if (pairs := find_bounds(relation))}
    review = _Review(relations, facts, derived, lists, find_sizes(rules, relations), bounds)
    for rule in own:
        if not rule.body:
            yield from review.fact(rule)
            continue
        yield from review.body(rule.body, (), False)
        yield from review.null_joins(rule.body, rule.relation in policies)
    yield from review.other_kinds()


@dataclass(slots=True)
class _Review:
    relations: Mapping[RelationRef, Relation]
    facts: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    derived: Collection[RelationRef]
    lists: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    """The facts of the relations that contain only facts."""
    sizes: Sizes
    bounds: Mapping[RelationRef, Sequence[Bounds]]
    _values: dict[tuple[RelationRef, str], list[tuple[ir.Const, Span]]] = field(default_factory=dict)
    """The constants that are compared with a column of any kind, by relation and column."""

    def fact(self, rule: ir.CheckedRule) -> Iterator[Diagnostic]:
        for argument in rule.arguments:
            yield from _blanks(argument, rule.span)

    def body(
        self, body: Sequence[ir.CheckedLiteral], outer: Sequence[ir.CheckedLiteral], negated: bool
    ) -> Iterator[Diagnostic]:
        """Check a body; `outer` are the literals of the bodies around it."""
        around = (*outer, *body)
        if len(around) > LONGEST:
            return
        for literal in body:
            match literal:
                case ir.Match():
                    yield from self._match(literal, around)
                case ir.Compare("=" | "!=", left, right, span):
                    yield from _other_list(left, right, around, span)
                    yield from _blanks(left, span)
                    yield from _blanks(right, span)
                case ir.Compare(_, left, right, span):
                    yield from self._moment(left, right, around, span)
                    yield from find_addresses_in_order(literal, around, self.relations)
                case ir.Call():
                    yield from self._argument_order(literal, around)
                    yield from self._parts(literal, around)
                    yield from find_bad_inputs(literal, around, self.relations)
                    yield from self._case_of_result(literal, around)
                    yield from self._two_cases(literal, around)
                case ir.Without(inner):
                    yield from self._unjoined(inner, around)
                    yield from self.body(inner, around, True)
                case ir.Fold(function, _, inner):
                    yield from self._skipped(literal)
                    beside = [other for other in around if other is not literal]
                    yield from self._unjoined(inner, beside, function)
                    yield from self.body(inner, around, negated)
        yield from find_other_units(body, around, self.sizes, lambda term: self._listed(term, around))
        if not negated:
            yield from find_narrow_ranges(body, self.relations, self.bounds, partial(self._listed, around=body))

    def _skipped(self, fold: ir.Fold) -> Iterator[Diagnostic]:
        """Report a count that skips rows, since its first term is null in them."""
        first = fold.terms[0]
        keys = fold.terms[1:]
        if fold.function != "count" or not keys or not isinstance(first, ir.Var) or not first.name:
            return
        for literal in fold.body:
            if isinstance(literal, ir.Compare) and literal.null_test and first in (literal.left, literal.right):
                return
        places = [literal for literal in fold.body if isinstance(literal, ir.Match) and first in literal.arguments]
        columns = [self.relations[match.relation].columns[match.arguments.index(first)] for match in places]
        if columns and all(Kind.NULL in column.kinds for column in columns):
            written = ", ".join(name_of(term) for term in (*keys, first) if isinstance(term, ir.Var))
            message = f"count leaves out the rows in which its first term, {first.name}, is null"
            suggestion = f"write `count{{ {written} : ... }}`, or say `{first.name} != null`"
            yield _warning("set-aggregate", message, fold.span, suggestion)

    def _unjoined(
        self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral], function: str = ""
    ) -> Iterator[Diagnostic]:
        """Report a `not` about any resource's item or property, beside a variable for a resource; or an aggregate over
        the items of all resources."""
        match body:
            case (ir.Match(relation, arguments) as asked,):
                table, _, part = relation_name(relation).partition(".")
                columns = self.relations[relation].columns
                others = {var for literal in around for var in ir.variables(literal)}
                if any(term in others if function else isinstance(term, ir.Var) for term in arguments):
                    return
                if relation == "gate:unlocked" and arguments[1] is None:
                    yield from self._unlocked_for(asked, around)
                if not asked.column_terms or columns[0].kinds != Kind.RESOURCE or arguments[0] is not None:
                    return
                for near in around:
                    if isinstance(near, ir.Match) and near.arguments and isinstance(near.arguments[0], ir.Var):
                        other = relation_name(near.relation).partition(".")[0]
                        if table == other if part else relation in OF_ONE_RESOURCE and other.startswith("os:"):
                            name = name_of(near.arguments[0])
                            message = f"this asks whether any resource has such a row of {relation}, not whether"
                            message = f"{message} {name} has"
                            if function:
                                message = (
                                    f"this {function} takes the rows of {relation} of all resources, not of {name}"
                                )
                            yield _warning("cartesian", message, asked.span, f"add {columns[0].name}={name} to it")
                            return

    def _unlocked_for(self, asked: ir.Match, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        """Report a `not gate:unlocked` for any resource, beside a variable for a resource."""
        for near in around:
            match near:
                case ir.Match(relation, (ir.Var() as resource, *_)) if str(relation).startswith("os:"):
                    name = name_of(resource)
                    message = f"this asks whether the service is unlocked for any resource, not whether for {name}"
                    yield _warning("cartesian", message, asked.span, f"add resource={name} to it")
                    return

    def _match(self, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        relation = self.relations[match.relation]
        name = relation_name(match.relation)
        self._collect_values(match, around)
        yield from self._exchanged(match)
        for at, argument in match.column_terms:
            column = relation.columns[at]
            if isinstance(argument, ir.Const):
                yield from _blanks(argument, match.span)
            if not (relation.named_only or name in ("gate:now", "heat:resource") or column.name == "path"):
                continue
            given = [*constants(argument, match.span, around), *self._listed(argument, around)]
            texts = [(constant.value, span) for constant, span in given if isinstance(constant.value, str)]
            if name == "gate:now" and texts:
                message = f"the time is never {texts[0][0]!r}: it is written like 2027-03-01T12:00:00+00:00"
                yield _warning(
                    "unknown-value", message, texts[0][1], 'compare it, time >= "2027-03-01", or use days_until'
                )
            for text, span in texts:
                if name == "heat:resource" and column.name in ("stack", "name") and "::" in text:
                    message = f"{column.name} of {match.relation} is never {text!r}, which is a type"
                    yield _warning("unknown-value", message, span, suggest_code(f'type="{text}"'))
                elif name == "heat:resource" and column.name == "name" and "/" in text:
                    message = f"name of {match.relation} is never {text!r}: a name contains no slash"
                    yield _warning("unknown-value", message, span, suggest_code(quoted(text.rpartition("/")[2])))
                elif column.name == "path" and INDEX.search(text) and name not in OF_PROPERTIES:
                    message = f"path of {match.relation} is never {text!r}"
                    written = INDEX.sub(r".\1", text)
                    yield _warning("unknown-value", message, span, suggest_code(quoted(written)))
                elif (relation.named_only or (name == "heat:resource" and at)) and not column.allowed:
                    if WILD.fullmatch(text) and not column.name.startswith("_"):
                        part = text.strip("^$").removesuffix(".*").strip("*%")
                        message = f"{text!r} is compared literally, not as a pattern"
                        suggestion = f'use starts_with({column.name}, "{part}") or matches'
                        yield _warning("loose-pattern", message, span, suggestion)
                    elif text in NULLS and Kind.NULL in column.kinds:
                        message = f"{text!r} is a string, but a property that a template leaves out is null"
                        yield _warning("unknown-value", message, span, "write null without quotes")
                    elif text and (advice := _other_address(column.custom, text)):
                        message = f"{column.name} of {match.relation} is never {text!r}"
                        yield _warning("unknown-value", message, span, advice)

    def _exchanged(self, match: ir.Match) -> Iterator[Diagnostic]:
        """Report two variables that have the names of each other's column."""
        columns, positions = self.relations[match.relation].columns, self.relations[match.relation].positions
        named = {term.name: at for at, term in match.column_terms if isinstance(term, ir.Var) and term.name}
        if all(positions.get(name, at) == at for name, at in named.items()):
            return
        for at, column in enumerate(columns):
            other = named.get(column.name, at)
            if other > at and named.get(columns[other].name) == at:
                pair = f"{column.name}={column.name}, {columns[other].name}={columns[other].name}"
                message = (
                    f"the variables {columns[other].name} and {column.name} are swapped: each is in the "
                    "column of the other"
                )
                yield _warning("by-position", message, match.span, f"write {pair}")

    def _collect_values(self, match: ir.Match, around: Sequence[ir.CheckedLiteral]) -> None:
        """Collect the constants that are compared with columns of any kind."""
        columns = self.relations[match.relation].columns
        for at, argument in match.column_terms:
            column = columns[at]
            if column.kinds == Kind.ANY and (match.relation in BESIDE_VALUES or column.name == "_value"):
                given = [*constants(argument, match.span, around), *self._listed(argument, around)]
                self._values.setdefault((match.relation, column.name), []).extend(given)

    def _listed(self, operand: ir.Pattern, around: Sequence[ir.CheckedLiteral]) -> list[tuple[ir.Const, Span]]:
        """The constants of lists and facts that the body joins with the variable."""
        listed: list[tuple[ir.Const, Span]] = []
        if not isinstance(operand, ir.Var):
            return listed
        for literal in around:
            if isinstance(literal, ir.Match) and literal.relation in self.lists and operand in literal.arguments:
                at = literal.arguments.index(operand)
                for fact in self.lists[literal.relation]:
                    if isinstance(argument := fact.arguments[at], ir.Const):
                        listed.append((argument, fact.span))
        return listed

    def other_kinds(self) -> Iterator[Diagnostic]:
        """Report constants for which a template may write an equivalent of another kind that nothing compares with."""
        for (relation, column), given in self._values.items():
            known = {constant.value for constant, _ in given}
            for constant, span in given:
                text = relation_name(relation) not in ("heat:environment", "heat:condition")
                for twin in twins(constant.value, text):
                    if twin not in known:
                        here, there = quoted(constant.value), quoted(twin)
                        what = "a string" if isinstance(constant.value, str) else "not a string"
                        message = f"{here} is {what}: a template with {there} passes"
                        code = f"{column.strip('_')} in [{there}, {here}]"
                        yield _warning("kind-mismatch", message, span, suggest_code(code, "`"))
                        break

    def _case_of_result(self, call: ir.Call, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        """Report a constant that `lower` or `upper` never returns."""
        change: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper}
        if call.builtin not in change or not call.outputs:
            return
        output = call.outputs[0]
        given = [*constants(output, call.span, around), *self._listed(output, around)]
        for literal in around:
            match literal:
                case ir.Call("starts_with" | "ends_with" | "contains", (text, ir.Const() as part), _, span):
                    given += [(part, span)] if text == output else []
        for constant, span in given:
            if isinstance(constant.value, str) and (written := change[call.builtin](constant.value)) != constant.value:
                message = f"{call.builtin} never returns {constant.value!r}"
                yield _warning("unknown-value", message, span, suggest_code(quoted(written)))

    def _two_cases(self, call: ir.Call, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        """Report a text that would have to be both lower and upper case."""
        if call.builtin != "lower" or not call.outputs:
            return
        same = SameValues(around)
        for literal in around:
            if isinstance(literal, ir.Call) and literal.builtin == "upper" and literal.outputs:
                output, other = call.outputs[0], literal.outputs[0]
                if isinstance(output, ir.Var) and isinstance(other, ir.Var) and same.of(output) == same.of(other):
                    message = "the results of lower and upper are equal only for text without letters"
                    yield _warning("unknown-value", message, call.span, "use lower for both")

    def _moment(
        self, left: ir.Operand, right: ir.Operand, around: Sequence[ir.CheckedLiteral], span: Span
    ) -> Iterator[Diagnostic]:
        for operand, other in ((left, right), (right, left)):
            if not any(
                isinstance(near, ir.Match) and near.relation == "gate:now" and operand in near.arguments
                for near in around
            ):
                continue
            given = [(other, span)] if isinstance(other, ir.Const) else self._listed(other, around)
            for constant, place in given:
                if isinstance(constant.value, str) and not read_day(constant.value):
                    message = f"{constant.value!r} is not a time: times are compared as text"
                    yield _warning("unknown-value", message, place, 'write it like "2027-03-01"')

    def _argument_order(self, call: ir.Call, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        name, inputs = call.builtin, call.inputs
        values = [[constant for constant, _ in constants(term, call.span, around)] for term in inputs]
        inputs = tuple(given[0] if len(given) == 1 else term for given, term in zip(values, inputs, strict=True))
        if name in OF_NETWORKS:
            for term in inputs:
                if isinstance(term, ir.Const) and isinstance(term.value, str) and not read_network(term.value):
                    yield Diagnostic(
                        "unknown-value", f"{quoted(term.value)} is not a network", call.span, A_NETWORK, "error"
                    )
        if len(inputs) < 2 or name not in (*HAYSTACK, "replace", "split", "cidr_contains", "ip_in_network"):
            return
        first, second = inputs[:2]
        if name in ("replace", "split"):
            if isinstance(first, ir.Const) and isinstance(second, ir.Var):
                message = f"{name} takes the text first, but its first argument is {quoted(first.value)}"
                yield _warning("argument-order", message, call.span, f"write {name}({name_of(second)}, ...)")
            return
        if name in HAYSTACK:
            swapped = isinstance(first, ir.Const) or (self._listed(first, around) and not self._listed(second, around))
            if swapped and isinstance(second, ir.Var):
                shown = quoted(first.value) if isinstance(first, ir.Const) else name_of(first), name_of(second)
                message = f"{name} takes the text first: this does not test {HAYSTACK[name].format(*shown)}"
                yield _warning("argument-order", message, call.span, suggest_code(f"{name}({shown[1]}, {shown[0]})"))
            return
        network, inner = (first, second) if name == "cidr_contains" else (second, first)
        if not (isinstance(inner, ir.Const) and isinstance(network, ir.Var)):
            return
        several = read_network(str(inner.value))
        if several and 0 < several.prefixlen < several.max_prefixlen:
            order = (quoted(inner.value), name_of(network))
            written = ", ".join(order if name == "cidr_contains" else order[::-1])
            message = f"this holds if {order[1]} contains all of {order[0]}, not if {order[1]} is within {order[0]}"
            yield _warning("argument-order", message, call.span, suggest_code(f"{name}({written})"))

    def _parts(self, call: ir.Call, around: Sequence[ir.CheckedLiteral]) -> Iterator[Diagnostic]:
        """Check the texts that a builtin searches for: constants, or facts."""
        if call.builtin not in HAYSTACK:
            return
        text, part = call.inputs
        listed = self._listed(part, around)
        of_time = any(
            isinstance(literal, ir.Match) and literal.relation == "gate:now" and text in literal.arguments
            for literal in around
        )
        for constant, span in (*constants(part, call.span, around), *listed):
            if not isinstance(constant.value, str):
                continue
            shown = quoted(constant.value)
            if call.builtin == "matches":
                if (listed or isinstance(part, ir.Var)) and (loose := find_looseness(constant.value)):
                    yield _warning("loose-pattern", loose[0], span, loose[1])
            elif of_time and not (TIME_START if call.builtin == "starts_with" else TIME_PART).fullmatch(constant.value):
                message = f"the time never has {shown}: it is written like 2027-03-01T12:00:00+00:00"
                yield _warning("unknown-value", message, span, 'compare it, time >= "2027-03-01", or use unpack_date')
            elif LIKE_PATTERN.search(constant.value):
                message = f"{call.builtin} looks for {shown} literally, not as a pattern"
                yield _warning("loose-pattern", message, span, "use matches, or remove the wildcards")

    def null_joins(
        self, body: Sequence[ir.CheckedLiteral], of_policy: bool, outer: Sequence[ir.CheckedLiteral] = ()
    ) -> Iterator[Diagnostic]:
        """Report a join of two columns that may both be null: with a fact that contains null, or, in the rule of a
        policy, between two derived relations. Elsewhere such a join is usually intended."""
        if len(outer) + len(body) > LONGEST:
            return
        yield from self._joined_nulls(body, of_policy, outer)
        for literal in body:
            if isinstance(literal, ir.Nesting):
                yield from self.null_joins(literal.body, of_policy, (*outer, *body))

    def _joined_nulls(
        self, body: Sequence[ir.CheckedLiteral], of_policy: bool, outer: Sequence[ir.CheckedLiteral]
    ) -> Iterator[Diagnostic]:
        nullable = sum(
            Kind.NULL in self.relations[literal.relation].columns[at].kinds
            for literal in (*body, *outer)
            if isinstance(literal, ir.Match)
            for at, _ in literal.column_terms
        )
        if nullable < 2:
            return
        tested = {
            side
            for literal in (*outer, *body)
            if isinstance(literal, ir.Compare) and literal.comparator == "!=" and literal.null_test
            for side in (literal.left, literal.right)
        }
        same = SameValues((*outer, *body))
        tested = {same.of(side) for side in tested}
        places: dict[ir.Operand, list[tuple[ir.Match, int]]] = {}
        for literal in (*body, *outer):
            if isinstance(literal, ir.Match):
                for at, argument in literal.column_terms:
                    if isinstance(argument, ir.Var) and (value := same.of(argument)) not in tested:
                        places.setdefault(value, []).append((literal, at))
        own = {id(literal) for literal in body}
        for var, several in places.items():
            if len(several) > 1 and any(id(match) in own for match, _ in several):
                yield from self._null_join(var, several, of_policy and not outer)

    def _null_join(
        self, var: ir.Operand, places: Sequence[tuple[ir.Match, int]], of_policy: bool
    ) -> Iterator[Diagnostic]:
        columns = [self.relations[match.relation].columns[at] for match, at in places]
        if not all(Kind.NULL in column.kinds for column in columns):
            return
        name = name_of(var)
        stated = [match for match, at in places if self._states_null(match.relation, at)]
        if stated:
            message = (
                f"{stated[0].relation} contains null, but null never joins: a row is not found where {name} is null"
            )
            suggestion = f"test for it, `({name} = null or ...)`, and leave null out of {stated[0].relation}"
            yield _warning("null-join", message, stated[0].span, suggestion)
        elif of_policy and all(match.relation in self.derived for match, _ in places):
            first, second = (match for match, _ in places[:2])
            names = dict.fromkeys(str(match.relation) for match in (first, second))
            message = f"{name} may be null in both rows of {' and '.join(names)}, but null never joins null"
            condition = f"{name} != null"
            suggestion = Advice(
                f'give it a default where it is derived, `{name} ?? "none"`, or add `{condition}` here',
                Code('"none"', "default", name),
                Code(condition, "condition"),
            )
            yield _warning("null-join", message, second.span, suggestion)

    def _states_null(self, relation: RelationRef, column: int) -> bool:
        """Whether a fact of the relation has a written null in the column."""
        return any(fact.arguments[column] == ir.Const(None) for fact in self.facts.get(relation, ()))


def _other_address(custom: str, text: str) -> str | None:
    """What to write instead of a text that a property with that custom constraint never has; None if it may."""
    if custom not in ADDRESSES:
        return None
    network = read_network(text)
    if network is None:
        return "write an address" if custom == "ip_addr" else A_NETWORK
    if custom == "ip_addr" and "/" in text:
        return f'write an address, or use cidr_contains("{text}", x) with a variable'
    if custom == "net_cidr" and "/" not in text:
        return suggest_code(quoted(f"{text}/{0 if int(network.network_address) == 0 else network.max_prefixlen}"))
    return None


def _other_list(
    left: ir.Operand, right: ir.Operand, around: Sequence[ir.CheckedLiteral], span: Span
) -> Iterator[Diagnostic]:
    """Report a text that `list` never returns: its items are sorted and joined by commas without blanks."""
    folds = [literal for literal in around if isinstance(literal, ir.Fold) and literal.function == "list"]
    same = SameValues(around) if folds else SameValues(())
    lists = {same.of(fold.target) for fold in folds}
    for term, other in ((left, right), (right, left)):
        if same.of(term) in lists and isinstance(other, ir.Const) and isinstance(other.value, str):
            meant = ",".join(sorted(part.strip() for part in other.value.split(",")))
            if meant != other.value:
                message = (
                    f"list never returns {quoted(other.value)}: it sorts its items and joins them with "
                    "commas without blanks"
                )
                yield _warning("unknown-value", message, span, suggest_code(quoted(meant)))


def _blanks(operand: ir.Pattern, span: Span) -> Iterator[Diagnostic]:
    if isinstance(operand, ir.Const) and isinstance(operand.value, str):
        stripped = operand.value.strip()
        if stripped and stripped != operand.value:
            message = f"{operand.value!r} has a blank at its {'start' if operand.value[0].isspace() else 'end'}"
            yield _warning("unknown-value", message, span, suggest_code(quoted(stripped)))


def _warning(code: str, message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic(code, message, span, suggestion, "warning")
