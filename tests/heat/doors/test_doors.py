"""What each door and engine makes of a denied operation."""

from __future__ import annotations

import pytest
from heat.version import version_info

from tests.heat.doors.denial_table import DOORS, page
from tests.pages import DOCS, assert_written


def test_the_page_of_the_doors_is_what_they_do(request: pytest.FixtureRequest) -> None:
    text = page({fixture: request.getfixturevalue(fixture) for fixture, _ in DOORS})
    if version_info.version_string() == "27.0.1":
        assert_written(DOCS / "doors.md", text)
    else:
        assert text == (DOCS / "doors.md").read_text("utf-8")
