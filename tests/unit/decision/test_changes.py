"""Updates judged against the old stack: introduced, preexisting, worsened, improved."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.base.values import ResourceId
from datalog_gate.doors.cli.main import main
from datalog_gate.doors.cli.reports.text import format_comparison_notes
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Live
from tests.sampling import ALL

NOW = "2027-03-01T12:00"
OPEN = """@deny("open", "{group} is open at {i}")
open(group, cidr, i) :- os:neutron:security_group.rules(_id=group, _index=i, remote_ip_prefix=cidr), cidr = "all".
"""
BARE = '@deny("bare", "{i}") bare(i) :- os:neutron:security_group.rules(_index=i, remote_ip_prefix="all").\n'
WIDE = """@deny("wide", "{v} {n}", worse="n up")
wide(v, n) :- os:cinder:volume(_id=v, size=n), n != null, n > 10.
"""
MANY = """@deny("many", "{n} servers")
many(stack, n) :- heat:stack(id=stack, parent=null), n = count{ s : os:nova:server(_id=s) }, n > 1.
"""
FEW = '@deny("few", "{n} servers") few(n) :- n = count{ s : os:nova:server(_id=s) }, 3 > n.\n'
COUNTED = """counted(n) :- n = count{ s : os:nova:server(_id=s) }, n > 1.
@deny("far", "{n} servers"%s) far(n) :- counted(n).
"""
UNNAMED = '@deny("unnamed", "{s}") unnamed(s) :- os:nova:server(_id=s), not os:nova:server.metadata(_id=s, _key="k").\n'
BIG = """@deny("big", "{server} {mb}")
big(server, mb) :- os:nova:server(_id=server), os:cinder:volume(size=gb), gb != null, mb = gb * 1024, mb >= 10240.
"""
ZONE = '@deny("zone", "{s} in {z}"%s) zone(s, z) :- os:nova:server(_id=s, availability_zone=z), z != "nova".\n'
SHARE = '@deny("share", "{q}") share(q) :- heat:parameter(name="n", value=n), is_number(n), q = 12 / n, q > 2.\n'
PER = """@deny("per", "{group} {cidr}", key=["group"])
per(group, cidr) :- os:neutron:security_group.rules(_id=group, remote_ip_prefix=cidr).
"""
UNLESS = """@deny("less", "{n}")
less(n) :- heat:stack(parent=null), n = count{ s : os:nova:server(_id=s) }, not (n <= 1).
"""
FROZEN = """@deny("frozen", "{s}"%s)
frozen(s) :- heat:stack(id=s), gate:now(time=t), starts_with(t, "2027-03").
"""
GUEST = '@deny("guest", "{s}"%s) guest(s) :- os:nova:server(_id=s), not gate:role("admin").\n'
TWO = """@deny("two", "{n} {m}")
two(n, m) :- n = count{ s : os:nova:server(_id=s) }, m = count{ s : os:cinder:volume(_id=s) }, n > 1.
"""
ASKED = '@deny("asked", "{s}") asked(s) :- os:nova:server(_id=s), gate:request(action="update").\n'


def group(*cidrs: str) -> dict[str, Any]:
    rules = [{"remote_ip_prefix": cidr} for cidr in cidrs]
    return {"type": "OS::Neutron::SecurityGroup", "properties": {"rules": rules}}


def server(**properties: Any) -> dict[str, Any]:
    return {"type": "OS::Nova::Server", "properties": {"image": "i", "flavor": "f", "networks": "auto", **properties}}


def servers(count: int) -> dict[str, Any]:
    return {f"s{at}": server() for at in range(count)}


def grouped(count: int, member: dict[str, Any]) -> dict[str, Any]:
    return {"g": {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": member}}}


def nested(resources: dict[str, Any]) -> dict[str, Any]:
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    return {"n": {"type": "OS::Heat::Stack", "properties": {"template": json.dumps(template)}}}


def volume(size: int) -> dict[str, Any]:
    return {"type": "OS::Cinder::Volume", "properties": {"size": size}}


LATE = {"z": {"type": "OS::Heat::RandomString"}, "s": server(availability_zone={"get_attr": ["z", "value"]})}
"""A server whose zone nobody knows yet."""
INTRODUCED, PREEXISTING = "introduced", "preexisting"


@dataclass(frozen=True)
class Pair:
    """Rules, the old and new resources, and the messages of the findings with their change."""

    rules: str
    old: dict[str, Any]
    new: dict[str, Any]
    outcome: str
    violations: dict[str, str] = field(default_factory=dict)
    undetermined: dict[str, str] = field(default_factory=dict)


PAIRS = {
    "one that was there": Pair(
        OPEN, {"a": group("all")}, {"a": group("all"), "b": group("one")}, "allow_with_warnings",
        {"a is open at 0": PREEXISTING}),
    "one beside another": Pair(
        OPEN, {"a": group("all")}, {"a": group("all"), "b": group("all")}, "deny",
        {"a is open at 0": PREEXISTING, "b is open at 0": INTRODUCED}),
    "a resource with another name": Pair(
        OPEN, {"a": group("all")}, {"b": group("all")}, "deny", {"b is open at 0": INTRODUCED}),
    "an index that an inserted item shifts": Pair(
        OPEN, {"a": group("all")}, {"a": group("one", "all")}, "allow_with_warnings", {"a is open at 1": PREEXISTING}),
    "an index of nobody knows whose list": Pair(
        BARE, {"a": group("all")}, {"a": group("all"), "b": group("one", "all")}, "deny",
        {"0": PREEXISTING, "1": INTRODUCED}),
    "more of what is too many": Pair(MANY, servers(2), servers(3), "deny", {"3 servers": INTRODUCED}),
    "less of what is still too many": Pair(
        MANY, servers(3), servers(2), "allow_with_warnings", {"2 servers": PREEXISTING}),
    "less of what is too few": Pair(FEW, servers(2), servers(1), "deny", {"1 servers": INTRODUCED}),
    "more of what is still too few": Pair(
        FEW, servers(1), servers(2), "allow_with_warnings", {"2 servers": PREEXISTING}),
    "a bound under not says no direction": Pair(UNLESS, servers(3), servers(2), "deny", {"2": INTRODUCED}),
    "no bound in sight, and another number": Pair(
        COUNTED % "", servers(3), servers(2), "deny", {"2 servers": INTRODUCED}),
    "a direction that the policy names, better": Pair(
        COUNTED % ', worse="n up"', servers(3), servers(2), "allow_with_warnings", {"2 servers": PREEXISTING}),
    "a direction that the policy names, worse": Pair(
        COUNTED % ', worse="n up"', servers(2), servers(3), "deny", {"3 servers": INTRODUCED}),
    "a value that is read, and tells how bad it is": Pair(
        WIDE, {"v": volume(30)}, {"v": volume(20), "w": volume(20)}, "deny",
        {"v 20": PREEXISTING, "w 20": INTRODUCED}),
    "a key that the policy names, and another value": Pair(
        PER, {"a": group("one")}, {"a": group("two")}, "deny", {"a two": INTRODUCED}),
    "several rows of one key, below the worst": Pair(
        BIG, {"s": server(), "v": volume(10), "w": volume(30)}, {"s": server(), "v": volume(20)},
        "allow_with_warnings", {"s 20480": PREEXISTING}),
    "several rows of one key, one beyond the worst": Pair(
        BIG, {"s": server(), "v": volume(20)}, {"s": server(), "v": volume(10), "w": volume(30)}, "deny",
        {"s 10240": PREEXISTING, "s 30720": INTRODUCED}),
    "what lacks something": Pair(
        UNNAMED, {"a": server()}, {"a": server(), "b": server(metadata={"k": "me"})}, "allow_with_warnings",
        {"a": PREEXISTING}),
    "a member more of a group": Pair(
        UNNAMED, grouped(1, server()), grouped(2, server()), "deny", {"web/g/0": PREEXISTING, "web/g/1": INTRODUCED}),
    "a nested stack": Pair(
        OPEN, nested({"a": group("all")}), nested({"a": group("one", "all"), "b": group("all")}), "deny",
        {"a is open at 1": PREEXISTING, "b is open at 0": INTRODUCED}),
    "a policy that does not let be what was": Pair(
        ZONE % ', preexisting="deny"', {"s": server(availability_zone="b")}, {"s": server(availability_zone="b")},
        "deny", {"s in b": PREEXISTING}),
    "a policy that judges the operation": Pair(
        ASKED, {"s": server()}, {"s": server()}, "deny", {"s": INTRODUCED}),
    "a policy that judges when": Pair(FROZEN % "", {}, {}, "deny", {"web": PREEXISTING}),
    "one that judges when, and lets be what was": Pair(
        FROZEN % ', preexisting="allow"', {}, {}, "allow_with_warnings", {"web": PREEXISTING}),
    "a policy that judges who": Pair(GUEST % "", {"s": server()}, {"s": server()}, "deny", {"s": PREEXISTING}),
    "less of one number, more of another": Pair(
        TWO, servers(3), {**servers(2), "v": volume(1)}, "deny", {"2 1": INTRODUCED}),
    "unknown before, known now": Pair(
        ZONE % "", LATE, {"s": server(availability_zone="b")}, "deny", {"s in b": INTRODUCED}),
    "known before, unknown now": Pair(
        ZONE % ', on_unknown="deny"', {"s": server(availability_zone="b")}, LATE, "deny", {}, {"s in ?": INTRODUCED}),
    "undetermined now, and certain before": Pair(
        '@deny("z", "{s}", on_unknown="deny") z(s) :- os:nova:server(_id=s, availability_zone=z), z != "nova".',
        {"s": server(availability_zone="b")}, LATE, "allow_with_warnings", {}, {"s": PREEXISTING}),
    "undetermined beside what was there": Pair(
        (ZONE % ', on_unknown="deny"') + 'zone(s, z) :- os:nova:server(_id=s, image=z), z = "i".',
        {"s": server()}, LATE, "deny", {"s in i": PREEXISTING}, {"s in ?": INTRODUCED}),
    "undetermined after what was there": Pair(
        '@deny("z", "{s} {n}", on_unknown="deny") z(s, n) :- os:nova:server(_id=s, image="i"), n = "image".'
        'z(s, n) :- os:nova:server(_id=s, availability_zone=zone), zone != "nova", n = "zone".',
        {"s": server(availability_zone="b")},
        {**LATE, "t": server(availability_zone={"get_attr": ["z", "value"]}, image="j")}, "deny",
        {"s image": PREEXISTING}, {"t zone": INTRODUCED}),
}  # fmt: skip


def rules_of(folder: Path, text: str) -> dg.Rules:
    (folder / "m.dl").write_text(text, encoding="utf-8")
    return dg.load_rules(folder / "m.dl")


def stack(resources: dict[str, Any], **more: Any) -> Any:
    return dg.read_stack({"heat_template_version": "2018-08-31", "resources": resources, **more}, stack_name="web")


def read_changes(findings: Any) -> dict[str, str]:
    return {finding.message: finding.change for finding in findings}


@pytest.mark.sampled
@pytest.mark.parametrize(("at", "pair"), list(enumerate(PAIRS.values())), ids=PAIRS.keys())
def test_new_and_old_violations_of_an_update_are_kept_apart(tmp_path: Path, at: int, pair: Pair) -> None:
    rules = rules_of(tmp_path, pair.rules)
    engine = "both" if at % (4 if ALL else 20) == 0 else "native"  # the other takes twenty times as long
    decision = rules.decide(stack(pair.new), against=stack(pair.old), now=NOW, engine=engine)
    answer = decision.outcome, read_changes(decision.violations), read_changes(decision.undetermined)
    assert answer == (pair.outcome, pair.violations, pair.undetermined)


def test_without_an_older_state_nothing_says_a_change(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, OPEN)
    alone = rules.decide(stack({"a": group("all")}), action="update", now=NOW)
    against = rules.decide(stack({"a": group("all")}), against=stack({"a": group("all")}), now=NOW)
    assert [
        (decision.outcome, read_changes(decision.violations), decision.compared) for decision in (alone, against)
    ] == [("deny", {"a is open at 0": None}, False), ("allow_with_warnings", {"a is open at 0": "preexisting"}, True)]
    assert alone.id != against.id


def test_a_judgement_that_is_not_tolerant_denies_what_was_there(tmp_path: Path) -> None:
    new, old = stack({"a": group("all")}), stack({"a": group("all")})
    rules = rules_of(tmp_path, OPEN)
    decision = rules.decide(new, against=old, now=NOW, tolerant=False)
    assert (decision.outcome, read_changes(decision.violations)) == ("deny", {"a is open at 0": "preexisting"})
    assert decision.id != rules.decide(new, against=old, now=NOW).id


def test_the_id_covers_what_was_where_that_matters(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, OPEN)
    new, olds = stack({"a": group("all")}), [stack({"a": group(level)}) for level in ("all", "one", "two", "two")]
    first, second, third, fourth = (rules.decide(new, against=old, now=NOW).id for old in olds)
    assert len({first, second, third}) == 3
    assert third == fourth


@pytest.mark.parametrize(
    ("old_value", "outcome", "change"), [(2, "allow_with_warnings", "preexisting"), (0, "deny", "introduced")]
)
def test_a_policy_that_met_an_error_before_has_nothing_that_was_there(
    tmp_path: Path, old_value: int, outcome: str, change: str
) -> None:
    rules = rules_of(tmp_path, SHARE)
    new, old = (stack({}, parameters={"n": {"type": "number", "default": value}}) for value in (2, old_value))
    decision = rules.decide(new, against=old, now=NOW)
    assert (decision.outcome, read_changes(decision.violations), decision.errors) == (outcome, {"6": change}, ())


def test_what_is_new_for_one_value_of_a_parameter_is_denied(tmp_path: Path) -> None:
    parameter = {"type": "string", "constraints": [{"allowed_values": ["b", "c"]}]}
    new = stack({"s": server(availability_zone={"get_param": "z"})}, parameters={"z": parameter})
    old = stack({"s": server(availability_zone="b")})
    decision = rules_of(tmp_path, ZONE % "").decide(new, against=old, now=NOW)
    assert (decision.outcome, read_changes(decision.violations)) == ("deny", {"s in b; or s in c": "introduced"})


def test_what_lives_is_known_whatever_value_a_parameter_has(tmp_path: Path) -> None:
    text = '@deny("dead", "{s}") dead(s) :- os:nova:server(_id=s, name="b"), heat:status(id=s, status="FAILED").'
    parameter = {"type": "string", "constraints": [{"allowed_values": ["b", "c"]}]}
    new = stack({"s": server(name={"get_param": "z"})}, parameters={"z": parameter})
    new = replace(new, live=(Live(ResourceId("web/s"), "CREATE", "FAILED", "1"),))
    [finding] = rules_of(tmp_path, text).decide(new, now=NOW).undetermined
    assert finding.depends == "denied if parameter z is b"


def test_a_waiver_has_no_part_in_what_was_there(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, OPEN)
    words = {"id": "W-1", "policy": "open", "owner": "ann", "reason": "old", "subject": "a"}
    both = {"against": stack({"a": group("all")}), "now": NOW}
    for expires, outcome, waived in (("2028-01-01", "allow", True), ("2027-01-01", "allow_with_warnings", False)):
        decision = rules.decide(stack({"a": group("all")}), waivers=[{**words, "expires": expires}], **both)
        assert (decision.outcome, read_changes(decision.waived if waived else decision.violations)) == (
            outcome,
            {"a is open at 0": "preexisting"},
        )


def test_several_stacks_are_compared_each_with_the_one_of_its_name(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, OPEN)
    template = {"heat_template_version": "2018-08-31", "resources": {"a": group("all")}}
    stack, other = (dg.read_stack(template, stack_name=name) for name in ("one", "other"))
    decision = rules.decide([stack, other], against=[other], now=NOW)
    assert read_changes(decision.violations) == {
        "one/a is open at 0": "introduced",
        "other/a is open at 0": "preexisting",
    }


def test_a_hidden_value_that_heat_does_not_show_is_no_difference_by_itself(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, '@deny("p", "{v}") p(r, v) :- os:nova:server(_id=r, name=v).')
    keys = {"key": {"type": "string", "hidden": True}}
    template = {"heat_template_version": "2018-08-31", "parameters": keys}
    template["resources"] = {"s": server(name={"get_param": "key"})}
    definition = StackDefinition(template, masked=(("parameters", "key"),))
    old, new = (definition.stack("web", SHIPPED) for _ in range(2))
    decision = rules.decide(new, against=old, now=NOW)
    assert (decision.outcome, read_changes(decision.violations)) == ("allow_with_warnings", {"?": "preexisting"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rules, and the old and the new stack."""
    monkeypatch.chdir(tmp_path)
    rules_of(tmp_path, OPEN + ZONE % ', preexisting="deny"')
    old = {"a": group("all"), "s": server(availability_zone="b")}
    for name, resources in (("old", old), ("web", {**old, "b": group("all")})):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"heat_template_version": "2018-08-31", "resources": resources})
        )
    return tmp_path


