"""The page of a decision, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from datalog_gate.base.diagnostics import REFUSALS, Diagnostic, Span, format_count, split_numbers
from datalog_gate.base.errors import GateError, InputError, RulesError
from datalog_gate.base.records import dataclass
from datalog_gate.decision.decision import SHORT, Decision, Violation
from datalog_gate.explain.explanation import Explanation, ExplanationLine
from datalog_gate.pages.drawing import QUIET, WORDS, Drawing, draw, find_neighbours
from datalog_gate.pages.fix_diff import DiffLine, find_diff
from datalog_gate.pages.source_lines import (
    Mark,
    SourceFile,
    SourceLine,
    SourceTexts,
    find_secrets,
    mark_lines,
    mark_mistakes,
)
from datalog_gate.stack.model import Stack
from datalog_gate.stack.update import outcomes

CHANGES = ("delete", "replace", "update", "create", "unchanged")
"""The possible changes of a resource by an update, the most severe first."""
FEW = 10
"""The number of findings of a policy that are shown at once; the others are collapsed."""
MOST = 40
"""The maximum number of findings on a page, and of mistakes."""
LEAST = 3
"""The number of findings of each policy that have a place on the page before further ones of more severe policies."""
EXPLAINED = 20
"""The maximum number of findings shown with their steps, of those that are not collapsed."""
LONGEST = 400
"""The maximum length of a text."""
UNBUILT = (
    *REFUSALS,
    "bad-template",
    "group-size",
    "bad-function",
    "bad-reference",
    "bad-parameter",
    "bad-environment",
    "missing-file",
    "nesting",
)
"""The codes of what Heat does not build. Other errors may lie in a configuration, waivers or what is not read here."""


@dataclass(frozen=True, slots=True)
class WhyStep:
    """A step in the explanation of a finding."""

    depth: int
    text: str
    where: str


@dataclass(frozen=True, slots=True)
class FindingPart:
    """A finding, as the page shows it."""

    number: int
    """Its number on the page."""
    word: str
    """Its class, one of `drawing.WORDS`."""
    message: str
    resource: str
    where: str
    """Its place as text; empty without one."""
    hint: str = ""
    mode: str = ""
    """The mode of its policy if it is not `enforce`."""
    anchor: str = ""
    """The file and line on the page, `0-17`; empty if they are not shown."""
    because: tuple[str, ...] = ()
    """The expressions that decide it, if undetermined."""
    also: int = 0
    """The number of other policies that these leave open too."""
    waiver: str = ""
    steps: tuple[WhyStep, ...] = ()
    lines: tuple[SourceLine, ...] = ()
    """The first lines of its place in the template."""
    fix: str = ""
    """A change that was tried and fixes it, if requested."""
    diff: tuple[DiffLine, ...] = ()
    """The change in lines of the template, if it can be shown so."""


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """The findings of a policy."""

    policy: str
    word: str
    """The class of its most severe finding."""
    hint: str
    """The hint of its findings; empty if they have several."""
    findings: tuple[FindingPart, ...]
    left_out: int = 0
    """The number of its findings that are not on the page."""


@dataclass(frozen=True, slots=True)
class ChangePart:
    """The effect of an update on a resource."""

    resource: str
    change: str
    """The possible changes, from `CHANGES`, and the effect on its server: ``replace``, ``update, resize``."""
    where: str


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """The data on the page of a decision."""

    title: str
    outcome: str
    """The outcome, as in the decision."""
    heading: str
    """What was decided, and by how many policies: ``Denied by 2 policies``."""
    counts: Mapping[str, int]
    """The number of findings of each class that occurs, the most severe first, as in `drawing.WORDS`."""
    facts: tuple[tuple[str, str], ...]
    """The names and values at the end: what was judged, when, and the digests."""
    changes: tuple[ChangePart, ...]
    """The changes by an update, the most severe first, without unchanged resources."""
    drawings: tuple[Drawing, ...]
    """What it would build; empty if Heat refuses it."""
    resource_findings: Mapping[str, int]
    """The number of the first finding of each resource, by path."""
    neighbours: Mapping[str, str]
    """The names of the neighbours of these, where the graph does not show each."""
    policies: tuple[PolicyPart, ...]
    more: int
    """The number of findings left out."""
    more_policies: int
    """The number of policies that ask for a change and have no finding here."""
    files: tuple[SourceFile, ...]
    grants: tuple[str, ...]
    """Why grants unlock nothing, and what the others request."""
    clean: tuple[tuple[str, str], ...]
    """The policies without findings, and what they examined."""


@dataclass(frozen=True, slots=True)
class InputMistake:
    """Why an input can't be read, and the text around it."""

    where: str
    message: str
    suggestion: str
    lines: tuple[SourceLine, ...]
    """With those of the mistakes before, if they overlap."""
    word: str = "error"
    """Its class: an error, or a warning beside the errors."""


