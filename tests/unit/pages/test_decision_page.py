"""The page of a decision: contents, hostile texts, secrets, and size."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from datalog_gate.api import ExplainedDecision, load_rules
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import ResourceId
from datalog_gate.doors.cli import main as cli
from datalog_gate.doors.cli.reports import html
from datalog_gate.explain.template_change import TemplateChange
from datalog_gate.files.templates import read_stack
from datalog_gate.pages.decision_page import build_page
from datalog_gate.pages.drawing import MOST, draw
from datalog_gate.pages.fix_diff import find_diff
from datalog_gate.pages.layout import HEIGHT
from datalog_gate.pages.source_lines import Mark, SourceTexts, mark_lines, mark_mistakes
from datalog_gate.stack.model import Resource
from tests.page_site import hostile_template
from tests.pages import DOCS, assert_written
from tests.sources import ROOT

GOLDEN = Path(__file__).parents[2] / "golden"
RULES = """\
@deny("flavor", "{s} takes {f}", hint="take a small one")
huge(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".
@warn("image", "{s} runs {i}")
old(s, i) :- os:nova:server(_id=s, image=i), i = "old".
@deny("zone", "{s} is in {z}")
zone(s, z) :- os:nova:server(_id=s, availability_zone=z), z = "north".
@deny("name", "{s} is called {n}")
named(s, n) :- os:nova:server(_id=s, name=n), n != null, is_string(n), contains(n, "x").
@record("size", "{v} has {n}")
size(v, n) :- os:cinder:volume(_id=v, size=n), n != null, n > 100.
"""
HEAD = "heat_template_version: 2018-08-31\n"
STACK = f"""{HEAD}parameters: {{where: {{type: string}}}}
resources:
  data: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}
  web:
    type: OS::Nova::Server
    depends_on: data
    properties: {{image: old, flavor: huge, availability_zone: {{get_param: where}}}}
