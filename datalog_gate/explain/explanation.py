"""The explanation of a decision, in lines for people.

Each line has its place in the user's files or in the rules. Secrets are masked, long values are cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence, Set
from types import EllipsisType
from typing import Literal as OneOf

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import variables
from datalog_gate.base.diagnostics import Span, format_count, shorten
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.secrecy import MASK
from datalog_gate.base.values import Kind, ResourceId, Row, Value, from_python, row_key, show
from datalog_gate.decision.decision import Violation
from datalog_gate.decision.judgement import Judgement
from datalog_gate.decision.secrets import Secrets
from datalog_gate.engine.assignments import Binding
from datalog_gate.engine.least_model import Model, ModelError
from datalog_gate.engine.provenance import Fact, Provenance
from datalog_gate.explain.fix import Fixes
from datalog_gate.explain.template_change import TemplateChange
from datalog_gate.explain.why import FIRST, Failure, Node, RowPattern, Total, Why
from datalog_gate.facts.factset import FactSet, place_of
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import RelationRef, certain_version, given_version, parse_reference, whole_version
from datalog_gate.schema.relations import FIXED
from datalog_gate.schema.signatures import INTERPOLATE

BYTES = 1700
"""The maximum size of the steps of one finding, as text or JSON: 2 kB with the rest of the finding."""
LONGEST = 160
"""The maximum number of characters of a line, without its place."""
LONGEST_VALUE = 60
"""The maximum number of characters of a value."""
JOINED = 90
"""The maximum number of characters of a line that joins several checks."""
WIDTH = 72
"""The maximum width of the text before the column of places."""
LineKind = OneOf["row", "absent", "aggregate", "holds", "fails", "fix"]


@dataclass(frozen=True, slots=True)
class ExplanationLine:
    """A step of an explanation. A row depends on the deeper lines after it."""

    depth: int
    """The depth below the finding."""
    word: LineKind
    text: str
    place: Span | None

    def to_json(self) -> dict[str, object]:
        place = self.place.to_json() if self.place else None
        return {"depth": self.depth, "step": self.word, "text": self.text, "place": place}

    @property
    def where(self) -> str:
        if self.place is None:
            return ""
        return f"{self.place.file}:{self.place.line}" if self.place.line else self.place.readable


@dataclass(frozen=True, slots=True)
class FindingExplanation:
    """Why a finding holds, and a change that fixes it, if one was found."""

    lines: tuple[ExplanationLine, ...]
    fix: ExplanationLine | None
    change: TemplateChange | None = None
    """The change that the fix describes."""

    def format_why(self) -> Iterator[str]:
        """Format why it holds, as lines."""
        return format_lines(self.lines)

    def to_json(self) -> dict[str, object]:
        """As JSON data: as many steps as fit, the number of others, and the fix."""
        steps = [line.to_json() for line in self.lines]
        shown = _count_fitting([json.dumps(step, ensure_ascii=False) for step in steps])
        return {"steps": steps[:shown], "more": len(steps) - shown, "fix": self.fix and self.fix.text}


class RowExplanation:
    """The derivations of a model's rows, as lines. `place` returns where a fact was written."""

    def __init__(
        self,
        provenance: Provenance,
        place: Callable[[Node], Span | None],
        secrets: Secrets | None = None,
    ) -> None:
        self.why = Why(provenance)
        program = provenance.program
        self.messages = _Messages(program, provenance.model, secrets or Secrets(FactSet(), program))
        self._place = place

    def of(self, relation: RelationRef, row: Row) -> tuple[ExplanationLine, ...]:
        """The lines that explain a row; none for a fact."""
        tree = self.why.why(relation, row)
        return self.lines(tree) if tree.rule or not tree.followed else ()

    def lines(self, tree: Node) -> tuple[ExplanationLine, ...]:
        if tree.rule is None:
            return (ExplanationLine(0, "holds", "the explanation would take too long", None),)
        lines: list[ExplanationLine] = []
        self._below(tree, 0, lines, set())
        return tuple(lines) or (ExplanationLine(0, "holds", "the rule has no conditions", tree.rule.span),)

    def failures(self, relation: RelationRef, pattern: RowPattern) -> tuple[ExplanationLine, ...] | None:
        """For each rule, in source order, the literal at which it fails to derive such a row. None if there is one.
        Errors: EngineError if it takes too long."""
        failures = self.why.why_not(relation, pattern)
        return None if failures is None else tuple(map(self._failure, failures))

    def _failure(self, failure: Failure) -> ExplanationLine:
        messages = _RuleMessages(self.messages, failure.rule, failure.binding)
        place = failure.literal.span if failure.literal else failure.rule.span
        if failure.error:
            error = ModelError(failure.rule.relation, failure.error.span, failure.error.message, ())
            return _line(0, "fails", self.messages.secrets.message(error), place)
        match failure.literal:
            case None:
                text = "the rule does not derive this row"
            case ir.Match():
                text = f"there is no {messages.literal(failure.literal)}"
            case ir.Without(body):
                text = f"there is {', '.join(map(messages.literal, body))}"
            case ir.Fold(target=target):
                assert failure.total
                text = f"{messages.total(failure.total)}, not {messages.operand(target)}"
            case _:
                text = f"not {messages.literal(failure.literal)}"
        return _line(0, "fails", text, place)

    def _below(self, node: Node, depth: int, lines: list[ExplanationLine], seen: set[Fact]) -> None:
        """Add the premises of a row: rows, then other conditions, with as many on a line as fit."""
        assert node.rule
        messages = _RuleMessages(self.messages, node.rule, node.binding)
        for premise in node.premises:
            match premise:
                case Node():
                    self._row(premise, depth, lines, seen)
                case ir.Compare() | ir.Call():
                    if text := messages.check(premise):
                        last = lines[-1] if lines else None
                        joins = last and (last.word, last.depth) == ("holds", depth)
                        if last and joins and len(last.text) + len(text) < JOINED:
                            lines[-1] = replace(last, text=f"{last.text}, {text}")
                        else:
                            lines.append(_line(depth, "holds", text, premise.span))
                case ir.Without():
                    lines.append(_line(depth, "absent", messages.absent(premise), premise.span))
                case Total():
                    lines.append(_line(depth, "aggregate", messages.total(premise), premise.literal.span))

    def _row(self, node: Node, depth: int, lines: list[ExplanationLine], seen: set[Fact]) -> None:
        while len(node.premises) == 1 and isinstance(only := node.premises[0], Node):
            if certain_version(only.relation) != given_version(certain_version(node.relation)):
                break
            node = only
        text = self.messages.row(node)
        if self.why.provenance.program.relations[node.relation].generated == "in":
            lines.append(_line(depth, "row", text, node.rule.span if node.rule else None))
            return
        if node.rule is None:
            more = "" if node.followed else " and so on"
            lines.append(_line(depth, "row", text + more, self._place(node) if node.followed else None))
            return
        fact = node.relation, node.row
        again = fact in seen and bool(node.premises)
        seen.add(fact)
        lines.append(_line(depth, "row", f"{text} as above" if again else text, node.rule.span))
        if not again:
            self._below(node, depth + 1, lines, seen)


