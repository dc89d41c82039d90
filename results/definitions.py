"""Every number in one place: its name, unit, formula and meaning, for the page, the docs and the columns.

All times count from the *planned* arrival, so that a late client cannot flatter a slow server. A metric of
requests has p50, p90, p95, p99, mean and count, over the requests planned in the trial's steady window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One metric: its key is the name in a trial's metrics, without the statistic."""

    key: str
    name: str
    unit: Literal["s", "tokens/s", "req/s", "requests", "ratio", ""]
    formula: str
    plain: str
    better: Literal["higher", "lower"] = "lower"
    has_percentiles: bool = False  # and a mean and a count: a metric of requests

    @property
    def said(self) -> str:
        """Formula and meaning, as sentences."""
        return f"{self.formula}. {self.plain}"

    def of(self, statistic: str) -> str:
        """Give the key in a trial's metrics."""
        return f"{self.key}_{statistic}" if self.has_percentiles else self.key


_OF_REQUESTS = (
    Definition(
        key="ttft_s",
        name="TTFT",
        unit="s",
        formula="first token − planned arrival",
        plain="Time to first token: how long a user looks at an empty answer.",
    ),
    Definition(
        key="e2e_s",
        name="E2E latency",
        unit="s",
        formula="last token − planned arrival = TTFT + (output tokens − 1) · TPOT",
        plain="How long until the answer's last token exists.",
    ),
    Definition(
        key="delivered_s",
        name="delivered",
        unit="s",
        formula="returned − planned arrival = E2E + held",
        plain="How long until the caller has the answer: a static batch keeps finished answers until its longest one "
        "is done.",
    ),
    Definition(
        key="queue_wait_s",
        name="queue wait",
        unit="s",
        formula="scheduled − planned arrival",
        plain="How long a request waited before the engine began it.",
    ),
    Definition(
        key="tpot_s",
        name="TPOT",
        unit="s",
        formula="(last token − first token) ÷ (output tokens − 1), none below 2 tokens",
        plain="Time per output token: how fast the answer grows once it has begun.",
    ),
    Definition(
        key="itl_s",
        name="ITL",
        unit="s",
        formula="a token − the one before it, pooled over requests",
        plain="Inter-token latency: how evenly answers grow.",
    ),
    Definition(
        key="held_s",
        name="held",
        unit="s",
        formula="returned − last token",
        plain="How long a finished answer was kept by its batch.",
    ),
    Definition(
        key="dispatch_lag_s",
        name="dispatch lag",
        unit="s",
        formula="sent − planned arrival",
        plain="How late the load generator was: if this is large, the client was the bottleneck, not the server.",
    ),
    Definition(
        key="transport_s",
        name="transport",
        unit="s",
        formula="(received − sent) − (returned − arrived)",
        plain="Time between client and replica, there and back.",
    ),
)
_OF_TRIALS = (
    Definition(
        key="steady_throughput_tokens_per_s",
        name="throughput",
        unit="tokens/s",
        formula="tokens made in the steady window ÷ its length",
        plain="How much text the server produced per second. A server that keeps up delivers what is offered. The window: "
        "the arrivals less a first part, cut alike for all of one rate and repeat (MSER-5: at steady window).",
        better="higher",
    ),
    Definition(
        key="throughput_tokens_per_s",
        name="throughput to the last completion",
        unit="tokens/s",
        formula="output tokens ÷ (last token of all − first planned arrival)",
        plain="The same with the start and the draining at the end, whose length depends on the slowest request.",
        better="higher",
    ),
    Definition(
        key="steady_throughput_requests_per_s",
        name="requests completed",
        unit="req/s",
        formula="requests whose last token was made in the steady window ÷ its length",
        plain="How many answers were finished per second. Below the dotted line, requests arrive faster.",
        better="higher",
    ),
    Definition(
        key="throughput_requests_per_s",
        name="requests completed to the last completion",
        unit="req/s",
        formula="finished requests ÷ (last token of all − first planned arrival)",
        plain="The same with the start and the draining at the end.",
        better="higher",
    ),
    Definition(
        key="offered_rate",
        name="offered rate",
        unit="req/s",
        formula="(N − 1) ÷ (last − first planned arrival)",
        plain="How fast requests were to arrive.",
        better="higher",
    ),
    Definition(
        key="achieved_rate",
        name="achieved rate",
        unit="req/s",
        formula="(N − 1) ÷ (last − first time sent)",
        plain="How fast they were sent.",
        better="higher",
    ),
    Definition(
        key="goodput_share",
        name="share within the SLO",
        unit="ratio",
        formula="requests that finished within every limit ÷ requests offered, in the steady window",
        plain="What failed, was rejected or was cut off is offered and not within. An answer of one token is judged on "
        "TTFT and E2E.",
        better="higher",
    ),
    Definition(
        key="goodput_requests_per_s",
        name="goodput",
        unit="req/s",
        formula="share within the SLO × rate offered in the steady window",
        plain="How many requests per second were served well enough.",
        better="higher",
    ),
    Definition(
        key="goodput_tokens_per_s",
        name="goodput in tokens",
        unit="tokens/s",
        formula="their output tokens ÷ requests offered × rate offered in the steady window",
        plain="How much text of answers within the SLO was made per second. Whole answers to what was to begin in the steady "
        "window, wherever they end; throughput is what was made in the window, so goodput may be a little more.",
        better="higher",
    ),
    Definition(
        key="batch_size_mean",
        name="mean batch size",
        unit="",
        formula="Σ batch sizes ÷ batches",
        plain="Requests released together; for continuous batching, requests resident in an engine step.",
        better="higher",
    ),
    Definition(
        key="padding_waste",
        name="padding waste",
        unit="ratio",
        formula="1 − Σ prompt tokens ÷ Σ (batch size · longest prompt)",
        plain="Share of prompt slots that hold nothing.",
    ),
    Definition(
        key="lockstep_waste",
        name="lockstep waste",
        unit="ratio",
        formula="1 − Σ output tokens ÷ Σ (batch size · longest output)",
        plain="Share of slots times steps that are held after their row has ended.",
    ),
    Definition(
        key="bandwidth_utilisation",
        name="bandwidth utilisation",
        unit="ratio",
        formula="Σ (weight bytes + KV bytes read) ÷ (Σ step time × device bandwidth), over steps that only decode",
        plain="How near decoding is to what the device's memory can deliver, by its data sheet; none where a part is not "
        "known. Simulated by a data sheet it is 1 wherever memory, and not computing, bounds a step.",
        better="higher",
    ),
    Definition(
        key="cost_per_million_tokens",
        name="cost per million output tokens",
        unit="",
        formula="price of a GPU hour × GPUs of the lane ÷ 3600 ÷ throughput × 10⁶",
        plain="What a million output tokens cost on a server that goes on as it did in the steady window, without loading it; "
        "in the currency of the config. Null without price_per_gpu_hour.",
    ),
    Definition(
        key="backlog_slope",
        name="backlog slope",
        unit="ratio",
        formula="least squares of (planned − finished) at each arrival, per arrival",
        plain="Requests left behind per arrival: how much faster they come than they are served.",
    ),
    Definition(
        key="steady_start_s",
        name="steady window",
        unit="s",
        formula="from the largest MSER-5 cut on TTFT of all strategies of the rate and repeat, to the last arrival",
        plain="What percentiles are taken over: requests planned in it. MSER-5 cuts off the warm-up: in means of 5 values, "
        "so many first ones that the mean of the rest has the least standard error.",
    ),
    Definition(
        key="requests_in_system",
        name="in system",
        unit="requests",
        formula="L = ∫N dt ÷ T = λ · W, with λ = n ÷ T and W the mean time in the system (Little's law)",
        plain="Mean number of requests that were waiting or served, from the first arrival until nothing was left.",
    ),
    Definition(
        key="steady_requests",
        name="requests in the steady window",
        unit="requests",
        formula="requests planned from the beginning of the steady window to the last arrival",
        plain="How many a percentile is taken over at most.",
        better="higher",
    ),
    Definition(
        key="little_error",
        name="error of Little's law",
        unit="ratio",
        formula="|L ÷ (λ · W) − 1|",
        plain="0 but for rounding, or a stamp is wrong.",
    ),
    Definition(
        key="identity_error",
        name="error of E2E",
        unit="ratio",
        formula="largest |TTFT + (output tokens − 1) · TPOT − E2E| ÷ max(1 s, E2E) of any request",
        plain="0 but for rounding, or a stamp is wrong.",
    ),
    Definition(
        key="miscounted_requests",
        name="miscounted requests",
        unit="requests",
        formula="requests with more or fewer token times than output tokens",
        plain="0, or an engine lost or invented tokens.",
    ),
    Definition(
        key="kv_use_mean",
        name="KV cache in use",
        unit="ratio",
        formula="blocks in use ÷ all blocks, mean over engine steps",
        plain="How full the KV cache was.",
    ),
    Definition(
        key="kv_use_peak",
        name="peak of the KV cache in use",
        unit="ratio",
        formula="blocks in use ÷ all blocks, the largest of any engine step",
        plain="How full the KV cache was at its fullest.",
    ),
    Definition(
        key="kv_preemptions",
        name="preemptions",
        unit="requests",
        formula="sequences that were put off for want of blocks, summed over engine steps",
        plain="How often work was thrown away or moved because the KV cache was full.",
    ),
)
_OF_GAPS = (
    Definition(
        key="itl_max_s",
        name="largest ITL of a request",
        unit="s",
        formula="the largest of a token − the one before it, of one request",
        plain="The longest that an answer stood still.",
    ),
    Definition(
        key="itl_p99_s",
        name="ITL p99 of a request",
        unit="s",
        formula="the 99th percentile of a token − the one before it, of one request",
        plain="How long an answer stands still, but for the worst hundredth of its gaps.",
    ),
)

