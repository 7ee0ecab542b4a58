"""Chromium and a site to visit, for tox environment `pages`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.page_site import fill

if TYPE_CHECKING:
    from tests.browser.site import Site

CHROMIUM = shutil.which("chromium")
INSTALLED = all(map(find_spec, ("playwright", "axe_playwright_python", "heat", "keystone")))
if INSTALLED and not CHROMIUM:
    raise pytest.UsageError("these tests need Debian's browser: apt-get install chromium")
collect_ignore_glob = [] if INSTALLED else ["test_*.py"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    from tests.browser.site import STACKS, Site

    folder = tmp_path_factory.mktemp("site")
    fill(folder, stacks=STACKS, days=2)
    site = Site(folder)
    yield site
    site.close()


@pytest.fixture(scope="session")
def empty_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose scan has found no stack."""
    from tests.browser.site import Site

    folder = tmp_path_factory.mktemp("empty")
    fill(folder, stacks=0, days=1)
    site = Site(folder)
    yield site
    site.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
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
