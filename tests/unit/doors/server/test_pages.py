"""The pages of the server: who sees what, forms, sessions."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from shutil import copytree
from urllib.parse import urlencode

import duckdb
import pytest
from falcon.testing import Result

from datalog_gate.doors.server.application import create_app, trust_token
from datalog_gate.doors.server.pages.sessions import COOKIE, SessionFiles, form_key
from datalog_gate.doors.server.pages.site import POLICY
from datalog_gate.doors.server.pages.views import EXAMPLES, VIEWS
from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.scan_access import keep_scan_store, open_scan_store
from datalog_gate.doors.server.serving import read_config
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.pages.plots import plot_days
from datalog_gate.scan.feed import StackEntry
from tests.page_site import HOSTILE, RULES, ask_for_approval, fill, fill_hostile, hostile_stack, template
from tests.unit.doors.server.test_server import TOKEN, create_client, trust_users
from tests.unit.pages.test_decision_page import Page
from tests.waiting import wait

pytestmark = pytest.mark.slow
CONF = """\
[datalog_gate]
rules = {folder}/rules
waivers = store
inventory = {folder}/cloud.jsonl
[datalog_gate_server]
folder = {folder}/server
scan_store = {folder}/scan
"""


class Browser:
    """Asks for pages with a cookie, of the operator's token or of a user of Keystone, and fills in forms."""

    def __init__(self, folder: Path, text: str = CONF) -> None:
        (folder / "server.conf").write_text(text.format(folder=folder))
        self.folder, conf = folder, read_config(folder / "server.conf")
        self.server = create_server(conf)
        self.applications = [create_app(conf, self.server, trust) for trust in (trust_token(TOKEN), trust_users)]
        self.sessions = SessionFiles(folder / "server" / "sessions")
        self.cookies: dict[str, str] = {}
        self.protocol = "http"
        self._operator, self._users = map(create_client, self.applications)

    def get(self, path: str, user: str = "", token: str = "") -> Result:
        return self._ask("GET", path, user, token or user or TOKEN)

    def post(self, path: str, form: dict[str, str], user: str = "", **headers: str) -> Result:
        """Send a form, with the key of the session unless it has one."""
        token = user or TOKEN
        body = urlencode({"form_key": form_key(self.cookie(token)), **form})
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return self._ask("POST", path, user, token, body, headers)

    def cookie(self, token: str) -> str:
        """The cookie of the session with a token."""
        if token not in self.cookies:
            self.cookies[token] = self.sessions.start(token)
        return self.cookies[token]

    def _ask(
        self, method: str, path: str, user: str, token: str, body: str = "", headers: dict[str, str] | None = None
    ) -> Result:
        client = self._users if user else self._operator
        path, _, query = path.partition("?")
        given = {"Cookie": f"other=1; {COOKIE}={self.cookie(token)}", **(headers or {})}
        return client.simulate_request(
            method, path, query_string=query, body=body, headers=given, protocol=self.protocol
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a server with scanned stacks."""
    folder = tmp_path_factory.mktemp("site")
    fill(folder)
    return folder


@pytest.fixture
def browser(site: Path, tmp_path: Path) -> Browser:
    return Browser(copytree(site, tmp_path / "site"))


def text_of(answer: Result) -> str:
    """The text of a page, without its menu."""
    main = answer.text[answer.text.index("<main") : answer.text.index("</main>")]
    return " ".join(unescape(re.sub("<[^>]*>", " ", main)).split())


def location(answer: Result) -> str:
    """Where the answer leads, without the name of the server."""
    return str(answer.headers["location"]).removeprefix("http://falconframework.org")


def hrefs(answer: Result) -> list[str]:
    return [unescape(href) for href in re.findall(r'href="(.*?)"', answer.text)]


RULE = '@deny("m", "{s} takes {f}")\nm(s, f) :- os:nova:server(_id=s, flavor=f), f = "m1.small".\n'


def make_pages(browser: Browser, stack: str, template: str, text: str = "x") -> dict[str, str]:
    """Make something for each page to show, with this text in it. Returns the names in the paths of pages."""
    ask_for_approval(browser.server, "p1", text, reason=text)
    waiver = {"policy": "ssh", "subject": text, "project": "p1", "reason": text, "expires": "2127-01-01"}
    browser.post("/pages/waivers", {name: value[:200] for name, value in waiver.items()})
    decision = browser.post(f"/pages/stacks/{stack}", {})
    trial = browser.post("/pages/playground", {"rules": RULE, "template": template})
    names = {"stack": stack, "policy": "ssh", "approval": "A-1"}
    return names | {"decision": location(decision)[17:], "trial": location(trial)[18:]}


def test_all_that_a_page_asks_reads_one_open_store_of_scans(browser: Browser) -> None:
    stores = []
    for _ in range(2):
        with keep_scan_store():
            for _ in range(2):
                with open_scan_store(browser.server.options) as store:
                    stores.append(store)
    assert [store is stores[0] for store in stores] == [True, True, False, False]
    assert stores[2] is stores[3]


def test_each_page_answers_has_a_title_a_policy_and_a_twin_that_answers_too(browser: Browser) -> None:
    names = make_pages(browser, "r00000", template(0))
    titles = []
    for view in VIEWS:
        answer = browser.get(view.path.format(**names))
        titles.append(re.findall("<title>(.*?) · datalog_gate</title>", answer.text)[0])
        assert (answer.status_code, answer.headers["content-security-policy"]) == (200, POLICY)
        assert len(answer.content) < 100_000
        [twin] = re.findall('rel="alternate" type="application/json" href="(.*?)"', answer.text)
        assert browser._operator.simulate_get(twin, headers={"X-Auth-Token": TOKEN}).status_code == 200
    assert titles == [
        "Cloud", "Decisions", "Allowed, with warnings: stack-0", "Stacks", "Stack stack-0", "Policies",
        "Policy ssh", "Approvals", "Approval A-1", "Waivers", "Inventory", "Playground", "Playground",
    ]  # fmt: skip


def test_the_cloud_page_counts_open_findings_by_policy_project_and_owner_and_plots_the_days(browser: Browser) -> None:
    answer = browser.get("/pages")
    assert text_of(answer) == (
        "Cloud Stacks 6 Open findings 3 : 1 denied, 2 warnings Open findings over time 0 1 2 3 4 "
        "2027-03-01: 4 open, 4 new, 0 resolved 2027-03-04: 3 open, 0 new, 1 resolved 2027-03-01 2027-03-04 "
        "These days as a table Day New Resolved Open 2027-03-01 4 0 4 2027-03-04 0 1 3 "
        "By policy Policy Open Share size 2 findings of size ssh 1 findings of ssh "
        "By project Project Open Share p2 2 findings of p2 p1 1 findings of p1 By owner Owner Open Share user-0 1 "
        "user-1 1 user-3 1 Waiting for approval Nothing is waiting. Newest decisions There "
        "are no decisions yet. Try a template ."
    )
    shares = re.findall(r'<rect width="([\d.]+)"', answer.text)
    assert shares == ["66.7", "33.3", "66.7", "33.3", "33.3", "33.3", "33.3"]


def test_a_finding_that_is_resolved_is_not_called_denied(browser: Browser) -> None:
    size = "size data has 200 GiB ! Warning template:8 2027-03-01 00:00 "
    waive = "Waive data has 200 GiB "
    rows = [
        text_of(browser.get(f"/pages/stacks/r00000{query}")).partition(" Waive ")[2] for query in ("", "?state=all")
    ]
    assert rows == [
        f"{size}{waive}With what was resolved",
        f"{size}open {waive}ssh ssh lets 0.0.0.0/0 reach port 22 resolved template:7 2027-03-01 00:00 2027-03-04 00:00 "
        "All that is open",
    ]


def test_a_member_sees_nothing_of_another_project(browser: Browser) -> None:
    for project in ("p1", "p2"):
        ask_for_approval(browser.server, project, f"stack-of-{project}")
    browser.post("/pages/playground", {"rules": "", "template": template(0)}, "bob")
    pages = {
        path: browser.get(path, "ann")
        for path in (
            "/pages",
            "/pages/stacks",
            "/pages/approvals",
            "/pages/policies/ssh",
            "/pages/decisions",
            "/pages/waivers",
        )
    }
    assert {answer.status_code for answer in pages.values()} == {200}
    seen = " ".join(text_of(answer) for answer in pages.values())
    assert ("p1" in seen, "p2" in seen, "user-1" in seen, "bob" in seen) == (True, False, False, False)
    assert browser.get("/pages/stacks/r00001", "ann").status_code == 404
    assert browser.get("/pages/approvals/A-2", "ann").status_code == 404
    assert "<button>Waive" not in pages["/pages/waivers"].text


def test_without_a_session_each_page_leads_to_the_sign_in_and_back(browser: Browser) -> None:
    answer = browser.get("/pages/stacks?outcome=deny", token="none")
    assert (answer.status_code, location(answer)) == (
        303,
        "/pages/sign-in?next=%2Fpages%2Fstacks%3Foutcome%3Ddeny",
    )
    page = browser.get(location(answer), token="none")
    assert 'name="next" value="/pages/stacks?outcome=deny"' in page.text
    answer = browser.post("/pages/sign-in", {"token": TOKEN, "next": "/pages/stacks?outcome=deny"})
    assert (answer.status_code, location(answer)) == (303, "/pages/stacks?outcome=deny")
    value, _, rest = answer.headers["set-cookie"].removeprefix(f"{COOKIE}=").partition("; ")
    assert (rest, browser.sessions.find_token(value)) == ("HttpOnly; Max-Age=28800; Path=/pages; SameSite=Lax", TOKEN)
    assert [TOKEN.encode() in path.read_bytes() for path in (browser.folder / "server/sessions").iterdir()] == [
        False
    ] * 2
    browser.protocol = "https"
    secure = browser.post("/pages/sign-in", {"token": TOKEN}).headers["set-cookie"]
    assert secure.endswith("; HttpOnly; Max-Age=28800; Path=/pages; SameSite=Lax; Secure")
    browser.cookies[TOKEN] = value
    assert browser.get("/pages/stacks").status_code == 200
    assert browser.post("/pages/sign-out", {}).headers["set-cookie"].startswith(f'{COOKIE}=""; expires=')
    assert browser.get("/pages/stacks").status_code == 303  # also with the cookie
    assert browser.get("/pages/stacks", token=value).status_code == 303  # which is no token


def test_a_session_ends(tmp_path: Path) -> None:
    now = 1000.0
    sessions = SessionFiles(tmp_path / "sessions", lambda: now)
    cookie = sessions.start("t0ken")
    assert [sessions.find_token(cookie), sessions.find_token("other"), sessions.find_token("")] == ["t0ken", "", ""]
    now += 8 * 3600 + 1
    assert sessions.find_token(cookie) == ""
    sessions.start("next")
    assert len(list((tmp_path / "sessions").iterdir())) == 1


def test_a_wrong_token_is_refused(browser: Browser) -> None:
    answers = [browser.post("/pages/sign-in", {"token": token}) for token in ("no", "", "a;b", "x" * 5000, "\u202e")]
    assert [(answer.status_code, "set-cookie" in answer.headers) for answer in answers] == [(401, False)] * 5
    again = browser.post("/pages/sign-in", {"token": "no", "next": "/pages/stacks"})
    assert 'name="next" value="/pages/stacks"' in again.text


def test_the_sign_in_leads_to_pages_alone(browser: Browser) -> None:
    paths = ("https://x.test/", "//x.test/pages", "/\\x.test", "javascript:alert(1)", "/v2", "/pages\n/x")
    answers = [browser.post("/pages/sign-in", {"token": TOKEN, "next": path}) for path in paths]
    assert [location(answer) for answer in answers] == ["/pages"] * 6


def test_a_form_of_another_session_or_site_changes_nothing(browser: Browser) -> None:
    form = {"policy": "ssh", "project": "p1", "reason": "r", "expires": "2127-01-01"}
    refused = [
        browser.post("/pages/waivers", {**form, "form_key": "0"}),
        browser.post("/pages/waivers", {**form, "form_key": form_key("ann")}),
        browser.post("/pages/waivers", form, **{"Sec-Fetch-Site": "cross-site"}),
    ]
    assert [answer.status_code for answer in refused] == [403] * 3
    assert "There is none." in text_of(browser.get("/pages/waivers"))


def test_an_operator_approves_a_request_and_a_member_cannot(browser: Browser) -> None:
    ask_for_approval(browser.server, "p1", "web")
    verdict = {"verdict": "approved", "why": "for March"}
    assert "<button" not in browser.get("/pages/approvals/A-1", "ann").text.partition("<main")[2]
    assert browser.post("/pages/approvals/A-1", verdict, "ann").status_code == 403
    assert location(browser.post("/pages/approvals/A-1", verdict)) == "/pages/approvals/A-1"
    text = text_of(browser.get("/pages/approvals/A-1", "ann"))
    assert text.startswith("A-1: approved Stack name-web Project p1")
    assert "approved by operator" in text
    assert "for March" in text


def test_a_finding_is_waived_until_a_day_and_the_waiver_ended(browser: Browser) -> None:
    [link] = [href for href in hrefs(browser.get("/pages/stacks/r00000")) if "subject" in href and "size" in href]
    form = browser.get(link.partition("#")[0])
    given = dict(re.findall(r'<input id="(\w+)" name="\w+" value="(.*?)"', form.text))
    assert given == {
        "policy": "size",
        "subject": "stack-0/data",
        "project": "p1",
        "while": "",
        "reason": "",
        "ticket": "",
    }
    answer = browser.post("/pages/waivers", {**given, "reason": "the archive", "expires": "2127-01-01"})
    assert (answer.status_code, location(answer)) == (303, "/pages/waivers?created=S-1")
    scope = ["the project is p1", "the resource is stack-0/data", "it is before 2127-01-01"]
    page = browser.get(location(answer))
    text = text_of(page)
    assert f"S-1 is in force now: it waives what size finds where {', '.join(scope)}." in text
    row = "S-1 size the project is p1 the resource is stack-0/data the archive 2127-01-01 operator End S-1"
    assert (row in text, "not in force" in text) == (True, False)
    judged = location(browser.post("/pages/stacks/r00000", {}))
    assert "Waived by S-1 until 2127-01-01: the archive (operator)" in text_of(browser.get(judged))
    assert browser.post("/pages/waivers", {"end": "S-1"}).status_code == 303
    assert "There is none." in text_of(browser.get("/pages/waivers"))
    assert text_of(browser.get(location(browser.post("/pages/stacks/r00000", {})))).startswith("Allowed, with warnings")
    given |= {"subject": "", "while": "size < 300", "key": "volume = stack-0/data\n"}
    assert browser.post("/pages/waivers", {**given, "reason": "r", "expires": "2127-01-01"}).status_code == 303
    row = 'size the project is p1 volume is "stack-0/data" size < 300 r 2127-01-01 operator'
    assert row in text_of(browser.get("/pages/waivers"))
    refused = browser.post("/pages/waivers", {**given, "policy": "sizes", "reason": "r", "expires": "2127-01-01"})
    assert refused.status_code == 400
    assert "did you mean size?" in text_of(refused)
    assert 'value="sizes"' in refused.text


def test_a_rule_is_refused_with_a_suggestion_mended_and_run_over_all_stacks(browser: Browser) -> None:
    refused = browser.post("/pages/playground", {"rules": RULE.replace("flavor=", "flavour="), "template": template(0)})
    assert refused.status_code == 400
    assert "✕ rules.dl:2 os:nova:server has no column flavour Change: did you mean flavor?" in text_of(refused)
    assert "flavour=f" in refused.text
    [line] = re.findall('<div class="line error">(.*?)</div>', refused.text)
    assert " ".join(re.sub("<[^>]*>", " ", line).split()).startswith("2 m(s, f) :- os:nova:server(_id=s, flavour=f)")
    path = location(browser.post("/pages/playground", {"rules": RULE, "template": template(0)}, "ann"))
    assert "Denied stack" in text_of(browser.get(path, "ann"))
    assert (browser.get(path, "bob").status_code, browser.get(path).status_code) == (404, 200)
    refused = browser.post(path, {"rules": RULE.replace("s, f", "s, s"), "template": template(0)}, "ann")
    assert (refused.status_code, "m(s, s)" in refused.text) == (400, True)
    assert browser.post(path, {}, "ann").status_code == 303
    wait(lambda: "refresh" not in browser.get(path, "ann").headers)
    answer = browser.get(path, "ann")
    assert "3 stacks of 3 would have a finding. m : 3 findings" in text_of(answer)
    assert [href for href in hrefs(answer) if "/stacks/" in href] == [f"/pages/stacks/r0000{at}" for at in (0, 2, 4)]


def test_a_run_shows_at_most_three_findings_of_a_stack(tmp_path: Path) -> None:
    browser = show_big_stack(tmp_path)
    path = location(browser.post("/pages/playground", {"rules": RULES, "template": template(0)}))
    browser.post(path, {})
    wait(lambda: "refresh" not in browser.get(path).headers)
    page = browser.get(path)
    assert ([href for href in hrefs(page) if "/stacks/" in href], "size : 60 findings" in text_of(page)) == (
        ["/pages/stacks/big"] * 3,
        True,
    )
    assert re.findall(r'data-label="Policy" class="mono">(\w+)</td>', page.text) == ["ssh", "size", "size"]


@pytest.mark.parametrize("name", [name for name, _ in EXAMPLES])
def test_each_example_of_the_playground_can_be_tried(browser: Browser, name: str) -> None:
    page = browser.get(f"/pages/playground?{urlencode({'example': name})}")
    rules, given = (unescape(text) for text in re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page.text, re.S))
    assert rules == dict(EXAMPLES)[name]
    assert browser.post("/pages/playground", {"rules": rules, "template": given}, "ann").status_code == 303


def test_a_tried_rule_sees_the_caller_and_the_inventory(browser: Browser) -> None:
    rules = """@deny("c", "{u} of {p}") c(u, p) :- gate:caller(user=u, project=p).
@warn("i", "{t} failed") i(t) :- gate:inventory(table=t, problem=p), p != null.
"""
    answer = browser.get(
        location(browser.post("/pages/playground", {"rules": rules, "template": template(1)}, "ann")), "ann"
    )
    assert re.findall("<p>(ann of p1|nova:flavors failed)</p>", answer.text) == ["ann of p1", "nova:flavors failed"]


@pytest.mark.parametrize("rules", [RULE, ""])
def test_the_playground_says_what_heat_would_refuse(rules: str, browser: Browser) -> None:
    wrong = template(0).replace("resources:", "resources:\n  n: {type: OS::Neutron::Nett}", 1)
    page = browser.get(location(browser.post("/pages/playground", {"rules": rules, "template": wrong})))
    assert "there is no resource type OS::Neutron::Nett" in text_of(page)
    unread = wrong.replace("Nett}", "Nett, depends_on: nothing}")
    refused = text_of(browser.post("/pages/playground", {"rules": rules, "template": unread}))
    assert ("there is no resource `nothing`" in refused, "type OS::Neutron::Nett Change" in refused) == (
        True,
        True,
    )


def test_a_large_template_is_kept_with_its_trial_and_judged_again(browser: Browser) -> None:
    large = template(0) + "# long\n" * 5000
    path = location(browser.post("/pages/playground", {"rules": RULE, "template": large}))
    page = browser.get(path)
    assert ('name="template"' in page.text, f"The template of {len(large)} characters" in page.text) == (False, True)
    again = browser.get(location(browser.post(path, {"rules": RULE.replace('"m1.small"', '"m1.huge"')})))
    assert "Looked at m 1 of os:nova:server" in text_of(again)
    assert f"The template of {len(large)} characters" in again.text


def test_a_stored_stack_is_judged_again_and_shows_its_graph_and_template(browser: Browser) -> None:
    path = location(browser.post("/pages/stacks/r00000", {}))
    page = browser.get(path)
    assert text_of(page).startswith("Allowed, with warnings stack-0 ! 1 warning What to change size 1 finding")
    assert page.text.count("<svg") == 1
    assert browser.post("/pages/stacks/r00001", {}, "ann").status_code == 404


def rows_of(answer: Result) -> list[str]:
    """The first cells of the rows of a page's table."""
    return re.findall(r"<tr><td[^>]*>(?:<a [^>]*>)?([^<]*)", answer.text)


def test_lists_are_searched_and_sorted_and_keep_both_on_the_next_page(browser: Browser) -> None:
    assert rows_of(browser.get("/pages/stacks?search=STACK-4")) == ["stack-4"]
    assert rows_of(browser.get("/pages/stacks?sort=findings"))[:3] == ["stack-0", "stack-3", "stack-5"]
    assert rows_of(browser.get("/pages/policies?search=reach")) == ["ssh"]
    for name in ("db", "web"):
        browser._operator.simulate_post(
            "/v2/decisions", json={"template": template(0), "stack_name": name}, headers={"X-Auth-Token": TOKEN}
        )
    assert rows_of(browser.get("/pages/decisions")) == ["web", "db"]
    assert rows_of(browser.get("/pages/decisions?sort=name")) == ["db", "web"]
    assert rows_of(browser.get("/pages/decisions?search=E")) == ["web"]
    query = {"search": "b", "sort": "name", "limit": 1}
    headers = {"X-Auth-Token": TOKEN}
    first = browser._operator.simulate_get("/v2/decisions", params=query, headers=headers).json
    second = browser._operator.simulate_get("/v2/decisions", params={**query, "marker": first["next"]}, headers=headers)
    names = [row["stack_name"] for row in (*first["decisions"], *second.json["decisions"])]
    assert (names, "next" in second.json) == (["db", "web"], False)


def show_big_stack(folder: Path, change: str = "", stacks: int = 0) -> Browser:
    """A site of a stack with a denial and 60 warnings, after a change of the store of scans."""
    volumes = "".join(f"  v{at}: {{type: OS::Cinder::Volume, properties: {{size: 200}}}}\n" for at in range(60))
    folder.mkdir(exist_ok=True)
    fill(folder, stacks=stacks, more=[StackEntry("big", "big", "p1", StackDefinition(template(3) + volumes))])
    if change:
        with duckdb.connect(str(folder / "scan")) as database:
            database.execute(change)
    return Browser(folder)


def test_a_stack_begins_with_what_denies_it_however_many_warnings_it_has(tmp_path: Path) -> None:
    browser = show_big_stack(tmp_path)
    page = browser.get("/pages/stacks/big")
    assert (rows_of(page), "11 more of size" in text_of(page)) == (["ssh", *["size"] * 49], True)
    assert "reach port 22 Change: limit remote_ip_prefix to an office network" in text_of(page)
    more = browser.get("/pages/stacks/big?policy=size")
    [after] = [href for href in hrefs(more) if "marker" in href]
    pages = more, browser.get(f"/pages/stacks/big{after}")
    numbers = [list(map(int, re.findall(r'class="text">v(\d+) has 200', page.text))) for page in pages]
    assert (after, numbers) == ("?policy=size&marker=50", [list(range(50)), list(range(50, 60))])
    assert "Open findings of size : 60 of 61 Policy" in text_of(more)


def test_a_stack_says_apart_what_is_waived(tmp_path: Path) -> None:
    page = show_big_stack(tmp_path, "UPDATE finding SET state = 'waived' WHERE key LIKE '%v1%' OR policy = 'ssh'")
    text = text_of(page.get("/pages/stacks/big"))
    [work, rest] = re.split("No change needed: 12 waived or recorded", text[text.index("What to change") :])
    assert (work.count("Warning"), work.count("Waived"), rest.count("Waived")) == (49, 0, 12)
    assert rest.startswith(
        " Policy Finding State Line Since Waive ssh ssh lets 0.0.0.0/0 reach port 22 ~ Waived template:7 "
        "2027-03-01 00:00 size v1 has 200 GiB ~ Waived template:14 2027-03-01 00:00 size v10 has 200 GiB "
    )


def test_a_policy_lists_each_stack_once_and_else_what_is_about_the_whole_cloud(tmp_path: Path) -> None:
    page = show_big_stack(tmp_path, stacks=6).get("/pages/policies/size")
    assert (rows_of(page), re.findall(r">(\d+)<span class=.hidden.> findings in (\w+)", page.text)) == (
        ["p1", "p2", "big", "stack-0", "stack-5"],
        [("60", "big"), ("1", "stack"), ("1", "stack")],
    )
    failed = "UPDATE finding SET root = '', cloud = TRUE, state = 'error', message = 'too much' WHERE key LIKE '%v7%'"
    both = show_big_stack(tmp_path / "both", failed).get("/pages/policies/size")
    assert (rows_of(both), "59 findings in big" in text_of(both)) == (["p1", "not known", "too much", "big"], True)
    whole = show_big_stack(tmp_path / "cloud", "UPDATE finding SET root = '', cloud = TRUE")
    first = whole.get("/pages/policies/size")
    [after] = [href for href in hrefs(first) if "marker" in href]
    pages = first, whole.get(f"/pages/policies/size{after}")
    assert [len(re.findall("v[0-9]+ has 200 GiB", text_of(page))) for page in pages] == [50, 10]


def test_a_stack_whose_id_has_a_slash_opens_and_is_judged(tmp_path: Path) -> None:
    names = ("in/web.yaml", "50%2F/a b.yaml")
    more = [StackEntry(name, name, "p1", StackDefinition(template(3))) for name in names]
    fill(tmp_path, more=more)
    browser = Browser(tmp_path)
    links = [href for href in hrefs(browser.get("/pages/stacks")) if "yaml" in href]
    assert list(dict.fromkeys(links)) == ["/pages/stacks/50%252F%2Fa%20b.yaml", "/pages/stacks/in%2Fweb.yaml"]
    for name, link in zip(names, sorted(set(links), reverse=True), strict=True):
        page = browser.get(link)
        assert text_of(page).startswith(f"Denied {name} Id {name} Project p1")
        [twin] = re.findall('rel="alternate" type="application/json" href="(.*?)"', page.text)
        answer = browser._operator.simulate_get(twin, headers={"X-Auth-Token": TOKEN})
        assert (answer.status_code, answer.json["root"]) == (200, name)
        assert browser.get(location(browser.post(link, {}))).status_code == 200


def test_a_policy_shows_the_text_of_its_rules_with_their_place(browser: Browser) -> None:
    text = text_of(browser.get("/pages/policies/ssh"))
    rule = RULES[: RULES.index("@warn")].strip()
    assert f"site.dl:1 {' '.join(rule.split())} Open findings" in text


@pytest.mark.parametrize("path", ["/pages/nothing", "/pages/policies/a/b", "/pages/stacks/none"])
def test_an_unknown_page_is_a_page(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "To the first page" in text_of(answer)


def test_each_page_answers_head_without_a_body(browser: Browser) -> None:
    names = make_pages(browser, "r00000", template(0))
    paths = [*(view.path.format(**names) for view in VIEWS), "/pages/style.css", "/pages/sign-in"]
    answers = [browser._ask("HEAD", path, "", TOKEN) for path in paths]
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, b"")}