CHECK = ["check", "web.json", "--rules", "m.dl", "--against", "old.json", "--ignore", "bad-text,wrong-kind"]
COMPACT = """\
web.json:1:275: deny[zone] s in b (not new)
web.json:1:372: deny[open] b is open at 0
web.json:1:145: preexisting[open] a is open at 0
2 denied, 1 preexisting, 0 warnings, 0 undetermined; 2 policies, 5 facts; deny; decision {}
"""
GITHUB = """\
::notice file=web.json,line=1,col=145,title=open::a is open at 0 (preexisting)
::error file=web.json,line=1,col=372,title=open::b is open at 0
::error file=web.json,line=1,col=275,title=zone::s in b (not new)
"""
JUNIT = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="datalog-gate">
  <testsuite name="web.json" failures="1" errors="0" skipped="1" tests="2">
    <testcase classname="web.json" name="open">
      <skipped message="a is open at 0 (preexisting)">web.json:1:145: error[open] a is open at 0 (preexisting)</skipped>
    </testcase>
    <testcase classname="web.json" name="zone">
      <failure message="s in b (not new)" type="zone">web.json:1:275: error[zone] s in b (not new)</failure>
    </testcase>
  </testsuite>
</testsuites>
"""


@pytest.mark.usefixtures("folder")
def test_people_see_what_was_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "--format", "json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert [violation["change"] for violation in printed["violations"]] == ["preexisting", "introduced", "preexisting"]
    assert main([*CHECK, "--format", "compact"]) == 1
    assert capsys.readouterr().out == COMPACT.format(printed["id"][:6])
    assert main([*CHECK, "--format", "text"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert lines == COMPACT.format(printed["id"][:6]).splitlines()


@pytest.mark.usefixtures("folder")
def test_programs_see_what_was_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "--format", "github"]) == 1
    assert capsys.readouterr().out == GITHUB
    assert main([*CHECK, "--format", "sarif"]) == 1
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert [result["baselineState"] for result in run["results"]] == ["unchanged", "new", "unchanged"]
    assert main(["check", "old.json", *CHECK[2:], "--format", "junit"]) == 1
    assert capsys.readouterr().out == JUNIT.replace("web", "old")


def test_rules_that_read_an_old_state_without_one_are_noted(folder: Path) -> None:
    rules = rules_of(folder, OPEN)
    update, compared = (rules.decide(stack({}), action="update", against=old, now=NOW) for old in ((), stack({})))
    create = rules.decide(stack({}), now=NOW)
    read = ["heat:change", "old:os:nova:server"]
    message = (
        "the rules read heat:change, old:os:nova:server, but the state of the stack before is not given: "
        "use --against OLD"
    )
    assert list(format_comparison_notes(read, [create, update, compared])) == [message]
    assert list(format_comparison_notes(read, [create, compared])) == []
    assert list(format_comparison_notes([], [update])) == []
    new = "new(r) :- heat:resource(id=r), gate:request(action=_), not old:heat:resource(id=r)."
    assert rules_of(folder, f'@deny("new", "{{r}} is new")\n{new}').compared_relations == ["old:heat:resource"]
