"""The decision point: verdicts, exemptions, reloads and records."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from datalog_gate import __version__
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError, RulesError
from datalog_gate.decision_point.break_glass import BreakGlass, read_break_glass
from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.log import DecisionLog, read_log
from datalog_gate.decision_point.operation import REASON, Answer, Operation
from datalog_gate.decision_point.point import DecisionPoint, build_caller, create_point
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.decision_point.settings import Settings
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.services.consultation import Ending
from datalog_gate.services.journal import Journal
from tests.commands import read_conf
from tests.licence_server import Handler, Server, allow, drip, hang, licence_server, refuse, says

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
FLAVOR = (
    '@deny("flavor", "{s} takes {f}", hint="take a small one")\n'
    'flavor(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".\n'
)
IMAGE = (
    '@warn("image", "{s} runs {i}", notify=["ops@cloud"])\nimage(s, i) :- os:nova:server(_id=s, image=i), i = "old".\n'
)
MEMBER = {"user_id": "u1", "project_id": "p1", "roles": ["member"], "project_domain_id": "d1"}
ADMIN = {"user_id": "root", "project_id": "p1", "roles": ["admin"], "project_domain_id": "d1"}
HUGE = "The policies deny this stack: flavor: web takes huge at resources.web.properties.flavor (take a small one)"
DENIED = f"{HUGE} [decision {{}}]"


def template(flavor: object = "huge", image: object = "debian", **more: Any) -> dict[str, Any]:
    """A template of one server."""
    server = {"type": "OS::Nova::Server", "properties": {"flavor": flavor, "image": image}}
    return {"heat_template_version": "2018-08-31", "resources": {"web": server}, **more}


def make_operation(body: Mapping[str, Any] | StackDefinition | None = None, **more: Any) -> Operation:
    """A creation by a member, unless other fields are given."""
    definition = body if isinstance(body, StackDefinition) else StackDefinition(body or template())
    values = {"door": "api", "action": "create", "stack_name": "s", "project": "p1", "credentials": MEMBER} | more
    return Operation(definition=lambda: definition, **values)


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def now(self) -> datetime:
        """The time of day."""
        return NOW + timedelta(seconds=self.time)


PointFactory = Callable[..., DecisionPoint]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_point(tmp_path: Path, clock: Clock) -> PointFactory:
    """Create points with the two policies and a log, from options as texts."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "m.dl").write_text(FLAVOR + IMAGE)

    def point(**options: str) -> DecisionPoint:
        conf = read_conf()
        base = {"rules": str(tmp_path / "rules"), "decision_log": str(tmp_path / "log.jsonl")}
        chosen = build_settings(conf, base | options)
        return DecisionPoint(chosen, Entitlements(conf, chosen.services), clock, clock.now)

    return point


def records(point: DecisionPoint) -> list[dict[str, Any]]:
    """The records of the log without those of loading rules."""
    point.flush()
    records = [
        dict(record) for record in read_log(Path(point.settings.decision_log)) if not isinstance(record, Diagnostic)
    ]
    return [record for record in records if record["kind"] != "loaded"]


def test_a_denied_stack_is_refused_with_policy_place_hint_and_id(make_point: PointFactory) -> None:
    point = make_point()
    answer = point.judge(make_operation())
    assert answer.decision
    reason, warnings = DENIED.format(answer.id[:6]), ("flavor: web takes huge",)
    assert answer == Answer("denied", answer.id, reason, warnings, answer.decision, names_decision=True)
    assert not answer.allowed


def test_an_allowed_stack_goes_on_and_its_warnings_are_logged(
    make_point: PointFactory, caplog: pytest.LogCaptureFixture
) -> None:
    answer = make_point().judge(make_operation(template("small", "old")))
    assert (answer.verdict, answer.reason, answer.warnings) == ("allowed", "", ("image: web runs old",))
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == [f"decision {answer.id}: image: web runs old (notify ops@cloud)"]


