"""Translation of rules for Congress to rules of this language.

Congress has no null and no booleans, but the texts ``'None'`` and ``'True'``: the kind of a column says what one means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from datalog_gate.analysis.resolve import Names
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import FALSE, NO_KIND, TRUE, Kind, Value
from datalog_gate.language import ast
from datalog_gate.language.walk import map_children, nodes, terms, variables, with_terms
from datalog_gate.schema.declaration import Column, Relation, RelationRef
from datalog_gate.schema.signatures import Builtin

WORDS: Mapping[str, tuple[Kind, Value]] = {
    "true": (Kind.BOOLEAN, TRUE), "false": (Kind.BOOLEAN, FALSE), "null": (Kind.NULL, None),
    "True": (Kind.BOOLEAN, TRUE), "False": (Kind.BOOLEAN, FALSE), "None": (Kind.NULL, None),
}  # fmt: skip
"""The value of a word or text in a column that can hold that kind."""
TEXTS = ("True", "False", "None")
NO_VARIABLES = (*WORDS, "or", "in")
COMPARATORS: Mapping[str, ast.Comparator] = {"lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "equal": "="}


def translate(
    modules: Sequence[ast.Module], names: Names, relations: Mapping[RelationRef, Relation]
) -> tuple[tuple[ast.Module, ...], list[Diagnostic]]:
    """Translate the modules of Congress, with notes. `relations` are those whose kinds are known so far."""
    notes: list[Diagnostic] = []
    result = []
    for module in modules:
        statements = list(module.statements)
        for at, statement in enumerate(statements):
            if module.congress and isinstance(statement, ast.Rule):
                statements[at] = _Rewriting(names, relations, module.name, statement, notes).rule()
        result.append(replace(module, statements=tuple(statements)))
    return tuple(result), notes


@dataclass(slots=True)
class _Rewriting:
    """The rewriting of one rule of a module."""

    names: Names
    relations: Mapping[RelationRef, Relation]
    module: str
    written: ast.Rule
    notes: list[Diagnostic]
    kinds: dict[str, Kind] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)

    def rule(self) -> ast.Rule:
        rule = self.written
        self.variables = {variable.name for variable in variables((rule.head, *rule.body))}
        if [second := node for node in nodes(rule.body) if isinstance(node, ast.Wildcard)][1:]:
            message = "Congress reads all `_` of a rule as the same value, datalog_gate reads each as any value"
            self.notes.append(
                Diagnostic("congress", message, second.span, "write a named variable if they are the same", "warning")
            )
        for atom in _positive(rule.body):
            self._learn(atom)
        head = replace(rule.head, arguments=tuple(map(self._term, rule.head.arguments)))
        return replace(rule, head=head, body=self._body(rule.body))

    def _learn(self, atom: ast.Atom) -> None:
        """Note the kinds that the atom's variables can have; a variable in two atoms is never null."""
        relation = self._meaning(atom)
        if isinstance(relation, Relation):
            for term, column in zip(terms(atom), _columns(atom, relation), strict=True):
                if isinstance(term, ast.Variable) and column:
                    known = self.kinds.get(term.name)
                    self.kinds[term.name] = column.kinds if known is None else known & column.kinds & ~Kind.NULL

    def _meaning(self, atom: ast.Atom) -> Relation | Builtin | None:
        meaning = self.names.relation(atom, self.module)
        return self.relations.get(meaning.name, meaning) if isinstance(meaning, Relation) else meaning

    def _body(self, body: ast.Body) -> ast.Body:
        return tuple(rewritten for literal in body for rewritten in self._literal(literal))

    def _literal(self, literal: ast.Literal) -> ast.Body:
        match literal:
            case ast.Atom():
                meaning = self._meaning(literal)
                if isinstance(meaning, Builtin):
                    return self._builtin(literal, meaning)
                return (self._atom(literal, meaning),)
            case ast.Negation():
                return (replace(literal, body=self._body(literal.body)),)
            case ast.Disjunction():
                return (replace(literal, branches=tuple(map(self._body, literal.branches))),)
            case _:
                return (map_children(literal, self._value),)

    def _atom(self, atom: ast.Atom, relation: Relation | None) -> ast.Atom:
        if relation is None:
            return replace(atom, arguments=tuple(map(self._term, atom.arguments)))
        title, colon, bare = atom.name.rpartition(":")
        if title in self.names.titles and title not in self.names.scopes:
            atom = replace(atom, name=f"{self.names.titles[title]}{colon}{bare}")
        columns = _columns(atom, relation)
        named = zip(atom.named, columns[len(atom.arguments) :], strict=True)
        by_name = [replace(argument, column=column.name) if column else argument for argument, column in named]
        kinds = [column.kinds if column else NO_KIND for column in columns]
        return with_terms(replace(atom, named=tuple(by_name)), list(map(self._term, terms(atom), kinds)))

    def _builtin(self, atom: ast.Atom, builtin: Builtin) -> ast.Body:
        """A builtin as a condition; comparisons of Congress are false on null."""
        if len(atom.arguments) != len(builtin.inputs) + len(builtin.outputs):
            return (atom,)
        others = reversed(atom.arguments) if builtin.name == "equal" else [None] * len(atom.arguments)
        kinds = (self.kinds.get(term.name, NO_KIND) if isinstance(term, ast.Variable) else NO_KIND for term in others)
        arguments = tuple(map(self._term, atom.arguments, kinds))
        guards: ast.Body = ()
        if builtin.fixed and builtin.name != "equal" and (not builtin.outputs or builtin.name == "max"):
            guards = tuple(
                ast.Comparison("!=", argument, ast.Constant(None, span=argument.span), span=atom.span)
                for argument in dict.fromkeys(arguments)
                if isinstance(argument, ast.Variable) and Kind.NULL in self.kinds.get(argument.name, NO_KIND)
            )
        if builtin.name in COMPARATORS:
            return (*guards, ast.Comparison(COMPARATORS[builtin.name], arguments[0], arguments[1], span=atom.span))
        return (*guards, replace(atom, arguments=arguments))

    def _term(self, term: ast.Term, kinds: Kind = NO_KIND) -> ast.Term:
        match term:
            case ast.Constant(value=str() as word) if word in TEXTS:
                return self._word(word, kinds, term)
            case ast.Variable(name=word) if word in NO_VARIABLES:
                return self._word(word, kinds, term)
        return self._value(term)

    def _word(self, word: str, kinds: Kind, term: ast.Constant | ast.Variable) -> ast.Term:
        kind, value = WORDS.get(word, (NO_KIND, None))
        shown = f"'{word}'" if isinstance(term, ast.Constant) else word
        if kind & kinds and kinds != Kind.ANY:
            self._note(f"{shown} is read as the value {'null' if value is None else value}", term.span)
            return ast.Constant(value, span=term.span)
        if isinstance(term, ast.Constant):
            return term
        other = self.renamed.get(word) or word + "_"
        while word not in self.renamed and other in self.variables:
            other += "_"
        self.renamed[word] = other
        self._note(f"{shown} is read as a variable, {other}", term.span)
        return replace(term, name=other)

    def _value(self, term: ast.Term) -> ast.Term:
        """A term in a construct of this language, where reserved words have their usual meaning."""
        match term:
            case ast.Variable(name=word) if word in WORDS:
                return ast.Constant(WORDS[word][1], span=term.span)
            case ast.BinaryOperation():
                return replace(term, left=self._value(term.left), right=self._value(term.right))
            case ast.Aggregate():
                return replace(term, terms=tuple(map(self._value, term.terms)), body=self._body(term.body))
        return term

    def _note(self, message: str, span: Span) -> None:
        self.notes.append(Diagnostic("congress", message, span, None, "note"))


def _positive(body: ast.Body) -> Iterator[ast.Atom]:
    for literal in body:
        match literal:
            case ast.Atom():
                yield literal
            case ast.Disjunction():
                for branch in literal.branches:
                    yield from _positive(branch)


def _columns(atom: ast.Atom, relation: Relation) -> list[Column | None]:
    """The columns of the atom's terms, by position, name or number; None if there is none."""
    numbered = {str(at): column for at, column in enumerate(relation.columns)}
    by_name = numbered | {column.name: column for column in relation.columns}
    columns = [numbered.get(str(at)) for at in range(len(atom.arguments))]
    names = [named.column for named in atom.named]
    return columns + [by_name.get(name) or numbered.get(name.lstrip("0") or name[:1]) for name in names]
