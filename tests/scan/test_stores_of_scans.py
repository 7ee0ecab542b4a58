"""A scan keeps the same in each database."""

from __future__ import annotations

from tests.test_rejudge import (  # noqa: F401
    test_packs_find_the_same_in_stored_facts_as_in_stacks,
    test_rules_find_the_same_in_stored_facts_as_in_stacks,
    test_the_stored_facts_answer_where_they_are_those_of_this_version,
)
from tests.test_scan import (  # noqa: F401
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
