"""The graph of a stack: its resources, their findings and dependencies.

In a large stack the resources of a type without findings are one node. A group or nested stack is one node with all
findings inside it. A resource that only connects two others is a labelled edge, and one that many need, or that needs
many, is a tag on these. An edge that follows from two others is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from datalog_gate.base.diagnostics import format_count
from datalog_gate.base.records import dataclass
from datalog_gate.base.secrecy import MASK
from datalog_gate.pages.layout import Point, arrange
from datalog_gate.stack.model import GROUPS, Resource, Stack

WHOLE = 60
"""The maximum number of resources of a stack that is drawn completely."""
MOST = 40
"""The maximum number of resources with findings that are drawn of a larger one."""
SHARED = 5
"""A resource that more others need than these is a tag on them, as is one that needs more than these."""
FEWER = 2
"""The same while there are more than `EDGES` edges."""
EDGES = 30
CONNECTING = ("Attachment", "Association", "RouterInterface")
"""The ends of types that only connect two resources."""
DRAWINGS = 8
"""The maximum number of stacks of a tree that are drawn."""
CHARACTER, SMALL = 8.4, 6.5
"""The width in pixels of a character in a name, and in a type."""
PADDING = 28
"""The width of a node without its text."""
BROAD = 13.0
"""The width of a character outside ASCII."""
LONGEST = 30
"""The maximum number of characters of a name in a node."""
WORDS = ("deny", "refused", "error", "undetermined", "warn", "record", "preexisting", "waived")
"""The classes of findings, the most severe first. A node with several shows the first."""
QUIET = WORDS[-3:]
"""Those that ask for no change."""
SIGNS = dict(zip(WORDS, "✕✕✕?!i=~", strict=True))
"""A sign for each class, beside its colour."""
_TEXTS = "Denied", "Refused by Heat", "Not evaluated", "Undetermined", "Warning", "Recorded", "There before", "Waived"
HEADINGS = dict(zip(WORDS, _TEXTS, strict=True))


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A resource in a drawing."""

    path: str
    """The path of the resource."""
    name: str
    kind: str
    """Its type, shortened, with the number of members of a group."""
    word: str
    """The class of its most severe finding, from `WORDS`; empty if there is none."""
    findings: int
    x: float
    y: float
    width: float
    opens: str
    """The path of its nested stack; empty without one."""
    lists: int
    """The index of `Drawing.others` that it stands for; -1 for a resource."""
    own_tags: tuple[str, ...]
    """Those that stand for it on others."""
    tags: tuple[str, ...]
    """Those that stand for others."""
    arrows: tuple[int, ...]
    """The indexes of its arrows."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependency, from a resource to one that needs it."""

    curve: str
    """The data of an SVG path."""
    explicit: bool
    """Whether the template says `depends_on`; otherwise a value refers to it."""
    grave: bool
    """Whether both ends have denying findings."""
    label: str
    """The type of the resource that it stands for; empty for a dependency."""
    middle: Point
    """The place of the label."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn stack."""

    stack: str
    """The path of the stack."""
    resources: int
    """The number of its resources."""
    nodes: tuple[DrawnNode, ...]
    arrows: tuple[Arrow, ...]
    tags: tuple[tuple[str, str], ...]
    """The tags and what they say: ``needs net``."""
    others: tuple[tuple[str, tuple[str, ...]], ...]
    """The names of the resources that are not drawn on their own, by type, the most frequent type first."""
    left_out: int
    """The number of resources with findings among these."""
    width: float
    height: float
    folded: bool
    """Whether it is only a link, since nothing in it has a finding of its own."""


def draw(root: Stack, words: Mapping[str, Sequence[str]]) -> Iterator[Drawing]:
    """Draw a stack and its nested stacks with findings of their own; then others, folded, as long as they have at most
    `WHOLE` resources together; at most `DRAWINGS` in all. `words` has the classes of each resource's findings, by
    path."""
    owners = {path.rpartition("/")[0] for path in words}
    _, *within = root.walk()
    quiet = [stack for stack in within if stack.id not in owners]
    sizes = accumulate(min(len(stack.resources), MOST) for stack in quiet)
    folded = [(stack, True) for stack, size in zip(quiet, sizes, strict=True) if size <= WHOLE]
    shown = [(stack, False) for stack in (root, *within) if stack is root or stack.id in owners]
    yield from (_draw_stack(stack, words, fold) for stack, fold in (*shown, *folded)[:DRAWINGS])


