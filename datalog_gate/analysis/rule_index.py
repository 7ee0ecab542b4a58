"""Rules added one by one, each checked with those it affects.

A rule is checked together with the rules of a cycle that it closes, and with rules that read a relation whose columns
or kinds it changes. For all others, the known columns and kinds of their relations are enough. So the cost of a new
rule depends on the rules it affects, and it is refused exactly if a check of all rules would refuse it.

>>> from datalog_gate.language.parser import parse
>>> def rule(text):
...     return parse(text, "r", "net", congress=True)[0].statements[0]
>>> index, _ = index_modules([]).add("r1", "net", rule("open(x) :- nova:tags(server_id=x, tag='open')"))
>>> index, _ = index.add("r2", "net", rule("error(x) :- open(x)"))
>>> index.relations["net:error"].columns[0].kinds
<Kind.STRING: 8>
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from datalog_gate.analysis.check import Checked, check
from datalog_gate.base.diagnostics import Diagnostic, did_you_mean
from datalog_gate.base.errors import RulesError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Kind
from datalog_gate.language.ast import (
    NOWHERE,
    Atom,
    Declaration,
    DeclaredColumn,
    Export,
    Import,
    Module,
    Rule,
    Statement,
    Variable,
)
from datalog_gate.language.walk import nodes
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import Relation

REST, NOTHING = "rest#", "nothing#"
"""Module names of the stubs for rules that are not checked again. Users cannot write them."""
TOLD = ("undefined-relation", "congress")
"""The codes of warnings about a single rule."""
_WORDS = {kind: str(kind.name).lower() for kind in (Kind.NULL, Kind.BOOLEAN, Kind.NUMBER, Kind.STRING, Kind.RESOURCE)}


@dataclass(frozen=True, slots=True)
class IndexedRule:
    """A rule of a policy, with the full names of what it reads."""

    module: str
    rule: Rule
    reads: frozenset[str]

    @property
    def relation(self) -> str:
        return f"{self.module}:{self.rule.head.name.removeprefix(f'{self.module}:')}"


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """Rules of Congress by id, over modules that do not change. It is immutable: `add` and `remove` return new ones."""

    fixed: tuple[Module, ...] = ()
    """Modules of files, which read none of the rules."""
    policies: frozenset[str] = frozenset()
    """The names of the modules of the rules."""
    rules: Mapping[str, IndexedRule] = field(default_factory=dict)
    relations: Mapping[str, Relation] = field(default_factory=dict)
    """The relations of all modules with the kinds of their columns, by full name."""
    catalogue: Catalogue = SHIPPED

    def add(self, identity: str, module: str, rule: Rule) -> tuple[RuleIndex, tuple[Diagnostic, ...]]:
        """Add a rule. Returns the warnings about it. Errors: RulesError."""
        before = replace(self, policies=self.policies | {module})
        indexed = IndexedRule(module, rule, before._names_read(module, rule))
        after = replace(before, rules={**self.rules, identity: indexed})
        relations, warnings = after._check({identity, *after._cycle(indexed)})
        return replace(after, relations=relations), warnings

    def remove(self, identities: Collection[str]) -> RuleIndex:
        """Remove rules. Errors: RulesError if other rules need them."""
        gone = {self.rules[identity].relation for identity in identities}
        rules = {identity: rule for identity, rule in self.rules.items() if identity not in identities}
        relations = {name: relation for name, relation in self.relations.items() if name not in gone}
        after = replace(self, rules=rules, relations=relations)
        touched = {identity for identity, rule in rules.items() if rule.relation in gone or gone & rule.reads}
        relations, _ = after._check(touched, gone)
        return replace(after, relations=relations)

    def with_policy(self, module: str) -> RuleIndex:
        """Add a policy without rules."""
        return replace(self, policies=self.policies | {module})

    def without_policy(self, module: str) -> RuleIndex:
        """Remove a policy with its rules. Errors: as `remove`."""
        after = self.remove([identity for identity, rule in self.rules.items() if rule.module == module])
        return replace(after, policies=after.policies - {module})

    def program_of(self, relation: str) -> list[Module]:
        """The modules that a relation depends on, for evaluation. Fixed modules are complete."""
        rules, relations = self._below(relation)
        reached = reached_modules(self.fixed, {name.rpartition(":")[0] for name in relations})
        policies = {name.rpartition(":")[0] for name in relations} & self.policies
        policies |= {relation.rpartition(":")[0]} & self.policies
        modules = [module for module in self.fixed if module.name in reached]
        for name in sorted(policies):
            own = tuple(self.rules[identity].rule for identity in rules if self.rules[identity].module == name)
            modules.append(Module(name, name, own, congress=True))
        return modules

    def readers(self, module: str) -> list[str]:
        """The ids of the rules of other policies that read this one."""
        return [
            identity
            for identity, rule in self.rules.items()
            if rule.module != module and any(name.startswith(f"{module}:") for name in rule.reads)
        ]

    def _below(self, relation: str) -> tuple[list[str], set[str]]:
        """The rules that a relation depends on, in order, and all relations that they read."""
        by_relation = self._by_relation()
        reached, waiting, taken = {relation}, [relation], set[str]()
        while waiting:
            for identity in by_relation.get(waiting.pop(), ()):
                taken.add(identity)
                waiting += self.rules[identity].reads - reached
                reached |= self.rules[identity].reads
        return [identity for identity in self.rules if identity in taken], reached

    def _by_relation(self) -> dict[str, list[str]]:
        by_relation: dict[str, list[str]] = defaultdict(list)
        for identity, rule in self.rules.items():
            by_relation[rule.relation].append(identity)
        return by_relation

    def _cycle(self, added: IndexedRule) -> set[str]:
        """The rules of the cycles that a rule closes, including itself."""
        if added.relation not in added.reads and not any(
            added.relation in rule.reads for rule in self.rules.values()
        ):  # as for most rules
            return set()
        below = set(self._below(added.relation)[0])
        readers: dict[str, set[str]] = defaultdict(set)
        for rule in self.rules.values():
            for name in rule.reads:
                readers[name].add(rule.relation)
        above, waiting = {added.relation}, [added.relation]
        while waiting:
            waiting += (new := readers[waiting.pop()] - above)
            above |= new
        members = {self.rules[identity].relation for identity in below} & above
        cyclic = {identity for identity in below if self.rules[identity].relation in members}
        return cyclic if any(members & self.rules[identity].reads for identity in cyclic) else set()

    def _check(
        self, touched: set[str], changed: Collection[str] = ()
    ) -> tuple[dict[str, Relation], tuple[Diagnostic, ...]]:
        """Check the affected rules, and those that read a changed relation. Return all relations, and the warnings. The
        relations `changed` are known only by these rules."""
        relations = {name: relation for name, relation in self.relations.items() if name not in changed}
        changes = set(changed)
        while touched:
            checked = self._check_once(touched, changes)
            heads = {self.rules[identity].relation for identity in touched}
            now = {name: checked.program.relations[name] for name in heads}
            new = {name for name in heads if now[name] != self.relations.get(name)} - changes
            more = {identity for identity, rule in self.rules.items() if rule.reads & new} - touched
            relations |= now
            if not more:
                own = [warning for warning in checked.warnings if warning.span != NOWHERE and warning.code in TOLD]
                return relations, tuple(map(self._with_advice, own))
            for identity in more.copy():
                more |= self._cycle(self.rules[identity])
            touched = touched | more
        return relations, ()

    def _with_advice(self, warning: Diagnostic) -> Diagnostic:
        """The warning about an undefined table, with the name that was probably meant."""
        rules = (rule for rule in self.rules.values() if warning.span and rule.rule.span.file == warning.span.file)
        atoms = [(rule, node) for rule in rules for node in nodes(rule.rule.body) if isinstance(node, Atom)]
        for rule, atom in atoms:
            if atom.name_span == warning.span and warning.suggestion is None:
                own = [name.removeprefix(f"{rule.module}:") for name in self.relations]
                return replace(warning, suggestion=did_you_mean(atom.name, own))
        return warning

    def _check_once(self, touched: Collection[str], alone: Collection[str]) -> Checked:
        """Check the affected rules, with stubs for the others. Messages suggest names from all modules."""
        try:
            return check(self._stand_in(touched, alone, whole=False), query=REST, catalogue=self.catalogue)
        except RulesError:
            pass
        try:
            return check(self._stand_in(touched, alone, whole=True), query=REST, catalogue=self.catalogue)
        except RulesError as error:
            own = [diagnostic for diagnostic in error.diagnostics if diagnostic.span != NOWHERE]
            raise RulesError(own or error.diagnostics, error.sources) from None

    def _stand_in(self, touched: Collection[str], alone: Collection[str], whole: bool) -> list[Module]:
        """Modules of the affected rules, and of stubs for the rest; with `whole` for all relations."""
        read = set().union(*(self.rules[identity].reads for identity in touched))
        heads = {self.rules[identity].relation for identity in touched}
        rest = {rule.relation for identity, rule in self.rules.items() if identity not in touched}
        fixed = {module.name for module in self.fixed}
        statements: dict[str, list[Statement]] = {name: [] for name in sorted(self.policies)}
        for name in sorted(self.relations if whole else (read | heads) & self.relations.keys()):
            module, _, bare = name.rpartition(":")
            if module in self.policies and name in rest and name not in alone:
                statements[module] += _stub(bare, self.relations[name])
        for identity, rule in self.rules.items():
            if identity in touched:
                statements[rule.module].append(rule.rule)
        wanted = fixed if whole else {name.rpartition(":")[0] for name in read} & fixed
        modules = [self._stand_in_fixed(module) for module in self.fixed if module.name in wanted]
        return [*modules, *(Module(name, name, tuple(own), congress=True) for name, own in statements.items())]

    def _stand_in_fixed(self, module: Module) -> Module:
        declared = [statement for statement in module.statements if isinstance(statement, Declaration)]
        exports = [statement for statement in module.statements if isinstance(statement, Export)]
        named = {declaration.name.rpartition(":")[2] for declaration in declared}
        rules: list[Statement] = []
        for name, relation in self.relations.items():
            owner, _, bare = name.rpartition(":")
            if owner == module.name and bare not in named:
                rules += _stub(bare, relation, fixed=True)
        return replace(module, statements=(*declared, *rules, *exports), refused=frozenset())

    def _names_read(self, module: str, rule: Rule) -> frozenset[str]:
        """The full names of what a rule may read."""
        titles = {fixed.title: fixed.name for fixed in self.fixed if fixed.title}
        names = set()
        for name in {atom.name for atom in nodes(rule.body) if isinstance(atom, Atom)}:
            prefix, _, bare = name.rpartition(":")
            names.add(f"{titles.get(prefix, prefix) or module}:{bare}")
        return frozenset(names)


def index_modules(
    fixed: Sequence[Module],
    rules: Mapping[str, tuple[str, Rule]] | None = None,
    policies: Iterable[str] = (),
    catalogue: Catalogue = SHIPPED,
) -> RuleIndex:
    """Check all rules, each with the name of its module, and the modules that stay. Errors: RulesError."""
    index = RuleIndex(
        tuple(fixed), frozenset(policies) | {name for name, _ in (rules or {}).values()}, catalogue=catalogue
    )
    indexed = {
        identity: IndexedRule(module, rule, index._names_read(module, rule))
        for identity, (module, rule) in (rules or {}).items()
    }
    modules = [*fixed]
    for name in sorted(index.policies):
        own = tuple(rule.rule for rule in indexed.values() if rule.module == name)
        modules.append(Module(name, name, own, congress=True))
    program = check(modules, query=REST, catalogue=catalogue).program
    heads, names = {rule.relation for rule in indexed.values()}, {module.name for module in fixed}
    relations = {
        name: relation
        for name, relation in program.relations.items()
        if isinstance(name, str) and (name in heads or name.rpartition(":")[0] in names) and "#" not in name
    }
    return replace(index, rules=indexed, relations=relations)


def _stub(bare: str, relation: Relation, fixed: bool = False) -> Iterator[Statement]:
    """A stub rule for a relation, over a relation with its kinds. In a `fixed` module nothing is undefined."""
    variables = [Variable(column.name) for column in relation.columns]
    known = [at for at, column in enumerate(relation.columns) if column.kinds or fixed]
    columns = [
        DeclaredColumn(
            relation.columns[at].name,
            tuple(word for kind, word in _WORDS.items() if kind & relation.columns[at].kinds),
        )
        for at in known
    ]
    yield Declaration(f"{REST}{bare}", tuple(columns))
    body = [Atom(f"{REST}{bare}", tuple(variables[at] for at in known))]
    if nothing := tuple(variable for at, variable in enumerate(variables) if at not in known):
        body.append(Atom(f"{NOTHING}{bare}", nothing))
    yield Rule(Atom(bare, tuple(variables)), tuple(body))


def reached_modules(modules: Sequence[Module], names: Collection[str]) -> set[str]:
    """The named modules, and the modules that they import or read."""
    by_name = {module.name: module for module in modules}
    titles = {module.title: module.name for module in modules if module.title}
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = titles.get(waiting[-1], waiting[-1])
        waiting.pop()
        if name not in by_name or name in reached:
            continue
        reached.add(name)
        for statement in by_name[name].statements:
            if isinstance(statement, Import):
                waiting.append(statement.module)
            elif isinstance(statement, Rule):
                atoms = (node for node in nodes(statement.body) if isinstance(node, Atom))
                waiting += [atom.name.removeprefix("old:").removeprefix("all:").rpartition(":")[0] for atom in atoms]
    return reached
