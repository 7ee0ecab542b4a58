"""The constraint `allowed_pattern` of parameters.

Heat requires that Python's `re.match` ends at the end of the value (heat/engine/constraints.py, AllowedPattern). Users
write the patterns, which may take forever. Those that might are matched by RE2 if both certainly agree, else not at
all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 256
"""The maximum length of a value for Python's engine, whose time may be more than linear."""
REPEATS = 3
"""The maximum number of repetitions in a pattern for it."""
STEPS = 10**7
"""The maximum number of steps of RE2, a tenth of a second: characters times the size of the compiled pattern."""
MEMORY = 1 << 20
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]|.", re.DOTALL)
_REPEAT = re.compile(r"[*+]|\{\d*,\d*\}")
_NESTED = re.compile(r"[*+}|][^()]*\)[*+{?]")
_READ_OTHERWISE = re.compile(r"\{,|\[:|\\[\dbB]|\(\?[(#P]")
_PLAIN = re.compile(r"[ -~]*")


def matches_whole(pattern: str, value: str) -> bool | None:
    """Whether the first match of a pattern at the start of the value ends at its end. None if unknown: matching could
    take long, and RE2 does not accept the pattern or may read it differently."""
    if len(value) <= LONGEST and _is_harmless(pattern):
        matching = re.match(pattern, value)
        return matching is not None and matching.end() == len(value)
    return _by_re2(pattern, value) if _is_read_alike(pattern, value) else None


def _is_harmless(pattern: str) -> bool:
    """Whether matching ends soon: there are few repetitions, and no repeated part has repetitions or alternatives."""
    bare = "".join(atom if len(atom) == 1 or atom[1:].isdigit() else "x" for atom in _ATOM.findall(pattern))
    return len(_REPEAT.findall(bare)) <= REPEATS and not _NESTED.search(bare) and not re.search(r"\\\d", bare)


def _is_read_alike(pattern: str, value: str) -> bool:
    r"""Whether RE2 reads the pattern as Python does.

    They differ in classes and anchors (``\s``, ``\w``, ``$``) beyond printable ASCII, in ``{,n}``, ``[:alpha:]`` and
    octal numbers, and in repeated parts that may match nothing, such as ``\b`` in a group.
    """
    if not (_PLAIN.fullmatch(pattern) and _PLAIN.fullmatch(value)) or _READ_OTHERWISE.search(pattern):
        return False
    try:
        return not any(re.match(group, "") for group in _repeated(pattern))
    except (re.error, IndexError):  # not a group, as in comments with ``(?x)``
        return False


def _repeated(pattern: str) -> Iterator[str]:
    """The groups of a pattern that are repeated."""
    opened: list[int] = []
    for atom in _ATOM.finditer(pattern):
        if atom[0] == "(":
            opened.append(atom.start())
        elif atom[0] == ")" and pattern[atom.end() : atom.end() + 1] in ("*", "+", "{"):
            yield pattern[opened.pop() : atom.end()]
        elif atom[0] == ")":
            opened.pop()


def _by_re2(pattern: str, value: str) -> bool | None:
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.max_mem, options.log_errors = MEMORY, False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    if len(value) * compiled.programsize > STEPS:
        return None
    matching = compiled.match(value)
    return matching is not None and bool(matching.end() == len(value))
