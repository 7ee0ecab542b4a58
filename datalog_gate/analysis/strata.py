"""Strata: which relations are derived together, and in what order.

There is one for each strongly connected component of the dependencies, in topological order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.base.diagnostics import Diagnostic, Span, in_order
from datalog_gate.schema.declaration import RelationRef

MOST_CYCLES = 100
"""The maximum number of cycles to find in one component, since each needs a search."""
MOST_STEPS = 50
"""The maximum number of steps of a cycle in a message."""


class Step(NamedTuple):
    """A rule reads a relation: `through` is empty, ``not`` or ``count of`` with a blank; `span` is the place."""

    through: str
    span: Span
    relation: RelationRef


P = TypeVar("P")
T = TypeVar("T")
Steps = Mapping[RelationRef, Collection[Step]]


def stratify(rules: Sequence[ir.CheckedRule]) -> tuple[tuple[ir.Stratum, ...], tuple[Diagnostic, ...]]:
    """The strata of the rules, and diagnostics: `unstratified`, `value-growth`. A relation without rules is an input
    and stands in no stratum."""
    by_relation: dict[RelationRef, list[ir.CheckedRule]] = {rule.relation: [] for rule in rules}
    graph: dict[RelationRef, set[Step]] = {name: set() for name in by_relation}
    for rule in sorted(rules, key=lambda checked_rule: checked_rule.span):
        by_relation[rule.relation].append(rule)
        steps = (Step(through, match.span, match.relation) for through, match in reads(rule.body))
        graph[rule.relation].update(step for step in steps if step.relation in graph)
    strata: list[ir.Stratum] = []
    diagnostics: list[Diagnostic] = []
    successors = {name: sorted({step.relation for step in graph[name]}, key=str) for name in sorted(graph, key=str)}
    for component in _components(successors):
        own = sorted((rule for name in component for rule in by_relation[name]), key=lambda rule: rule.span)
        members = frozenset(component)
        inside = {
            name: sorted((step for step in graph[name] if step.relation in members), key=_step_order)
            for name in component
        }
        recursive = any(not step.through for steps in inside.values() for step in steps)
        strata.append(ir.Stratum(tuple(component), tuple(own), recursive))
        diagnostics += _unstratified(inside)
        diagnostics += islice((diagnostic for rule in own for diagnostic in _growth(rule, inside)), MOST_CYCLES)
    return tuple(strata), in_order(diagnostics)


def reads(body: Sequence[ir.CheckedLiteral], through: str = "") -> Iterator[tuple[str, ir.Match]]:
    """The matches of a body and its inner bodies, each with its context: ``not``, ``sum of`` or nothing."""
    for literal in body:
        match literal:
            case ir.Match():
                yield through, literal
            case ir.Without():
                yield from reads(literal.body, "not ")
            case ir.Fold():
                yield from reads(literal.body, f"{literal.function} of ")


def matches(body: Sequence[ir.CheckedLiteral]) -> list[ir.Match]:
    """The matches of a body and of its inner bodies."""
    return [literal for literal in ir.all_literals(body) if isinstance(literal, ir.Match)]


def settle(rules: Sequence[ir.CheckedRule], step: Callable[[ir.CheckedRule], bool]) -> None:
    """Call a function for each rule. Whenever it returns true, call it again for the rules that read the relation of
    that rule, until a fixpoint."""
    readers: dict[RelationRef, list[int]] = {}
    for at, rule in enumerate(rules):
        for name in rule.mentioned:
            readers.setdefault(name, []).append(at)
    waiting = deque(range(len(rules)))
    done = [False] * len(rules)
    while waiting:
        at = waiting.popleft()
        done[at] = True
        if step(rules[at]):
            for reader in readers.get(rules[at].relation, ()):
                if done[reader]:
                    done[reader] = False
                    waiting.append(reader)


def close(start: Iterable[T], parts: Collection[P], step: Callable[[P, frozenset[T]], Iterable[T]]) -> frozenset[T]:
    """The start with what the parts add to it: `step` says what one part adds to those known."""
    known, before = frozenset(start), None
    while known != before:
        known, before = known.union(*(step(part, known) for part in parts)), known
    return known


def _components(successors: Mapping[RelationRef, Sequence[RelationRef]]) -> Iterator[list[RelationRef]]:
    """The strongly connected components, each sorted, after those that it leads to: Tarjan, "Depth-first search and
    linear graph algorithms", 1972. It keeps its own stack, since long chains of rules exceed Python's recursion
    limit."""
    index: dict[RelationRef, int] = {}
    lowest: dict[RelationRef, int] = {}
    path: dict[RelationRef, None] = {}
    calls: list[tuple[RelationRef, Iterator[RelationRef]]] = []

    def enter(name: RelationRef) -> None:
        index[name] = lowest[name] = len(index)
        path[name] = None
        calls.append((name, iter(successors[name])))

    for root in successors:
        if root not in index:
            enter(root)
        while calls:
            name, following = calls[-1]
            for successor in following:
                if successor not in index:
                    enter(successor)
                    break
                if successor in path:
                    lowest[name] = min(lowest[name], index[successor])
            else:
                calls.pop()
                if calls:
                    caller = calls[-1][0]
                    lowest[caller] = min(lowest[caller], lowest[name])
                if lowest[name] == index[name]:
                    component = [path.popitem()[0]]
                    while component[-1] != name:
                        component.append(path.popitem()[0])
                    yield sorted(component, key=str)


def _unstratified(inside: Steps) -> Iterator[Diagnostic]:
    """Report each negative step of a component, unless an earlier report shows its cycle."""
    negative = ((name, step) for name, steps in inside.items() for step in steps if step.through)
    cycles = [_cycle(name, step, inside) for name, step in islice(negative, MOST_CYCLES)]
    shown: set[tuple[RelationRef, Step]] = set()
    for cycle in sorted(cycles, key=lambda cycle: (len(cycle), cycle[0][1].span, _cycle_order(cycle))):
        name, step = cycle[0]
        if cycle[0] in shown:
            continue
        shown.update(cycle)
        advice = f"break the cycle: move what {name} needs of {step.relation} into a relation that does not read {name}"
        yield Diagnostic("unstratified", _describe(cycle), step.span, advice)


def _growth(rule: ir.CheckedRule, inside: Steps) -> Iterator[Diagnostic]:
    """Report each computed value that reaches the head of a rule which reads its own component. A value that the body
    also matches in a relation is not new."""
    loops = [literal for literal in rule.body if isinstance(literal, ir.Match) and literal.relation in inside]
    if not loops:
        return
    body = BodyFacts(rule.body)
    origins: dict[ir.Operand, ir.Call | ir.Fold] = {}
    for literal in rule.body:
        if isinstance(literal, ir.Computing):
            outputs = literal.outputs if isinstance(literal, ir.Call) else (literal.target,)
            new = [output for output in outputs if isinstance(output, ir.Var) and not body.places(output)]
            origins.update((body.leader(output), literal) for output in new)
    classes = map(body.leader, rule.arguments)
    reaching = dict.fromkeys(origins[argument] for argument in classes if argument in origins)
    if not reaching:
        return
    cycles = (_cycle(rule.relation, Step("", loop.span, loop.relation), inside) for loop in loops)
    described = _describe(min(cycles, key=lambda cycle: (len(cycle), _cycle_order(cycle))))
    for origin in reaching:
        maker = origin.builtin if isinstance(origin, ir.Call) else origin.function
        message = f"the result of {maker} feeds its own recursion, which may never end: {described}"
        advice = "compute it after the recursion, or match it in a relation that holds all values it can take"
        yield Diagnostic("value-growth", message, origin.span, advice)


def _cycle(start: RelationRef, first: Step, inside: Steps) -> list[tuple[RelationRef, Step]]:
    """Find the shortest cycle that begins with this step, as steps with the relation that takes each."""
    came: dict[RelationRef, tuple[RelationRef, Step]] = {first.relation: (start, first)}
    waiting = deque([first.relation])
    while start not in came:
        name = waiting.popleft()
        for step in inside[name]:
            if step.relation not in came:
                came[step.relation] = (name, step)
                waiting.append(step.relation)
    cycle = [came[start]]
    while cycle[-1][1] is not first:
        cycle.append(came[cycle[-1][0]])
    return cycle[::-1]


def _step_order(step: Step) -> tuple[object, ...]:
    return step.through, step.span, str(step.relation)


def _cycle_order(cycle: Sequence[tuple[RelationRef, Step]]) -> list[tuple[object, ...]]:
    return [(str(name), *_step_order(step)) for name, step in cycle]


def _describe(cycle: Sequence[tuple[RelationRef, Step]]) -> str:
    shown = cycle[:MOST_STEPS]
    steps = [f"on {step.through}{step.relation} ({step.span})" for _, step in shown]
    names = [f"{cycle[0][0]} depends", *(str(name) for name, _ in shown[1:])]
    more = f", and so on, {len(cycle) - MOST_STEPS} steps more" if len(cycle) > MOST_STEPS else ""
    return ", ".join(f"{name} {step}" for name, step in zip(names, steps, strict=True)) + more
