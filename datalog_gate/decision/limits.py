"""A reader of `limits.yaml`, in which operators fill a pack's relations."""

from __future__ import annotations

from datalog_gate.base.diagnostics import Diagnostic, closest, suggest_name
from datalog_gate.base.records import replace
from datalog_gate.base.values import from_python
from datalog_gate.decision.policy_set import LIMITS_FILE
from datalog_gate.language.ast import Atom, Constant, Declaration, Module, Rule
from datalog_gate.template.document import Document, read_document


def add_limits(module: Module, file: str, text: str) -> tuple[Module, tuple[Diagnostic, ...]]:
    """The module with the facts of a limits file, and diagnostics.

    The file must give every relation that the module declares and nothing else: a missing or misspelt limit would limit
    nothing. Kinds and columns are checked as for all facts. Errors: InputError for a text that is not YAML.
    """
    document = read_document(text, file)
    if not isinstance(document.data, dict):
        message = f"{LIMITS_FILE} must be a mapping of relations to their rows"
        return module, (Diagnostic("bad-limits", message, document.place(()), "write `most_servers: 100`"),)
    declared = {statement.name: statement for statement in module.statements if isinstance(statement, Declaration)}
    diagnostics: list[Diagnostic] = []
    facts: list[Rule] = []
    for name in map(str, document.data):
        rows = _read_rows(document, name, diagnostics)
        if name in declared:
            facts += rows
            continue
        message = f"{module.file} declares no relation {name}"
        advice = suggest_name(closest(name, declared), f"it declares {', '.join(sorted(declared)) or 'none'}")
        diagnostics.append(Diagnostic("bad-limits", message, document.key_place((name,)), advice))
    for name in (name for name in declared if name not in map(str, document.data)):
        advice = f"add `{name}:` to it, with [] for no rows"
        diagnostics.append(Diagnostic("bad-limits", f"{LIMITS_FILE} does not set {name}", declared[name].span, advice))
    return replace(module, statements=(*module.statements, *facts)), tuple(diagnostics)


def _read_rows(document: Document, name: str, diagnostics: list[Diagnostic]) -> list[Rule]:
    """The rows of a relation, given as a list or a single value. A row is a list of values, or its only value."""
    data = document.data
    assert isinstance(data, dict)
    given = data[name]
    span = document.key_place((name,))
    assert span is not None
    facts = []
    for index, row in enumerate(given if isinstance(given, list) else [given]):
        place = document.place((name, index) if isinstance(given, list) else (name,)) or span
        try:
            values = [from_python(value) for value in (row if isinstance(row, list) else [row])]
        except (TypeError, ValueError):
            suggestion = "a row is a value, or a list of values in the order of the columns"
            diagnostics.append(Diagnostic("bad-limits", f"this is not a row of {name}", place, suggestion))
            continue
        head = Atom(name, tuple(Constant(value, span=place) for value in values), span=place, name_span=place)
        facts.append(Rule(head, span=place))
    return facts
