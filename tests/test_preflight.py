"""Plugins around an operation: order, snapshots, problems and outcomes."""

from __future__ import annotations

import copy
import hashlib
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from operator import setitem
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stevedore.extension import ExtensionManager

import datalog_gate as dg
from datalog_gate.base.values import SECRET, ResourceId
from datalog_gate.plugins.loader import load_plugins
from datalog_gate.plugins.plugin_errors import PluginError, PluginLoadError, RefusedError, UnavailableError
from datalog_gate.preflight.chain import Chain, load_chain, order_plugins
from datalog_gate.preflight.plugin import GROUP, Outcome, Plugin
from datalog_gate.preflight.snapshot import Part, Snapshot, snapshot
from datalog_gate.stack.model import Stack
from tests.expressions import unknown_of

TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "parameters": {
        "pw": {"type": "string", "hidden": True, "default": "s3cret"},
        "size": {"type": "string", "default": "small"},
        "zone": {"type": "string"},
        "key": {"type": "string", "hidden": True},
    },
    "conditions": {"far": {"equals": [{"get_param": "zone"}, "far"]}},
    "resources": {
        "web": {
            "type": "OS::Nova::Server",
            "metadata": {"note": [{"get_param": "pw"}, "plain"]},
            "properties": {
                "flavor": {"get_param": "size"},
                "image": {"get_resource": "image"},
                "admin_pass": {"get_param": "pw"},
                "user_data": {"list_join": ["-", ["a", {"get_param": "pw"}]]},
                "availability_zone": {"get_param": "zone"},
            },
        },
        "image": {"type": "OS::Glance::WebImage", "condition": "far", "properties": {"tags": ["a", "b"]}},
        "group": {
            "type": "OS::Heat::ResourceGroup",
            "condition": "far",
            "properties": {"count": 1, "resource_def": {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}},
        },
    },
}


def read() -> Stack:
    return dg.read_stack(template=copy.deepcopy(TEMPLATE), stack_name="s")


def taken(stack: Stack | None = None, action: str = "create", **credentials: object) -> Snapshot:
    return snapshot(
        action=action,
        stack_name="s",
        stack_id="1",
        project="p",
        credentials=credentials,
        decision_id="d",
        request_id="r",
        stack=stack,
    )


class Recorder(Plugin):
    """A plugin that records its calls and raises a given exception."""

    def __init__(
        self,
        name: str,
        calls: list[tuple[str, ...]],
        pre: BaseException | None = None,
        post: Exception | None = None,
        ordinal: int = 100,
    ) -> None:
        self.name, self.calls, self.errors, self.ordinal = name, calls, (pre, post), ordinal

    def pre(self, snapshot: Snapshot) -> None:
        self.calls.append(("pre", self.name, snapshot.action))
        if self.errors[0]:
            raise self.errors[0]

    def post(self, _snapshot: Snapshot, outcome: Outcome) -> None:
        self.calls.append(("post", self.name, outcome))
        if self.errors[1]:
            raise self.errors[1]


def three(calls: list[tuple[str, ...]], **errors: BaseException) -> Chain:
    """Plugins a, b and c in this order; b raises `pre_b` and `post_b`."""
    return Chain(
        {
            name: Recorder(name, calls, errors.get(f"pre_{name}"), errors.get(f"post_{name}"))  # type: ignore[arg-type]
            for name in "cab"
        }
    )


def make_plugin(ordinal: int = 100, **names: tuple[str, ...]) -> Plugin:
    plugin = Plugin()
    plugin.ordinal = ordinal
    for key, value in names.items():
        setattr(plugin, key, value)
    return plugin


CIRCLE = "these plugins must each come before the other: "


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ({"a": make_plugin(after=("b",)), "b": make_plugin(after=("a",))}, f"{CIRCLE}a -> b -> a"),
        (
            {"a": make_plugin(before=("c",)), "b": make_plugin(before=("a",)), "c": make_plugin(before=("b",))},
            f"{CIRCLE}a -> c -> b -> a",
        ),
        ({"a": make_plugin(before=("a",))}, f"{CIRCLE}a -> a"),
        (
            {"a": make_plugin(requires=("x", "b")), "b": make_plugin(requires=("y",))},
            "a requires x, which is not enabled; b requires y, which is not enabled",
        ),
        ({"a": make_plugin(before="licence")}, "a.before is not a tuple of names"),  # type: ignore[arg-type]
        ({"a": make_plugin("1")}, "a.ordinal is not a whole number"),  # type: ignore[arg-type]
    ],
)
def test_plugins_in_no_order_are_an_error_that_names_them(plugins: Mapping[str, Plugin], message: str) -> None:
    with pytest.raises(PluginLoadError) as error:
        Chain(plugins)
    assert str(error.value) == message


