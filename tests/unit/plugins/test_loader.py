"""The loading of plugins by their names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from stevedore.extension import ExtensionManager

from datalog_gate.plugins.loader import load_plugins
from datalog_gate.plugins.plugin_errors import PluginLoadError
from datalog_gate.services.contract import GROUP, Service

PLUGINS = """
from datalog_gate.services.contract import Service

class Good(Service):
    def __init__(self, settings):
        self.settings = settings

def bad(settings):
    raise ValueError(f"bad {sorted(settings)}")

def other(settings):
    return object()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two distributions with plugins, and the module that they are in."""
    module = f"plugins_{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}"
    (tmp_path / f"{module}.py").write_text(PLUGINS)
    (tmp_path / f"{module}_broken.py").write_text("import no_such_module_anywhere\n")
    (tmp_path / f"{module}_asserts.py").write_text("assert False, 'asserted'\n")
    both = f"twice = {module}:%s\nagain = {module}:Good\n"
    entries = {
        "one": f"{both % 'Good'}one = {module}:Good\nbad = {module}:bad\nother = {module}:other\n"
        f"broken = {module}_broken:Good\nasserts = {module}_asserts:Good\nlost = {module}:Lost\n",
        "two": f"{both % 'bad'}two = {module}:Good\n",
    }
    for name, lines in entries.items():
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # stevedore keeps what it found there, and here
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    return module


@pytest.mark.usefixtures("installed")
def test_plugins_are_found_by_name_in_the_order_given_and_get_their_settings() -> None:
    plugins = load_plugins(GROUP, Service, ["two", "one", "again"], {"one": {"url": "x"}})
    assert [(name, vars(plugin)) for name, plugin in plugins.items()] == [
        ("two", {"settings": {}}),
        ("one", {"settings": {"url": "x"}}),
        ("again", {"settings": {}}),
    ]


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        (["gone", "one", "away"], {}, "gone is not installed; away is not installed"),
        (["twice"], {}, "twice is installed twice: {0}:Good, {0}:bad"),
        (["one", "one"], {}, "one is listed twice"),
        (["one"], {"two": {}}, "two has settings, but is not enabled"),
        (["bad"], {"bad": {"a": "1"}}, "bad can't be created: ValueError: bad ['a']"),
        (["other"], {}, "other does not create a Service"),
        (["broken"], {}, "broken does not load: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        (["lost"], {}, "lost does not load: AttributeError: module '{0}' has no attribute 'Lost'"),
        (["asserts"], {}, "asserts does not load: AssertionError: asserted"),
    ],
)
def test_what_can_not_be_loaded_stops_and_is_named(
    installed: str, names: list[str], settings: dict[str, dict[str, str]], message: str
) -> None:
    with pytest.raises(PluginLoadError) as error:
        load_plugins(GROUP, Service, names, settings)
    assert str(error.value) == f"the plugins of {GROUP} can't be loaded: {message.format(installed)}"
