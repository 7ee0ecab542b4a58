"""Simulation: the answer to a query after a sequence of updates.

The sequence has the syntax of OpenStack Congress. ``p+(1)`` adds a row or, with a body, a rule; ``p-(1)`` removes one.
An action ``move(x)`` makes the updates that the rules of an action policy derive. The given state is not changed.

>>> from datalog_gate.engine import engine
>>> from datalog_gate.language.parser import parse
>>> module, _ = parse('error(x) :- server(x), not tested(x). server("db").', "m", "m", congress=True)
>>> simulation = simulate([module], (), "m", "error(x)", 'server+("web") tested+("db")', engine("native"))
>>> simulation.result, simulation.delta
(('error("web")',), ('error+("web")', 'error-("db")'))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from datalog_gate.analysis.resolve import Names
from datalog_gate.base.diagnostics import Diagnostic, Span, did_you_mean
from datalog_gate.base.errors import RulesError, UsageError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import ResourceId, Row, Unknown, Value, print_value, show
from datalog_gate.decision.query import ANSWER, Evaluated, evaluate, read_kinds, whole_rule
from datalog_gate.engine.least_model import Engine, ModelError
from datalog_gate.facts.lines import FactLine
from datalog_gate.language.ast import Atom, Constant, Export, Import, Module, Rule, Statement, Term, Variable
from datalog_gate.language.sequences import parse_sequence
from datalog_gate.language.walk import nodes, terms, variables
from datalog_gate.schema.catalogue import SHIPPED, Catalogue

CHOICE = "choice#"
"""The relation for the conditions of an action, written as a rule. Users cannot write this name."""
SIMULATION = "simulation#"
"""The query module of the checks, for which undefined relations are empty."""
ENDINGS = {"+": "+", "-": "-", ".insert": "+", ".delete": "-"}
"""The suffixes of update tables, in Congress and in the files that `fmt --from-congress` writes."""
Step = tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """A step of the sequence, as text, with its updates."""

    text: str
    updates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Simulation:
    """The answer to a query before and after a sequence."""

    name: str
    """The name of the queried relation, as written."""
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    steps: tuple[SimulationStep, ...]
    warnings: tuple[Diagnostic, ...]
    errors: tuple[ModelError, ...]
    """Errors of the relations that the answers or the updates depend on."""
    evaluated: Evaluated
    """The state after the sequence, for derivations."""
    relation: str
    """The relation that holds the answer in `evaluated`."""

    @property
    def result(self) -> tuple[str, ...]:
        return tuple(_format_row(self.name, row) for row in self.after)

    @property
    def delta(self) -> tuple[str, ...]:
        """The new and removed rows, as updates."""
        new = [_format_row(f"{self.name}+", row) for row in self.after if row not in self.before]
        return (*new, *(_format_row(f"{self.name}-", row) for row in self.before if row not in self.after))


@dataclass(frozen=True, slots=True)
class _State:
    """The policies by name, and the facts."""

    modules: Mapping[str, Module]
    lines: Sequence[FactLine]

    def rules(self, name: str) -> list[Rule]:
        return [statement for statement in self.modules[name].statements if isinstance(statement, Rule)]

    def with_rules(self, name: str, rules: Sequence[Statement]) -> _State:
        """The state with the rules of a module replaced."""
        module = self.modules[name]
        kept = [statement for statement in module.statements if not isinstance(statement, Rule)]
        return replace(self, modules={**self.modules, name: replace(module, statements=(*kept, *rules))})


def simulate(
    modules: Sequence[Module],
    lines: Sequence[FactLine],
    target: str,
    query: str,
    sequence: str,
    engine: Engine,
    actions: str | None = None,
    catalogue: Catalogue = SHIPPED,
    now: datetime | None = None,
) -> Simulation:
    """Answer a query to the policy `target` after a sequence, whose actions the policy `actions` describes.

    `modules` are parsed, including the policies of the simulation. `lines` are the facts. The query is an atom ``p(x,
    1)`` or a rule ``q(x) :- p(x), r(x)``.

    Errors: UsageError for a policy that is missing, RulesError for the query, the sequence or what rules it makes,
    EngineError where an evaluation takes too long.
    """
    known = [module.name for module in modules]
    for name in [target, *([actions] if actions is not None else [])]:
        if name not in known:
            raise UsageError(f"there is no policy {name}: {did_you_mean(name, known, 'there are ' + ', '.join(known))}")
    questions = _read(query, "<query>")
    if [len(step) for step in questions] != [1]:
        raise RulesError([Diagnostic("syntax", "a query is one atom or rule", None, "write p(x)")], {"<query>": query})
    steps = _read(sequence, "<sequence>")
    state = _State({module.name: _export_all(module) for module in modules}, lines)
    simulator = _Simulator(target, actions or target, engine, catalogue, now)
    _, before = simulator.answer(state, questions[0][0])
    simulated = []
    for step in steps:
        state, updates = simulator.run(state, step)
        simulated.append(SimulationStep(_format_step(step), updates))
    run, after = simulator.answer(state, questions[0][0])
    errors = (*simulator.errors, *run.answer(f"{target}:{ANSWER}").errors)
    return Simulation(
        name=questions[0][0].head.name,
        before=before,
        after=after,
        steps=tuple(simulated),
        warnings=tuple(dict.fromkeys(run.checked.warnings)),
        errors=tuple({(error.span, error.message): error for error in errors}.values()),
        evaluated=run,
        relation=f"{target}:{ANSWER}",
    )


def _make_checkable(module: Module, number: int) -> Module:
    """Make the module of an action policy checkable; other modules stay as they are.

    An unbound variable of a head, as in ``server+(id, name) :- create(name)``, gets a new value that contains the
    number of the action. Heads of other policies, ``nova:server+(x)``, get local names. Only a policy with facts
    ``action("name")`` is an action policy.
    """
    if not _action_names(module):
        return module
    statements = [
        make_rule_checkable(statement, number) if isinstance(statement, Rule) else statement
        for statement in module.statements
    ]
    return replace(module, statements=tuple(statements))


def _format_row(name: str, row: Row) -> str:
    """A row as Congress writes it, ``p("a", 1)``."""
    return f"{name}({', '.join(map(_format_value, row))})"


def _format_value(value: Value) -> str:
    return f'"{show(value)}"' if isinstance(value, ResourceId | Unknown) else print_value(value)


def _format_step(step: Step) -> str:
    heads = ", ".join(f"{rule.head.name}({', '.join(map(_format_term, rule.head.arguments))})" for rule in step)
    return f"{heads} :- ..." if step[0].body else heads


def _format_term(term: Term) -> str:
    match term:
        case Constant(value):
            return _format_value(value)
        case Variable(name):
            return name
    return "_"


def _read(text: str, file: str) -> tuple[Step, ...]:
    steps, diagnostics = parse_sequence(text, file)
    if diagnostics:
        raise RulesError(diagnostics, {file: text})
    return steps


def _export_all(module: Module) -> Module:
    """The module with all its relations exported, as those of Congress are."""
    if module.congress:
        return module
    names = dict.fromkeys(statement.head.name for statement in module.statements if isinstance(statement, Rule))
    return replace(module, statements=(*module.statements, Export(tuple(names)))) if names else module


def _action_names(module: Module) -> frozenset[str]:
    heads = [rule.head for rule in module.statements if isinstance(rule, Rule) and not rule.body]
    values = [head.arguments[0] for head in heads if head.name == "action" and len(head.arguments) == 1]
    return frozenset(term.value for term in values if isinstance(term, Constant) and isinstance(term.value, str))


def make_rule_checkable(rule: Rule, number: int = 1) -> Rule:
    """Make a rule of an action policy checkable; see `_make_checkable`."""
    owner, colon, name = rule.head.name.rpartition(":")
    if colon and _update(name):
        rule = replace(rule, head=replace(rule.head, name=f"update.{owner.replace(':', '.')}.{name}"))
    bound = {variable.name for variable in variables(rule.body)}
    if not rule.body or bound.issuperset(variable.name for variable in variables((rule.head,))):
        return rule
    arguments = tuple(
        Constant(f"new-{term.name}-{number}", span=term.span)
        if isinstance(term, Variable) and term.name not in bound
        else term
        for term in rule.head.arguments
    )
    return replace(rule, head=replace(rule.head, arguments=arguments))


def _update(name: str) -> tuple[str, str] | None:
    """The relation that an update table changes, with the sign; None for other names."""
    return next(((name.removesuffix(end), sign) for end, sign in ENDINGS.items() if name.endswith(end)), None)


@dataclass(slots=True)
class _Simulator:
    """The data shared by all steps, and the results of the last action."""

    target: str
    actions: str
    engine: Engine
    catalogue: Catalogue
    now: datetime | None
    errors: tuple[ModelError, ...] = ()
    results: tuple[Rule, ...] = ()
    """The rows of `result` after the last action, for the conditions of the next one."""
    actions_run: int = 0

    def answer(self, state: _State, question: Rule) -> tuple[Evaluated, tuple[Row, ...]]:
        """The rows of the query in a state."""
        head = replace(question.head, name=ANSWER)
        rule = replace(question, head=head)
        if not question.body:
            modules = list(state.modules.values())
            names = Names(modules, read_kinds(state.lines, self.catalogue), SIMULATION, True, self.catalogue)
            rule = whole_rule(question.head, names, self.target)
        run = self._evaluate(state.with_rules(self.target, [*state.rules(self.target), rule]), self.target)
        return run, run.answer(f"{self.target}:{ANSWER}").rows

    def run(self, state: _State, step: Step) -> tuple[_State, tuple[str, ...]]:
        """The state after a step, and the updates that it made."""
        names = _action_names(state.modules[self.actions])
        if step[0].head.name in names:
            updates = self._act(state, step)
        else:
            updates = list(step)
            for rule in step:
                if not _update(rule.head.name):
                    message = f"{rule.head.name} is neither an update nor an action of {self.actions}"
                    advice = did_you_mean(rule.head.name, names, f"write {rule.head.name}+(...) to add a row")
                    raise RulesError([Diagnostic("syntax", message, rule.head.name_span, advice)])
        for rule in updates:
            state = self._apply(state, rule)
        return state, tuple(_format_step((rule,)) for rule in updates)

    def _act(self, state: _State, step: Step) -> list[Rule]:
        """The updates of an action: deletions first, then insertions."""
        self.actions_run += 1
        heads = self._choose_actions(state, step) if step[0].body else [rule.head for rule in step]
        facts = [Rule(head, span=head.span) for head in heads]
        if wrong := [head for head in heads if not all(isinstance(term, Constant) for term in terms(head))]:
            message = f"the variables of {wrong[0].name} have no value"
            raise RulesError([Diagnostic("unsafe-variable", message, wrong[0].span, "write a condition after `:-`")])
        if not facts:
            return []
        state = self._with_actions(state, facts)
        run = self._evaluate(state, self.actions)
        written = {make_rule_checkable(rule, 0).head.name: rule.head.name for rule in state.rules(self.actions)}
        updates: dict[str, list[Rule]] = {"+": [], "-": []}
        self.results = ()
        for name in sorted(map(str, run.checked.program.relations)):
            owner, _, bare = name.rpartition(":")
            if owner != self.actions or "#" in bare:
                continue
            head = written.get(bare, bare)
            if not (update := _update(head)) and head != "result":
                continue
            answer = run.answer(name)
            self.errors += answer.errors
            if update:
                relation, sign = update
                updates[sign] += [_fact(f"{relation}{sign}", row, step[0].span) for row in answer.rows]
            else:
                self.results = tuple(_fact(head, row, step[0].span) for row in answer.rows)
        inserted = {replace(rule.head, name=rule.head.name[:-1] + "-") for rule in updates["+"]}
        return [*(rule for rule in updates["-"] if rule.head not in inserted), *updates["+"]]

    def _choose_actions(self, state: _State, step: Step) -> list[Atom]:
        """The actions of a step with conditions, for the first solution of the conditions."""
        names = dict.fromkeys(variable.name for variable in variables(rule.head for rule in step))
        head = Atom(CHOICE, tuple(map(Variable, names)))
        choice = Rule(head, step[0].body, span=step[0].span)
        run = self._evaluate(self._with_actions(state, [choice]), self.actions)
        rows = run.answer(f"{self.actions}:{CHOICE}").rows
        if not rows:
            return []
        values = dict(zip(names, rows[0], strict=True))
        return [
            replace(
                rule.head,
                arguments=tuple(
                    Constant(values[term.name]) if isinstance(term, Variable) else term for term in rule.head.arguments
                ),
            )
            for rule in step
        ]

    def _with_actions(self, state: _State, more: Sequence[Rule]) -> _State:
        """The state in which the action policy sees the target's tables as its own."""
        rules = [*state.rules(self.actions), *self.results, *more]
        if self.actions != self.target:
            defined = {rule.head.name: len(rule.head.arguments) for rule in state.rules(self.target)}
            read = {atom.name for rule in rules for atom in _atoms(rule)} | {rule.head.name for rule in rules}
            for name in sorted(read & defined.keys()):
                columns = tuple(Variable(f"column{at}") for at in range(defined[name]))
                rules.append(Rule(Atom(name, columns), (Atom(f"{self.target}:{name}", columns),)))
        return state.with_rules(self.actions, rules)

    def _evaluate(self, state: _State, start: str) -> Evaluated:
        reached = _reachable(state.modules, [start, self.target])
        modules = [_make_checkable(module, self.actions_run) for module in reached]
        return evaluate(modules, state.lines, self.engine, query=SIMULATION, catalogue=self.catalogue, now=self.now)

    def _apply(self, state: _State, update: Rule) -> _State:
        """The state after an update of a policy's rules, or of facts if no policy has the name."""
        relation, sign = _update(update.head.name) or ("", "+")
        owner, _, bare = relation.rpartition(":")
        owner = owner or self.target
        rule = replace(update, head=replace(update.head, name=bare))
        if owner in state.modules:
            rules = [other for other in state.rules(owner) if (other.head, other.body) != (rule.head, rule.body)]
            return state.with_rules(owner, [*rules, rule] if sign == "+" else rules)
        values = tuple(term.value for term in rule.head.arguments if isinstance(term, Constant))
        if rule.body or len(values) != len(terms(rule.head)):
            message = f"{relation} holds facts: an update must give all columns a value"
            raise RulesError([Diagnostic("syntax", message, rule.head.span, f"write {relation}{sign}(...)")])
        described = self.catalogue.relation(relation)
        kept = [
            line
            for line in state.lines
            if line.relation != relation or (line.positional(described) if described else line.row) != values
        ]
        return replace(state, lines=[*kept, FactLine(relation, values, rule.head.span)] if sign == "+" else kept)


def _fact(name: str, row: Row, span: Span) -> Rule:
    return Rule(Atom(name, tuple(map(Constant, row)), span=span), span=span)


def _atoms(rule: Rule) -> Iterator[Atom]:
    return (node for node in nodes(rule.body) if isinstance(node, Atom))


def _reachable(modules: Mapping[str, Module], names: Sequence[str]) -> list[Module]:
    """The named modules and the modules that they read, in order."""
    titles = {module.title: module.name for module in modules.values() if module.title}
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        name = name if name in modules else titles.get(name, "")
        if not name or name in reached:
            continue
        reached.add(name)
        for statement in modules[name].statements:
            match statement:
                case Import(module=imported):
                    waiting.append(imported)
                case Rule():
                    waiting += [atom.name.removeprefix("old:").rpartition(":")[0] for atom in _atoms(statement)]
    return [module for module in modules.values() if module.name in reached]
