"""The explanation of a decision, in lines for people.

Each line has its place in the user's own files or in the rules. Secrets are covered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Literal as OneOf

from datalog_gate.analysis.program import Call, Compare, Fold, Match, Without
from datalog_gate.base.diagnostics import Span, shorten
from datalog_gate.base.values import Kind, ResourceId, Value, from_python
from datalog_gate.decision.decision import Violation
from datalog_gate.decision.judgement import Judgement
from datalog_gate.engine.least_model import ModelError
from datalog_gate.engine.provenance import Fact
from datalog_gate.explain.fix import Fixes
from datalog_gate.explain.messages import Messages, RuleMessages
from datalog_gate.explain.why import Failure, Node, Total, Why
from datalog_gate.facts.factset import place_of
from datalog_gate.schema.declaration import RelationRef, certain_version, given_version, parse_reference, whole_version

BYTES = 1700
"""The most bytes of the steps of one finding, as text or as JSON: 2 kB with what stands around them."""
LONGEST = 160
"""The most characters of a line, without its place."""
JOINED = 90
"""The most characters of a line that joins several checks."""
WIDTH = 72
"""The widest text before the column of places."""
LineKind = OneOf["row", "absent", "aggregate", "holds", "fails", "fix"]


@dataclass(frozen=True, slots=True)
class ExplanationLine:
    """A step of an explanation. A row depends on the deeper ones after it."""

    depth: int
    """How deep below the finding it stands."""
    word: LineKind
    text: str
    place: Span | None

    def to_json(self) -> dict[str, object]:
        place = self.place.to_json() if self.place else None
        return {"depth": self.depth, "step": self.word, "text": self.text, "place": place}

    @property
    def where(self) -> str:
        return f"{self.place.file}:{self.place.line}" if self.place else ""


@dataclass(frozen=True, slots=True)
class FindingExplanation:
    """Why a finding holds, and a change under which it does not, if one was found."""

    lines: tuple[ExplanationLine, ...]
    fix: ExplanationLine | None

    def to_json(self) -> dict[str, object]:
        """As JSON data: the steps, as many as have room, how many more there are, and the fix."""
        steps = [line.to_json() for line in self.lines]
        shown = within(BYTES, [json.dumps(step, ensure_ascii=False) for step in steps])
        return {"steps": steps[:shown], "more": len(steps) - shown, "fix": self.fix and self.fix.text}


class Explanation:
    """The explanation of one decision: of its findings, and of rows that do not hold. Nothing is computed before it is
    asked for, and nothing twice."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement
        reader = judgement.reader
        self._facts, self._program = reader.evaluation.facts, reader.evaluation.program
        self._why = Why(reader.provenance)
        self._messages = Messages(self._program, reader.evaluation.model, reader.secrets)
        self._evidence = judgement.evidence()
        self._fixes = Fixes(judgement)
        self._explained: dict[Violation, FindingExplanation] = {}

    def of(self, violation: Violation) -> FindingExplanation:
        """Why a finding of this decision holds, and what to change."""
        if violation not in self._explained:
            tree = self._why.why(*self._evidence[violation])
            change = None if violation.waiver else self._fixes.find(violation, tree)
            fix = _line(0, "fix", change.text, change.place) if change else None
            self._explained[violation] = FindingExplanation(self._lines(tree), fix)
        return self._explained[violation]

    def why(self, violation: Violation) -> tuple[ExplanationLine, ...]:
        return self._lines(self._why.why(*self._evidence[violation]))

    def why_not(self, relation: RelationRef, row: Sequence[object]) -> tuple[ExplanationLine, ...]:
        """Why no row like this one holds: for each rule, by place, the literal at which it fails. `row` is plain data,
        a resource as its path, `...` for anything. Nothing if there is such a row.

        Errors: KeyError for a relation that no rule derives, ValueError for a row of another width, EngineError if it
        takes too long."""
        program = self._program
        relation = parse_reference(relation)
        if not any(relation in stratum.relations for stratum in program.strata):
            raise KeyError(relation)
        columns = program.relations[relation].columns
        if len(row) != len(columns):
            raise ValueError(f"{relation} has {len(columns)} columns, here {len(row)}")
        stacks = [stack for root in self.judgement.reader.stacks for stack in root.walk()]
        paths = {resource.id.path for stack in stacks for resource in stack.resources}
        wanted = tuple(_wanted(value, column.kinds, paths) for value, column in zip(row, columns, strict=True))
        return tuple(self._failure(failure) for failure in self._why.why_not(relation, wanted) or ())

    def clean(self) -> dict[str, dict[str, int]]:
        """By id of each policy without a finding or error, how many rows each relation of facts has that it reads."""
        decision, program = self.judgement.decision, self._program
        violations = (*decision.violations, *decision.undetermined, *decision.waived)
        unclean = {violation.policy for violation in violations} | {error.policy for error in decision.errors}
        return {
            policy.id: {
                str(whole_version(relation)): len(self._facts.rows.get(relation, ()))
                for relation in sorted(self.judgement.reader.rules.reads[policy.relation] & program.inputs, key=str)
                if not program.relations[relation].generated
            }
            for policy in sorted(self.judgement.policies, key=lambda policy: policy.id)
            if policy.id not in unclean
        }

    def _lines(self, tree: Node) -> tuple[ExplanationLine, ...]:
        if tree.rule is None:
            return (ExplanationLine(0, "holds", "it would take too long to tell why", None),)
        lines: list[ExplanationLine] = []
        self._below(tree, 0, lines, set())
        return tuple(lines) or (ExplanationLine(0, "holds", "the rule has no conditions", tree.rule.span),)

    def _below(self, node: Node, depth: int, lines: list[ExplanationLine], seen: set[Fact]) -> None:
        """The premises of a row: rows, then what else holds, with as many checks on a line as have room."""
        assert node.rule
        messages = RuleMessages(self._messages, node.rule, node.binding)
        for premise in node.premises:
            match premise:
                case Node():
                    self._row(premise, depth, lines, seen)
                case Compare() | Call():
                    if text := messages.check(premise):
                        last = lines[-1] if lines else None
                        joins = last and (last.word, last.depth) == ("holds", depth)
                        if last and joins and len(last.text) + len(text) < JOINED:
                            lines[-1] = replace(last, text=f"{last.text}, {text}")
                        else:
                            lines.append(_line(depth, "holds", text, premise.span))
                case Without():
                    lines.append(_line(depth, "absent", messages.absent(premise), premise.span))
                case Total():
                    lines.append(_line(depth, "aggregate", messages.total(premise), premise.literal.span))

    def _row(self, node: Node, depth: int, lines: list[ExplanationLine], seen: set[Fact]) -> None:
        while len(node.premises) == 1 and isinstance(only := node.premises[0], Node):
            if certain_version(only.relation) != given_version(certain_version(node.relation)):
                break
            node = only
        text = self._messages.row(node)
        if self._program.relations[node.relation].generated == "in":
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

    def _place(self, node: Node) -> Span | None:
        """Where a fact was written: if its literal reads one value of it, that one."""
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

    def _failure(self, failure: Failure) -> ExplanationLine:
        messages = RuleMessages(self._messages, failure.rule, failure.binding)
        place = failure.literal.span if failure.literal else failure.rule.span
        if failure.error:
            error = ModelError(failure.rule.relation, failure.error.span, failure.error.message, ())
            return _line(0, "fails", self._messages.secrets.message(error), place)
        match failure.literal:
            case None:
                text = "the rule gives no such row"
            case Match():
                text = f"there is no {messages.literal(failure.literal)}"
            case Without(body):
                text = f"there is {', '.join(map(messages.literal, body))}"
            case Fold(target=target):
                assert failure.total
                text = f"{messages.total(failure.total)}, not {messages.operand(target)}"
            case _:
                text = f"not {messages.literal(failure.literal)}"
        return _line(0, "fails", text, place)


