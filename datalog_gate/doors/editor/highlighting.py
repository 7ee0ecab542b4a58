"""The lexer of Pygments for rule files."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from datalog_gate.language.lexer import RESERVED, STATEMENTS

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:[.:][A-Za-z0-9_]+)*"


class RuleLexer(RegexLexer):
    """Colours rule files, as the grammar of `examples/vscode` does."""

    name = "datalog-gate"
    url = "https://opendev.org/x/datalog-gate"
    aliases = ("datalog-gate",)
    filenames = ("*.dl",)
    tokens = {  # noqa: RUF012 - as Pygments asks for
        "root": [
            (r"\s+", Whitespace),
            (r"(?://|#).*", Comment.Single),
            (r"/\*(?s:.*?)\*/", Comment.Multiline),
            (r"@[a-z_]+", Name.Decorator),
            (r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', String),
            (r"[\"'].*|/\*(?s:.*)", Error),  # without an end
            (rf"({_NAME})(\s*)(\()", bygroups(Name.Function, Whitespace, Punctuation)),
            (words(sorted(RESERVED), suffix=r"\b"), Keyword.Constant),
            (words(sorted(STATEMENTS), prefix=r"^", suffix=r"\b"), Keyword.Declaration),
            (rf"({_NAME})(\s*)(=)(?!=)", bygroups(Name.Attribute, Whitespace, Operator)),
            (_NAME, Name.Variable),
            (r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", Number),
            (r":-|\?\?|!=|<=|>=|[=<>+*/%!:-]", Operator),
            (r"[][(){},.;]", Punctuation),
        ]
    }
