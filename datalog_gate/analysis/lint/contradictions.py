"""Bodies that no values satisfy: ``n > 10, n < 5``.

Other examples are ``f = "a", f = "b"`` and two values of a column in rows with the same key. All findings are certain.
`ranges` and `same_values` compute what each condition implies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations, product

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import LONGEST, Network, is_within, name_of, quoted, read_network
from datalog_gate.analysis.lint.ranges import FLIPPED, Bounded, Lists, Ranges
from datalog_gate.analysis.same_values import SameValues
from datalog_gate.analysis.strata import fixpoint
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.schema.cloud import LIVE
from datalog_gate.schema.declaration import Relation, RelationRef, is_old, relation_name

ORDERS: Mapping[str, str] = {"<": "<", ">": ">", "<=": "<=", ">=": ">=", "=": "=", "!=": "<>"}
"""The orders of two values (less, equal, greater) that satisfy each comparison."""
MOST_DEFAULTS = 4
"""The maximum number of defaults in a body whose cases are distinguished."""
_NETS = ("os:neutron:net", "os:neutron:provider_net")
REFERENCES: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("port", "port_id"), ("os:neutron:port",)),
    **dict.fromkeys(("network", "network_id"), _NETS),
    **dict.fromkeys(("subnet", "subnet_id"), ("os:neutron:subnet",)),
    **dict.fromkeys(("router", "router_id"), ("os:neutron:router",)),
    "security_group": ("os:neutron:security_group",),
    "floatingip_id": ("os:neutron:floating_ip",),
    "volume_id": ("os:cinder:volume",),
    "instance_uuid": ("os:nova:server",),
}
"""Properties that name a resource, with the relations of its types."""
OF_GATE: Mapping[str, Mapping[str, str]] = {
    "gate:grant": {"id": "grant"}, "gate:grant_scope": {"id": "grant"},
    "heat:nested": {"id": "resource with a nested stack"}, "heat:stack": {"parent": "resource with a nested stack"},
    "heat:scaling": {"id": "group"}, "heat:member": {"group": "group"},
}  # fmt: skip
"""Columns of other relations that hold resources, with what kind of resource."""
PLAIN = ("os:cinder:", "os:designate:", "os:glance:", "os:keystone:", "os:neutron:", "os:nova:", "os:octavia:")
"""The prefixes of relations of types that are none of these."""
Pairs = Sequence[tuple[ir.Match, ir.Match]]
"""Pairs of literals that match the same row."""
Naming = dict[int, tuple[str, str]]
"""By position, the columns that name a resource: their name, and the type of the resource."""
REFERRED = frozenset(table for tables in REFERENCES.values() for table in tables)


def find_contradictions(
    rules: Sequence[ir.CheckedRule],
    relations: Mapping[RelationRef, Relation],
    heads: Mapping[Span, Span],
    type_of: Callable[[str], str | None],
) -> Iterator[Diagnostic]:
    """Report rules that never hold, in all of their alternatives, and negations and aggregates whose body never holds.
    `heads` maps the span of each rule to that of its head's name; rules of other files are not reported. `type_of`
    returns the type of a relation of resources."""
    by_relation: dict[RelationRef, list[ir.CheckedRule]] = {}
    for rule in rules:
        by_relation.setdefault(rule.relation, []).append(rule)
    lists: Lists = {}
    for rule in rules:
        if relations[rule.relation].generated == "in":
            lists.setdefault(rule.relation, []).extend(term for term in rule.arguments if isinstance(term, ir.Const))
    review = _Contradictions(relations, by_relation, lists, type_of)
    ways: dict[tuple[RelationRef, Span], list[str | None]] = {}
    files = {span.file for span in heads}
    inputs = frozenset[RelationRef]().union(*(rule.mentioned for rule in rules)) - by_relation.keys()
    live = fixpoint(lambda some: _grown(some, rules), inputs)
    for rule in rules:
        if rule.body and rule.span.file in files:
            reasons = ways.setdefault((rule.relation, rule.span), [])
            if None not in reasons:  # another alternative of the rule may hold
                reasons.append(_nothing_in(rule.body, live) or review.contradiction(rule.body))
            review.inner_bodies(rule.body)
    for (_, span), reasons in ways.items():
        if all(reasons):
            message = f"this rule never holds: {reasons[0]}"
            suggestion = "correct the condition, or remove the rule"
            yield Diagnostic("never-fires", message, heads.get(span, span), suggestion, "warning")
    for (span, name), reasons in review.inner.items():
        if all(reasons):
            message = f"this {name} takes nothing: {reasons[0]}"
            suggestion = "correct the condition"
            if name == "not":
                message, suggestion = f"this `not` always holds: {reasons[0]}", f"{suggestion}, or leave the `not` out"
            yield Diagnostic("never-fires", message, span, suggestion, "warning")


def _grown(live: frozenset[RelationRef], rules: Iterable[ir.CheckedRule]) -> frozenset[RelationRef]:
    """The relations that have rows, and those that get rows by rules over these alone."""
    grown = set(live)
    for rule in rules:
        if rule.relation not in grown and not _nothing_in(rule.body, grown):
            grown.add(rule.relation)
    return frozenset(grown)


def _nothing_in(body: Sequence[ir.CheckedLiteral], live: Set[RelationRef]) -> str | None:
    """Why a body can't hold: it reads a relation that never has a row."""
    for literal in body:
        if isinstance(literal, ir.Match) and literal.relation not in live:
            return f"{literal.relation} never has a row"
    return None


