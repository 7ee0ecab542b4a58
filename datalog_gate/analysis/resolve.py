"""Resolution of the names in rules to relations and builtins."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import get_args

from datalog_gate.base.diagnostics import (
    MOST_SUGGESTIONS,
    Advice,
    Code,
    Diagnostic,
    Severity,
    Slips,
    Span,
    closest,
    format_count,
    suggest_name,
)
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import NO_KIND, Kind
from datalog_gate.language import ast
from datalog_gate.language.congress.library import LEVEL_OF_HEAD
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import ALL, OLD, Column, Relation, all_version, old_version
from datalog_gate.schema.signatures import BUILTINS, Builtin

ANNOTATIONS = ("deny", "warn", "record", "unlock")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_KINDS = (Kind.NULL, Kind.BOOLEAN, Kind.NUMBER, Kind.STRING, Kind.RESOURCE, Kind.ANY)
AGGREGATES = get_args(ast.AggregateFunction)
KINDS = {str(kind.name).lower(): kind for kind in _KINDS}


@dataclass(slots=True)
class ModuleScope:
    """The names of one module: its relations by bare name, its exports, its imports."""

    relations: dict[str, Relation] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    derived: set[str] = field(default_factory=set)
    exports: set[str] = field(default_factory=set)
    imports: list[ast.Import] = field(default_factory=list)


class Names:
    """The names of a whole program.

    `given` are relations that facts fill, with the kinds of their columns. The module `query`, if any, sees private
    relations and finds bare names in every module. With `lenient`, undefined relations are empty. `consequences` are
    diagnostics that only follow from a rule with a syntax error.
    """

    def __init__(
        self,
        modules: Sequence[ast.Module],
        given: Mapping[str, tuple[Kind, ...]],
        query: str | None = None,
        lenient: bool = False,
        catalogue: Catalogue = SHIPPED,
    ) -> None:
        self.catalogue = catalogue
        self.diagnostics: list[Diagnostic] = []
        self.consequences: set[Diagnostic] = set()
        self._refused = {module.name: module.refused for module in modules}
        self.given = {name: _numbered(name, kinds) for name, kinds in given.items()}
        self.query = query
        self.lenient = lenient
        self._read: set[str] = set()
        self.congress = {module.name for module in modules if module.congress}
        titles = Counter(module.title for module in modules if module.title)
        self.titles = {module.title: module.name for module in modules if titles[module.title] == 1}
        self._empty: dict[str, Relation] = {}
        self._near: dict[str, str | None] = {}
        self.scopes: dict[str, ModuleScope] = {}
        for module in modules:
            if module.name in self.scopes:
                self._report("redefined", f"two files define the module {module.name}", Span(module.file, 1, 1, 1, 1))
            self.scopes.setdefault(module.name, ModuleScope())
        for module in modules:
            self._define(module, self.scopes[module.name])
        for module in modules:
            self._link(module, self.scopes[module.name])
        scopes = self.scopes.values()
        self.undeclared = {scope.relations[name].name for scope in scopes for name in scope.derived - scope.declared}

    def relation(self, atom: ast.Atom, module: str) -> Relation | Builtin | None:
        """Find the relation of an atom in a body; None, with a diagnostic, if there is none."""
        if meaning := self._meaning(atom, module):
            self._read.add(meaning.name)
        return meaning

    def function(self, term: ast.Function, module: str) -> Builtin | None:
        """Find the builtin whose value a term is; None, with a diagnostic, if there is none."""
        prefix, _, bare = term.name.rpartition(":")
        builtin = BUILTINS.get(bare) if prefix in ("", "builtin") else None
        is_own = not prefix and bare in self.scopes[module].relations
        if builtin and not is_own and len(builtin.outputs) == 1:
            return builtin
        functions = [name for name, known in BUILTINS.items() if len(known.outputs) == 1 and name[0].isalpha()]
        near = closest(bare, functions)
        advice: str | None = "write it as a condition, and use a variable of it here"
        if builtin and is_own and len(builtin.outputs) == 1:
            advice = f"write builtin:{bare} for the builtin"
        elif near and not builtin and not is_own and not prefix:
            advice = suggest_name(near)
        elif builtin and not builtin.outputs:
            advice = "it is a condition of its own, and has no value"
        self._report("unknown-builtin", f"{term.name} is not a function", term.name_span, advice)
        return None

    def unread(self, modules: Iterable[ast.Module], read: Collection[str] = ()) -> Iterator[Diagnostic]:
        """Report relations that nothing reads; `read` are those read elsewhere. A name similar to another one, or to an
        annotation, is an error; otherwise the rule may lack an annotation."""
        known = self._read.union(read)
        for module in modules:
            scope = self.scopes[module.name]
            slips: Slips | None = None
            annotations = {rule.head.name: rule.annotation.name for rule in module.rules if rule.annotation}
            annotated = {name.rpartition(":")[2] for name in annotations}
            doubtful: list[Diagnostic] = []
            wrong = False
            reported = annotated | (scope.declared & scope.derived) | LEVEL_OF_HEAD.keys()
            for statement in module.statements:
                match statement:
                    case ast.Rule(ast.Atom(name, name_span=span)) | ast.Declaration(name, span=span):
                        name = name.rpartition(":")[2]
                    case _:
                        continue
                if name in reported or scope.relations[name].name in known:
                    continue
                reported.add(name)
                slips = slips or Slips([*scope.relations, *LEVEL_OF_HEAD, *ANNOTATIONS])
                alike = (other for other in scope.relations if other != name and other.lower() == name.lower())
                others = [name] if name in ANNOTATIONS else [*alike, *slips.of(name)][:1]
                if not others and isinstance(statement, ast.Rule) and statement.body and name not in scope.exports:
                    suggestion = f'write @deny("{name}", "...") above it, or remove it; `export {name}.` for others'
                    doubtful.append(Diagnostic("never-used", f"nothing reads {name}", span, suggestion, "warning"))
                for other in others:
                    near = f"@{other}" if other in ANNOTATIONS else other
                    declare = "" if name in scope.declared else f" Else declare it: `relation {name}(...).`"
                    severity: Severity = "warning" if module.congress else "error"
                    suggestion = Advice(f"did you mean {near}?{declare}", meant=near)
                    wrong = True
                    yield Diagnostic("never-read", f"nothing reads {name}", span, suggestion, severity)
            if not wrong and {*annotations.values()} - {"unlock"}:
                yield from doubtful

    def _meaning(self, atom: ast.Atom, module: str) -> Relation | Builtin | None:
        prefix, _, bare = atom.name.rpartition(":")
        if not prefix:
            return self._bare(atom, module)
        if prefix == "builtin":
            if bare not in BUILTINS:
                builtins = (f"builtin:{name}" for name in BUILTINS if name[0].isalpha())
                self._unknown(atom, "unknown-builtin", "builtin", builtins)
            return BUILTINS.get(bare)
        if module in self.congress and prefix not in self.scopes:
            prefix = self.titles.get(prefix, prefix)
        if atom.name.startswith(OLD) and atom.name not in self.given:
            return self._version(atom, module, OLD)
        if atom.name.startswith(ALL) and atom.name not in self.given and prefix not in self.scopes:
            return self._version(atom, module, ALL)
        if atom.name in self.given and not (prefix in self.scopes and bare in self.scopes[prefix].relations):
            return self.given[atom.name]
        if prefix not in self.scopes:
            return self.catalogue.relation(atom.name) or self._undefined(atom, module)
        scope = self.scopes[prefix]
        if bare not in scope.relations:
            return self._undefined(atom, module)
        if prefix != module and bare not in scope.exports and module != self.query:
            message = f"{bare} is private to the module {prefix}"
            advice = Advice(f"write `export {bare}.` in {prefix}", f"export {bare}.", module=prefix)
            self._report("private-relation", message, atom.name_span, advice)
        return scope.relations[bare]

    def _version(self, atom: ast.Atom, module: str, prefix: str) -> Relation | Builtin | None:
        """The old version of the relation, or its version over all stacks, by the prefix."""
        rest, span = atom.name.removeprefix(prefix), atom.name_span
        now = self._meaning(replace(atom, name=rest, name_span=span._replace(column=span.column + len(prefix))), module)
        if now is None or now.name in self._empty:
            return now
        advice = f"read {rest} itself"
        if isinstance(now, Relation) and not now.old and not now.all:
            owner, _, bare = now.name.rpartition(":")
            if owner in self.scopes and bare in self.scopes[owner].relations:
                self._read.add(now.name)
                if prefix == OLD:
                    return replace(now, old=True)
                advice = f"{advice}, and in its rules write all: before the relations of stacks"
            elif version := self.catalogue.relation((old_version if prefix == OLD else all_version)(now.name)):
                return version
        elif isinstance(now, Relation) and now.old and prefix == ALL:
            advice = f"read {ALL}{now.name}: a cloud is judged as it is"
        fills = "no stack has rows of" if prefix == ALL else "no stack, old or new, has rows of"
        self._report("undefined-relation", f"there is no {atom.name}: {fills} {rest}", span, advice)
        return None

    def head(self, atom: ast.Atom, module: str) -> Relation:
        return self.scopes[module].relations[atom.name.rpartition(":")[2]]

    def own(self) -> dict[str, Relation]:
        """The relations that the modules define or declare, by full name."""
        return {relation.name: relation for scope in self.scopes.values() for relation in scope.relations.values()}

    def _bare(self, atom: ast.Atom, module: str) -> Relation | Builtin | None:
        scope = self.scopes[module]
        if atom.name in scope.relations:
            return scope.relations[atom.name]
        if module == self.query:
            owners = [scope for scope in self.scopes if atom.name in self.scopes[scope].relations]
        else:
            imported = [import_.module for import_ in scope.imports if import_.module in self.scopes]
            scopes = {name: self.scopes[name] for name in imported}
            owners = [name for name, scope in scopes.items() if atom.name in scope.exports & scope.relations.keys()]
        if len(owners) > 1:
            several = " and ".join(f"{owner}:{atom.name}" for owner in owners)
            self._report("ambiguous-name", f"{atom.name} is {several}", atom.name_span, "write the full name")
            return None
        if owners:
            return self.scopes[owners[0]].relations[atom.name]
        return BUILTINS.get(atom.name) or self.given.get(atom.name) or self._undefined(atom, module)

    def _undefined(self, atom: ast.Atom, module: str) -> Relation | None:
        count = len(self.diagnostics)
        relation = self._absent(atom, module)
        prefix, _, bare = atom.name.rpartition(":")
        imported = [import_.module for import_ in self.scopes[module].imports]
        if not prefix and any(name not in self.scopes for name in imported):
            self.consequences.update(self.diagnostics[count:])
        seen = [prefix] if prefix else self._refused if module == self.query else [module, *imported]
        if any(bare in self._refused.get(name, ()) for name in seen):
            self.consequences.update(self.diagnostics[count:])
        return relation

    def _absent(self, atom: ast.Atom, module: str) -> Relation | None:
        """An empty relation in place of an undefined one, or None if that is not allowed. In Congress its columns have
        no names."""
        name, span = atom.name, atom.name_span
        message = f"nothing defines {name}: it is empty"
        if not self.lenient and module not in self.congress:
            self._elsewhere(atom, module)
            return None
        suggestion = self._suggestion(name, self._relation_names(module))
        if not self.lenient and atom.named:
            message = f"nothing defines {name}, so its columns have no names"
            self._report("undefined-relation", message, span, suggestion)
            return None
        self._report("undefined-relation", message, span, suggestion, severity="warning")
        if self.lenient:
            columns = [str(at) for at in range(len(atom.arguments))] + [named.column for named in atom.named]
            empty = Relation(name, tuple(Column(column, NO_KIND) for column in columns))
            return self._empty.setdefault(name, empty)
        full_name = name if ":" in name else f"{module}:{name}"
        self.undeclared.add(full_name)
        return self._empty.setdefault(full_name, _numbered(full_name, (NO_KIND,) * len(atom.arguments)))

    def _elsewhere(self, atom: ast.Atom, module: str) -> None:
        """Report an undefined relation, or one that another module defines under this name."""
        name, span = atom.name, atom.name_span
        owners = sorted(full for full, scope in self.scopes.items() if name in scope.relations and full != module)
        exporting = [owner for owner in owners if name in self.scopes[owner].exports]
        if exporting:
            full_name, statement = f"{exporting[0]}:{name}", f"import {exporting[0]}."
            suggestion = Advice(f"write {full_name}, or `{statement}` first", full_name, Code(statement, "import"))
            self._report("undefined-relation", f"there is no relation {name} in {module}", span, suggestion)
        elif owners:
            message = f"there is no relation {name} in {module}: it is private to the module {owners[0]}"
            advice = f"write `export {name}.` in {owners[0]}, and here {owners[0]}:{name}"
            self._report("private-relation", message, span, advice)
        elif name in AGGREGATES:
            advice = f"write it with braces, n = {name}{{ x : ... }}"
            self._report("undefined-relation", f"{name} is an aggregate, not a relation", span, advice)
        else:
            self._unknown(atom, "undefined-relation", "relation", self._relation_names(module), module)

    def _unknown(self, atom: ast.Atom, code: str, what: str, candidates: Iterable[str], module: str = "") -> None:
        otherwise = None if ":" in atom.name else f"declare it: `relation {atom.name}(...).`"
        if module == self.query:  # it declares nothing
            otherwise = None
        elif otherwise and what == "relation" and not atom.arguments and not atom.named:
            otherwise = f"compare a boolean, `{atom.name} = true`, or d{otherwise[1:]}"
        if what == "relation" and ":" in atom.name and atom.name.partition(":")[0] in self.catalogue.namespaces():
            otherwise = "`datalog-gate relations` lists all relations"
        suggestion = self._suggestion(atom.name, candidates) or otherwise
        self._report(code, f"there is no {what} {atom.name}", atom.name_span, suggestion)

    def _suggestion(self, name: str, candidates: Iterable[str]) -> str | None:
        if name not in self._near and len(self._near) < MOST_SUGGESTIONS:
            names = list(candidates)
            whole = [other for other in names if other.startswith("os:") and other.endswith(f":{name}")]
            near = whole[0] if len(whole) == 1 else closest(name, names)
            self._near[name] = suggest_name(near)
        return self._near.get(name)

    def _relation_names(self, module: str) -> Iterable[str]:
        yield from self.scopes[module].relations
        for name, scope in self.scopes.items():
            shown: Iterable[str] = scope.exports
            if module == self.query:  # it also reads private relations
                yield from scope.relations
                shown = scope.relations
            yield from (f"{name}:{bare}" for bare in shown)
        yield from self.catalogue.names()
        yield from filter(str.isidentifier, BUILTINS)
        yield from self.given

    def _define(self, module: ast.Module, scope: ModuleScope) -> None:
        start = Span(module.file, 1, 1, 1, 1)
        for segment in module.name.split(":"):
            if module.name != self.query and not IDENTIFIER.match(segment):
                message = f"{segment!r} in the path of a rule file is no identifier"
                name = re.sub(r"\W+", "_", segment)
                advice = f"rename it to {'' if IDENTIFIER.match(name) else '_'}{name}"
                self._report("reserved-name", message, start, advice)
        namespace, _, inner = module.name.partition(":")
        if namespace in self.catalogue.namespaces() and not (
            inner and namespace == "heat"
        ):  # `heat:a:b` is no relation
            self._report("reserved-name", f"the module name {module.name} is reserved", start, "rename the file")
        for statement in module.statements:
            if isinstance(statement, ast.Declaration):
                self._declare(module, scope, statement)
            elif isinstance(statement, ast.Import):
                scope.imports.append(replace(statement, module=self.imported(statement.module, module.name)))
        for rule in module.rules:
            self._define_by_rule(module, scope, rule)

    def _declare(self, module: ast.Module, scope: ModuleScope, declaration: ast.Declaration) -> None:
        message = f"{module.name} can't declare {declaration.name}"
        bare = self._check_name(declaration.name, module.name, message, declaration.span)
        if bare in scope.relations:
            self._report("redefined", f"{bare} is declared twice", declaration.span, "keep one of the two")
        columns = []
        for column in declaration.columns:
            kinds = NO_KIND
            for word in column.kinds:
                if word not in KINDS:
                    near = suggest_name(closest(word, KINDS), f"one of {', '.join(KINDS)}")
                    self._report("kind-mismatch", f"there is no kind {word}", column.span, near)
                kinds |= KINDS.get(word, Kind.ANY)
            columns.append(Column(column.name, kinds or Kind.ANY))
        names = [column.name for column in columns]
        for name in sorted({name for name in names if names.count(name) > 1}):
            message = f"{declaration.name} declares {name} twice"
            self._report("duplicate-column", message, declaration.span, "rename one")
        for name in (name for name in declaration.key if name not in names):
            message = f"{declaration.name} has no column {name}"
            self._report("unknown-column", message, declaration.span, suggest_name(closest(name, names)))
        key = tuple(name for name in declaration.key if name in names)
        relation = Relation(f"{module.name}:{bare}", tuple(columns), key, declaration.meaning)
        scope.relations[bare] = relation
        scope.declared.add(bare)

    def _define_by_rule(self, module: ast.Module, scope: ModuleScope, rule: ast.Rule) -> None:
        message = f"a rule of {module.name} can't define {rule.head.name}"
        bare = self._check_name(rule.head.name, module.name, message, rule.head.name_span)
        if bare not in scope.relations:
            terms = enumerate(rule.head.arguments, 1)
            names = (term.name if isinstance(term, ast.Variable) else f"column{at}" for at, term in terms)
            scope.relations[bare] = Relation(f"{module.name}:{bare}", tuple(Column(name, NO_KIND) for name in names))
        elif len(scope.relations[bare].columns) != len(rule.head.arguments):
            columns = format_count(len(scope.relations[bare].columns), "column")
            message = f"{bare} has {columns}, found {len(rule.head.arguments)}"
            self._report("arity", message, rule.head.span, "give every rule of a relation the same number of arguments")
        for named in rule.head.named:
            self._report(
                "syntax", "the head of a rule takes no named arguments", named.span, "write the terms in order"
            )
        scope.derived.add(bare)

    def _check_name(self, name: str, module: str, message: str, span: Span) -> str:
        """Check a name that a module defines, and return it without the module."""
        prefix, _, bare = name.rpartition(":")
        if prefix and prefix != module:
            suggestion = f"name it {bare}, which other modules read as {module}:{bare}"
            self._report("reserved-name", message, span, suggestion)
        if bare in BUILTINS and BUILTINS[bare].fixed:
            self._report("redefined", f"{module} can't redefine the builtin {bare}", span, "choose another name")
        return bare

    def _link(self, module: ast.Module, scope: ModuleScope) -> None:
        if module.congress:
            scope.exports.update(scope.relations)
        for statement in module.statements:
            match statement:
                case ast.Export():
                    for name in (name for name in statement.names if name not in scope.relations):
                        message = f"{module.name} has no relation {name} to export"
                        owners = [full for full, other in self.scopes.items() if name in other.relations]
                        elsewhere = f"write the export in {owners[0]}, which defines {name}" if owners else None
                        suggestion = elsewhere or self._suggestion(name, scope.relations)
                        self._report("unknown-module", message, statement.span, suggestion)
                        if name in module.refused:
                            self.consequences.add(self.diagnostics[-1])
                    scope.exports.update(statement.names)
                case ast.Import() if self.imported(statement.module, module.name) not in self.scopes:
                    message = f"there is no module {statement.module}"
                    path = "a module is a file: net:ssh is net/ssh.dl"
                    suggestion = self._suggestion(statement.module, self.scopes) or path
                    self._report("unknown-module", message, statement.span, suggestion)

    def imported(self, name: str, module: str) -> str:
        """The module that an import means. In a pack that is loaded alone, only the last segment must match."""
        beside = name.rpartition(":")[2]
        return beside if name not in self.scopes and ":" not in module and beside in self.scopes else name

    def _report(
        self, code: str, message: str, span: Span, suggestion: str | None = None, severity: Severity = "error"
    ) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, suggestion, severity))


def _numbered(name: str, kinds: tuple[Kind, ...]) -> Relation:
    return Relation(name, tuple(Column(str(at), kind) for at, kind in enumerate(kinds)))