def test_numbers_lead_to_what_they_count(browser: Browser) -> None:
    linked = re.compile(r'<a href="(/pages/[^"]*)">(\d+)<')
    numbers = [*linked.findall(browser.get("/pages").text), *linked.findall(browser.get("/pages/policies").text)]
    assert numbers == [
        ("/pages/stacks", "6"), ("/pages/stacks?sort=findings", "3"),
        ("/pages/policies/size#findings", "2"), ("/pages/policies/ssh#findings", "1"),
        ("/pages/stacks?project=p2", "2"), ("/pages/stacks?project=p1", "1"),
        ("/pages/policies/size#findings", "2"), ("/pages/policies/ssh#findings", "1"),
    ]  # fmt: skip
    for path, number in numbers:
        page = browser.get(path.partition("#")[0])
        if path == "/pages/stacks":
            assert len(rows_of(page)) == int(number)
        else:
            listed = page.text.partition('id="findings"')[2] or page.text
            assert sum(int(findings) for _, findings in linked.findall(listed)) == int(number)


def test_each_cell_has_the_name_of_its_column_for_narrow_screens(browser: Browser) -> None:
    names = make_pages(browser, "r00000", template(0))
    labels: dict[str, tuple[str, ...]] = {}
    for view in VIEWS:
        text = browser.get(view.path.format(**names)).text
        for table in re.findall('<table class="rows">(.*?)</table>', text, re.S):
            [columns, *rows] = re.split("<tr[ >]", table)[1:]
            named = {tuple(re.findall('<td data-label="(.*?)"', row)) for row in rows}
            assert named == {tuple(re.findall('<th scope="col"[^>]*>([^<]*)', columns))}
            labels.setdefault(view.area, named.pop())
    assert labels == {
        "Cloud": ("Day", "New", "Resolved", "Open"),
        "Decisions": ("Stack", "Outcome", "Action", "Project", "Asked by", "Time"),
        "Stacks": ("Stack", "Outcome", "Open findings", "Project", "Changed", "Seen"),
        "Policies": ("Policy", "Level", "Open findings", "Finds", "Mode"),
        "Approvals": ("Request", "Asks for", "Stack", "Project", "Asked", "Until"),
        "Waivers": ("Waiver", "Policy", "Covers findings where", "Reason", "Ends", "Given by", ""),
        "Inventory": ("Table", "Problem", "Rows", "Age"),
    }


