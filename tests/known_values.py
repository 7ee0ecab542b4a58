"""Check over the corpus that values only settle undetermined findings.

``python -m tests.known_values [SEEDS]`` checks every root.

A root is judged without any environment, then with values for some of the parameters that have none, then for all. What
is certain stays so, and nothing is found that was ruled out before: values only settle what was undetermined. A value
that is assumed makes the same facts as one that is given.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import datalog_gate as dg
from datalog_gate.api import Rules
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import Row, Unknown, to_json
from datalog_gate.decision.decision import Decision, Violation
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import RelationRef
from datalog_gate.stack.model import Data, Parameter, Stack

ROOT = Path(__file__).parents[1]
CORPUS = Path(os.environ.get("DATALOG_GATE_SHARED", ROOT.parent / "shared")) / "corpus" / "templates"
NOW = "2027-01-01T00:00:00"
PolicySubjects = set[tuple[str, str | None]]
"""Findings by policy and subject."""


def corpus() -> list[Path]:
    """The root templates of the corpus; none without it."""
    lines = (CORPUS / "manifest.jsonl").read_text().splitlines() if CORPUS.is_dir() else []
    return [CORPUS / json.loads(line)["root"] for line in lines]


def read(template: Path, parameters: dict[str, Data], assume: dict[str, Data] | None = None) -> Stack | None:
    """Read a root template without an environment; None if Heat would refuse it too."""
    try:
        return dg.read_stack(template, parameters=parameters, assume=assume, files_root=CORPUS, stack_name="web")
    except InputError:
        return None


def value(of: Parameter, seed: random.Random) -> Data:
    """Draw a value of the parameter's type. Constraints other than allowed values may refuse it."""
    assert isinstance(of.value, Unknown)
    if of.value.domain:
        return to_json(seed.choice(of.value.domain))
    match of.type:
        case "number":
            return seed.choice([0, 1, 2, 3, 22, 80, 100, 65535])
        case "comma_delimited_list":
            return ",".join(seed.sample(["a", "b", "10.0.0.0/24", "0.0.0.0/0"], seed.randint(1, 3)))
        case "json":
            return seed.choice([{}, {"a": "b"}, {"a": ["b", 1]}])
    return seed.choice(["a", "public", "10.0.0.0/24", "0.0.0.0/0", "m1.small", "8080", "nova", "true"])


def wrong(rules: Rules, template: Path, seed: int) -> Iterator[str]:
    """Yield the wrong answers about a root template, in words."""
    chance = random.Random(f"{seed} {template.name}")
    stack = read(template, {})
    if stack is None:
        return
    before = judged(rules, stack)
    yield from (
        f"{violation.policy} on {violation.resource} hangs on nothing"
        for violation in before.undetermined
        if not violation.because
    )
    missing = [parameter for parameter in stack.parameters if isinstance(parameter.value, Unknown)]
    for share in (0.5, 1.0) if missing else ():
        values = {parameter.name: value(parameter, chance) for parameter in missing if chance.random() <= share}
        if values and (known := read(template, values)):
            yield from (f"{flip} with {values}" for flip in flips(before, judged(rules, known)))
            assumed = read(template, {}, {f"{{get_param: {name}}} in web": value for name, value in values.items()})
            if assumed is None or rows(assumed) != rows(known):
                yield f"{values} are others if they are assumed"


def judged(rules: Rules, stack: Stack) -> Decision:
    """Decide on one stack."""
    return rules.decide(stack, now=NOW)


def flips(before: Decision, after: Decision) -> Iterator[str]:
    """Yield the findings that more values must not change. What is undetermined of a group's members may have no name
    yet, or that of another member."""
    certain, open_ = read_findings(before.violations), read_findings(before.undetermined)
    now, still = read_findings(after.violations), read_findings(after.undetermined)
    members = {(policy, member_name(subject)) for policy, subject in certain | open_}
    failed = {policy_error.policy for policy_error in (*before.errors, *after.errors)}
    for policy, subject in sorted(certain - now, key=str):
        if policy not in failed and (policy, None) not in certain:
            yield f"{policy} on {subject} was certain"
    for policy, subject in sorted((now | still) - certain - open_, key=str):
        if policy not in failed and not members & {(policy, None), (policy, member_name(subject))}:
            yield f"{policy} on {subject} was ruled out"


def rows(stack: Stack) -> set[tuple[RelationRef, Row]]:
    """All facts except where the value of a parameter comes from."""
    return {(name, row) for name, row, _ in flatten(stack, SHIPPED) if name != "heat:parameter"}


def read_findings(findings: Sequence[Violation]) -> PolicySubjects:
    """The findings by policy and subject."""
    return {
        (policy, finding.resource.path if finding.resource else None)
        for finding in findings
        for policy in finding.policies
    }


def member_name(subject: str | None) -> str | None:
    """The path that a member of a group shares with all members."""
    return None if subject is None else re.sub(r"/\d+(?=/|$)", "/0", subject)


def main() -> int:
    """Check the whole corpus with the given number of seeds."""
    rules = dg.load_rules(ROOT / "rules")
    many = int(sys.argv[1]) if sys.argv[1:] else 1
    failed = 0
    for template in corpus():
        for seed in range(many):
            for problem in wrong(rules, template, seed):
                failed += 1
                print(f"{template.relative_to(CORPUS)}: {problem}")
    print(f"{len(corpus())} roots, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
