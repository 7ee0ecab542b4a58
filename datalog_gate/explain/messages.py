"""The wording of rows and literals, secrets covered, long values cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lower import variables
from datalog_gate.base.diagnostics import shorten
from datalog_gate.base.secrecy import MASK
from datalog_gate.base.values import Value, row_key, show
from datalog_gate.decision.secrets import Secrets
from datalog_gate.engine.assignments import Binding
from datalog_gate.engine.least_model import Model
from datalog_gate.explain.why import FIRST, Node, Total
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import RelationRef, certain_version, whole_version
from datalog_gate.schema.relations import FIXED

LONGEST = 60
"""How many characters of a value are shown."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Words rows of one model."""

    program: ir.CheckedProgram
    model: Model
    secrets: Secrets

    def row(self, node: Node) -> str:
        """Format a row: of a resource type's relation the key, and what is read if it is little; of others all."""
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
        """Format the name of a relation as its own file has it; of the catalogue the whole name."""
        described = self.program.relations[relation]
        if described.generated:
            return described.generated
        name = str(whole_version(relation))
        known = name in FIXED or described.named_only or cloud.relation(name)
        return name if known else name.rpartition(":")[2]

    def members(self, relation: RelationRef) -> str:
        rows = sorted(self.model.rows(relation), key=row_key)
        return ", ".join([*(_word(row[0]) for row in rows[:FIRST]), *["..."] * (len(rows) > FIRST)])


class RuleMessages:
    """Words the literals of one rule, with the values of its variables."""

    def __init__(self, messages: Messages, rule: ir.CheckedRule, binding: Binding) -> None:
        self._messages, self._binding = messages, binding
        self._secret = messages.secrets.values(rule, binding)

    def total(self, total: Total) -> str:
        """Format an aggregate with its first contributors."""
        literal = total.literal
        if literal.target in self._secret:
            return f"{literal.function} of {MASK} = {MASK}"
        listed = [*map(_word, total.first), *["..."] * (total.contributors > len(total.first))]
        if any(term in self._secret for term in literal.terms):
            listed = [MASK]
        values = f"{total.contributors} value{'' if total.contributors == 1 else 's'}"
        first = f": {', '.join(listed)}" if total.contributors else ""
        return f"{literal.function} of {values} = {_word(total.value)}{first}"

    def absent(self, literal: ir.Without) -> str:
        """Format a negation that holds: what nothing matched."""
        match literal.body:
            case (ir.Match(relation, (argument,)),) if self._messages.program.relations[relation].generated == "in":
                return f"{self.operand(argument)} not in [{self._messages.members(relation)}]"
        words = ", ".join(map(self.literal, literal.body))
        return f"no {words}" if any(isinstance(inner, ir.Match) for inner in literal.body) else f"not ({words})"

    def literal(self, literal: ir.CheckedLiteral) -> str:
        match literal:
            case ir.Match(relation, arguments):
                return self._pattern(relation, arguments)
            case ir.Without(body):
                return f"not ({', '.join(map(self.literal, body))})"
            case ir.Fold(function, terms, body, target):
                inner = f"{', '.join(map(self.operand, terms))} : {', '.join(map(self.literal, body))}"
                return f"{self.operand(target)} = {function}{{ {inner} }}"
            case ir.Compare(comparator, left, right):
                return f" {comparator} ".join(self._covered(literal, (left, right)))
            case ir.Call(name, inputs, outputs):
                words = self._covered(literal, inputs)
                given = "".join(f" = {word}" for word in self._covered(literal, outputs) if word != "_")
                if not name[0].isalpha():
                    return f"{words[0]} {name} {words[1]}{given}"
                return f"{name}({', '.join(words)}){given}"

    def operand(self, term: ir.Pattern) -> str:
        match term:
            case ir.Var():
                if term in self._secret and term in self._binding:
                    return MASK
                return _word(self._binding[term]) if term in self._binding else term.name or "_"
            case ir.Const(value):
                return _word(value)
        return "_"

    def check(self, literal: ir.Compare | ir.Call) -> str:
        """Format a check; empty for one that only gives a value another name, or a default that was not needed."""
        match literal:
            case ir.Compare("=", ir.Var(name) as left, right) if literal.left not in self._secret:
                generated = left.generated or (isinstance(right, ir.Var) and right.generated)
                if self._binding[left] == (self._binding[right] if isinstance(right, ir.Var) else right.value):
                    return "" if generated else f"{name} = {self.operand(left)}"
            case ir.Call("??", (ir.Var() as left, _)) if self._binding[left] is not None:
                return ""
        return self.literal(literal)

    def _covered(self, literal: ir.Compare | ir.Call, operands: Sequence[ir.Pattern]) -> list[str]:
        """Format operands; all are covered if the literal reveals something of a secret."""
        secret = any(variable in self._secret for variable in variables(literal))
        return [MASK if secret and term is not None else self.operand(term) for term in operands]

    def _pattern(self, relation: RelationRef, arguments: Sequence[ir.Pattern]) -> str:
        described, name = self._messages.program.relations[relation], certain_version(relation)
        if described.generated == "in":
            return f"{self.operand(arguments[0])} in [{self._messages.members(relation)}]"
        words = [
            MASK if isinstance(term, ir.Const) and self._messages.secrets.guarded(name, at) else self.operand(term)
            for at, term in enumerate(arguments)
        ]
        if described.named_only:
            columns = zip(described.columns, arguments, words, strict=True)
            words = [f"{column.name}={word}" for column, term, word in columns if term is not None]
        return f"{self._messages.name(name)}({', '.join(words)})"


def _word(value: Value) -> str:
    return shorten(show(value), LONGEST)
