"""The contents of each page, and the actions of its form."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any
from urllib.parse import urlencode

from datalog_gate.analysis.policy import LEVELS
from datalog_gate.base.records import dataclass
from datalog_gate.doors.server.pages.api_client import ApiClient, RefusedRequestError
from datalog_gate.pages.decision_page import choose_shown
from datalog_gate.pages.plots import plot_days
from datalog_gate.pages.rendering import part

ROWS = 50
"""The number of rows on a list page."""
MOST = 1000
"""The number of rows that the API gives at once."""
LONGEST = 20_000
"""The maximum length of a template that the trial page repeats in its field."""
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageCall:
    """A request to a page."""

    api: ApiClient
    may: Callable[[str], bool]
    """Whether the caller may use the endpoint of this name."""
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]

    def list(self, path: str, **query: object) -> Any:
        """A page of a list of the API."""
        return self.api.get(path, limit=ROWS, marker=self.query.get("marker"), **query)

    def sort(self, name: str, key: Callable[[Any], Any], **query: object) -> Values:
        """A page of a list of the API, in an order that the API does not have: its marker is the number to skip."""
        rows, answer = list[Any](), {"next": None}
        while "next" in answer:
            answer = self.api.get(f"/v2/{name}", limit=MOST, marker=answer["next"], **query)
            rows += answer[name]
        text = self.query.get("marker", "")[:9]
        skip = int(text) if text.isdecimal() else 0
        after = skip + ROWS
        page = sorted(rows, key=key)[skip:after]
        return {name: page, "total": len(rows), "next": str(after) if after < len(rows) else ""}


@dataclass(frozen=True, slots=True)
class Shown:
    """The data that a template renders."""

    title: str
    values: Values
    status: int = 200
    refresh: int = 0
    """Seconds until the page reloads; 0 for never."""


@dataclass(frozen=True, slots=True)
class View:
    """A page, by its path."""

    path: str
    template: str
    area: str
    """The entry of the menu."""
    show: Callable[[PageCall], Shown]
    post: Callable[[PageCall], str] | None = None
    """Performs the action of its form, and returns the path to redirect to. Errors: RefusedRequestError."""
    filters: Sequence[str] = ()
    """The parameters that links to the next page keep."""
    twin: str = ""
    """The API path with the same data; empty if it is the path of the page below /v2."""


def _show_home(call: PageCall) -> Shown:
    problem, overview, days = "", None, []
    try:
        overview, days = call.api.get("/v2/overview"), call.api.get("/v2/days")["days"]
    except RefusedRequestError as error:
        if error.status == 403:
            raise
        problem = f"{error}: {error.error.get('suggestion', '')}".rstrip(": ")
    values: Values = {"problem": problem, "overview": overview, "plot": plot_days(days), "days": days[-10:]}
    found = overview["findings"] if overview else ()
    for name in ("policy", "project", "owner"):
        values[f"by_{name}"] = _add_up(found, name)
    values["numbers"] = Counter[str]()
    for row in found:
        values["numbers"][row["level"] if row["state"] == "holds" else row["state"]] += row["number"]
    values["decisions"] = call.api.get("/v2/decisions", limit=8)["decisions"]
    waiting = call.api.get("/v2/approvals", limit=MOST, state="awaiting")
    number = f"{len(waiting['approvals'])}{'+' if 'next' in waiting else ''}"
    values |= {"waiting": waiting["approvals"][:8], "number": number}
    return Shown("Cloud", values)


def _add_up(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[str, int, float]]:
    """The numbers by the values of a column, with their shares in percent: at most ten, the largest first."""
    numbers: dict[str, int] = {}
    for row in rows:
        numbers[row[name]] = numbers.get(row[name], 0) + row["number"]
    largest = sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0]))[:10]
    return [(value, number, round(100 * number / sum(numbers.values()), 1)) for value, number in largest]


def _show_decisions(call: PageCall) -> Shown:
    query = {name: call.query.get(name, "") for name in ("search", "sort")}
    return Shown("Decisions", {**call.list("/v2/decisions", **query), "query": query})


def _show_decision(call: PageCall) -> Shown:
    data = call.api.get(f"/v2/decisions/{part(call.path['decision'])}", page="true")
    page = data.get("page")
    title = f"{page['heading']}: {page['title']}" if page else f"Decision {data['id'][:12]}"
    return Shown(title, {"page": page, "data": data, "may_waive": call.may("waiver:create")})


def _show_stacks(call: PageCall) -> Shown:
    query = {name: call.query.get(name, "") for name in ("outcome", "project", "search", "sort")}
    query["sort"] = query["sort"] or "findings"
    return Shown("Stacks", {**call.list("/v2/stacks", **query), "query": query})


def _show_stack(call: PageCall) -> Shown:
    stack = call.api.get(f"/v2/stacks/{part(call.path['stack'])}")
    query = {"policy": call.query.get("policy", ""), "state": call.query.get("state", "open")}
    values: Values = {"findings": [], "query": query, "left": {}, "rest": []}
    if query == {"policy": "", "state": "open"}:
        severest = [finding for finding in sorted(stack["open"], key=_order_key) if not _is_quiet(finding)]
        values["rest"] = list(filter(_is_quiet, stack["open"]))
        policies = [finding["policy"] for finding in severest]
        values["findings"] = [severest[at] for at in choose_shown(policies, ROWS)]
        values["left"] = Counter(policies) - Counter(finding["policy"] for finding in values["findings"])
    else:
        values |= call.sort(
            "findings",
            lambda finding: (finding["resolved_at"] or "", *_order_key(finding)),
            stack=stack["root"],
            **query,
        )
    may = {"may_judge": call.may("stack:judge"), "may_waive": call.may("waiver:create")}
    return Shown(f"Stack {stack['name']}", {"stack": stack, **values, **may})


def _is_quiet(finding: Mapping[str, Any]) -> bool:
    """Whether an open finding asks for no change."""
    return bool(finding["state"] == "waived" or finding["level"] == "record")


def _order_key(finding: Mapping[str, Any]) -> tuple[bool, int, str, int]:
    """The sort key on the page of a stack: what denies it first, then by policy, then from the top of the file down."""
    place = finding["place"] or {}
    return not finding["denies"], LEVELS.index(finding["level"]), finding["policy"], place.get("line") or 0


def _judge_stack(call: PageCall) -> str:
    decision = call.api.ask("POST", f"/v2/stacks/{part(call.path['stack'])}/decisions")
    return f"/pages/decisions/{decision['id']}"


def _show_policies(call: PageCall) -> Shown:
    numbers = Counter[str]()
    with suppress(RefusedRequestError):  # there are no numbers without scans
        for row in call.api.get("/v2/overview")["findings"]:
            numbers[row["policy"]] += row["number"]
    query = {name: call.query.get(name, "") for name in ("level", "search")}
    policies = call.sort("policies", lambda policy: (-numbers[policy["id"]], policy["id"]), **query)
    return Shown("Policies", {**policies, "numbers": numbers, **query})


def _show_policy(call: PageCall) -> Shown:
    policy = call.api.get(f"/v2/policies/{part(call.path['policy'])}")
    values: Values = {"policy": policy, "stacks": [], "findings": [], "days": [], "by_project": [], "problem": ""}
    try:
        with suppress(RefusedRequestError):  # the marker of findings about the whole cloud is none of stacks
            values |= call.list("/v2/stacks", policy=policy["id"], sort="findings")
        if values["stacks"]:  # those about the whole cloud come first
            findings = call.api.get("/v2/findings", policy=policy["id"], limit=ROWS)["findings"]
            values["findings"] = [finding for finding in findings if not finding["root"]]
        else:
            values |= call.list("/v2/findings", policy=policy["id"])
        values["days"] = call.api.get("/v2/days", policy=policy["id"])["days"]
        rows = [row for row in call.api.get("/v2/overview")["findings"] if row["policy"] == policy["id"]]
        values["by_project"] = _add_up(rows, "project")
    except RefusedRequestError as error:
        values["problem"] = str(error)
    values["plot"] = plot_days(values["days"])
    values["waivers"] = call.api.get("/v2/waivers", policy=policy["id"], limit=ROWS)["waivers"]
    values["may_waive"] = call.may("waiver:create")
    return Shown(f"Policy {policy['id']}", values)


def _show_approvals(call: PageCall) -> Shown:
    state = call.query.get("state", "awaiting")
    return Shown("Approvals", {**call.list("/v2/approvals", state=state), "state": state})


def _show_approval(call: PageCall) -> Shown:
    approval = call.api.get(f"/v2/approvals/{part(call.path['approval'])}")
    return Shown(f"Approval {approval['id']}", {"approval": approval, "may_answer": call.may("approval:answer")})


def _answer_approval(call: PageCall) -> str:
    path = f"/v2/approvals/{part(call.path['approval'])}/verdicts"
    body = {"verdict": call.form.get("verdict", ""), "why": call.form.get("why", "")}
    call.api.ask("POST", path, body=body)
    return f"/pages/approvals/{part(call.path['approval'])}"


WAIVED = ("policy", "subject", "project", "key", "while", "reason", "expires", "ticket")


def _show_waivers(call: PageCall) -> Shown:
    given = {name: call.query.get(name, "") for name in WAIVED} | dict(call.form)
    values = {"given": given, "may_waive": call.may("waiver:create"), "created": None}
    values["policy"] = call.query.get("policy", "")
    if number := call.query.get("created"):
        with suppress(RefusedRequestError):
            values["created"] = call.api.get(f"/v2/waivers/{part(number)}")
    return Shown("Waivers", {**call.list("/v2/waivers", policy=values["policy"]), **values})


def _give_waiver(call: PageCall) -> str:
    if ended := call.form.get("end"):
        call.api.ask("DELETE", f"/v2/waivers/{part(ended)}")
        return "/pages/waivers"
    entry: Values = {name: call.form[name] for name in WAIVED if call.form.get(name)}
    if "key" in entry:
        entry["key"] = dict(_read_pair(line) for line in entry["key"].splitlines() if line.strip())
    waiver = call.api.ask("POST", "/v2/waivers", body=entry)
    return f"/pages/waivers?created={part(waiver['id'])}"


def _read_pair(line: str) -> tuple[str, object]:
    """A column and its value, as ``size = 5`` or ``group = web/sg``: JSON, or a text."""
    name, _, text = line.partition("=")
    try:
        return name.strip(), json.loads(text)
    except ValueError:
        return name.strip(), text.strip()


def _show_inventory(call: PageCall) -> Shown:
    return Shown("Inventory", call.api.get("/v2/inventory"))


START = """\
@deny("web.flavor", "{server} takes {flavor}", hint="take m1.small")
large(server, flavor) :-
  os:nova:server(_id=server, flavor=flavor), flavor = "m1.huge".
