"""Sign-in to the pages with a password of a real Keystone."""

from __future__ import annotations

import re

import pytest
import requests

from datalog_gate.doors.server.pages.sessions import COOKIE
from tests.server.rig import PASSWORD, PATIENCE, Site

SCOPES = {
    "ann": {"project": "demo"},
    "bob": {"project": "other", "project_domain": "acme"},
    "sid": {},
}
SEEN = {"ann": ["stack-r1", "stack-r2"], "bob": ["stack-r3"], "sid": ["stack-r1", "stack-r2", "stack-r3"]}


def sign_in(site: Site, session: requests.Session, **form: str) -> requests.Response:
    given = {"user_domain": "Default", "next": "/pages/stacks", **form}
    return session.post(f"{site.url}/pages/sign-in", given, timeout=PATIENCE)


@pytest.mark.parametrize("user", SCOPES)
def test_a_user_who_signs_in_sees_the_stacks_of_the_project(site: Site, user: str) -> None:
    session = requests.Session()
    page = sign_in(site, session, username=user, password=PASSWORD, **SCOPES[user])
    assert (page.status_code, page.url) == (200, f"{site.url}/pages/stacks")
    assert sorted(re.findall(r'href="/pages/stacks/.*?">(stack-.*?)</a>', page.text)) == SEEN[user]
    assert [(cookie.name, cookie.path) for cookie in session.cookies] == [(COOKIE, "/pages")]
    assert session.get(f"{site.url}/v2/stacks", timeout=PATIENCE).status_code == 401


@pytest.mark.parametrize(
    "wrong",
    [{"password": "wrong"}, {"username": "nobody"}, {"project": "other"}, {"project": ""}, {"user_domain": "acme"}],
    ids=lambda wrong: next(iter(wrong)) if isinstance(wrong, dict) else "",
)
def test_a_wrong_name_password_project_or_domain_is_refused(site: Site, wrong: dict[str, str]) -> None:
    session = requests.Session()
    page = sign_in(site, session, **{"username": "ann", "password": PASSWORD, "project": "demo"} | wrong)
    assert page.status_code == 401
    assert "✕ Keystone does not accept the name, password, domain and project" in page.text
    assert (list(session.cookies), PASSWORD in page.text) == ([], False)


def test_signing_out_ends_the_session(site: Site) -> None:
    session = requests.Session()
    sign_in(site, session, username="ann", password=PASSWORD, project="demo")
    session.post(f"{site.url}/pages/sign-out", timeout=PATIENCE)
    page = session.get(f"{site.url}/pages/stacks", timeout=PATIENCE)
    assert page.url.startswith(f"{site.url}/pages/sign-in?next=")