class Explanation:
    """The explanation of one decision: of its findings, and of rows that do not hold. Computed on demand and cached."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement
        reader = judgement.reader
        self._facts, self._program = reader.evaluation.facts, reader.evaluation.program
        self._model = reader.evaluation.model
        self._rows = RowExplanation(reader.provenance, self._place, reader.secrets)
        self._evidence = judgement.evidence()
        self._fixes = Fixes(judgement)
        self._explained: dict[Violation, FindingExplanation] = {}

    def of(self, violation: Violation) -> FindingExplanation:
        """Why a finding of this decision holds, and how to fix it."""
        if violation not in self._explained:
            tree = self._rows.why.why(*self._evidence[violation])
            change = None if violation.waiver else self._fixes.find(violation, tree)
            fix = None
            if change:
                text = f"{change.text} (settles {format_count(change.settled, 'finding')})"
                fix = _line(0, "fix", text, change.place)
            self._explained[violation] = FindingExplanation(self._rows.lines(tree), fix, change)
        return self._explained[violation]

    def stand_for(self, violation: Violation, other: Violation) -> None:
        """Explain `other`, which a door derived from a finding of this decision, as that finding."""
        self._evidence[other] = self._evidence[violation]

    def why(self, violation: Violation) -> tuple[ExplanationLine, ...]:
        return self._rows.lines(self._rows.why.why(*self._evidence[violation]))

    def why_not(self, relation: RelationRef, row: Sequence[object]) -> tuple[ExplanationLine, ...]:
        """Why no row like this holds: for each rule, in source order, the literal at which it fails.

        `row` is plain data, a resource as its path, `...` for any value. Empty if there is such a row. Errors: KeyError
        for a relation that no rule derives, ValueError for a row of another width, EngineError if it takes too long.
        """
        program = self._program
        relation = parse_reference(relation)
        if not any(relation in stratum.relations for stratum in program.strata):
            raise KeyError(relation)
        columns = program.relations[relation].columns
        if len(row) != len(columns):
            raise ValueError(f"{relation} has {format_count(len(columns), 'column')}, found {len(row)}")
        stacks = [stack for root in self.judgement.reader.stacks for stack in root.walk()]
        paths = {resource.id.path for stack in stacks for resource in stack.resources}
        wanted = tuple(_to_pattern(value, column.kinds, paths) for value, column in zip(row, columns, strict=True))
        return self._rows.failures(relation, wanted) or ()

    def clean(self) -> dict[str, dict[str, int]]:
        """For each policy without finding or error, by id, the number of rows in each relation of facts that it reads,
        those included that rules and limits add."""
        decision, program = self.judgement.decision, self._program

        def count(relation: RelationRef) -> int:
            return max(len(self._facts.rows.get(relation, ())), len(self._model.rows(whole_version(relation))))

        return {
            policy.id: {
                str(whole_version(relation)): count(relation)
                for relation in sorted(self.judgement.reader.rules.reads[policy.relation] & program.inputs, key=str)
                if not program.relations[relation].generated
            }
            for policy in sorted(self.judgement.policies, key=lambda policy: policy.id)
            if policy.id not in decision.flagged
        }

    def _place(self, node: Node) -> Span | None:
        """The place of a fact: if its literal reads only one value, that of the value."""
        name = certain_version(node.relation)
        origin = self._facts.origin(name, node.row)
        if origin is None:
            inventory = self.judgement.reader.request.inventory
            rows = (inventory.added.get(name) or inventory.rows.get(name, {})) if inventory else {}
            return rows.get(node.row)
        described = self._program.relations[node.relation]
        read = [described.columns[at].name for at in node.columns if described.columns[at].name not in described.key]
        single = described.named_only and len(read) == 1 and not read[0].startswith("_")
        return place_of(origin, read[0] if single else None)


def _count_fitting(texts: Sequence[str]) -> int:
    """How many of the texts fit in `BYTES`."""
    size = 0
    for at, line in enumerate(texts):
        size += len(line.encode("utf-8", "surrogatepass")) + 2
        if size > BYTES:
            return at
    return len(texts)


def format_lines(steps: Sequence[ExplanationLine], heading: str = "why") -> Iterator[str]:
    """Format as many lines as fit under a heading, with their places in a column."""
    texts = [f"{'  ' * step.depth}{step.text}" for step in steps]
    width = min(WIDTH, max(map(len, texts), default=0))
    lines = [f"{text:{width}}   {line.where}".rstrip() for text, line in zip(texts, steps, strict=True)]
    shown = _count_fitting([f"        {line}" for line in lines])
    for at, line in enumerate(lines[:shown]):
        yield f"  {'' if at else heading:6}{line}"
    if more := len(lines) - shown:
        yield f"        and {more} more"


def _to_pattern(value: object, kinds: Kind, paths: Set[str]) -> Value | EllipsisType:
    if isinstance(value, EllipsisType):
        return value
    named = isinstance(value, str) and (kinds == Kind.RESOURCE or (value in paths and kinds & Kind.RESOURCE))
    return ResourceId(str(value)) if named else from_python(value)


def _line(depth: int, word: LineKind, text: str, place: Span | None) -> ExplanationLine:
    return ExplanationLine(depth, word, shorten(text, LONGEST), place)


@dataclass(frozen=True, slots=True)
class _Messages:
    """Formats rows of one model."""

    program: ir.CheckedProgram
    model: Model
    secrets: Secrets

    def row(self, node: Node) -> str:
        """Format a row: for a resource type's relation the key and the columns that are read, if few; for others all
        columns."""
        name, described = certain_version(node.relation), self.program.relations[node.relation]
        row = self.secrets.row(name, node.row)
        if described.generated == "in":
            return f"{_word(row[0])} in [{self.members(node.relation)}]"
        if not described.named_only:
            return f"{self.name(name)}({', '.join(map(_word, row))})"
        keys = [described.positions[name] for name in described.key]
        read = [at for at in node.columns if at not in keys]
        cells = [_word(row[at]) for at in keys]
        cells += [f"{described.columns[at].name}={_word(row[at])}" for at in read if len(read) < 3]
        return f"{self.name(name)}({', '.join(cells)}{', ...' if len(cells) < len(row) else ''})"

    def name(self, relation: RelationRef) -> str:
        """Format the name of a relation: short for a module's own, full for the catalogue's."""
        described = self.program.relations[relation]
        if described.generated:
            return described.generated
        name = str(whole_version(relation))
        known = name in FIXED or described.named_only or cloud.relation(name)
        return name if known else name.rpartition(":")[2]

    def members(self, relation: RelationRef) -> str:
        rows = sorted(self.model.rows(relation), key=row_key)
        return ", ".join([*(_word(row[0]) for row in rows[:FIRST]), *["..."] * (len(rows) > FIRST)])


class _RuleMessages:
    """Formats the literals of one rule, with the values of its variables."""

    def __init__(self, messages: _Messages, rule: ir.CheckedRule, binding: Binding) -> None:
        self._messages, self._binding = messages, binding
        self._secret = messages.secrets.values(rule, binding)
        self._functions: dict[ir.Var, str] = {}
        """The functions whose results have no name."""

    def total(self, total: Total) -> str:
        """Format an aggregate with its first contributors."""
        literal = total.literal
        if literal.target in self._secret:
            return f"{literal.function} of {MASK} = {MASK}"
        listed = [*map(_word, total.first), *["..."] * (total.contributors > len(total.first))]
        if any(term in self._secret for term in literal.terms):
            listed = [MASK]
        values = format_count(total.contributors, "value")
        first = f": {', '.join(listed)}" if total.contributors else ""
        return f"{literal.function} of {values} = {_word(total.value)}{first}"

    def absent(self, literal: ir.Without) -> str:
        """Format a negation that holds: the pattern that nothing matched."""
        match literal.body:
            case (ir.Match(relation, (argument,)),) if self._messages.program.relations[relation].generated == "in":
                return f"{self.operand(argument)} not in [{self._messages.members(relation)}]"
        words = ", ".join(self._literals(literal.body))
        return f"no {words}" if any(isinstance(inner, ir.Match) for inner in literal.body) else f"not ({words})"

    def _literals(self, body: Sequence[ir.CheckedLiteral]) -> list[str]:
        """Format literals; a function stands where its result is used, if that has no name."""
        shown: list[str] = []
        for literal in body:
            match literal:
                case ir.Call(_, _, (ir.Var("") as result,)) if result not in self._binding:
                    self._functions[result] = self._call(literal)
                case _:
                    shown.append(self.literal(literal))
        return shown

    def literal(self, literal: ir.CheckedLiteral) -> str:
        match literal:
            case ir.Match(relation, arguments):
                return self._pattern(relation, arguments)
            case ir.Without(body):
                return f"not ({', '.join(self._literals(body))})"
            case ir.Fold(function, terms, body, target):
                literals = ", ".join(self._literals(body))
                inner = f"{', '.join(map(self.operand, terms))} : {literals}"
                return f"{self.operand(target)} = {function}{{ {inner} }}"
            case ir.Compare(comparator, left, right):
                return f" {comparator} ".join(self._mask_operands(literal, (left, right)))
            case ir.Call():
                given = "".join(f" = {word}" for word in self._mask_operands(literal, literal.outputs) if word != "_")
                return f"{self._call(literal)}{given}"

    def _call(self, call: ir.Call) -> str:
        words = self._mask_operands(call, call.inputs)
        if call.builtin == INTERPOLATE:
            return "".join(words[call.inputs[0] == ir.Const("") :])
        if not call.builtin[0].isalpha():
            return f"{words[0]} {call.builtin} {words[1]}"
        return f"{call.builtin.partition('.')[0]}({', '.join(words)})"

    def operand(self, term: ir.Pattern) -> str:
        match term:
            case ir.Var():
                if term in self._secret and term in self._binding:
                    return MASK
                shown = self._functions.get(term, term.name or "_")
                return _word(self._binding[term]) if term in self._binding else shown
            case ir.Const(value):
                return _word(value)
        return "_"

    def check(self, literal: ir.Compare | ir.Call) -> str:
        """Format a check; empty for one that only renames a value, for an unused default, and for what the value of a
        function or f-text says."""
        match literal:
            case ir.Compare("=", ir.Var(name) as left, right) if literal.left not in self._secret:
                generated = left.generated or (isinstance(right, ir.Var) and right.generated)
                if self._binding[left] == (self._binding[right] if isinstance(right, ir.Var) else right.value):
                    return "" if generated else f"{name} = {self.operand(left)}"
            case ir.Call("??", (ir.Var() as left, _)) if self._binding[left] is not None:
                return ""
            case ir.Call(name) if name == INTERPOLATE or name.endswith(".found"):
                return ""
        return self.literal(literal)

    def _mask_operands(self, literal: ir.Compare | ir.Call, operands: Sequence[ir.Pattern]) -> list[str]:
        """Format operands; all are masked if the literal reveals a secret."""
        secret = any(variable in self._secret for variable in variables(literal))
        return [MASK if secret and term is not None else self.operand(term) for term in operands]

    def _pattern(self, relation: RelationRef, arguments: Sequence[ir.Pattern]) -> str:
        described, name = self._messages.program.relations[relation], certain_version(relation)
        if described.generated == "in":
            return f"{self.operand(arguments[0])} in [{self._messages.members(relation)}]"
        words = [
            MASK
            if isinstance(term, ir.Const) and self._messages.secrets.may_be_hidden(name, at)
            else self.operand(term)
            for at, term in enumerate(arguments)
        ]
        if described.named_only:
            columns = zip(described.columns, arguments, words, strict=True)
            words = [f"{column.name}={word}" for column, term, word in columns if term is not None]
        return f"{self._messages.name(name)}({', '.join(words)})"


def _word(value: Value) -> str:
    return shorten(show(value) or '""', LONGEST_VALUE)
