"""What it costs to explain 81 violations, beside the evaluation that found them, in one run.

python -m bench.explaining [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys
import time
from datetime import UTC, datetime

from datalog_gate.enforce.render import why
from datalog_gate.engine.native import evaluate
from datalog_gate.gate.decide import Request, decide
from datalog_gate.gate.decision import Decision
from datalog_gate.gate.policyset import RuleFile, load
from datalog_gate.sources import read_stack

RULES = """
@deny("zone", "{v} is in {b}, its server {s} in {a}")
zone(v, s, a, b) :- attached(s, v), os:nova:server(_id=s, availability_zone=a),
  os:cinder:volume(_id=v, availability_zone=b), a != b.
attached(s, v) :- os:cinder:volume_attachment(instance_uuid=s, volume_id=v).
"""
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "resources": {
        name: {"type": f"OS::{kind}", "properties": held}
        for at in range(2000)
        for name, kind, held in (
            (f"s{at}", "Nova::Server", {"flavor": "small", "availability_zone": "one"}),
            (f"v{at}", "Cinder::Volume", {"size": 1, "availability_zone": "two" if at < 81 else "one"}),
            (
                f"a{at}",
                "Cinder::VolumeAttachment",
                {"instance_uuid": {"get_resource": f"s{at}"}, "volume_id": {"get_resource": f"v{at}"}},
            ),
        )
    },
}


def explain(decision: Decision) -> list[str]:
    """Why each violation of a decision holds, as text; the decision was asked for with `explain`."""
    assert decision.explanation
    return ["\n".join(why(decision.explanation.why(one))) for one in decision.violations]


def main(rounds: int) -> None:
    """Print the medians of deciding, and of explaining all violations."""
    rules, stack = load([RuleFile("m", "m.dl", RULES)]), read_stack(template=TEMPLATE)
    request = Request("create", datetime.now(UTC))
    deciding, explaining = [], []
    texts: list[str] = []
    for _ in range(rounds):
        start = time.perf_counter()
        decision = decide(rules, [stack], request, evaluate, explain=True)
        decided = time.perf_counter()
        texts = explain(decision)
        explaining.append(time.perf_counter() - decided)
        deciding.append(decided - start)
    longest = max(len(one.encode()) for one in texts)
    decided, explained = statistics.median(deciding), statistics.median(explaining)
    print("| violations | deciding ms | explaining ms | ratio | longest, bytes |\n|---|---|---|---|---|")
    print(f"| {len(texts)} | {decided * 1e3:.1f} | {explained * 1e3:.1f} | {explained / decided:.2f} | {longest} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 9)
