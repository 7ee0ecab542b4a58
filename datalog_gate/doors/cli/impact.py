"""A table by policy of what other rules would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from datalog_gate.base.diagnostics import printable

EXAMPLES = 3
"""The number of examples of a policy."""


class PolicyImpact:
    """The decisions, or stacks, in which the findings of a policy would change."""

    def __init__(self) -> None:
        self.how = Counter[str]()
        """The number of decisions by what would change, as in `3 allow to deny`."""
        self.projects = set[str]()
        self.examples: list[str] = []

    def add(self, how: str, project: str, example: str) -> None:
        """Count a decision."""
        self.how[how] += 1
        self.projects.add(project)
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)

    def to_json(self) -> dict[str, object]:
        number = self.how.total()
        return {"decisions": number, "how": self.how, "projects": len(self.projects), "examples": self.examples}


def format_impacts(impacts: dict[str, PolicyImpact], counted: str) -> Iterator[str]:
    """Format a line for each policy below a heading, the most changes first; none if there are none. `counted` names
    what is counted."""
    rows = [("policy", counted, "projects", "how", "examples")] if impacts else []
    for policy, impact in sort_impacts(impacts):
        how = ", ".join(f"{number} {word}" for word, number in impact.how.most_common())
        examples = ", ".join(impact.examples) + (", ..." if impact.how.total() > EXAMPLES else "")
        rows.append((policy, str(impact.how.total()), str(len(impact.projects)), how, examples))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for policy, number, projects, how, examples in rows:
        counts = f"{number:>{widths[1]}}  {projects:>{widths[2]}}"
        yield printable(f"{policy:{widths[0]}}  {counts}  {how:{widths[3]}}  {examples}")


def sort_impacts(impacts: dict[str, PolicyImpact]) -> list[tuple[str, PolicyImpact]]:
    """The policies with the most changes first."""
    return sorted(impacts.items(), key=lambda pair: (-pair[1].how.total(), pair[0]))
