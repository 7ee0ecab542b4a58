"""Judges cases by one policy: the real reader, facts, engine and decision."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram, CheckedRule
from datalog_gate.analysis.slices import slice_for
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import GateError, InputError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import ResourceId, from_python
from datalog_gate.decision.bound_facts import bind
from datalog_gate.decision.cloud_state import Inventory, loaded, read_readings
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.judgement import decide
from datalog_gate.decision.policy_set import PolicySet
from datalog_gate.decision.request import DecisionRequest, read_action, read_caller, read_time
from datalog_gate.engine.native import evaluate_once
from datalog_gate.examples.case_building import Case
from datalog_gate.examples.effort import JUDGEMENT, Effort
from datalog_gate.examples.example_properties import Data
from datalog_gate.examples.valuation import ROOT
from datalog_gate.facts.lines import FactLine
from datalog_gate.schema.relations import EFFECTIVE, UNLOCKED
from datalog_gate.stack.model import Live, Stack
from datalog_gate.template.reader import TemplateSource, read_assuming, read_template
from datalog_gate.validation.refusals import find_refusals

PLACE = Span("<example>", 1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What a policy says of a case."""

    denies: bool
    fails: bool = False
    """Whether the policy can't be evaluated."""
    is_open: bool = False
    """Whether unknown values decide."""
    message: str = ""
    resource: ResourceId | None = None
    messages: frozenset[str] = frozenset()
    """Those of all violations."""


