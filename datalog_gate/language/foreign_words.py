"""Words of other languages that rule authors write by mistake."""

from __future__ import annotations

from datalog_gate.base.diagnostics import suggest_code

OTHER_WORDS = {
    "is": suggest_code("=", "`"),
    **dict.fromkeys(("like", "LIKE"), "write starts_with(x, ...), or matches(x, ...) for a pattern"),
    **dict.fromkeys(("if", "when", "where"), suggest_code(":-", "`")),
}
"""Words after a condition or a head, with what to write."""
POLICY_WORDS = {"deny", "policy", "rule", "violation", "warn"}
"""Words before the name of a policy."""
NEGATIONS = ("Not", "no", "NO", "No")
"""Words for `not`."""
VALUES = {"True": "true", "False": "false", "None": "null"}
"""Values of Python."""
