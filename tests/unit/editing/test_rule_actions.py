"""Edits of rules that settle what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalog_gate.editing.actions import rule_actions
from datalog_gate.editing.template_edits import apply_edits
from datalog_gate.editing.workspace import Workspace

HEAD = '@deny("p", "{s} is wrong")\np(s) :- '


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("os:nova:server(s, name=null).", "os:nova:server(_id=s, name=null)."),
        ("server(_id=s, name=null).", "os:nova:server(_id=s, name=null)."),
        (
            'os:nova:server(_id=s, name=n), starts_with(n, "db").',
            'os:nova:server(_id=s, name=n), starts_with(n ?? "", "db").',
        ),
        (
            'os:nova:server(_id=s, image=i), starts_with(i, "db").',  # an image may be a resource, too
            'os:nova:server(_id=s, image=i), i != null, starts_with(i, "db").',
        ),
        ("os:cinder:volume(_id=s, size=n), n < 5.", "os:cinder:volume(_id=s, size=n), n ?? 0 < 5."),
        ('os:nova:server(_id=s, name="null").', "os:nova:server(_id=s, name=null)."),
        (
            "os:nova:server(_id=s), n = sum{ size ?? 0 : os:cinder:volume(size=size) }, n > 5.",
            "os:nova:server(_id=s), n = sum{ size ?? 0, v : os:cinder:volume(_id=v, size=size) }, n > 5.",
        ),
    ],
)
def test_the_edit_of_a_mistake_keeps_what_the_rule_says(tmp_path: Path, wrong: str, right: str) -> None:
    workspace, path = Workspace(tmp_path), tmp_path.resolve() / "rules" / "m.dl"
    workspace.edit(path, HEAD + wrong)
    problems = workspace.check_pack(path)[str(path)]
    [action, *_] = rule_actions(workspace.folder(path), path, problems)
    assert apply_edits({str(path): HEAD + wrong}, action.edits) == {str(path): HEAD + right}


def test_no_edit_takes_the_quotes_from_what_a_template_may_say_either_way(tmp_path: Path) -> None:
    workspace, path = Workspace(tmp_path), tmp_path.resolve() / "rules" / "m.dl"
    workspace.edit(path, HEAD + 'os:nova:server.metadata(_id=s, _key="slots", _value="5").')
    problems = workspace.check_pack(path)[str(path)]
    assert [problem.help for problem in problems] == ['write `value in [5, "5"]`']
    assert rule_actions(workspace.folder(path), path, problems) == []
