"""Parts of rules that an example shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from datalog_gate.analysis.program import (
    NEGATED,
    SHIFTED,
    Call,
    CheckedLiteral,
    CheckedRule,
    Compare,
    Const,
    Fold,
    Match,
    Operand,
    Var,
    Without,
    all_literals,
    renamed,
    variables,
)
from datalog_gate.base.diagnostics import Span, shorten
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import show
from datalog_gate.examples.valuation import STACKS
from datalog_gate.schema.declaration import Relation, RelationRef

LONGEST = 80
"""The maximum number of characters of a condition that are shown."""
MOST_WAYS = 4
"""The maximum number of ways in which other rules are made false."""
Rules = Mapping[int, CheckedRule]
"""Rules by their number in the program."""


@dataclass(frozen=True, slots=True)
class Aim:
    """A part of a rule that an example shows: without the part, the gate judges the example otherwise."""

    rule: Span
    """The rule that the part is of."""
    text: str
    span: Span
    denies: bool
    """Whether the example is denied, and passes without the part; else it passes, and is stopped without the part."""
    without: Rules
    """The rules without the part."""
    goals: Rules
    """Rules of which one must be met. For a condition they say that it is false, and the others of the rule true."""
    through: Rules = field(default_factory=dict)
    """Rules that stand for others on the way to a goal: they need what a negation forbids."""
    false: tuple[CheckedLiteral, ...] = ()
    """For a condition: the literals that say that it is false, at the end of each goal."""
    alone: Rules = field(default_factory=dict)
    """For a condition: rules that say that it is false, and true what needs none of its variables."""

    @property
    def is_alone(self) -> bool:
        """Whether the aim is that the rules which say that a condition is false hold, and the example passes."""
        return self.without is self.goals


def list_branches(numbered: Rules, sources: Mapping[str, str]) -> list[Aim]:
    """The rules as they are written, then the alternatives of those with `or`."""
    written: dict[Span, dict[int, CheckedRule]] = {}
    for number, rule in numbered.items():
        written.setdefault(rule.span, {})[number] = rule
    alternatives = [{number: rule} for number, rule in numbered.items() if len(written[rule.span]) > 1]
    return [
        Aim(
            rule=rule.span,
            text=_quote(rule.span, sources),
            span=rule.span,
            denies=True,
            without={number: _never(rule) for number, rule in goals.items()},
            goals=goals,
        )
        for goals in (*written.values(), *alternatives)
        for rule in islice(goals.values(), 1)
    ]


def join_branches(branches: Sequence[Aim]) -> Aim:
    """All of the rules as one."""
    without = {number: rule for aim in branches for number, rule in aim.without.items()}
    goals = {number: rule for aim in branches for number, rule in aim.goals.items()}
    return replace(branches[0], without=without, goals=goals)


def list_conditions(
    numbered: Rules, relations: Mapping[RelationRef, Relation], sources: Mapping[str, str]
) -> list[Aim]:
    """The conditions that can be left out alone: the rest of their rule binds all variables. Alternatives share the
    conditions that are outside of `or`."""
    return _joined(
        condition
        for number, rule in numbered.items()
        for at, _ in enumerate(rule.body)
        for condition in _conditions(number, rule, at, relations, sources)
    )


def list_bounds(numbered: Rules, sources: Mapping[str, str]) -> list[Aim]:
    """The bounds of comparisons by order: an example at a bound is judged otherwise if the bound is included, or if it
    is not."""
    return _joined(
        bound
        for number, rule in numbered.items()
        for at, _ in enumerate(rule.body)
        for bound in _bounds(number, rule, at, sources)
    )


def list_inner(numbered: Rules, relations: Mapping[RelationRef, Relation], sources: Mapping[str, str]) -> list[Aim]:
    """The conditions and bounds inside of negations and aggregates. An example in which one of a negation is false is
    denied, and passes without it."""
    return _joined(
        aim
        for number, rule in numbered.items()
        for at, literal in enumerate(rule.body)
        if isinstance(literal, Without | Fold)
        for aim in _inner_conditions(number, rule, at, relations, sources)
    )


def show_below(aim: Aim, negation: Aim) -> Aim:
    """The aim of a rule, where its rows make a negation false."""
    return replace(aim, denies=not aim.denies, through=negation.goals)


def show_rule(condition: Aim, number: int, rule: CheckedRule) -> Aim:
    """What shows that a rule makes a condition false, a negation: without the rule, the case is denied."""
    return replace(condition, without={number: _never(rule)})


def contradict(rule: CheckedRule, rival: CheckedRule) -> Iterator[tuple[CheckedLiteral, ...]]:
    """The bodies of a rule, each with what makes a condition false that only the other rule has; then with what the
    other rule gives another column of the head."""
    rule, rival = _without_constants(rule), _without_constants(rival)
    names: dict[Var, Operand] = {}
    given: list[CheckedLiteral] = []
    for literal in rival.body:
        literal, known = renamed(literal, names), set(names.values())
        form = _without_names(literal, known)
        twin = next((other for other in rule.body if _without_names(other, known) == form), None)
        outputs = _list_outputs(literal)
        if twin:
            names |= dict(zip(_list_free(literal, known), _list_free(twin, known), strict=True))
        elif outputs:
            names |= {output: Var(output.name, f"{output.generated}'") for output in outputs}
            given.append(renamed(literal, names))
        else:
            if isinstance(literal, Match):
                yield from _change_columns(rule, literal)
            yield (*rule.body, *given, *negate(literal, rule.body))
    bound = {variable for literal in (*rule.body, *given) for variable in _binds(literal)}
    for term, other in zip(rule.arguments, renamed(rival.arguments, names), strict=False):
        if term != other and bound.issuperset(side for side in (term, other) if isinstance(side, Var)):
            yield (*rule.body, *given, Compare("!=", term, other, rival.span))


def contradict_all(rule: CheckedRule, rivals: Iterable[CheckedRule]) -> Iterator[tuple[CheckedLiteral, ...]]:
    """Bodies of a rule with what makes each of the other rules false that may hold with it. Rules that match rows which
    the rule does not are false as it is."""
    bodies = [rule.body]
    for rival in rivals:
        ways = [way for body in bodies for way in contradict(replace(rule, body=body), rival)]
        if not any(isinstance(way[-1], Without) and isinstance(way[-1].body[0], Match) for way in ways):
            bodies = ways[:MOST_WAYS] or bodies
    yield from bodies


def add_absent(rule: CheckedRule, own: CheckedRule, others: Iterable[CheckedRule]) -> CheckedRule:
    """The rule with the rows that others of its relation ask to be absent, so that these do not hold. `own` is the rule
    as it is written."""
    known = {variable for literal in rule.body for variable in _binds(literal)}
    present: list[CheckedLiteral] = []
    for other in [other for other in others if other is not own]:
        pairs = zip(other.arguments, rule.arguments, strict=True)
        names = {theirs: mine for theirs, mine in pairs if isinstance(theirs, Var)}
        for literal in renamed(other.body, names):
            if isinstance(literal, Without) and literal not in own.body and known.issuperset(variables(literal)):
                present += (match for match in literal.body if isinstance(match, Match) and match not in rule.body)
    return replace(rule, body=(*rule.body, *dict.fromkeys(present)))


def _without_constants(rule: CheckedRule) -> CheckedRule:
    """The rule in which calls and aggregates give variables, and comparisons say that these are constants."""
    body: list[CheckedLiteral] = []
    for at, literal in enumerate(rule.body):
        result = Var("", f"result{at}")
        match literal:
            case Call(outputs=(Const() as value,)):
                body += [replace(literal, outputs=(result,)), Compare("=", result, value, literal.span)]
            case Fold(target=Const() as value):
                body += [replace(literal, target=result), Compare("=", result, value, literal.span)]
            case _:
                body.append(literal)
    return replace(rule, body=tuple(body))


def _change_columns(rule: CheckedRule, rival: Match) -> Iterator[tuple[CheckedLiteral, ...]]:
    """The bodies of a rule, each with another value in a column that a match of another rule has."""
    for at, literal in enumerate(rule.body):
        if isinstance(literal, Match) and literal.relation == rival.relation:
            for column, term in rival.column_terms:
                if literal.arguments[column] is None:
                    value = Var("", f"other{column}")
                    match = replace(
                        literal, arguments=(*literal.arguments[:column], value, *literal.arguments[column + 1 :])
                    )
                    differs = Compare("!=", value, term, rival.span)
                    yield (*rule.body[:at], match, *rule.body[at + 1 :], differs)


def _list_outputs(literal: CheckedLiteral) -> list[Var]:
    """The variables that a call or an aggregate gives."""
    if isinstance(literal, Call):
        return [term for term in literal.outputs if isinstance(term, Var)]
    return [literal.target] if isinstance(literal, Fold) and isinstance(literal.target, Var) else []


def _without_names(literal: CheckedLiteral, known: Collection[Operand]) -> CheckedLiteral:
    """The literal with numbers for its outputs and for generated variables that are not known, so that it equals one of
    another program."""
    numbers = {variable: Var("", f"{at}") for at, variable in enumerate(_list_free(literal, known))}
    numbered: CheckedLiteral = renamed(literal, numbers)
    return numbered


def _list_free(literal: CheckedLiteral, known: Collection[Operand]) -> list[Var]:
    generated = [variable for variable in variables(literal) if variable.generated and variable not in known]
    return list(dict.fromkeys((*_list_outputs(literal), *generated)))


def list_texts(rule: CheckedRule) -> Iterator[str]:
    """The texts that the head and the calls of a rule are given."""
    calls = (literal.inputs for literal in all_literals(rule.body) if isinstance(literal, Call))
    terms = chain(rule.arguments, *calls)
    yield from (term.value for term in terms if isinstance(term, Const) and isinstance(term.value, str))


def quote(literal: CheckedLiteral, sources: Mapping[str, str]) -> str:
    """The literal as the author wrote it."""
    return _quote(literal.span, sources)


def _quote(span: Span, sources: Mapping[str, str]) -> str:
    lines = sources.get(span.file, "").splitlines()[span.line - 1 : span.end_line]
    if not lines:
        return ""
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return shorten(" ".join(" ".join(lines).split()), LONGEST)


def _conditions(
    number: int, rule: CheckedRule, at: int, relations: Mapping[RelationRef, Relation], sources: Mapping[str, str]
) -> Iterator[Aim]:
    yield from _column_conditions(number, rule, at, relations)
    yield from _literal_conditions(number, rule, at, quote(rule.body[at], sources))


def _column_conditions(
    number: int, rule: CheckedRule, at: int, relations: Mapping[RelationRef, Relation]
) -> Iterator[Aim]:
    """The conditions that a column of a literal, or of one in an aggregate, has a value, or is a stack of others."""
    literal, before, after = rule.body[at], rule.body[:at], rule.body[at + 1 :]
    joining = [other for other in before if isinstance(literal, Fold) or len(set(variables(other))) > 1]
    bound = {variable for other in joining for variable in _binds(other)}
    inner = literal.body if isinstance(literal, Fold) else (literal,)
    for place, match in enumerate(inner):
        for text, free, differs in _columns(match, bound, relations) if isinstance(match, Match) else ():
            body = (*inner[:place], free, *inner[place + 1 :])
            if isinstance(literal, Fold):
                dropped = replace(rule, body=(*before, replace(literal, body=body), *after))
                goal = replace(rule, body=(*before, replace(literal, body=(*body, differs)), *after))
                yield Aim(rule.span, text, match.span, False, {number: dropped}, {number: goal})
            else:
                yield _condition(number, rule, literal, text, (*before, *body, *after), (differs,))


def _columns(
    match: Match, bound: Collection[Operand], relations: Mapping[RelationRef, Relation]
) -> Iterator[tuple[str, Match, Compare]]:
    """The columns with a constant or a stack that is bound: the match with any value there, and that it is another."""
    columns = relations[match.relation].columns
    for at, term in match.column_terms:
        name = columns[at].name
        if isinstance(term, Const) or (name in STACKS and term in bound and len(match.column_terms) > 1):
            value = Var(name, "other")
            free = replace(match, arguments=(*match.arguments[:at], value, *match.arguments[at + 1 :]))
            text = show(term.value) if isinstance(term, Const) else term.name
            yield f"{name}={text}", free, Compare("!=", value, term, match.span)


def _literal_conditions(number: int, rule: CheckedRule, at: int, text: str) -> Iterator[Aim]:
    """The condition that is the whole literal, if it can be left out."""
    literal, others = rule.body[at], (*rule.body[:at], *rule.body[at + 1 :])
    if text and not isinstance(literal, Fold) and not _binding(literal, others):
        yield _condition(number, rule, literal, text, others, negate(literal, others))


def _inner_conditions(
    number: int, rule: CheckedRule, at: int, relations: Mapping[RelationRef, Relation], sources: Mapping[str, str]
) -> Iterator[Aim]:
    """The conditions and bounds of a negation or an aggregate, as if its body were written in that of the rule."""
    literal, before, after = rule.body[at], rule.body[:at], rule.body[at + 1 :]
    assert isinstance(literal, Without | Fold)
    others = (*before, *after)
    inner = _local(literal, others) if isinstance(literal, Without) else literal.body
    whole = replace(rule, body=(*others, *inner))
    for place in range(len(others), len(whole.body)):
        conditions = list(_literal_conditions(number, whole, place, quote(whole.body[place], sources)))
        if isinstance(literal, Without):
            conditions += _column_conditions(number, whole, place, relations)
        for aim in chain(conditions, _bounds(number, whole, place, sources)):
            kept = aim.without[number].body[len(others) :]
            changed = replace(rule, body=(*before, replace(literal, body=kept), *after))
            without = {number: changed}
            if isinstance(literal, Without) and kept:
                yield replace(aim, denies=not aim.denies, without=without, alone={})
            elif isinstance(literal, Fold) and kept:
                false = (*kept, *aim.false) if aim.false else aim.goals[number].body[len(others) :]
                goal = replace(rule, body=(*before, replace(literal, body=false), *after))
                yield replace(aim, without=without, goals={number: goal}, alone={})


def negate(literal: CheckedLiteral, others: Sequence[CheckedLiteral]) -> tuple[CheckedLiteral, ...]:
    """What says, beside the other literals of a body, that a test or match is false."""
    if isinstance(literal, Compare):
        return (replace(literal, comparator=NEGATED[literal.comparator]),)
    if isinstance(literal, Without):
        return _local(literal, others)
    return (Without((literal,), literal.span),)


def _condition(
    number: int,
    rule: CheckedRule,
    literal: CheckedLiteral,
    text: str,
    without: tuple[CheckedLiteral, ...],
    false: tuple[CheckedLiteral, ...],
) -> Aim:
    """The condition that is a literal or a part of it: the body without it, and what says that it is false."""
    is_guard = isinstance(literal, Call) or (isinstance(literal, Compare) and literal.null_test)
    rest = [other for other in without if not (is_guard and _is_guarded(other, literal))]
    body = _binders(rule, literal)
    fails = (Without((literal,), literal.span),) if isinstance(literal, Match) else false
    return Aim(
        rule=rule.span,
        text=text,
        span=literal.span,
        denies=False,
        without={number: replace(rule, body=without)},
        goals={number: replace(rule, body=(*rest, *false))},
        false=false,
        alone={} if body is None else {number: replace(rule, body=(*body, *fails))},
    )


def _is_guarded(literal: CheckedLiteral, guard: CheckedLiteral) -> bool:
    """Whether a comparison or test may fail where the guard is false: no value has to meet it then."""
    is_test = isinstance(literal, Compare) or (isinstance(literal, Call) and not literal.outputs)
    return is_test and not set(variables(guard)).isdisjoint(variables(literal))


def _binders(rule: CheckedRule, test: CheckedLiteral) -> tuple[CheckedLiteral, ...] | None:
    """The body of a rule without a condition and what needs its variables, or others that are then free; None if that
    leaves one of its variables free."""
    everywhere = {variable for literal in rule.body for variable in _binds(literal)}
    elsewhere = {variable for literal in rule.body if literal is not test for variable in _binds(literal)}
    tested = set(variables(test)) & (elsewhere if isinstance(test, Match | Without) else everywhere)
    bound: set[Var] = set()
    kept: list[CheckedLiteral] = []
    for literal in rule.body:
        own, binds = set(variables(literal)), set(_binds(literal))
        inner = isinstance(literal, Without | Fold)
        needs = (own & everywhere if inner else own) - binds
        is_free = isinstance(literal, Compare) and len(own - bound) > 1
        if literal is test or not tested.isdisjoint(own & bound) or not (tested & own) <= binds:
            continue
        if needs <= bound and not is_free:
            kept.append(literal)
            bound |= binds
    return tuple(kept) if tested <= bound else None


def _binds(literal: CheckedLiteral) -> Iterator[Var]:
    """The variables that a literal may bind."""
    yield from variables(literal) if isinstance(literal, Compare) and literal.comparator == "=" else _bound(literal)


def _bounds(number: int, rule: CheckedRule, at: int, sources: Mapping[str, str]) -> Iterator[Aim]:
    literal, before, after = rule.body[at], rule.body[:at], rule.body[at + 1 :]
    if isinstance(literal, Compare) and literal.comparator in SHIFTED:
        shifted = replace(literal, comparator=SHIFTED[literal.comparator])
        without = replace(rule, body=(*before, shifted, *after))
        goal = replace(rule, body=(*before, *after, replace(literal, comparator="=")))
        is_included = "=" in literal.comparator
        yield Aim(rule.span, quote(literal, sources), literal.span, is_included, {number: without}, {number: goal})


def _joined(aims: Iterable[Aim]) -> list[Aim]:
    """The aims, those of alternatives at the same place as one; but those of the same rule, the alternatives below a
    negation, stay apart."""
    groups: dict[tuple[Span, str], list[list[Aim]]] = {}
    for aim in aims:
        known = groups.setdefault((aim.span, aim.text), [])
        for group in known:
            if all(aim.goals.keys().isdisjoint(other.goals) for other in group):
                group.append(aim)
                break
        else:
            known.append([aim])
    return [_join(group) for known in groups.values() for group in known]


def _join(aims: Sequence[Aim]) -> Aim:
    """Alternatives as one aim: a condition is false if it is so in each of them, such as that a value is in a list."""
    false = tuple(dict.fromkeys(literal for aim in aims for literal in aim.false))

    goals = {
        number: replace(rule, body=(*rule.body, *(literal for literal in false if literal not in aim.false)))
        for aim in aims
        for number, rule in aim.goals.items()
    }
    return replace(
        aims[0],
        without={number: rule for aim in aims for number, rule in aim.without.items()},
        goals=goals,
        false=false,
        alone={number: rule for aim in aims for number, rule in aim.alone.items()},
    )


def _local(literal: Without, others: Sequence[CheckedLiteral]) -> tuple[CheckedLiteral, ...]:
    """The body of a negation, whose own variables no other literal has."""
    bound = {variable for other in others for variable in _binds(other)}
    own = {variable: Var(variable.name, f"{variable.generated}.") for variable in variables(literal)}
    names: dict[Var, Operand] = {variable: other for variable, other in own.items() if variable not in bound}
    inner: tuple[CheckedLiteral, ...] = renamed(literal.body, names)
    return inner


def _binding(literal: CheckedLiteral, others: Sequence[CheckedLiteral]) -> bool:
    """Whether the literal may bind a variable that no other literal does."""
    if isinstance(literal, Call) and literal.outputs:
        return True
    if isinstance(literal, Compare) and literal.comparator != "=":
        return False
    if not isinstance(literal, Compare | Match):
        return False
    bound = {variable for other in others for variable in _bound(other)}
    return not set(variables(literal)) <= bound


def _bound(literal: CheckedLiteral) -> Iterator[Var]:
    """The variables that a literal binds, but for `=`."""
    match literal:
        case Match():
            yield from variables(literal)
        case Call() | Fold():
            yield from _list_outputs(literal)


def _never(rule: CheckedRule) -> CheckedRule:
    """The rule with a condition that nothing meets."""
    return replace(rule, body=(*rule.body, Compare("=", Const(1), Const(2), rule.span)))