@dataclass(frozen=True, slots=True)
class FailedPage:
    """The data on the page of an input that could not be read or judged."""

    title: str
    heading: str
    files: tuple[tuple[str, tuple[InputMistake, ...]], ...]
    """The mistakes by file, from the top of each file down. The name is empty for those without a file."""
    more: int = 0
    """The number of mistakes left out."""


def build_failed_page(name: str, error: GateError) -> FailedPage:
    """Build the page of an input that could not be read or judged."""
    if not isinstance(error, InputError | RulesError):
        return FailedPage(_shorten_path(name), "Not judged", (("", (InputMistake("", _cut(str(error)), "", ()),)),))
    errors = [diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"]
    count = format_count(len(errors), "mistake")
    if isinstance(error, RulesError):
        heading = f"The rules can't be read: {count}"
    elif any(diagnostic.code in UNBUILT for diagnostic in errors):
        heading = f"Can't be built: {count}"
    else:
        heading = f"Not judged: {format_count(len(errors), 'error')}"
    files: dict[str, list[Diagnostic]] = {}
    for diagnostic in sorted(error.diagnostics, key=lambda diagnostic: diagnostic.severity != "error")[:MOST]:
        files.setdefault(diagnostic.span.file if diagnostic.span else "", []).append(diagnostic)
    shown = []
    for file, listed in files.items():
        listed.sort(key=lambda diagnostic: diagnostic.span.line if diagnostic.span else 0)
        text = error.sources.get(file, "")
        near = mark_mistakes([diagnostic.span for diagnostic in listed], text)
        shown.append((_shorten_path(file), tuple(map(_build_mistake, listed, near))))
    return FailedPage(_shorten_path(name), heading, tuple(shown), more=len(error.diagnostics[MOST:]))


def _build_mistake(diagnostic: Diagnostic, lines: tuple[SourceLine, ...]) -> InputMistake:
    where, message = _where(diagnostic.span), _cut(diagnostic.message)
    word = "error" if diagnostic.severity == "error" else "warn"
    return InputMistake(where, message, _cut(diagnostic.suggestion or ""), lines, word)


def _shorten_path(path: str) -> str:
    """The name of a file with that of its folder, without the folders above."""
    return _cut("/".join(PurePath(path).parts[-2:]).strip("<>"))


def build_page(
    decision: Decision,
    explanation: Explanation,
    stacks: Sequence[Stack],
    fixes: bool = False,
    grants: Sequence[str] = (),
    refusals: Sequence[Diagnostic] = (),
) -> DecisionPage:
    """Build the page of a decision on these stacks. With `fixes` a change is searched that fixes each finding, which
    takes up to 64 judgements each. `grants` are lines about the requests of unlocked grants; `refusals` are what Heat
    would refuse."""
    findings = sorted(_list_findings(decision), key=_order_key)
    chosen = choose_shown(list(map(_find_group, findings)), MOST)
    shown = [findings[at] for at in chosen]
    chosen += range(len(findings), len(findings) + len(refusals[:MOST]))
    numbers = {at: number for number, at in enumerate(chosen)}
    places = [*((violation.place, word) for violation, word in findings), *map(_place_refusal, refusals)]
    sources = SourceTexts(decision.sources, *find_secrets(stacks))
    files, anchors = _mark_files(places, numbers, sources, stacks)
    groups = set(map(_find_group, shown))
    explained = _choose_explained([violation for violation, _ in shown])
    parts = [
        _build_part(
            finding, number, anchors.get(number, ""), explanation if number in explained else None, sources, fixes
        )
        for number, finding in enumerate(shown)
    ]
    words: dict[str, list[str]] = {}
    for violation, word in findings:
        if violation.resource:
            words.setdefault(violation.resource.path, []).append(word)
    first: dict[str, int] = {}
    for number, (violation, _) in enumerate(shown):
        if violation.resource:
            first.setdefault(violation.resource.path, number)
    return DecisionPage(
        title=_cut(", ".join(decision.stacks)),
        outcome=decision.outcome,
        heading=_build_heading(decision, refusals, stacks),
        counts=_count_words([word for _, word in findings], decision, refusals),
        facts=tuple(_build_head(decision, stacks)),
        changes=tuple(_list_changes(explanation, stacks)),
        drawings=()
        if any(refusal.severity == "error" for refusal in refusals)
        else tuple(drawing for stack in stacks if stack.resources for drawing in draw(stack, words)),
        resource_findings=first,
        neighbours={
            path: _cut(", ".join(names))
            for stack in stacks
            for path, names in find_neighbours(stack).items()
            if path in first
        },
        policies=tuple(
            sorted(
                (
                    *_list_refusals(refusals, len(shown), anchors, sources),
                    *_group_by_policy(findings, shown, parts, decision, len(numbers)),
                ),
                key=lambda part: (part.word != "refused", WORDS.index(part.word)),
            )
        ),
        more=len(findings) - len(shown) + len(refusals[MOST:]),
        more_policies=len({policy for policy, quiet in set(map(_find_group, findings)) - groups if not quiet}),
        files=files,
        grants=(*(grant.refusal for grant in decision.grants if grant.refusal), *grants),
        clean=tuple(_list_clean_policies(explanation)),
    )


def _build_heading(decision: Decision, refusals: Sequence[Diagnostic], stacks: Sequence[Stack]) -> str:
    """What was decided, and by how many policies."""
    if mistakes := [refusal for refusal in refusals if refusal.severity == "error"]:
        return f"Can't be built: {format_count(len(mistakes), 'mistake')}"
    findings = (*decision.violations, *decision.undetermined, *decision.waived)
    match decision.outcome:
        case "deny":
            denying = {violation.policy for violation in decision.violations if violation.enforced}
            denying |= {
                name
                for violation in decision.undetermined
                if violation.enforced and violation.on_unknown == "deny"
                for name in violation.policies
            }
            return f"Denied by {format_count(len(denying), 'policy', 'policies')}"
        case "indeterminate":
            failed = {error.policy for error in decision.errors}
            return f"Not decided: {format_count(len(failed), 'policy', 'policies')} could not be evaluated"
        case "allow_with_warnings":
            return "Allowed, with warnings"
    if findings:
        return "Allowed"
    has_resource = any(stack.resources for stack in stacks)
    return "Allowed. Nothing to change." if has_resource else "Allowed. There is no resource to judge."


def _count_words(words: Sequence[str], decision: Decision, refusals: Sequence[Diagnostic]) -> Mapping[str, int]:
    """The number of findings of each class, the most severe first."""
    every = [*words, *(_place_refusal(refusal)[1] for refusal in refusals), *["error"] * len(decision.errors)]
    return {word: every.count(word) for word in WORDS if word in every}


def _mark_files(
    places: Sequence[tuple[Span | None, str]],
    numbers: Mapping[int, int],
    sources: SourceTexts,
    stacks: Sequence[Stack],
) -> tuple[tuple[SourceFile, ...], Mapping[int, str]]:
    """The templates and other files with findings on the page, marked; and the anchor of each of these. Given are the
    place and class of all findings, and the `numbers` of those on the page."""
    marks: dict[str, list[Mark]] = {}
    for at, (place, word) in enumerate(places):
        if place and place.line and place.file in sources.texts:
            marks.setdefault(place.file, []).append(Mark(numbers.get(at, -1), word, place))
    templates = [stack.place.file if stack.place else "" for stack in stacks]
    flagged = (name for name, found in marks.items() if any(mark.finding >= 0 for mark in found))
    names = list(dict.fromkeys([*(name for name in templates if name in sources.texts), *flagged]))
    files = [
        mark_lines(
            name_file(name),
            sources.texts[name],
            marks.get(name, ()),
            secrets=sources.secrets,
            hidden={line for file, line in sources.hidden if file == name},
            whole=name in templates,
        )
        for name in names
    ]
    anchors = {mark.finding: f"{at}-{mark.place.line}" for at, name in enumerate(names) for mark in marks.get(name, ())}
    return tuple(files), anchors


def _list_findings(decision: Decision) -> Iterator[tuple[Violation, str]]:
    """All findings, each with its class."""
    yield from ((finding, "preexisting" if finding.tolerated else finding.level) for finding in decision.violations)
    yield from ((finding, "undetermined") for finding in decision.undetermined)
    yield from ((finding, "waived") for finding in decision.waived)


def _order_key(finding: tuple[Violation, str]) -> tuple[int, list[str | int], int]:
    """The sort key on the page: the most severe first, then by policy, then from the top of the file down."""
    violation, word = finding
    return WORDS.index(word), split_numbers(violation.policy), violation.place.line if violation.place else 0


def _find_group(finding: tuple[Violation, str]) -> tuple[str, bool]:
    """The policy of a finding, and whether it asks for no change."""
    return finding[0].policy, finding[1] in QUIET


def choose_shown(policies: Sequence[object], most: int) -> list[int]:
    """The indexes of the findings on a page, given the policy of each: the first three of each policy as far as
    they fit, then the first."""
    ranks = Counter[object]()
    keys = []
    for at, policy in enumerate(policies):
        keys.append((min(ranks[policy], LEAST), at))
        ranks[policy] += 1
    return sorted(at for _, at in sorted(keys)[:most])


def _build_head(decision: Decision, stacks: Sequence[Stack]) -> Iterator[tuple[str, str]]:
    yield "Action", decision.action
    resources = sum(len(stack.resources) for root in stacks for stack in root.walk())
    policies, facts = decision.counts["policies"], decision.counts["facts"]
    numbers = f"{format_count(policies, 'policy', 'policies')}, {format_count(facts, 'fact')}"
    yield "Judged", f"{numbers}, {format_count(resources, 'resource')}"
    if decision.skipped:
        yield "Skipped", f"{format_count(len(decision.skipped), 'policy', 'policies')} over the whole cloud"
    yield "Time", f"{decision.now:%Y-%m-%d %H:%M} UTC"
    yield "Decision", decision.id[: 2 * SHORT]
    yield "Rules", decision.digests["rules"][: 2 * SHORT]


def _list_changes(explanation: Explanation, stacks: Sequence[Stack]) -> Iterator[ChangePart]:
    """The effect on each resource of the older and the new state."""
    reader = explanation.judgement.reader
    old = reader.request.against
    known = outcomes(old, stacks, reader.rules.catalogue) if old else []
    stirred = [(sorted(map(CHANGES.index, outcome.changes)), outcome) for outcome in known if outcome.stirred]
    for changes, outcome in sorted(stirred, key=lambda pair: (pair[0], pair[1].of.id)):
        words = [" or ".join(CHANGES[at] for at in changes), *outcome.disruptions]
        yield ChangePart(_cut(outcome.of.id.path), ", ".join(words), _where(outcome.of.locate(outcome.path)))


def _choose_explained(violations: Sequence[Violation]) -> set[int]:
    """The numbers of the findings with steps: of each policy those that are shown at once, the most severe first."""
    numbers: dict[str, list[int]] = {}
    for number, violation in enumerate(violations):
        numbers.setdefault(violation.policy, []).append(number)
    return set(sorted(number for listed in numbers.values() for number in listed[:FEW])[:EXPLAINED])


def _build_part(
    finding: tuple[Violation, str],
    number: int,
    anchor: str,
    explanation: Explanation | None,
    sources: SourceTexts,
    fixes: bool,
) -> FindingPart:
    violation, word = finding
    steps: tuple[ExplanationLine, ...] = ()
    fix = None
    diff: tuple[DiffLine, ...] = ()
    if explanation:
        if fixes:
            explained = explanation.of(violation)
            steps, fix = explained.lines, explained.fix
            diff = find_diff(explained.change, sources) if explained.change else ()
        else:
            steps = explanation.why(violation)
    return FindingPart(
        number=number,
        word=word,
        message=_cut(violation.message),
        hint=_cut(violation.hint),
        mode="" if violation.mode == "enforce" else violation.mode,
        resource=_cut(violation.resource.path) if violation.resource else "",
        where=_where(violation.place),
        anchor=anchor,
        because=tuple(_cut(unknown.expression) for unknown in violation.because),
        also=len(violation.also),
        waiver=_cut(str(violation.waiver)) if violation.waiver else "",
        steps=tuple(WhyStep(min(step.depth, 6), step.text, _where(step.place)) for step in steps),
        lines=sources.show(violation.place, word) if anchor else (),
        fix=_cut(fix.text) if fix else "",
        diff=diff,
    )


def _group_by_policy(
    findings: Sequence[tuple[Violation, str]],
    shown: Sequence[tuple[Violation, str]],
    parts: Sequence[FindingPart],
    decision: Decision,
    after: int,
) -> Iterator[PolicyPart]:
    """The findings of each policy, the most severe policies first and what asks for no change apart, of which those
    that are `shown` have parts; then those that could not be evaluated, with numbers from `after`."""
    counts = Counter(map(_find_group, findings))
    groups: dict[tuple[str, bool], list[FindingPart]] = {}
    for group, part in zip(map(_find_group, shown), parts, strict=True):
        groups.setdefault(group, []).append(part)
    for group, listed in groups.items():
        hint = listed[0].hint if len({part.hint for part in listed}) == 1 else ""
        yield PolicyPart(group[0], listed[0].word, hint, tuple(listed), left_out=counts[group] - len(listed))
    for at, error in enumerate(decision.errors, start=after):
        resource = _cut(error.resource.path) if error.resource else ""
        finding = FindingPart(at, "error", _cut(error.message), resource, _where(error.place))
        yield PolicyPart(error.policy, "error", "", (finding,))


def _place_refusal(refusal: Diagnostic) -> tuple[Span | None, str]:
    """Its place and class."""
    return refusal.span, "refused" if refusal.severity == "error" else "warn"


def _list_refusals(
    refusals: Sequence[Diagnostic], first: int, anchors: Mapping[int, str], sources: SourceTexts
) -> Iterator[PolicyPart]:
    """What Heat would refuse, by code and suggestion, the first `MOST` with parts with numbers from `first`."""
    counts = Counter(map(_find_refusal_group, refusals))
    groups: dict[tuple[str, str, str], list[FindingPart]] = {}
    for number, refusal in enumerate(refusals[:MOST], start=first):
        place, word = _place_refusal(refusal)
        anchor = anchors.get(number, "")
        lines = sources.show(place, word) if anchor else ()
        part = FindingPart(number, word, _cut(refusal.message), "", _where(place), anchor=anchor, lines=lines)
        groups.setdefault(_find_refusal_group(refusal), []).append(part)
    for group, parts in groups.items():
        yield PolicyPart(*group, tuple(parts), left_out=counts[group] - len(parts))


def _find_refusal_group(refusal: Diagnostic) -> tuple[str, str, str]:
    return refusal.code, _place_refusal(refusal)[1], _cut(refusal.suggestion or "")


def _list_clean_policies(explanation: Explanation) -> Iterator[tuple[str, str]]:
    for policy, rows in sorted(explanation.clean().items(), key=lambda item: split_numbers(item[0])):
        read = ", ".join(f"{count} of {relation}" for relation, count in rows.items() if count)
        yield policy, read or "no row of what it reads"


def _where(place: Span | None) -> str:
    if place is None:
        return ""
    return f"{name_file(place.file)}:{place.line}" if place.line else _cut(place.readable)


def name_file(path: str) -> str:
    """The name of a file without its folder. A name such as ``<template>`` loses its brackets."""
    return _cut(PurePath(path).name.strip("<>"))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
