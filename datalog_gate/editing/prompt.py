"""Answers the input of a prompt: queries and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from datalog_gate.base.diagnostics import closest, format_count, shorten, suggest_name
from datalog_gate.base.errors import GateError, RulesError, UsageError
from datalog_gate.base.values import show
from datalog_gate.decision.query import QueryAnswer, QueryInputs, ask
from datalog_gate.editing import rule_completion
from datalog_gate.editing.answers import Completion
from datalog_gate.editing.rule_folder import RuleFolder, with_texts
from datalog_gate.explain.query_explanation import QueryExplanation
from datalog_gate.facts.lines import FactLine
from datalog_gate.facts.relation_text import format_meaning
from datalog_gate.language.ast import Atom
from datalog_gate.language.parser import parse_query
from datalog_gate.schema.declaration import Relation
from datalog_gate.schema.descriptions import describe_relations

COMMANDS = {
    ":why": "ATOM: why its rows hold",
    ":whynot": "ATOM: the condition at which each rule fails",
    ":rules": "[FILE]: edit a rule file, and read all rules again",
    ":relations": "[NAME|PATTERN]: what rules can read",
    ":help": "the commands",
    ":quit": "the end, as Ctrl-D",
}
NARROWEST = 4
"""The minimum width of a column that is cut."""


@dataclass
class Prompt:
    """The rules and the facts of stacks that answer queries."""

    read_rules: Callable[[], RuleFolder]
    """Reads the current rules from disk."""
    lines: Sequence[FactLine]
    edit: Callable[[Path], None] = field(default=lambda _: None)
    """Opens a file in the user's editor."""
    width: int = 80
    folder: RuleFolder = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.read_rules()

    def answer(self, text: str) -> Iterator[str]:
        """The lines that answer a query or command. An error is an answer too."""
        word, _, rest = text.strip().partition(" ")
        try:
            match word:
                case "":
                    return
                case ":why":
                    yield from self._why(rest)
                case ":whynot":
                    yield from self._why_not(rest)
                case ":rules":
                    yield from self._rules(rest)
                case ":relations":
                    yield from self._relations(rest)
                case ":help":
                    yield from (f"{name:11}{meaning}" for name, meaning in COMMANDS.items())
                case _ if word.startswith(":") and word != ":-":
                    yield f"there is no command {word}: {suggest_name(closest(word, COMMANDS), ':help lists them')}"
                case _:
                    yield from self._query(text)
        except GateError as error:
            yield str(error)

    def completions(self, text: str) -> tuple[int, list[Completion]]:
        """The length of the word at the end, and its completions."""
        word, _, rest = text.partition(" ")
        if text.startswith(":") and word == text:
            return len(word), [
                Completion(name, "keyword", meaning) for name, meaning in COMMANDS.items() if name.startswith(word)
            ]
        query = rest if word in (":why", ":whynot") else text
        body = f"query_() :- {query.removeprefix(':-')}"
        path = self.folder.tops[0] / "query_.dl"
        folder = with_texts(self.folder, {path: body})
        where, completions = rule_completion.complete(folder, path, body, len(body))
        return len(body) - where.start, completions

    def _query(self, text: str) -> Iterator[str]:
        if parse_query(text)[1] and not parse_query(f":- {text}")[1]:
            text = f":- {text}"  # several conditions
        answer = self._ask(text)
        question, _ = parse_query(text)
        rows = answer.rows
        if isinstance(question, Atom):
            meaning = self._meaning(question)
            named = [column.name for column in meaning.columns] if meaning else []
            count = len(rows[0]) if rows else 0
            names = named if len(named) == count else [str(at) for at in range(1, count + 1)]
            if meaning and question.named and rows:  # only the columns that it names
                places = [*range(len(question.arguments)), *(meaning.positions[name.column] for name in question.named)]
                names = [names[at] for at in places]
                rows = tuple(dict.fromkeys(tuple(row[at] for at in places) for row in rows))
        else:
            names = list(answer.names)
        if isinstance(question, Atom) and meaning and rows and not rows[0]:
            yield f"there are rows; name columns to see them: {meaning.name}({meaning.columns[0].name}=x)"
            return
        yield from table(names, [[show(value) for value in row] for row in rows], self.width)
        yield from (f"{error.span}: {error.message}" for error in answer.errors)

    def _ask(self, text: str) -> QueryAnswer:
        return ask(self.folder.files, text, self._inputs(lenient=False))

    def _inputs(self, lenient: bool) -> QueryInputs:
        return QueryInputs(lines=self.lines, lenient=lenient, catalogue=self.folder.catalogue, now=datetime.now(UTC))

    def _meaning(self, atom: Atom) -> Relation | None:
        """The relation of an atom, in any module."""
        owners = [name for name, scope in self.folder.names.scopes.items() if atom.name in scope.relations]
        for module in owners or list(self.folder.names.scopes)[:1]:
            meaning = self.folder.meaning(atom.name, module)
            if isinstance(meaning, Relation):
                return meaning
        return None

    def _why(self, text: str) -> Iterator[str]:
        meaning, _ = self._read_atom(text)
        rows = self._ask(text).rows
        if not rows:
            yield f"no row of {meaning.name} matches: ask :whynot"
        else:
            yield from self._explain().explain_rows(meaning, rows)

    def _why_not(self, text: str) -> Iterator[str]:
        meaning, atom = self._read_atom(text)
        yield from self._explain().explain_absence(meaning, atom)

    def _read_atom(self, text: str) -> tuple[Relation, Atom]:
        """An atom and its relation. Errors: UsageError, RulesError."""
        atom, diagnostics = parse_query(text)
        if diagnostics:
            raise RulesError(diagnostics, {"<query>": text})
        meaning = self._meaning(atom) if isinstance(atom, Atom) else None
        if not isinstance(atom, Atom) or meaning is None:
            raise UsageError("write one atom of an existing relation, such as :why open_ssh(group, src)")
        return meaning, atom

    def _explain(self) -> QueryExplanation:
        """The derivations of all rows. Errors: RulesError."""
        files = list(self.folder.all())
        problems = [diagnostic for parsed in files for diagnostic in parsed.diagnostics]
        modules = [parsed.module for parsed in files]
        return QueryExplanation(modules, problems, self.folder.sources, self._inputs(lenient=True))

    def _rules(self, name: str) -> Iterator[str]:
        if name:
            self.edit(Path(name))
        self.folder = self.read_rules()
        _, diagnostics = self.folder.check(list(self.folder.all()))
        if diagnostics:
            yield str(RulesError(diagnostics, self.folder.sources))
        count = len(self.folder.files)
        yield f"{format_count(count, 'file')} of rules"

    def _relations(self, pattern: str) -> Iterator[str]:
        own = {
            relation.name: relation
            for scope in self.folder.names.scopes.values()
            for relation in scope.relations.values()
        }
        described = describe_relations(pattern or "*", self.folder.catalogue)
        if not pattern:
            filled = {line.relation for line in self.lines}
            shown = [description.relation for description in described if description.relation.name in filled]
            for relation in (*own.values(), *shown):
                yield shorten(f"{relation.name}  {relation.meaning}".rstrip(), self.width)
            yield (
                f"{len(described) - len(shown)} more have no row here: list them with :relations PATTERN, such "
                "as os:nova:*"
            )
            return
        named = [
            relation for name, relation in own.items() if fnmatchcase(name, pattern) or name.endswith(f":{pattern}")
        ]
        if not described and not named:
            near = closest(pattern, [*own, *self.folder.catalogue.names()])
            advice = suggest_name(near, ":relations lists those with rows")
            yield f"there is no relation {pattern}: {advice}"
        checked = self.folder.check(list(self.folder.all()))[0] if named else None
        for relation in named:  # a rule's columns have kinds once it is checked
            known = checked.program.relations.get(relation.ref) if checked else None
            yield from format_meaning(relation, self.folder.catalogue, known)
        for description in described:
            yield from format_meaning(description.relation, self.folder.catalogue)


def table(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """A table that fits the terminal, with its widest columns cut, and the number of rows."""
    if names and rows:
        widths = [max(len(cell) for cell in column) for column in zip(names, *rows, strict=True)]
        while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > NARROWEST:
            widths[widths.index(max(widths))] -= 1
        for cells in (names, ["-" * size for size in widths], *rows):
            yield "  ".join(f"{shorten(cell, size):{size}}" for cell, size in zip(cells, widths, strict=True)).rstrip()
    yield format_count(len(rows), "row")
