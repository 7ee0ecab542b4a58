"""A grant relaxes only policies that read it, within its scope."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.decision.judgement import decide
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.engine.native import evaluate
from datalog_gate.files.templates import read_stack
from tests.unit.decision.test_decision import NOW

SERVICES = frozenset({"rack", "edge"})
RULES = load(
    [
        RuleFile(
            "m",
            "m.dl",
            """
@unlock("rack") rack(g) :- gate:grant(id=g).
@unlock("edge") edge(g) :- gate:grant(id=g), not gate:grant_option(id=g, path="refuse").
@deny("rack", "{s}") needs_rack(s) :- os:nova:server(_id=s), not gate:unlocked("rack", s).
@deny("edge", "{s}") needs_edge(s) :- os:nova:server(_id=s), not opened(s).
opened(s) :- gate:unlocked("edge", s).
@deny("plain", "{s}") huge(s) :- os:nova:server(_id=s, flavor="huge").
@warn("crowd", "{n}") crowd(n) :- n = count{ s : os:nova:server(_id=s) }, n > 2.
""",
        )
    ]
)
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class GrantDraw:
    """A grant of a template: without a `scope` it is for all."""

    service: str
    scope: tuple[str, ...] | None
    expired: bool
    refuse: bool

    @property
    def text(self) -> str:
        parts = [f"service: {self.service}", f"expires: {'2027-01-01' if self.expired else '2028-01-01'}"]
        parts += [] if self.scope is None else [f"scope: [{', '.join(self.scope)}]"]
        parts += ["options: {refuse: 1}"] if self.refuse else []
        return f"{{type: DatalogGate::Policy, properties: {{{', '.join(parts)}}}}}"

    def opens(self, service: str, server: str, names: Collection[str]) -> bool:
        """Whether a server of its stack, which has resources of these names, is unlocked by it."""
        effective = self.service == service and not self.expired and not (self.refuse and service == "edge")
        wrong = any(resource.partition(".")[0] not in names for resource in self.scope or ())
        return effective and not wrong and (self.scope is None or server in self.scope)


@dataclass(frozen=True)
class Level:
    """A stack: the flavour of each of its servers, its grants, and the stack that it holds as ``tr``."""

    servers: dict[str, str]
    grants: tuple[GrantDraw, ...]
    within: Level | None

    def texts(self, granted: bool, at: int = 0) -> dict[str, str]:
        lines = ["heat_template_version: 2018-08-31", "resources:", "  none: {type: OS::Heat::None}"]
        for name, flavor in self.servers.items():
            lines.append(f"  {name}: {{type: OS::Nova::Server, properties: {{flavor: {flavor}}}}}")
        if granted:
            lines += [f"  g{number}: {grant.text}" for number, grant in enumerate(self.grants)]
        if self.within:
            lines.append(f"  tr: {{type: 'file:///{at + 1}.yaml'}}")
        more = self.within.texts(granted, at + 1) if self.within else {}
        return {f"file:///{at}.yaml": "\n".join(lines) + "\n", **more}

    def locked(self, service: str, path: str = "s") -> list[str]:
        """The servers that no grant of their own stack is for."""
        names = {*self.servers, *(("tr",) if self.within else ())}
        locked = (name for name in self.servers if not any(grant.opens(service, name, names) for grant in self.grants))
        own = [f"{path}/{name}" for name in locked]
        return own + (self.within.locked(service, f"{path}/tr") if self.within else [])


def levels(depth: int) -> st.SearchStrategy[Level]:
    return st.builds(
        Level,
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["tiny", "huge"]), max_size=3),
        st.lists(
            st.builds(
                GrantDraw,
                st.sampled_from(["rack", "edge", "other"]),
                st.none() | st.lists(st.sampled_from([*NAMES, "tr", "tr.a", "gone"]), max_size=3).map(tuple),
                st.booleans(),
                st.booleans(),
            ),
            max_size=3,
        ).map(tuple),
        levels(depth - 1) | st.none() if depth else st.none(),
    )


def judge_level(level: Level, granted: bool) -> dict[str, list[str]]:
    """The findings of each policy, with or without the grants of the stacks."""
    texts = level.texts(granted)
    stack = read_stack(template=texts["file:///0.yaml"], files=texts, stack_name="s")
    decision = decide(RULES, [stack], DecisionRequest("create", services=SERVICES, now=NOW), evaluate)
    messages: dict[str, list[str]] = {"plain": [], "crowd": [], "rack": [], "edge": []}
    for violation in decision.violations:
        messages[violation.policy].append(violation.resource.path if violation.resource else violation.message)
    return {policy: sorted(those) for policy, those in messages.items()}


@given(levels(2))
def test_a_grant_relaxes_only_what_reads_it_and_reaches_nothing_outside_its_stack_and_scope(level: Level) -> None:
    without, granted = judge_level(level, granted=False), judge_level(level, granted=True)
    locked = {service: sorted(level.locked(service)) for service in SERVICES}
    assert granted == {**without, **locked}
