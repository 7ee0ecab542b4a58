"""Words that rules are written with in other languages, by mistake here."""

from __future__ import annotations

OTHER_WORDS = {
    "is": "write `=`",
    **dict.fromkeys(("like", "LIKE"), "write starts_with(x, ...), or matches(x, ...) for a pattern"),
    **dict.fromkeys(("if", "when", "where"), "write `:-`"),
}
"""Words after a condition or a head, with what to write."""
POLICY_WORDS = {"deny", "policy", "rule", "violation", "warn"}
"""Words that begin a policy, before its name."""
NEGATIONS = ("Not", "no", "NO", "No")
VALUES = {"True": "true", "False": "false", "None": "null"}
"""Values of Python."""
