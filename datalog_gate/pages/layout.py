"""A layered layout: dependencies are above their dependents.

The steps are those of Sugiyama, Tagawa and Toda (1981): layers of limited width; bends where an edge passes a layer; an
order in each layer by the mean of the neighbours; and places as near to these as the order allows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise

from datalog_gate.base.records import dataclass

HEIGHT = 42.0
"""The height of a node. All lengths here are in pixels."""
GAP = 22.0
"""The distance between nodes of a layer."""
RISE = 46.0
"""The distance between layers."""
BEND = 4.0
"""The width of a bend."""
BEND_GAP = 8.0
"""The distance between a bend and the next vertex."""
WIDTH = 1200.0
"""The maximum width of the nodes in a layer, unless there is only one; bends are not included."""
SWEEPS = 8
Point = tuple[float, float]
Edge = tuple[str, str]
"""The name of the dependency, and of the dependent."""
Vertex = str | tuple[Edge, int]
"""A node, or the bend of an edge in a layer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of nodes and edges, in an area that begins at 0, 0."""

    positions: Mapping[str, Point]
    """The top left corner of each node."""
    routes: Mapping[Edge, Sequence[Point]]
    """The points that each edge passes, from the bottom of a node to the top of another."""
    width: float
    height: float


def arrange(widths: Mapping[str, float], edges: Collection[Edge]) -> Layout:
    """Place nodes of these widths, and the edges among them. Nodes without edges are at the bottom. An edge that closes
    a cycle is left out."""
    layers = _assign_layers(widths, edges)
    kept = [edge for edge in edges if layers[edge[0]] < layers[edge[1]]]
    tied = {name for edge in kept for name in edge}
    chains = {edge: _chain(edge, layers) for edge in kept}
    rows: list[list[Vertex]] = [[] for _ in range(max((layers[name] for name in tied), default=-1) + 1)]
    for name in widths:
        if name in tied:
            rows[layers[name]].append(name)
    for chain in chains.values():
        for at, bend in enumerate(chain[1:-1], start=layers[str(chain[0])] + 1):
            rows[at].append(bend)
    rows = [row for row in rows if row]
    above: dict[Vertex, list[Vertex]] = {}
    below: dict[Vertex, list[Vertex]] = {}
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            below.setdefault(upper, []).append(lower)
            above.setdefault(lower, []).append(upper)
    sizes: dict[Vertex, float] = {vertex: widths.get(vertex, BEND) if isinstance(vertex, str) else BEND
                                  for row in rows for vertex in row}  # fmt: skip
    _order(rows, above, below)
    lefts = _place(rows, above, below, sizes)
    corners = {vertex: (lefts[vertex], at * (HEIGHT + RISE)) for at, row in enumerate(rows) for vertex in row}
    alone = [name for name in widths if name not in tied]
    corners |= _place_alone(alone, widths, len(rows) * (HEIGHT + RISE))
    routes = {edge: _route(chain, corners, sizes) for edge, chain in chains.items()}
    positions = {name: corners[name] for name in widths}
    return Layout(
        positions,
        routes,
        width=max(
            (x + sizes.get(vertex, widths.get(str(vertex), 0.0)) for vertex, (x, _) in corners.items()), default=0.0
        ),
        height=max((y + HEIGHT for _, y in positions.values()), default=0.0),
    )


def _assign_layers(widths: Mapping[str, float], edges: Collection[Edge]) -> dict[str, int]:
    """The layer of each node: below all its dependencies, as high as there is room beside others with edges."""
    needs: dict[str, list[str]] = {name: [] for name in widths}
    for upper, lower in edges:
        needs[lower].append(upper)
    layers: dict[str, int] = {}
    used: list[float] = []
    linked = {name for edge in edges for name in edge}
    for name in _sort(needs):
        layer = 1 + max((layers[upper] for upper in needs[name] if upper in layers), default=-1)
        width = widths[name] + GAP if name in linked else 0.0
        while layer < len(used) and used[layer] + width > WIDTH:
            layer += 1
        used += [0.0] * (layer + 1 - len(used))
        used[layer] += width
        layers[name] = layer
    return layers


def _sort(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes, each after its dependencies; a cycle is entered at its first node."""
    done: dict[str, None] = {}
    entered: set[str] = set()
    for root in needs:
        stack = [root]
        while stack:
            name = stack[-1]
            entered.add(name)
            missing = [upper for upper in needs[name] if upper not in entered]
            if missing:
                stack.append(missing[0])
            else:
                done[stack.pop()] = None
    return list(done)


