"""The api-paste.ini of docs/install.md is Heat's own with both doors."""

from __future__ import annotations

import re

from tests.keystone.rig import PASTE, gated
from tests.pages import DOCS


def test_the_page_shows_each_pipeline_of_heats_own_file_with_its_door() -> None:
    [section] = [
        block
        for block in re.findall(r"```ini\n(.*?)```", (DOCS / "install.md").read_text("utf-8"), re.S)
        if "[filter" in block
    ]
    before, after = PASTE.read_text().splitlines(), gated(PASTE.read_text()).splitlines()
    ours = [line for line in section.splitlines() if line not in before]
    assert (ours, set(section.splitlines()) - set(after)) == ([line for line in after if line not in before], set())
