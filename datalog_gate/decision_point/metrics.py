"""The metrics of a process, and their text for Prometheus.

Prometheus's own library adds up processes only through memory-mapped files. A full disk kills processes that write to
such files, and Heat must survive that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from threading import Lock
from typing import Literal, NamedTuple

from datalog_gate.decision.decision import Violation
from datalog_gate.decision_point.operation import Answer, Operation

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of histogram buckets, in seconds; the last bucket has none."""
OUTCOMES = ("allowed", "denied", "unreadable", "undecided", "failed")
"""The verdicts of answers, and `failed` for failures of the gate."""
STORE_SECONDS = 3.0
"""Seconds that reading the store waits for locks. Prometheus waits ten for an answer."""
Labels = tuple[str, ...]
Sample = tuple[str, Labels, list[float]]
"""The name, the label values, and the number; for a histogram the sum, then the count of each bucket."""


class Metric(NamedTuple):
    """The description of a metric."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Labels = ()
    of_host: bool = False
    """Whether the value for the host is the maximum over its processes, not the sum."""
    first: tuple[Labels, ...] = ()
    """Labels that start with 0, so that Prometheus sees the first event."""


METRICS: Mapping[str, Metric] = {
    "datalog_gate_decisions_total": Metric(
        "counter", "Answers to operations; `failed` where the gate failed.", ("outcome", "door", "action")
    ),
    "datalog_gate_undecided_total": Metric(
        "counter", "Answers that are undecided, and failures of the gate.", first=((),)
    ),
    "datalog_gate_decision_seconds": Metric("histogram", "Seconds until an answer, with those of services.", ("door",)),
    "datalog_gate_judgements_total": Metric(
        "counter", "Answers of the policies; `undetermined` is yes if a finding is undetermined.", ("undetermined",)
    ),
    "datalog_gate_policy_hits_total": Metric(
        "counter", "Answers with a finding of the policy, by its result.", ("policy", "result")
    ),
    "datalog_gate_lifted_total": Metric(
        "counter",
        "Refused operations that passed nevertheless, by the mode, the action or break-glass.",
        ("by",),
        first=(("mode",), ("action",), ("break_glass",)),
    ),
    "datalog_gate_load_failures_total": Metric(
        "counter",
        "Failed loads of changed files, at the change and every minute after it.",
        ("source",),
        first=(("rules",), ("options",), ("policy_file",)),
    ),
    "datalog_gate_log_records_lost_total": Metric("counter", "Records that the decision log has lost.", first=((),)),
    "datalog_gate_store_errors_total": Metric("counter", "Transactions of the store that failed.", first=((),)),
    "datalog_gate_processes": Metric(
        "gauge", "Processes, by the version of the gate and the digest of the rules in force.", ("version", "rules")
    ),
    "datalog_gate_rules_loaded_timestamp_seconds": Metric("gauge", "When the rules came into force.", of_host=True),
    "datalog_gate_inventory_timestamp_seconds": Metric(
        "gauge", "When the inventory in force was written.", of_host=True
    ),
    "datalog_gate_inventory_table_timestamp_seconds": Metric(
        "gauge", "When a table of the inventory in force was read.", ("table",), of_host=True
    ),
    "datalog_gate_store_up": Metric("gauge", "Whether the store could be read."),
    "datalog_gate_claims": Metric("gauge", "Claims of grants that have not ended.", ("service", "state")),
    "datalog_gate_misplaced_claims": Metric(
        "gauge", "Claims of complete stacks with resources in other places than decided.", ("service",)
    ),
    "datalog_gate_claims_since_timestamp_seconds": Metric(
        "gauge", "When the oldest of these claims came into its state.", ("service", "state")
    ),
    "datalog_gate_approvals_waiting": Metric(
        "gauge", "Requests for approval that nobody has answered, by whether an engine waits for them.", ("mode",)
    ),
    "datalog_gate_api_requests_total": Metric("counter", "Requests to the policy server.", ("operation", "status")),
    "datalog_gate_findings_open": Metric(
        "gauge", "Findings of the last scan that are not resolved.", ("level", "state"), of_host=True
    ),
    "datalog_gate_api_seconds": Metric("histogram", "Seconds until the policy server's answer.", ("operation",)),
}
"""All metrics by their names."""


class Numbers:
    """The metrics of a process, shared by its threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[tuple[str, Labels], list[float]] = {
            (name, labels): [0.0] for name, metric in METRICS.items() for labels in metric.first
        }

    def count(self, name: str, *labels: str, number: float = 1.0) -> bool:
        """Add to a counter; return whether it is new."""
        key = name, labels
        with self._lock:
            values = self._values.get(key)
            if values is None:
                self._values[key] = [number]
                return True
            values[0] += number
            return False

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add to a histogram."""
        bucket = 1 + bisect_left(BUCKETS, seconds)
        with self._lock:
            values = self._values.setdefault((name, labels), [0.0] * (len(BUCKETS) + 2))
            values[0] += seconds
            values[bucket] += 1.0

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge to one value with these labels; other labels are removed."""
        self.set_all(name, {labels: value})

    def set_all(self, name: str, values: Mapping[Labels, float]) -> None:
        """Set a gauge to these values; other labels are removed."""
        with self._lock:
            for key in [key for key in self._values if key[0] == name and key[1] not in values]:
                del self._values[key]
            self._values.update(((name, labels), [value]) for labels, value in values.items())

    def add(self, samples: Iterable[Sample]) -> None:
        """Add the counters and histograms of a process that has ended."""
        with self._lock:
            for name, labels, values in samples:
                if METRICS[name].kind != "gauge":
                    self._values[name, labels] = _add(self._values.get((name, labels)), values)

    def samples(self) -> list[Sample]:
        """The current samples."""
        with self._lock:
            return [(name, labels, [*values]) for (name, labels), values in self._values.items()]


