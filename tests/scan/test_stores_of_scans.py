"""A scan stores the same findings in each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.engine.sql.database import open_database
from datalog_gate.scan.batch import ScanRequest
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import ScanStore
from tests.stores.database_servers import DatabaseServer
from tests.unit.scan.test_rejudge import (  # noqa: F401
    ENTRIES,
    fill,
    test_a_pack_finds_the_same_in_stored_facts_as_in_stacks,
    test_rules_find_the_same_in_stored_facts_as_in_stacks,
    test_the_stored_facts_answer_where_they_are_those_of_this_version,
)
from tests.unit.scan.test_scan import (  # noqa: F401
    HUGE,
    ListFeed,
    entry,
    policy_set,
    store,
    test_a_feed_that_fails_loses_nothing,
    test_a_finding_has_the_words_of_the_decision,
    test_a_policy_that_fails_resolves_nothing_of_it,
    test_facts_are_stored_under_the_root_as_far_as_they_fit,
    test_facts_are_stored_where_a_relation_has_capitals_in_its_name,
    test_findings_are_kept_with_their_history,
    test_other_rules_are_tried_on_what_is_stored,
    test_policies_over_the_cloud_judge_what_is_stored,
    test_processes_find_the_same,
    test_two_ways_to_judge_agree,
    test_what_is_gone_has_no_open_finding,
)
from tests.unit.scan.test_scan_interrupted import (  # noqa: F401
    folder,
    test_runs_that_are_killed_end_with_the_same_store,
)


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def filled(request: pytest.FixtureRequest, server: DatabaseServer) -> Iterator[ScanStore]:
    """A store of `ENTRIES` in each database, which tests only read."""
    with open_database(server.database("filled")) if request.param == "postgresql" else open_database() as opened:
        yield fill(ScanStore(opened), ENTRIES)


@pytest.fixture
def create(server: DatabaseServer) -> Callable[[str], str]:
    """A function that makes an empty database."""
    return server.database


def test_two_runs_never_write_one_store_at_once(server: DatabaseServer) -> None:
    url, request = server.database("shared"), ScanRequest(policy_set(), datetime(2027, 3, 1, tzinfo=UTC))
    feed = ListFeed([entry("a", HUGE, "p1")])
    with open_database(url) as second:
        with open_database(url) as first:
            run(feed, "test", ScanStore(first), Judges(request, 1), request)
            with pytest.raises(InputError, match="another run is writing to the store"):
                run(feed, "test", ScanStore(second), Judges(request, 1), request)
        assert run(feed, "test", ScanStore(second), Judges(request, 1), request).unchanged == 1
