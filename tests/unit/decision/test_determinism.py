"""A decision is the same for all hash seeds, engines and orders.

Other threads do not change it either.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread

import pytest

import datalog_gate as dg

ROOT = Path(__file__).parents[3]
STACKS = sorted(path.parent for path in (ROOT / "fixtures" / "stacks").glob("*/template.yaml"))
BLOCKS = [
    'relation link(a: string, b: string) "Links."',
    '@deny("far", "{s} reaches {b}")\nfar(s, b) :- heat:stack(id=s), reach("a", b), not link("a", b).',
    "reach(a, b) :- link(a, b).",
    "reach(a, c) :- link(a, b), reach(b, c).",
    "reach(a, c) :- back(c, b), reach(a, b).",
    "back(a, b) :- reach(b, a), a != b.",
    '@warn("many", "{s} has {n}")\nmany(s, n) :- heat:stack(id=s), n = count{ r : heat:resource(id=r) }, n > LEAST.',
    '@record("kinds", "{s} holds {l}")\nkinds(s, l) :- heat:stack(id=s), l = list{ t : heat:resource(type=t) }.',
    '@warn("named", "{r} is {n}")\nnamed(r, n) :- heat:property(id=r, value=n), n != null, reach(_, n).',
    '@deny("image", "{r}")\nimage(r) :- os:nova:server(_id=r, image=i), not (link(i, x), reach(x, "d")).',
]
LINKS = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "d"), ("e", "a"), ("debian-12", "a")]
NOW = "2027-03-01T12:00"
THREADS = 8


def rules_text(least: int = 2) -> str:
    return "\n".join(BLOCKS).replace("LEAST", str(least))


def without_places(decision: dg.Decision) -> object:
    """The JSON without places and digests of texts."""

    def plain(data: object) -> object:
        if isinstance(data, dict):
            return {key: plain(value) for key, value in data.items() if key not in ("place", "digests", "id")}
        return [plain(item) for item in data] if isinstance(data, list) else data

    return plain(decision.to_json())


@pytest.mark.slow
def test_neither_the_hash_seed_nor_the_engine_changes_a_byte(tmp_path: Path) -> None:
    pytest.importorskip("datalog_gate.engine.pydatalog_worker", reason="needs pyDatalog")
    (tmp_path / "m.dl").write_text(rules_text())
    rows = [json.dumps({"relation": "m:link", "row": row}) for row in LINKS]
    (tmp_path / "i.jsonl").write_text("\n".join(rows))
    command = [sys.executable, "-m", "datalog_gate.doors.cli.main", "check", *map(str, STACKS[:3])]
    command += [
        "--rules",
        str(ROOT / "rules"),
        "--rules",
        str(tmp_path / "m.dl"),
        "--inventory",
        str(tmp_path / "i.jsonl"),
    ]
    command += ["--now", NOW, "--format", "json", "--engine"]
    outputs = {
        subprocess.run(
            [*command, engine], capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}, check=False
        ).stdout
        for seed, engine in (("0", "native"), ("1", "native"), ("0", "pydatalog"), ("2", "pydatalog"))
    }
    assert [len(output.splitlines()) for output in outputs] == [3]


@pytest.mark.slow
def test_no_order_of_files_rules_or_facts_changes_a_decision(tmp_path: Path) -> None:
    random = Random(5)
    answers = []
    for _ in range(4):
        (tmp_path / "m.dl").write_text("\n".join(random.sample(BLOCKS, len(BLOCKS))).replace("LEAST", "2"))
        paths = [tmp_path / "m.dl", *sorted((ROOT / "rules").iterdir())]
        rules = dg.load_rules(*random.sample(paths, len(paths)))
        facts = {"link": random.sample(LINKS, len(LINKS))}
        answers.append(
            [without_places(rules.decide(dg.read_stack(stack), inventory=facts, now=NOW)) for stack in STACKS]
        )
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.slow
def test_threads_do_not_see_each_other(tmp_path: Path) -> None:
    """Rules are loaded and swapped in meanwhile."""
    stacks = [dg.read_stack(stack) for stack in STACKS]

    def load(version: int) -> dg.Rules:
        (tmp_path / "m.dl").write_text(rules_text(version))
        return dg.load_rules(tmp_path / "m.dl", ROOT / "rules")

    def judge(rules: dg.Rules, at: int) -> str:
        facts = {"link": LINKS[at % 3 :]}
        return json.dumps(rules.decide(stacks[at % len(stacks)], inventory=facts, now=NOW).to_json())

    loaded = [load(version) for version in range(4)]
    alone = [[judge(rules, at) for at in range(3 * len(stacks))] for rules in loaded]
    current = 0, loaded[0]
    wrong: list[str] = []

    def work(number: int) -> None:
        for at in range(number, number + 10):
            version, rules = current
            place = at * 7 % len(alone[version])
            if judge(rules, place) != alone[version][place]:
                wrong.append(f"thread {number}: stack {place}, rules {version}")

    threads = [Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for version in count(1):
        if not any(thread.is_alive() for thread in threads):
            break
        current = version % len(alone), load(version % len(alone))
    assert wrong == []
