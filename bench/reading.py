"""Compare reading texts into facts with parsing alone.

python -m bench.reading [ROUNDS]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from bench import templates
from bench.run import table
from datalog_gate.base.gc import paused
from datalog_gate.decision.evaluation import GRANTS
from datalog_gate.decision.policy_set import load
from datalog_gate.facts.flatten import flatten
from datalog_gate.files.rules import read_rules
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.relations import EFFECTIVE
from datalog_gate.validation.refusals import find_refusals

RULES = load(read_rules([Path(__file__).parents[1] / "rules"]))
FIRST = (
    *("capacity.servers", "net.floating_ip", "net.open_ssh", "net.security_group"),
    *("placement.zone", "security.flavor"),
)
READ = frozenset[str]().union(*(RULES.reads[policy.relation] for policy in RULES.policies if policy.id in FIRST))
WANTED = {*map(str, READ & RULES.program.inputs), *GRANTS} - {EFFECTIVE.name}
"""The relations that the first policies read. Others may read every property of every resource."""
BODY = json.dumps({"stack_name": "big", "template": templates.attached(2000)})
TEXT = yaml.safe_dump(templates.attached(2000), sort_keys=False)


@paused()
def body_to_facts() -> None:
    """Read as the filter reads a request, with the garbage collector paused."""
    body = json.loads(BODY)
    flatten(read_stack(template=body["template"], stack_name=body["stack_name"]), SHIPPED, WANTED)


def text_to_facts() -> None:
    """Read as the command reads a file."""
    flatten(read_stack(template=TEXT), SHIPPED, WANTED)


def group_to_facts(members: int) -> Callable[[], None]:
    """Read a group of this size."""
    template = templates.group(members)
    return lambda: _flattened(template, {})


def tree_to_facts(depth: int) -> Callable[[], None]:
    """Read a tree of this depth with 40 servers in each template."""
    return lambda: _flattened(*templates.tree(depth, 40))


def refusals(resources: int) -> dict[str, Callable[[], object]]:
    """Say what Heat would refuse of a stack: again, and for the first time, when types are parsed too."""
    stack = read_stack(template=templates.attached(resources // 3))
    return {
        f"{resources} resources": lambda: find_refusals(stack, SHIPPED),
        f"{resources} resources, first": lambda: find_refusals(stack, Catalogue()),
    }


def _flattened(template: object, files: dict[str, str]) -> None:
    flatten(read_stack(template=template, files=files), SHIPPED, WANTED)  # type: ignore[arg-type]


TABLES: dict[str, dict[str, Callable[[], object]]] = {
    "6,000 resources as a JSON body": {"json.loads": lambda: json.loads(BODY), "body to facts": body_to_facts},
    "6,000 resources as YAML": {
        "PyYAML's C loader": lambda: yaml.load(TEXT, yaml.CSafeLoader),
        "text to facts": text_to_facts,
    },
    "a group": {f"{members} members": group_to_facts(members) for members in (250, 500, 1000)},
    "a tree of templates": {f"{depth} deep": tree_to_facts(depth) for depth in (1, 2, 3, 4, 5)},
    "what Heat would refuse": refusals(51) | refusals(501),
}


def main(rounds: int) -> None:
    """Print every table."""
    for title, jobs in TABLES.items():
        table(title, rounds, jobs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
