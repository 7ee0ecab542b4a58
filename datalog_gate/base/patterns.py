"""Regular expressions of RE2, whose searches take linear time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from datalog_gate.base.diagnostics import format_count

LONGEST = 1000
"""The maximum number of characters of a pattern."""
MEMORY = 1 << 20
"""The maximum number of bytes of a compiled pattern."""
STEPS = 10**8
"""The maximum number of steps of a search, about a second: characters times the size of the compiled pattern."""


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


def find_problem(pattern: object, group: object = None) -> tuple[str, str] | None:
    """Why rules with this pattern, of which they read a group, can't be loaded, and what to do; None if they can. A
    pattern that is not a text is not known yet."""
    try:
        search = compile_search(pattern if isinstance(pattern, str) else "")
        if isinstance(pattern, str) and isinstance(group, int) and not 1 <= group <= search.groups:
            advice = "put what you want in parentheses" if group > 0 else "groups are counted from 1"
            return f"the pattern has {format_count(search.groups, 'group')}", advice
    except ImportError:
        return "regular expressions need RE2, which is not installed", "pip install google-re2"
    except ValueError as error:
        return str(error), "https://github.com/google/re2/wiki/Syntax has the syntax"
    return None
