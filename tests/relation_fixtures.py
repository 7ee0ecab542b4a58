"""Rows of the fixtures for all relations, as docs/relations.md shows them.

``REGENERATE=1 pytest tests/unit/schema/test_relations.py`` writes the rows and the page anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import chdir
from functools import cache, partial
from itertools import groupby
from pathlib import Path

from datalog_gate.api import Rules
from datalog_gate.base.values import Row, Unknown, row_key, to_json
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import write_text
from datalog_gate.files.inputs import fact_lines
from datalog_gate.files.templates import read_json, read_stack
from datalog_gate.schema import cloud, descriptions
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import Column, Relation
from datalog_gate.schema.descriptions import RelationDescription, describe_kinds, describe_relations
from datalog_gate.schema.relations import FIXED
from datalog_gate.stack.model import Stack
from tests.sources import ROOT

EXAMPLES = Path(descriptions.__file__).parent / "data" / "examples.json"
GENERAL = Path("fixtures/relations")
"""The fixture that fills every relation of stacks and requests."""
LONGEST = 120
"""The longest text in an example."""
LONG = 60
"""The number of characters from which the meaning of a column is told only once."""


@cache
def fixture_rows() -> Mapping[str, Mapping[str, frozenset[Row]]]:
    """The rows of each fixture by folder and relation that hold no unknown. The first fixture is `GENERAL`."""
    with chdir(ROOT):
        portal = read_stack(GENERAL, stack_name="portal")
        rows = {str(GENERAL): _type_rows(portal) | _decision_rows(portal) | _cloud_rows()}
        for folder in sorted(Path("fixtures/stacks").iterdir()):
            is_yaml = (folder / "template.yaml").exists()
            stack = read_stack(folder if is_yaml else folder / "template.json", stack_name=folder.name)
            rows[str(folder)] = _type_rows(stack)
    return rows


def _type_rows(stack: Stack) -> dict[str, frozenset[Row]]:
    facts = flatten(stack, SHIPPED)
    return {str(name): _known(rows) for name, rows in facts.rows.items() if name not in FIXED}


def _decision_rows(stack: Stack) -> dict[str, frozenset[Row]]:
    """The rows of the general relations in a decision about an update of the stack."""
    variables = {name: ", ".join(f"v{at}" for at, _ in enumerate(FIXED[name].columns)) for name in FIXED}
    copies = [f"copy{at}({columns}) :- {name}({columns})." for at, (name, columns) in enumerate(variables.items())]
    unlock = RuleFile("services", "rules.dl", (GENERAL / "rules.dl").read_text("utf-8"))
    text = '@record("all", "{v0}")\n' + "\n".join(copies)
    decision = Rules(load([RuleFile("all", "all.dl", text), unlock])).decide(
        stack,
        against=read_stack(GENERAL / "old.yaml", stack_name="portal"),
        caller=read_json(GENERAL / "caller.json"),  # type: ignore[arg-type]
        services=["edge"],
        inventory=GENERAL / "inventory.jsonl",
        now="2027-03-01T12:00:00+00:00",
    )
    return {name: _known(decision.derived[f"all:copy{at}"]) for at, name in enumerate(FIXED)}


def _cloud_rows() -> dict[str, frozenset[Row]]:
    """The rows of the inventory; a row that `check` would refuse is an error."""
    rows: dict[str, set[Row]] = {}
    for line in fact_lines(GENERAL / "inventory.jsonl"):
        if relation := cloud.relation(line.relation):
            rows.setdefault(line.relation, set()).add(line.typed(relation))
    return {name: _known(of_relation) for name, of_relation in rows.items()}


def _known(rows: Iterable[Row]) -> frozenset[Row]:
    return frozenset(row for row in rows if not any(isinstance(value, Unknown) for value in row))


def examples_file() -> str:
    """The text of `EXAMPLES`: for each relation that a fixture fills the best row of the first such fixture."""
    lines = []
    for name in SHIPPED.names():
        relation = SHIPPED.relation(name)
        fixture = next((folder for folder, rows in fixture_rows().items() if rows.get(name)), None)
        if relation and fixture:
            row = min(fixture_rows()[fixture][name], key=partial(_rank, relation))
            cells = {
                column: to_json(value, tagged=True)
                for column, value in zip(relation.positions, row, strict=True)
                if value is not None
            }
            data = json.dumps({"fixture": fixture, "row": cells}, ensure_ascii=False)
            lines.append(f"{json.dumps(name)}: {data}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rank(relation: Relation, row: Row) -> tuple[object, ...]:
    """Short texts come first, then what the example rule names, then few nulls."""
    texts = [value for value in row if isinstance(value, str)]
    is_long = any(len(text) > LONGEST for text in texts)
    named = sum(any(word in text for text in texts) for word in re.findall('"(.*?)"', relation.rule))
    return is_long, -named, row.count(None), row_key(row)


SECTIONS = {
    "the template: ": "Grants",
    "the gate": "Grants",
    "the template": "The template",
    "the environments": "Environments",
    "a stack": "Stacks that exist",
    "an operation": "Updates",
    "the request": "The request",
}
"""The section of a relation by how it begins what fills it; the first that fits."""
CLOUD = """
## The cloud

