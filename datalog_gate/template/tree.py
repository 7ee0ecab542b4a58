"""The state and the limits shared by all templates of one reading.

Diagnostics contain no hidden values: whoever writes a message puts values of the template in it by `Hidden.show`.
Exceeding a limit raises an InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Never

from datalog_gate.base.diagnostics import Advice, Diagnostic, Span, closest, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.expression import Expression
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.records import replace as with_changes
from datalog_gate.base.secrecy import MASK
from datalog_gate.base.unknown import leaves
from datalog_gate.stack.model import Data, Locate, Path
from datalog_gate.template.assumptions import Assumptions
from datalog_gate.template.dialect import CFN_VERSIONS, Dialect
from datalog_gate.template.document import MAX_STEPS, TOO_MUCH, Document, Documents
from datalog_gate.template.functions.attributes import TypeOf
from datalog_gate.template.held import Fetch, HeldStacks
from datalog_gate.template.parameters import MAX_CANDIDATES

MAX_RESOURCES = 10_000
MAX_PROBLEMS = 100


@dataclass(slots=True)
class Hidden:
    """The paths in a document whose values came from a hidden parameter; those above them are partly hidden."""

    paths: dict[Path, bool] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Add a path."""
        path = tuple(map(str, path))
        for at in range(len(path)):
            self.paths.setdefault(path[:at], False)
        self.paths[path] = True

    def holds(self, path: Path, partly: bool) -> bool:
        """Whether everything below the path came from a hidden parameter, or with `partly` some of it."""
        if not self.paths:
            return False
        path = tuple(map(str, path))
        return (partly and path in self.paths) or any(self.paths.get(path[:at]) for at in range(len(path) + 1))

    def show(self, path: Path, value: object) -> str:
        """The value at a path, or what is said of it, for a message: a mask if some of it is hidden."""
        return MASK if self.holds(path, True) else str(value)

    def shown(self, path: Path) -> Path:
        """The path, cut where everything below came from a hidden parameter, since its keys are secret too."""
        ends = range(len(path)) if self.paths else ()
        return next((path[:end] for end in ends if self.paths.get(tuple(map(str, path[:end])))), path)


@dataclass(slots=True)
class Steps:
    """The budget of a reading, or of several."""

    left: int = MAX_STEPS


