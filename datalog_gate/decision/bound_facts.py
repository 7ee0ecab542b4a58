"""Lines of facts as rows of the relations of a program."""

from __future__ import annotations

from collections.abc import Sequence

from datalog_gate.analysis.program import CheckedProgram, find_input
from datalog_gate.base.diagnostics import MOST_SUGGESTIONS, Diagnostic, Span, closest, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import Row
from datalog_gate.facts.lines import FactLine
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import RelationRef, whole_version
from datalog_gate.schema.signatures import BUILTINS


def bind(
    program: CheckedProgram, lines: Sequence[FactLine], lenient: bool = False, catalogue: Catalogue = SHIPPED
) -> dict[RelationRef, dict[Row, Span]]:
    """The rows of each input of the program, each with its place. Lines for relations of the catalogue that no rule
    reads are left out. Errors: InputError for an undeclared relation, or a row that does not fit. With `lenient` only
    relations of the cloud must be declared and have the declared kinds."""
    inputs: dict[RelationRef, dict[Row, Span]] = {name: {} for name in program.inputs}
    diagnostics: list[Diagnostic] = []
    meant: dict[str, str | None] = {}
    for line in lines:
        cloud_table = cloud.relation(line.relation)
        try:
            if "#" in line.relation:
                raise ValueError(f"{line.relation} is not the name of a relation")
            target = find_input(program, line.relation)
            if target is not None:
                row_of = line.positional if lenient and not cloud_table else line.typed
                inputs[target].setdefault(row_of(program.relations[whole_version(target)]), line.span)
            elif cloud_table:
                line.typed(cloud_table)
            elif line.relation in BUILTINS:
                message = f"{line.relation} is a builtin, and not declared as a relation"
                diagnostics.append(Diagnostic("bad-facts", message, line.span, "give the relation another name"))
            elif not lenient and catalogue.relation(line.relation) is None:
                diagnostics.append(_describe_undeclared(line, program, catalogue, meant))
        except ValueError as error:
            diagnostics.append(Diagnostic("bad-facts", str(error), line.span))
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise InputError(diagnostics)
    return inputs


def _describe_undeclared(
    line: FactLine, program: CheckedProgram, catalogue: Catalogue, meant: dict[str, str | None]
) -> Diagnostic:
    """The error for a line of a relation that no rule declares. The first names are looked up in `meant`, or added to
    it with the one that was probably meant."""
    if line.relation not in meant and len(meant) < MOST_SUGGESTIONS:
        declared = (relation for relation in program.inputs if not program.relations[relation].generated)
        known = [str(whole_version(relation)) for relation in declared]
        known += [*(name.rpartition(":")[2] for name in known), *catalogue.names()]
        meant[line.relation] = suggest_name(closest(line.relation, known))
    message = f"no rule declares the relation {line.relation}"
    return Diagnostic("bad-facts", message, line.span, meant.get(line.relation))
