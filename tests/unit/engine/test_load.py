"""A decision does not depend on the load of its host."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.engine.budget import Budget
from tests.fuzz_stacks import read_seeds, spoil

ROOT = Path(__file__).parents[3]
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
LOAD, TEMPLATES = 16, 50
TIGHT = Budget(facts=1_000_000, seconds=0.01)
"""A budget that some policies exceed for some of the stacks."""
UNREAD: dict[str, Any] = {
    "heat_template_version": "2016-10-14",
    "resources": {
        "net": {"type": "OS::Neutron::Net"},
        **{
            f"part{at}": {"type": f"http://example.com/part{at}.yaml", "properties": {"net": {"get_resource": "net"}}}
            for at in range(3)
        },
    },
}


def spin() -> None:
    while True:
        pass


@contextmanager
def loaded(processes: int) -> Iterator[None]:
    """Keep the host busy."""
    busy = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(processes)]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


def stacks() -> list[dg.Stack]:
    """Stacks of the packs' own cases, some of them spoilt, and one with templates that can't be read."""
    random = Random(7)
    read = [dg.read_stack(template=UNREAD, stack_name="web")]
    seeds = read_seeds()
    while len(read) < TEMPLATES:
        seed = random.choice(seeds)
        template = spoil(random, seed["template"]) if random.randrange(2) else seed["template"]
        try:
            read.append(
                dg.read_stack(
                    template=template, environment=seed["environment"], files=seed["files"], stack_name=f"s{len(read)}"
                )
            )
        except (dg.InputError, AttributeError, TypeError):
            continue
    return read


def decide(budget: Budget) -> list[Any]:
    """What the packs decide of each stack: ids, outcomes, findings and errors."""
    rules = dg.load_rules(ROOT / "rules")
    return [rules.decide(stack, action="create", now=NOW, budget=budget).to_json() for stack in stacks()]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_decisions_are_equal_at_any_load() -> None:
    alone = decide(TIGHT)
    with loaded(LOAD):
        assert decide(TIGHT) == alone
    assert {error["code"] for decision in alone for error in decision["errors"]} == {"budget"}
    assert {bool(decision["errors"]) for decision in alone} == {True, False}