"""
OPTIONS = ("--rules", "m.dl", "--now", "2027-03-01")
FILES = {"m.dl": RULES}
pytestmark = pytest.mark.usefixtures("folder")


def write_page(template: str, *options: str) -> str:
    """The page that `check` writes of a template."""
    Path("web.yaml").write_text(template)
    cli.main(["check", "web.yaml", *OPTIONS, *options, "--output", "html=page.html", "--format", "compact"])
    return Path("page.html").read_text("utf-8")


class Page(HTMLParser):
    """The elements, the texts and the attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_a_page_has_the_outcome_the_graph_the_findings_and_the_marked_template() -> None:
    page = write_page(STACK, "--explain")
    body = page[page.index("<body>") :]
    assert_written(GOLDEN / "decision.html", re.sub(r"\n+", "\n", re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", body)))


def check_links(page: str) -> None:
    """Assert that each link leads to a part of the page, and that ids are unique."""
    attributes = Page(page).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert sorted(set(ids)) == sorted(ids)
    used = [value.removeprefix("#") for name, value in attributes if name in ("href", "aria-labelledby")]
    assert (len(used) > 10, set(used) - set(ids)) == (True, set())


def test_each_link_leads_to_a_part_of_the_page_whose_ids_are_unique() -> None:
    check_links(write_page(STACK))


def test_a_finding_links_to_its_resource_in_the_graph_with_its_neighbours() -> None:
    page = write_page(STACK)
    vertices = dict(re.findall(r'<g class="vertex" id="([^"]*)">.*?<title>(.*?)</title>', page, re.S))
    links = re.findall(r'<a class="mono" href="#(d0-v[^"]*)">(.*?)</a>', page)
    assert (len(vertices), dict(links)) == (len(set(links)), vertices)


def test_an_allowed_stack_shows_the_rows_that_were_checked() -> None:
    page = Page(
        write_page(f"{HEAD}resources:\n  web: {{type: OS::Nova::Server, properties: {{flavor: m, image: i}}}}\n")
    )
    start = page.text.index("What was checked")
    assert page.text[start:].partition(" web.yaml ")[0] == (
        "What was checked 5 policies found nothing Policy Looked at "
        "flavor 1 of os:nova:server image 1 of os:nova:server "
        "name 1 of os:nova:server size no row of what it reads zone 1 of os:nova:server"
    )


def test_what_heat_would_refuse_is_beside_its_line() -> None:
    server = "{type: OS::Nova::Server, properties: {flavour: m, image: i, networks: [{nework: {get_resource: n}}]}}"
    page = write_page(f"{HEAD}resources:\n  web: {server}\n  n: {{type: OS::Neutron::Net}}\n")
    text = Page(page).text
    line = "3 web: {type: OS::Nova::Server, properties: {"
    assert text[text.index("Can't be built: 1 mistake web") :].partition(" 5 policies")[0] == (
        "Can't be built: 1 mistake web ✕ 1 refused by Heat ! 1 warning What to change unknown-property 1 finding "
        "Change: did you mean `flavor`? ✕ Refused by Heat web.yaml:3 "
        f"OS::Nova::Server has no property `flavour` {line} flavour : m, image: i, networks: "
        "[{nework: {get_resource: n}}]}} unknown-property 1 finding Change: did you mean `network`? "
        "! Warning web.yaml:3 `networks[0]` has no property `nework` "
        f"(Heat finds this only when it creates the resource) {line}flavour: m, image: i, networks: "
        "[{ nework : {get_resource: n}}]}}"
    )
    numbers = [re.sub(".*-f", "", link) for name, link in Page(page).attributes if name == "href" and "-f" in link]
    assert sorted(numbers) == ["0", "1"]
    assert [part for part in ("What it would build", "<svg", 'class="legend"') if part in page] == []


def test_hostile_names_and_texts_are_texts_everywhere() -> None:
    text = write_page(hostile_template("OS::Nova::Server", "image: old, flavor: huge"), "--explain")
    page = Page(text)
    harmless = Page(write_page(STACK, "--explain"))
    assert set(page.tags) == set(harmless.tags)
    assert {name for name, _ in page.attributes} == {name for name, _ in harmless.attributes}
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}{% raw %}&lt;" in page.text
    assert len(text) < 60_000


def test_a_stack_of_300_resources_shows_findings_apart_and_others_by_type_in_less_than_100_kb() -> None:
    servers = "".join(
        f"""  data_{at}: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}
  web_{at}:
    type: OS::Nova::Server
    depends_on: data_{at}
    properties: {{image: new, flavor: {"huge" if at % 3 == 0 else "small"}}}
"""
        for at in range(150)
    )
    page = write_page(f"{HEAD}resources:\n{servers}")
    assert 40_000 < len(page.encode()) < 100_000
    text = Page(page).text
    assert "web: 300 resources in 42 boxes with 0 lines" in text
    assert "150 Cinder Volume without a finding A 110 Nova Server" in text
    assert "10 resources with findings are not drawn apart, but listed here: 150 Cinder Volume data_0, data_1," in text
    assert "110 Nova Server 10 of them have findings" in text
    [listed] = re.findall(r'href="#(d0-o\S+)" aria-label="110 Nova Server', page)
    assert f'id="{listed}">web_1, ' in page.replace("<wbr>", "")


def test_the_findings_that_are_shown_at_once_are_explained_before_those_that_are_folded() -> None:
    large = "".join(f"  l{at}: {{type: OS::Nova::Server, properties: {{flavor: huge}}}}\n" for at in range(15))
    north = "".join(
        f"  n{at}: {{type: OS::Nova::Server, properties: {{flavor: m, availability_zone: north}}}}\n" for at in range(3)
    )
    page = write_page(f"{HEAD}resources:\n{large}{north}")
    articles = re.findall(r"<article.*?</article>", page, re.S)
    explained = [re.findall(r'href="#d0-v\d+">web/(\w+)<', article)[0] for article in articles if "Why" in article]
    assert (len(articles), explained) == (18, [*(f"l{at}" for at in range(10)), "n0", "n1", "n2"])


def test_after_the_first_three_findings_of_a_policy_each_is_a_line_that_opens() -> None:
    node = "{type: OS::Nova::Server, properties: {flavor: huge}}"
    page = write_page(f"{HEAD}resources:\n" + "".join(f"  w{at}: {node}\n" for at in range(12)))
    articles = re.findall(r"<article.*?</article>", page, re.S)
    lines = [article.partition("</summary>")[0] for article in articles if 'class="finding deny short"' in article]
    assert [Page(line).text for line in lines] == [
        f"✕ Denied web/w{at} web.yaml:{at + 3} w{at} takes huge" for at in range(3, 12)
    ]
    assert re.findall('href="(.*?)"', lines[0]) == ["#d0-v3", "#d0-l0-6"]
    assert Page(articles[3].partition("</summary>")[2]).text == (
        f"6 w3: {node.replace('huge', 'huge ')} Why os:nova:server(web/w3, flavor=huge, ...) web.yaml:6 f = huge m.dl:2"
    )
    text = Page(page).text
    assert (text.count("Denied web/"), text.count(" 2 more ✕ Denied web/w10")) == (12, 1)
    check_links(page)


def test_a_long_template_says_how_many_lines_it_has_and_how_many_are_not_shown() -> None:
    server = "  web: {type: OS::Nova::Server, properties: {flavor: huge}}\n"
    text = Page(write_page(HEAD + "resources:\n" + "  # none\n" * 420 + server)).text
    assert text[text.index("web.yaml 423 lines") :].partition(" 421 ")[0] == "web.yaml 423 lines 420 lines not shown"


def test_a_stack_of_300_resources_of_which_half_have_findings_takes_less_than_100_kb() -> None:
    long = "w" * 100
    servers = "".join(
        f"  web_{at}: {{type: OS::Nova::Server, properties: {{image: new, flavor: huge, name: {long}}}}}\n"
        f"  more_{at}: {{type: OS::Nova::Server, properties: {{image: new, flavor: m, name: {long}}}}}\n"
        for at in range(150)
    )
    page = write_page(f"{HEAD}resources:\n{servers}", "--explain")
    assert len(page.encode()) < 100_000
    text = Page(page).text
    assert "110 further findings not shown." in text
    assert "flavor 150 findings, 110 not shown Change:" in text


VOLUMES = "".join(f"  v{at}: {{type: OS::Cinder::Volume, properties: {{size: 9}}}}\n" for at in range(300))
GROUPS = "".join(
    f"""  g{at}:
    type: OS::Heat::ResourceGroup
    properties: {{count: 60, resource_def: {{type: OS::Cinder::Volume, properties: {{size: 9}}}}}}
"""
    for at in range(5)
)
LARGE = {
    "a short template": (VOLUMES, 1, ["260 lines not shown"]),
    "many policies": (VOLUMES, 40, ["299 lines not shown"]),
    "long names": (VOLUMES.replace("  v", f"  {'v' * 90}"), 3, [f"{'v' * 90}49, …"]),
    "groups": (GROUPS, 1, ["further graphs not shown."]),
    "wide letters": (VOLUMES, 13, ["\u7cfb" * 96 + "…</p>", "reasons, fixes and lines of all findings are left out"]),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_page_of_300_resources_with_long_findings_leaves_out_what_is_more_than_100_kb(
    kind: str, folder: Path
) -> None:
    template, policies, said = LARGE[kind]
    long = "\u7cfb" * 400 if kind == "wide letters" else "is larger than what the archive can copy in a night " * 8
    rules = (
        f'@deny("p{at}", "{{v}} {long}", hint="make {{v}} smaller: {long}")\n'
        f"large{at}(v) :- os:cinder:volume(_id=v, size=9).\n"
        for at in range(policies)
    )
    (folder / "m.dl").write_text("".join(rules))
    page = write_page(f"{HEAD}resources:\n{template}")
    assert 50_000 < len(page.encode()) <= 100_000
    assert [text for text in said if text not in page.replace("<wbr>", "")] == []
    check_links(page)


def test_what_asks_for_no_change_is_folded_below_what_to_change(folder: Path) -> None:
    node = "{type: OS::Nova::Server, properties: {flavor: huge, image: i}}"
    volume = "{type: OS::Cinder::Volume, properties: {size: 200}}"
    waiver = "{id: W, policy: flavor, subject: w, owner: o, reason: r, expires: 2127-01-01}"
    (folder / "waivers.yaml").write_text(f"waivers: [{waiver}]\n")
    pages = [
        write_page(f"{HEAD}resources:\n  w: {node}\n{more}", "--waivers", "waivers.yaml")
        for more in (f"  a: {node}\n  v: {volume}\n", "")
    ]
    heads = [re.findall("<(?:h2|h3|summary)[^>]*>(.*?)</(?:h2|h3|summary)>", page) for page in pages]
    folded = ["flavor 1 finding", "Why"]
    assert [[Page(head).text for head in own_heads] for own_heads in heads] == [
        [
            "What to change", *folded, "No change needed: 1 recorded, 1 waived", "size 1 finding", "Why", *folded,
            "web.yaml 5 lines", "What it would build",
        ],
        [
            "What was checked", "No change needed: 1 waived", *folded, "4 policies found nothing",
            "web.yaml 3 lines", "What it would build",
        ],
    ]  # fmt: skip
    assert [re.findall("Change:</b> (.*?)<", page) for page in pages] == [["take a small one"], []]
    many = write_page(f"{HEAD}resources:\n" + "".join(f"  v{at}: {volume}\n" for at in range(60)))
    assert re.findall("[^<>]*not shown", many) == ["60 findings, 20 not shown"]


def test_each_line_with_a_finding_is_marked_also_where_it_is_not_listed(folder: Path) -> None:
    rules = (
        f'@{"deny" if at == 13 else "warn"}("p{at}", "{{v}}") p{at}(v) :- os:cinder:volume(_id=v, size=9).\n'
        for at in range(14)
    )
    (folder / "m.dl").write_text("".join(rules))
    page = write_page(f"{HEAD}resources:\n{VOLUMES.partition('  v5')[0]}  w: {{type: OS::Neutron::Net}}\n")
    template = page[page.rindex('<div class="source scroll"') :].partition("</section>")[0]
    lines = re.findall(r'<div class="line ?(\w*)"(.*?)><b>(\d+)</b>(.*?)</div>', template)
    assert [(int(number), word, " id=" in more, text.count("<a")) for word, more, number, text in lines] == [
        (1, "", False, 0), (2, "", False, 0),
        (3, "deny", True, 3), (4, "deny", True, 3), (5, "deny", True, 3),
        (6, "deny", False, 0), (7, "deny", False, 0),
        (8, "", False, 0),
    ]  # fmt: skip
    assert [text.count("<mark") for *_, text in lines] == [0, 0, 1, 1, 1, 1, 1, 0]


def test_the_list_of_policies_says_how_many_it_leaves_out_and_has_2_before_10(folder: Path) -> None:
    rules = (f'@deny("p{at}", "{{v}}") p{at}(v) :- os:cinder:volume(_id=v, size=9).\n' for at in range(100))
    (folder / "m.dl").write_text("".join(rules))
    page = write_page(f"{HEAD}resources:\n{VOLUMES.partition('  v1')[0]}")
    [listed] = re.findall('<ul class="legend">(<li.*?p0.*?)</ul>', page)
    assert Page(listed).text == " ".join(f"✕ 1 p{at}" for at in range(40)) + " 60 further policies not shown"


def test_the_list_of_what_heat_refuses_says_how_many_it_leaves_out() -> None:
    volumes = (
        f"  v{at}: {{type: OS::Cinder::Volume, properties: {{{'nam' if at % 2 else 'siz'}: a}}}}\n" for at in range(90)
    )
    text = Page(write_page(f"{HEAD}resources:\n{''.join(volumes)}")).text
    heads = re.findall(r"unknown-property (.*?) Change: (.*?\?)", text)
    assert heads == [
        ("45 findings, 25 not shown", "did you mean `size`?"),
        ("45 findings, 25 not shown", "did you mean `name`?"),
    ]


def test_each_policy_keeps_a_place_beside_one_with_many_findings_and_each_finding_its_hint(folder: Path) -> None:
    hint = '@deny("made", "{s} is made", hint="rename {s}") made(s) :- os:nova:server(_id=s, image="old").\n'
    (folder / "m.dl").write_text(RULES + hint)
    servers = "".join(
        f"  web_{at}: {{type: OS::Nova::Server, properties: {{flavor: huge, image: {'new' if at < 45 else 'old'}}}}}\n"
        for at in range(50)
    )
    page = write_page(f"{HEAD}resources:\n{servers}")
    heads = [Page(head).text for head in re.findall("<h3>(.*?)</h3>", page)]
    assert heads == [
        "flavor 50 findings, 16 not shown",
        "made 5 findings, 2 not shown",
        "image 5 findings, 2 not shown",
    ]
    hints = re.findall('<p class="hint"><b>Change:</b> (.*?)</p>', page)
    assert hints == ["take a small one", "rename web_45", "rename web_46", "rename web_47"]


def test_a_small_stack_is_drawn_whole_and_a_larger_one_by_its_findings() -> None:
    texts = [f"  v{at}: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}\n" for at in range(60 + 1)]
    texts.append("  n: {type: OS::Neutron::Net}\n")
    small, large = (
        read_stack(template=f"{HEAD}resources:\n{''.join(chosen)}", stack_name="s") for chosen in (texts[2:], texts)
    )
    assert [len(drawing.nodes) for stack in (small, large) for drawing in draw(stack, {})] == [60, 2]
    [drawing] = draw(large, {"s/v7": ["warn", "deny"]})
    assert [(node.path, node.word, node.findings, node.lists) for node in drawing.nodes] == [
        ("s/v7", "deny", 2, -1), ("s/n", "", 0, -1), ("60 Cinder Volume", "", 0, 0),
    ]  # fmt: skip
    assert drawing.others == (("Cinder Volume", tuple(f"v{at}" for at in range(60 + 1) if at != 7)),)
    assert drawing.left_out == 0
    [drawing] = draw(large, {f"s/v{at}": ["deny"] for at in range(MOST + 9)})
    assert (len(drawing.nodes), drawing.left_out) == (MOST + 2, 9)


def test_a_finding_of_a_large_stack_lists_its_neighbours() -> None:
    volumes = "".join(f"  v{at}: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}\n" for at in range(60))
    server = "{type: OS::Nova::Server, depends_on: [v3, v7], properties: {flavor: huge}}"
    last = "  late: {type: OS::Cinder::Volume, depends_on: web, properties: {size: 1}}\n"
    page = write_page(f"{HEAD}resources:\n{volumes}  web: {server}\n{last}")
    near = '<details><summary>Neighbours</summary><p class="mono">(.*?)</p></details>'
    assert re.findall(near, page) == ["v3, v7, late"]
    small = write_page(f"{HEAD}resources:\n{volumes.partition('  v8')[0]}  web: {server}\n{last}")
    assert re.findall(near, small) == []


LINKED = f"""{HEAD}resources:
  data: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}
  web: {{type: OS::Nova::Server, properties: {{image: i, flavor: m}}}}
  tie:
    type: OS::Cinder::VolumeAttachment
    properties: {{instance_uuid: {{get_resource: web}}, volume_id: {{get_resource: data}}}}
"""


def test_what_only_connects_is_a_labelled_edge_unless_it_has_a_finding() -> None:
    stack = read_stack(template=LINKED, stack_name="s")
    [drawing] = draw(stack, {})
    assert [node.path for node in drawing.nodes] == ["s/data", "s/web"]
    assert [arrow.label for arrow in drawing.arrows] == ["VolumeAttachment"]
    [drawing] = draw(stack, {"s/tie": ["deny"]})
    assert [node.path for node in drawing.nodes] == ["s/data", "s/web", "s/tie"]
    assert [arrow.label for arrow in drawing.arrows] == ["", ""]


@pytest.mark.parametrize("number", [5, 6])
def test_what_more_than_five_need_is_a_tag_and_what_follows_is_no_edge(number: int) -> None:
    servers = "".join(
        f"""  web_{at}:
    type: OS::Nova::Server
    properties: {{image: i, flavor: m, networks: [{{network: {{get_resource: net}}}}]}}
"""
        for at in range(number)
    )
    template = f"{HEAD}resources:\n  net: {{type: OS::Neutron::Net}}\n{servers}"
    [drawing] = draw(read_stack(template=template), {})
    assert write_page(template).count('class="tag tone0"') == (0 if number == 5 else 7)
    if number == 5:
        assert (len(drawing.arrows), drawing.tags) == (5, ())
    else:
        assert (drawing.arrows, drawing.tags) == ((), (("A", "needs net"),))
        tags = {node.name: (node.own_tags, node.tags) for node in drawing.nodes}
        assert tags == {"net": (("A",), ())} | {f"web_{at}": ((), ("A",)) for at in range(6)}
    chain = LINKED + "  more: {type: OS::Cinder::Volume, depends_on: [data, web], properties: {size: 1}}\n"
    chain = chain.replace("web: {type: OS::Nova::Server, ", "web: {type: OS::Nova::Server, depends_on: data, ")
    [drawing] = draw(read_stack(template=chain, stack_name="s"), {})
    assert len(drawing.arrows) == 2  # from data to more by way of web


def test_what_is_needed_by_many_of_a_type_has_the_tag_of_the_type() -> None:
    pairs = "".join(
        f"""  g{at}: {{type: OS::Neutron::SecurityGroup}}
  web{at}: {{type: OS::Nova::Server, properties: {{security_groups: [{{get_resource: g{at}}}]}}}}
"""
        for at in range(31)
    )
    [drawing] = draw(
        read_stack(template=f"{HEAD}resources:\n{pairs}", stack_name="s"), {f"s/g{at}": ["deny"] for at in range(31)}
    )
    assert (drawing.arrows, drawing.tags) == ((), (("A", "is needed by 31 Nova Server"),))
    assert [(node.own_tags, node.tags) for node in drawing.nodes] == [((), ("A",))] * 31 + [(("A",), ())]


def test_the_graph_of_the_campus_has_at_most_30_edges_and_none_crosses_a_box() -> None:
    text = (ROOT / "fixtures" / "stacks" / "campus" / "template.yaml").read_text("utf-8")
    [drawing] = draw(read_stack(template=text, stack_name="campus"), {})
    assert 12 < len(drawing.arrows) <= 30
    for arrow in drawing.arrows:
        for x, y in sample_curve(arrow.curve):
            inside = [
                node.name
                for node in drawing.nodes
                if node.x + 1 < x < node.x + node.width - 1 and node.y + 1 < y < node.y + HEIGHT - 1
            ]
            assert inside == []


def sample_curve(path: str) -> Iterator[tuple[float, float]]:
    """Points on the curve of an SVG path of lines and cubic curves."""
    pieces = re.findall(r"[MLC ]+([-\d. ]+)", path)
    points = [list(map(float, piece.split())) for piece in pieces]
    (x, y), *rest = points
    for numbers in rest:
        controls = [(x, y), *zip(numbers[::2], numbers[1::2], strict=True)]
        for step in range(21):
            t = step / 20
            level = controls
            while len(level) > 1:
                level = [((1 - t) * a[0] + t * b[0], (1 - t) * a[1] + t * b[1]) for a, b in pairwise(level)]
            yield level[0]
        x, y = controls[-1]


def test_the_legend_names_the_signs_that_occur_and_each_edge_is_marked_at_its_ends() -> None:
    page = write_page(STACK)
    [legend] = re.findall('<ul class="legend">(.*?)</ul>', page, re.S)
    assert Page(legend).text == (
        "✕ denied ? undetermined ! warning an arrow leads from what is needed to what needs it, dashed if by depends_on"
    )
    assert re.findall('<use class="near" href="#(.*?)"/>', page) == ["d0-e0-0"] * 2
    assert 'id="d0-e0-0"' in page


def test_the_legend_has_the_other_signs_and_red_edges(folder: Path) -> None:
    node = "{type: OS::Nova::Server, properties: {flavor: huge, image: i}}"
    template = f"{HEAD}resources:\n  a: {node}\n  b: {node.replace(', prop', ', depends_on: a, prop')}\n  w: {node}\n"
    template += "  v: {type: OS::Cinder::Volume, properties: {size: 200}}\n"
    (folder / "old.yaml").write_text(f"{HEAD}resources:\n  v: {template.partition('  v: ')[2]}")
    waiver = "{id: W, policy: flavor, subject: w, owner: o, reason: r, expires: 2127-01-01}"
    (folder / "waivers.yaml").write_text(f"waivers: [{waiver}]\n")
    page = write_page(template, "--waivers", "waivers.yaml")
    [legend] = re.findall('<ul class="legend">(.*?)</ul>', page, re.S)
    arrow = "an arrow leads from what is needed to what needs it, dashed if by depends_on"
    assert Page(legend).text == f"✕ denied i recorded ~ waived {arrow} → both ends are denied"
    assert page.count('class="edge explicit grave"') == 1
    old = write_page(template, "--waivers", "waivers.yaml", "--against", "old.yaml")
    [legend] = re.findall('<ul class="legend">(.*?)</ul>', old, re.S)
    assert "= there before" in Page(legend).text


def test_a_group_is_one_node_and_is_drawn_apart_where_its_members_have_findings() -> None:
    group = f"""{HEAD}resources:
  all:
    type: OS::Heat::ResourceGroup
    properties:
      count: 3
      resource_def: {{type: OS::Nova::Server, properties: {{image: i, flavor: huge}}}}
"""
    page = write_page(group)
    text = Page(page).text
    assert ("all Heat ResourceGroup (3 members) ✕ 3" in text, "Inside web/all" in text) == (True, True)
    labels = re.findall(r'href="#(.*?)" aria-label="(\w+, .*?)"', page)
    members = [(f"d0-f{at}", f"{at}, Nova Server, Denied, 1 finding") for at in range(3)]
    assert labels == [("d0-b1", "all, Heat ResourceGroup (3 members), Denied, 3 findings"), *members]
    harmless = write_page(group.replace("huge", "small"))
    labels = re.findall(r'href="#(.*?)" aria-label="(\w+, .*?)"', harmless)
    assert labels == [("d0-b1", "all, Heat ResourceGroup (3 members), what is inside")]
    assert re.findall(r'<summary>Inside .*?<h2 id="(.*?)">', harmless, re.S) == ["d0-b1"]


def test_a_page_of_an_update_shows_the_change_of_each_resource(folder: Path) -> None:
    (folder / "old.yaml").write_text(f"{STACK}  gone: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}\n")
    template = f"{STACK.replace('flavor: huge', 'flavor: small').replace('size: 1', 'availability_zone: a, size: 1')}"
    page = write_page(
        f"{template}  more: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}\n", "--against", "old.yaml"
    )
    text = Page(page).text
    assert text[text.index("What the update") : text.index(" What it would build")] == (
        "What the update changes Resource Change Line web/gone delete old.yaml:9 web/data replace web.yaml:4 "
        "web/web update, resize web.yaml:8 web/more create web.yaml:9"
    )


def test_a_long_file_is_shown_around_its_findings_without_a_gap_of_one_line() -> None:
    marks = [Mark(at, "deny", Span("t", line, 1, line, 2)) for at, line in enumerate((10, 16, 24))]
    file = mark_lines("t", "x\n" * 500, marks, secrets=(), hidden=(), whole=True)
    assert ([line.number for line in file.lines], file.skipped) == ([*range(8, 19), *range(22, 27)], 474)


def test_a_list_without_blanks_may_go_on_in_another_line_and_one_thing_is_no_several(folder: Path) -> None:
    (folder / "m.dl").write_text('@deny("m", "{v} is <b>a,b,c") m(v) :- os:cinder:volume(_id=v).\n')
    text = write_page(f"{HEAD}resources:\n  v: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}\n")
    assert re.findall(r"<p>(v is .*?)</p>", text) == ["v is &lt;b&gt;a,<wbr>b,<wbr>c"]
    assert re.findall(r"<dd>(1 .*?)</dd>", text) == ["1 policy, 3 facts, 1 resource"]


SECRET = f"""{HEAD}parameters:
  word: {{type: string, hidden: true, default: "S3CR3T"}}
  text: {{type: string, hidden: true}}
resources:
  web:
    type: OS::Nova::Server
    properties: {{image: old, flavor: huge, name: {{get_param: word}}, metadata: {{a: S3CR3T-copy}}}}
"""


def test_no_page_shows_a_hidden_parameter(folder: Path) -> None:
    (folder / "env.yaml").write_text('parameters: {text: "\\x4d4GIC\\nm0re"}\n')
    (folder / "m.dl").write_text(
        RULES + '@deny("told", "{n} is {v}")\ntold(n, v) :- heat:parameter(name=n, value=v).\n'
    )
    page = write_page(SECRET, "-e", "env.yaml", "--explain")
    assert "told" in page
    assert [word for word in ("S3CR3T", "M4GIC", "x4d4GIC", "m0re") if word in page] == []
    assert "metadata: {a: ***-copy}" in page


def test_the_policy_of_the_page_lets_its_own_style_pass_and_nothing_else() -> None:
    page = write_page(STACK)
    style = re.search("<style>(.*?)</style>", page, re.S)
    policy = re.search('http-equiv="Content-Security-Policy" content="(.*?)"', page)
    assert style
    assert policy
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert policy[1] == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert {name for name, _ in Page(page).attributes if name.startswith("on") or name in ("style", "src")} == set()


def test_several_templates_are_one_document_that_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ok.yaml").write_text(f"{HEAD}resources:\n  v: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}\n")
    Path("bad.yaml").write_text("resources: [\n")
    Path("web.yaml").write_text(STACK)
    assert cli.main(["check", "web.yaml", "ok.yaml", "bad.yaml", *OPTIONS, "--jobs", "2", "--format", "html"]) == 3
    text = capsys.readouterr().out
    heads = [Page(head).text for head in re.findall("<summary><span class=.outcome.*?</summary>", text)]
    assert heads == [
        "Not judged: 1 error bad.yaml this is not YAML: while parsing a flow node, did not find expected node content",
        "Denied by 1 policy web ✕ 1 denied ? 1 undetermined ! 1 warning flavor, zone, image",
        "Allowed. Nothing to change. ok",
    ]
    [tally] = re.findall(r"<h1>3 decisions</h1>\s*<p class=.tally.>(.*?)</p>", text)
    assert Page(tally).text == "1 can't be built or judged 1 denied 1 allowed"


def test_rules_that_cannot_be_read_are_a_page_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.dl").write_text("huge(s :-")
    (folder / "web.yaml").write_text(STACK)
    assert cli.main(["check", "web.yaml", *OPTIONS, "--format", "html"]) == 2
    text = Page(capsys.readouterr().out).text
    assert text[text.index("The rules can't be read: 1 mistake rules") :].partition(" datalog_gate. The")[0] == (
        "The rules can't be read: 1 mistake rules m.dl "
        "✕ found `:-`, expected `, ` or `)` m.dl:1 Change: write `)` before `:-` 1 huge(s :-"
    )


@pytest.mark.parametrize(
    ("arguments", "heading"),
    [
        (["none.yaml"], "Can't be built: 1 mistake: none.yaml"),
        (["web.yaml", "-P", "who=me"], "Can't be built: 1 mistake: web.yaml"),
        (["bad.yaml"], "Not judged: 1 error: bad.yaml"),
        (["absent.yaml"], "Not judged: 1 error: absent.yaml"),
        (["m.dl"], "Not judged: 1 error: m.dl"),
        (["web.yaml", "--assume", "nothing=1"], "Not judged: 1 error: web.yaml"),
        (["web.yaml", "--inventory", "bad.yaml"], "Not judged: 1 error: web.yaml"),
        (["web.yaml", "--waivers", "bad.yaml"], "Not judged: 1 error: input"),
        (["web.yaml", "--catalogue", "bad.yaml"], "Not judged: 1 error: input"),
        (["web.yaml", "--rules", "absent"], "The rules can't be read: 1 mistake: rules"),
        ([], "Not judged: 1 error: input"),
    ],
)
def test_the_heading_is_true_of_what_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], heading: str
) -> None:
    (folder / "web.yaml").write_text(f"{HEAD}resources:\n  v: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}\n")
    (folder / "none.yaml").write_text(f"{HEAD}resources: {{v: {{type: OS::Heat::None, depends_on: nothing}}}}\n")
    (folder / "bad.yaml").write_text("resources: [\n")
    if not arguments:
        (folder / "datalog-gate.toml").write_text('[[templates]]\npath = "no*.yml"\n')
    cli.main(["check", *OPTIONS, *arguments, "--format", "html"])
    [title] = re.findall("<title>(.*?)</title>", capsys.readouterr().out)
    assert unescape(title) == heading


