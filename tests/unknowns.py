"""Check certain and possible versions of programs against all outcomes.

The programs are generated; the case analysis of few unknowns is checked too.

python -m tests.unknowns COUNT [SEED]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import combinations, product
from random import Random
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.analysis.slices import slice_for
from datalog_gate.analysis.unknowns import possible, split
from datalog_gate.base.values import FALSE, TRUE, Bounds, Kind, Row, Unknown, Value, kind_of, row_key, show
from datalog_gate.decision.case_analysis import CaseOutcome, Unsettled, find_branches
from datalog_gate.decision.causes import merge
from datalog_gate.decision.decision import Violation
from datalog_gate.decision.dependence import VERBS, Dependence, MergedCase, merge_cases
from datalog_gate.decision.findings import find_deciding_unknowns, find_support
from datalog_gate.engine.intervals import kinds_of
from datalog_gate.engine.least_model import Model
from datalog_gate.engine.native import evaluate
from datalog_gate.engine.provenance import Provenance
from datalog_gate.facts.factset import FactSet
from datalog_gate.schema.declaration import RelationRef, certain_version
from tests.differential import drawn
from tests.expressions import worded
from tests.programs import Choose, Facts, Vocabulary, draw_facts, draw_program, short_budget, written

INPUTS = {"e": 2, "f": 2, "n": 1}
FRESH: Value = 7
"""A value that neither the rules nor the facts name."""
QUIET = (
    Vocabulary((0, 1, 2), ("=", "!=", "<", ">="), ("??", "+", "-", "*"), ("count", "sum", "min", "max", "avg"), INPUTS),
    Vocabulary((None, 0, 1), ("=", "!="), ("??",), ("count", "list"), INPUTS),
)
"""What generated programs speak of: nothing in them fails. An unknown is never null: it would not equal itself."""
U = worded("u", kinds=Kind.NUMBER)
V = worded("v", kinds=Kind.NUMBER, bounds=Bounds(1, 2), domain=(1, 2))
W = worded("w", kinds=Kind.NUMBER, bounds=Bounds(0, 4), domain=(0, 1, 2, 3, 4))
C, D = (worded(name, kinds=Kind.BOOLEAN, domain=(FALSE, TRUE)) for name in ("c", "d"))
NUMBERS: tuple[Value, ...] = (0, 1, 2, FRESH, -1)
MEANINGS: dict[Unknown, tuple[Value, ...]] = {U: NUMBERS, V: V.domain, W: W.domain, C: C.domain, D: D.domain}
EXTENT = worded("extent")
"""What decides on the rows that a wildcard stands for."""
PAIRS = 10
"""For how many pairs of rows a wildcard is tried."""
MOST = 192
"""How many outcomes a program has at most."""
REACHED = "reached by unknowns"
REWRITTEN, TRIED = "undetermined by rewriting alone", "undetermined after trying"
NEEDLESS = "without need"
"""What is counted: relations that unknowns reach, those of them that neither certainly hold nor certainly don't, and of
these those that do the same in all outcomes."""
Meaning = Mapping[Unknown, Value]
Outcome = tuple[Meaning, Facts]


@dataclass(frozen=True)
class Case:
    """A program, its facts, which of them are there only under a condition, and the wildcards among these, which stand
    for any number of rows, with those that they are tried for."""

    program: CheckedProgram
    facts: Facts
    conditions: Mapping[tuple[RelationRef, Row], Unknown] = field(default_factory=dict)
    open: Mapping[tuple[RelationRef, Row], Sequence[Sequence[Row]]] = field(default_factory=dict)

    def factset(self, meaning: Meaning = MappingProxyType({})) -> FactSet:
        """The facts for these values of unknowns, with the condition of each."""
        facts = FactSet()
        reasons = {**dict.fromkeys(self.open, EXTENT), **self.conditions}
        for name, rows in self.facts.items():
            for row in rows:
                reason = reasons.get((name, row))
                truth = meaning.get(reason, reason) if reason else TRUE
                if truth != FALSE:
                    facts.add(name, _known(row, meaning), maybe=truth if isinstance(truth, Unknown) else None)
        return facts

    def under(self, meaning: Meaning) -> Case:
        """The case for these values of unknowns."""
        factset = self.factset(meaning)
        reasons = {(name, row): reason for name, rows in factset.maybe.items() for row, reason in rows.items()}
        conditions = {key: reason for key, reason in reasons.items() if key not in self.open}
        return replace(
            self, facts={name: list(factset.rows.get(name, ())) for name in self.facts}, conditions=conditions
        )

    def maybe(self) -> Facts:
        """The rows that are there under a condition."""
        unsure = self.conditions.keys() | self.open.keys()
        return {name: [row for row in rows if (name, row) in unsure] for name, rows in self.facts.items()}


@dataclass(frozen=True)
class Judged:
    """A wrong answer, if any, and how many relations there are of each outcome."""

    wrong: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)


def main(number: int, seed: int) -> None:
    """Judge a number of programs, drawn by the seed, and print how often each outcome was. The smallest case that is
    judged wrong is an error."""
    tally: Counter[str] = Counter()

    @drawn(number, seed)
    @given(st.randoms(use_true_random=False))
    def judge(random: Random) -> None:
        case = draw(random.randrange)
        judgement = judged(case) if case else None
        if case is None or judgement is None:
            tally["programs left out: too long" if case else "programs refused by the analysis"] += 1
            return
        assert not judgement.wrong, format_failure(case, judgement.wrong)
        tally["programs judged"] += 1
        tally.update(judgement.tally)

    judge()
    for outcome, times in sorted(tally.items()):
        print(f"{times:9} {outcome}")
    for method in (REWRITTEN, TRIED):
        of_all = needless(tally, method, REACHED)
        print(
            f"{needless(tally, method):9.1%} of what is {method} is so {NEEDLESS}: {of_all:.1%} of what unknowns reach"
        )


def needless(tally: Mapping[str, int], method: str, among: str = "") -> float:
    """The share of the relations that are undetermined so though all outcomes agree, among these or others."""
    return tally.get(f"{method}, {NEEDLESS}", 0) / max(1, tally.get(among or method, 0))


def format_failure(case: Case, wrong: str) -> str:
    return f"{written(case.program, case.facts)}\nmaybe: {case.conditions}\nopen: {case.open}\n{wrong}"


def draw(choose: Choose) -> Case | None:
    """Draw a program with facts that are partly unknown; None if the analysis refuses it."""
    words = QUIET[choose(3) == 0]
    program = draw_program(choose, words)
    if program is None:
        return None
    pool = ((U,), (V,), (W,), (U, V), (U, U, V))[choose(5)]
    facts = {name: list(dict.fromkeys(rows)) for name, rows in draw_facts(choose, words, pool).items()}
    size = _outcomes_of(facts)
    open_: dict[tuple[RelationRef, Row], Sequence[Sequence[Row]]] = {}
    if choose(2):
        name = ("e", "f", "n")[choose(3)]
        row, extents = _wildcard(name, INPUTS[name], choose)
        if size * len(extents) <= MOST:
            open_[name, row] = extents
            facts[name].append(row)
            size *= len(extents)
    conditions: dict[tuple[RelationRef, Row], Unknown] = {}
    candidates = [(name, row) for name, rows in facts.items() for row in rows if (name, row) not in open_]
    for condition in (C, D)[: choose(3)]:
        if 2 * size <= MOST and candidates:
            conditions |= {candidates[choose(len(candidates))]: condition for _ in range(1 + choose(2))}
            size *= 2
    return Case(program, facts, conditions, open_)


def _outcomes_of(facts: Facts) -> int:
    size = 1
    for unknown in _unknowns(facts):
        size *= len(MEANINGS[unknown])
    return size


def _unknowns(facts: Facts) -> list[Unknown]:
    """Those with one meaning each."""
    values = {value for rows in facts.values() for row in rows for value in row if value in MEANINGS}
    return [meaning for meaning in MEANINGS if meaning in values]


def _wildcard(name: str, arity: int, choose: Choose) -> tuple[Row, Sequence[Sequence[Row]]]:
    """A row that stands for any number of rows, and what it is tried for: none, each one of these numbers, some two."""
    known: Row = (choose(3),) if arity > 1 and choose(3) else ()
    rest = [
        worded(f"any {at} of {name} in {known}", several=True, kinds=Kind.NUMBER) for at in range(len(known), arity)
    ]
    rows = [(*known, *row) for row in product(NUMBERS, repeat=len(rest))]
    pairs = list(combinations(rows, 2))
    some = pairs if len(pairs) <= PAIRS else [pairs[choose(len(pairs))] for _ in range(PAIRS)]
    return (*known, *rest), [(), *((row,) for row in rows), *some]


def outcomes(case: Case) -> Iterator[Outcome]:
    """Yield every possible outcome: the values of the unknowns, and the facts then."""
    unknowns = [*_unknowns(case.facts), *sorted(set(case.conditions.values()), key=lambda unknown: unknown.expression)]
    open_rows = [(name, row) for name, row in case.open if row in case.facts[name]]
    for values in product(*(MEANINGS[unknown] for unknown in unknowns)):
        meaning = dict(zip(unknowns, values, strict=True))
        known = case.under(meaning).facts
        for row_sets in product(*(case.open[key] for key in open_rows)):
            facts = {name: [row for row in rows if (name, row) not in open_rows] for name, rows in known.items()}
            for (name, _), rows in zip(open_rows, row_sets, strict=True):
                facts[name] += rows
            yield meaning, facts


@dataclass(frozen=True)
class Versions:
    """The certain and the possible versions of a case."""

    case: Case
    program: CheckedProgram
    model: Model

    @staticmethod
    def of(case: Case, wanted: RelationRef = "") -> Versions:
        """Evaluate the versions of all relations, or of those that a relation depends on."""
        plain = slice_for(case.program, frozenset({wanted})) if wanted else case.program
        program = divided(plain, case.facts, case.maybe())
        return Versions(case, program, evaluate(program, filled(program, case.facts, case.maybe()), short_budget()))

    def rows(self, relation: RelationRef) -> tuple[Collection[Row], Collection[Row]]:
        """The certain rows, and the possible ones."""
        return self.model.rows(relation), self.model.rows(possible(relation, self.program))

    def because(self, relation: RelationRef) -> tuple[Unknown, ...]:
        """The unknowns that decide on the first row."""
        first = min(self.rows(relation)[1], key=row_key)
        tree = find_support(Provenance(self.program, self.model), possible(relation, self.program), first)
        rests_on = {
            name for stratum in slice_for(self.case.program, frozenset({relation})).strata for name in stratum.relations
        }
        return find_deciding_unknowns(None, tree.leaves, self.case.factset(), rests_on, self.case.program)


def settled(case: Case, relation: RelationRef, because: Sequence[Unknown]) -> list[tuple[Meaning, bool]]:
    """Yield whether an undetermined relation has rows, in each branch of the values that decide it, as the gate tries
    them; nothing if they can't be tried."""
    try:
        return list(find_branches(because, partial(_looked, case, relation)))
    except Unsettled:
        return []