@st.composite
def partial_orders(draw: st.DrawFn) -> dict[str, Plugin]:
    """Plugins whose names follow a hidden line, so that they have an order."""
    line = draw(st.permutations("abcdefg"))
    plugins = {name: make_plugin(draw(st.integers(0, 2))) for name in line}
    for name, plugin in plugins.items():
        at = line.index(name)
        earlier, later = st.sampled_from([*line[:at], "gone"]), st.sampled_from([*line[at + 1 :], "gone"])
        plugin.after = tuple(draw(st.lists(earlier, max_size=2)))
        plugin.before = tuple(draw(st.lists(later, max_size=2)))
        plugin.requires = tuple(draw(st.lists(st.sampled_from(line[:at]), max_size=1))) if at else ()
    return plugins


@given(plugins=partial_orders(), data=st.data())
def test_any_partial_order_is_kept_least_first_and_whatever_the_order_given(
    plugins: dict[str, Plugin], data: st.DataObject
) -> None:
    order = list(order_plugins(plugins))
    pairs = {(other, name) for name, plugin in plugins.items() for other in (*plugin.after, *plugin.requires)}
    pairs |= {(name, other) for name, plugin in plugins.items() for other in plugin.before}
    expected: list[str] = []
    while len(expected) < len(plugins):
        left = plugins.keys() - expected
        free = (name for name in left if not any(later == name and earlier in left for earlier, later in pairs))
        expected.append(min(free, key=lambda name: (plugins[name].ordinal, name)))
    assert order == expected
    shuffled = data.draw(st.permutations(list(plugins)))
    assert list(order_plugins({name: plugins[name] for name in shuffled})) == order


@pytest.mark.parametrize(
    ("outcome", "order"), [("accepted", "abc"), ("complete", "abc"), ("unknown", "abc"), ("failed", "cba")]
)
def test_plugins_run_in_order_and_hear_a_failure_in_reverse(outcome: Outcome, order: str) -> None:
    calls: list[tuple[str, ...]] = []
    chain = three(calls)
    assert chain.before(taken()).after(outcome) == ()
    assert calls == [("pre", name, "create") for name in "abc"] + [("post", name, outcome) for name in order]


@pytest.mark.parametrize(
    ("raised", "expected", "reason"),
    [
        (RefusedError("no\nlicence \x1b[31m"), RefusedError, "no licence ?[31m"),
        (RefusedError("x" * 5000), RefusedError, "x" * 1000),
        (UnavailableError("nobody there"), UnavailableError, "nobody there"),
        (KeyError("s3cret"), UnavailableError, "its pre-operation is broken (KeyError)"),
    ],
)
def test_the_first_plugin_that_raises_stops_and_earlier_ones_unwind(
    raised: Exception, expected: type[PluginError], reason: str
) -> None:
    calls: list[tuple[str, ...]] = []
    chain = three(calls, pre_c=raised)
    with pytest.raises(PluginError) as error:
        chain.before(taken())
    expected_fields = {"reason": reason, "plugin": "c", "problems": ()}
    assert (type(error.value), vars(error.value), str(error.value)) == (expected, expected_fields, f"c: {reason}")
    assert calls == [*(("pre", name, "create") for name in "abc"), ("post", "b", "failed"), ("post", "a", "failed")]


def test_a_plugin_that_hangs_is_given_up_and_hears_later_that_the_operation_failed() -> None:
    calls: list[tuple[str, ...]] = []
    go, heard = Event(), Event()

    class Hanging(Recorder):
        def pre(self, snapshot: Snapshot) -> None:
            go.wait(60)
            super().pre(snapshot)

        def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
            super().post(snapshot, outcome)
            heard.set()

    chain = Chain({"a": Recorder("a", calls), "b": Hanging("b", calls)}, seconds=0.1)
    with pytest.raises(UnavailableError) as error:
        chain.before(taken())
    assert str(error.value) == "b: did not answer within 0.1 seconds"
    assert calls == [("pre", "a", "create"), ("post", "a", "failed")]
    go.set()
    heard.wait(60)
    assert calls[2:] == [("pre", "b", "create"), ("post", "b", "failed")]


def test_a_plugin_that_hangs_again_and_again_gets_no_more_threads() -> None:
    go = Event()

    class Hanging(Plugin):
        def pre(self, _snapshot: Snapshot) -> None:
            go.wait(60)

    chain, reasons = Chain({"a": Hanging()}, seconds=0.01), list[str]()
    for _ in range(7):
        with pytest.raises(UnavailableError) as error:
            chain.before(taken())
        reasons.append(error.value.reason)
    go.set()
    idle = "has not answered for a while, and is not asked for now"
    assert reasons == ["did not answer within 0.01 seconds"] * 5 + [idle] * 2


def test_a_thread_that_exits_unwinds_first() -> None:
    calls: list[tuple[str, ...]] = []
    with pytest.raises(KeyboardInterrupt):
        three(calls, pre_b=KeyboardInterrupt()).before(taken())
    assert calls == [("pre", "a", "create"), ("pre", "b", "create"), ("post", "a", "failed")]


