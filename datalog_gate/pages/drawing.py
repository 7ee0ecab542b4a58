"""The graph of a stack: its resources, their findings and dependencies.

For a large stack it shows the resources with findings and their neighbours; the others are listed by type. A group or
nested stack is one node with all findings inside it.
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
"""The maximum number of nodes in the drawing of a larger one."""
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


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependency, from a resource to one that needs it."""

    curve: str
    """The data of an SVG path."""
    explicit: bool
    """Whether the template says `depends_on`; otherwise a value refers to it."""
    grave: bool
    """Whether both ends have denying findings."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn stack."""

    stack: str
    """The path of the stack."""
    resources: int
    """The number of its resources."""
    nodes: tuple[DrawnNode, ...]
    arrows: tuple[Arrow, ...]
    others: tuple[tuple[str, tuple[str, ...]], ...]
    """The names of the resources that are not drawn, by type, the most frequent type first."""
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


def _draw_stack(stack: Stack, words: Mapping[str, Sequence[str]], folded: bool) -> Drawing:
    inside: dict[str, list[str]] = {}
    for path, several in words.items():
        if path.startswith(f"{stack.id}/"):
            inside.setdefault(path[len(stack.id) + 1 :].partition("/")[0], []).extend(several)
    named = {resource.name: resource for resource in stack.resources}
    shown = _select(named, inside)
    kinds = {name: _kind(named[name]) for name in shown}
    widths = {name: PADDING + max(_measure(name[:LONGEST]) + 2 * CHARACTER, SMALL * len(kinds[name])) for name in shown}
    edges = {(need, name): why for name in shown for need, why in named[name].requires.items() if need in shown}
    layout = arrange(widths, edges)
    gravest = {name: min(inside[name], key=WORDS.index) if name in inside else "" for name in shown}
    nodes = [
        DrawnNode(
            path=named[name].id.path,
            name=name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…",
            kind=kinds[name],
            word=gravest[name],
            findings=len(inside.get(name, ())),
            x=layout.positions[name][0],
            y=layout.positions[name][1],
            width=round(widths[name], 1),
            opens=nested.id if (nested := named[name].nested) else "",
        )
        for name in shown
    ]
    arrows = [
        Arrow(_curve(points), edges[edge] == "explicit", gravest[edge[0]] == gravest[edge[1]] == "deny")
        for edge, points in layout.routes.items()
    ]
    others: dict[str, list[str]] = {}
    for name, resource in named.items():
        if name not in widths:
            others.setdefault(_type(resource), []).append(name)
    return Drawing(
        stack=stack.id,
        resources=len(named),
        nodes=tuple(nodes),
        arrows=tuple(arrows),
        others=tuple((kind, tuple(names)) for kind, names in sorted(others.items(), key=lambda item: -len(item[1]))),
        width=layout.width,
        height=layout.height,
        folded=folded,
    )


def _measure(name: str) -> float:
    return sum(CHARACTER if character.isascii() else BROAD for character in name)


def _select(named: Mapping[str, Resource], flagged: Collection[str]) -> list[str]:
    """The names to draw, in template order: all if there is room, otherwise those with findings, then their
    dependencies and dependents."""
    if len(named) <= WHOLE:
        return list(named)
    first = [name for name in named if name in flagged][:MOST]
    chosen = dict.fromkeys(first)
    near = [need for name in first for need in named[name].requires if need in named]
    near += [name for name, resource in named.items() if any(need in flagged for need in resource.requires)]
    for name in near:
        if len(chosen) < MOST:
            chosen[name] = None
    if not first:
        chosen = dict.fromkeys(list(named)[:MOST])
    return [name for name in named if name in chosen]


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
