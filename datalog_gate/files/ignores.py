"""Comments in templates that ignore a finding until a day.

``flavor: huge  # datalog-gate: ignore[web.flavor] until 2027-01-31: the old image needs it``

They apply only when a user checks a template. Doors in a running service ignore them: there only the operator's waivers
count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from hashlib import sha256

from datalog_gate.base.diagnostics import Diagnostic, Span, closest, suggest_name
from datalog_gate.base.records import dataclass, replace
from datalog_gate.decision.decision import Decision, Violation, Waiver, compute_outcome

CODE = "bad-ignore"
FORM = "write `ignore[policy] until 2027-01-31: reason`"
_COMMENT = re.compile(r"(?:^|\s)(?P<whole>#\s*datalog-gate:\s*(?P<text>.*?))\s*$", re.IGNORECASE)
_DAY = r"(?:\s+until\s+(?P<until>[\d-]+T[\d:]*\d|[^\s:]+))?"  # a time is not a date, and is told as a whole
_IGNORE = re.compile(rf"ignore\s*\[(?P<policies>[^\]]*)\]{_DAY}\s*(?::\s*(?P<reason>.*))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ignore:
    """A comment that ignores the findings of a policy, or a code of what Heat refuses, on its line until a day."""

    policy: str
    until: str
    reason: str
    place: Span
    indent: int
    """The column at which its line begins, behind blanks."""

    @property
    def waiver(self) -> Waiver:
        """The equivalent waiver, named after its place."""
        where = f"{self.place.file}:{self.place.line}"
        return Waiver(
            id=where, policy=self.policy, owner="ignored in the template", reason=self.reason, expires=self.until
        )

    def covers(self, violation: Violation) -> bool:
        """Whether it is on the line of a finding of its policy."""
        return self.policy in violation.policies and self.is_at(violation.place)

    def is_at(self, place: Span | None) -> bool:
        """Whether it is on the line of a place."""
        if place is None or self.place.file != place.file:
            return False
        is_last = self.place.line == place.end_line and place.end_column > self.indent  # a block ends at what follows
        return is_last or self.place.line == place.line


def find_ignores(
    sources: Mapping[str, str], policies: Collection[str]
) -> tuple[tuple[Ignore, ...], tuple[Diagnostic, ...]]:
    """The ignores in texts by file, and warnings: each needs known policies, a day and a reason to be effective."""
    ignores, warnings = [], []
    for file, text in sources.items():
        if "datalog-gate:" not in text.lower():
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if comment := _COMMENT.search(line):
                span = Span(file, number, comment.start("whole") + 1, number, comment.end("whole") + 1)
                read = _read(comment["text"], span, len(line) - len(line.lstrip()) + 1, policies)
                ignores += [ignore for ignore in read if isinstance(ignore, Ignore)]
                warnings += [warning for warning in read if isinstance(warning, Diagnostic)]
    return tuple(ignores), tuple(warnings)


def _read(text: str, place: Span, indent: int, policies: Collection[str]) -> list[Ignore | Diagnostic]:
    match = _IGNORE.fullmatch(text)
    names = [name.strip() for name in match["policies"].split(",")] if match else []
    if not match or not any(names):
        return [Diagnostic(CODE, "this comment ignores nothing: it has the wrong form", place, FORM, "warning")]
    problem = ""
    if not match["until"]:
        problem = "it has no end date"
    elif not _is_day(match["until"]):
        problem = f"{match['until']} is not a date"
    elif not (match["reason"] or "").strip():
        problem = "it has no reason"
    if problem:
        return [Diagnostic(CODE, f"this comment ignores nothing: {problem}", place, FORM, "warning")]
    answers: list[Ignore | Diagnostic] = []
    for name in names:
        if name in policies:
            answers.append(Ignore(name, match["until"], match["reason"].strip(), place, indent))
        else:
            advice = suggest_name(closest(name, policies))
            answers.append(Diagnostic(CODE, f"there is no policy {name} to ignore", place, advice, "warning"))
    return answers


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def apply_ignores(decision: Decision, ignores: Sequence[Ignore]) -> tuple[Decision, frozenset[Ignore]]:
    """The decision with findings waived that a current ignore covers, and the ignores that cover a finding. The
    decision's id changes with the ignored findings, since its outcome may."""
    findings = (*decision.violations, *decision.undetermined)
    used = {ignore for ignore in ignores for violation in findings if ignore.covers(violation)}
    current = [ignore for ignore in ignores if ignore in used and decision.now < ignore.waiver.until]
    if not current:
        return decision, frozenset(used)
    covering = {violation: ignore for violation in findings if (ignore := _find_covering(violation, current))}
    violations = tuple(violation for violation in decision.violations if violation not in covering)
    undetermined = tuple(violation for violation in decision.undetermined if violation not in covering)
    waived = (replace(violation, waiver=covering[violation].waiver) for violation in findings if violation in covering)
    text = "\n".join([decision.id, *(f"{ignore.policy} {ignore.waiver}" for ignore in current)])
    decision = replace(
        decision,
        id=sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[: len(decision.id)],
        outcome=compute_outcome(violations, undetermined, decision.errors),
        violations=violations,
        undetermined=undetermined,
        waived=(*decision.waived, *waived),
        waivers=(*decision.waivers, *dict.fromkeys(ignore.waiver for ignore in current)),
    )
    return decision, frozenset(used)


def leave_out_ignored(
    refusals: Sequence[Diagnostic], ignores: Sequence[Ignore], now: datetime
) -> tuple[tuple[Diagnostic, ...], frozenset[Ignore]]:
    """The refusals of Heat that no current ignore covers, and the ignores that cover one."""
    covering = [
        (refusal, ignore)
        for ignore in ignores
        for refusal in refusals
        if ignore.policy == refusal.code and ignore.is_at(refusal.span)
    ]
    ignored = {refusal for refusal, ignore in covering if now < ignore.waiver.until}
    return tuple(refusal for refusal in refusals if refusal not in ignored), frozenset(ignore for _, ignore in covering)


def _find_covering(violation: Violation, ignores: Sequence[Ignore]) -> Ignore | None:
    """The first ignore that covers a finding, if there is one for each of its policies."""
    covering = [ignore for ignore in ignores if ignore.covers(violation)]
    return covering[0] if {ignore.policy for ignore in covering}.issuperset(violation.policies) else None


def find_idle(ignores: Collection[Ignore], used: Collection[Ignore], now: datetime) -> Iterator[Diagnostic]:
    """Warn about ignores that cover no finding, and about expired ones."""
    for ignore in sorted(ignores, key=lambda ignore: (ignore.place, ignore.policy)):
        if ignore not in used:
            message = f"{ignore.policy} finds nothing on this line to ignore"
            yield Diagnostic(CODE, message, ignore.place, "delete the comment", "warning")
        elif now >= ignore.waiver.until:
            message = f"the finding of {ignore.policy} is no longer ignored: the comment ended on {ignore.until}"
            yield Diagnostic(CODE, message, ignore.place, "correct the template", "warning")
