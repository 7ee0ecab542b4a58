"""A query over rules and facts.

Operators use it while writing rules. It sees private relations too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from datalog_gate.analysis.check import Checked, check
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.slices import collect_dependencies
from datalog_gate.base.diagnostics import NOWHERE, Diagnostic
from datalog_gate.base.errors import RulesError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import NOT_NULL, Kind, Row, kind_of, row_key, to_json
from datalog_gate.decision.bound_facts import bind
from datalog_gate.decision.cloud_state import AGES, list_ages, read_readings
from datalog_gate.decision.policy_set import RuleFile, parse_all, texts
from datalog_gate.engine.budget import BUDGET
from datalog_gate.engine.least_model import Engine, Model, ModelError
from datalog_gate.engine.native import evaluate as evaluate_natively
from datalog_gate.facts.lines import FactLine
from datalog_gate.language.ast import Atom, Body, Module, NamedArgument, Rule, Variable, Wildcard
from datalog_gate.language.parser import parse_query
from datalog_gate.language.walk import shared, terms, with_terms
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import Relation, RelationRef

QUERY = "query#"
ANSWER = "answer#"
"""The relation of a query that is written as a rule. Users cannot write this name, so it hides no other."""


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows in order, each once; warnings; and errors of the relations that the query depends on."""

    rows: tuple[Row, ...]
    warnings: tuple[Diagnostic, ...]
    errors: tuple[ModelError, ...]
    names: tuple[str, ...] = ()
    """The variables of a body, in the order of the columns."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The texts of the rules and the query by file."""

    def to_json(self) -> list[list[object]]:
        """The rows as JSON data."""
        return [[to_json(value) for value in row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A checked program and its model."""

    checked: Checked
    model: Model

    def answer(self, relation: RelationRef) -> QueryAnswer:
        """The rows of a relation, and the errors of the relations it depends on."""
        needed = collect_dependencies(self.checked.program).get(relation, frozenset())
        errors = tuple(error for error in self.model.errors if error.relation in needed)
        return QueryAnswer(tuple(sorted(self.model.rows(relation), key=row_key)), self.checked.warnings, errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryInputs:
    """What rules are evaluated over."""

    lines: Sequence[FactLine] = ()
    lenient: bool = True
    """Whether undefined relations are empty, with a warning."""
    catalogue: Catalogue = SHIPPED
    now: datetime | None = None
    """The time (UTC) if no fact gives it."""


def ask(files: Sequence[RuleFile], text: str, inputs: QueryInputs, engine: Engine = evaluate_natively) -> QueryAnswer:
    """The answer to a query. Errors: RulesError for rules or query; InputError for facts; EngineError, also if it
    exceeds `BUDGET`."""
    modules, problems = parse_all(files)
    congress = any(file.congress for file in files)
    question, diagnostics = parse_query(text, congress=congress)
    problems += diagnostics
    sources = texts(files) | {"<query>": text}
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise RulesError(problems, sources)
    given = _read_kinds(inputs)
    names = Names([*modules, Module(QUERY, "<query>", ())], given, QUERY, True, inputs.catalogue)
    modules.append(Module(QUERY, "<query>", (_whole_rule(question, names),), congress))
    names = Names(modules, given, QUERY, inputs.lenient, inputs.catalogue)
    checked = check(modules, names=names, problems=problems, sources=sources)
    answer = _evaluate(checked, inputs, engine).answer(f"{QUERY}:{ANSWER}")
    return replace(answer, names=() if isinstance(question, Atom) else tuple(shared(question)), sources=sources)


def evaluate(
    modules: Sequence[Module], problems: Sequence[Diagnostic], sources: Mapping[str, str], inputs: QueryInputs
) -> Evaluated:
    """Check the modules and evaluate them. `problems` were found before. Errors: those of `ask`."""
    names = Names(modules, _read_kinds(inputs), None, inputs.lenient, inputs.catalogue)
    checked = check(modules, names=names, problems=problems, sources=sources)
    return _evaluate(checked, inputs, evaluate_natively)


def _evaluate(checked: Checked, inputs: QueryInputs, engine: Engine) -> Evaluated:
    rows, now = bind(checked.program, inputs.lines, lenient=True), inputs.now
    if now and rows.get("gate:now") == {}:
        rows["gate:now"] = {(now.isoformat(),): NOWHERE}
    if now and rows.get(AGES) == {}:
        rows[AGES] = dict.fromkeys(list_ages(read_readings(inputs.lines), now), NOWHERE)
    model = engine(checked.program, rows, BUDGET)
    if model.exceeded:
        raise model.exceeded
    return Evaluated(checked, model)


def _read_kinds(inputs: QueryInputs) -> dict[str, tuple[Kind, ...]]:
    """The relations that lines fill and the catalogue does not have. Their kinds are not declared, so columns may hold
    anything, and null if one does."""
    kinds: dict[str, list[Kind]] = {}
    for line in inputs.lines:
        if isinstance(line.row, tuple) and inputs.catalogue.relation(line.relation) is None:
            columns = kinds.setdefault(line.relation, [NOT_NULL] * len(line.row))
            for at, value in enumerate(line.row[: len(columns)]):
                columns[at] |= kind_of(value) & Kind.NULL
    return {name: tuple(columns) for name, columns in kinds.items()}


def _whole_rule(question: Atom | Body, names: Names) -> Rule:
    """The rule whose head holds all arguments of a query, with a variable for each open one."""
    if not isinstance(question, Atom):
        body = question
        return Rule(Atom(ANSWER, tuple(Variable(name) for name in shared(body))), body)
    blanks = (Variable(f"column {at}") for at in range(1, 1_000_000))
    relation = names.relation(question, QUERY)
    if question.named and isinstance(relation, Relation):
        written: Mapping[str, NamedArgument] = {argument.column: argument for argument in question.named}
        unknown = [argument for argument in question.named if argument.column not in relation.positions]
        rest = [column.name for column in relation.columns[len(question.arguments) :]]
        named = [
            written.get(name, NamedArgument(name, Wildcard(span=question.span), span=question.span)) for name in rest
        ]
        question = replace(question, named=(*named, *unknown))
    filled = tuple(next(blanks) if isinstance(term, Wildcard) else term for term in terms(question))
    return Rule(Atom(ANSWER, filled, span=question.span), (with_terms(question, filled),), span=question.span)
