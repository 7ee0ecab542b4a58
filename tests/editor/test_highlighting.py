"""The lexer of Pygments over the rules of this project."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygments.token import Error, Whitespace

from datalog_gate.doors.editor.highlighting import RuleLexer
from tests.sources import ROOT


@pytest.mark.parametrize("file", sorted((ROOT / "rules").rglob("*.dl")), ids=str)
def test_every_rule_file_is_coloured_whole(file: Path) -> None:
    text = file.read_text("utf-8")
    tokens = list(RuleLexer().get_tokens(text))
    assert [value for kind, value in tokens if str(kind) == "Token.Error"] == []
    assert "".join(value for _, value in tokens).strip() == text.strip()


@pytest.mark.parametrize("text", ['"' + '\\"' * 20_000, "/*" + " /*" * 20_000])
def test_what_does_not_end_is_one_error(text: str) -> None:
    kinds, values = zip(*RuleLexer().get_tokens(text), strict=True)
    assert (kinds[0], "".join(values)) == (Error, text + "\n")
    assert set(kinds[1:]) <= {Whitespace}
