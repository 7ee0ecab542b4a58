"""The open texts of an editor over the files on disk.

The last valid state of each is kept.

An edit only stores a text, which the checks evaluate. That of a pack takes tens of milliseconds; those of a whole
folder of rules and of a template may run while the user edits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from datalog_gate.analysis.check import Checked
from datalog_gate.api import ExplainedDecision, Rules
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import GateError, InputError, RulesError, UsageError
from datalog_gate.base.records import dataclass
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Violation
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.editing.answers import Completion, CompletionKind, TextProblem, TextRange
from datalog_gate.editing.rule_folder import ParsedRules, RuleFolder, read_folder, with_texts
from datalog_gate.editing.source_text import SourceText, source_text
from datalog_gate.files.discovery import FOLDER_TEMPLATE, is_template
from datalog_gate.files.project import Project, load_project
from datalog_gate.files.rules import replace_texts
from datalog_gate.files.templates import read_text, resolve
from datalog_gate.files.tolerated_findings import find_further_refusals
from datalog_gate.policytest.suite import Suite, find_tops, suite_of
from datalog_gate.policytest.testfile import read_cases
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.stack.model import Stack
from datalog_gate.template.environment import TEMPLATE_ENDINGS

Problems = dict[str, tuple[TextProblem, ...]]
"""The problems by file. Checked files without problems have an empty entry."""
TEST_FILE = "test.yaml"


@dataclass(frozen=True, slots=True)
class JudgedTemplate:
    """A readable template with its decision."""

    text: str
    stack: Stack
    decision: ExplainedDecision
    findings: tuple[Violation, ...]
    """In the order of the problems' `index`."""


