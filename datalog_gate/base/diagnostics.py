"""Diagnostics: what is wrong in a user's file, and where.

`render` prints sorted diagnostics with an excerpt of the text. The table `CODES` is the one list of codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from datalog_gate.base.records import dataclass

Severity = Literal["error", "warning", "note"]
WIDTH = 100
"""The number of characters of a line that an excerpt shows."""
MOST_SUGGESTIONS = 50
"""The maximum number of searches for a similar name: each compares all names."""
MOST_LISTED = 12
"""The maximum number of names in a text."""
_LONGEST_NAME = 100
"""The maximum length of a name that others are compared with."""
SENT = "<template>"
"""The file of a template that was sent in a request."""


class Span(NamedTuple):
    """A stretch of a file. Lines and columns count from 1; the end is exclusive, columns are characters. Data that
    arrived already parsed has no lines: all numbers are 0."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    path: str = ""
    """The keys that lead there, such as ``resources.web.properties.flavor``, for data without useful lines: parsed
    data, and JSON on one line."""

    def to_json(self) -> dict[str, object]:
        """The place as JSON data: file, line, column, and the path if there is one."""
        path = {"path": self.path} if self.path else {}
        return {"file": self.file, "line": self.line or None, "column": self.column or None, **path}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.readable

    @property
    def readable(self) -> str:
        """The place for readers who may not have this text: the path, if there is one."""
        if not self.path:
            return str(self)
        return self.path if self.file == SENT else f"{self.file}:{self.path}"


NOWHERE = Span("", 1, 1, 1, 1)
"""The place of what stands in no file."""

CODES: dict[str, str] = {
    # rules: text
    "syntax": "The text is not a statement of the language.",
    "encoding": "The file is not UTF-8 text.",
    "bad-number": "A number that can't be read.",
    "bad-string": "A string that does not end, or holds an unknown escape.",
    # rules: names
    "undefined-relation": "A relation that nothing defines or declares.",
    "unknown-column": "A column that the relation does not have.",
    "duplicate-column": "A column that is given twice.",
    "arity": "More or fewer arguments than the relation has columns.",
    "reserved-name": "A head or declaration in a namespace that is not the author's.",
    "private-relation": "A relation of another module that is not exported.",
    "ambiguous-name": "A name that two imported modules define.",
    "unknown-module": "An import of a module, or an export of a relation, that does not exist.",
    "unknown-builtin": "A builtin that does not exist.",
    "redefined": "A relation, policy or module that is defined twice.",
    # rules: policies
    "unknown-annotation": "An annotation that does not exist.",
    "annotation-attribute": "An attribute that an annotation does not have, or a value that it can't take.",
    "message-column": "A message names a column that the policy's head does not have.",
    "unknown-service": "A rule that names a service which no rule unlocks.",
    # rules: meaning
    "aggregate-scope": "An aggregated term that occurs outside its aggregate.",
    "set-aggregate": "An aggregate that takes equal values of several rows only once.",
    "unsafe-variable": "A variable that nothing binds.",
    "negated-once": "A named variable that occurs once, under not.",
    "kind-mismatch": "A comparison of values that are never equal, or a builtin on a value of the wrong kind.",
    "nullable": "Ordering, arithmetic or a builtin on a value that may be null.",
    "unguarded": "Ordering, arithmetic or a builtin on a value that may be of the wrong kind.",
    "unstratified": "A relation that depends on its own negation or aggregate.",
    "bad-pattern": "A regular expression that RE2 does not accept, or that can't be run here; in a template a text "
    "that does not match the pattern of its property.",
    "value-growth": "A computed value that flows into its own recursion.",
    "too-complex": "A rule with too many alternatives or conditions.",
    "forgotten-quotes": "A variable that was probably meant as a string.",
    "used-once": "A variable that occurs only once, and has no effect or resembles another.",
    "never-read": "A relation that nothing reads, and whose name resembles another.",
    "unknown-value": "A value that the catalogue does not list.",
    "narrow-range": "A comparison of a range's bounds that lets wider ranges pass.",
    "null-join": "A join on a value that may be null on both sides: null never joins null.",
    "argument-order": "A builtin whose arguments are probably in the wrong order.",
    "loose-pattern": "A pattern that probably matches something else than was meant, or a text that looks like a "
    "pattern.",
    "one-form": "A policy that reads only one of two ways to write the same in a template.",
    "near-miss": "A policy that finds nothing, although there are rows that it was probably meant to find.",
    "no-policy": "Rules without any policy.",
    "cloud-wide": "A rule over the whole cloud that also reads data of an operation on a single stack.",
    "congress": "A text that Congress reads differently.",
    "bad-library": "A library of Congress that is not in the format.",
    "bad-limits": "A value of `limits.yaml` that its pack does not declare, or one that it lacks.",
    "bad-pack": "A `pack.yaml` that is not in the format.",
    # rules: lints
    "never-fires": "A rule whose body can't hold, or a condition that always does.",
    "never-used": "A relation or import that nothing needs.",
    "cartesian": "Relations of a body that share no variable.",
    "no-message": "A policy without a message.",
    "no-test": "A policy that no test expects.",
    # what Heat would refuse
    "unknown-type": "A resource type that Heat does not have, or that only a plugin may have.",
    "unknown-property": "A property that the resource type does not have.",
    "missing-property": "A property that the resource type needs.",
    "wrong-kind": "A value that Heat can't convert to the property's kind.",
    "not-allowed": "A value that is not one of those that Heat allows.",
    "out-of-range": "A number beyond the property's range.",
    "bad-length": "A text, list or map that is too short or too long.",
    "bad-text": "A text that is no address, name or time as the property needs it.",
    "unknown-attribute": "An attribute that the resource does not have.",
    "duplicate-name": "A parameter and a resource with one name.",
    # input
    "unreadable": "A file that can't be read.",
    "outside-root": "A file outside the folder that may be read.",
    "yaml": "The text is not YAML, or YAML that Heat does not accept.",
    "duplicate-key": "A mapping that holds a key twice, or merges mappings that versions of PyYAML read differently.",
    "too-large": "Input beyond a bound on size, depth, count, aliases or work.",
    "not-a-template": "The document is not a template of a known version.",
    "bad-template": "A section or resource of a template that is not well formed.",
    "group-size": "A scaling group whose size is not between its minimum and maximum.",
    "newer-version": "A section, key or function that the template's version does not have yet.",
    "deprecated": "A property, type or attribute that Heat hides or deprecates, with `--deprecated`.",
    "bad-function": "A template function with arguments that it can't take.",
    "bad-reference": "A reference to a parameter, resource or condition that does not exist.",
    "bad-parameter": "A parameter that does not exist, or whose value is not allowed.",
    "bad-assumption": "An assumption about a value that is known or does not exist, or with a value of the wrong kind.",
    "bad-environment": "An environment that is not well formed.",
    "missing-file": "A file that the template names, but that was not supplied.",
    "nesting": "Nested templates that are circular or too deep.",
    "unsupported": "A construct that this version does not read yet.",
    "no-resources": "Nothing to judge: not one resource was read.",
    "no-inventory": "Rules read data of a cloud, but there is no inventory.",
    "unfilled": "Rules read a relation for which this run has no input.",
    "bad-facts": "A line of facts that is not in the format.",
    "bad-catalogue": "A catalogue file that is not in the format.",
    "bad-test": "A policy test file that is not in the format.",
    "bad-ignore": "An ignore comment in a template that has no effect.",
    "bad-configuration": "A configuration of a project that is not in the format.",
    "bad-waiver": "A waiver that is not in the format, or does not match the rules.",
}


