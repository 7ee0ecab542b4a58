"""What lives after generated sequences of operations on trees satisfies the rules.

A sequence creates a tree of stacks and changes it: by updates that may fail and be rolled back or cancelled, by signals
at any time, and by operations on nested stacks alone. Whenever no stack of the tree is in progress, Heat's database is
compared with the rules, which are written here a second time. `DATALOG_GATE_BUILT` is the number of sequences in each
engine, `DATALOG_GATE_SEED` where they begin.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.heat.doors.rig import ENGINE_DOOR, PATIENCE, Heat, running, wait
from tests.heat.doors.templates import UP, string, template
from tests.heat.doors.test_built import LIVES, SEED, SHARD, generate
from tests.heat.doors.test_rollbacks import BY_ID, DATA, FILES, RULES, SIGNALLED, chain, group, nested, scaled

TOGETHER = 4
"""How many sequences go on at once."""
MOST = 5
"""The strings that a tree may have by RULES."""
PARAMETERS = {"word": {"type": "string", "default": "good"}, "number": {"type": "number", "default": 1}}
ATTRIBUTE, SIZE = {"get_attr": ["n", "told"]}, {"get_attr": ["n", "size"]}
TOLD = {"value": {"str_split": [",", DATA, 0]}}
N = {
    **template(**SIGNALLED),
    "outputs": {"OS::stack_id": TOLD, "told": TOLD, "size": {"value": {"str_split": [",", DATA, 1]}}},
}
"""A nested stack whose id is a word that is signalled, and that has the word and a number as attributes."""
KNOWN = st.sampled_from([*["good"] * 7, "fine", "evil", {"get_param": "word"}, {"get_param": "word"}])
WORDS = st.sampled_from(
    [BY_ID, BY_ID, ATTRIBUTE, ATTRIBUTE, {"if": ["maybe", ATTRIBUTE, "fine"]}, {"get_param": "word"}]
)
NUMBERS = st.sampled_from([0, 1, 2, 2, 3, {"get_param": "number"}])
SIZES = st.sampled_from([1, 3, {"get_param": "number"}, SIZE, SIZE, SIZE, {"if": ["maybe", SIZE, 1]}])


def value(word: Any) -> dict[str, Any]:
    """A resource that must not be evil."""
    return {"type": "OS::Heat::Value", "properties": {"value": word}}


def counted(number: Any) -> dict[str, Any]:
    """A group of so many strings."""
    return {"type": "OS::Heat::ResourceGroup", "properties": {"count": number, "resource_def": string()}}


def trial(salt: int, seconds: float, fail: bool) -> dict[str, Any]:
    """A resource that takes its time, and may fail."""
    pauses = {"create": seconds, "update": seconds}
    return {"type": "OS::Heat::TestResource", "properties": {"value": salt, "action_wait_secs": pauses, "fail": fail}}


TRIALS = st.builds(trial, st.integers(0, 9), st.sampled_from([0, 0, 1, 2]), st.sampled_from([False, False, True]))
INNER = st.fixed_dictionaries(
    {"s0": NUMBERS.map(partial(string, 8))},
    optional={
        "s1": st.just(string(9)),
        "v": st.builds(value, KNOWN),
        "m": st.builds(nested, KNOWN),
        "g": st.builds(counted, NUMBERS),
        "t": TRIALS,
    },
).map(lambda resources: {**template(**resources), "parameters": PARAMETERS})
"""Templates of nested stacks. Another salt replaces a string."""


TREE = "WITH RECURSIVE tree(id) AS (SELECT ? UNION SELECT stack.id FROM stack JOIN tree ON owner_id = tree.id) SELECT"
MEMBERS = f"""{TREE} stack.id, name, coalesce(parent_resource_name, ''), action || '_' || status
    FROM stack JOIN tree ON stack.id = tree.id WHERE deleted_at IS NULL"""
BUILT = f"""{TREE} stack_id, resource.name, action || '_' || status, iif(nova_instance IS NULL, NULL, data)
    FROM resource JOIN tree ON stack_id = tree.id
    LEFT JOIN resource_properties_data AS properties ON rsrc_prop_data_id = properties.id WHERE action != 'DELETE'"""
"""Resources with their properties, if they were built."""


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """What is requested of the root."""
    inner = st.builds(
        lambda word, number: {"type": "x.yaml", "properties": {"word": word, "number": number}}, WORDS, SIZES
    )
    known = [st.builds(value, KNOWN), st.builds(counted, SIZES), st.builds(counted, SIZES), inner, inner]
    by_word = [st.builds(kind, WORDS) for kind in (nested, partial(nested, kind="between.yaml"), chain, group, scaled)]
    resources: dict[str, Any] = {"n": {"type": "n.yaml"}}
    for name in draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True)):
        resource = draw(st.one_of(*known, *by_word))
        resources[name] = {**resource, "depends_on": draw(st.sampled_from([[], [], sorted(resources)]))}
        if draw(st.integers(0, 3)) == 0:
            resources[name]["condition"] = "maybe"
    if draw(st.integers(0, 2)) == 0:
        members = {"min_size": 1, "max_size": 4, "resource": string(draw(st.integers(8, 9)))}
        resources["group"] = {"type": "OS::Heat::AutoScalingGroup", "properties": members}
        resources["up"] = UP
    if draw(st.booleans()):
        after = draw(st.sampled_from([[], sorted(resources)]))
        resources["t"] = {**draw(TRIALS), "depends_on": after}
    conditions = {"maybe": {"equals": [{"get_param": "number"}, draw(st.integers(0, 1))]}}
    return {
        "template": {**template(**resources), "parameters": PARAMETERS, "conditions": conditions},
        "files": {**FILES, "n.yaml": json.dumps(N), "x.yaml": json.dumps(draw(INNER))},
        "disable_rollback": draw(st.booleans()),
    }


PARAMETERS_GIVEN = st.fixed_dictionaries({"word": st.sampled_from(["good", "evil"]), "number": st.integers(0, 3)})
SIGNALS = st.tuples(st.just("signal"), st.sampled_from(["good,1", "fine,2", "fine,3", "evil,1", "evil,3"]))
AT = st.integers(0, 9)
CANCELS = st.tuples(st.just("cancel"), AT, st.sampled_from(["cancel_update"] * 3 + ["cancel_without_rollback"]))
ALONE = st.tuples(st.just("nested"), AT, INNER) | st.just(("up",))
BEGUN = st.tuples(st.sampled_from(["PUT"] * 5 + ["PATCH"]), bodies(), PARAMETERS_GIVEN) | ALONE
PAUSES = st.sampled_from([0, 0.2, 0.5, 1])
PHASES = st.tuples(
    st.lists(SIGNALS, max_size=2), BEGUN, st.lists(st.tuples(PAUSES, SIGNALS | CANCELS | CANCELS | ALONE), max_size=2)
)
"""Signals, then an operation, then others after a pause, in seconds, while that one goes on. A rest follows."""
Phase = tuple[Sequence[tuple[Any, ...]], tuple[Any, ...], Sequence[tuple[float, tuple[Any, ...]]]]
Sequel = tuple[dict[str, Any], Sequence[Phase]]
SEQUENCES = st.tuples(bodies(), st.lists(PHASES, min_size=1, max_size=3))
DENIED: Sequel = (
    {"template": template(v=value("good"))},
    [([], ("PUT", {"template": template(v=value("evil"))}, {}), [])],
)
"""A sequence that shows that the rules are in force: what few generated ones ask for may never be denied."""


@dataclass(frozen=True)
class Member:
    """A stack of a tree: its path, the resource that it is in, and its action and status."""

    path: str
    resource: str
    state: str


@dataclass(frozen=True)
class Tree:
    """What Heat's database has of a tree at one time."""

    stacks: Sequence[Member]
    words: Sequence[str]
    strings: int
    waits: bool
    """Whether a nested stack waits for a signal and can take it."""

    def find(self, resources: str) -> list[Member]:
        """The nested stacks in resources of these names, each a letter."""
        return [stack for stack in self.stacks if stack.resource and stack.resource in resources]

    def in_progress(self) -> list[Member]:
        """All but the stacks in which the legacy engine keeps what an update replaces."""
        return [stack for stack in self.stacks if stack.state.endswith("IN_PROGRESS") and "*/" not in stack.path]

    def problem(self) -> str:
        """What violates RULES. If an update failed, what it was to replace may live too: docs/security.md."""
        most = MOST if all(stack.state.endswith("COMPLETE") for stack in self.stacks) else MOST * 2
        return f"evil or more than {most} strings live: {self}" if "evil" in self.words or self.strings > most else ""


