"""One row per trial that counts: its settings, how it was run, its metrics and verdicts.

Definitions of the metrics: results/metrics.py. A percentile is null where it does not exist, or lies
beyond what was seen because requests were cut off.
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from results.cost import PER_MILLION
from results.definitions import DEFINITIONS
from results.errors import StoreError, one_line
from results.findings import TrialSummary
from results.metrics import REQUEST_METRICS, STATISTICS
from results.records import SETTINGS, Trial, Unit, WarmUp, always, column

_FACTS: list[pa.Field] = [
    always("knobs", pa.string(), "All knobs of the strategy, as JSON."),
    always("engine", pa.string(), "Engine arguments as resolved, as JSON."),
    always("lane", pa.string(), "The lane that it ran on."),
    always("incarnation", pa.string(), "Replica and engine at its start."),
    column("incarnation_end", pa.string(), "And at its end; another one gives the verdict replica-changed."),
    always("workload_hash", pa.string(), "Of the requests that were sent."),
    always("planned_requests", pa.int32(), "Requests that were to arrive.", unit="requests"),
    always("duration_s", pa.float64(), "Length of the arrivals.", unit="s"),
    always("drain_limit_s", pa.float64(), "How long the last requests were waited for at most.", unit="s"),
    always("cut_off", pa.bool_(), "Whether what was left at the drain limit was aborted."),
    column(
        "min_cap", pa.int32(), "The smallest cap that out-of-memory forced; null without.", unit="requests"
    ),
    always("clock_offset_s", pa.float64(), "The replica's clock less the client's.", unit="s"),
    always("clock_uncertainty_s", pa.float64(), "Half the round trip of the best sample.", unit="s"),
    column("clock_drift_s", pa.float64(), "Offset at the end less offset at the start.", unit="s"),
    column(
        "step_probe_s",
        pa.float64(),
        "Step time of one request, measured just before: the median of several probes.",
        unit="s",
    ),
    column("warm_up_s", pa.float64(), "How long its lane was warmed up after the load.", unit="s"),
    column("warm_up_batches", pa.int32(), "In how many batches."),
    column("warm_up_settled", pa.bool_(), "Whether the step times of the last two agree within 5 %."),
    column("warm_up_step_s", pa.float64(), "Step time of the last of them.", unit="s"),
    column(
        "prefix_cache_share",
        pa.float64(),
        "Share of prompt tokens that came from a prefix cache; null if the engine does not say.",
        unit="ratio",
    ),
    always("gpu_strangers", pa.list_(pa.string()), "Who else computed on its GPU at its start or end."),
    column("memory_bytes", pa.int64(), "Peak memory; compare only rows of one memory_kind.", unit="bytes"),
    always("memory_kind", pa.string(), "What memory_bytes counts: allocated, kv-cache, resident or none."),
    always("started_at", pa.string(), "When it began: ISO 8601, UTC."),
    always("prepare_s", pa.float64(), "Handshake, warm-up and probe, without loading.", unit="s"),
    always("measured_s", pa.float64(), "First planned arrival to last completion.", unit="s"),
    always("total_s", pa.float64(), "The whole trial, without loading.", unit="s"),
    column(
        "lane_held_s",
        pa.float64(),
        "How long it had its lane, with what was loaded for it; null in virtual time, or not recorded.",
        unit="s",
    ),
    column("lane_gpus", pa.int32(), "GPUs of the lane; one without, on processors, counts as one."),
    column("lane_kind", pa.string(), "What GPUs these are."),
    always("setup", pa.string(), "Provenance as JSON: versions, machine, dtype, threads, commit."),
    always(
        "counters",
        pa.string(),
        "What an engine in virtual time counted, as JSON: preemptions, recomputed tokens and the like.",
    ),
]

_UNITS: dict[str, Unit] = {"s": "s", "tokens/s": "tokens/s", "req/s": "requests/s", "ratio": "ratio"}


def _defined(*keys: str) -> list[pa.Field]:
    """Columns of metrics, said as results/definitions.py does."""
    found = [DEFINITIONS[key] for key in keys]
    return [column(one.key, pa.float64(), one.said, unit=_UNITS.get(one.unit, "requests")) for one in found]


_OF_TRIAL: list[pa.Field] = [
    always("verdicts", pa.list_(pa.string()), "What it may not be used for (results/verdicts.py)."),
    *_defined(
        "throughput_tokens_per_s",
        "throughput_requests_per_s",
        "steady_throughput_tokens_per_s",
        "steady_throughput_requests_per_s",
    ),
    column(PER_MILLION, pa.float64(), DEFINITIONS[PER_MILLION].said),
    *_defined("steady_start_s", "steady_requests"),
    *_defined("offered_rate", "achieved_rate"),
    column(
        "goodput",
        pa.string(),
        "By SLO of the config, as JSON: share of offered requests that met it, requests/s and tokens/s of those.",
    ),
    *_defined("requests_in_system", "little_error", "identity_error", "miscounted_requests"),
    *_defined("backlog_slope", "batch_size_mean", "padding_waste", "lockstep_waste", "bandwidth_utilisation"),
    *_defined("kv_use_mean", "kv_use_peak", "kv_preemptions"),
]


def _statistics() -> list[pa.Field]:
    """`<metric>_<statistic>` over the requests planned in the steady window; `itl_s` pools their tokens' gaps."""
    fields = []
    for metric in (*REQUEST_METRICS, "itl_s"):
        name = DEFINITIONS[metric].name
        for statistic in (*STATISTICS, "mean"):
            text = f"{statistic.capitalize()} {name} in the steady window."
            fields.append(column(f"{metric}_{statistic}", pa.float64(), text, unit="s"))
        counted = "gaps (ITL)" if metric == "itl_s" else f"requests that have {name}"
        fields.append(column(f"{metric}_count", pa.float64(), f"How many {counted} there are in it."))
    return fields