def _looked(
    case: Case, relation: RelationRef, meanings: Sequence[Meaning]
) -> Iterator[CaseOutcome[tuple[Meaning, bool]]]:
    for meaning in meanings:
        versions = Versions.of(case.under(meaning), relation)
        if versions.model.exceeded:
            raise Unsettled
        certain, loose = versions.rows(relation)
        yield (meaning, bool(certain)), None if certain or not loose else versions.because(relation)


def judged(case: Case) -> Judged | None:
    """Compare the versions and the case analysis with every outcome; None if it takes too long."""
    versions = Versions.of(case)
    if versions.model.exceeded:
        return None
    if versions.model.errors:
        return Judged(f"errors: {versions.model.errors}")
    relations = [name for stratum in case.program.strata for name in stratum.relations]
    by_relation: dict[RelationRef, list[tuple[Meaning, bool]]] = {relation: [] for relation in relations}
    for stands, facts in outcomes(case):
        world = evaluate(case.program, facts, short_budget())
        if world.exceeded:
            return None
        for relation in relations:
            rows = world.rows(relation)
            by_relation[relation].append((stands, bool(rows)))
            if wrong := _wrong(rows, *versions.rows(relation), stands):
                return Judged(f"{relation}: {wrong}, if {stands} and {facts}")
    tally: Counter[str] = Counter(outcomes=len(by_relation[relations[0]]))
    findings: list[Violation] = []
    for relation in relations:
        certain, loose = versions.rows(relation)
        reached = possible(relation, versions.program) != relation
        tally[REACHED if reached else "reached by no unknown"] += 1
        if certain or not loose:
            continue
        actual = {holds for _, holds in by_relation[relation]}
        ends = settled(case, relation, versions.because(relation))
        settled_truths = {holds for _, holds in ends}
        for meaning, holds in ends:
            if any(holds != other for stands, other in by_relation[relation] if meaning.items() <= stands.items()):
                return Judged(f"{relation}: {'some' if holds else 'no'} rows, if {meaning}")
        if ends and settled_truths != actual:
            return Judged(f"{relation}: not all was tried")
        tally["tried"] += bool(ends)
        if len(settled_truths) != 1:
            held = merge_cases([meaning for meaning, holds in ends if holds])
            findings.append(_finding(relation, versions.because(relation), held))
        for method in (REWRITTEN, TRIED) if len(settled_truths) != 1 else (REWRITTEN,):
            tally[method] += 1
            tally[f"{method}, {NEEDLESS}"] += len(actual) == 1
    for finding, _ in merge(findings, (), ()):
        tally["policies of merged findings"] += len(finding.policies) * bool(finding.also)
        if len({tuple(holds for _, holds in by_relation[relation]) for relation in finding.policies}) > 1:
            return Judged(f"{finding.policies}: {finding.full_message}, but they hold in different outcomes")
        for relation in finding.policies:
            for meaning, holds in by_relation[relation]:
                if holds != _claimed(finding.depends, meaning, holds):
                    return Judged(f"{relation}: {finding.full_message}, but {holds} if {meaning}")
    return Judged("", tally)