def test_policies_begin_with_the_most_findings_page_by_page_and_nothing_leads_to_no_finding(tmp_path: Path) -> None:
    fill(tmp_path)
    rules = [f'@deny("none{at:02}", "{{s}}")\nn{at:02}(s) :- os:nova:server(_id=s, name="-").\n' for at in range(50)]
    (tmp_path / "rules" / "more.dl").write_text("".join(rules))
    browser = Browser(tmp_path)
    first = browser.get("/pages/policies")
    [after] = [href for href in hrefs(first) if "marker" in href]
    second = browser.get(f"/pages/policies{after}")
    names = ["size", "ssh", *(f"none{at:02}" for at in range(50))]
    assert (rows_of(first), after, rows_of(second)) == (names[:50], "?marker=50", names[50:])
    assert (first.text.count("#findings"), first.text.count('<span class="soft">0</span>')) == (2, 48)
    assert [rows_of(browser.get(f"/pages/policies?marker={text}")) for text in ("x", "9" * 5000)] == [names[:50], []]


def test_the_list_of_approvals_says_what_each_asks_for_and_a_state_only_where_it_differs(browser: Browser) -> None:
    ask_for_approval(browser.server, "p1", "web", mode="wait", size="5")
    times = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d")
    pages = [browser.get(f"/pages/approvals{path}") for path in ("", "?state=", "/A-1")]
    lists = [times.sub("TIME", text_of(page)).partition(" Show ")[2] for page in pages[:2]]
    assert lists == [
        "Request Asks for Stack Project Asked Until A-1 mode: wait , size: 5 for web/seat name-web p1 TIME TIME",
        "Request Asks for State Stack Project Asked Until "
        "A-1 mode: wait , size: 5 for web/seat awaiting name-web p1 TIME TIME",
    ]
    assert times.sub("TIME", text_of(pages[2])) == (
        "A-1: awaiting Stack name-web Project p1 Grant web/grant Asked TIME Expires unanswered at TIME "
        "What is requested mode wait size 5 For web/seat, T Reason, for the user Approve Refuse"
    )
    assert re.findall("<button name=.*?>", pages[2].text) == [
        '<button name="verdict" value="approved" class="main">', '<button name="verdict" value="refused">',
    ]  # fmt: skip


