"""Each of several mistakes in a template is said once."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.files.templates import read_stack, read_text, resolve
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.template.document import read_document
from datalog_gate.validation.refusals import find_further_refusals, find_refusals
from tests.sampling import sample
from tests.template_mistakes import MISTAKES, Case, find_corpus, find_fixtures, put_mistake

COUNT = sample(200)
GONE = object()
HIDING = {
    "type of no service",
    "type misspelt",
    "condition that is none",
    "parameter of no type",
    "property with other case",
    "length out of range",
    "resource",
    "resource_def",
}
"""Mistakes, and keys that they are in, after which others in the same resource can't be seen: the type is another one,
or the members of a group are not known."""
KINDS = sorted(MISTAKES.keys() - {"function of a newer version", "parameter with a text that is none"})
"""All but those that change what others are: by the version, or by the type of a parameter."""
UNSURE = {"external_id", "conditions", "Conditions", "LaunchConfigurationName"}
"""What makes Heat look at more or at less: instances of a launch configuration are seen by the type of their group."""
Change = tuple[tuple[Any, ...], Any]
Said = Counter[tuple[str, str]]


def say(body: Any, case: Case) -> Said:
    """The codes and messages of the errors that are said of a template."""
    template, environments, root = case
    try:
        unsaved = {resolve(template): json.dumps(body, indent=1)}
        stack = read_stack(template, environments=environments, files_root=root, unsaved=unsaved)
        found: Iterable[Diagnostic] = find_refusals(stack, SHIPPED)
    except InputError as error:
        found = (*error.diagnostics, *find_further_refusals(error, SHIPPED))
    return Counter((problem.code, problem.message) for problem in found if problem.severity == "error")


def find_changes(before: Any, after: Any, path: tuple[Any, ...] = ()) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from find_changes(before.get(key, GONE), after.get(key, GONE), (*path, key))
    elif before is not after and before != after:
        yield path, after


def change(body: Any, changes: list[Change]) -> None:
    for path, value in changes:
        holder = body
        for step in path[:-1]:
            holder = holder.setdefault(step, {})
        if value is GONE:
            holder.pop(path[-1], None)
        else:
            holder[path[-1]] = copy.deepcopy(value)


def are_apart(kind: str, changes: list[Change], other: str, others: list[Change]) -> bool:
    """Whether neither of two mistakes hides the other."""
    same = 2 if HIDING & {kind, other}.union(*(path for path, _ in (*changes, *others))) else 99
    return not any(all(a == b for a, b in zip(p[:same], q[:same], strict=False)) for p, _ in changes for q, _ in others)


@cache
def read_bodies() -> tuple[tuple[Case, Any], ...]:
    """The templates in which nothing is wrong, and everything is looked at."""
    cases = (*find_fixtures(), *find_corpus())
    bodies = [(case, read_document(read_text(Path(case[0])), "t").data) for case in cases]
    bodies = [(case, json.loads(json.dumps(body, default=str))) for case, body in bodies]
    return tuple((case, body) for case, body in bodies if not UNSURE & {*str(body).split("'")} and not say(body, case))


@pytest.mark.sampled
def test_each_of_several_mistakes_is_said_once() -> None:
    chance = random.Random(47)
    done, wrong = 0, []
    while done < COUNT:
        case, body = chance.choice(read_bodies())
        changed, put, expected = copy.deepcopy(body), dict[str, list[Change]](), Said()
        for kind in chance.sample(KINDS, 30):
            mistaken = put_mistake(kind, body, chance)
            changes = [] if mistaken is None else list(find_changes(body, mistaken))
            changes = [part for part in changes if part[1] != {}]
            if changes and len(put) < 5 and all(are_apart(kind, changes, *other) for other in put.items()):
                put[kind] = changes
                change(changed, changes)
                expected += say(mistaken, case)
        if len(put) < 3:
            continue
        done += 1
        said = say(changed, case)
        if said != expected:
            wrong.append((str(case[0]), sorted(put), said - expected, expected - said))
    assert wrong == []