def test_a_stack_s_name_writes_no_line_of_the_log(make_point: PointFactory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    make_point().judge(make_operation(stack_name="s\n\x1b[2Jforged", credentials=None))
    assert [record for record in caplog.records if not record.getMessage().isprintable()] == []
    assert "of s\ufffd\ufffd[2Jforged: undecided" in caplog.records[-1].getMessage()


def test_a_reason_is_one_printable_line_within_its_bound(make_point: PointFactory) -> None:
    answer = make_point().judge(make_operation(template(resources={"web\n" + "x" * 9000: 5})))
    assert (len(answer.reason) <= REASON, answer.reason.isprintable(), answer.verdict) == (True, True, "unreadable")


@pytest.mark.parametrize(
    ("options", "question", "verdict", "why"),
    [
        ({}, {"action": "rollback"}, "allowed", "a request for a rollback is not judged"),
        ({"mode": "off"}, {}, "allowed", "the gate is off"),
        ({"project_modes": "p1:off"}, {}, "allowed", "the gate is off"),
        ({"project_modes": "p2:off"}, {}, "denied", ""),
        ({"exempt_projects": "p9,p1"}, {}, "allowed", "the project is exempt"),
        ({"exempt_users": "u1"}, {}, "allowed", "the user is exempt"),
        ({"exempt_users": "p1"}, {}, "denied", ""),
        ({"mode": "warn"}, {}, "allowed", ""),
        ({"mode": "record", "project_modes": "p1:enforce"}, {}, "denied", ""),
        ({"policy_modes": "flavor:off"}, {}, "allowed", ""),
        ({"policy_modes": "flavor:record"}, {}, "allowed", ""),
        ({}, {"credentials": None}, "undecided", "The caller is not authenticated: no authtoken comes before the "
        "gate."),
        ({"mode": "record"}, {"credentials": None}, "allowed", "the mode is record: The caller is not"),
        ({"exempt_projects": "p1"}, {"credentials": None}, "undecided", "The caller is not"),
        ({}, {"credentials": None, "action": "delete"}, "allowed", "delete is allowed when it can't be judged: "
        "The caller"),
    ],
)  # fmt: skip
def test_what_passes_unjudged_says_why(
    make_point: PointFactory, options: dict[str, str], question: dict[str, Any], verdict: str, why: str
) -> None:
    point = make_point(**options)
    answer = point.judge(make_operation(**question))
    [record] = records(point)
    reason = record["reason"] if verdict == "allowed" else answer.reason
    assert (answer.verdict, reason[: len(why)]) == (verdict, why)
    assert answer.allowed == (verdict == "allowed")
    assert not (answer.warnings and "policy_modes" in options)


def test_an_action_that_no_policy_names_is_not_even_read(make_point: PointFactory) -> None:
    def never() -> StackDefinition:
        raise AssertionError("nobody was to look")

    point = make_point()
    assert point.judge(Operation("api", "suspend", "s", "p1", never, MEMBER)) == Answer("allowed", "")


def test_a_denied_suspension_is_not_lifted(make_point: PointFactory, tmp_path: Path) -> None:
    (tmp_path / "rules" / "m.dl").write_text(FLAVOR.replace("hint", 'on=["suspend"], hint'))
    answer = make_point().judge(make_operation(action="suspend"))
    assert (answer.verdict, answer.reason) == ("denied", DENIED.format(answer.id[:6]))


RESIZED = '@{level}("resized", "{{s}} is resized", on=["update"])\nresized(s) :- heat:disruption(s, "resize").\n'


@pytest.mark.parametrize(("level", "verdict"), [("deny", "unreadable"), ("warn", "allowed"), ("record", "allowed")])
def test_only_a_policy_that_denies_stops_an_update_without_the_older_state(
    make_point: PointFactory, tmp_path: Path, level: str, verdict: str
) -> None:
    (tmp_path / "rules" / "m.dl").write_text(RESIZED.format(level=level))
    answer = make_point().judge(make_operation(template("small"), door="cfn", action="update"))
    reason = (
        "policies judge the changes of this operation, but the state of the stack before it is not known "
        "here (use the orchestration API)"
    )
    assert (answer.verdict, answer.reason.partition(": ")[2].partition(" [")[0]) == (
        verdict, reason if level == "deny" else "")  # fmt: skip


@pytest.mark.parametrize("newly", [True, False])
def test_the_old_stack_is_logged_without_the_secrets_of_either_state(make_point: PointFactory, newly: bool) -> None:
    new, old = (
        template({"get_param": "pin"}, parameters={"pin": {"type": "string", "hidden": hidden}})
        for hidden in (newly, not newly)
    )
    before = StackDefinition(old, parameters={"pin": "s3cret", "gone": "x"})
    point = make_point()
    point.judge(
        make_operation(StackDefinition(new, parameters={"pin": "s3cret"}), action="update", against=lambda: before)
    )
    [record] = records(point)
    assert record["inputs"]["against"] == {**before.to_json(), "parameters": {"pin": "******", "gone": "x"}}


@pytest.mark.parametrize("action", ["create", "suspend"])
def test_the_old_stack_is_not_read_for_an_operation_that_changes_nothing(make_point: PointFactory, action: str) -> None:
    point = make_point()
    assert point.judge(make_operation(template("small"), action=action, against=lambda: 1 / 0)).verdict == "allowed"


def test_an_exceeded_budget_is_undecided_and_closes_what_builds_only(make_point: PointFactory, tmp_path: Path) -> None:
    on = 'on=["create", "delete"]'
    pairs = f'@deny("pairs", "{{x}}", {on})\npairs(x, y) :- heat:resource(id=x), heat:resource(id=y).\n'
    (tmp_path / "rules" / "m.dl").write_text(pairs)
    point = make_point(budget_facts="3")
    many = template(resources={name: template()["resources"]["web"] for name in "abc"})
    answers = [point.judge(make_operation(many, action=action)) for action in ("create", "delete")]
    reason = (
        "The policies could not be evaluated: pairs could not be evaluated: more than 3 facts: the rule of m:pairs at"
    )
    assert [(answer.verdict, answer.reason[: len(reason)]) for answer in answers] == [
        ("undecided", reason),
        ("allowed", ""),
    ]


def test_break_glass_lifts_refusals_for_the_users_of_the_policy_until_its_time(
    make_point: PointFactory, tmp_path: Path, clock: Clock
) -> None:
    glass = tmp_path / "glass"
    point = make_point(break_glass=str(glass))
    verdicts = [point.judge(make_operation(credentials=ADMIN)).verdict]
    glass.write_text("2027-03-01T12:10 storage outage, see 4711\n")
    lifted = point.judge(make_operation(credentials=ADMIN))
    verdicts += [lifted.verdict, point.judge(make_operation()).verdict]
    clock.time = 600.0
    verdicts += [point.judge(make_operation(credentials=ADMIN)).verdict]
    assert verdicts == ["denied", "allowed", "denied", "denied"]
    assert lifted.warnings == (DENIED.format(lifted.id[:6]), "flavor: web takes huge")
    own = {"id": lifted.id, "until": "2027-03-01T12:10:00+00:00", "why": "storage outage, see 4711"}
    [event] = [record for record in records(point) if record["kind"] == "broken_glass"]
    assert {name: event[name] for name in own} == own


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-03-01T12:10", BreakGlass(NOW + timedelta(minutes=10), "no reason given")),
        ("2027-03-01T14:00+01:00 why", BreakGlass(NOW + timedelta(hours=1), "why")),
        ("2027-03-01T12:00 late", None),
        ("2027-03-02T12:01 too far", None),
        ("9999-12-31T23:59-14:00 no such time in UTC", None),
        ("tomorrow", None),
        (None, None),
    ],
)
def test_a_glass_is_broken_by_a_time_ahead_within_a_day(
    tmp_path: Path, text: str | None, expected: BreakGlass | None
) -> None:
    if text:
        (tmp_path / "glass").write_text(text)
    assert read_break_glass(str(tmp_path / "glass"), NOW) == expected