def test_the_inventory_begins_with_the_tables_that_were_not_read(browser: Browser) -> None:
    rows = [("cinder:types", ""), ("nova:flavors", "the API did not answer")]
    readings = [{"table": name, "read": "2127-03-01T12:00:00Z", "problem": problem} for name, problem in rows]
    lines = [json.dumps({"relation": "gate:inventory", "row": row}) for row in readings]
    (browser.folder / "cloud.jsonl").write_text("\n".join(lines) + "\n")
    assert text_of(Browser(browser.folder).get("/pages/inventory")) == (
        "Inventory What rules read of the cloud beside a stack, and how old it is. 1 of 2 tables unread "
        "Table Problem Rows Age nova:flavors ✕ unread the API did not answer 0 not known cinder:types 0 not known"
    )


def test_the_list_of_waivers_says_which_are_not_in_force(browser: Browser) -> None:
    for day in ("2020-01-01", "2127-01-01"):
        entry = {"policy": "ssh", "project": "p1", "reason": day[:2], "expires": day}
        browser._operator.simulate_post("/v2/waivers", json=entry, headers={"X-Auth-Token": TOKEN})
    text = text_of(browser.get("/pages/waivers"))
    assert text.partition(" End it ")[2].partition(" Waive findings")[0] == (
        "S-1 ssh the project is p1 20 2020-01-01 not in force operator End S-1 "
        "S-2 ssh the project is p1 21 2127-01-01 operator End S-2"
    )


