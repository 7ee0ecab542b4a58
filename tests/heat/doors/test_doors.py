"""What each door and engine makes of a denied operation."""

from __future__ import annotations

import json

import pytest
import requests
from heat.version import version_info
from heatclient.exc import HTTPForbidden

from tests.heat.doors.denial_table import DOORS, page
from tests.heat.doors.rig import Heat
from tests.heat.doors.templates import LONG, why
from tests.pages import DOCS, assert_written


def test_the_page_of_the_doors_is_what_they_do(request: pytest.FixtureRequest) -> None:
    text = page({fixture: request.getfixturevalue(fixture) for fixture, _ in DOORS})
    if version_info.version_string() == "27.0.1":
        assert_written(DOCS / "doors.md", text)
    else:
        assert text == (DOCS / "doors.md").read_text("utf-8")


def test_a_denied_creation_leaves_no_stack_and_heatclient_prints_the_reason(filtered: Heat) -> None:
    with pytest.raises(HTTPForbidden) as denied:
        filtered.client().stacks.create(stack_name="printed", template=LONG)
    printed, _, _ = str(denied.value).partition(" [decision ")
    assert (printed, filtered.stack("printed")) == (f"ERROR: {why('printed')}", {})


def test_heatclient_prints_the_reason_of_a_vetoed_stack(legacy: Heat) -> None:
    client = legacy.client()
    client.stacks.create(stack_name="shown", template=LONG)
    legacy.ended("shown")
    reason, _, _ = client.stacks.get("shown").stack_status_reason.partition(" [decision ")
    assert reason == why("shown")


def test_a_creation_through_the_api_of_cloudformation_is_vetoed(legacy: Heat) -> None:
    form = {"Action": "CreateStack", "StackName": "formed", "TemplateBody": json.dumps(LONG)}
    assert requests.post(f"{legacy.cfn_url}/v1/", data=form, timeout=60).status_code == 200
    assert legacy.outcome("formed") == ("CREATE_FAILED", why("formed"))