DEFINITIONS: Mapping[str, Definition] = {
    **{one.key: one for one in (*_OF_TRIALS, *_OF_GAPS)},
    **{one.key: replace(one, has_percentiles=True) for one in _OF_REQUESTS},
}

RULES: Mapping[str, str] = {  # when a trial has a verdict; results/verdicts.py and results/drift.py judge so
    "overloaded": "backlog at each arrival: slope per arrival > max(0.02, 2 ÷ √n) and the means of its quarters rise, or over "
    "a quarter of the requests and two full batches left at the last arrival",
    "too-short": "fewer than 200 arrivals or 10 batches",
    "not-stationary": "the cut that ends the warm-up of TTFT (MSER-5, at steady window) reaches half of the arrivals",
    "unfinished": "some requests were running at the drain limit after the last arrival",
    "client-bound": "p99 of the dispatch lag > max(10 ms, 1 % of mean E2E)",
    "clock-vague": "clock uncertainty or drift > 5 % of p50 TTFT",
    "failures": "some requests failed or were rejected",
    "drifted": "|step probe ÷ median of the lane − 1| > 5 %",
    "shared-gpu": "another process was on the GPU when the trial began or ended",
    "cap-fell": "a batch of naive ran out of memory, which lowered the cap",
    "replica-changed": "replica or engine at the end is not the one of the beginning, or is dead",
}