def within(limit: int, texts: Sequence[str]) -> int:
    """How many of the texts have room together."""
    size = 0
    for at, line in enumerate(texts):
        size += len(line.encode("utf-8", "surrogatepass")) + 2
        if size > limit:
            return at
    return len(texts)


def format_lines(steps: Sequence[ExplanationLine], heading: str = "why") -> Iterator[str]:
    """Format lines below each other under a heading, their places in a column, as many as have room."""
    texts = [f"{'  ' * step.depth}{step.text}" for step in steps]
    width = min(WIDTH, max(map(len, texts), default=0))
    lines = [f"{text:{width}}   {line.where}".rstrip() for text, line in zip(texts, steps, strict=True)]
    shown = within(BYTES, [f"        {line}" for line in lines])
    for at, line in enumerate(lines[:shown]):
        yield f"  {'' if at else heading:6}{line}"
    if more := len(lines) - shown:
        yield f"        and {more} more"


def _wanted(value: object, kinds: Kind, paths: Set[str]) -> Value | EllipsisType:
    if isinstance(value, EllipsisType):
        return value
    named = isinstance(value, str) and (kinds == Kind.RESOURCE or (value in paths and kinds & Kind.RESOURCE))
    return ResourceId(str(value)) if named else from_python(value)


def _line(depth: int, word: LineKind, text: str, place: Span | None) -> ExplanationLine:
    return ExplanationLine(depth, word, shorten(text, LONGEST), place)
