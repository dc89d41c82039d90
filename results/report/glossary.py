"""How the page names and explains numbers and verdicts; formulas are those of results/definitions.py."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache

from results.definitions import DEFINITIONS, RULES, Definition
from results.goodput import MEASURES, Slo, parse
from results.report import numbers


class Metric(Definition):
    """A definition that can show a value with its unit."""

    __slots__ = ()

    def text(self, value: float | None) -> str:
        """Give a value with its unit."""
        if self.unit == "s":
            return numbers.duration(value)
        if self.unit == "ratio":
            return numbers.share(value)
        return f"{numbers.number(value)} {self.unit}".strip()


def _metrics(*keys: str) -> tuple[Metric, ...]:
    return tuple(Metric(**asdict(DEFINITIONS[key])) for key in keys)


METRICS: tuple[Metric, ...] = _metrics(
    "steady_throughput_tokens_per_s",
    "throughput_tokens_per_s",
    "steady_throughput_requests_per_s",
    "throughput_requests_per_s",
    "bandwidth_utilisation",
    "ttft_s",
    "e2e_s",
    "delivered_s",
    "queue_wait_s",
    "tpot_s",
    "itl_s",
    "held_s",
)
"""Those that figures draw."""
EXPLAINED: tuple[Metric, ...] = _metrics(*DEFINITIONS)
PERCENTILES: tuple[str, ...] = ("p50", "p90", "p95", "p99")

_MEANINGS: dict[str, str] = {
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
    "drifted": "The machine was more than 5 % slower or faster than in most trials of its lane (one engine, loaded on one device): a change between "
    "this trial and another may be the machine's.",
    "shared-gpu": "Another process computed on the trial's GPU when it began or ended: what was measured is in part that "
    "process's doing.",
    "cap-fell": "A batch of naive ran out of memory, and the ones after it were smaller than N for a while: this is not the "
    "batch size that was asked for.",
    "replica-changed": "The replica or engine was replaced or died in mid-trial: the trial does not count, and is crossed.",
}
VERDICTS: dict[str, str] = {name: f"{meaning} Rule: {RULES[name]}." for name, meaning in _MEANINGS.items()}

MEMORY: dict[str, str] = {
    "allocated": "peak memory that tensors took (weights, KV cache, activations), reset before the trial",
    "kv-cache": "peak use of a KV cache whose pool is reserved at the start; weights not included",
    "resident": "memory of the whole process, on a CPU",
    "none": "not measured",
}


def metric_of(name: str) -> tuple[Metric, str]:
    """Give the metric and its statistic ("" if it has none) for a name such as `ttft_s_p50`."""
    _, at, slo = name.partition("@")
    if at:
        return next(one for one in goodputs([parse(slo)]) if one.key == name), ""
    for metric in EXPLAINED:
        if name == metric.key:
            return metric, ""
        if metric.has_percentiles and name.startswith(f"{metric.key}_"):
            return metric, name.removeprefix(f"{metric.key}_")
    unit = "s" if "_s_" in name or name.endswith("_s") else ""
    return Metric(key=name, name=name, unit=unit, formula="", plain=""), ""  # type: ignore[arg-type]


def label(name: str) -> str:
    """Give a metric's name with its statistic: p50 TTFT."""
    metric, statistic = metric_of(name)
    return f"{statistic} {metric.name}".strip()


def goodputs(slos: Sequence[Slo]) -> tuple[Metric, ...]:
    """Give the metrics of goodput within each of these."""
    return tuple(
        Metric(**asdict(DEFINITIONS[measure]) | {"key": slo.of(measure), "name": _within(measure, slo)})
        for measure in MEASURES
        for slo in slos
    )


def _within(measure: str, slo: Slo) -> str:
    name = DEFINITIONS[measure].name
    return f"share within {slo.text}" if measure == "goodput_share" else f"{name} within {slo.text}"


