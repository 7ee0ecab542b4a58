"""Lints: probable mistakes in rules, which change no evaluation.

Each module of `lints` is one lint: its docstring explains it, and its function has a wrong and a right example.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import cache, cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from datalog_gate.analysis import lints
from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts, Place
from datalog_gate.analysis.constants import LONGEST, takes_given
from datalog_gate.analysis.policy import Policy, Unlock
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.silences import find_unused, silence
from datalog_gate.base.diagnostics import Diagnostic, Span, in_order
from datalog_gate.base.records import dataclass, field
from datalog_gate.language import ast
from datalog_gate.language.walk import Node, nodes
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import Column, Relation, RelationRef, relation_name

if TYPE_CHECKING:
    from datalog_gate.analysis.check import Checked

Found = Iterator[Diagnostic]
"""What a lint reports."""
Find = TypeVar("Find", bound=Callable[..., Found])


@dataclass(frozen=True)
class Review:
    """A program with what lints ask of it. It has no rules and policies if they have errors."""

    modules: Sequence[ast.Module]
    """The modules to report."""
    names: Names
    rules: Sequence[ir.CheckedRule]
    """The rules of all modules, in the order of their strata."""
    relations: Mapping[RelationRef, Relation]
    policies: Sequence[Policy]
    read: Collection[str] = ()
    """The relations that modules which are not here read."""
    unlocks: Sequence[Unlock] = ()
    tested: Collection[str] = ()
    """The policies that a test expects."""
    _bodies: dict[int, BodyFacts] = field(default_factory=dict)

    @cached_property
    def own_rules(self) -> Sequence[ir.CheckedRule]:
        """The rules, except those of Congress, which have another language."""
        return [rule for rule in self.rules if not self._is_of_congress(rule.relation)]

    @cached_property
    def own_policies(self) -> Sequence[Policy]:
        """The policies, except those of Congress."""
        return [policy for policy in self.policies if not self._is_of_congress(policy.relation)]

    def _is_of_congress(self, relation: RelationRef) -> bool:
        return relation_name(relation).rpartition(":")[0] in self.names.congress

    @cached_property
    def by_relation(self) -> Mapping[RelationRef, Sequence[ir.CheckedRule]]:
        """All rules, by the relation of the head."""
        return ir.group_rules(self.rules)

    @cached_property
    def annotated(self) -> Set[RelationRef]:
        """The relations of policies."""
        return {policy.relation for policy in self.policies}

    @cached_property
    def facts(self) -> Mapping[RelationRef, Sequence[ir.CheckedRule]]:
        """The rules without a body, by relation."""
        return ir.group_rules(rule for rule in self.rules if not rule.body)

    @cached_property
    def computed(self) -> Set[RelationRef]:
        """The relations that rules with a body fill."""
        return {rule.relation for rule in self.rules if rule.body and not takes_given(rule)}

    @cached_property
    def lists(self) -> Mapping[RelationRef, Sequence[ir.CheckedRule]]:
        """The facts of the relations that hold only facts."""
        return {name: facts for name, facts in self.facts.items() if name not in self.computed}

    def below(self, relations: Collection[RelationRef]) -> Set[RelationRef]:
        """The relations with all on which they depend."""
        known, waiting = set[RelationRef](), {*relations}
        while waiting:
            known |= waiting
            rules = [rule for name in waiting for rule in self.by_relation.get(name, ())]
            waiting = set[RelationRef]().union(*(rule.mentioned for rule in rules)) - known
        return known

    def body(self, rule: ir.CheckedRule) -> BodyFacts:
        """The body of a rule."""
        body = self._bodies.get(id(rule))
        if body is None:
            body = self._bodies[id(rule)] = BodyFacts(rule.body, lists=self.lists)
        return body

    @cached_property
    def bodies(self) -> Sequence[BodyFacts]:
        """The bodies of these rules, with those within them."""
        return [body for rule in self.own_rules if rule.body for body in self._within(self.body(rule))]

    def _within(self, body: BodyFacts) -> Iterator[BodyFacts]:
        if len(body.around) > LONGEST:
            return
        yield body
        for literal in body.own:
            if isinstance(literal, ir.Nesting):
                yield from self._within(body.within(literal))

    @cached_property
    def literals(self) -> Sequence[tuple[ir.CheckedLiteral, BodyFacts]]:
        """The literals of the bodies, each with its own body."""
        return [(literal, body) for body in self.bodies for literal in body.own]

    @cached_property
    def matches(self) -> Sequence[tuple[ir.Match, BodyFacts]]:
        return [(literal, body) for literal, body in self.literals if isinstance(literal, ir.Match)]

    @cached_property
    def calls(self) -> Sequence[tuple[ir.Call, BodyFacts]]:
        return [(literal, body) for literal, body in self.literals if isinstance(literal, ir.Call)]

    @cached_property
    def written(self) -> Sequence[tuple[ast.Rule, str]]:
        """The rules as they are written, each with its module."""
        return [(rule, module.name) for module in self.modules for rule in module.rules]

    @cached_property
    def nodes(self) -> Sequence[tuple[Node, str]]:
        """What the rules are made of, each with its module; without those of Congress."""
        own = [(rule, module) for rule, module in self.written if module not in self.names.congress]
        return [(node, module) for rule, module in own for node in nodes((*rule.head.arguments, *rule.body))]

    @cached_property
    def ways(self) -> Sequence[tuple[ast.Rule, Sequence[ir.CheckedRule]]]:
        """The rules as they are written, each with its alternatives."""
        ways: dict[tuple[RelationRef, Span], list[ir.CheckedRule]] = {}
        for rule in self.rules:
            ways.setdefault((rule.relation, rule.span), []).append(rule)
        heads = [(rule, self.names.head(rule.head, module).name) for rule, module in self.written]
        return [(rule, ways.get((name, rule.span), ())) for rule, name in heads]

    def column(self, place: Place) -> Column:
        return self.relations[place[0].relation].columns[place[1]]


class Lint(NamedTuple):
    """A lint: the code of what it reports, an example that it reports, one that it does not, and the function.

    Lints that are `loading` run whenever rules are loaded, since what they find would let a stack pass; the others only
    when rules are linted.
    """

    code: str
    wrong: str
    right: str
    loading: bool
    find: Callable[[Review], Found]


_LINTS: dict[str, Lint] = {}


def lint(code: str, wrong: str, right: str, loading: bool = True) -> Callable[[Find], Find]:
    """Make a function the lint of its module; see `Lint`."""

    def register(find: Find) -> Find:
        _LINTS[find.__module__.rpartition(".")[2]] = Lint(code, wrong, right, loading, find)
        return find

    return register


@cache
def list_lints() -> Mapping[str, Lint]:
    """All lints, by the name of their module."""
    for module in iter_modules(lints.__path__):
        import_module(f"{lints.__name__}.{module.name}")
    return dict(sorted(_LINTS.items()))


def find_lints(review: Review, loading: bool) -> Found:
    """Run the lints that are, or are not, for the loading of rules."""
    for known_lint in list_lints().values():
        if known_lint.loading == loading:
            yield from known_lint.find(review)


def lint_rules(checked: Checked, tested: Collection[str], catalogue: Catalogue = SHIPPED) -> tuple[Diagnostic, ...]:
    """All that is to say of valid rules; `tested` are the policies that a test expects."""
    review = review_checked(checked, tested, catalogue)
    known = {(warning.code, warning.span) for warning in checked.warnings}
    new = [warning for warning in find_lints(review, loading=False) if (warning.code, warning.span) not in known]
    warnings, silenced = silence(checked.modules, new)
    unused = find_unused(checked.modules, [*checked.silenced, *silenced])
    return in_order([*checked.warnings, *warnings, *unused])


def review_checked(checked: Checked, tested: Collection[str], catalogue: Catalogue = SHIPPED) -> Review:
    program, policies, unlocks = checked.program, checked.policies, checked.unlocks
    names, rules = Names(checked.modules, {}, catalogue=catalogue), tuple(program.rules)
    return Review(checked.modules, names, rules, program.relations, policies, unlocks=unlocks, tested=tested)


def warn(code: str, message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic(code, message, span, suggestion, "warning")
