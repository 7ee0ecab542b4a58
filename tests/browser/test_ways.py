"""The ways of people through the pages, in Debian's Chromium."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from datalog_gate.doors.cli.main import main
from datalog_gate.doors.server.pages.views import VIEWS
from tests.browser.site import STACKS, Site
from tests.heat.doors.grant_heat import APPROVAL_RULES, grant
from tests.heat.doors.rig import running, wait
from tests.heat.doors.templates import string
from tests.heat.doors.templates import template as stack_template
from tests.page_site import HEAD, HOSTILE, ask_for_approval, fill_hostile, hostile_stack, template
from tests.pages import DOCS
from tests.sources import ROOT
from tests.unit.doors.server.test_pages import RULE, make_pages
from tests.unit.doors.server.test_server import TOKEN

AXE = {"rules": {"target-size": {"enabled": True}}}
"""By default axe leaves out the size of targets."""
PAIR = """\
  web_{at}:
    type: OS::Nova::Server
    properties: {{image: debian-12, flavor: m1.small, security_groups: [{{get_resource: ssh_{at}}}]}}
  ssh_{at}:
    type: OS::Neutron::SecurityGroup
    properties: {{rules: [{{port_range_min: 22, port_range_max: 22, remote_ip_prefix: 0.0.0.0/0}}]}}
