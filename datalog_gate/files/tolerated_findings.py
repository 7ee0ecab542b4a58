"""Findings that a check tolerates.

They are tolerated by comments in templates, by a baseline, or because their policy is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from datalog_gate.analysis.policy import Policy
from datalog_gate.base.diagnostics import REFUSALS, Diagnostic, closest, suggest_name
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.base.records import replace
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.files.baseline import Baseline, FindingKeys, Templates, compute_keys
from datalog_gate.files.configuration import Configuration
from datalog_gate.files.ignores import Ignore, apply_ignores, find_idle, find_ignores, leave_out_ignored
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Stack
from datalog_gate.validation import refusals as heat_refusals


class Tolerated(NamedTuple):
    """A decision, and what Heat would refuse, with the comments of templates and the baseline applied."""

    decision: Decision
    refusals: tuple[Diagnostic, ...]
    keys: FindingKeys
    ignores: tuple[Ignore, ...]
    used: frozenset[Ignore]
    """The ignores that match a finding or a refusal."""


def tolerate(
    decision: Decision,
    refusals: Sequence[Diagnostic],
    stacks: Sequence[Stack],
    templates: Templates,
    rules: PolicySet,
    baseline: Baseline | None,
) -> Tolerated:
    """Apply the ignores in the texts of stacks and a baseline to a decision on templates, and to what Heat would refuse
    of them. Invalid ignores become near misses."""
    sources = {file: text for stack in stacks for file, text in stack.sources.items()}
    ignores, warnings = find_ignores(sources, [*(policy.id for policy in rules.policies), *REFUSALS])
    keys = compute_keys(rules.policies, rules.program, decision)
    tolerant, used = apply_ignores(decision, ignores)
    if baseline:
        tolerant = baseline.tolerate(tolerant, templates, keys)
    tolerant = replace(tolerant, near_misses=(*tolerant.near_misses, *warnings))
    left, covering = leave_out_ignored(refusals, ignores, decision.now)
    return Tolerated(tolerant, left, keys, ignores, used | covering)


def find_shown_refusals(
    stacks: Sequence[Stack], configuration: Configuration, catalogue: Catalogue
) -> tuple[Diagnostic, ...]:
    """What the Heat of `--heat` would refuse of stacks, and with `--deprecated` what it hides or deprecates. `--select`
    and `--ignore` leave out codes. Nothing of a stack that Heat has built."""
    searches = [heat_refusals.find_refusals]
    if configuration.value("deprecated"):
        from datalog_gate.validation.deprecation import find_deprecated

        searches.append(find_deprecated)
    types = catalogue.of_heat(configuration.value("heat"))
    sent = [stack for stack in stacks if not stack.live]
    found = (refusal for stack in sent for search in searches for refusal in search(stack, types))
    return _leave_out(found, configuration)


def find_further_refusals(
    error: InputError, configuration: Configuration, catalogue: Catalogue
) -> tuple[Diagnostic, ...]:
    """What Heat would refuse besides what could not be read, as `find_shown_refusals`, but for what comments ignore."""
    found = heat_refusals.find_further_refusals(error, catalogue.of_heat(configuration.value("heat")))
    ignores, _ = find_ignores(error.sources, REFUSALS)
    return leave_out_ignored(_leave_out(found, configuration), ignores, configuration.now)[0]


def find_idle_ignores(
    decisions: Sequence[Decision],
    policies: Sequence[Policy],
    ignores: Collection[Ignore],
    used: Collection[Ignore],
    configuration: Configuration,
) -> list[Diagnostic]:
    """Warn about ignores that are expired, or match no finding of the policies that judged."""
    if not decisions:
        return []
    action, now = decisions[0].action, decisions[0].now
    judged = {policy.id for policy in policies if action in policy.on} - find_modes(policies, configuration).keys()
    judged -= {policy for decision in decisions for policy in decision.skipped}
    unsearched = set() if configuration.value("deprecated") else {"deprecated"}
    judged |= _find_left_codes(configuration) - unsearched
    return list(find_idle({ignore for ignore in ignores if ignore.policy in judged}, used, now))


def _find_codes(patterns: Sequence[str]) -> set[str]:
    """The codes of refusals that match a pattern."""
    return {code for code in REFUSALS for pattern in patterns if fnmatchcase(code, pattern)}


def _find_left_codes(configuration: Configuration) -> set[str]:
    """The codes of refusals that `--select` and `--ignore` leave."""
    select, ignore = configuration.value("select"), configuration.value("ignore")
    return (_find_codes(select) if select else set(REFUSALS)) - _find_codes(ignore)


def _leave_out(found: Iterable[Diagnostic], configuration: Configuration) -> tuple[Diagnostic, ...]:
    """The refusals without those whose codes `--select` and `--ignore` leave out."""
    left = _find_left_codes(configuration)
    return tuple(problem for problem in found if problem.code in left)


def find_modes(policies: Sequence[Policy], configuration: Configuration) -> dict[str, str]:
    """The policies that `--select` and `--ignore` switch off. Codes of refusals name none. Errors: UsageError for an
    unknown policy, and if none is left."""
    names = [policy.id for policy in policies]
    select, ignore = configuration.value("select"), configuration.value("ignore")
    chosen: dict[str, set[str]] = {}
    for option, patterns in (("select", select), ("ignore", ignore)):
        chosen[option] = set()
        for pattern in patterns:
            matched = {policy for policy in names if fnmatchcase(policy, pattern)}
            if not matched and not _find_codes([pattern]):
                advice = suggest_name(closest(pattern, (*names, *REFUSALS)))
                raise UsageError(f"--{option}: there is no policy {pattern}{f': {advice}' if advice else ''}")
            chosen[option] |= matched
    off = chosen["ignore"] | (set(names) - chosen["select"] if select else set())
    if names and off.issuperset(names) and not _find_codes(select):
        raise UsageError("--select and --ignore exclude all policies")
    return dict.fromkeys(sorted(off), "off")
