"""The lexer of Pygments over the rules of this project."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.doors.editor.highlighting import RuleLexer
from tests.sources import ROOT


@pytest.mark.parametrize("file", sorted((ROOT / "rules").rglob("*.dl")), ids=str)
def test_every_rule_file_is_coloured_whole(file: Path) -> None:
    text = file.read_text("utf-8")
    tokens = list(RuleLexer().get_tokens(text))
    assert [value for kind, value in tokens if str(kind) == "Token.Error"] == []
    assert "".join(value for _, value in tokens).strip() == text.strip()
