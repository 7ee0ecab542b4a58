"""Feed random texts to the lexer, parser, formatter and analysis."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

from datalog_gate.base.diagnostics import in_order, render
from datalog_gate.base.errors import RulesError
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.language.formatter import format_text
from datalog_gate.language.lexer import Source
from datalog_gate.language.parser import parse, parse_query
from datalog_gate.language.printer import print_module
from tests.unit.base.test_diagnostic_codes import CASES

ROOT = Path(__file__).parents[1]
MORE = """\
@deny("a.b", "{x} is {n}", on=["create", "update"])
p(x, n) :- q(x), not (r(x, _), x in [1, 'a', null]), n = sum{ size, v : s(x, v, size) }, (n - 1 > 2 ?? 3 or n * 2 = x).
relation q(x: string or null) key(x) "Where." import net:ssh. export p, q
q("\\u00e9"). r(1, -2.5e3). s(x, y, z) :- q(x), r(y, z), y = z + 1, old:p(x). r(x, y) :- r(y, x), split(x, ",", 0, y).
"""
SNIPPETS = [text for _, *both in CASES.values() for text in both if isinstance(text, str) and len(text) < 1000]
VALID = [
    MORE,
    " ".join(SNIPPETS),
    *SNIPPETS,
    *(path.read_text("utf-8") for path in sorted((ROOT / "rules").rglob("*.dl"))),
]
WORDS = sorted({token.text for text in VALID for token in Source(text, "").tokens})
DEEP = [
    "(", "[", "{", "p(", "not (", "x = count{ x : ", "- ", "1 + ", "x ?? ", "a or ", "p(x),", "@a(", "/*", '"', "p.",
    "1.", "\n",
]  # fmt: skip
ODD = [
    "9" * 5000, "1e999", "1_0", '"\\q"', '"\\uD834"', '"\\uD834\\uDD1E"', '"\\U00110000"', '"\\u00"', '"\ud834"',
    "'é\t'", "/* ", "// \ud834\n", "é",
]  # fmt: skip
"""What a lexer refuses, or nearly."""


def text(random: Random) -> str:
    """A text of at most some ten thousand characters."""
    match random.randrange(8):
        case 0:
            points = (random.randrange(random.choice([128, 0x3000, 0x110000])) for _ in range(random.randrange(200)))
            return "".join(map(chr, points))
        case 1:
            return "".join(random.choices([*WORDS, *DEEP, *ODD, " ", " ", "\n"], k=random.randrange(200)))
        case 2:
            before, again = random.choice(["", "p(x) :- ", "p(", "p :- x = "]), random.choice(DEEP)
            after, close = random.choice(WORDS), random.choice(["", ")", "}", " : p(x) }"])
            return before + again * random.randrange(3000) + after + close * random.randrange(40)
    return mutated(random, " ".join(random.choices(VALID, k=random.choice([1, 1, 2]))))


def mutated(random: Random, valid: str) -> str:
    """A valid text with some tokens dropped, doubled, swapped, replaced or spoilt, perhaps cut."""
    source = Source(valid, "")
    ends = [0, *(token.end for token in source.tokens)]
    tokens = [valid[end:after] for end, after in pairwise(ends)]
    for _ in range(random.choice([1, 1, 2, 3, 8])):
        at, other = random.randrange(len(tokens)), random.randrange(len(tokens))
        match random.randrange(6):
            case 0:
                del tokens[at : at + random.choice([1, 1, 2, 5])]
            case 1:
                tokens[at:at] = [tokens[at]] * random.choice([1, 1, 2, 50])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = " " + random.choice(random.choice([WORDS, ODD]))
            case 4:
                tokens[at:at] = tokens[min(at, other) : min(at, other) + random.randrange(20)]
            case 5:
                tokens[at] = tokens[at][:-1] + random.choice("()[]{},.;:=<>+-*/%@!_\"'\\ \n\0\ud800é")
        tokens = tokens or [""]
    return "".join(tokens)[: random.choice([None, None, None, random.randrange(1 + len(valid))])]


def attempt(number: int) -> str:
    """Do whatever can be done with the text of this number: it parses to what prints and parses again. Return whether
    it loads. A crash leaves as its exception."""
    written = text(Random(number))
    module, diagnostics = parse(written, "f.dl", "f")
    assert parse(print_module(module), "f.dl", "f") == (module, ())
    assert diagnostics == in_order(diagnostics)
    assert all(render(diagnostic, {"f.dl": written}) for diagnostic in diagnostics)
    parse_query(written)
    files = [RuleFile("f", "f.dl", written), RuleFile("net:ssh", "g.dl", "q(1).")]
    with suppress(RulesError):
        format_text(written)
    try:
        load(files)
    except RulesError:
        return "refused"
    return "loaded"
