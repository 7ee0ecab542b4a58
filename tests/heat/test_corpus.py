"""Our fixtures and the corpus, resolved by us and by Heat."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.heat.categories import CATEGORIES, category
from tests.heat.comparison import Difference
from tests.heat.inputs import compare_files
from tests.template_mistakes import Case, find_corpus, find_fixtures


@pytest.mark.parametrize("cases", [find_fixtures(), find_corpus()], ids=["fixtures", "corpus"])
def test_heat_resolves_what_we_read_as_we_do(cases: list[Case]) -> None:
    if not cases:
        pytest.skip("the corpus is not here")
    resources = compared = 0
    strange: list[tuple[str, Difference]] = []
    known: Counter[str] = Counter()
    for template, environments, root in cases:
        report = compare_files(template, environments, root)
        resources, compared = resources + report.resources, compared + report.compared
        for difference in report.differences:
            if name := category(difference):
                known[name] += 1
            else:
                strange.append((str(template), difference))
    print(f"{compared} of {resources} resources compared; differences by category: {dict(known)}")
    assert strange == []
    assert compared >= 0.95 * resources


def test_at_most_ten_categories_and_every_one_names_its_line_in_heat() -> None:
    assert len(CATEGORIES) <= 10
    assert [category.name for category in CATEGORIES if not category.source.startswith("heat/")] == []
