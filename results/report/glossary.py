"""What each metric, verdict and memory figure means: one formula and one plain sentence.

All times count from the *planned* arrival, so that a late client cannot flatter a slow server.
"""

from dataclasses import dataclass
from typing import Literal

from results.report import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: its key is the name in a trial's metrics, without the statistic."""

    key: str
    name: str
    unit: Literal["s", "tokens/s", "req/s", ""]
    formula: str
    plain: str
    better: Literal["higher", "lower"]
    has_percentiles: bool = True

    def text(self, value: float | None) -> str:
        """Give a value with its unit."""
        if self.unit == "s":
            return numbers.duration(value)
        return f"{numbers.number(value)} {self.unit}".strip()

    def of(self, statistic: str) -> str:
        """Give the key in a trial's metrics."""
        return f"{self.key}_{statistic}" if self.has_percentiles else self.key


METRICS: tuple[Metric, ...] = (
    Metric(
        key="throughput_tokens_per_s",
        name="throughput",
        unit="tokens/s",
        formula="output tokens ÷ (last completion − first planned arrival)",
        plain="How much text the server produced per second. A server that keeps up delivers what is offered.",
        better="higher",
        has_percentiles=False,
    ),
    Metric(
        key="steady_throughput_tokens_per_s",
        name="throughput in the steady window",
        unit="tokens/s",
        formula="tokens in the window ÷ its length: the arrivals less a first part, cut alike for all of one rate "
        "and repeat (MSER-5)",
        plain="The same without the start and the draining at the end.",
        better="higher",
        has_percentiles=False,
    ),
    Metric(
        key="throughput_requests_per_s",
        name="requests completed",
        unit="req/s",
        formula="finished requests ÷ (last completion − first planned arrival)",
        plain="How many answers were finished per second. Below the dotted line, requests arrive faster.",
        better="higher",
        has_percentiles=False,
    ),
    Metric(
        key="ttft_s",
        name="TTFT",
        unit="s",
        formula="first token − planned arrival",
        plain="Time to first token: how long a user looks at an empty answer.",
        better="lower",
    ),
    Metric(
        key="e2e_s",
        name="E2E latency",
        unit="s",
        formula="last token − planned arrival",
        plain="How long until the answer's last token exists.",
        better="lower",
    ),
    Metric(
        key="delivered_s",
        name="delivered",
        unit="s",
        formula="returned − planned arrival = E2E + held",
        plain="How long until the caller has the answer: a static batch keeps finished answers until its longest one is done.",
        better="lower",
    ),
    Metric(
        key="queue_wait_s",
        name="queue wait",
        unit="s",
        formula="scheduled − planned arrival",
        plain="How long a request waited before the engine began it.",
        better="lower",
    ),
    Metric(
        key="tpot_s",
        name="TPOT",
        unit="s",
        formula="(last token − first token) ÷ (output tokens − 1)",
        plain="Time per output token: how fast the answer grows once it has begun.",
        better="lower",
    ),
    Metric(
        key="held_s",
        name="held",
        unit="s",
        formula="returned − last token",
        plain="How long a finished answer was kept by its batch.",
        better="lower",
    ),
)

_LAG = Metric(
    key="dispatch_lag_s",
    name="dispatch lag",
    unit="s",
    formula="sent − planned arrival",
    plain="How late the load generator was: if this is large, the client was the bottleneck, not the server.",
    better="lower",
)
_BATCH_SIZE = Metric(
    key="batch_size_mean",
    name="mean batch size",
    unit="",
    formula="Σ batch sizes ÷ batches",
    plain="Requests released together; for continuous batching, requests resident in an engine step.",
    better="higher",
    has_percentiles=False,
)
EXPLAINED: tuple[Metric, ...] = (*METRICS, _LAG, _BATCH_SIZE)
PERCENTILES: tuple[str, ...] = ("p50", "p90", "p95", "p99")

VERDICTS: dict[str, str] = {
    "overloaded": "Requests arrived faster than they were served. Throughput stands; latency grows with the length "
    "of the trial and says nothing about the server: drawn hollow, left out of rankings.",
    "too-short": "Too few arrivals or batches to tell whether the server kept up. Shown, with a dot in a hollow "
    "marker: read its latency with care.",
    "not-stationary": "The time to first token had not settled in the first half of the arrivals: what counts is the "
    "second half, and it may still be settling.",
    "unfinished": "Requests were still running at the drain limit and were cut off: counted, never dropped. Their "
    "latency is longer than anything measured here.",
    "client-bound": "The load generator was late: latencies include its lag.",
    "clock-vague": "The two clocks could not be matched closely enough for this trial's TTFT.",
    "failures": "Some requests failed; percentiles describe the others.",
    "drifted": "The machine was more than 5 % slower or faster than in most trials of its lane: a change between "
    "this trial and another may be the machine's.",
    "replica-changed": "The replica or engine was replaced or died in mid-trial: the trial does not count.",
}

MEMORY: dict[str, str] = {
    "allocated": "peak memory that tensors took (weights, KV cache, activations), reset before the trial",
    "kv-cache": "peak use of a KV cache whose pool is reserved at the start; weights not included",
    "resident": "memory of the whole process, on a CPU",
    "none": "not measured",
}


def metric_of(name: str) -> tuple[Metric, str]:
    """Give the metric and its statistic ("" if it has none) for a name such as `ttft_s_p50`."""
    for metric in EXPLAINED:
        if name == metric.key:
            return metric, ""
        if name.startswith(f"{metric.key}_"):
            return metric, name.removeprefix(f"{metric.key}_")
    unit: Literal["s", ""] = "s" if "_s_" in name or name.endswith("_s") else ""
    unknown = Metric(
        key=name, name=name, unit=unit, formula="", plain="", better="lower", has_percentiles=False
    )
    return unknown, ""


def label(name: str) -> str:
    """Give a metric's name with its statistic: p50 TTFT."""
    metric, statistic = metric_of(name)
    return f"{statistic} {metric.name}".strip()
