"""The rule files that are checked together, with unsaved texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from datalog_gate.analysis.check import Checked, Focus, check
from datalog_gate.analysis.resolve import Names
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import RulesError
from datalog_gate.base.gc import paused
from datalog_gate.base.records import dataclass
from datalog_gate.decision.policy_set import RuleFile, texts
from datalog_gate.editing.module_reach import find_focus, find_reached
from datalog_gate.editing.rule_tokens import RuleTokens
from datalog_gate.files.rules import PACK_FILE, read_readable_rules, replace_texts
from datalog_gate.language.ast import Atom, Module
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import ALL, OLD, Relation
from datalog_gate.schema.signatures import Builtin


@dataclass(frozen=True)
class ParsedRules:
    """A rule file with its syntax tree and its tokens."""

    file: RuleFile
    module: Module
    diagnostics: tuple[Diagnostic, ...]

    @cached_property
    def tokens(self) -> RuleTokens:
        return RuleTokens(self.file.text, self.file.file)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The modules that it reads or imports. May contain names of no module."""
        names = [token.text.removeprefix(OLD).removeprefix(ALL) for _, token in self.tokens.named("relation")]
        modules = [token.text for _, token in self.tokens.named("module")]
        return frozenset([*(name.rpartition(":")[0] for name in names), *modules])

    @cached_property
    def relations(self) -> frozenset[str]:
        """The names of the relations in it, as written."""
        return frozenset(token.text for _, token in self.tokens.named("relation"))


class RuleFolder:
    """Rule files at one moment. Unchanged files are parsed once: all states of a folder share `parsed`, which has the
    last text of each file."""

    def __init__(
        self,
        tops: Sequence[Path],
        files: Sequence[RuleFile],
        catalogue: Catalogue,
        parsed: dict[str, ParsedRules],
    ) -> None:
        self.tops, self.files, self.catalogue = tuple(tops), tuple(files), catalogue
        self._parsed = parsed
        self._by_name = {file.file: file for file in files}

    def parsed(self, name: str) -> ParsedRules | None:
        """The file with that name; None if there is none."""
        file = self._by_name.get(name)
        if file is None:
            return None
        known = self._parsed.get(name)
        if known is None or known.file != file:
            known = self._parsed[name] = ParsedRules(file, *file.parse())
        return known

    def all(self) -> Iterator[ParsedRules]:
        return (parsed for file in self.files if (parsed := self.parsed(file.file)))

    def pack(self, name: str) -> list[ParsedRules]:
        """The file with those of its pack, those they read or import, and those that read them."""
        home = self._home(name)
        modules = {parsed.module.name: parsed for parsed in self.all()}
        own = {module for module, parsed in modules.items() if Path(parsed.file.file).is_relative_to(home)}
        trees = [parsed.module for parsed in modules.values()]
        near = own | {module for module, parsed in modules.items() if parsed.reads & own}
        reached = find_reached(trees, near)
        return [parsed for module, parsed in modules.items() if module in reached]

    def _home(self, name: str) -> Path:
        """The folder of a file's pack: the nearest with a description, else its own."""
        folder = Path(name).parent
        above = (path for path in (folder, *folder.parents) if any(map(path.is_relative_to, self.tops)))
        return next((path for path in above if (path / PACK_FILE).is_file()), folder)

    @paused()
    def check(self, files: Sequence[ParsedRules]) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
        """Check files as one program. Return it, or None if there are errors, and all diagnostics."""
        return self._check(files, None)

    @paused()
    def check_file(self, name: str) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
        """Check a file with the files it reads, as `check` does, but report only its own diagnostics."""
        files = list(self.all())
        module = self._by_name[name].module
        own = {module, *(parsed.module.title for parsed in files if parsed.module.name == module)} - {""}
        others = [parsed for parsed in files if parsed.module.name != module]
        read = {name for parsed in others for name in parsed.relations}
        readers = (parsed for parsed in others if parsed.reads & own)
        read |= {f"{module}:{name.rpartition(':')[2]}" for parsed in readers for name in parsed.relations}
        return self._check(files, find_focus([parsed.module for parsed in files], module, read))

    def _check(
        self, files: Sequence[ParsedRules], focus: Focus | None
    ) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
        needed = (parsed for parsed in files if focus is None or parsed.module.name in focus.needed)
        diagnostics = [diagnostic for parsed in needed for diagnostic in parsed.diagnostics]
        try:
            modules = [parsed.module for parsed in files]
            checked = check(modules, problems=diagnostics, catalogue=self.catalogue, focus=focus)
        except RulesError as error:
            return None, error.diagnostics
        return checked, checked.warnings

    @property
    def sources(self) -> dict[str, str]:
        return texts(self.files)

    @cached_property
    def names(self) -> Names:
        return Names([parsed.module for parsed in self.all()], {}, None, True, self.catalogue)

    def meaning(self, name: str, module: str) -> Relation | Builtin | None:
        """The relation that a name stands for in a module."""
        names = self.names
        if module not in names.scopes:
            return None
        before = len(names.diagnostics)
        meaning = names.relation(Atom(name), module)
        undefined = any(diagnostic.code == "undefined-relation" for diagnostic in names.diagnostics[before:])
        del names.diagnostics[before:]
        return None if undefined else meaning

    def uses(self, full_name: str) -> Iterator[tuple[ParsedRules, int]]:
        """The places of the relation with that full name, by token index."""
        bare = full_name.rpartition(":")[2]
        for parsed in self.all():
            for index, token in parsed.tokens.named("relation", "exported"):
                if token.text.rpartition(":")[2].rstrip("+-") == bare:
                    meaning = self.meaning(token.text.rstrip("+-"), parsed.module.name)
                    if meaning and meaning.name == full_name:
                        yield parsed, index


def read_folder(
    tops: Sequence[Path], unsaved: Mapping[Path, str], catalogue: Catalogue, parsed: dict[str, ParsedRules]
) -> tuple[RuleFolder, tuple[Diagnostic, ...]]:
    """Read the rule files below folders, or single ones; also return problems with the folders themselves."""
    files, wrong = read_readable_rules(tops)
    return with_texts(RuleFolder(tops, files, catalogue, parsed), unsaved), wrong


def with_texts(folder: RuleFolder, unsaved: Mapping[Path, str]) -> RuleFolder:
    """The folder with other texts for files below it, including new files."""
    files = replace_texts(folder.files, unsaved, folder.tops)
    return RuleFolder(folder.tops, files, folder.catalogue, folder._parsed)