class Workspace:
    """One folder opened in an editor."""

    def __init__(self, root: Path) -> None:
        self.root = resolve(root)
        self.unsaved: dict[Path, str] = {}
        self.names: dict[Path, Path] = {}
        """The paths by which the editor opened files that are links."""
        self.judged: dict[Path, JudgedTemplate] = {}
        self._folders: dict[tuple[Path, ...], tuple[RuleFolder, tuple[Diagnostic, ...]]] = {}
        self._parsed: dict[str, ParsedRules] = {}
        self._checked: dict[str, Checked] = {}
        self._rules: tuple[tuple[Path, ...], Rules] | None = None
        """The last valid rules, with their folders and files."""
        self._project: Project | None = None
        self._rule_files: list[RuleFile] | None = None
        self._inventory: tuple[str, Inventory] | None = None
        self._unfilled: tuple[str, Sequence[Diagnostic]] | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The resource types of the project; the shipped ones if its configuration is invalid."""
        try:
            return self.project().catalogue
        except InputError:
            return SHIPPED

    @property
    def heat_types(self) -> Catalogue:
        """As `catalogue`, of the Heat that templates are written for."""
        try:
            return self.project().heat_types
        except InputError:
            return SHIPPED

    def project(self) -> Project:
        """The project of the folder. Errors: InputError."""
        if self._project is None:
            self._project = load_project(self.root)
        return self._project

    def edit(self, path: Path, text: str) -> None:
        """Store the editor's text of a file."""
        self.unsaved = {**self.unsaved, path: text}  # a concurrent check may be reading the previous one

    def close(self, path: Path) -> None:
        """Use the text of a file on disk again."""
        self.unsaved = {name: text for name, text in self.unsaved.items() if name != path}
        self.judged.pop(path, None)
        self.refresh()

    def refresh(self) -> None:
        """Assume that files on disk may have changed."""
        self._folders.clear()
        self._project = self._rule_files = self._inventory = self._unfilled = None

    def text(self, path: Path) -> SourceText:
        """The text of a file; empty if it can't be read."""
        if path in self.unsaved:
            return source_text(str(path), self.unsaved[path])
        try:
            return source_text(str(path), read_text(path))
        except InputError:
            return source_text(str(path), "")

    def folder(self, path: Path) -> RuleFolder:
        """The rules around a rule file or test, with unsaved texts."""
        return self._folder(path)[0]

    def rule_files(self) -> list[ParsedRules]:
        """The rule files of the project, and those around the open ones. Errors: InputError."""
        for top in self.project().rules:
            self.folder(top if top.suffix == ".dl" else top / "new.dl")
        files = {parsed.file.file: parsed for folder, _ in self._folders.values() for parsed in folder.all()}
        return list(files.values())

    def _folder(self, path: Path) -> tuple[RuleFolder, tuple[Diagnostic, ...]]:
        tops = self._find_tops(path)
        if tops not in self._folders:
            self._folders[tops] = read_folder(tops, self.unsaved, self.catalogue, self._parsed)
        folder, wrong = self._folders[tops]
        if any(folder.sources.get(str(file)) != text for file, text in self.unsaved.items()):
            folder = with_texts(folder, self.unsaved)
            self._folders[tops] = folder, wrong
        return folder, wrong

    def _find_tops(self, path: Path) -> tuple[Path, ...]:
        """The folders and files of the rules that are checked with a file: those of the project if it is among them."""
        try:
            return find_tops(path, rules=self.project().rules)
        except InputError:
            return find_tops(path)

    def checked(self, path: Path) -> Checked | None:
        """The last valid state of the rules around a rule file."""
        return self._checked.get(str(path))

    def check_pack(self, path: Path) -> Problems:
        """Check a rule file with the files it reads."""
        folder = self.folder(path)
        if folder.parsed(str(path)) is None:  # it was closed, and is not on disk
            return {str(path): ()}
        checked, diagnostics = folder.check_file(str(path))
        if checked:
            self._checked[str(path)] = checked
        own = [diagnostic for diagnostic in diagnostics if diagnostic.span and diagnostic.span.file == str(path)]
        return self._problems(own, folder.sources, path)

    def check_rules(self, path: Path) -> Problems:
        """Check all rules around a rule file."""
        folder, wrong = self._folder(path)
        _, diagnostics = folder.check(list(folder.all()))
        empty: Problems = {file.file: () for file in folder.files}
        return empty | self._problems([*wrong, *diagnostics], folder.sources, path)

    def rules(self) -> Rules:
        """The last valid rules for judging templates. Errors: RulesError if they were never valid or are gone;
        InputError for the configuration."""
        project = self.project()
        try:
            if self._rule_files is None:
                self._rule_files = project.read_rules()
            files = replace_texts(self._rule_files, self.unsaved, project.rules)
            self._rules = project.rules, Rules(load(files, project.catalogue))
        except RulesError as error:
            is_text = all(diagnostic.span for diagnostic in error.diagnostics)
            if self._rules is None or self._rules[0] != project.rules or not is_text:
                raise
        return self._rules[1]

    def _load_inventory(self, rules: Rules) -> Inventory | None:
        """The inventory of the project. Errors: InputError."""
        if not (path := self.project().value("inventory")):
            return None
        if self._inventory is None or self._inventory[0] != rules.digest:
            self._inventory = rules.digest, rules.inventory(path)
        return self._inventory[1]

    def is_template(self, path: Path) -> bool:
        return path.suffix != ".dl" and is_template(self.text(path).text, str(path))

    def is_test(self, path: Path) -> bool:
        return path.name == TEST_FILE

    def offer_files(
        self, path: Path, written: str, kind: CompletionKind, *, folder_stacks: bool = False
    ) -> Iterator[Completion]:
        """The templates and folders in the folder that a text names, relative to a file. A folder with a template is
        one of the stacks of `folder_stacks`."""
        folder = written[: written.rfind("/") + 1]
        top = Path(os.path.normpath(path.parent / folder))
        for file in sorted(top.iterdir()) if top.is_dir() else ():
            is_stack = folder_stacks and (file / FOLDER_TEMPLATE).is_file()
            if is_stack or (file.suffix in TEMPLATE_ENDINGS and file != path and self.is_template(file)):
                yield Completion(f"{folder}{file.name}", kind, "template")
            elif file.is_dir() and not file.name.startswith("."):
                yield Completion(f"{folder}{file.name}/", kind, "folder")
        yield Completion(f"{folder}../", kind, "folder")

    def judge(self, path: Path) -> Problems:
        """Judge a template with its environments. Return its errors, else the findings of the rules."""
        text = self.text(path).text
        try:
            stack = self.read(path)
            decision, warnings = self._decide(path, stack)
        except InputError as error:
            further = find_further_refusals(error, self.project().configuration, self.catalogue) if error.stack else ()
            return self._problems((*error.diagnostics, *further), error.sources, path)
        except GateError as error:
            where = TextRange(str(path), 0, 0)
            message = f"this template can't be judged: {str(error).splitlines()[0]}"
            return {str(path): (TextProblem(where, "warning", "rules", message),)}
        findings = (*decision.violations, *decision.undetermined)
        self.judged[path] = JudgedTemplate(text, stack, decision, findings)
        problems: dict[str, list[TextProblem]] = {str(path): []}
        for problem in self._findings(path, decision, findings):
            problems.setdefault(problem.range.file, []).append(problem)
        for file, own in self._problems(warnings, decision.sources, path).items():
            problems.setdefault(file, []).extend(own)
        return {file: tuple(sorted(own, key=_order)) for file, own in problems.items()}

    def _decide(self, path: Path, stack: Stack) -> tuple[ExplainedDecision, Sequence[Diagnostic]]:
        """Judge a stack as `check` does. Return also what Heat would refuse, and warnings. Errors: GateError."""
        project, rules, name = self.project(), self.rules(), self._name(path)
        tolerated = rules.check(
            [stack],
            (str(name.parent if name.name == FOLDER_TEMPLATE else name),),
            project.configuration,
            project.baseline,
            against=project.read_before(path, name, stack),
            explain=True,
            inventory=self._load_inventory(rules),
            **project.request(),
        )
        decision = tolerated.decision
        assert isinstance(decision, ExplainedDecision)
        return decision, (*tolerated.refusals, *stack.warnings, *self._find_unfilled(rules), *decision.near_misses)

    def _find_unfilled(self, rules: Rules) -> Sequence[Diagnostic]:
        """Warnings about relations that the rules read and the configuration does not fill."""
        if self._unfilled is None or self._unfilled[0] != rules.digest:
            project = self.project()
            inventory = self._load_inventory(rules)
            self._unfilled = rules.digest, rules.find_unfilled(project.configuration, project.caller, inventory)
        return self._unfilled[1]

    def read(self, path: Path, edits: Mapping[Path, str] | None = None) -> Stack:
        """Read a template with its environments and unsaved or other texts. Errors: InputError."""
        unsaved = self.unsaved if edits is None else {**self.unsaved, **edits}
        return self.project().read(path, self._name(path), unsaved)

    def _name(self, path: Path) -> Path:
        """The path of a file as the editor names it, by which the configuration and the baseline know it."""
        return self.names.get(path, path)

    def _findings(
        self, path: Path, decision: ExplainedDecision, findings: Iterable[Violation]
    ) -> Iterator[TextProblem]:
        named = {policy.id: policy.texts.get("url", "") for policy in self._rules[1].policies} if self._rules else {}
        urls = {policy: url for policy, url in named.items() if "://" in url}
        for index, finding in enumerate(findings):
            level = finding.severity
            if finding.tolerated:
                level = "note"
            elif finding.because:
                level = "warning" if level == "error" else "note"
            place = self._place(finding.place, decision.sources, path)
            url = next((urls[policy] for policy in finding.policies if policy in urls), "")
            yield TextProblem(place, level, finding.policy, finding.full_message, finding.hint, index, url)
        for failure in decision.errors:
            message = f"{failure.policy} could not be evaluated: {failure.message}"
            yield TextProblem(self._place(failure.place, decision.sources, path), "warning", failure.policy, message)

    def check_test(self, path: Path) -> Problems:
        """Check a test file, and that its policies exist beside it."""
        text = self.text(path).text
        try:
            self._suite(path)
        except InputError as error:
            return self._problems(error.diagnostics, {**error.sources, str(path): text}, path)
        except RulesError:
            pass  # reported in the rules
        return {str(path): ()}

    def run_cases(self, path: Path, policy: str = "", case: str = "") -> tuple[list[tuple[str, str]], Problems]:
        """Run cases of a test file: those for a policy, the one with a name, or all. Return each with its difference
        from the expectation, and these differences as problems. Errors: InputError, RulesError."""
        suite = self._suite(path)
        reports, problems = [], []
        for member in suite.cases:
            if policy not in ("", *(name for name, _ in member.policies)) or case not in ("", member.name):
                continue
            try:
                report = suite.report(member)
            except GateError as error:
                report = str(error)
            reports.append((member.name, report))
            if report:
                span = suite.place(member)
                problems.append(Diagnostic("bad-test", report, span))
        if not reports:
            raise UsageError(f"no case of {path.name} expects {policy or case}")
        return reports, self._problems(problems, {str(path): self.text(path).text}, path)

    def _suite(self, path: Path) -> Suite:
        """The cases of a test file with the rules around it. Errors: InputError, RulesError."""
        cases = read_cases(path, self.text(path).text)
        project = self.project()
        return suite_of(
            path, cases, find_tops(path, rules=project.rules), project.value("catalogue"), unsaved=self.unsaved
        )

    def _problems(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], path: Path) -> Problems:
        problems: dict[str, list[TextProblem]] = {str(path): []}
        for diagnostic in diagnostics:
            place = self._place(diagnostic.span, sources, path)
            message = diagnostic.message
            if diagnostic.span and diagnostic.span.file != place.file:
                message = f"{diagnostic.span}: {message}"
            problem = TextProblem(place, diagnostic.severity, diagnostic.code, message, diagnostic.suggestion or "")
            problems.setdefault(place.file, []).append(problem)
        return {file: tuple(sorted(dict.fromkeys(own), key=_order)) for file, own in problems.items()}

    def _place(self, span: Span | None, sources: Mapping[str, str], path: Path) -> TextRange:
        """The range of a span in its file; the beginning of the file at `path` if its own can't be opened."""
        if span is None or not Path(span.file).is_absolute():
            return TextRange(str(path), 0, 0)
        text = self.unsaved.get(Path(span.file), sources.get(span.file))
        if text is None:
            return self.text(Path(span.file)).range(span)
        return source_text(span.file, text).range(span)


def _order(problem: TextProblem) -> tuple[TextRange, str, str]:
    return problem.range, problem.code, problem.message
