"""What SQL settles, compared with what native answers."""

from __future__ import annotations

from sqlglot import exp

from datalog_gate.analysis.check import check
from datalog_gate.analysis.lifting import Facts, Lifted, lift
from datalog_gate.analysis.program import CheckedProgram, find_input
from datalog_gate.engine.native import evaluate as evaluate_natively
from datalog_gate.engine.sql.compiler import compile_program
from datalog_gate.engine.sql.database import Database
from datalog_gate.engine.sql.evaluation import SqlAnswer, evaluate, load_facts
from datalog_gate.engine.sql.tables import identifier, table_name
from datalog_gate.language.parser import parse
from datalog_gate.schema.declaration import RelationRef
from tests.rule_texts import GivenRows


def derived(program: CheckedProgram) -> frozenset[RelationRef]:
    """All relations that rules derive."""
    return frozenset(name for stratum in program.strata for name in stratum.relations)


def lifted_module(text: str) -> Lifted:
    """The program of a module `m`, lifted in all inputs but those whose names begin with `shared`."""
    module, diagnostics = parse(text, "m.dl", "m")
    assert not diagnostics, diagnostics
    program = check([module]).program
    return lift(program, {name for name in program.inputs if not str(name).startswith("m:shared")})


def stack_facts(lifted: Lifted, rows: GivenRows) -> Facts:
    """The facts of the lifted module for the rows of each relation, which have the root first."""
    inputs = {find_input(lifted.program, f"m:{name}"): given for name, given in rows.items()}
    roots = {(row[0],) for name, given in inputs.items() if name in lifted.relations for row in given}
    return {**{name: given for name, given in inputs.items() if name is not None}, "root#": sorted(roots, key=repr)}


def answer(lifted: Lifted, facts: Facts, database: Database) -> SqlAnswer:
    """The answer for all derived relations over these facts; the database has no others."""
    program = compile_program(lifted, derived(lifted.program), database.dialect)
    try:
        return evaluate(program, database, load_facts(lifted, facts, database, temporary=True))
    finally:
        for name in lifted.program.inputs:
            table = exp.Table(this=identifier(table_name(name)))
            database.execute(exp.Drop(kind="TABLE", tables=[table], exists=True))


def difference(lifted: Lifted, facts: Facts, answer: SqlAnswer) -> str:
    """How what is settled differs from native's answer, and which of native's errors it misses; empty if not at all."""
    model = evaluate_natively(lifted.program, facts)
    wrong: list[str] = []
    for relation, rows in answer.rows.items():
        is_lifted = relation in lifted.relations
        expected = {row for row in model.rows(relation) if not is_lifted or (row[0], relation) not in answer.unsettled}
        if set(rows) != expected:
            wrong.append(f"{relation}: {sorted(rows, key=repr)} is not {sorted(expected, key=repr)}")
    for error in model.errors:
        root = str(error.row[0]) if error.relation in lifted.relations else None
        if error.relation in answer.rows and (root, error.relation) not in answer.unsettled:
            wrong.append(f"settled beside {error}")
    return "\n".join(wrong)