"""
OPEN = "document.querySelectorAll('details').forEach(part => part.open = true)"
WIDTHS = (360, 390, 720, 1400, 1600)
PICTURE = DOCS / "pictures" / "office_vpn.png"


def sign_in(page: Any, url: str, token: str = TOKEN, path: str = "/pages") -> None:
    page.goto(f"{url}/pages/sign-in?next={path}")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    assert page.url == f"{url}{path}"


def find_problems(page: Any) -> list[tuple[str, int, str]]:
    """What axe finds on a page as it is at 390 pixels and with all that it folds at 1400, and the widths at which it
    scrolls sideways."""
    problems = []
    for folded in (True, False):
        if not folded:
            page.evaluate(OPEN)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            is_tried = (width, folded) in ((390, True), (1400, False))
            violations = Axe().run(page, options=AXE).response["violations"] if is_tried else []
            problems += [(page.url, width, violation["id"]) for violation in violations]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                problems.append((page.url, width, "scrolls sideways"))
    return problems


def test_a_denied_stack_leads_to_the_line_to_change(page: Any, site: Site) -> None:
    sign_in(page, site.url, path="/pages/playground")
    page.locator("#rules").fill("")
    page.locator("#template").fill(template(3))
    page.get_by_role("button", name="Try").click()
    assert page.title() == "Denied by 1 policy: stack · datalog_gate"
    page.get_by_role("link", name="ssh, Neutron SecurityGroup, Denied, 1 finding").click()
    page.locator("article.deny .where a").first.click()
    line = page.locator(".line:target")
    assert "remote_ip_prefix: 0.0.0.0/0" in line.inner_text()
    assert line.locator("mark").inner_text() == "0.0.0.0/0"


def test_a_stack_of_a_real_heat_goes_on_once_its_request_is_approved(page: Any, site: Site, tmp_path: Path) -> None:
    options = {
        "services": "approval",
        "service_option": "approval.wait_seconds=600",
        "store": site.server.point.settings.store,
    }
    with running(tmp_path, convergence=True, rules=APPROVAL_RULES, options=options) as heat:
        name, _ = heat.create(stack_template(g=grant("approval", ["s"], options={"mode": "wait"}), s=string()))
        sign_in(page, site.url)
        request = page.locator("li", has_text=f" of {name},").get_by_role("link")
        wait(lambda: bool(page.goto(f"{site.url}/pages") and request.count()))
        number = request.inner_text()
        assert heat.resources(name) == {"g": "CREATE_IN_PROGRESS", "s": "INIT_COMPLETE"}
        request.click()
        page.get_by_label("Reason, for the user").fill("for March")
        page.get_by_role("button", name="Approve").click()
        assert heat.ended(name)[0] == "CREATE_COMPLETE"
        assert heat.resources(name) == {"g": "CREATE_COMPLETE", "s": "CREATE_COMPLETE"}
        page.goto(page.url)
        assert page.get_by_role("heading", level=1).inner_text() == f"{number}: used"


def test_the_policy_with_most_findings_lists_its_subjects(page: Any, site: Site) -> None:
    sign_in(page, site.url)
    most = page.locator("section", has=page.get_by_role("heading", name="By policy")).locator("tbody a").first
    assert most.inner_text() == "ssh"
    most.click()
    hit = page.locator("section", has=page.get_by_role("heading", name="Affected projects")).locator(
        "tbody td:first-child"
    )
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
    page.get_by_label("The first day on which it no longer holds").fill("2127-01-01")
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
    denial = "✕ no scan has found this stack, or it belongs to another project"
    assert page.get_by_role("alert").inner_text() == denial


@pytest.mark.parametrize("filled", ["site", "empty_site"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_finding_of_axe_or_scrolls_sideways(
    chromium: Any, request: pytest.FixtureRequest, filled: str, scheme: str
) -> None:
    site: Site = request.getfixturevalue(filled)
    with chromium.new_context(color_scheme=scheme) as context:
        page, messages, problems = context.new_page(), [], []
        page.set_default_timeout(60_000)
        page.on("console", lambda message: messages.append(message.text))
        names = {"stack": "r00000", "policy": "ssh", "approval": "A-0"}
        if filled == "site":
            ask_for_approval(site.server, "p1", f"axe-{scheme}")
        sign_in(page, site.url, path="/pages/approvals?state=awaiting")
        if filled == "site":
            names["approval"] = page.get_by_role("link", name=re.compile(r"A-\d+")).last.inner_text()
        for name, rules in (("decision", ""), ("trial", RULE)):
            page.goto(f"{site.url}/pages/playground")
            page.locator("#rules").fill(rules)
            page.get_by_role("button", name="Try").click()
            names[name] = page.url.rpartition("/")[2]
        for path in (*(view.path.format(**names) for view in VIEWS), "/pages/sign-in"):
            page.goto(f"{site.url}{path}")
            for width in (360, 390, 720, 1400, 1600):
                page.set_viewport_size({"width": width, "height": 900})
                violations = Axe().run(page, options=AXE).response["violations"] if width in (390, 1400) else []
                problems += [(path, width, violation["id"]) for violation in violations]
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    problems.append((path, width, "scrolls sideways"))
        # what an empty site has not is answered by a page all the same
        messages = [message for message in messages if "Failed to load resource" not in message]
        assert (problems, messages) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_document_of_check_has_a_finding_of_axe_or_scrolls_sideways(
    chromium: Any, site: Site, tmp_path: Path, scheme: str
) -> None:
    for resources in (0, 12, 50, 300):
        pairs = "".join(PAIR.format(at=at) for at in range(resources // 2)) or "  {}\n"
        (tmp_path / f"s{resources}.yaml").write_text(f"{HEAD}{pairs}")
    (tmp_path / "broken.yaml").write_text("resources: [\n")
    (tmp_path / "mistaken.yaml").write_text(template(0).replace("{get_resource: ssh}", "{get_resource: shh}"))
    names = ["s0", "s12", "s50", "s300", "broken", "mistaken"]
    several = [str(tmp_path / f"{name}.yaml") for name in names if name != "s300"]
    rules = ["--rules", str(site.folder / "rules"), "--format", "compact", "--explain"]
    with chromium.new_context(color_scheme=scheme) as context:
        page, problems = context.new_page(), []
        page.set_default_timeout(60_000)
        for files in (*([str(tmp_path / f"{name}.yaml")] for name in names), several):
            file = tmp_path / "page.html"
            main(["check", *files, *rules, "--output", f"html={file}"])
            page.goto(file.as_uri())
            problems += [(files, *problem[1:]) for problem in find_problems(page)]
        assert problems == []


def test_no_page_with_hostile_texts_runs_or_loads_anything(chromium: Any, tmp_path: Path) -> None:
    site = Site(fill_hostile(tmp_path / "hostile"))
    names = make_pages(site, "hostile", hostile_stack(), " ".join(HOSTILE))
    with chromium.new_context() as context:
        page, events = context.new_page(), []
        page.on("console", lambda message: events.append(message.text))
        page.on("request", lambda request: events.append(request.url))
        page.on("dialog", lambda dialog: events.extend([dialog.type, dialog.dismiss()]))
        sign_in(page, site.url)
        for view in VIEWS:
            events.clear()
            page.goto(f"{site.url}{view.path.format(**names)}")
            assert set(events) <= {page.url, f"{site.url}/pages/style.css"}
        (tmp_path / "hostile.yaml").write_text(hostile_stack())
        file = tmp_path / "hostile.html"
        rules = ["--rules", str(tmp_path / "hostile" / "rules"), "--format", "compact"]
        assert main(["check", str(tmp_path / "hostile.yaml"), *rules, "--output", f"html={file}"]) == 1
        events.clear()
        page.goto(file.as_uri())
        assert events == [file.as_uri()]
    site.close()


def test_a_group_is_opened_by_its_link(page: Any, tmp_path: Path) -> None:
    file = tmp_path / "decision.html"
    rules = ["--rules", str(ROOT / "rules"), "--now", "2027-03-01", "--format", "compact"]
    main(["check", str(ROOT / "fixtures" / "stacks" / "shop"), *rules, "--output", f"html={file}"])
    page.goto(file.as_uri())
    group = page.get_by_role("link", name=re.compile("what is inside")).first
    inside = page.locator(str(group.get_attribute("href")))
    assert not inside.is_visible()
    group.click()
    assert inside.is_visible()


def write_decision(folder: Path, *templates: str | Path) -> str:
    """The address of the page that `check` writes of templates."""
    rules = ["--rules", str(ROOT / "rules"), "--now", "2027-03-01", "--format", "compact"]
    main(["check", *map(str, templates), *rules, "--output", f"html={folder / 'decision.html'}"])
    return (folder / "decision.html").as_uri()


def test_a_resource_marks_its_edges_under_the_pointer_and_by_a_link(page: Any, tmp_path: Path) -> None:
    address = write_decision(tmp_path, ROOT / "fixtures" / "stacks" / "office_vpn")
    page.goto(address)
    vertex = page.locator(".vertex[id]", has=page.locator(".near")).first
    near = vertex.locator(".near").first

    def visibility() -> str:
        return str(near.evaluate("mark => getComputedStyle(mark).visibility"))

    before = visibility()
    vertex.locator(".node").hover()
    under = visibility()
    page.mouse.move(0, 0)
    after = visibility()
    page.goto(f"{address}#{vertex.get_attribute('id')}")
    assert [before, under, after, visibility()] == ["hidden", "visible", "hidden", "visible"]


@pytest.mark.parametrize("stack", ["office_vpn", "300 resources"])
def test_the_first_finding_is_on_the_first_screen(page: Any, tmp_path: Path, stack: str) -> None:
    source = ROOT / "fixtures" / "stacks" / stack
    if not source.exists():
        head, group = template(3).partition("  data:")[0].split("  ssh:")
        source = tmp_path / "large.yaml"
        source.write_text(head + "".join(f"  ssh{at}:{group}" for at in range(300)))
    page.set_viewport_size({"width": 1200, "height": 800})
    page.goto(write_decision(tmp_path, source))
    assert page.locator("article").first.bounding_box()["y"] < 800


def test_many_folded_stacks_are_at_most_3000_pixels_high(page: Any, tmp_path: Path) -> None:
    templates = [tmp_path / f"web{at}.yaml" for at in range(120)]
    for at, file in enumerate(templates):
        file.write_text(template(at % 6))
    page.goto(write_decision(tmp_path, *templates))
    assert page.locator("summary").first.inner_text().split("\n")[0] == "Denied by 1 policy"
    height = page.locator("html").bounding_box()["height"]
    page.locator("summary").first.click()
    assert height <= 3000 < page.locator("html").bounding_box()["height"]


def test_the_picture_of_the_readme_is_that_of_the_page(chromium: Any, tmp_path: Path) -> None:
    stack = ROOT / "fixtures" / "stacks" / "office_vpn" / "template.yaml"
    file = tmp_path / "decision.html"
    rules = ["--rules", str(ROOT / "rules"), "--now", "2027-03-01"]
    assert main(["check", str(stack), *rules, "--output", f"html={file}", "--format", "compact"]) == 1
    page = chromium.new_page(viewport={"width": 1200, "height": 800}, color_scheme="light")
    page.goto(file.as_uri())
    assert Axe().run(page, options=AXE).response["violations"] == []
    picture = page.screenshot(path=PICTURE if os.environ.get("REGENERATE") else None)
    assert page.title() == "Denied by 2 policies: template"
    sizes = [content[16:24] for content in (picture, PICTURE.read_bytes())]
    assert sizes[0] == sizes[1]
    assert len(picture) < 200_000
