"""The ways of people through the pages, in Debian's Chromium."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from datalog_gate.doors.cli.main import main
from datalog_gate.doors.server.application import create_app, trust_token
from datalog_gate.doors.server.pages.views import VIEWS
from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.serving import read_config
from tests.page_site import ask_for_approval, fill, template
from tests.pages import DOCS
from tests.sources import ROOT
from tests.test_server import TOKEN, trust_users
from tests.test_server_pages import CONF, RULE

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Debian's chromium is not installed")
PICTURE = DOCS / "pictures" / "office_vpn.png"
STACKS = 1000


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Site:
    """A server for its operator, and one for users of Keystone, whose tokens are their names."""

    def __init__(self, folder: Path) -> None:
        fill(folder, stacks=STACKS, days=2)
        (folder / "server.conf").write_text(CONF.format(folder=folder))
        conf = read_config(folder / "server.conf")
        self.server = create_server(conf)
        applications = [create_app(conf, self.server, trust) for trust in (trust_token(TOKEN), trust_users)]
        self.servers = [make_server("127.0.0.1", 0, made, handler_class=_Quiet) for made in applications]
        for server in self.servers:
            Thread(target=server.serve_forever, daemon=True).start()
        self.url, self.url_of_users = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    for server in site.servers:
        server.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page in a context without JavaScript of its own, whose console must have no report of the policy."""
    with chromium.new_context(java_script_enabled=False) as context:
        page, messages = context.new_page(), []
        page.set_default_timeout(60_000)
        page.on("console", lambda message: messages.append(message.text))
        yield page
        assert [message for message in messages if "Failed to load resource" not in message] == []  # of refusals


def sign_in(page: Any, url: str, token: str = TOKEN, path: str = "/pages") -> None:
    page.goto(f"{url}/pages/sign-in?next={path}")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    assert page.url == f"{url}{path}"


def test_a_denied_stack_leads_to_the_line_to_change(page: Any, site: Site) -> None:
    sign_in(page, site.url, path="/pages/playground")
    page.locator("#rules").fill("")
    page.locator("#template").fill(template(3))
    page.get_by_role("button", name="Try").click()
    assert page.title() == "Denied: stack · datalog_gate"
    page.get_by_role("link", name="ssh, Neutron SecurityGroup, Denied, 1 finding").click()
    page.locator("article.deny .where a").click()
    line = page.locator(".line:target")
    assert "remote_ip_prefix: 0.0.0.0/0" in line.inner_text()
    assert line.locator("mark").inner_text() == "0.0.0.0/0"


def test_an_operator_approves_a_request(page: Any, site: Site) -> None:
    ask_for_approval(site.server, "p1", "shop")
    sign_in(page, site.url)
    page.get_by_role("link", name="A-1").click()
    page.get_by_label("Why").fill("for March")
    page.get_by_role("button", name="Approve").click()
    assert page.get_by_role("heading", level=1).inner_text() == "A-1: approved"


def test_the_policy_that_hits_most_says_whom(page: Any, site: Site) -> None:
    sign_in(page, site.url)
    most = page.locator("section", has=page.get_by_role("heading", name="By policy")).locator("tbody a").first
    assert most.inner_text() == "ssh"
    most.click()
    hit = page.locator("section", has=page.get_by_role("heading", name="Whom it hits")).locator("tbody td:first-child")
    assert sorted(hit.all_inner_texts()) == ["p1", "p2"]


def test_a_rule_is_refused_mended_and_run_over_a_thousand_stacks(page: Any, site: Site) -> None:
    sign_in(page, site.url, path="/pages/playground")
    page.locator("#rules").fill(RULE.replace("flavor=", "flavour="))
    page.get_by_role("button", name="Try").click()
    assert "did you mean flavor?" in page.get_by_role("alert").inner_text()
    page.locator("#rules").fill(RULE)
    page.get_by_role("button", name="Try").click()
    page.get_by_role("button", name="Run over all stored stacks").click()
    assert page.get_by_role("progressbar").get_attribute("max") == str(STACKS)
    page.get_by_text(f"{STACKS} stacks of {STACKS} would have a finding.").wait_for(timeout=300_000)


def test_a_finding_is_waived_until_a_day_by_keyboard_alone(page: Any, site: Site) -> None:
    sign_in(page, site.url, path="/pages/stacks/r00000")
    page.locator("tbody").get_by_role("link", name="Waive").first.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Reason").focus()
    page.keyboard.type("the archive")
    page.get_by_label("The first day without it").fill("2127-01-01")
    page.get_by_role("button", name="Waive").focus()
    page.keyboard.press("Enter")
    assert page.locator("tbody tr").first.inner_text().split("\t")[:2] == ["S-1", "size"]
    page.goto(f"{site.url}/pages/waivers")
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"


def test_a_member_signs_in_and_sees_nothing_of_another_project(page: Any, site: Site) -> None:
    sign_in(page, site.url_of_users, "ann", "/pages/stacks")
    assert set(page.locator("tbody td:nth-child(4)").all_inner_texts()) == {"p1"}
    page.goto(f"{site.url_of_users}/pages/stacks/r00001")
    assert "another project's" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_finding_of_axe_or_scrolls_sideways(chromium: Any, site: Site, scheme: str) -> None:
    with chromium.new_context(color_scheme=scheme) as context:
        page, messages, problems = context.new_page(), [], []
        page.set_default_timeout(60_000)
        page.on("console", lambda message: messages.append(message.text))
        sign_in(page, site.url, path="/pages/playground")
        names = {"stack": "r00000", "policy": "ssh", "approval": "A-1"}
        for name, rules in (("decision", ""), ("trial", RULE)):
            page.goto(f"{site.url}/pages/playground")
            page.locator("#rules").fill(rules)
            page.get_by_role("button", name="Try").click()
            names[name] = page.url.rpartition("/")[2]
        for path in (*(view.path.format(**names) for view in VIEWS), "/pages/sign-in"):
            began = time.monotonic()
            page.goto(f"{site.url}{path}")
            print(f"{path} {time.monotonic() - began:.2f} s")
            problems += [(path, violation["id"]) for violation in axe.Axe().run(page).response["violations"]]
            for width in (360, 720, 1480, 1600):
                page.set_viewport_size({"width": width, "height": 900})
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    problems.append((path, width))
        assert (problems, messages) == ([], [])


def test_the_picture_of_the_readme_is_that_of_the_page(chromium: Any, tmp_path: Path) -> None:
    stack = ROOT / "fixtures" / "stacks" / "office_vpn" / "template.yaml"
    file = tmp_path / "decision.html"
    rules = ["--rules", str(ROOT / "rules"), "--now", "2027-03-01"]
    assert main(["check", str(stack), *rules, "--output", f"html={file}", "--format", "compact"]) == 1
    page = chromium.new_page(viewport={"width": 1200, "height": 800}, color_scheme="light")
    page.goto(file.as_uri())
    assert axe.Axe().run(page).response["violations"] == []
    picture = page.screenshot(path=PICTURE if os.environ.get("REGENERATE") else None)
    assert page.title() == "Denied: template"
    sizes = [content[16:24] for content in (picture, PICTURE.read_bytes())]
    assert sizes[0] == sizes[1]
    assert len(picture) < 200_000