def _finding(relation: RelationRef, because: tuple[Unknown, ...], held: Sequence[MergedCase]) -> Violation:
    """The finding that says that the relation has rows in these cases, or depends on unknowns."""
    words = Dependence(()).format_unknowns(because)
    if held:
        because, words = Dependence(()).format_cases("deny", held)
    cases = frozenset(frozenset(case.items()) for case in held)
    return Violation(
        str(relation), "deny", "enforce", "x", "", str(relation), (), None, None, because, depends=words, cases=cases
    )


def _claimed(words: str, meaning: Meaning, unsaid: bool) -> bool:
    """Whether the words of a finding claim that it holds for these values; `unsaid` if they don't say all cases."""
    start = f"{VERBS['deny']} if "
    if not words.startswith(start) or " more" in words:
        return unsaid
    known = {unknown.expression: show(value) for unknown, value in meaning.items()}
    clauses = [clause.split(" and ") for clause in words.removeprefix(start).split("; or if ")]
    return any(
        all(known[name] in values.split(" or ") for name, _, values in (part.partition(" is ") for part in clause))
        for clause in clauses
    )


def _wrong(rows: Collection[Row], certain: Collection[Row], loose: Collection[Row], meaning: Meaning) -> str:
    """Describe what is wrong with the versions of a relation that has these rows in an outcome."""
    for row in certain:
        known = _known(row, meaning)
        if known not in rows and not any(_covers(known, other) for other in rows):
            return f"{row} is not there"
    filled_in = {_known(row, meaning) for row in loose}
    for row in rows:
        if row not in filled_in and not any(_covers(known, row) for known in filled_in):
            return f"{row} is not possible"
    return ""