"""
TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  web:
    type: OS::Nova::Server
    properties: {image: debian-12, flavor: m1.huge}
"""


EXAMPLES = (
    ("a flavor", START),
    (
        "a large volume",
        '@warn("web.size", "{volume} has {size} GiB")\nlarge(volume, size) :-\n'
        "  os:cinder:volume(_id=volume, size=size), size != null, size > 100.\n",
    ),
    (
        "who asks",
        '@deny("web.lab", "{user} asks for the lab")\nof_lab(user) :- gate:caller(user=user, project="lab").\n',
    ),
)
"""Rules to begin with, by name."""


def _show_playground(call: PageCall) -> Shown:
    rules = dict(EXAMPLES).get(call.query.get("example", ""), START)
    given = {"rules": rules, "template": TEMPLATE} | dict(call.form)
    values = {"examples": EXAMPLES, "given": given, "trial": None, "longest": inf, "may_try": call.may("trial:create")}
    return Shown("Playground", values)


def _try_rules(call: PageCall, kept: str = "") -> str:
    """Try the rules of the form on its template, or on the stored one if the form has no template field."""
    rules, template = call.form.get("rules", ""), call.form.get("template", kept)
    if not rules.strip():
        decision = call.api.ask("POST", "/v2/decisions", body={"template": template})
        return f"/pages/decisions/{decision['id']}"
    body = {"rules": rules} | ({"template": template} if template.strip() else {})
    trial = call.api.ask("POST", "/v2/trials", body=body)
    return f"/pages/playground/{trial['id']}"