TRIALS = pa.schema([*SETTINGS, *_FACTS, *_OF_TRIAL, *_statistics()])


def trial_table(summaries: Sequence[TrialSummary]) -> pa.Table:
    """The trials as a table of schema TRIALS, in the order given. StoreError for a value that is none of its column."""
    try:
        return pa.Table.from_pylist([_row(summary) for summary in summaries], schema=TRIALS)
    except pa.ArrowException as error:
        raise StoreError(
            f"a trial's done.json has a setting that is not of its kind: {one_line(error)}"
        ) from error


def _row(summary: TrialSummary) -> dict[str, Any]:
    trial: Trial = summary.trial
    facts = trial.model_dump(mode="json", exclude={"schema_version", "clock", "warm_up", "lane_time"})
    return {
        **facts,
        **(_warm_up(trial.warm_up) if trial.warm_up else {}),
        **({f"lane_{name}": value for name, value in trial.lane_time} if trial.lane_time else {}),
        **{name: trial.knobs.get(name) for name in ("max_batch_size", "max_wait_ms", "timer")},
        **{
            name: json.dumps(facts[name], sort_keys=True) for name in ("knobs", "engine", "setup", "counters")
        },
        **{f"clock_{name}": value for name, value in trial.clock.model_dump().items()},
        "verdicts": [verdict.name for verdict in summary.verdicts],
        "goodput": _goodput(summary),
        **summary.metrics,
    }


def _warm_up(found: WarmUp) -> dict[str, Any]:
    return {
        "warm_up_s": found.took_s,
        **{f"warm_up_{name}": value for name, value in found.model_dump(exclude={"took_s"}).items()},
    }


def _goodput(summary: TrialSummary) -> str | None:
    found: dict[str, dict[str, float | None]] = {}
    for name, value in summary.metrics.items():
        measure, at, slo = name.partition("@")
        if at:
            found.setdefault(slo, {})[measure.removeprefix("goodput_")] = value
    return json.dumps(found) if found else None