def test_a_waiver_that_would_have_no_effect_is_refused_on_its_page(site: Path, tmp_path: Path) -> None:
    browser = Browser(copytree(site, tmp_path / "site"), CONF.replace("waivers = store", "waivers ="))
    entry = {"policy": "ssh", "project": "p1", "reason": "r", "expires": "2127-01-01"}
    refused = browser.post("/pages/waivers", entry)
    assert (refused.status_code, text_of(refused).partition(" Waivers ")[0]) == (
        409,
        "✕ this gate reads no waivers set waivers = store in [datalog_gate]",
    )


def test_an_empty_page_says_what_fills_it(tmp_path: Path) -> None:
    fill(tmp_path, stacks=0)
    (tmp_path / "cloud.jsonl").write_text("")
    browser = Browser(tmp_path)
    commands = {
        "": "datalog-gate scan run",
        "stacks": "datalog-gate scan run",
        "decisions": "openstack gate check web.yaml",
        "approvals": "openstack gate approval list",
        "waivers": "openstack gate waiver create POLICY --project ID --reason TEXT --expires DAY",
        "inventory": "datalog-gate inventory pull",
        "policies?search=none": "datalog-gate rules init rules",
    }
    shown = {
        path: re.findall("<code>((?:datalog-gate|openstack) [^<]*)</code>", browser.get(f"/pages/{path}").text)
        for path in commands
    }
    assert {path: command[0] for path, command in shown.items()} == commands


