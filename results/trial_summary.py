"""One trial in numbers: from its rows to `TrialSummary`."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.bandwidth import of_trial
from results.conservation import identity, littles_law
from results.findings import TrialSummary
from results.goodput import Slo, goodput
from results.kv_cache import kv_cache
from results.metrics import arrival_rates, column, request_statistics, throughput
from results.padded_batches import padded_batches
from results.records import Trial
from results.served import served
from results.verdicts import backlog, verdicts
from results.windows import measured_period, planned_in, steady_completions, steady_throughput


def summarise(
    trial: Trial,
    measured: pa.Table,
    batches: pa.Table,
    steady_start_s: float,
    slos: Sequence[Slo] = (),
) -> TrialSummary:
    """Summarise a trial with at least one request row.

    Statistics of requests are of those planned in the steady window; the verdicts judge the whole trial.

    `measured`: its rows as `with_metrics` gives them; `batches`: its batch rows; `steady_start_s`: where
    the steady window of all trials of this rate and repeat begins.
    """
    sized = own_batches(trial, batches)
    sizes = _sizes(sized)
    count = sizes.total()
    _, end_s = measured_period(measured)
    steady = planned_in(measured, steady_start_s, end_s)
    metrics: dict[str, float | None] = {
        **throughput(measured),
        "steady_throughput_tokens_per_s": steady_throughput(measured, steady_start_s, end_s, batches),
        "steady_throughput_requests_per_s": steady_completions(measured, steady_start_s, end_s),
        "steady_start_s": steady_start_s,
        "steady_requests": float(steady.num_rows),
        **arrival_rates(measured),
        "backlog_slope": backlog(measured).slope,
        "batch_size_mean": sum(size * n for size, n in sizes.items()) / count if count else None,
        "padding_waste": _waste(sized, "padding_waste", "prompt_tokens"),
        "lockstep_waste": _waste(sized, "lockstep_waste", "output_tokens"),
        "bandwidth_utilisation": of_trial(trial, measured, batches),
        **kv_cache(batches),
        **request_statistics(steady, batches),
        **goodput(steady, slos),
        **littles_law(measured),
        **identity(measured),
    }
    triggers = Counter(_served(batches).column("trigger").drop_null().to_pylist())
    return TrialSummary(
        trial=trial,
        metrics=metrics,
        verdicts=verdicts(trial, measured, count),
        triggers=dict(sorted(triggers.items())),
        batch_sizes=dict(sorted(sizes.items())),
        padded=padded_batches(trial, measured, batches),
        served=served(steady, slos),
    )


def own_batches(trial: Trial, batches: pa.Table) -> pa.Table:
    """Give the rows that describe the strategy's batches: engine steps for continuous, else releases.

    Releases stand in for steps where the engine reports none. Left out: steps with nobody resident, and
    batches that ran out of memory, whose requests are counted when they run again.
    """
    served = _served(batches)
    steps = served.filter(
        pc.and_(pc.equal(served.column("kind"), "step"), pc.greater(served.column("size"), 0))
    )
    if trial.strategy == "continuous" and steps.num_rows:
        return steps
    return served.filter(pc.equal(served.column("kind"), "batch"))


def _sizes(batches: pa.Table) -> Counter[int]:
    """Batches, or steps, by size; a row of kind step may stand for several."""
    rows, steps = column(batches, "size").astype(np.int64), column(batches, "steps")
    counts = np.bincount(rows, np.where(np.isnan(steps), 1, steps)).astype(np.int64)
    return Counter({int(size): int(counts[size]) for size in np.flatnonzero(counts)})


def _served(batches: pa.Table) -> pa.Table:
    return batches.filter(pc.invert(pc.fill_null(batches.column("out_of_memory"), False)))


def _waste(batches: pa.Table, waste: str, tokens: str) -> float | None:
    """1 − Σ tokens ÷ Σ (B · longest) over the batches that can waste; None if none can."""
    rows = batches.filter(pc.is_valid(batches.column(waste)))
    room = float((column(rows, "size") * column(rows, f"longest_{tokens}")).sum())
    return 1 - float(column(rows, tokens).sum()) / room if room > 0 else None