@dataclass(slots=True)
class _Contradictions:
    relations: Mapping[RelationRef, Relation]
    rules: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    lists: Lists
    type_of: Callable[[str], str | None]
    bounded: Bounded = field(default_factory=dict)
    named: dict[RelationRef, Naming] = field(default_factory=dict)
    inner: dict[tuple[Span, str], list[str | None]] = field(default_factory=dict)
    """Why the body of an aggregate or a negation never holds beside the literals around it, by the place and the
    function, or ``not``."""

    def inner_bodies(self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral] = ()) -> None:
        """Collect the reasons for the negations and aggregates of a body, including nested ones. `around` are the
        literals of the bodies around it."""
        if len(around) + len(body) > LONGEST:
            return
        for literal in body:
            if isinstance(literal, ir.Nesting):
                name = literal.function if isinstance(literal, ir.Fold) else "not"
                nests = any(isinstance(inner, ir.Nesting) for inner in literal.body)
                if not nests and None in self.inner.get((literal.span, name), ()):
                    continue  # it may hold beside another alternative
                beside = (*around, *(other for other in body if other is not literal))
                reason = self.contradiction((*beside, *literal.body))
                if reason and self.contradiction(beside):
                    continue  # the error is in the literals beside it
                self.inner.setdefault((literal.span, name), []).append(reason)
                if reason is None:
                    self.inner_bodies(literal.body, beside)

    def contradiction(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        """Why no values satisfy the conjunction, or None."""
        return self._no_row(body) or self._of_literals(body)

    def _no_row(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        """Why no rule of a relation derives a row with these constants. A body of one literal may be a query and is
        allowed to ask for it."""
        if len(body) == 1:
            return None
        for literal in body:
            match literal:
                case ir.Match(relation) if relation in self.rules and relation not in self.lists:
                    wanted = [(at, term) for at, term in literal.column_terms if isinstance(term, ir.Const)]
                    if wanted and not any(_may_derive(wanted, rule) for rule in self.rules[relation]):
                        shown = ", ".join(quoted(term.value) for _, term in wanted)
                        return f"no rule gives {relation_name(relation)} a row with {shown}"
        return None

    def _of_literals(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        body = (*body, *self._implied(body))
        reason = self._reason(body)
        has_defaults = reason is None and any(map(_is_default, body))
        cases = _defaults(body, self._doubles(body)) if has_defaults else []
        if 0 < len(cases) <= MOST_DEFAULTS:
            reasons = [self._reason((*body, *case)) for case in _cases_of_defaults(cases)]
            reason = reasons[0] if all(reasons) else None
        return reason

    def _implied(self, body: Sequence[ir.CheckedLiteral]) -> list[ir.Match]:
        """The rows that the rows of resources imply: ``os:nova:server.tags(_id=x)`` implies one of the server, and one
        of `heat:resource`."""
        implied: dict[tuple[RelationRef, ir.Operand], ir.Match] = {}
        named = ir.mentioned(body)
        if not any("." in str(name) or name in ("heat:resource", "heat:stack", "heat:property") for name in named):
            return []
        for literal in body:
            if not isinstance(literal, ir.Match) or not isinstance(literal.relation, str) or not literal.arguments:
                continue
            described = self.relations[literal.relation]
            resource = literal.arguments[0] or ir.Var("", f"row at {literal.span}")
            table, _, part = literal.relation.partition(".")
            if not described.named_only or described.columns[0].name != "_id" or not isinstance(resource, ir.Var):
                continue
            place = described.positions.get("_stack", 0)
            stack = literal.arguments[place] if place else None
            if "heat:resource" in named and (owner := self.type_of(table)):
                of: dict[str, ir.Pattern] = {"id": resource, "type": ir.Const(owner), "stack": stack}
                row = tuple(of.get(column.name) for column in self.relations["heat:resource"].columns)
                implied["heat:resource", resource] = ir.Match("heat:resource", row, literal.span)
            if "heat:stack" in named and stack:
                others = [None] * (len(self.relations["heat:stack"].columns) - 1)
                implied["heat:stack", stack] = ir.Match("heat:stack", (stack, *others), literal.span)
            if not part and "heat:property" in named:
                implied |= self._by_properties(literal, resource, body)
            if part and table in named:
                rest = [None] * (len(self.relations[table].columns) - 1)
                implied[table, resource] = ir.Match(table, (resource, *rest), literal.span)
        return list(implied.values())

    def _by_properties(
        self, row: ir.Match, resource: ir.Var, body: Sequence[ir.CheckedLiteral]
    ) -> Iterator[tuple[tuple[RelationRef, ir.Operand], ir.Match]]:
        """Yield what rows of `heat:property` imply for the row of a resource: the property `flavor` is its column."""
        described = self.relations[row.relation]
        for literal in body:
            match literal:
                case ir.Match("heat:property", (subject, ir.Const(str() as path), value, *_)):
                    at = described.positions.get(path)
                    if subject == resource and value is not None and at:
                        columns: list[ir.Pattern] = [None] * len(described.columns)
                        columns[0], columns[at] = resource, value
                        yield (path, resource), ir.Match(row.relation, tuple(columns), literal.span)

    def _reason(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        body = tuple(_flat(body))
        same = SameValues(body, self.relations)
        pairs = list(same.twins())
        conditions = [literal for literal in body if not isinstance(literal, ir.Match)]
        return (
            self._two_types(body, same)
            or self._two_rows(pairs)
            or _of_order(conditions, same)
            or _two_networks(conditions, same)
            or Ranges(self.relations, self.lists, same, self.bounded).contradiction((*body, *_twin_constants(pairs)))
        )

    def _two_types(self, body: Sequence[ir.CheckedLiteral], same: SameValues) -> str | None:
        """Why a value would have to be a resource of two types."""
        tables: dict[ir.Operand, str] = {}
        references: dict[ir.Operand, str] = {}
        roles: dict[ir.Operand, str] = {}
        for literal in body:
            if not isinstance(literal, ir.Match):
                continue
            if literal.relation == "heat:reference":
                match literal.arguments:
                    case (_, ir.Const(str() as path), ir.Var() as target, *_):
                        if (column := path.rpartition(".")[2]) in REFERENCES:
                            references.setdefault(same.of(target), column)
            naming = self._naming(literal.relation)
            for at, term in literal.column_terms if naming else ():
                if at in naming and isinstance(term, ir.Var):
                    value, (column, what) = same.of(term), naming[at]
                    if column == "_id":
                        if tables.setdefault(value, what) != what:
                            return f"{name_of(term)} can't be the _id of both {tables[value]} and {what}"
                    elif what:
                        roles.setdefault(value, what)
                    else:
                        references.setdefault(value, column)
        for value, what in roles.items():
            if (table := tables.get(value, "")).startswith(PLAIN):
                return f"{table} is not a {what}"
        for value, column in references.items():
            table = tables.get(value, "")
            if table in REFERRED and table not in REFERENCES[column]:
                return f"{column} is never the _id of {table}"
        return None

    def _naming(self, relation: RelationRef) -> Naming:
        """The columns of a relation that name a resource, by position: ``_id`` with its table, and the columns in
        `OF_GATE` and `REFERENCES`. Resources of the old state may be of another type."""
        naming = self.named.get(relation)
        if naming is None:
            described, of_gate = self.relations[relation], OF_GATE.get(str(relation), {})
            table = relation_name(relation).removeprefix(LIVE).partition(".")[0]
            naming = self.named[relation] = {}
            for at, column in enumerate(described.columns if not is_old(relation) else ()):
                if column.name in of_gate:
                    naming[at] = column.name, of_gate[column.name]
                elif described.named_only and (column.name == "_id" or column.name in REFERENCES):
                    naming[at] = column.name, table if column.name == "_id" else ""
        return naming

    def _doubles(self, body: Sequence[ir.CheckedLiteral]) -> set[ir.Operand]:
        """The variables that stand for the same column of the same row."""
        return {
            term
            for pair in SameValues(body, self.relations).twins()
            for match in pair
            for _, term in match.column_terms
        }

    def _two_rows(self, pairs: Pairs) -> str | None:
        """Why a row would have to hold two values in one column."""
        for first, other in pairs:
            described = self.relations[first.relation]
            for column, left, right in zip(described.columns, first.arguments, other.arguments, strict=True):
                if isinstance(left, ir.Const) and isinstance(right, ir.Const) and left != right:
                    values = f"{quoted(left.value)} and {quoted(right.value)}"
                    return f"{column.name} of one row of {first.relation} can't be {values}"
        return None


def _is_default(literal: ir.CheckedLiteral) -> bool:
    return isinstance(literal, ir.Call) and literal.builtin == "??"


def _twin_constants(pairs: Pairs) -> Iterator[ir.Compare]:
    """Yield what a row implies for the variables of another literal with its key: ``type=t`` beside
    ``type="OS::Nova::Net"``."""
    for first, other in pairs:
        for left, right in zip(first.arguments, other.arguments, strict=True):
            for term, constant in ((left, right), (right, left)):
                if isinstance(term, ir.Var) and isinstance(constant, ir.Const):
                    yield ir.Compare("=", term, constant, other.span)


def _may_derive(wanted: Iterable[tuple[int, ir.Const]], rule: ir.CheckedRule) -> bool:
    """Whether the rule may derive a row with the wanted constants."""
    return all(isinstance(own := rule.arguments[at], ir.Var) or own == term for at, term in wanted)


def _flat(body: Sequence[ir.CheckedLiteral]) -> Iterator[ir.CheckedLiteral]:
    """The literals, with ``not (y = x ?? 0, y > 5)`` replaced by what it computes before its comparison."""
    for literal in body:
        match literal:
            case ir.Without((*computed, ir.Compare() | ir.Call(_, _, ()) as last)) if computed and all(
                isinstance(part, ir.Call)
                and len(part.outputs) == 1
                and isinstance(part.outputs[0], ir.Var)
                and not part.outputs[0].name
                for part in computed
            ):
                yield from computed
                yield ir.Without((last,), literal.span)
            case _:
                yield literal


def _defaults(body: Sequence[ir.CheckedLiteral], doubles: Collection[ir.Operand]) -> list[ir.Call]:
    """The calls of a default whose value is compared, has another default, or is one of the `doubles`."""
    calls: list[ir.Call] = []
    for literal in body:
        match literal:
            case ir.Call("??", (ir.Var(), ir.Const()), (ir.Var(),)):
                calls.append(literal)
    compared = {side for literal in body if isinstance(literal, ir.Compare) for side in (literal.left, literal.right)}
    compared |= set(doubles)
    several = Counter(call.inputs[0] for call in calls)
    return [call for call in calls if several[call.inputs[0]] > 1 or call.inputs[0] in compared]


def _cases_of_defaults(calls: Sequence[ir.Call]) -> Iterator[list[ir.Compare]]:
    """Yield the conditions for each case of values with defaults: first all present, last all null."""
    values = list(dict.fromkeys(call.inputs[0] for call in calls))
    for present in product((True, False), repeat=len(values)):
        case: list[ir.Compare] = []
        for value, is_present in zip(values, present, strict=True):
            case.append(ir.Compare("!=" if is_present else "=", value, ir.Const(None), calls[0].span))
            for call in calls:
                if call.inputs[0] == value and isinstance(call.outputs[0], ir.Var):
                    is_ = value if is_present else call.inputs[1]
                    case.append(ir.Compare("=", call.outputs[0], is_, call.span))
        yield case


def _of_order(body: Sequence[ir.CheckedLiteral], same: SameValues) -> str | None:
    """Why two variables would have to be in two orders, ``low < high, high < low``."""
    compared = [literal for literal in body if isinstance(literal, ir.Compare) and _is_of_variables(literal)]
    if len(compared) < 2:
        return None
    orders: dict[tuple[ir.Operand, ir.Operand], tuple[str, str]] = {}
    folds = {literal.target: literal.function for literal in body if isinstance(literal, ir.Fold)}
    for literal in compared:
        match literal:
            case ir.Compare(sign, ir.Var() as left, ir.Var() as right) if same.of(left) != same.of(right):
                names = (side.name or folds.get(side) or name_of(side) for side in (left, right))
                shown = f" {sign} ".join(names)
                for operand, other, order in ((left, right, sign), (right, left, FLIPPED[sign])):
                    before, written = orders.get((same.of(operand), same.of(other)), ("<=>", ""))
                    left_over = "".join(mark for mark in before if mark in ORDERS[order])
                    if not left_over:
                        return f"{written} and {shown} exclude each other"
                    orders[same.of(operand), same.of(other)] = left_over, shown
    return None


def _is_of_variables(compare: ir.Compare) -> bool:
    return isinstance(compare.left, ir.Var) and isinstance(compare.right, ir.Var)


def _two_networks(body: Sequence[ir.CheckedLiteral], same: SameValues) -> str | None:
    """Why a network would have to lie in two that share no address, or in one that it does not overlap."""
    within: dict[ir.Operand, list[tuple[str, Network]]] = {}
    for literal in body:
        match literal:
            case ir.Call("cidr_contains", (ir.Const(str() as text), ir.Var() as inner)) | ir.Call(
                "ip_in_network", (ir.Var() as inner, ir.Const(str() as text))
            ):
                if network := read_network(text):
                    within.setdefault(same.of(inner), []).append((text, network))
    for literal in body if within else ():
        match literal:
            case ir.Compare("=", ir.Var() as value, ir.Const(str() as text)) | ir.Compare(
                "=", ir.Const(str() as text), ir.Var() as value
            ):
                network = read_network(text)
                for outer, around in within.get(same.of(value), ()):
                    if network and not is_within(network, around):
                        return f"{text} is not within {outer}"
            case ir.Without((ir.Call("cidr_overlaps" | "networks_overlap", inputs),)):
                for side, other in (inputs, inputs[::-1]):
                    other_network = read_network(str(other.value)) if isinstance(other, ir.Const) else None
                    for outer, around in within.get(same.of(side), ()):
                        if other_network and is_within(around, other_network):
                            return f"everything within {outer} overlaps it"
    for operand, networks in within.items():
        for (text, first), (other_text, second) in combinations(networks, 2):
            if not (is_within(first, second) or is_within(second, first)):
                return f"{name_of(operand)} can't be within both {text} and {other_text}"
    return None