What there is in the cloud, in Congress's tables. An inventory fills them, `check --inventory FILE.jsonl`, a line of
JSON for each row: `{"relation": "nova:tags", "row": {"server_id": "s-17", "tag": "front"}}`. Columns without a `?`
are mandatory: a row that lacks one is refused. Those with a `*` are the key. A column without a kind is a text. No
fixture fills those tables that have no row here.
"""
LIVE = """
## What lives

What the cloud has of the resources of a stack that Heat holds, beside what the stack says of them: a row of a table
above whose id is the resource's in `heat:physical`, with the resource as `_id`. `heat:updated` and `gate:inventory`
tell whether the table was read since the resource was changed. Arguments are always named.

    grown(v, size) :- os:cinder:volume(_id=v, size=size), live:os:cinder:volume(_id=v, size=there), there > size ?? 0.

"""
TYPES = """
## Resource types

What resources say in their properties: a relation for each type, and one for each of its lists and maps. The template
fills them, and each has an older state. `_id` is the resource, `_stack` the id of its stack, `_index` a place in a
list, `_key` a key in a map. Columns are those of Heat's properties; arguments are always named. A column without a
kind is a text, or the resource that `get_resource` puts there, so that joins with `_id` follow it; values in quotes
are the only ones that there are. What a template leaves out is null, or the default if Heat has one.
[catalogue.md](catalogue.md) adds the types of plugins. A type that is in no catalogue gives rows of `heat:resource`
and `heat:property` alone.
"""


def relations_page() -> str:
    """The generated part of docs/relations.md."""
    described = describe_relations()
    general = [description for description in described if description.relation.name in FIXED]
    text, told = "", set[str]()
    for title in dict.fromkeys(map(_section, general)):
        text += f"\n## {title}\n" + "".join(
            _entry(description, told) for description in general if _section(description) == title
        )
    in_cloud = [description for description in described if cloud.relation(description.relation.name)]
    text += CLOUD + "".join(_brief_sections(in_cloud, 1))
    live = [description for description in described if description.relation.name.startswith(cloud.LIVE)]
    text += LIVE + "".join(map(_brief_entry, live))
    return text + TYPES + "".join(_brief_sections([description for description in described if description.type], 2))


def _section(description: RelationDescription) -> str:
    return next(title for start, title in SECTIONS.items() if description.filled_by.startswith(start))


def _entry(description: RelationDescription, told: set[str]) -> str:
    """A section with the columns, a row and a rule."""
    relation = description.relation
    filled = f"Filled by {description.filled_by}.{' With an older state.' if description.has_old else ''}\n"
    if description.filled_by == "the template" and description.has_old:
        filled = ""
    lines = "".join(
        f"- {_key(column.name, relation)} ({describe_kinds(column)}): {_meaning(column, told)}\n"
        for column in relation.columns
    )
    example = f"```text\n{row_text(description)}\n{description.rule}\n```\n"  # an indented one would belong to the list
    return f"\n### {relation.name}\n\n{relation.meaning}\n{filled}\n{lines}\n{example}"


def _meaning(column: Column, told: set[str]) -> str:
    """What a column means; in brief if the page has said it at length."""
    if column.meaning in told:
        return column.meaning.partition(",")[0].partition(";")[0].rstrip(".") + ", as above."
    if len(column.meaning) > LONG:
        told.add(column.meaning)
    return column.meaning


def _brief_sections(described: Iterable[RelationDescription], segments: int) -> Iterable[str]:
    """A section for the relations that begin with the same segments of their names."""

    def namespace(description: RelationDescription) -> str:
        return ":".join(description.relation.name.split(":")[:segments])

    for name, group in groupby(sorted(described, key=namespace), namespace):
        yield f"\n### {name}\n\n" + "".join(map(_brief_entry, group))


def _brief_entry(description: RelationDescription) -> str:
    relation = description.relation
    about = f": {description.type}" if description.type and "." not in relation.name else ""
    if not description.type:
        about = f": {relation.meaning}"
    row = f"\n  `{row_text(description)}`" if description.example else ""
    return f"- `{description.signature()}`{about}{row}\n"


def _key(name: str, relation: Relation) -> str:
    return f"**{name}**" if name in relation.key else name


def row_text(description: RelationDescription) -> str:
    """The example as `facts` prints it."""
    facts = FactSet()
    facts.add(description.relation.name, description.example or ())
    return "".join(write_text(facts))