def read_tree(folder: Path, root: str) -> Tree:
    """Read a tree in one transaction."""
    with closing(sqlite3.connect(f"file:{folder}/heat.db?mode=ro", uri=True, timeout=30)) as database:
        database.execute("BEGIN")
        members = database.execute(MEMBERS, (root,)).fetchall()
        resources = database.execute(BUILT, (root,)).fetchall()
    states = {(stack, name): state for stack, name, state, _ in resources}
    alive = [json.loads(properties) for _, _, _, properties in resources if properties]
    return Tree(
        [Member(f"stacks/{name}/{key}", resource, state) for key, name, resource, state in members],
        [str(properties["value"]) for properties in alive if "value" in properties],
        sum("length" in properties for properties in alive),
        any(
            (name, state, states.get((stack, "to"))) == ("w", "CREATE_IN_PROGRESS", "CREATE_COMPLETE")
            for (stack, name), state in states.items()
        ),
    )


@dataclass(frozen=True)
class Run:
    """A sequence that a Heat goes through. What was done is written down, to be understood if it fails."""

    heat: Heat
    name: str
    root: str
    done: list[str]

    def tree(self) -> Tree:
        return read_tree(self.heat.folder, self.root)

    def do(self, operation: Sequence[Any]) -> None:
        """Request an operation, wherever it is possible."""
        match operation:
            case "PUT", body, _:
                self.ask("PUT", f"stacks/{self.name}/{self.root}", **body)
            case "PATCH", _, given:
                self.ask("PATCH", f"stacks/{self.name}/{self.root}", parameters=given)
            case ("up",):
                self.ask("POST", f"stacks/{self.name}/{self.root}/resources/up/signal", alarm="now")
            case "signal", data:
                for stack in self.tree().find("n"):
                    self.ask("POST", f"{stack.path}/resources/to/signal", status="SUCCESS", id="1", data=data)
            case "nested", at, body:
                if stacks := self.tree().find("abcm01"):
                    self.ask("PUT", stacks[at % len(stacks)].path, template=body)
            case "cancel", at, action:
                if stacks := self.tree().in_progress():
                    self.ask("POST", f"{stacks[at % len(stacks)].path}/actions", **{action: None})

    def ask(self, method: str, path: str, **body: Any) -> None:
        answer = self.heat.ask(method, path, **body)
        text = " ".join(answer.text.split())
        self.done.append(f"{method} {path} {json.dumps(body)}: {answer.status_code} {text[:300]}")

    def rest(self) -> Tree:
        """Wait until the tree is at rest, and give what waits for a signal its first one."""
        tree = self.tree()

        def is_over() -> bool:
            nonlocal tree
            tree = self.tree()
            if tree.waits:
                self.do(("signal", "good,1"))
            return not tree.in_progress()

        wait(is_over, lambda: f"{tree}\n{chr(10).join(self.done)}\n{self.heat.log()}", 2.5 * PATIENCE)
        self.done.append(f"rest: {tree}")
        return tree


