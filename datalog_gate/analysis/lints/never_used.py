"""A relation or import that no policy or export needs."""

from __future__ import annotations

from collections.abc import Set

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.language.ast import Atom, Declaration, Import, Module, Rule
from datalog_gate.language.walk import nodes
from datalog_gate.schema.declaration import RelationRef, current_version


@lint(
    code="never-used",
    wrong="@deny p(x) :- heat:stack(id=x). seen(1).",
    right="@deny p(x) :- heat:stack(id=x). seen(1). export seen.",
    loading=False,
)
def find_unused(review: Review) -> Found:
    used = _used(review)
    for module in review.modules:
        yield from _find(module, used, review)


def _used(review: Review) -> Set[RelationRef]:
    """The relations that policies, unlocks and exports need, including their own."""
    needed = {*review.annotated, *(unlock.relation for unlock in review.unlocks)}
    for module in review.modules:
        needed |= {f"{module.name}:{name}" for name in review.names.scopes[module.name].exports}
    return set(map(current_version, review.below(needed)))


def _find(module: Module, used: Set[RelationRef], review: Review) -> Found:
    names = review.names
    scope = names.scopes[module.name]
    parts = nodes(part for rule in module.rules for part in (*rule.head.arguments, *rule.body))
    read = {atom.name for atom in parts if isinstance(atom, Atom)} - scope.relations.keys()
    reported: set[RelationRef] = set()
    for statement in module.statements:
        match statement:
            case Import(imported, span=span) if not read & names.scopes[names.imported(imported, module.name)].exports:
                yield warn("never-used", f"nothing here uses the module {imported}", span, "remove the import")
            case Declaration(name, span=span) | Rule(Atom(name, name_span=span)):
                bare = name.rpartition(":")[2]
                if bare not in reported and scope.relations[bare].name not in used:
                    reported.add(bare)
                    suggestion = f"remove it, or write `export {bare}.` if other modules read it"
                    yield warn("never-used", f"no policy or export needs {bare}", span, suggestion)
