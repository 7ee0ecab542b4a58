"""Users of a real Keystone on the pages, in Debian's Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from datalog_gate.services.approval import Approvals
from tests.ledger import request
from tests.server.rig import PASSWORD, USERS, Site, running


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A policy server behind a Keystone, with stacks of two projects."""
    with running(tmp_path_factory.mktemp("gate")) as site:
        yield site


def sign_in(page: Any, gate: Site, user: str, password: str = PASSWORD, path: str = "/pages/stacks") -> None:
    scope = USERS[user][0]
    page.goto(f"{gate.url}{path}")
    page.get_by_label("Name", exact=True).fill(user)
    page.get_by_label("Password", exact=True).fill(password)
    page.locator("#project").fill(scope.get("project_name", ""))
    page.get_by_label("Domain of the project").fill(scope.get("project_domain_name", "Default"))
    page.get_by_role("button", name="Sign in").first.click()


def sign_out(page: Any, gate: Site) -> None:
    page.get_by_role("button", name="Sign out").click()
    assert page.url == f"{gate.url}/pages/sign-in"


def request_approval(gate: Site, project: str, stack: str) -> str:
    """Ask for an approval, as a stack of the project does. Returns the number of the request."""
    approvals = Approvals(f"sqlite:///{gate.folder}/store")
    asked = request(stack, "seat", project=gate.projects[project], stack=stack)
    name = approvals.use(asked, 1_900_000_000.0, 1e9)[1]
    assert name
    return name.name


def list_names(page: Any) -> list[str]:
    """The first column of the table of a page."""
    names: list[str] = page.locator("tbody td:first-child").all_inner_texts()
    return names


def test_a_wrong_password_is_said_and_the_right_one_leads_where_the_user_wanted(page: Any, gate: Site) -> None:
    sign_in(page, gate, "ann", "wrong", "/pages/stacks?outcome=deny")
    assert page.get_by_role("alert").inner_text() == (
        "✕ Keystone does not accept the name, password, domain and project"
    )
    values = {field.get_attribute("id"): field.input_value() for field in page.locator("input[id]").all()}
    assert values == {
        "username": "ann", "password": "", "user_domain": "Default", "project": "demo", "project_domain": "Default",
        "token": "",
    }  # fmt: skip
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").first.click()
    assert (page.url, list_names(page)) == (f"{gate.url}/pages/stacks?outcome=deny", ["stack-r1"])


def test_users_see_their_project_and_nothing_after_they_sign_out(page: Any, gate: Site) -> None:
    own = {"ann": request_approval(gate, "demo", "s1"), "bob": request_approval(gate, "other", "s3")}
    stacks = {"ann": ["stack-r1", "stack-r2"], "bob": ["stack-r3"]}
    for user, other, stack in (("ann", "bob", "r3"), ("bob", "ann", "r1")):
        sign_in(page, gate, user)
        assert list_names(page) == stacks[user]
        page.goto(f"{gate.url}/pages/approvals?state=awaiting")
        assert list_names(page) == [own[user]]
        denials = {
            f"stacks/{stack}": "✕ no scan has found this stack, or it belongs to another project",
            f"approvals/{own[other]}": "✕ there is no such request, or it belongs to another project",
        }
        for path, denial in denials.items():
            page.goto(f"{gate.url}/pages/{path}")
            assert page.get_by_role("alert").inner_text() == denial
        sign_out(page, gate)
        page.goto(f"{gate.url}/pages/stacks/{stack}")
        assert page.url == f"{gate.url}/pages/sign-in?next=%2Fpages%2Fstacks%2F{stack}"


def test_an_approver_approves_a_request_and_a_member_cannot(page: Any, gate: Site) -> None:
    number = request_approval(gate, "demo", "web")
    path = f"/pages/approvals/{number}"
    heading, buttons = page.get_by_role("heading", level=1), page.locator("main").get_by_role("button")
    sign_in(page, gate, "ann", path="/pages/playground")
    assert buttons.all_inner_texts() == ["Try"]
    key = page.locator("[name=form_key]").input_value()
    page.goto(f"{gate.url}{path}")
    assert (heading.inner_text(), buttons.count()) == (f"{number}: awaiting", 0)
    forged = page.request.post(f"{gate.url}{path}", form={"form_key": key, "verdict": "approved"})
    assert forged.status == 403
    sign_out(page, gate)
    sign_in(page, gate, "adam", path=path)
    page.get_by_label("Reason, for the user").fill("for March")
    assert buttons.all_inner_texts() == ["Approve", "Refuse"]
    buttons.first.click()
    assert (page.url, heading.inner_text(), buttons.count()) == (f"{gate.url}{path}", f"{number}: approved", 0)
    sign_out(page, gate)
    sign_in(page, gate, "ann", path=path)
    assert heading.inner_text() == f"{number}: approved"
    assert page.locator("li", has_text="approved by ").inner_text().endswith(": for March")


def test_a_reader_tries_no_rules_and_a_user_without_a_role_reads_nothing(page: Any, gate: Site) -> None:
    sign_in(page, gate, "rita", path="/pages/playground")
    assert page.locator("main").get_by_role("button").count() == 0
    sign_out(page, gate)
    sign_in(page, gate, "guest")
    assert page.get_by_role("alert").inner_text() == (
        "✕ the policy datalog_gate:stack:list does not allow you this operation"
    )
