"""The layered layout of graphs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from datalog_gate.pages.layout import BEND, GAP, HEIGHT, RISE, WIDTH, Layout, arrange
from tests.sampling import sample

NAMES = st.text("abcdefgh", min_size=1, max_size=2)


Graph = tuple[dict[str, float], list[tuple[str, str]]]
"""The widths of nodes, and edges."""


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    widths = draw(st.dictionaries(NAMES, st.floats(40, 300).map(round).map(float), min_size=1, max_size=25))
    names = st.sampled_from(list(widths))
    edges = draw(st.lists(st.tuples(names, names), max_size=40, unique=True))
    return widths, [edge for edge in edges if edge[0] != edge[1]]


def overlapping(widths: dict[str, float], layout: Layout) -> list[tuple[str, str]]:
    """Nodes that are nearer to each other than `GAP`, and nodes that an edge goes through."""
    boxes = [(name, *layout.positions[name]) for name in widths]
    near = [
        (first, second)
        for at, (first, x, y) in enumerate(boxes)
        for second, other_x, other_y in boxes[at + 1 :]
        if abs(y - other_y) < HEIGHT
        and x < other_x + widths[second] + GAP - 1
        and other_x < x + widths[first] + GAP - 1
    ]
    crossed = [
        (" to ".join(edge), name)
        for edge, points in layout.routes.items()
        for (x, y), (end_x, end_y) in pairwise(points)
        for name, left, top in boxes
        if end_y - y == HEIGHT and y == top and left - BEND < x < left + widths[name] + BEND and end_x == x
    ]
    return near + crossed


@settings(max_examples=sample(200), deadline=None)
@given(graphs())
def test_any_graph_has_no_overlaps_and_arrows_that_go_down(
    graph: tuple[dict[str, float], list[tuple[str, str]]],
) -> None:
    widths, edges = graph
    layout = arrange(widths, edges)
    assert overlapping(widths, layout) == []
    assert set(layout.positions) == set(widths)
    for (upper, lower), points in layout.routes.items():
        (first_x, first_y), (last_x, last_y) = points[0], points[-1]
        left, top = layout.positions[upper]
        assert (first_x, first_y) == (left + widths[upper] / 2, top + HEIGHT)
        left, top = layout.positions[lower]
        assert (last_x, last_y) == (left + widths[lower] / 2, top)
        assert all(y < end_y for (_, y), (_, end_y) in pairwise(points))
        assert {end_y - y for (_, y), (_, end_y) in pairwise(points)} <= {HEIGHT, RISE}
    corners = [(x + widths[name], y + HEIGHT) for name, (x, y) in layout.positions.items()]
    bends = [x + BEND / 2 for points in layout.routes.values() for x, _ in points]
    assert abs(layout.width - max([*bends, *(x for x, _ in corners)])) < 0.1
    assert layout.height == max(y for _, y in corners)
    assert min(x for x, _ in layout.positions.values()) >= 0
    assert layout == arrange(dict(widths), list(edges))
    missing = set(edges) - set(layout.routes)
    assert not missing or has_circle(widths, edges)


def has_circle(widths: dict[str, float], edges: list[tuple[str, str]]) -> bool:
    left = set(widths)
    while ends := left - {lower for upper, lower in edges if upper in left and lower in left}:
        left -= ends
    return bool(left)


def test_a_chain_is_one_column_and_single_resources_are_below() -> None:
    layout = arrange({"net": 90.0, "subnet": 90.0, "port": 90.0, "key": 90.0}, [("net", "subnet"), ("subnet", "port")])
    step = HEIGHT + RISE
    assert layout.positions == {
        "net": (0.0, 0.0), "subnet": (0.0, step), "port": (0.0, 2 * step), "key": (0.0, 3 * step),
    }  # fmt: skip


def test_nodes_without_edges_take_no_room_among_the_others() -> None:
    alone = [f"volume_{number}" for number in range(40)]
    widths = dict.fromkeys(["group", *alone, "data", "server"], 100.0)
    positions = arrange(widths, [("group", "server"), ("data", "server")]).positions
    assert [positions[name][1] for name in ("group", "data", "server", alone[0])] == [0.0, 0.0, 88.0, 176.0]


def test_a_layer_takes_no_more_than_has_room() -> None:
    widths = {"router": 100.0, **{f"port_{number}": 100.0 for number in range(40)}}
    layout = arrange(widths, [("router", name) for name in widths if name != "router"])
    layers = {y for _, y in layout.positions.values()}
    counts = [sum(y == layer for _, y in layout.positions.values()) for layer in sorted(layers)]
    assert counts == [1, 9, 9, 9, 9, 4]
    assert counts[1] * (100 + GAP) <= WIDTH


def test_nodes_that_share_what_they_need_stay_within_the_width_of_a_layer() -> None:
    """A group that servers of every layer need, and a volume for each."""
    names = [f"{kind}_{number}" for number in range(12) for kind in ("net", "server", "volume", "attachment")]
    edges = [
        *((f"net_{number}", f"server_{number}") for number in range(12)),
        *(("group", f"server_{number}") for number in range(12)),
        *((f"{kind}_{number}", f"attachment_{number}") for number in range(12) for kind in ("server", "volume")),
    ]
    layout = arrange(dict.fromkeys(["group", *names], 150.0), edges)
    assert 1000 < layout.width < WIDTH + 12 * 24