def _known(row: Row, meaning: Meaning) -> Row:
    return tuple([meaning.get(value, value) if isinstance(value, Unknown) else value for value in row])


def _covers(row: Row, actual: Row) -> bool:
    """Whether the row, with unknown computed values, matches the actual one."""
    return all(
        value == other or (isinstance(value, Unknown) and within(value, other))
        for value, other in zip(row, actual, strict=True)
    )


def within(unknown: Unknown, value: Value) -> bool:
    """Whether an unknown may be the value."""
    if not kind_of(value) & kinds_of(unknown):
        return False
    low, high = unknown.bounds
    return not isinstance(value, int | Decimal) or low <= value <= high


def divided(plain: CheckedProgram, facts: Facts, maybe: Facts, certain_only: Collection[str] = ()) -> CheckedProgram:
    """Split the program for these rows; `maybe` rows are among the facts."""
    columns = {
        name: frozenset(at for row in rows for at, value in enumerate(row) if isinstance(value, Unknown))
        for name, rows in facts.items()
    }
    return split(plain, columns, {name for name, rows in maybe.items() if rows}, certain_only)


def filled(finished: CheckedProgram, facts: Facts, maybe: Facts) -> Facts:
    """The rows of the inputs: all for a possible version, the certain ones for a certain version."""
    return {
        name: [row for row in facts.get(certain_version(name), ()) if row not in maybe.get(name, ())]
        for name in finished.inputs
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
