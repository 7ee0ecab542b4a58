"""The Python interface: what ``import datalog_gate as dg`` offers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from datalog_gate.analysis.policy import Policy
from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.violation_key import compares_states
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import EngineError, RulesError, UsageError
from datalog_gate.base.records import dataclass, field, fields, replace
from datalog_gate.base.values import Row, Unknown, Value, row_key, show, to_json
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Decision, Violation, Waiver
from datalog_gate.decision.judgement import Judgement, decide, judge
from datalog_gate.decision.near_misses import find_near_misses
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load, parse_all, texts
from datalog_gate.decision.request import DecisionRequest, read_time
from datalog_gate.engine import engine as engine_named
from datalog_gate.engine.least_model import Engine
from datalog_gate.engine.native import evaluate, evaluate_once
from datalog_gate.files.inputs import (
    FactSource,
    RequestInputs,
    WaiverSource,
    fact_lines,
    load_waivers,
    read_inventory,
    read_request,
)
from datalog_gate.files.rules import find_shipped, read_rules
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.stack.model import Stack
from datalog_gate.template.reader import read_assuming

if TYPE_CHECKING:
    from datalog_gate.decision.query import QueryAnswer
    from datalog_gate.examples.differences import RuleDifference
    from datalog_gate.examples.example_search import PolicyExamples
    from datalog_gate.explain.explanation import Explanation, FindingExplanation
    from datalog_gate.files.baseline import Baseline, Templates
    from datalog_gate.files.configuration import Configuration
    from datalog_gate.files.tolerated_findings import Tolerated
    from datalog_gate.scan.batch import ScanRequest
    from datalog_gate.template.document import Document

MOST_ROWS = 3
"""The maximum number of rows in an error about a difference between engines."""


class DecisionInputs(RequestInputs, total=False):
    """The keyword arguments of `Rules.decide`."""

    engine: str
    """native, as by default, pydatalog, or both, which must agree."""
    explain: bool
    """Whether the decision gets an `explanation`, which is computed as far as it is asked for."""
    near_misses: bool
    """Whether to warn of policies that found nothing, where the stack has what they ask for in another form: by case,
    by kind, or as a resource for its name. Packs of the package are left out."""
    once: bool
    """Whether no other decision follows, for which rules over few rows would be compiled."""


class Rules:
    """A loaded policy set. It is immutable: threads may share it."""

    def __init__(self, policies: PolicySet) -> None:
        self._set = policies

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies in order of id."""
        return self._set.policies

    @property
    def catalogue(self) -> Catalogue:
        """The relations and resource types that the rules were checked with and stacks are flattened to."""
        return self._set.catalogue

    @cached_property
    def _shipped(self) -> frozenset[str]:
        return find_shipped(self._set.sources)

    @property
    def program(self) -> CheckedProgram:
        """The checked rules."""
        return self._set.program

    @property
    def digest(self) -> str:
        """The digest of all rule files."""
        return self._set.digest

    @property
    def cloud_wide(self) -> frozenset[str]:
        """The ids of the policies that judge all stacks of a cloud at once, since they depend on an `all:` relation."""
        return self._set.cloud_wide

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings of the checks."""
        return self._set.warnings

    @property
    def sources(self) -> Mapping[str, str]:
        """The text of each rule file, for excerpts."""
        return self._set.sources

    @property
    def compared_relations(self) -> list[str]:
        """The relations that the rules read of the older state of a stack, or of its changes, sorted."""
        return sorted(str(relation) for relation in self.program.inputs if compares_states([relation]))

    def compares(self, action: str) -> bool:
        """Whether a policy that denies the action reads the older state of the stack, or its changes."""
        denying = (policy for policy in self._set.policies if policy.level == "deny" and action in policy.on)
        return any(compares_states(self._set.reads[policy.relation]) for policy in denying)

    def inventory(self, source: FactSource, before: Inventory | None = None) -> Inventory:
        """Read an inventory from a file of lines of facts, or from rows by relation. Any number of decisions may use
        it. It shares with the one `before` it what did not change. Errors: InputError."""
        return read_inventory(self._set, source, before)

    def waivers(self, source: WaiverSource | Document) -> tuple[Waiver, ...]:
        """Read the waivers of a `waivers.yaml`, or of its entries as data; waivers themselves stay as they are.
        Errors: InputError."""
        return load_waivers(self._set, source)

    def find_idle(
        self, configuration: Configuration, caller: Mapping[str, object] | None, inventory: Inventory | str | None
    ) -> list[Diagnostic]:
        """Warn about inputs that have no effect on what these rules say, or that they lack. An inventory that can't be
        read is its path. Errors: RulesError for a ``pack.yaml``."""
        from datalog_gate.files.run_inputs import find_idle

        return find_idle(self._set, configuration, caller, inventory)

    def find_unfilled(
        self, configuration: Configuration, caller: Mapping[str, object] | None, inventory: Inventory | None
    ) -> list[Diagnostic]:
        """Warn about relations that these rules read and nothing fills. Errors: RulesError for a ``pack.yaml``."""
        from datalog_gate.files.run_inputs import find_unfilled

        return find_unfilled(self._set, configuration, caller, inventory)

    def check(
        self,
        stacks: Sequence[Stack],
        templates: Templates,
        configuration: Configuration,
        baseline: Baseline | None,
        **inputs: Unpack[DecisionInputs],
    ) -> Tolerated:
        """Judge the stacks of templates as one set of facts, and find what Heat would refuse. Comments in templates and
        a baseline leave out findings of both. Errors: as `decide`, and UsageError for a policy that is not known."""
        from datalog_gate.files.tolerated_findings import find_modes, find_shown_refusals, tolerate

        inputs.setdefault("modes", find_modes(self.policies, configuration))
        refusals = find_shown_refusals(stacks, configuration, self.catalogue)
        decision = self.decide(stacks, configuration.value("action"), **inputs)
        tolerated = tolerate(decision, refusals, stacks, templates, self._set, baseline)
        if isinstance(decision, ExplainedDecision):
            decision.explain_too(tolerated.decision)
        return tolerated

    def document(self) -> str:
        """Describe the policies in one document of Markdown, with the cases that expect them. Errors: InputError for a
        ``test.yaml``."""
        from datalog_gate.policytest.policy_pages import format_document

        return format_document(self._set)

    def pages(self) -> dict[str, str]:
        """As `document`, by file name: an index, and a page for each policy."""
        from datalog_gate.policytest.policy_pages import format_pages

        return format_pages(self._set)

    def examples(self, policy: str) -> PolicyExamples:
        """Find the smallest stacks that the policy with this id denies, and near ones that pass. Errors: KeyError if
        there is no such policy."""
        from datalog_gate.examples.example_search import find_examples

        return find_examples(self._set, {own.id: own for own in self._set.policies}[policy])

    def scan_request(
        self,
        now: datetime | None = None,
        inventory: Inventory | FactSource | None = None,
        waivers: WaiverSource = (),
        services: Collection[str] = (),
    ) -> ScanRequest:
        """The inputs of a scan: these rules, and the arguments of `decide` besides a stack. Errors: InputError."""
        from datalog_gate.scan.batch import ScanRequest

        if inventory is not None and not isinstance(inventory, Inventory):
            inventory = self.inventory(inventory)
        now = read_time(now or datetime.now(UTC).replace(microsecond=0))
        return ScanRequest(self._set, now, inventory, self.waivers(waivers), frozenset(services))

    def decide(
        self, stack: Stack | Sequence[Stack], action: str | None = None, **inputs: Unpack[DecisionInputs]
    ) -> Decision:
        """Judge a stack, or several as one set of facts: their names differ. `action` is `update` by default if there
        is an older state, else `create`; `DecisionInputs` has the other arguments.

        Errors: UsageError; InputError for inventory or waivers; EngineError, also if pydatalog refuses the rules or the
        engines differ.
        """
        if unknown := inputs.keys() - DecisionInputs.__optional_keys__:
            raise TypeError(f"decide has no argument {', '.join(sorted(unknown))}")
        stacks = (stack,) if isinstance(stack, Stack) else tuple(stack)
        engine, once = inputs.get("engine", "native"), inputs.get("once", False)
        request = read_request(self._set, stacks, inputs, action, evaluate_once if once else evaluate)
        first = "native" if engine == "both" else engine
        if first != "native":
            request = _with_bare_inventory(request)
        evaluates = evaluate_once if once and first == "native" else _engine(first)
        judgement = judge(self._set, stacks, request, evaluates, read_assuming)
        if engine == "both":
            other = decide(self._set, stacks, _with_bare_inventory(request), _engine("pydatalog"), read_assuming)
            if difference := _difference(judgement.decision, other):
                raise EngineError(f"the engines differ: {difference}")
        if inputs.get("near_misses"):
            near = find_near_misses(judgement, self._shipped)
            judgement = replace(judgement, decision=replace(judgement.decision, near_misses=near))
        return ExplainedDecision.of(judgement) if inputs.get("explain") else judgement.decision


@dataclass(frozen=True, slots=True)
class ExplainedDecision(Decision):
    """A decision with its explanation.

    Its JSON has `why` for each finding, and in `clean` the rows that each policy without a finding looked at.
    """

    explanation: Explanation = field(compare=False, repr=False, kw_only=True)

    @classmethod
    def of(cls, judgement: Judgement) -> ExplainedDecision:
        from datalog_gate.explain.explanation import Explanation

        values = {member.name: getattr(judgement.decision, member.name) for member in fields(Decision)}
        return cls(**values, explanation=Explanation(judgement))

    def explain_too(self, other: Decision) -> None:
        """Explain the findings of a decision that has the same ones in another state."""
        before = {(finding.policy, finding.row): finding for finding in _findings(self)}
        for finding in _findings(other):
            self.explanation.stand_for(before[finding.policy, finding.row], finding)

    def bare(self) -> Decision:
        """The decision without its explanation."""
        return Decision(**{member.name: getattr(self, member.name) for member in fields(Decision)})

    def to_json(self) -> dict[str, object]:
        """The decision as JSON data."""
        return self._to_json(self.explanation.of)

    def to_json_without_fixes(self) -> dict[str, object]:
        """The decision as JSON data, without a search for changes that fix its findings: it takes longer than to
        decide."""
        from datalog_gate.explain.explanation import FindingExplanation

        return self._to_json(lambda finding: FindingExplanation(self.explanation.why(finding), None))

    def _to_json(self, explain: Callable[[Violation], FindingExplanation]) -> dict[str, object]:
        data = Decision.to_json(self)
        for name in ("violations", "undetermined", "waived"):
            findings: tuple[Violation, ...] = getattr(self, name)
            data[name] = [finding.to_json() | {"why": explain(finding).to_json()} for finding in findings]
        return data | {"clean": self.explanation.clean()}


def _findings(decision: Decision) -> tuple[Violation, ...]:
    return (*decision.violations, *decision.undetermined, *decision.waived)


def load_rules(
    *paths: str | Path, catalogue: Catalogue = SHIPPED, congress: bool = False, cache: Path | None = None
) -> Rules:
    """Load the rules of files and folders as one policy set.

    `catalogue` holds the relations and resource types, as `read_catalogue` returns it. With `congress` all files are
    read as Congress reads them, else only its libraries. `cache` is a folder that keeps checked rules for other
    processes. Errors: RulesError with all diagnostics.
    """
    files = read_rules([Path(path) for path in paths], congress)
    if cache is None or catalogue is not SHIPPED:
        return Rules(load(files, catalogue))
    from datalog_gate.files.program_cache import load_cached

    return Rules(load_cached(files, lambda: load(files), cache))


def compare_rules(old: Rules, new: Rules, policies: Collection[str] = ()) -> Iterator[RuleDifference]:
    """Find small stacks that only one of two rule sets denies, by all policies or by those with these ids."""
    from datalog_gate.examples.differences import find_differences

    return find_differences(old._set, new._set, policies)


def lint(*paths: str | Path, catalogue: Catalogue = SHIPPED) -> None:
    """Lint rules. A policy is tested if a case of the `test.yaml` beside it expects it.

    Errors: RulesError with the lints, or with the errors of the rules; InputError for a test file.
    """
    from datalog_gate.analysis.check import Checked
    from datalog_gate.analysis.linting import lint_rules
    from datalog_gate.policytest.testfile import read_cases

    files = read_rules([Path(path) for path in paths])
    rules = load(files, catalogue)
    modules, _ = parse_all(files)
    checked = Checked(tuple(modules), rules.program, rules.policies, rules.unlocks, rules.warnings, rules.silenced)
    tests = {Path(file.file).parent / "test.yaml" for file in files}
    tested = {name for test in tests if test.is_file() for case in read_cases(test) for name, _ in case.policies}
    if lints := lint_rules(checked, tested, catalogue):
        raise RulesError(lints, rules.sources)


def format_rules(*paths: str | Path, modern: bool = False) -> dict[str, str]:
    """Format rules: the new text of each rule file that changes, with `modern` with functions as terms. Libraries of
    Congress are left out. Errors: RulesError with all syntax errors."""
    from datalog_gate.analysis.modern_form import modernize
    from datalog_gate.language.formatter import format_text

    changed: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for file in read_rules([Path(path) for path in paths]):
        if file.entries is not None:
            continue
        try:
            text = format_text(file.text, file.file, modernize if modern else None)
        except RulesError as error:
            diagnostics += error.diagnostics
            sources |= error.sources
            continue
        if text != file.text:
            changed[file.file] = text
    if diagnostics:
        raise RulesError(diagnostics, sources)
    return changed


def convert_congress(*paths: str | Path, catalogue: Catalogue = SHIPPED) -> dict[str, str]:
    """Convert rules of Congress: for each rule file the text of one that means the same here. Errors: RulesError."""
    from datalog_gate.analysis.check import check
    from datalog_gate.language.congress.convert import convert

    files = read_rules([Path(path) for path in paths], congress=True)
    modules, diagnostics = parse_all(files)
    checked = check(modules, problems=diagnostics, sources=texts(files), catalogue=catalogue)
    return {
        file.file: convert(module, [entry.comment for entry in file.entries or ()])
        for file, module in zip(files, checked.modules, strict=True)
    }


def query(
    rules: str,
    query: str,
    facts: Mapping[str, Iterable[Sequence[object]]] | None = None,
    undefined: str = "empty",
    engine: str = "native",
) -> set[tuple[object, ...]]:
    """Answer a query over the text of rules and facts, as a set of tuples of plain data. A resource is its path; an
    unknown stays one, and so does a decimal that no float holds exactly.

    Errors: RulesError; UsageError; EngineError, also for an evaluation that met an error.
    """
    if undefined not in ("error", "empty"):
        raise UsageError(f"undefined must be error or empty, not {undefined}")
    answer = answer_query([RuleFile("rules", "<rules>", rules)], query, [facts or {}], undefined == "empty", engine)
    if answer.errors:
        error = answer.errors[0]
        raise EngineError(f"{error.span}: {error.message}")
    return {tuple(map(_plain, row)) for row in answer.rows}


def answer_query(
    files: Sequence[RuleFile],
    text: str,
    facts: Iterable[FactSource] = (),
    lenient: bool = True,
    engine: str = "native",
    catalogue: Catalogue = SHIPPED,
) -> QueryAnswer:
    """The rows of a query over rules and facts, with warnings and errors. If `lenient`, undefined relations are empty.
    Errors: RulesError, InputError, UsageError, EngineError."""
    from datalog_gate.decision.query import QueryInputs, ask

    lines = [line for source in facts for line in fact_lines(source)]
    inputs = QueryInputs(lines=lines, lenient=lenient, catalogue=catalogue, now=datetime.now(UTC))
    return ask(files, text, inputs, _engine(engine))


def _with_bare_inventory(request: DecisionRequest) -> DecisionRequest:
    """The request for an engine that itself derives the relations that depend on the inventory."""
    return replace(request, inventory=request.inventory.bare() if request.inventory else None)


def _plain(value: Value) -> object:
    plain = to_json(value)
    return value if isinstance(value, Unknown) or (isinstance(value, Decimal) and isinstance(plain, str)) else plain


def _difference(native: Decision, pydatalog: Decision) -> str:
    """Describe how the decisions differ: in the rows of a relation, or in a part of the JSON."""
    for relation in sorted(native.derived.keys() ^ pydatalog.derived.keys()):
        engine = "pydatalog" if relation in native.derived else "native"
        return f"{engine} exceeds its budget before it has all of {relation}"
    for relation in sorted(native.derived):
        ours, theirs = set(native.derived[relation]), set(pydatalog.derived[relation])
        if ours != theirs:
            return f"in {relation} {_only('native', ours - theirs)}, {_only('pydatalog', theirs - ours)}"
    first, second = native.to_json(), pydatalog.to_json()
    parts = [name for name in first if first[name] != second[name]]
    return "; ".join(f"{name} is {first[name]} to native, {second[name]} to pydatalog" for name in parts)


def _only(engine: str, rows: Collection[Row]) -> str:
    written = [f"({', '.join(map(show, row))})" for row in sorted(rows, key=row_key)]
    more = f" and {len(written) - MOST_ROWS} more" if len(written) > MOST_ROWS else ""
    return f"{engine} alone has {' '.join(written[:MOST_ROWS]) or 'none'}{more}"


def _engine(name: str) -> Engine:
    try:
        return engine_named(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