MISTAKEN = f"""{HEAD}parameters:
  word: {{type: string, hidden: true, default: S3CR3T}}
  net: {{type: strin}}
resources:
  web: {{type: OS::Heat::None, depends_on: nothing}}
  box: {{type: Acme::Box}}
"""


def test_a_template_that_cannot_be_read_shows_its_mistakes_by_line_with_the_text_around(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "web.yaml").write_text(MISTAKEN)
    cli.main(["check", str(folder / "in" / "web.yaml"), *OPTIONS, "--output", "html=page.html", "--format", "compact"])
    text = Page((folder / "page.html").read_text("utf-8")).text
    assert text[text.index("Can't be built: 2 mistakes in/") :].partition(" datalog_gate. The")[0] == (
        "Can't be built: 2 mistakes in/web.yaml ✕ the type of parameter `net` is not one of string, number, "
        "comma_delimited_list, json, boolean web.yaml:4 Change: did you mean `string`? "
        "✕ there is no resource `nothing` web.yaml:6 "
        "! the resource type Acme::Box is not in the catalogue: its properties are not "
        "checked web.yaml:7 Change: map it in an environment, or give the catalogue of its plugin with --catalogue "
        "2 parameters: 3 word: {type: string, hidden: true, default: *** 4 net : {type: strin} 5 resources: "
        "6 web: {type: OS::Heat::None, depends_on: nothing } 7 box: {type: Acme::Box }"
    )