def test_changed_rules_come_into_force_and_bad_ones_leave_the_last_good(
    make_point: PointFactory, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    point, rules = make_point(), tmp_path / "rules" / "m.dl"
    verdicts = [point.judge(make_operation()).verdict]
    for text, seconds in [("p(", 4), ("p(", 6), (FLAVOR.replace("huge", "small"), 12), (FLAVOR, 18)]:
        rules.write_text(text)
        os.utime(rules, (seconds, seconds))
        clock.time = float(seconds)
        verdicts.append(point.judge(make_operation()).verdict)
    assert verdicts == ["denied", "denied", "denied", "allowed", "denied"]
    [failed] = [record for record in records(point) if record["kind"] == "reload_failed"]
    assert [diagnostic["code"] for diagnostic in failed["diagnostics"]] == ["syntax"]
    own = [record for record in caplog.records if str(rules) in record.getMessage()]  # other points may still reload
    assert [record.levelname for record in own] == ["ERROR"]


def test_deleted_rules_stay_in_force_and_the_failure_is_logged_once(
    make_point: PointFactory, tmp_path: Path, clock: Clock
) -> None:
    point, rules = make_point(), tmp_path / "rules"
    verdicts = []
    for change in (lambda: rules.rename(tmp_path / "away"), lambda: None, lambda: (tmp_path / "away").rename(rules)):
        change()
        clock.time += 6.0
        verdicts.append(point.judge(make_operation()).verdict)
    assert verdicts == ["denied"] * 3
    assert [record["kind"] for record in records(point)].count("reload_failed") == 1


def test_rules_that_change_under_an_old_date_are_read_again(
    make_point: PointFactory, tmp_path: Path, clock: Clock
) -> None:
    point, rules = make_point(), tmp_path / "rules" / "m.dl"
    dated = rules.stat()
    rules.write_text((FLAVOR + IMAGE).replace("huge", "mini"))
    os.utime(rules, ns=(dated.st_atime_ns, dated.st_mtime_ns))
    clock.time = 6.0
    verdicts = [point.judge(make_operation(template(flavor))).verdict for flavor in ("huge", "mini")]
    assert verdicts == ["allowed", "denied"]


def test_a_point_without_good_files_is_not_made(make_point: PointFactory, tmp_path: Path) -> None:
    (tmp_path / "waivers.yaml").write_text(WAIVED.replace("flavor", "flavuor"))
    for name in ("waivers.yaml", "none.yaml"):
        with pytest.raises(InputError):
            make_point(waivers=str(tmp_path / name))
    (tmp_path / "rules" / "m.dl").unlink()
    with pytest.raises(RulesError):
        make_point()
    with pytest.raises(InputError):
        make_point(rules=str(Path(__file__).parents[3] / "rules"), inventory=str(tmp_path / "none.jsonl"))


def test_an_inventory_is_loaded_again_when_it_changes(make_point: PointFactory, tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "rules" / "m.dl").write_text(
        'relation allowed(flavor: string).\n@deny("f", "{f}")\n'
        "f(s, f) :- os:nova:server(_id=s, flavor=f), not allowed(f).\n"
    )
    offered = tmp_path / "offered.jsonl"
    offered.write_text("")
    point = make_point(inventory=str(offered))
    before = point.judge(make_operation()).verdict
    offered.write_text('{"relation": "m:allowed", "row": ["huge"]}\n')
    clock.time = 5.0
    os.utime(offered, (NOW.timestamp() - 90, NOW.timestamp() - 90))
    meanwhile = point.judge(make_operation()).verdict
    point.reloader.wait(60)
    assert (before, meanwhile, point.judge(make_operation()).verdict) == ("denied", "denied", "allowed")
    assert records(point)[-1]["ages"] == {"inventory": 95}


WAIVED = "waivers:\n- {id: W-1, policy: flavor, subject: web, project: p1, owner: o, reason: r, expires: 2027-03-02}\n"


def test_waivers_are_loaded_again_when_they_change_and_bad_ones_leave_the_last_good(
    make_point: PointFactory, tmp_path: Path, clock: Clock
) -> None:
    file = tmp_path / "waivers.yaml"
    file.write_text("waivers:\n")
    point = make_point(waivers=str(file))
    answers = [point.judge(make_operation())]
    for text in (WAIVED, "", WAIVED.replace("flavor", "flavuor"), WAIVED.replace("p1", "p2"), WAIVED):
        file.write_text(text)
        clock.time += 6.0
        answers.append(point.judge(make_operation()))
    clock.time = 86400.0
    answers.append(point.judge(make_operation()))
    waived = ("flavor: waived until 2027-03-02 by W-1: web takes huge",)
    assert [answer.warnings for answer in answers if answer.allowed] == [waived] * 4
    assert [answer.verdict for answer in answers] == ["denied", *["allowed"] * 3, "denied", "allowed", "denied"]
    assert [record["kind"] for record in records(point)].count("reload_failed") == 2
    assert answers[-1].reason == DENIED.format(answers[-1].id[:6]).replace(
        "small one", "small one; waiver W-1 expired 2027-03-02"
    )
    [*_, last] = records(point)
    assert (last["decision"]["waived"], last["inputs"]["waivers"]) == (
        [], [{"id": "W-1", "policy": "flavor", "subject": "web", "project": "p1", "owner": "o", "reason": "r",
              "expires": "2027-03-02"}],
    )  # fmt: skip


def test_the_record_of_a_decision_has_all_it_was_made_of_but_secrets(make_point: PointFactory) -> None:
    body = template({"get_param": "f"}, parameters={"f": {"type": "string"}, "key": {"type": "string", "hidden": True}})
    body["resources"]["web"]["properties"]["admin_pass"] = {"get_param": "key"}
    definition = StackDefinition(
        body, {"parameters": {"key": "s3cret"}, "encrypted_param_names": []}, {"f": "huge"}, {"a": "x s3cret y"}
    )
    point = make_point(mode="warn", policy_modes="image:record")
    answer = point.judge(make_operation(definition, stack_id="i1", request_id="req-1", dry_run=True))
    assert answer.decision
    [record] = records(point)
    assert record.pop("seconds") == {"read": 0.0, "decide": 0.0}
    assert record == {
        "schema": "datalog-gate/log/1", "kind": "decision", "version": __version__, "time": NOW.isoformat(),
        "id": answer.decision.id,
        "verdict": "allowed", "door": "api", "action": "create", "stack_name": "s", "stack_id": "i1", "project": "p1",
        "reason": "", "user": "u1", "request_id": "req-1", "dry_run": True, "redacted": ["key"], "ages": {},
        "decision": json.loads(json.dumps(answer.decision.to_json())),
        "inputs": {
            "stack_name": "s", "action": "create", "now": NOW.isoformat(), "mode": "warn", "modes": {"image": "record"},
            "caller": {"user": "u1", "project": "p1", "domain": "d1", "roles": ["member"]}, "services": [],
            "waivers": [], "definition": definition.to_json() | {
                "environment": {"parameters": {"key": "******"}, "encrypted_param_names": []},
                "files": {"a": "x ****** y"},
            },
        },
    }  # fmt: skip


def test_the_record_after_a_full_disk_has_the_number_of_lost_ones(
    make_point: PointFactory, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    point = make_point(decision_log="/dev/full")
    answer = point.judge(make_operation())
    point.flush()
    lost = [record.getMessage().partition(":")[0] for record in caplog.records if record.levelno == logging.ERROR]
    assert (answer.verdict, lost) == (
        "denied",
        [f"the decision log has lost {count} records so far" for count in (1, 2)],
    )
    log = DecisionLog(str(tmp_path / "no" / "log"), 10_000)
    log.write({"schema": "datalog-gate/log/1", "kind": "n"})
    log.flush(2.0)
    (tmp_path / "no").mkdir()
    log.write({"schema": "datalog-gate/log/1", "kind": "m"})
    log.flush(2.0)
    records = [record for record in read_log(tmp_path / "no" / "log") if not isinstance(record, Diagnostic)]
    assert [(record["kind"], record.get("count")) for record in records] == [("dropped", 1), ("m", None)]


@pytest.fixture
def licences() -> Iterator[Server]:
    with licence_server() as server:
        yield server


@pytest.fixture
def licensed(make_point: PointFactory, licences: Server, tmp_path: Path) -> PointFactory:
    """Create points that ask the server before creations and deletions."""
    options = f"licence_server.url={licences.url}\nlicence_server.actions=create,delete"
    return partial(make_point, services="licence_server", service_option=options, store=str(tmp_path / "journal"))


def test_services_for_every_stack_are_asked_after_the_policies(licensed: PointFactory, licences: Server) -> None:
    licences.answers = [allow, allow, refuse("no seat left"), says(b"", 500), says(b"", 500), says(b"", 500)]
    point, small = licensed(), template("small")
    first = point.judge(make_operation(small))
    point.finish(first, "complete")
    answers = [
        point.judge(make_operation(small, dry_run=True)),
        point.judge(make_operation(small, asks_services=False)),
        point.judge(make_operation()),
        point.judge(make_operation(small, request_id="r1")),
        point.judge(make_operation(small, request_id="r2")),
    ]
    answers += [point.judge(make_operation(small, action=action)) for action in ("rollback", "suspend")]
    licences.answers = [says(b"", 500)] * 3
    answers += [point.judge(make_operation(small, action="delete"))]
    paths = [path for path, *_ in licences.requests]
    silent = "licence_server could not be consulted: the licence server gave an unreadable answer, with status 500"
    assert first.allowed
    assert [(answer.verdict, answer.reason.partition(" [")[0]) for answer in answers] == [
        ("allowed", ""), ("allowed", ""),
        ("denied", HUGE),
        ("denied", "licence_server refuses this: no seat left"),
        ("undecided", silent),
        ("allowed", ""), ("allowed", ""), ("allowed", ""),
    ]  # fmt: skip
    assert paths[:3] == ["/licences", "/licences/outcome", "/licences"]
    assert answers[-1].warnings == (silent,)


@pytest.mark.parametrize("answer", [hang, drip])
def test_a_service_that_hangs_stops_what_creates_and_no_deletion(
    licensed: PointFactory, licences: Server, answer: Callable[[Handler], None]
) -> None:
    licences.answers = [answer, answer]
    point = licensed(service_call_seconds="0.2")
    created = point.judge(make_operation(template("small")))
    deleted = point.judge(make_operation(template("small"), action="delete"))
    silent = "licence_server could not be consulted: did not answer within 0.2 seconds"
    assert (created.verdict, created.reason, created.warnings) == ("undecided", silent, ())
    assert (deleted.verdict, deleted.reason, deleted.warnings) == ("allowed", "", (silent,))


@pytest.mark.parametrize(
    ("ending", "stack_id", "kept"),
    [("accepted", "6b", ["6b"]), ("accepted", "", [""]), ("failed", "6b", []), ("complete", "", [])],
)
def test_an_accepted_operation_is_kept_until_its_outcome_is_known(
    licensed: PointFactory, tmp_path: Path, ending: Ending, stack_id: str, kept: list[str]
) -> None:
    point = licensed()
    point.finish(point.judge(make_operation(template("small"))), ending, stack_id)
    point.finish(point.judge(make_operation(template("small"), action="delete", dry_run=True)), "accepted")
    claims = Journal(str(tmp_path / "journal")).claims()
    assert [(claim.service, claim.action, claim.state, claim.stack) for claim in claims] == [
        ("licence_server", "create", "reserved", stack) for stack in kept
    ]


def test_without_the_store_nothing_is_created_and_deletions_go_on(
    licensed: PointFactory, licences: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    point = licensed()
    begun = point.judge(make_operation(template("small"), request_id="r1"))
    (tmp_path / "journal").write_text("no database" * 99)
    point.finish(begun, "accepted", "6b")
    answers = [point.judge(make_operation(template("small"), action=action)) for action in ("create", "delete")]
    lost = "the services could not be consulted: journal: file is not a database"
    assert [(answer.verdict, answer.reason, answer.warnings) for answer in answers] == [
        ("undecided", lost, ()),
        ("allowed", "", (lost,)),
    ]
    left = "that an operation is accepted is left to `datalog-gate services reconcile`: journal: file is not a database"
    assert (left in caplog.messages, [path for path, *_ in licences.requests]) == (True, ["/licences"])


def test_a_paste_section_overrides_the_configuration_of_a_point(tmp_path: Path) -> None:
    rules = Path(__file__).parents[3] / "rules"
    (tmp_path / "heat.conf").write_text(f"[datalog_gate]\nrules = {rules}\nmode = warn\nbudget_seconds = 1.5\n")
    conf = read_conf(tmp_path / "heat.conf")
    point = create_point(conf, {"mode": "record", "exempt_users": "a, b"})
    chosen = Settings(rules=(str(rules),), mode="record", budget_seconds=1.5, exempt_users=("a", "b"))
    assert point.settings == chosen
    with pytest.raises(ValueError, match="enforced"):
        create_point(conf, {"policy_modes": "net.open_ssh:enforced"})


def test_the_caller_of_rules_comes_of_the_host_s_credentials() -> None:
    everything = {"user": "u1", "project": "p1", "domain": "d1", "roles": ["member"]}
    assert build_caller(MEMBER) == everything
    nobody: dict[str, object] = {"user": None, "project": None, "domain": "d2", "roles": []}
    assert build_caller({"roles": "admin", "domain_id": "d2"}) == nobody