def test_a_failing_post_operation_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[tuple[str, ...]] = []
    chain = three(calls, post_a=ValueError("s3cret"), post_b=UnavailableError("nobody there"))
    problems = (
        "a was not told that the operation is complete: it is broken (ValueError)",
        "b was not told that the operation is complete: nobody there",
    )
    assert chain.before(taken()).after("complete") == problems
    assert calls[3:] == [("post", name, "complete") for name in "abc"]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, f"decision d: {line}") for line in problems
    ]


def test_a_refusal_names_post_operations_that_fail_while_unwinding() -> None:
    chain = three([], pre_c=RefusedError("no"), post_b=ValueError())
    with pytest.raises(RefusedError) as error:
        chain.before(taken())
    assert error.value.problems == ("b was not told that the operation is failed: it is broken (ValueError)",)


def test_a_plugin_sees_the_stack_with_what_is_hidden_covered_and_no_tokens() -> None:
    zone = unknown_of("{get_param: zone} in s")
    snapshot = taken(read(), user_id="u", roles=["member"], auth_token="t0ken", password="t0ken")
    fields = ("action", "stack_name", "stack_id", "project", "decision_id", "request_id")
    assert [getattr(snapshot, name) for name in fields] == ["create", "s", "1", "p", "d", "r"]
    assert snapshot.credentials == {"user_id": "u", "roles": ("member",)}
    assert snapshot.parameters == {"pw": SECRET, "size": "small", "zone": zone, "key": SECRET}
    open_ = {"flavor": "small", "image": ResourceId("s/image"), "availability_zone": zone}
    web = {**open_, "admin_pass": SECRET, "user_data": SECRET}
    group = {"count": 1, "resource_def": {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}}
    note = {"note": (SECRET, "plain")}
    assert snapshot.parts == (
        Part("s/web", "OS::Nova::Server", web, note, frozenset({"image"}), False, False),
        Part("s/image", "OS::Glance::WebImage", {"tags": ("a", "b")}, None, frozenset(), True, False),
        Part("s/group", "OS::Heat::ResourceGroup", group, None, frozenset(), True, False),
        Part("s/group/0", "OS::Nova::KeyPair", {"name": "k"}, None, frozenset(), True, False),
    )


def test_without_a_stack_there_are_no_parts() -> None:
    snapshot = taken(None, "delete")
    assert (snapshot.action, snapshot.parts, dict(snapshot.parameters)) == ("delete", (), {})


CHANGES: list[Callable[[Any], object]] = [
    lambda snapshot: setattr(snapshot, "action", "delete"),
    lambda snapshot: setattr(snapshot.parts[0], "type", "OS::Heat::None"),
    lambda snapshot: setitem(snapshot.parts[0].properties, "flavor", "huge"),
    lambda snapshot: setitem(snapshot.parts[2].properties["resource_def"]["properties"], "name", "x"),
    lambda snapshot: setitem(snapshot.credentials, "roles", ["admin"]),
    lambda snapshot: snapshot.parts[1].properties["tags"].append("x"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_plugin_can_change_what_the_gate_judged_or_others_see(change: Callable[[Any], object]) -> None:
    stack, roles = read(), ["member"]
    snapshot = taken(stack, roles=roles)

    def digest() -> str:
        return hashlib.sha256(repr((stack, roles, snapshot)).encode()).hexdigest()

    before = digest()
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        change(snapshot)
    assert digest() == before


def test_a_snapshot_shares_nothing_that_changes_with_its_stack() -> None:
    stack = read()
    snapshot = taken(stack)
    before = repr(snapshot)
    stack.resources[1].properties["tags"].append("c")  # type: ignore[attr-defined]
    stack.resources[0].type = "OS::Heat::None"
    assert repr(snapshot) == before


PLUGINS = """
from datalog_gate.preflight.plugin import Plugin

class Good(Plugin):
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
    plugins = load_plugins(GROUP, Plugin, ["two", "one", "again"], {"one": {"url": "x"}})
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
        (["other"], {}, "other does not create a Plugin"),
        (["broken"], {}, "broken does not load: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        (["lost"], {}, "lost does not load: AttributeError: module '{0}' has no attribute 'Lost'"),
        (["asserts"], {}, "asserts does not load: AssertionError: asserted"),
    ],
)
def test_what_can_not_be_loaded_stops_and_is_named(
    installed: str, names: list[str], settings: dict[str, dict[str, str]], message: str
) -> None:
    with pytest.raises(PluginLoadError) as error:
        load_chain(names, settings)
    assert str(error.value) == f"the plugins of {GROUP} can't be loaded: {message.format(installed)}"


def test_the_snapshot_is_taken_without_the_libraries_of_plugins() -> None:
    """Who enables none pays for none."""
    code = "import sys, datalog_gate.preflight.chain as chain; chain.load_chain([], {}); "
    code += "sys.exit(bool({'stevedore', 'requests', 'urllib3'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
