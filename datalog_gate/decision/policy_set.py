"""A policy set: checked rules, immutable.

A new set replaces the old one by one assignment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from datalog_gate.analysis.policy import Policy, Unlock
from datalog_gate.analysis.program import CheckedProgram, ProgramCache
from datalog_gate.analysis.slices import collect_dependencies, slice_for
from datalog_gate.analysis.violation_key import measures
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError, RulesError
from datalog_gate.base.gc import paused
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Row
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import RelationRef, is_all

LIMITS_FILE = "limits.yaml"
"""The file in which an operator gives the rows of a pack's relations."""

if TYPE_CHECKING:
    from datalog_gate.language.ast import Module
    from datalog_gate.language.congress.library import Entry


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A rule file: the module it is by its path (``net:ssh``), its name in messages, its text. One that is a library of
    Congress has `entries` and a `title`; `congress` ones are read as Congress reads them. One that declares the limits
    of a pack has what another file gives for them."""

    module: str
    file: str
    text: str
    congress: bool = False
    entries: tuple[Entry, ...] | None = None
    title: str = ""
    limits_file: str = ""
    limits_text: str = ""

    def parse(self) -> tuple[Module, tuple[Diagnostic, ...]]:
        if self.entries is not None:
            from datalog_gate.language.congress.library import parse_library

            module, diagnostics = parse_library(self.entries, self.file, self.module, self.title)
            return module, diagnostics
        from datalog_gate.language.parser import parse

        module, diagnostics = parse(self.text, self.file, self.module, congress=self.congress)
        if not self.limits_file:
            return module, diagnostics
        from datalog_gate.decision.limits import add_limits

        try:
            module, wrong = add_limits(module, self.limits_file, self.limits_text)
        except InputError as error:
            wrong = error.diagnostics
        return module, (*diagnostics, *wrong)


@dataclass(frozen=True, slots=True)
class PolicySet:
    """`reads` maps each derived relation to all relations it depends on, including itself. `cloud_wide` are the ids of
    the policies that depend on an `all:` relation, `inputs_alone` the inputs without those that only these policies
    read. `silenced` are the warnings that comments ignore."""

    program: CheckedProgram
    policies: tuple[Policy, ...]
    unlocks: tuple[Unlock, ...]
    warnings: tuple[Diagnostic, ...]
    silenced: tuple[Diagnostic, ...]
    digest: str
    sources: Mapping[str, str]
    reads: Mapping[RelationRef, frozenset[RelationRef]]
    catalogue: Catalogue
    cloud_wide: frozenset[str]
    inputs_alone: frozenset[RelationRef]

    def restrict(self, policies: frozenset[str]) -> PolicySet:
        """The set of only these policies, by id, without unlocks. It is kept with the program."""
        return _RESTRICTED.get(self.program, policies, lambda: _restrict(self, policies))

    def key_of(self, policy: str, row: Row) -> Row:
        """The columns of a policy's row that say which violation it is."""
        return measures(self.program, self.policies)[policy].key(row)


_RESTRICTED = ProgramCache[PolicySet]()


def _restrict(rules: PolicySet, policies: frozenset[str]) -> PolicySet:
    chosen = tuple(policy for policy in rules.policies if policy.id in policies)
    program = slice_for(rules.program, frozenset(policy.relation for policy in chosen))
    return replace(rules, program=program, policies=chosen, unlocks=())


def load(files: Sequence[RuleFile], catalogue: Catalogue = SHIPPED) -> PolicySet:
    """Parse and check the files as one program with at least one policy. The set of files that did not change since
    they were loaded last is the same one. Errors: RulesError."""
    return _loaded(tuple(files), catalogue)


@lru_cache(maxsize=2)
@paused()
def _loaded(files: tuple[RuleFile, ...], catalogue: Catalogue) -> PolicySet:
    from datalog_gate.analysis.check import check

    sources = texts(files)
    modules, problems = parse_all(files)
    checked = check(modules, problems=problems, sources=sources, catalogue=catalogue)
    if not checked.policies:
        where = Span(files[0].file, 1, 1, 1, 1) if files else None
        message = "the rules hold no policy: everything would pass"
        suggestion = 'write @deny("id", "message") above a rule'
        raise RulesError([Diagnostic("no-policy", message, where, suggestion)], sources)
    text = "\n".join(
        f"{file.module}{' congress' * file.congress}\n{file.text}{file.limits_text}"
        for file in sorted(files, key=lambda rule_file: rule_file.module)
    )
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    reads = collect_dependencies(checked.program, checked.policies)
    cloud_wide = frozenset(policy.id for policy in checked.policies if any(map(is_all, reads[policy.relation])))
    alone = {policy.relation for policy in checked.policies if policy.id not in cloud_wide}
    alone |= {unlock.relation for unlock in checked.unlocks}
    return PolicySet(
        program=checked.program,
        policies=checked.policies,
        unlocks=checked.unlocks,
        warnings=checked.warnings,
        silenced=checked.silenced,
        digest=digest,
        sources=sources,
        reads=reads,
        catalogue=catalogue,
        cloud_wide=cloud_wide,
        inputs_alone=slice_for(checked.program, frozenset(alone)).inputs if cloud_wide else checked.program.inputs,
    )


def texts(files: Sequence[RuleFile]) -> dict[str, str]:
    limits = {file.limits_file: file.limits_text for file in files if file.limits_file}
    return {file.file: file.text for file in files} | limits


def parse_all(files: Sequence[RuleFile]) -> tuple[list[Module], list[Diagnostic]]:
    parsed = [file.parse() for file in files]
    return [module for module, _ in parsed], [diagnostic for _, diagnostics in parsed for diagnostic in diagnostics]
