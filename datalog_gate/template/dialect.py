"""The versions of templates, with their sections, keys and functions.

Source: heat/engine/hot/template.py and heat/engine/cfn/template.py. As there, other maps with one key are plain data.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from datalog_gate.base.records import dataclass

_NAMES = {
    "newton": "2016-10-14",
    "ocata": "2017-02-24",
    "pike": "2017-09-01",
    "queens": "2018-03-02",
    "rocky": "2018-08-31",
    "wallaby": "2021-04-16",
}
_DATES = ("2013-05-23", "2014-10-16", "2015-04-30", "2015-10-15", "2016-04-08", *_NAMES.values())
CFN_VERSIONS = {"AWSTemplateFormatVersion": "2010-09-09", "HeatTemplateFormatVersion": "2012-12-12"}
"""The version of each kind of CFN template, by its key."""
DELETION_POLICIES = ("Delete", "Retain", "Snapshot")
VERSION_KEYS = ("heat_template_version", *CFN_VERSIONS)
"""The keys of which a template has one."""
_CONDITIONS_SINCE = "2016-10-14"

_SINCE = {
    "2013-05-23": "get_param get_resource get_attr get_file list_join str_replace resource_facade",
    "2015-04-30": "repeat digest",
    "2015-10-15": "str_split",
    "2016-04-08": "map_merge",
    "2016-10-14": "yaql map_replace if",
    "2017-02-24": "filter str_replace_strict",
    "2017-09-01": "make_url list_concat list_concat_unique contains str_replace_vstrict",
}
_SHARED = "Ref Fn::GetAZs Fn::Join Fn::Split Fn::Replace Fn::Base64 Fn::MemberListToMap Fn::ResourceFacade Fn::Select"
_REMOVED = dict.fromkeys(_SHARED.split(), "2014-10-16") | {"Fn::Select": "2015-10-15"}
_CONDITIONAL = {"2016-10-14": "get_param equals not and or", "2017-09-01": "yaql contains"}
_KEYS_SINCE = dict.fromkeys(("conditions", "condition", "external_id"), _CONDITIONS_SINCE) | {"tags": "2018-03-02"}
"""The first version of HOT with a section, or a key of a resource or a parameter."""
_CFN_SINCE = frozenset({"Conditions", "Fn::If"})
_CFN_CONDITIONAL = "Ref Fn::FindInMap Fn::Equals Fn::Not Fn::And Fn::Or"

RESOURCE_KEYS = {
    "type": "Type",
    "properties": "Properties",
    "metadata": "Metadata",
    "depends_on": "DependsOn",
    "deletion_policy": "DeletionPolicy",
    "update_policy": "UpdatePolicy",
    "description": "Description",
    "condition": "Condition",
    "external_id": "",
}
"""The names of keys of a resource in HOT and in CFN, which has no `external_id`."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version of one kind of template. `functions` may be used anywhere, `conditional` in conditions; `removed` are
    refused by name. `date` orders the versions of HOT, whatever their names; the other kind has none. `resources` is
    the name of that section, `parts` maps the name of each key in it to HOT's name."""

    version: str
    hot: bool
    date: str
    functions: frozenset[str]
    conditional: frozenset[str]
    removed: frozenset[str]
    resources: str
    parts: Mapping[str, str]

    def key(self, name: str) -> str:
        """The name in this dialect of the section or key that HOT calls `name`."""
        return name if self.hot else RESOURCE_KEYS.get(name, name.capitalize())

    def newer(self, name: object) -> str | None:
        """The first version with the section, key or function of that name, if this one is older."""
        if not self.hot:
            newest = CFN_VERSIONS["AWSTemplateFormatVersion"]
            return newest if name in _CFN_SINCE and self.version != newest else None
        dates = [date for date, names in _SINCE.items() if name in names.split()]
        date = _KEYS_SINCE.get(str(name), min(dates, default=""))
        return date if date > self.date else None

    def deletion_policy(self, written: object) -> str | None:
        """The policy's canonical name; None if this version does not have it."""
        if written is None:
            return None
        aliases = {name.lower(): name for name in DELETION_POLICIES if self.date >= _CONDITIONS_SINCE}
        return next((name for name in DELETION_POLICIES if written == name), None) or aliases.get(str(written))


def dialect_of(template: Mapping[object, object]) -> Dialect | str:
    """The dialect, or the reason why the data is not a template."""
    keys = [key for key in VERSION_KEYS if isinstance(template.get(key), str)]
    if keys[1:]:
        return "this is not a template: it has more than one version"
    if not keys:
        wrong = "not a string: write it in quotes" if "heat_template_version" in template else "missing"
        return f"this is not a template: heat_template_version is {wrong}"
    written = str(template[keys[0]])
    if keys[0] in CFN_VERSIONS:
        version = CFN_VERSIONS[keys[0]]
        return _cfn(version) if written == version else f"{keys[0]} {written} is not {version}"
    date = _NAMES.get(written, written)
    if date not in _DATES:
        return f"heat_template_version {written} is not one of {', '.join((*_DATES, *_NAMES))}"
    return _hot(written, date)


@cache
def _hot(written: str, date: str) -> Dialect:
    kept = {name for name, end in _REMOVED.items() if date < end}
    return Dialect(
        written,
        True,
        date,
        frozenset(_until(_SINCE, date) | kept),
        frozenset(_until(_CONDITIONAL, date)),
        frozenset(_REMOVED) - kept,
        "resources",
        {name: name for name in RESOURCE_KEYS if date >= _CONDITIONS_SINCE or name not in ("condition", "external_id")},
    )


def _until(table: Mapping[str, str], date: str) -> set[str]:
    return {name for first, names in table.items() if first <= date for name in names.split()}


@cache
def _cfn(version: str) -> Dialect:
    functions, conditional = frozenset((*_SHARED.split(), "Fn::GetAtt", "Fn::FindInMap")), frozenset[str]()
    if version != "2012-12-12":
        functions, conditional = functions | {"Fn::If"}, frozenset(_CFN_CONDITIONAL.split())
    parts = {written: name for name, written in RESOURCE_KEYS.items() if written}
    return Dialect(version, False, "", functions, conditional, frozenset(), "Resources", parts)