def count_answer(numbers: Numbers, operation: Operation, answer: Answer, seconds: float) -> None:
    """Count an answer and its duration."""
    count_outcome(numbers, answer.verdict, operation.door, operation.action)
    numbers.observe("datalog_gate_decision_seconds", seconds, operation.door)
    decision = answer.decision
    if decision is None:
        return
    numbers.count("datalog_gate_judgements_total", "yes" if decision.undetermined else "no")
    results = [(violation, _describe_effect(violation)) for violation in decision.violations]
    results += [(violation, "undetermined") for violation in decision.undetermined]
    results += [(violation, "waived") for violation in decision.waived]
    for hit in {(policy, result) for violation, result in results for policy in violation.policies}:
        numbers.count("datalog_gate_policy_hits_total", *hit)


def _describe_effect(violation: Violation) -> str:
    """The effect of a certain violation: `deny`, `warn` or `record`; `preexisting` if it is tolerated."""
    if violation.tolerated:
        return "preexisting"
    effects = violation.level, violation.mode
    return "record" if "record" in effects else "warn" if "warn" in effects else "deny"


def count_outcome(numbers: Numbers, outcome: str, door: str, action: str) -> None:
    """Count an outcome. The other outcomes of the door and action start at 0, so that Prometheus sees them grow."""
    if outcome in ("undecided", "failed"):
        numbers.count("datalog_gate_undecided_total")
    if numbers.count("datalog_gate_decisions_total", outcome, door, action):
        for name in OUTCOMES:
            numbers.count("datalog_gate_decisions_total", name, door, action, number=0.0)


def measure_store(url: str, now: float) -> list[Sample]:
    """Measure the store; no samples without a store."""
    if not url:
        return []
    from datalog_gate.services.journal_claim import OVER
    from datalog_gate.store.counts import count_approvals, count_claims, count_misplaced
    from datalog_gate.store.transaction import Store, StoreError

    try:
        store = Store(url, wait=STORE_SECONDS)
        claims, misplaced, waiting = store.run(
            None, lambda rows: (count_claims(rows, OVER), count_misplaced(rows), count_approvals(rows, now))
        )
    except (StoreError, ValueError):  # ValueError for a URL that is wrong, or a driver that is not installed
        return [("datalog_gate_store_up", (), [0.0])]
    samples: list[Sample] = [("datalog_gate_store_up", (), [1.0])]
    samples += [("datalog_gate_approvals_waiting", (mode,), [number]) for mode, number in waiting.items()]
    samples += [("datalog_gate_misplaced_claims", (service,), [number]) for service, number in misplaced.items()]
    for service, state, number, since in claims:
        samples.append(("datalog_gate_claims", (service, state), [number]))
        samples.append(("datalog_gate_claims_since_timestamp_seconds", (service, state), [since]))
    return samples


def format_metrics(processes: Iterable[Iterable[Sample]]) -> str:
    """The metrics of all processes of a host as text for Prometheus."""
    totals: dict[str, dict[Labels, list[float]]] = {name: {} for name in METRICS}
    for samples in processes:
        for name, labels, values in samples:
            total = totals[name]
            if METRICS[name].of_host and labels in total:
                total[labels] = max(total[labels], values)
            else:
                total[labels] = _add(total.get(labels), values)
    return "".join(line + "\n" for name, total in totals.items() if total for line in _format_metric(name, total))


def _format_metric(name: str, total: Mapping[Labels, list[float]]) -> Iterator[str]:
    metric = METRICS[name]
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for labels, values in sorted(total.items()):
        pairs = [f'{label}="{_escape(value)}"' for label, value in zip(metric.labels, labels, strict=True)]
        if metric.kind != "histogram":
            yield f"{name}{_braces(pairs)} {_format_number(values[0])}"
            continue
        counts = [*accumulate(values[1:])]
        for bound, count in zip((*map(repr, BUCKETS), "+Inf"), counts, strict=True):
            label = f'le="{bound}"'
            yield f"{name}_bucket{_braces([*pairs, label])} {_format_number(count)}"
        yield f"{name}_sum{_braces(pairs)} {_format_number(values[0])}"
        yield f"{name}_count{_braces(pairs)} {_format_number(counts[-1])}"


def _braces(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _add(left: list[float] | None, right: list[float]) -> list[float]:
    return [a + b for a, b in zip(left, right, strict=True)] if left else right