class Judge:
    """A policy without the others. `variant` judges by the same policy with other rules."""

    def __init__(self, rules: PolicySet, policy: Policy, effort: Effort) -> None:
        reads = rules.reads.get(policy.relation, frozenset()) | {policy.relation}
        unlocks = rules.unlocks if any(relation in reads for relation in (UNLOCKED, EFFECTIVE.name)) else ()
        for unlock in unlocks:
            reads |= {UNLOCKED, unlock.relation}
        program = slice_for(rules.program, reads)
        self.rules = replace(rules, program=program, policies=(policy,), unlocks=unlocks)
        self.policy = policy
        self._effort = effort
        self._known: dict[str, CaseVerdict | None] = {}
        self._stacks: dict[str, Stack] = {}
        self._inventories: dict[str, Inventory] = {}
        self._variants: dict[object, Judge] = {}

    def accept(self, other: Judge) -> None:
        """Also judge cases of another judge, with rows for what only its rules read."""
        program, more = self.rules.program, other.rules.program
        derived = {relation for stratum in program.strata for relation in stratum.relations}
        relations, inputs = {**more.relations, **program.relations}, program.inputs | (more.inputs - derived)
        self.rules = replace(self.rules, program=CheckedProgram(relations, inputs, program.strata))

    def variant(self, changed: Mapping[int, CheckedRule]) -> Judge:
        """The judge by other rules in place of some, by their number in the program."""
        key = tuple(sorted((number, id(rule)) for number, rule in changed.items()))
        if key not in self._variants:
            other = Judge(self.rules, self.policy, self._effort)
            other.rules = replace(self.rules, program=_with_rules(self.rules.program, changed))
            other._stacks = self._stacks
            self._variants[key] = other
        return self._variants[key]

    def judge(self, case: Case) -> CaseVerdict | None:
        """The verdict; None if the gate can't read the case."""
        key = json.dumps(case, sort_keys=True)
        if key not in self._known:
            self._effort.spend(JUDGEMENT)
            try:
                self._known[key] = self._read_verdict(self._decide(case))
            except GateError:
                self._known[key] = None
        return self._known[key]

    def denies(self, case: Case) -> bool:
        verdict = self.judge(case)
        return verdict is not None and verdict.denies

    def passes(self, case: Case) -> bool:
        verdict = self.judge(case)
        return verdict is not None and not verdict.denies and not verdict.fails and not verdict.is_open

    def tolerates(self, case: Case) -> bool:
        """Whether the policy does not deny the case, also if unknown values decide."""
        verdict = self.judge(case)
        return verdict is not None and not verdict.denies and not verdict.fails

    def stops(self, case: Case) -> bool:
        """Whether the policy denies the case or can't be evaluated, which stops a stack too."""
        verdict = self.judge(case)
        return verdict is not None and (verdict.denies or verdict.fails)

    def refusals(self, case: Case) -> frozenset[str]:
        """The codes of what Heat would refuse about the case, also if it can't be read."""
        try:
            return frozenset(
                refusal.code
                for name, template in self._roots(case)
                for refusal in find_refusals(self._read(name, template, case), self.rules.catalogue)
                if refusal.severity == "error"
            )
        except InputError as error:
            return frozenset(diagnostic.code for diagnostic in error.diagnostics)

    def _read_verdict(self, decision: Decision) -> CaseVerdict | None:
        if decision.errors:
            return CaseVerdict(False, fails=True)
        if not decision.violations:
            return CaseVerdict(False, is_open=bool(decision.undetermined))
        first = decision.violations[0]
        messages = frozenset(str(violation.message) for violation in decision.violations)
        return CaseVerdict(True, message=str(first.message), resource=first.resource, messages=messages)

    def _decide(self, case: Case) -> Decision:
        stacks = [self._read(name, template, case) for name, template in self._roots(case)]
        against = (self._read(ROOT, case["against"], case),) if "against" in case else ()
        inventory = self._load(case.get("inventory", {}))
        request = DecisionRequest(
            action=read_action(case.get("action"), stacks, against),
            now=read_time(case["now"]),
            caller=read_caller(case.get("caller")),
            services=frozenset(case.get("services", ())),
            inventory=inventory,
            against=against,
            cloud={stack.id: None for stack in stacks} | case.get("projects", {}),
        )
        return decide(self.rules, stacks, request, evaluate_once, read_assuming)

    def _roots(self, case: Case) -> Iterable[tuple[str, Data]]:
        yield ROOT, case["stack"]
        yield from case.get("modules", {}).items()

    def _read(self, name: str, template: Data, case: Case) -> Stack:
        environment = case.get("environment") if name == ROOT else None
        key = json.dumps([name, template, environment], sort_keys=True)
        if key not in self._stacks:
            source = TemplateSource(
                text=json.dumps(template),
                file="<example>",
                stack_name=name,
                environment=environment,
                type_of=self.rules.catalogue.type,
            )
            self._stacks[key] = read_template(source, lambda _name, _base: None)
        stack = self._stacks[key]
        live = {path: data for path, data in case.get("live", {}).items() if path.startswith(f"{name}/")}
        return replace(stack, live=tuple(_live(path, data) for path, data in live.items())) if live else stack

    def _load(self, tables: Mapping[str, Iterable[Mapping[str, object]]]) -> Inventory:
        key = json.dumps(tables, sort_keys=True)
        if key not in self._inventories:
            self._inventories[key] = self._read_inventory(tables)
        return self._inventories[key]

    def _read_inventory(self, tables: Mapping[str, Iterable[Mapping[str, object]]]) -> Inventory:
        lines = [
            FactLine(relation, {column: from_python(value) for column, value in row.items()}, PLACE)
            for relation, rows in tables.items()
            for row in rows
        ]
        rows = bind(self.rules.program, lines, catalogue=self.rules.catalogue)
        return loaded(self.rules, rows, None, read_readings(lines), evaluate_once)


def _live(path: str, data: Mapping[str, str]) -> Live:
    action, _, status = data.get("status", "CREATE_COMPLETE").partition("_")
    return Live(ResourceId(path), action, status, data.get("id", ""), data.get("updated", ""))


def _with_rules(program: CheckedProgram, changed: Mapping[int, CheckedRule]) -> CheckedProgram:
    number, strata = 0, []
    for stratum in program.strata:
        rules = tuple(changed.get(number + at, rule) for at, rule in enumerate(stratum.rules))
        number += len(rules)
        strata.append(replace(stratum, rules=rules))
    return CheckedProgram(program.relations, program.inputs, tuple(strata))