REFUSALS = (
    "unknown-type",
    "unknown-property",
    "missing-property",
    "wrong-kind",
    "not-allowed",
    "out-of-range",
    "bad-length",
    "bad-pattern",
    "bad-text",
    "unknown-attribute",
    "duplicate-name",
    "newer-version",
    "deprecated",
)
"""The codes of what Heat's own validation would refuse, which `--select` and `--ignore` take."""


class Code(NamedTuple):
    """Code that an editor can write."""

    text: str
    role: Literal["replacement", "default", "import", "condition", "column"] = "replacement"
    """What it is: in place of the range, the default of the variable `of`, a line at the top of the file, a condition
    before the range, or the name of a column after the parenthesis in the range."""
    of: str = ""


class Advice(str):
    """A suggestion in words, and as code that an editor can write."""

    code: tuple[Code, ...]
    """The code to write there; several are alternatives."""
    meant: str
    """The name that a word there was probably meant to be."""
    before: str
    """The sign that is missing before it."""
    module: str
    """The module to add the code to, if it is another one."""
    in_quotes: bool
    """Whether to put the text in the range in quotes."""

    def __new__(
        cls, words: str, *code: str | Code, meant: str = "", before: str = "", module: str = "", in_quotes: bool = False
    ) -> Advice:
        """The suggestion `words` of that code."""
        advice = super().__new__(cls, words)
        advice.code = tuple(part if isinstance(part, Code) else Code(part) for part in code)
        advice.meant, advice.before, advice.module, advice.in_quotes = meant, before, module, in_quotes
        return advice


def suggest_code(code: str, mark: str = "") -> Advice:
    """A suggestion to write this code, enclosed in `mark`."""
    return Advice(f"write {mark}{code}{mark}", code)


def list_some(names: Collection[str]) -> str:
    """The first names, words before numbers, and how many more there are."""
    first, more = sorted(names, key=lambda name: (name.isdigit(), name))[:MOST_LISTED], len(names) - MOST_LISTED
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")


