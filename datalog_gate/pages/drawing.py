"""The graph of a stack: its resources, their findings and dependencies.

A stack of many resources shows those with findings and their neighbours; the others are named by type. A group or
nested stack is one node, which has the findings of all that is in it.
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
"""How many resources a stack has at most that is drawn whole."""
MOST = 40
"""How many nodes the drawing of a larger one has at most."""
DRAWINGS = 8
"""How many stacks of a tree are drawn at most."""
CHARACTER, SMALL = 8.4, 6.5
"""The width of a character of a name, and of a type, in pixels."""
BROAD = 13.0
"""The width of one that is not of ASCII."""
LONGEST = 30
"""The most characters that a node shows of a name."""
WORDS = ("deny", "error", "undetermined", "warn", "record", "preexisting", "waived")
"""What a finding may be, the gravest first: as which a node shows that has several."""
SIGNS = dict(zip(WORDS, "✕✕?!i=~", strict=True))
"""A sign for each, beside its colour."""
_TEXTS = "Denied", "Not evaluated", "Undetermined", "Warning", "Recorded", "There before", "Waived"
HEADINGS = dict(zip(WORDS, _TEXTS, strict=True))


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A resource, as it is drawn."""

    path: str
    """The path of the resource."""
    name: str
    kind: str
    """Its type, short, with the number of members of a group."""
    word: str
    """The gravest of its findings, of `WORDS`; empty if there is none."""
    findings: int
    x: float
    y: float
    width: float
    opens: str
    """The path of the stack that it holds; empty if it holds none."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependency, from what is needed to what needs it."""

    curve: str
    """The data of a path of SVG."""
    explicit: bool
    """Whether the template says `depends_on`; else a value refers to it."""
    grave: bool
    """Whether both ends have findings that deny."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A stack, as it is drawn."""

    stack: str
    """The path of the stack."""
    resources: int
    """How many it has."""
    nodes: tuple[DrawnNode, ...]
    arrows: tuple[Arrow, ...]
    others: tuple[tuple[str, tuple[str, ...]], ...]
    """The types of the resources that are not drawn, with the names of these, the type of most first."""
    width: float
    height: float
    folded: bool
    """Whether it is shown by a link alone, since nothing in it has a finding of its own."""


def draw(root: Stack, words: Mapping[str, Sequence[str]]) -> Iterator[Drawing]:
    """Draw a stack and the stacks within it that have findings of their own; then others, folded, while these have at
    most `WHOLE` resources together; `DRAWINGS` in all. `words` says what the findings of each resource are, by path."""
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
    widths = {name: 28 + max(_measure(name[:LONGEST]) + 2 * CHARACTER, SMALL * len(kinds[name])) for name in shown}
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
    """The names to draw, in the order of the template: all if there is room, else those with findings, then what they
    need and what needs them."""
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
    return MASK if resource.hides(("type",), True) else _shorten_type(resource.type)


def _shorten_type(name: str) -> str:
    """The name of a type as a person reads it: ``OS::Nova::Server`` as ``Nova Server``."""
    words = name.removeprefix("OS::").replace("::", " ")
    return words if len(words) <= LONGEST else f"…{words[1 - LONGEST :]}"


def _curve(points: Sequence[Point]) -> str:
    """A curve through the points, which leaves and reaches each upright."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (end_x, end_y) in pairwise(points):
        middle = (y + end_y) / 2
        straight = abs(x - end_x) < 0.5
        bend = "L" if straight else f"C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} "
        path += f" {bend}{end_x:.1f} {end_y:.1f}"
    return path