def test_each_list_says_what_it_lists(browser: Browser) -> None:
    areas = ("decisions", "stacks", "policies", "approvals", "waivers", "inventory")
    purposes = [re.findall('<p class="soft">([^<]*)', browser.get(f"/pages/{area}").text)[0] for area in areas]
    assert purposes == [
        "Decisions that were requested here. ",
        "Stacks that scans have read, and what they found there.",
        "The policies in force, and how many open findings each has in scanned stacks.",
        "What stacks asked an operator to approve.",
        "Accepts what a policy finds, until a date.",
        "What rules read of the cloud beside a stack, and how old it is.",
    ]


def test_the_first_page_leads_to_all_that_wait_and_all_decisions(browser: Browser) -> None:
    make_pages(browser, "r00000", template(0))
    links = dict(re.findall('<p><a href="(.*?)">(All .*?)</a></p>', browser.get("/pages").text))
    assert links == {"/pages/approvals?state=awaiting": "All that wait", "/pages/decisions": "All decisions"}
    assert re.findall("<h2>(Waiting.*?)</h2>", browser.get("/pages").text) == ["Waiting for approval (1)"]


def test_the_result_of_the_playground_comes_before_the_run_over_all_stacks(browser: Browser) -> None:
    path = location(browser.post("/pages/playground", {"rules": RULE, "template": template(0)}))
    assert re.findall('id="(rules|template|d0|run)"', browser.get(path).text) == ["rules", "template", "d0", "run"]


