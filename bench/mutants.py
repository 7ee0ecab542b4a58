"""Measure which faults in rules the examples of their policies notice.

Each fault is judged once by the cases in the pack's test.yaml, and once by the examples of its policies alone.

python -m bench.mutants [PACK...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from datalog_gate.base.records import replace
from datalog_gate.examples.example_search import find_examples
from datalog_gate.policytest.example_cases import write_cases
from datalog_gate.policytest.mutation import Mutation, mutate
from datalog_gate.policytest.suite import Suite, read_suite
from datalog_gate.policytest.testfile import read_cases

RULES = Path(__file__).parents[1] / "rules"


def example_suites(suite: Suite) -> Iterator[Suite]:
    """The policies of a suite without cases, then each that has examples with these as its cases."""
    yield replace(suite, cases=())
    for policy in suite.rules.policies:
        found = find_examples(suite.rules, policy) if policy.id in suite.policies else None
        if found and found.examples:
            own = replace(suite, policies=frozenset({policy.id}))
            cases = read_cases(suite.file, write_cases("", str(suite.file), [found], own))
            yield replace(own, cases=cases)


def main(packs: list[str]) -> None:
    """Print a row for each pack."""
    print("| pack | faults | own cases notice | examples notice | examples, of what own cases notice |")
    print("|---|---|---|---|---|")
    for pack in packs or sorted(folder.name for folder in RULES.iterdir()):
        suite = read_suite(RULES / pack / "test.yaml")
        own, shown = mutate([suite]), mutate(list(example_suites(suite)))
        survivors = _survivors(own)
        noticed = own.mutants - len(survivors)
        both = own.mutants - len(survivors | _survivors(shown))
        share = f"{100 * both / noticed:.0f} %" if noticed else "none"
        print(f"| {pack} | {own.mutants} | {own.score:.0f} % | {shown.score:.0f} % | {share} |")


def _survivors(mutation: Mutation) -> set[object]:
    return {(mutant.span, mutant.what) for mutant in mutation.survivors}


if __name__ == "__main__":
    main(sys.argv[1:])
