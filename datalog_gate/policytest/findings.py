"""Found against expected (layer 5): in, what a decision holds and what a case expects; out, the difference as lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datalog_gate.diagnostics import Span
from datalog_gate.values import ResourceId

Expected = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """A member of the list `violations`, `undetermined` or `diagnostics`; `name` is the policy's id or the code."""

    list: str
    name: str
    place: Span | None
    message: str
    resource: ResourceId | None = None

    def fits(self, expected: Expected) -> bool:
        """Whether it is the one expected, as far as the test file says: a resource with or without the root's id."""
        path = self.resource.path if self.resource else ""
        return (
            self.name == expected.get("policy", expected.get("code"))
            and expected.get("resource", path) in (path, path.partition("/")[2])
            and ("line" not in expected or (self.place is not None and self.place.line == expected["line"]))
        )


def difference(
    expect: Expected,
    found: Sequence[Finding],
    rows: Mapping[str, Sequence[Sequence[object]]],
    policies: Collection[str],
) -> str:
    """What is missing and what is unexpected, a line each; empty if nothing is. Each finding meets one expectation. A
    list that the test file leaves out is expected to be empty. `rows` are those of the relations it names, as sets."""
    lines: list[str] = []
    for name in ("violations", "undetermined", "diagnostics"):
        rest = [one for one in found if one.list == name]
        for expected in sorted(expect.get(name, ()), key=len, reverse=True):  # the most exact one chooses first
            met = next((one for one in rest if one.fits(expected)), None)
            if met:
                rest.remove(met)
            else:
                lines.append(_missing(name, expected, policies))
        lines += [_unexpected(one) for one in rest]
    for relation, wanted in expect.get("rows", {}).items():
        if relation not in rows:
            lines.append(f"  missing     rows: no rule derives {relation}; write its full name, net:ssh:open_ssh")
        want, have = ({json.dumps(row) for row in some} for some in (wanted, rows.get(relation, ())))
        lines += [f"  missing     rows: {relation} {row}" for row in sorted(want - have)]
        lines += [f"  unexpected  rows: {relation} {row}" for row in sorted(have - want)]
    return "\n".join(lines)


def _missing(name: str, one: Expected, policies: Collection[str]) -> str:
    words = " ".join(str(one[key]) for key in ("policy", "code", "resource") if key in one)
    line = f" on line {one['line']}" if "line" in one else ""
    known = one.get("policy") in {None, *policies}
    note = "" if known else f" (the policies of this folder are {', '.join(sorted(policies)) or 'none'})"
    return f"  missing     {name}: {words}{line}{note}"


def _unexpected(one: Finding) -> str:
    resource = f" {one.resource.path}" if one.resource else ""
    line = f" on line {one.place.line}" if one.place else ""
    return f"  unexpected  {one.list}: {one.name}{resource}{line}: {one.message}"