def test_a_decision_links_to_its_policies_its_stack_and_a_waiver(browser: Browser) -> None:
    links = hrefs(browser.get(location(browser.post("/pages/stacks/r00000", {}))))
    assert [link for link in links if link.startswith(("/pages/policies/", "/pages/stacks/", "/pages/waivers?"))] == [
        "/pages/stacks/r00000", "/pages/policies/size",
        "/pages/waivers?policy=size&subject=stack-0/data&project=p1#give",
    ]  # fmt: skip


def show_pages(browser: Browser, stack: str, template: str, text: str) -> dict[str, str]:
    """Each page, by its path."""
    names = make_pages(browser, stack, template, text)
    pages = {view.path: browser.get(view.path.format(**names)) for view in VIEWS}
    pages["refused"] = browser.post("/pages/playground", {"rules": text[:1000], "template": text[:1000]})
    pages["sign in"] = browser.get(f"/pages/sign-in?{urlencode({'next': text[:1000]})}", token="none")
    assert {path: page.status_code for path, page in pages.items() if page.status_code != 200} == {"refused": 400}
    assert {path: len(page.content) for path, page in pages.items() if len(page.content) > 100_000} == {}
    return {path: page.text for path, page in pages.items()}


def test_hostile_texts_are_texts_on_each_page(browser: Browser, tmp_path: Path) -> None:
    texts = show_pages(Browser(fill_hostile(tmp_path / "hostile")), "hostile", hostile_stack(), " ".join(HOSTILE))
    pages = {path: Page(text) for path, text in texts.items()}
    harmless = [Page(text) for text in show_pages(browser, "r00000", template(0), "x").values()]
    assert {tag for page in pages.values() for tag in page.tags} == {tag for page in harmless for tag in page.tags}
    names, expected = ({name for page in some for name, _ in page.attributes} for some in (pages.values(), harmless))
    assert names - {"open"} == expected  # a decision without a finding shows at once what was looked at
    assert {character for text in texts.values() for character in text if not character.isprintable()} == {"\n"}
    shown = {path for path, page in pages.items() if "<script>alert(1)</script>" in page.text}
    assert pages.keys() - shown == {"/pages/playground", "sign in"}
    assert "<script>alert(1)</script>" in dict(pages["sign in"].attributes)["value"]


def test_a_plot_has_a_step_for_each_day() -> None:
    days = [("2027-03-01", 7), ("2027-03-03", 2), ("2027-03-05", 0)]
    plot = plot_days([{"day": day, "open": number, "new": 0, "resolved": 0} for day, number in days])
    assert plot
    assert plot.path == "M0 160V20.0H320.0V120.0H640.0V160.0H640"
    assert plot.scale == ((160.0, 0), (120.0, 2), (80.0, 4), (40.0, 6), (0.0, 8))
    assert plot_days([]) is None
