"""A policy that reads one of two ways to write the same.

Rules of a security group stand in the group, or are resources of their own.
"""

from __future__ import annotations

from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.schema.declaration import relation_name

INLINE, SEPARATE = "os:neutron:security_group.rules", "os:neutron:security_group_rule"
"""Rules listed in a security group, and rules as resources of their own."""


@lint(
    code="one-form",
    wrong="@deny p(x) :- os:neutron:security_group.rules(_id=x, remote_ip_prefix=null).",
    right="@deny p(x) :- os:neutron:security_group.rules(_id=x, remote_ip_prefix=null). "
    "p(x) :- os:neutron:security_group_rule(_id=x, remote_ip_prefix=null).",
)
def find_single_forms(review: Review) -> Found:
    everything = {relation_name(name) for rule in review.rules for name in rule.mentioned}.union(review.read)
    if (INLINE in everything) == (SEPARATE in everything):
        return
    read_form, other = (INLINE, SEPARATE) if INLINE in everything else (SEPARATE, INLINE)
    for policy in review.own_policies:
        if read_form in map(relation_name, review.below([policy.relation])):
            message = f"{policy.id} reads {read_form}, but a template can also say the same with {other}"
            bare = policy.relation.rpartition(":")[2]
            yield warn("one-form", message, policy.span, f"add a second rule of {bare} that reads {other}")