def find_neighbours(root: Stack) -> Mapping[str, Sequence[str]]:
    """The names of what each resource needs and of what needs it, by path, in stacks that are not drawn completely."""
    neighbours: dict[str, list[str]] = {}
    for stack in root.walk():
        named = {resource.name: resource for resource in stack.resources} if len(stack.resources) > WHOLE else {}
        for name, resource in named.items():
            for need in filter(named.__contains__, resource.requires):
                neighbours.setdefault(resource.id.path, []).append(need)
                neighbours.setdefault(named[need].id.path, []).append(name)
    return neighbours


def _draw_stack(stack: Stack, words: Mapping[str, Sequence[str]], folded: bool) -> Drawing:
    inside: dict[str, list[str]] = {}
    for path, several in words.items():
        if path.startswith(f"{stack.id}/"):
            inside.setdefault(path[len(stack.id) + 1 :].partition("/")[0], []).extend(several)
    named = {resource.name: resource for resource in stack.resources}
    gravest = {name: min(several, key=WORDS.index) for name, several in inside.items()}
    links = _find_links(named, inside)
    shown = [name for name in named if name not in links]
    if len(named) > WHOLE:
        shown = sorted((name for name in named if name in inside), key=lambda name: WORDS.index(gravest[name]))[:MOST]
        shown = [name for name in named if name in shown]
    grouped: dict[str, list[str]] = {}
    for name in named:
        if name not in shown and name not in links:
            grouped.setdefault(_type(named[name]), []).append(name)
    shown += [names[0] for names in grouped.values() if len(names) == 1]
    others = sorted((item for item in grouped.items() if len(item[1]) > 1), key=lambda item: -len(item[1]))
    vertices = {name: name for name in shown}
    labels: dict[str, tuple[str, str]] = {name: (_cut(name), _kind(named[name])) for name in shown}
    for at, (kind, names) in enumerate(others):
        vertices |= dict.fromkeys(names, f"/{at}")  # no resource has this name
        flagged = sum(name in inside for name in names)
        finding = f"{format_count(flagged, 'of them has', 'of them have')} findings" if flagged else "without a finding"
        labels[f"/{at}"] = f"{len(names)} {kind}", finding
    grave = {name for name in shown if gravest.get(name) == "deny"}
    edges, tags = _share(_list_edges(named, vertices), grave, len(links))
    for name, (start, end) in links.items():
        if vertices[start] != vertices[end]:
            edges.setdefault((vertices[start], vertices[end]), _type(named[name]).rpartition(" ")[2])
    widths = {key: PADDING + _widen(*texts) for key, texts in labels.items()}
    layout = arrange(widths, edges)
    routes = list(layout.routes.items())
    arrows = [_draw_arrow(points, edges[edge], edge[0] in grave and edge[1] in grave) for edge, points in routes]
    nodes = []
    for key, (name, kind) in labels.items():
        resource = named.get(key)
        nodes.append(
            DrawnNode(
                path=resource.id.path if resource else name,
                name=name,
                kind=kind,
                word=gravest.get(key, ""),
                findings=len(inside.get(key, ())),
                x=layout.positions[key][0],
                y=layout.positions[key][1],
                width=round(widths[key], 1),
                opens=resource.nested.id if resource and resource.nested else "",
                lists=-1 if resource else int(key[1:]),
                own_tags=tuple(tag for tag, (of, _, _) in tags.items() if of == key),
                tags=tuple(tag for tag, (_, _, others) in tags.items() if key in others),
                arrows=tuple(at for at, (edge, _) in enumerate(routes) if key in edge),
            )
        )
    return Drawing(
        stack=stack.id,
        resources=len(named),
        nodes=tuple(nodes),
        arrows=tuple(arrows),
        tags=tuple(
            (tag, f"{'needs' if needed else 'is needed by'} {labels[of][0]}") for tag, (of, needed, _) in tags.items()
        ),
        others=tuple((kind, tuple(names)) for kind, names in others),
        left_out=sum(name not in shown for name in inside),
        width=layout.width,
        height=layout.height,
        folded=folded,
    )