def test_what_heat_refuses_alike_is_one_part_and_many_mistakes_are_counted() -> None:
    volumes = [f"  v{at}: {{type: OS::Cinder::Volume, properties: {{nam: a}}}}\n" for at in range(50)]
    text = Page(write_page(f"{HEAD}resources:\n{''.join(volumes[:12])}")).text
    assert re.findall(r"unknown-property \d+ findings?", text) == ["unknown-property 12 findings"]
    mistakes = "".join(volumes).replace("properties: {nam: a}", "depends_on: w")
    page = write_page(f"{HEAD}resources:\n{mistakes}")
    assert (page.count("<article"), "10 further mistakes not shown." in page) == (40, True)


@pytest.mark.parametrize("text", ["parameters: {a: [}", "resources: [\n"])
def test_a_file_that_is_no_template_shows_only_the_line_of_its_mistake(text: str) -> None:
    place = Span("env.yaml", 2, 1, 2, 2)
    [near] = mark_mistakes([place], f"a: S3CR3T\n{text}\nb: S3CR3T\n")
    assert [line.number for line in near] == ([2] if text.startswith("par") else [1, 2, 3, 4])
    assert mark_mistakes([None, Span("env.yaml", 9, 1, 9, 2)], text) == [(), ()]


def test_the_lines_around_mistakes_are_one_excerpt_where_they_overlap() -> None:
    places = [Span("m.dl", line, 1, line, 2) for line in (3, 7, 7, 12)]
    found = mark_mistakes(places, "default: x\n" * 20)
    assert [
        [(line.number, line.word, f"{line.before}{line.marked}{line.after}") for line in lines] for lines in found
    ] == [
        [],
        [],
        [(at, "error", "default: x") if at in (3, 7) else (at, "", "default: ***") for at in range(1, 10)],
        [(at, "error", "default: x") if at == 12 else (at, "", "default: ***") for at in range(10, 15)],
    ]