@dataclass(slots=True)
class Tree:
    """The shared state of the templates of one reading."""

    fetch: Fetch
    type_of: TypeOf
    problems: list[Diagnostic] = field(default_factory=list)
    warnings: dict[Diagnostic, None] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    environments: Mapping[str, Document] = field(default_factory=dict)
    """By file."""
    secrets: dict[str, Expression] = field(default_factory=dict)
    hidden_spans: list[Span | None] = field(default_factory=list)
    instead: Diagnostic | None = None
    """What is reported instead of any problem in a template that is hidden."""
    documents: Documents = field(default_factory=Documents)
    queries: dict[str, Any] = field(default_factory=dict)
    """The parsed expressions of yaql by text."""
    assumed: Assumptions = field(default_factory=Assumptions)
    held: HeldStacks = field(default_factory=HeldStacks)
    steps: Steps = field(default_factory=Steps)
    packs: bool = False
    """Whether files are read as Heat's client sends them."""
    name_of: Callable[[str], str] = str
    """The name of a file in facts."""
    sent: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The name and text of each file that `get_file` read, by the text that is sent."""
    resources: int = 0
    newer: set[tuple[str, str]] = field(default_factory=set)
    """The templates, and the newer versions that they would need, that were reported."""
    here: Locate | None = None
    """The place of the resource that is being read."""

    def report(self, code: str, message: str, span: Span | None, suggestion: str | None = None) -> None:
        """Collect one diagnostic; all are raised together. Errors: InputError when there are `MAX_PROBLEMS`."""
        self.add(Diagnostic(code, message[:400], span, suggestion))

    def warn(self, message: str, span: Span | None, suggestion: str | None = None, code: str = "bad-reference") -> None:
        """Collect one warning of what Heat does not refuse, unless it would tell of a hidden template."""
        if not self.instead:
            self.warnings[Diagnostic(code, message[:400], span, suggestion, "warning")] = None

    def add(self, problem: Diagnostic) -> None:
        """Collect one diagnostic, as `report` does."""
        self.problems.append(self.instead or problem)
        if len(self.problems) >= MAX_PROBLEMS:
            raise InputError(self.problems, self.sources)

    @contextmanager
    def hiding(self, hidden: bool, what: str, span: Span | None) -> Iterator[None]:
        """If `what` came from a hidden parameter, only report that there are problems in it."""
        outer = self.instead
        if hidden and outer is None:
            message = f"{what} came from a hidden parameter, and Heat does not accept it"
            self.instead = Diagnostic("bad-template", message, span, "try it with a value that is not hidden")
        try:
            yield
        finally:
            self.instead = outer

    def report_newer(self, name: Data, dialect: Dialect, file: str, span: Span | None) -> bool:
        """Report a section, key or function that the template's version does not have yet, once for each version that
        has it. Return whether there is one."""
        since = dialect.newer(name)
        if since and (file, since) not in self.newer:
            self.newer.add((file, since))
            message = f"`{name}` is there from version {since}; this template is {dialect.version}"
            key = "heat_template_version"
            if not dialect.hot:
                key, own = CFN_VERSIONS
                message = f"`{name}` is there in {key} {since}; this template is {own} {dialect.version}"
            self.report("newer-version", message, span, f"write `{key}: {since}`")
        return since is not None

    def near(self, word: Data, candidates: Iterable[str]) -> str | None:
        """A suggestion for a name that is not a candidate. Only made for the first problems, since it takes time."""
        few = len(self.problems) < 10 and len(known := list(candidates)) <= MAX_CANDIDATES
        nearest = closest(word, known) if isinstance(word, str) and few else None
        return suggest_name(nearest, mark="`")

    def as_meant(
        self, written: Mapping[str, Data], document: Document, path: Path, dialect: Dialect, known: Collection[str]
    ) -> Mapping[str, Data]:
        """Report the sections of a template, or the keys of a resource, that are not known. Return them with misspelt
        ones under the names that were meant, so that nothing else is said because of these."""
        what = "a resource has no key" if path else "a template has no section"
        meant: dict[str, str] = {}
        for key in written:
            if key in known:
                continue
            place = document.key_place((*path, key))
            if not self.report_newer(key, dialect, document.file, place):
                near = self.near(key, known)
                self.report("bad-template", f"{what} `{key}`", place, near)
                if isinstance(near, Advice) and near.meant not in written:
                    meant[key] = near.meant
        document.misspelt |= {(*path, name): key for key, name in meant.items()}
        return {meant.get(key, key): value for key, value in written.items()} if meant else written

    def hide(self, value: Data, home: str, written: Expression | None = None) -> None:
        """Record the texts of a hidden value, so that they are masked in the expressions of the stack with that id.
        They are replaced by `written`, or each by its own number, so that equal texts stay equal."""
        for leaf in leaves(value, keys=True):
            if isinstance(leaf, str | int | float) and not isinstance(leaf, bool) and leaf != "":
                self.secrets.setdefault(str(leaf), written or Expression("hidden", len(self.secrets), home))

    def mask_sources(self) -> None:
        """Remove hidden values from the texts for excerpts, up to the end of their lines."""
        spans = {span for span in self.hidden_spans if span and span.file in self.sources}
        rows = {file: self.sources[file].splitlines() for file in {span.file for span in spans}}
        for span in sorted(spans, key=lambda span: (span.line, span.column), reverse=True):
            text = rows[span.file]
            first, last = span.line - 1, span.end_line - (span.end_column == 1)
            text[first:last] = [text[first][: span.column - 1] + MASK, *[MASK] * (last - first - 1)]
        self.sources |= {file: "\n".join(text) for file, text in rows.items()}

    def count(self, resources: int, locate: Locate) -> None:
        """Count resources. Errors: InputError if there are too many."""
        self.resources += resources
        if self.resources > MAX_RESOURCES:
            self.stop("too-large", f"the stack has more than {MAX_RESOURCES} resources", locate(()))

    def spend(self, steps: int) -> None:
        """Take steps from the budget. Errors: InputError if none are left."""
        self.steps.left -= steps
        if self.steps.left < 0:
            place = self.here and self.here(())
            self.stop("too-large", TOO_MUCH, place)

    def stop(self, code: str, message: str, span: Span | None) -> Never:
        """Errors: InputError with this and all that was reported."""
        self.report(code, message, span)
        raise InputError(self.problems, self.sources)

    def file(self, name: str, base: str, span: Span | None, hidden: bool = False) -> tuple[str, str] | None:
        """The file with that name, which may be hidden. A missing one is reported, except http(s) URLs."""
        try:
            fetched = self.fetch(name, base)
        except InputError as error:
            for diagnostic in error.diagnostics:
                if hidden:
                    diagnostic = Diagnostic(diagnostic.code, f"the file {MASK} can't be read", span)
                self.add(with_changes(diagnostic, span=diagnostic.span or span))
            return None
        if fetched is None and not is_remote(name):
            self.report("missing-file", f"there is no file {MASK if hidden else name}", span)
        return fetched

    def document(self, file: str, text: str, as_json: bool = True) -> Document:
        """The parsed document of a file; for `as_json` see `read_document`. Errors: InputError."""
        if not self.instead:
            self.sources[file] = text
        document = self.documents.read_sent(text, file, as_json, self.spend)
        self.warnings |= dict.fromkeys(() if self.instead else document.repeated)
        return document


def is_remote(name: str) -> bool:
    """Whether a file's name is a URL, of which nothing may be known."""
    return name.startswith(("http://", "https://"))