def run(heat: Heat, overlaps: bool, sequel: Sequel) -> Counter[str]:
    """Go through a sequence, and check each rest. Return what the root was there.

    Where operations on nested stacks must not overlap others, as in the legacy engine by docs/security.md, they don't.
    """
    body, phases = sequel
    name, answer = heat.create(**body)
    sequence = Run(heat, name, answer.json()["stack"]["id"], [f"POST {json.dumps(body)}"])
    trees = [sequence.rest()]
    for signals, begun, during in phases:
        for operation in (*signals, begun):
            sequence.do(operation)
        for pause, operation in during:
            if overlaps or operation[0] in ("signal", "cancel"):
                time.sleep(pause)
                sequence.do(operation)
        trees.append(sequence.rest())
    counts = Counter(
        stack.state for tree in trees for stack in tree.stacks if not stack.resource and "*/" not in stack.path
    )
    counts += Counter(rests=len(trees), strings=sum(tree.strings for tree in trees))
    problems = [tree.problem() for tree in trees if tree.problem()]
    assert not problems, "\n".join([*problems, *sequence.done])
    return counts


@pytest.mark.parametrize("engine", ["convergence", "legacy"])
@pytest.mark.parametrize("shard", range(-(-LIVES // SHARD)))
def test_what_lives_at_each_rest_satisfies_the_rules(
    tmp_path: Path, engine: str, shard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"decision_log": str(tmp_path / "decisions.jsonl"), "decision_log_bytes": "4000000000"}
    sequences = [DENIED, *generate(SEQUENCES, min(LIVES - shard * SHARD, SHARD), SEED + shard)]
    began = time.monotonic()
    with running(tmp_path, engine == "convergence", rules=RULES, options=options, resources=ENGINE_DOOR) as heat:
        with ThreadPoolExecutor(TOGETHER) as threads:
            ended = [threads.submit(run, heat, engine == "convergence", sequence) for sequence in sequences]
        found = [str(future.exception()) for future in ended if future.exception()]
        counts = sum((future.result() for future in ended if not future.exception()), Counter(failed=len(found)))
        counts["denied"] = len(heat.lines("decisions.jsonl", kind="decision", verdict="denied"))
    with capsys.disabled():
        print(f"\n{engine}, seed {SEED + shard}, {time.monotonic() - began:.0f} s: {dict(counts)}")
    assert found == [], "\n\n".join(found)
    assert counts["denied"] > 0
