"""The modules that a module reads, directly or through others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from datalog_gate.analysis.check import SERVICES, Focus
from datalog_gate.language.ast import Atom, Import, Module, Rule
from datalog_gate.language.walk import nodes
from datalog_gate.schema.declaration import ALL, OLD


def find_focus(modules: Sequence[Module], name: str, read: Collection[str]) -> Focus:
    """The focus on a module with this name, which needs the modules that it reaches, and if one of them reads of
    services, those that unlock services. `read` are the names of its relations that other modules read."""
    needed = find_reached(modules, [name])
    reading = (module for module in modules if module.name in needed)
    if any(atom.startswith(tuple(SERVICES)) for module in reading for atom in _list_read(module)):
        unlocking = [module.name for module in modules for rule in module.rules if _unlocks(rule)]
        needed |= find_reached(modules, unlocking)
    return Focus(name, frozenset(needed), frozenset(read))


def find_reached(modules: Sequence[Module], names: Collection[str]) -> set[str]:
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
        waiting += [atom.rpartition(":")[0] for atom in _list_read(by_name[name])]
    return reached


def _list_read(module: Module) -> Iterator[str]:
    """The names of the relations that the rules of a module read in any version."""
    for statement in module.statements:
        if isinstance(statement, Rule):
            atoms = (node.name for node in nodes(statement.body) if isinstance(node, Atom))
            yield from (name.removeprefix(OLD).removeprefix(ALL) for name in atoms)


def _unlocks(rule: Rule) -> bool:
    return rule.annotation is not None and rule.annotation.name == "unlock"
