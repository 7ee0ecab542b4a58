"""Regular expressions of RE2, whose searches take linear time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from datalog_gate.base.diagnostics import format_count, suggest_code

LONGEST = 1000
"""The maximum number of characters of a pattern."""
MEMORY = 1 << 20
"""The maximum number of bytes of a compiled pattern."""
STEPS = 10**8
"""The maximum number of steps of a search, about a second: characters times the size of the compiled pattern."""
_PARTS = re.compile(r"(?s)\\.|\[\^?\]?(?:\\.|[^\\\]])*\]?|.")
"""What a pattern consists of: characters, some escaped, and classes, in which a first ``]`` is a character."""


class Search(NamedTuple):
    """A compiled pattern: a function that finds its first occurrence in a text, if any, and the number of its groups.
    Errors of the function: ValueError for a text that is too long."""

    find: Callable[[str], Any]
    groups: int

    def capture(self, text: str, group: object) -> str | None:
        """What the group matches; None if it matches nothing. Errors: ValueError if there is no such group."""
        if not isinstance(group, int) or not 1 <= group <= self.groups:
            raise ValueError(f"the pattern has {format_count(self.groups, 'group')}")
        found = self.find(text)
        part = found.group(group) if found else None
        return None if part is None else part.decode()


@lru_cache(maxsize=64)
def compile_search(pattern: str, ignore_case: bool = False) -> Search:
    """Compile a pattern. Errors: ValueError for one that RE2 does not accept; ImportError without the wheel."""
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors, options.case_sensitive = MEMORY, False, not ignore_case
    if len(pattern) > LONGEST:
        raise ValueError(f"the pattern is longer than {LONGEST} characters")
    try:
        compiled = re2.compile(pattern, options)
    except UnicodeEncodeError:
        raise ValueError("the pattern is not Unicode") from None
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"the pattern is not valid in RE2: {text}") from None
    size: int = compiled.programsize

    def find(text: str) -> Any:
        if len(text) * size > STEPS:
            raise ValueError("the text is too long for this pattern")
        try:
            return compiled.search(text.encode())  # slower on a str, whose positions it computes
        except UnicodeEncodeError:
            raise ValueError("the text is not Unicode") from None

    return Search(find, compiled.groups)


def find_problem(pattern: object, group: object = 0) -> tuple[str, str] | None:
    """Why rules with this pattern, of which they read a group, can't be loaded, and what to do; None if they can. A
    pattern that is not a text is not known yet."""
    try:
        search = compile_search(pattern if isinstance(pattern, str) else "")
        if isinstance(pattern, str) and isinstance(group, int) and group > search.groups:
            return f"the pattern has {format_count(search.groups, 'group')}", "put what you want in parentheses"
    except ImportError:
        return "regular expressions need RE2, which is not installed", "pip install google-re2"
    except ValueError as error:
        return str(error), "https://github.com/google/re2/wiki/Syntax has the syntax"
    return None


def find_looseness(pattern: str) -> tuple[str, str] | None:
    """What is probably wrong with a pattern, and what to write: an anchor on one of several alternatives, or a ``*``
    used as in a shell."""
    branches = _branches(re.sub(r"^\(\?[a-zA-Z]+\)", "", pattern))
    for bound, anchor, where in ((_starts_bound, "^", "first"), (_ends_bound, "$", "last")):
        if len(branches) > 1 and len(set(map(bound, branches))) > 1:
            bare = "|".join(branch.removeprefix("^").removesuffix("$") for branch in branches)
            front = "^" if any(map(_starts_bound, branches)) else ""
            back = "$" if any(map(_ends_bound, branches)) else ""
            which = f"the {where} alternative" if bound(branches[0 if anchor == "^" else -1]) else "some alternatives"
            return f"`{anchor}` applies to {which} only", suggest_code(f'"{front}({bare}){back}"')
    if re.search(r"\[[^]]*?A-z", pattern):
        return "`A-z` also matches the signs between `Z` and `a`", 'write "A-Za-z" in the brackets'
    if "*" in pattern and not set(pattern) & set("^$.[]()|\\+?{}"):
        return "`*` repeats the character before it", suggest_code(f'"^{pattern.replace("*", ".*")}$"')
    return None


def _starts_bound(branch: str) -> bool:
    return branch.startswith(("^", "\\A"))


def _ends_bound(branch: str) -> bool:
    return branch.endswith("\\z") or (branch.endswith("$") and not branch.endswith("\\$"))


def _branches(pattern: str) -> list[str]:
    """The alternatives of a pattern outside of all parentheses."""
    branches, depth = [""], 0
    for part in _PARTS.findall(pattern):
        depth += (part == "(") - (part == ")")
        if part == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += part
    return branches
