"""Undetermined findings that share a cause."""

from __future__ import annotations

from pathlib import Path

import datalog_gate as dg

HEAD = "heat_template_version: 2021-04-16\n"
ZONES = (
    HEAD + "parameters: {zone: {type: string, constraints: [{allowed_values: [z1, z2]}]}}\n"
    "resources: {s: {type: OS::Nova::Server, properties: {image: i, availability_zone: {get_param: zone}}}}\n"
)
RULES = """\
@deny("t.some", "x")
some(t) :- heat:stack(id=t), not (os:nova:server(availability_zone=zone), zone = "z2").
@deny("t.most", "x")
most(t, zone) :- heat:stack(id=t), os:nova:server(availability_zone=zone), zone = "z2".
@deny("t.more", "x")
more(t, zone) :- heat:stack(id=t), os:nova:server(availability_zone=zone), zone != null, zone > "z1".
"""


def said(rules: str, template: str, folder: Path) -> list[tuple[str, str]]:
    """The policy and message of each undetermined finding."""
    (folder / "r.dl").write_text(rules)
    decision = dg.load_rules(str(folder / "r.dl")).decide(dg.read_stack(template))
    return [(finding.policy, finding.full_message) for finding in decision.undetermined]


def test_policies_are_named_together_only_if_they_have_one_condition(tmp_path: Path) -> None:
    assert said(RULES, ZONES, tmp_path) == [
        ("t.more", "x: denied if parameter zone is z2; so do 1 more policy"),
        ("t.some", "x: denied if parameter zone is z1"),
    ]


def test_policies_are_not_named_together_if_their_conditions_are_not_known(tmp_path: Path) -> None:
    free = ZONES.replace(", constraints: [{allowed_values: [z1, z2]}]", "")
    assert said(RULES, free, tmp_path) == [
        (policy, "x: depends on parameter zone") for policy in ("t.more", "t.most", "t.some")
    ]


def test_conditions_that_differ_in_what_is_not_listed_are_not_named_together(tmp_path: Path) -> None:
    rules = "".join(
        f'@deny("t{last}", "x")\nr{last}(t) :- heat:stack(id=t), '
        f'os:nova:server(availability_zone=z), z in ["a", "b", "c", "{last}"].\n'
        for last in "de"
    )
    message = "x: denied if parameter zone is a or b or c or 1 more"
    assert said(rules, ZONES.replace("z1, z2", "a, b, c, d, e"), tmp_path) == [("td", message), ("te", message)]


def test_templates_that_were_not_read_are_one_finding_whatever_reads_them(tmp_path: Path) -> None:
    urls = [f"https://example.com/{at}.yaml" for at in range(8)]
    resources = ", ".join(f"r{at}: {{type: '{url}'}}" for at, url in enumerate(urls))
    rules = "".join(
        f'@deny("p{at}", "m")\np{at}(a, b, c) :- {kind}(_id=a), {kind}(_id=b), {kind}(_id=c), a != b, b != c.\n'
        for at, kind in enumerate(["os:nova:server", "os:neutron:port", "os:cinder:volume"])
    )
    message = f"the templates at {urls[0]}, {urls[1]} and 6 more were not read: 3 policies may depend on what they hold"
    assert said(rules, HEAD + f"resources: {{net: {{type: OS::Neutron::Net}}, {resources}}}\n", tmp_path) == [
        ("p0", message)
    ]
