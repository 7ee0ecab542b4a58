"""The versions of templates: what each calls its sections, and which functions it has (layer 2).

In: the data of a template. Out: its `Dialect`. Source of the tables: heat/engine/hot/template.py and
heat/engine/cfn/template.py. A map whose key is no function of the template's version is plain data there, and here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_NAMES = {
    "newton": "2016-10-14",
    "ocata": "2017-02-24",
    "pike": "2017-09-01",
    "queens": "2018-03-02",
    "rocky": "2018-08-31",
    "wallaby": "2021-04-16",
}
_DATES = ("2013-05-23", "2014-10-16", "2015-04-30", "2015-10-15", "2016-04-08", *_NAMES.values())
_CFN = {"AWSTemplateFormatVersion": ("2010-09-09",), "HeatTemplateFormatVersion": ("2012-12-12", "2016-10-14")}

_SINCE = {
    "2013-05-23": "get_param get_resource get_attr get_file list_join str_replace resource_facade",
    "2015-04-30": "repeat digest",
    "2015-10-15": "str_split",
    "2016-04-08": "map_merge",
    "2016-10-14": "yaql map_replace if",
    "2017-02-24": "filter str_replace_strict",
    "2017-09-01": "make_url list_concat list_concat_unique contains str_replace_vstrict",
}
_CFN_FUNCTIONS = (
    "Ref Fn::GetAZs Fn::Join Fn::Split Fn::Replace Fn::Base64 Fn::MemberListToMap Fn::ResourceFacade Fn::Select"
)
_REMOVED = dict.fromkeys(_CFN_FUNCTIONS.split(), "2014-10-16") | {"Fn::Select": "2015-10-15"}
_CONDITIONS = frozenset({"equals", "not", "and", "or"})
_CFN_CONDITIONS = frozenset({"Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or"})

RESOURCE_KEYS = {
    "type": "Type",
    "properties": "Properties",
    "metadata": "Metadata",
    "depends_on": "DependsOn",
    "deletion_policy": "DeletionPolicy",
    "update_policy": "UpdatePolicy",
    "description": "Description",
    "condition": "Condition",
    "external_id": "external_id",
}
_HOT_PARTS = {name: name for name in RESOURCE_KEYS}
_CFN_PARTS = {written: name for name, written in RESOURCE_KEYS.items()}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version of one kind of template. `functions` may stand anywhere, `conditional` in conditions; `removed` are
    refused by name. `resources` is what the section of that name is called, `parts` what HOT calls the keys in it."""

    version: str
    hot: bool
    functions: frozenset[str]
    conditional: frozenset[str]
    removed: frozenset[str]
    resources: str
    parts: Mapping[str, str]

    def key(self, name: str) -> str:
        """What this dialect calls the section or key that HOT calls `name`."""
        return name if self.hot else RESOURCE_KEYS.get(name, name.capitalize())


def dialect_of(template: Mapping[object, object]) -> Dialect | str:
    """The dialect, or in words why the data is no template."""
    for name, versions in _CFN.items():
        if name in template:
            version = str(template[name])
            return _cfn(version) if version in versions else f"{name} {version} is none of {', '.join(versions)}"
    if "heat_template_version" not in template:
        return "this is no template: heat_template_version is missing"
    written = str(template["heat_template_version"])
    version = _NAMES.get(written, written)
    if version not in _DATES:
        return f"heat_template_version {written} is none of {', '.join((*_DATES, *_NAMES))}"
    since = {name for first, names in _SINCE.items() if first <= version for name in names.split()}
    kept = {name for name, end in _REMOVED.items() if version < end}
    functions = frozenset(since | kept)
    conditional = functions | _CONDITIONS if version >= "2016-10-14" else frozenset[str]()
    return Dialect(written, True, functions, conditional, frozenset(_REMOVED) - kept, "resources", _HOT_PARTS)


def _cfn(version: str) -> Dialect:
    functions = frozenset((*_CFN_FUNCTIONS.split(), "Fn::GetAtt", "Fn::FindInMap"))
    if version != "2016-10-14":
        return Dialect(version, False, functions, frozenset(), frozenset(), "Resources", _CFN_PARTS)
    functions |= {"Fn::If"}
    return Dialect(version, False, functions, functions | _CFN_CONDITIONS, frozenset(), "Resources", _CFN_PARTS)
