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
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import NOT_NULL, Kind, Row, kind_of, row_key
from datalog_gate.decision.bound_facts import bind
from datalog_gate.decision.cloud_state import AGES, list_ages, read_readings
from datalog_gate.decision.policy_set import RuleFile, parse_all
from datalog_gate.engine.budget import BUDGET
from datalog_gate.engine.least_model import Engine, Model, ModelError
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


def ask(
    files: Sequence[RuleFile],
    text: str,
    lines: Sequence[FactLine],
    engine: Engine,
    lenient: bool = True,
    catalogue: Catalogue = SHIPPED,
    now: datetime | None = None,
) -> QueryAnswer:
    """The answer to a query. With `lenient` undefined relations are empty, with a warning. `now` is the time (UTC) if
    no fact gives it. Errors: RulesError for rules or query; InputError for facts; EngineError, also if it exceeds
    `BUDGET`."""
    sources = {file.file: file.text for file in files} | {"<query>": text}
    modules, problems = parse_all(files)
    congress = any(file.congress for file in files)
    question, diagnostics = parse_query(text, congress=congress)
    problems += diagnostics
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise RulesError(problems, sources)
    given = _read_kinds(lines, catalogue)
    rule = _whole_rule(question, Names([*modules, Module(QUERY, "<query>", ())], given, QUERY, True, catalogue))
    modules.append(Module(QUERY, "<query>", (rule,), congress))
    run = evaluate(
        modules,
        lines,
        engine,
        given=given,
        query=QUERY,
        lenient=lenient,
        problems=problems,
        sources=sources,
        catalogue=catalogue,
        now=now,
    )
    return run.answer(f"{QUERY}:{ANSWER}")


def evaluate(
    modules: Sequence[Module],
    lines: Sequence[FactLine],
    engine: Engine,
    *,
    given: Mapping[str, tuple[Kind, ...]] | None = None,
    query: str | None = None,
    lenient: bool = True,
    problems: Sequence[Diagnostic] = (),
    sources: Mapping[str, str] | None = None,
    catalogue: Catalogue = SHIPPED,
    now: datetime | None = None,
) -> Evaluated:
    """Check the modules and evaluate them over lines of facts; the arguments are those of `check` and `ask`. `given` is
    read from the lines where it is missing. Errors: those of `ask`."""
    given = _read_kinds(lines, catalogue) if given is None else given
    checked = check(
        modules, given=given, query=query, lenient=lenient, problems=problems, sources=sources, catalogue=catalogue
    )
    inputs = bind(checked.program, lines, lenient=True)
    if now and inputs.get("gate:now") == {}:
        inputs["gate:now"] = {(now.isoformat(),): NOWHERE}
    if now and inputs.get(AGES) == {}:
        inputs[AGES] = dict.fromkeys(list_ages(read_readings(lines), now), NOWHERE)
    model = engine(checked.program, inputs, BUDGET)
    if model.exceeded:
        raise model.exceeded
    return Evaluated(checked, model)


def _read_kinds(lines: Sequence[FactLine], catalogue: Catalogue) -> dict[str, tuple[Kind, ...]]:
    """The relations that lines fill and the catalogue does not have. Their kinds are not declared, so columns may hold
    anything, and null if one does."""
    kinds: dict[str, list[Kind]] = {}
    for line in lines:
        if isinstance(line.row, tuple) and catalogue.relation(line.relation) is None:
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
