"""Try requests, command lines and texts of rules for a while.

None may crash or hang what reads it. Prints the number of each that does, and exits with 1 if any did.

python -m tests.fuzz SECONDS [SEED]
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests import fuzz_texts
from tests.fuzz_commands import Workshop
from tests.fuzz_stacks import Trial, hang

LIMIT = 30
"""How many seconds of CPU one may take: more than all budgets together."""


def main(seconds: float, seed: int) -> None:
    """Try all kinds from that number on."""
    signal.signal(signal.SIGVTALRM, hang)
    with tempfile.TemporaryDirectory() as folder:
        (requests := Path(folder) / "requests").mkdir()
        (commands := Path(folder) / "commands").mkdir()
        wrong = try_all("requests", Trial(requests).attempt, seconds, seed)
        wrong += try_all("commands", Workshop(commands).attempt, seconds, seed)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    sys.exit(bool(wrong + try_all("texts", fuzz_texts.attempt, seconds, seed)))


def try_all(kind: str, attempt_number: Callable[[int], str], seconds: float, seed: int) -> int:
    """Try those from that number on; return how many are wrong."""
    end, wrong, outcomes = time.monotonic() + seconds, 0, Counter[str]()
    for number in count(seed):
        if time.monotonic() > end:
            break
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
        try:
            outcomes[attempt_number(number)] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            wrong += 1
            print(f"{kind}, number {number}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
            traceback.print_exc(limit=12)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(f"{number - seed} {kind}, {wrong} wrong: {dict(outcomes.most_common())}", flush=True)
    return wrong


if __name__ == "__main__":
    os.environ.pop("DATALOG_GATE_RULES", None)
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 10**9)