_COLUMNS = {
    "tokens/s": "steady_throughput_tokens_per_s",
    "E2E": "e2e_s",
    "highest goodput": "goodput_requests_per_s",
    "share within": "goodput_share",
    "L": "requests_in_system",
}
_OTHERS = {
    "knee": "Between the highest rate that the setting kept up with and the lowest that overloaded it.",
    "clock offset": "The replica's clock − the client's, ± half the shortest round trip.",
    "drift": "Clock offset at the end − at the start of the trial.",
    "peak memory": "The most that was in use during the trial, of what its kind counts; kinds are explained below.",
    "step probe": "One request's step time just before the trial.",
    "state": "Overloaded: the backlog grows; its rule stands with the verdicts.",
    "ratio": "exp of the mean over repeats of ln(other ÷ base), both of one repeat.",
    "low": "exp of the lower end of Student's 95 % interval of that mean.",
    "high": "exp of the upper end of Student's 95 % interval of that mean.",
    "lowest cost": "Lower end of Student's 95 % interval of the mean over repeats; none with fewer than three.",
    "highest cost": "Upper end of Student's 95 % interval of the mean over repeats; none with fewer than three.",
    "pairs": "Repeats that both sides have.",
    "a side censored": "A side was overloaded or cut off: its latency describes the drain limit, not the server.",
    "total": "exp of the mean over repeats of ln(to ÷ from), both of one repeat, = policy × engine; and Student's 95 % interval.",
    "policy": "The same with the strategy changed, on the engine arrived at.",
    "engine": "The same with the backend changed, under the strategy begun with.",
    "on the front of": "Latencies by which no other setting of its backend is better in both throughput and that latency.",
    "batches or steps": "Batches that were released, or steps of the engine with continuous batching, of all repeats.",
    "smallest": "Requests in the smallest batch or step.",
    "largest": "Requests in the largest batch or step.",
    "by": "Batches that this trigger released, of all repeats; triggers are explained below the figure.",
    "KV cache": "Blocks in use ÷ all blocks, over the engine's steps.",
    "preemptions": "How often a request was put off because the KV cache had no block left.",
    "recomputed tokens": "Tokens that were computed again for requests that had been put off.",
    "swapped": "Bytes that were moved to the host and back for requests that had been put off.",
    "mean queue length": "∫ requests waiting dt ÷ length of the trial.",
    "most:": "The greatest of it in the trial.",
    "useful": "Slot-steps that made an output token ÷ (slots × passes).",
    "most skipped": "The most younger requests that were launched while one waited.",
    "launched by memory": "Batches that were launched because memory held no more.",
    "their mean size": "Requests in those batches ÷ those batches.",
    "ran out of memory": "Batches that failed because memory did not suffice.",
    "lowest cap": "The smallest that the largest batch allowed was at any time.",
    "highest cap": "The largest that it was.",
    "wait": "scheduled − planned arrival: until the engine began the request.",
    "prefill": "first token − scheduled: while its prompt is computed.",
    "decode": "last token − first token: while its answer is made.",
    "cut off": "Requests that were still running at the drain limit: offered, and never done.",
    "p10": "What a tenth of the requests took no longer than.",
    "p50": "What half of the requests took no longer than.",
    "p90": "What nine tenths of the requests took no longer than.",
    "p99": "What 99 % of the requests took no longer than.",
}


def formula_of(column: str) -> str:
    """Give the formula of what stands in a column with this heading; "" where there is none.

    A heading is a metric's name, with its percentile before it, or a rate or an end of its interval after it.
    """
    statistic, _, rest = column.partition(" ")
    known = formulas()
    names = (
        (rest, column)
        if statistic in PERCENTILES and rest
        else (column, rest)
        if statistic == "mean"
        else (column,)
    )
    for name in names:
        found = max(
            (one for one in known if f"{name} ".startswith((f"{one} ", f"{one}, "))), key=len, default=""
        )
        if found:
            return known[found]
    return ""


@cache
def formulas() -> Mapping[str, str]:
    """Give what formula and meaning stand for each heading."""
    aliases = {alias: DEFINITIONS[key].said for alias, key in _COLUMNS.items()}
    return {**{one.name: one.said for one in EXPLAINED}, **_OTHERS, **aliases}
