"""Mistakes of new authors, and texts that only look like one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.pages import GOLDEN

CHECK = "check web.yaml --rules rules.dl"
POLICY = '@deny("a", "{x}")\np(x) :- '
PAGE = (GOLDEN / "mistakes.md").read_text("utf-8")
"""The mistakes by kind, and what is said of each. What is written is read from here, and the rest compared."""
TEMPLATE = PAGE.split("```")[1].removeprefix("yaml\n")
"""The template that all of them are tried on: web.yaml."""
PART = re.compile(r"(?:`(?P<file>[\w./-]+)`: )?(?P<line>.+)")


@dataclass(frozen=True, slots=True, eq=False)
class Mistake:
    """Rules with a mistake, the body of a policy `p(x)` or the whole text of rules.dl; other files by name."""

    text: str
    files: Mapping[str, str]
    command: str

    @property
    def rules(self) -> str:
        """The text of rules.dl; empty if there is none."""
        return self.text if not self.text or ":-" in self.text or "@" in self.text else f"{POLICY}{self.text}.\n"


def _read(cell: str) -> Mistake:
    """Read what is written: lines of rules.dl, then of other files, then a command if it is not `CHECK`."""
    files, name, command = {"": ""}, "", CHECK
    for part in map(PART.fullmatch, cell.split("<br>")):
        assert part, cell
        name = part["file"] or name
        line = part["line"].strip("`").replace("\\|", "|")
        if line.startswith(("check ", "test ")):
            command = line
        else:
            texts = {"the template": TEMPLATE, "empty": ""}
            files[name] = files.get(name, "") + texts.get(part["line"], f"{line}\n")
    text = files.pop("")
    return Mistake(text if text.count("\n") > 1 else text.strip(), files, command)


MISTAKES = {
    kind: tuple(_read(line[2:].split(" | ")[0]) for line in section.splitlines() if line.startswith("| `"))
    for kind, section in (part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
}
MEANT = (
    'heat:stack(id=x), gate:role(role), own_role(role).\nown_role("operator")',
    'heat:unknown(id=x, path="networks")',
    'heat:uses_parameter(id=x, path=".metadata.tier", parameter="tier")',
    'os:nova:server.metadata(_id=x, _key="public", _value=v), v in [true, "true"]',
    'os:nova:server(_id=x, image=i), (i = null or bad(i)).\nbad("cirros")',
    'os:neutron:subnet(_id=x, cidr=c), c != null, cidr_contains(c, "10.0.0.1")',
    'heat:resource(id=x, name=n), matches(n, "[^]|]$")',
    "os:nova:server(_id=x, name=n), n != null, not old:os:nova:server(_id=x, name=n)",
    "heat:stack(id=x), max{ n : os:cinder:volume(_stack=x, size=n) } > min{ n : os:cinder:volume(_stack=x, size=n) }",
    'os:nova:server(_id=x, name=n), n != null, contains(n, "-"), split(n, "-", 1, part), part = "2"',
    'os:neutron:subnet(_id=x, cidr=c), c != null, starts_with(c, "10.0.")',
    'heat:stack(id=x), days_until("2027-3-1", n), n < 30',
)