HEADINGS = {
    "flavor: m, image: i": "Allowed. Nothing to change.",
    "flavor: huge, image: i": "Denied by 1 policy",
    "flavor: huge, name: x": "Denied by 2 policies",
    "flavor: m, image: old": "Allowed, with warnings",
}


@pytest.mark.parametrize("properties", HEADINGS)
def test_the_first_line_says_what_was_decided_and_the_digests_come_last(properties: str) -> None:
    page = write_page(f"{HEAD}resources:\n  web: {{type: OS::Nova::Server, properties: {{{properties}}}}}\n")
    text = Page(page[page.index("<main") :]).text
    assert text.startswith(f"{HEADINGS[properties]} web ")
    assert re.search(r"Rules [0-9a-f]{12} datalog_gate\. The same", text)
    assert page.index("<article") < page.index("<svg") if "<article" in page else True


def test_a_template_without_resources_is_not_called_right() -> None:
    text = Page(write_page(f"{HEAD}resources: {{}}\n")).text
    assert text.partition(" What was checked")[0].endswith("Allowed. There is no resource to judge. web")


def test_each_fix_shown_as_lines_is_a_change_of_the_file_that_settles_the_finding() -> None:
    rules = load_rules(ROOT / "rules")
    source = (ROOT / "fixtures" / "stacks" / "office_vpn" / "template.yaml").read_text("utf-8")
    source += """
  blocks:
    type: OS::Neutron::SecurityGroup
    properties:
      rules:
        - protocol: tcp
          port_range_min: 22
          port_range_max: 22
"""
    decision = rules.decide(stack := read_stack(template=source, stack_name="office_vpn"), explain=True)
    assert isinstance(decision, ExplainedDecision)
    page = build_page(decision, decision.explanation, [stack], fixes=True)
    before = {(finding.policy, finding.message) for finding in decision.violations}
    parts = [(policy.policy, part) for policy in page.policies for part in policy.findings]
    assert [part.message for _, part in parts if not part.diff] == []
    for policy, part in parts:
        rows = source.splitlines()
        for line in part.diff:
            if line.sign == "-":
                del rows[line.number - 1]
            else:
                rows.insert(line.number - 1, line.text)
        after = rules.decide(read_stack(template="\n".join(rows), stack_name="office_vpn"))
        left = {(finding.policy, finding.message) for finding in after.violations}
        assert left <= before - {(policy, part.message)} | {(policy, part.message)}
        assert len(after.violations) < len(decision.violations)


