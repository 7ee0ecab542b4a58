"""Findings that a check tolerates.

They are tolerated by comments in templates, by a baseline, or because their policy is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.base.diagnostics import REFUSALS, Diagnostic, did_you_mean
from datalog_gate.base.errors import UsageError
from datalog_gate.base.records import replace
from datalog_gate.decision.decision import Decision
from datalog_gate.files.baseline import Baseline, FindingKeys, Templates, compute_keys
from datalog_gate.files.ignores import Ignore, apply_ignores, find_ignores, leave_out_ignored


class Tolerated(NamedTuple):
    """A decision with the comments of templates and the baseline applied."""

    decision: Decision
    keys: FindingKeys
    ignores: tuple[Ignore, ...]
    used: frozenset[Ignore]
    """The ignores that match a finding."""


def tolerate(
    decision: Decision,
    templates: Templates,
    sources: Mapping[str, str],
    policies: Sequence[Policy],
    program: CheckedProgram,
    baseline: Baseline | None,
) -> Tolerated:
    """Apply the ignores in texts and a baseline to the decision on templates. Invalid ignores become near misses."""
    ignores, warnings = find_ignores(sources, [*(policy.id for policy in policies), *REFUSALS])
    keys = compute_keys(policies, program, decision)
    tolerant, used = apply_ignores(decision, ignores)
    if baseline:
        tolerant = baseline.tolerate(tolerant, templates, keys)
    tolerant = replace(tolerant, near_misses=(*tolerant.near_misses, *warnings))
    return Tolerated(tolerant, keys, ignores, used)


def find_codes(patterns: Sequence[str]) -> set[str]:
    """The codes of refusals that match a pattern."""
    return {code for code in REFUSALS for pattern in patterns if fnmatchcase(code, pattern)}


def find_left_codes(select: Sequence[str], ignore: Sequence[str]) -> set[str]:
    """The codes of refusals that `--select` and `--ignore` leave."""
    return (find_codes(select) if select else set(REFUSALS)) - find_codes(ignore)


def leave_out(found: Iterable[Diagnostic], select: Sequence[str], ignore: Sequence[str]) -> tuple[Diagnostic, ...]:
    """The refusals without those whose codes `--select` and `--ignore` leave out."""
    left = find_left_codes(select, ignore)
    return tuple(problem for problem in found if problem.code in left)


def leave_out_further(
    found: Iterable[Diagnostic],
    sources: Mapping[str, str],
    select: Sequence[str],
    ignore: Sequence[str],
    now: datetime | None,
) -> tuple[Diagnostic, ...]:
    """As `leave_out`, also without those that comments in a template ignore which can't be read."""
    ignores, _ = find_ignores(sources, REFUSALS)
    time = (now or datetime.now(UTC)).replace(tzinfo=UTC)
    return leave_out_ignored(leave_out(found, select, ignore), ignores, time)[0]


def find_modes(policies: Sequence[Policy], select: Sequence[str], ignore: Sequence[str]) -> dict[str, str]:
    """The policies that `--select` and `--ignore` switch off. Codes of refusals name none. Errors: UsageError for an
    unknown policy, and if none is left."""
    names = [policy.id for policy in policies]
    chosen: dict[str, set[str]] = {}
    for option, patterns in (("select", select), ("ignore", ignore)):
        chosen[option] = set()
        for pattern in patterns:
            matched = {policy for policy in names if fnmatchcase(policy, pattern)}
            if not matched and not find_codes([pattern]):
                advice = did_you_mean(pattern, (*names, *REFUSALS))
                raise UsageError(f"--{option}: there is no policy {pattern}{f': {advice}' if advice else ''}")
            chosen[option] |= matched
    off = chosen["ignore"] | (set(names) - chosen["select"] if select else set())
    if names and off.issuperset(names) and not find_codes(select):
        raise UsageError("--select and --ignore exclude all policies")
    return dict.fromkeys(sorted(off), "off")