def _show_trial(call: PageCall) -> Shown:
    trial = call.api.get(f"/v2/trials/{part(call.path['trial'])}", page="true")
    given = {"rules": trial["rules"], "template": trial.get("template", "")} | dict(call.form)
    running = bool(trial["run"]) and trial["run"]["state"] == "running"
    values = {"examples": EXAMPLES, "given": given, "trial": trial, "longest": LONGEST}
    values |= {"may_try": call.may("trial:create"), "may_run": call.may("trial:run")}
    return Shown("Playground", values, refresh=1 if running else 0)


def _run_trial(call: PageCall) -> str:
    path = f"/v2/trials/{part(call.path['trial'])}"
    if "rules" in call.form:
        return _try_rules(call, call.api.get(path, page="true").get("template", ""))
    call.api.ask("POST", f"{path}/runs")
    return f"/pages/playground/{part(call.path['trial'])}"


VIEWS = (
    View("/pages", "home.html", "Cloud", _show_home, twin="/v2/overview"),
    View("/pages/decisions", "decision_list.html", "Decisions", _show_decisions, filters=("search", "sort")),
    View("/pages/decisions/{decision}", "decision_page.html", "Decisions", _show_decision),
    View("/pages/stacks", "stacks.html", "Stacks", _show_stacks, filters=("outcome", "project", "search", "sort")),
    View("/pages/stacks/{stack}", "stack.html", "Stacks", _show_stack, post=_judge_stack, filters=("policy", "state")),
    View("/pages/policies", "policies.html", "Policies", _show_policies, filters=("level", "search")),
    View("/pages/policies/{policy}", "policy.html", "Policies", _show_policy),
    View("/pages/approvals", "approvals.html", "Approvals", _show_approvals, filters=("state",)),
    View("/pages/approvals/{approval}", "approval.html", "Approvals", _show_approval, post=_answer_approval),
    View("/pages/waivers", "waivers.html", "Waivers", _show_waivers, post=_give_waiver, filters=("policy",)),
    View("/pages/inventory", "inventory.html", "Inventory", _show_inventory),
    View("/pages/playground", "playground.html", "Playground", _show_playground, post=_try_rules, twin="/v2/policies"),
    View(
        "/pages/playground/{trial}",
        "playground.html",
        "Playground",
        _show_trial,
        post=_run_trial,
        twin="/v2/trials/{trial}",
    ),
)


def link_next(view: View, call: PageCall, values: Values) -> str:
    """The query of the page after this one; empty at the end."""
    if not values.get("next"):
        return ""
    kept = {name: call.query[name] for name in view.filters if name in call.query}
    return urlencode({**kept, "marker": values["next"]})