def _find_links(named: Mapping[str, Resource], flagged: Collection[str]) -> dict[str, tuple[str, str]]:
    """The resources without a finding that only connect two others, with these: a server comes last."""
    needed = {need for resource in named.values() for need in resource.requires}
    links = {}
    for name, resource in named.items():
        ends = [need for need in resource.requires if need in named]
        if resource.type.endswith(CONNECTING) and name not in flagged and name not in needed and len(ends) == 2:
            start, end = sorted(ends, key=lambda need: named[need].type == "OS::Nova::Server")
            links[name] = start, end
    return links


def _list_edges(named: Mapping[str, Resource], vertices: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The dependencies between vertices, ``explicit`` or not, except those that follow from two others."""
    edges: dict[tuple[str, str], str] = {}
    for name, vertex in vertices.items():
        for need, why in named[name].requires.items():
            if need in vertices and vertices[need] != vertex:
                edges.setdefault((vertices[need], vertex), why)
    below: dict[str, set[str]] = {}
    for upper, lower in edges:
        below.setdefault(upper, set()).add(lower)
    return {
        (upper, lower): why
        for (upper, lower), why in edges.items()
        if not any(lower in below.get(middle, ()) and upper not in below.get(middle, ()) for middle in below[upper])
    }


def _share(
    edges: dict[tuple[str, str], str], grave: Collection[str], more: int
) -> tuple[dict[tuple[str, str], str], dict[str, tuple[str, bool, Collection[str]]]]:
    """The edges without those that many share: from a vertex that many need, or to one that needs many. Each such
    vertex has a tag, with whether it is needed, and the vertices at the other ends. Edges between two of `grave` stay.
    `more` edges are drawn besides."""
    fans: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    for edge in edges:
        if not set(edge) <= set(grave):
            for end, needed in zip(edge, (True, False), strict=True):
                fans.setdefault((end, needed), []).append(edge)
    left, tags = dict(edges), dict[str, tuple[str, bool, Collection[str]]]()
    dependent = {lower for _, lower in edges}
    for (of, needed), fan in sorted(fans.items(), key=lambda item: (-len(item[1]), item[0][0] in dependent)):
        fan = [edge for edge in fan if edge in left]
        if len(fan) > SHARED or (len(left) + more > EDGES and len(fan) > FEWER):
            tags[_name_tag(len(tags))] = of, needed, [lower if needed else upper for upper, lower in fan]
            for edge in fan:
                del left[edge]
    return left, tags


def _name_tag(number: int) -> str:
    """A letter for the first 26 tags, then numbers."""
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def _draw_arrow(points: Sequence[Point], why: str, grave: bool) -> Arrow:
    label = "" if why in ("", "explicit", "implicit") or why.islower() else why
    (x, y), (end_x, end_y) = points[-2:]
    middle = round((x + end_x) / 2, 1), round((y + end_y) / 2, 1)
    return Arrow(_curve(points), why == "explicit", grave, label, middle)


def _widen(name: str, kind: str) -> float:
    """The width of the texts of a node."""
    return max(_measure(name) + 2 * CHARACTER, SMALL * len(kind))


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _measure(name: str) -> float:
    return sum(CHARACTER if character.isascii() else BROAD for character in name)


def _kind(resource: Resource) -> str:
    kind = _type(resource)
    if resource.nested is None:
        return kind
    size = len(resource.nested.resources)
    if resource.type in GROUPS:
        return f"{kind} ({'at least ' if resource.open_members else ''}{format_count(size, 'member')})"
    return f"{kind} ({size} inside)"


def _type(resource: Resource) -> str:
    """The short name of its type: ``OS::Nova::Server`` as ``Nova Server``."""
    if resource.hides(("type",), True):
        return MASK
    words = resource.type.removeprefix("OS::").replace("::", " ")
    return words if len(words) <= LONGEST else f"…{words[1 - LONGEST :]}"


def _curve(points: Sequence[Point]) -> str:
    """A curve through the points, vertical at each of them."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (end_x, end_y) in pairwise(points):
        middle = (y + end_y) / 2
        straight = abs(x - end_x) < 0.5
        bend = "L" if straight else f"C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} "
        path += f" {bend}{end_x:.1f} {end_y:.1f}"
    return path
