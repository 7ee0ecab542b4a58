"""A reader of the annotations of rules: policies and unlocks.

A relation is a policy by the annotation above one of its rules, or by the name ``error`` or ``warning`` in Congress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

from datalog_gate.analysis.policy import BUILDING, CHOICES, LEVELS, LISTS, PLACEHOLDERS, TEXTS, Policy, Unlock
from datalog_gate.analysis.resolve import ANNOTATIONS, Names
from datalog_gate.base.diagnostics import Diagnostic, Span, closest, suggest_name
from datalog_gate.base.values import Kind
from datalog_gate.language.ast import Annotation, Attribute, Module, Rule, Variable
from datalog_gate.language.congress.library import LEVEL_OF_HEAD
from datalog_gate.schema.declaration import Relation, RelationRef


class Policies:
    """The policies and unlocks of a program, with diagnostics of their annotations."""

    def __init__(self, modules: Iterable[Module], names: Names, relations: Mapping[RelationRef, Relation]) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.policies: dict[str, Policy] = {}
        self.unlocks: list[Unlock] = []
        self._annotated: dict[str, Span] = {}
        for module in modules:
            annotated = {names.head(rule.head, module.name).name for rule in module.rules if rule.annotation}
            for rule in module.rules:
                relation = relations[names.head(rule.head, module.name).name]
                bare = relation.name.rpartition(":")[2]
                is_action = module.congress and bare.startswith("execute.")
                plain = "record" if is_action else LEVEL_OF_HEAD.get(bare)
                if rule.annotation:
                    self._annotation(rule.annotation, rule, relation)
                elif plain and relation.name not in annotated:
                    annotated.add(relation.name)
                    self._add(Annotation(plain, span=rule.head.span), rule, relation)

    def _annotation(self, annotation: Annotation, rule: Rule, relation: Relation) -> None:
        if relation.name in self._annotated:
            self._report("redefined", f"{rule.head.name} is annotated twice", annotation.span, "annotate one rule only")
        self._annotated[relation.name] = annotation.span
        if annotation.name in LEVELS:
            self._add(annotation, rule, relation)
        elif annotation.name == "unlock":
            self._unlock(annotation, rule, relation)
        else:
            annotations = [f"@{name}" for name in ANNOTATIONS]
            message = f"there is no annotation @{annotation.name}"
            suggestion = suggest_name(closest(f"@{annotation.name}", annotations), "one of " + ", ".join(annotations))
            self._report("unknown-annotation", message, annotation.span, suggestion)

    def _unlock(self, annotation: Annotation, rule: Rule, relation: Relation) -> None:
        texts = [value.value for value in annotation.values if isinstance(value.value, str)]
        if len(texts) != 1 or len(annotation.values) != 1 or annotation.attributes:
            self._refuse("@unlock takes the name of one service", annotation.span, 'write @unlock("edge")')
        elif len(relation.columns) != 1:
            message = "a rule with @unlock has exactly one column, the grant"
            self._report("arity", message, rule.head.span, f"write {rule.head.name}(grant)")
        else:
            self.unlocks.append(Unlock(texts[0], relation.name, annotation.span))

    def _add(self, annotation: Annotation, rule: Rule, relation: Relation) -> None:
        before = len(self.diagnostics)
        texts, lists = self._attributes(annotation)
        columns = tuple(term.name if isinstance(term, Variable) else "" for term in rule.head.arguments)
        identity = texts.get("id") or relation.name
        for attribute, placeholder in PLACEHOLDERS.items():
            for name in placeholder.findall(texts.get(attribute, "")):
                self._column("message-column", f"the {attribute}", name, columns, annotation.span)
        for name in lists.get("key", ()):
            self._column("annotation-attribute", "key", name, columns, annotation.span)
        if "worse" in texts:
            self._measure(texts["worse"], columns, relation, annotation.span)
        subject = _first_resource(relation)
        blamed = texts.get("subject")
        if blamed is not None and self._column("annotation-attribute", "subject", blamed, columns, annotation.span):
            subject = columns.index(blamed)
        if identity in self.policies:
            message = f"the policy id {identity} is already used at {self.policies[identity].span}"
            self._report("redefined", message, annotation.span, "give it another id")
        enforce_from = self._date(texts.get("enforce_from"), annotation.span)
        if len(self.diagnostics) > before:
            return
        default = f"{rule.head.name}(" + ", ".join(f"{{{name}}}" for name in columns if name) + ")"
        self.policies[identity] = Policy(
            identity,
            next(level for level in LEVELS if level == annotation.name),
            relation.name,
            columns,
            message=texts.get("message", default),
            hint=texts.get("hint", ""),
            on=frozenset(lists["on"]) if "on" in lists else BUILDING,
            on_unknown=texts.get("on_unknown", "defer"),
            subject=subject,
            enforce_from=enforce_from,
            texts=texts,
            lists=lists,
            span=rule.head.span,
        )

    def _attributes(self, annotation: Annotation) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
        """The annotation's texts and lists of texts by name; the first two values are id and message."""
        texts: dict[str, str] = {}
        lists: dict[str, tuple[str, ...]] = {}
        if len(annotation.values) > 2:
            message = f"@{annotation.name} takes an id and a message, then attributes by name"
            self._refuse(message, annotation.values[2].span)
        values = zip(TEXTS, annotation.values[:2], strict=False)
        named = [Attribute(name, constant.value, span=constant.span) for name, constant in values]
        for attribute in (*named, *annotation.attributes):
            value = attribute.value
            items = value if isinstance(value, tuple) else (value,)
            words = tuple(item for item in items if isinstance(item, str))
            if attribute.name in texts or attribute.name in lists:
                self._refuse(f"{attribute.name} is given twice", attribute.span)
            elif attribute.name not in TEXTS | LISTS:
                names = sorted(TEXTS | LISTS)
                suggestion = suggest_name(closest(attribute.name, names), "one of " + ", ".join(names))
                self._refuse(f"@{annotation.name} has no attribute {attribute.name}", attribute.span, suggestion)
            elif words != items or (attribute.name in TEXTS and isinstance(value, tuple)):
                kind = "a list of strings" if attribute.name in LISTS else "a string"
                self._refuse(f"{attribute.name} must be {kind}", attribute.span)
            elif attribute.name in LISTS:
                lists[attribute.name] = words
            else:
                texts[attribute.name] = words[0]
            choices = CHOICES.get(attribute.name, words)
            for word in (word for word in words if word not in choices):
                suggestion = suggest_name(closest(word, choices), "one of " + ", ".join(choices))
                self._refuse(f"{attribute.name} can't be {word!r}", attribute.span, suggestion)
        if lists.get("on") == ():
            self._refuse("`on` is empty, so the policy would judge nothing", annotation.span)
        if "rollback" in lists.get("on", ()):
            self._refuse("no policy may gate rollback", annotation.span, "leave it out of `on`")
        return texts, lists

    def _column(self, code: str, what: str, name: str, columns: tuple[str, ...], span: Span) -> bool:
        if name and name in columns:
            return True
        has = "the head has " + (", ".join(filter(None, columns)) or "none")
        message = f"{what} names {name}, which is not a column of the head"
        self._report(code, message, span, suggest_name(closest(name, columns), has))
        return False

    def _measure(self, worse: str, columns: tuple[str, ...], relation: Relation, span: Span) -> None:
        name, _, direction = worse.partition(" ")
        if direction not in ("up", "down"):
            self._refuse(f"worse can't be {worse!r}", span, 'write a column and a direction, "n up"')
        elif self._column("annotation-attribute", "worse", name, columns, span):
            kinds = relation.columns[columns.index(name)].kinds
            if Kind.NUMBER not in kinds:
                self._refuse(f"worse names {name}, which is {kinds.describe()}", span, "name a column of numbers")

    def _date(self, text: str | None, span: Span) -> date | None:
        try:
            return date.fromisoformat(text) if text else None
        except ValueError:
            self._refuse(f"{text!r} is not a date", span, 'write "2027-03-01"')
            return None

    def _refuse(self, message: str, span: Span, suggestion: str | None = None) -> None:
        self._report("annotation-attribute", message, span, suggestion)

    def _report(self, code: str, message: str, span: Span, suggestion: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, suggestion))


def _first_resource(relation: Relation) -> int | None:
    """The position of the first column that holds only resources, else of the first that can hold one."""
    kinds = [column.kinds for column in relation.columns]
    exact = (at for at, kind in enumerate(kinds) if kind == Kind.RESOURCE)
    return next(exact, next((at for at, kind in enumerate(kinds) if Kind.RESOURCE in kind), None))