def _chain(edge: Edge, layers: Mapping[str, int]) -> list[Vertex]:
    upper, lower = edge
    return [upper, *((edge, layer) for layer in range(layers[upper] + 1, layers[lower])), lower]


def _order(
    rows: list[list[Vertex]], above: Mapping[Vertex, Sequence[Vertex]], below: Mapping[Vertex, Sequence[Vertex]]
) -> None:
    """Order each row by the mean place of its neighbours in the previous row, down and up alternately."""
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        ordered = rows[::-1] if sweep % 2 else rows
        for before, row in pairwise(ordered):
            index = {vertex: at for at, vertex in enumerate(before)}
            means = {vertex: _mean([index[near] for near in neighbours.get(vertex, ())], at)
                     for at, vertex in enumerate(row)}  # fmt: skip
            row.sort(key=means.__getitem__)


def _place(
    rows: Sequence[Sequence[Vertex]],
    above: Mapping[Vertex, Sequence[Vertex]],
    below: Mapping[Vertex, Sequence[Vertex]],
    sizes: Mapping[Vertex, float],
) -> dict[Vertex, float]:
    """The left edge of each vertex, near the middle of its neighbours; the leftmost of all is 0."""
    lefts: dict[Vertex, float] = {}
    steps = {vertex: size + (GAP if isinstance(vertex, str) else BEND_GAP) for vertex, size in sizes.items()}
    for row in rows:
        lefts.update(zip(row, accumulate((steps[vertex] for vertex in row), initial=0.0), strict=False))
    most = max([WIDTH, *(sum(steps[vertex] for vertex in row) for row in rows)])
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in rows[::-1] if sweep % 2 else rows:
            wanted = []
            for vertex in row:
                centres = [lefts[near] + sizes[near] / 2 for near in neighbours.get(vertex, ())]
                wanted.append(_mean(centres, lefts[vertex] + sizes[vertex] / 2) - sizes[vertex] / 2)
            lefts.update(zip(row, _separate(wanted, [steps[vertex] for vertex in row], most), strict=True))
    first = min(lefts.values(), default=0.0)
    return {vertex: round(left - first, 1) for vertex, left in lefts.items()}


def _separate(wanted: Sequence[float], steps: Sequence[float], most: float) -> list[float]:
    """The places nearest to the wanted ones, by least squares, each at least a step after the previous one, from 0 to
    `most`. Without the steps this is an isotonic regression, which pooling adjacent violators solves."""
    offsets = list(accumulate(steps, initial=0.0))
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        total, count = want - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            before, members = pools.pop()
            total, count = total + before, count + members
        pools.append((total, count))
    room = most - offsets[-1]
    places = [min(max(total / count, 0.0), room) for total, count in pools for _ in range(count)]
    return [place + offset for place, offset in zip(places, offsets, strict=False)]


def _place_alone(names: Sequence[str], widths: Mapping[str, float], top: float) -> dict[Vertex, Point]:
    """Rows of nodes without edges, from the top down."""
    corners: dict[Vertex, Point] = {}
    left = 0.0
    for name in names:
        if left and left + widths[name] > WIDTH:
            left, top = 0.0, top + HEIGHT + GAP
        corners[name] = left, top
        left += widths[name] + GAP
    return corners


def _route(chain: Sequence[Vertex], corners: Mapping[Vertex, Point], sizes: Mapping[Vertex, float]) -> list[Point]:
    """The points of an edge, which passes bends from top to bottom."""
    points = []
    for at, vertex in enumerate(chain):
        x, y = corners[vertex][0] + sizes[vertex] / 2, corners[vertex][1]
        if at:
            points.append((x, y))
        if at < len(chain) - 1:
            points.append((x, y + HEIGHT))
    return points


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