def test_a_fix_of_a_line_with_a_secret_is_told_in_words_alone() -> None:
    text = f"{HEAD}resources:\n  web: {{type: t, properties: {{name: S3CR3T, size: 1}}}}\n"
    change = TemplateChange(
        "s",
        Resource(ResourceId("s/web"), "web", "t", "t", {}),
        "",
        Span("t.yaml", 3, 51, 3, 52),
        1,
        ("properties", "size"),
        2,
    )
    [minus, plus] = find_diff(change, SourceTexts({"t.yaml": text}, (), ()))
    assert (minus.text, plus.text) == (text.splitlines()[2], text.splitlines()[2].replace("size: 1", "size: 2"))
    assert find_diff(change, SourceTexts({"t.yaml": text}, ["S3CR3T"], ())) == ()
    assert find_diff(change, SourceTexts({"t.yaml": text}, (), {("t.yaml", 3)})) == ()


def test_without_jinja2_the_format_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(html, "find_spec", lambda _: None)
    assert cli.main(["check", "web.yaml", *OPTIONS, "--format", "html"]) == 64
    assert "pip install 'datalog-gate[pages]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", re.findall(r"^datalog-gate (check .*)", (DOCS / "pages.md").read_text("utf-8"), re.M)
)
def test_a_command_of_the_documentation_writes_a_page(command: str, folder: Path) -> None:
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    assert cli.main(command.split()) == 1
    assert Page(Path(command.rpartition("=")[2]).read_text("utf-8")).tags.count("svg") >= 1
