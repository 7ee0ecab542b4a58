"""A reader of `pack.yaml`, the description of a pack of rules."""

from __future__ import annotations

from pathlib import Path

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.files.rules import PACK_FILE
from datalog_gate.files.templates import read_text
from datalog_gate.template.document import read_document

REQUIRED_FIELDS = ("version", "summary")
OPTIONAL_FIELDS = ("inventory", "caller")
"""Fields of a pack such as ``inventory: optional``, which says that its rules are useful without one."""


def read_pack_file(file: Path) -> dict[str, str]:
    """Read the fields of a ``pack.yaml``; empty if there is no such file. Errors: InputError."""
    if not file.exists():
        return dict.fromkeys(REQUIRED_FIELDS, "")
    text = read_text(file)
    document = read_document(text, str(file))
    data = document.data if isinstance(document.data, dict) else {}
    has_fields = set(data) - set(OPTIONAL_FIELDS) == set(REQUIRED_FIELDS)
    if not has_fields or not all(isinstance(value, str) for value in data.values()):
        message = f"{PACK_FILE} must have {' and '.join(REQUIRED_FIELDS)}, each a string"
        diagnostic = Diagnostic("bad-pack", message, document.place(()), 'write `version: "1.0"`')
        raise InputError([diagnostic], {str(file): text})
    return {name: str(value) for name, value in data.items()}