def suggest_name(name: str | None, otherwise: str | None = None, mark: str = "") -> str | None:
    """A suggestion that this name was meant, enclosed in `mark`; `otherwise` if there is no such name.

    `closest` and `slip` find the name.
    """
    return Advice(f"did you mean {mark}{name}{mark}?", meant=name) if name else otherwise


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem in rules or input: a code of `CODES`, what is wrong, where, and what to write instead."""

    code: str
    message: str
    span: Span | None = None
    suggestion: str | None = None
    severity: Severity = "error"

    def __post_init__(self) -> None:
        assert self.code in CODES, self.code

    def to_json(self) -> dict[str, object]:
        """As JSON data: code, severity, message, place, suggestion."""
        place = self.span.to_json() if self.span else None
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "place": place,
            "suggestion": self.suggestion,
        }


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics without duplicates, sorted by place, those without one last."""

    def key(diagnostic: Diagnostic) -> tuple[bool, str, int, int, str, str]:
        span = diagnostic.span or Span("", 0, 0, 0, 0)
        return diagnostic.span is None, span.file, span.line, span.column, diagnostic.code, diagnostic.message

    return tuple(sorted(dict.fromkeys(diagnostics), key=key))


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was probably meant to be, or None if none is similar."""
    if len(word) > _LONGEST_NAME:
        return None
    from difflib import get_close_matches  # slow to import, and needed only for mistakes

    known = sorted(set(candidates))
    folded = {name.lower(): name for name in (reversed(known) if word[:1].isupper() else known)}
    near = get_close_matches(word.lower(), folded, n=1, cutoff=0.7)
    return folded[near[0]] if near else slip(word, known)


class Slips:
    """An index of words for finding those that differ by one letter. It maps each word without one of its letters to
    the word; words that are one slip apart share such an entry. The time of a lookup does not depend on the number of
    words."""

    def __init__(self, words: Iterable[str]) -> None:
        self._by_rest: dict[str, list[str]] = {}
        for word in sorted(set(words)):
            for rest in _rests(word):
                self._by_rest.setdefault(rest, []).append(word)

    def of(self, word: str) -> list[str]:
        """The words that differ from `word` by one slip: a letter dropped, added or changed, or two swapped. Words that
        differ only in digits (`port1`, `port2`), and single letters, do not count."""
        near = {name for rest in _rests(word) for name in self._by_rest.get(rest, ())[:100] if name != word}
        return sorted(name for name in near if _one_slip(word, name))


def slip(word: str, candidates: Iterable[str]) -> str | None:
    """The first candidate that `word` is one slip away from."""
    near = (name for name in sorted(set(candidates)) if name != word and abs(len(name) - len(word)) < 2)
    return next((name for name in near if len(word) < 100 and _one_slip(word, name)), None)


def _rests(word: str) -> set[str]:
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))} if len(word) < 100 else set()


def _one_slip(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    if len(long) < 2 or len(long) - len(short) > 1:
        return False
    same = next((at for at, (left, right) in enumerate(zip(short, long, strict=False)) if left != right), len(short))
    end = 0
    while end < len(short) - same and short[-1 - end] == long[-1 - end]:
        end += 1
    left, right = short[same : len(short) - end], long[same : len(long) - end]
    if right.isdigit() and (not left or left.isdigit()):
        return False
    changed = len(left) == len(right) == 1 and len(long) > 3
    return changed or (not left and len(right) == 1) or (len(left) == 2 and left == right[::-1])


def render(diagnostic: Diagnostic, sources: Mapping[str, str]) -> str:
    """The diagnostic as a few lines of text, with an underlined excerpt if `sources` (text by file) holds its file."""
    place = f"{diagnostic.span}: " if diagnostic.span else ""
    lines = [f"{place}{diagnostic.severity}[{diagnostic.code}] {diagnostic.message}"]
    if diagnostic.span:
        lines += excerpt(diagnostic.span, sources)
    if diagnostic.suggestion:
        lines.append(f"  help  {diagnostic.suggestion}")
    return "\n".join(lines)


def excerpt(span: Span, sources: Mapping[str, str], paint: Callable[[str], str] = str) -> list[str]:
    """Two lines: the first line of the span, and its underline, painted. Empty without the text of the file. A long
    line is cut to `WIDTH` characters around the span; control characters are replaced."""
    text = sources.get(span.file)
    rows = text.splitlines() if text is not None else []
    if not 1 <= span.line <= len(rows):
        return []
    row = rows[span.line - 1]
    start = min(span.column - 1, len(row))
    end = span.end_column - 1 if span.end_line == span.line else len(row)
    cut = max(0, min(start - WIDTH // 2, len(row) - WIDTH))
    shown = printable(row[cut : cut + WIDTH].replace("\t", " "))
    length = max(1, min(end, cut + len(shown)) - start)
    margin = str(span.line)
    return [f"  {margin} | {shown}", f"  {' ' * len(margin)} | {' ' * (start - cut)}{paint('^' * length)}"]


def split_numbers(name: str) -> list[str | int]:
    """A sort key by which `v2` comes before `v10`."""
    return [int(piece) if at % 2 else piece for at, piece in enumerate(re.split(r"(\d+)", name))]


def format_count(number: int, noun: str, several: str = "") -> str:
    """The number with its noun: ``1 fact``, ``2 facts``, or ``2 policies`` with the plural `several`."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def shorten(text: str, limit: int) -> str:
    """The text, or its beginning and three dots if it is longer than the limit."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def printable(line: str) -> str:
    """The text as one line without escapes or line breaks that a template's author may have written."""
    return line if line.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in line)
