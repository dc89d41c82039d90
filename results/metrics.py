"""What is measured on each request, and over a trial; all times in seconds from the *planned* arrival.

Counting from the planned arrival, not from when the client got round to it, keeps a late client from
flattering a slow server (coordinated omission). A metric that does not exist is null, never 0.

    queue_wait_s    scheduled − planned
    ttft_s          first_token − planned                     time to first token
    tpot_s          (last_token − first_token) ÷ (n_out − 1)  time per output token; null if n_out < 2
    e2e_s           last_token − planned                      = ttft_s + (n_out − 1)·tpot_s
    held_s          returned − last_token                     finished, but kept by its batch
    delivered_s     returned − planned                        = e2e_s + held_s
    dispatch_lag_s  sent − planned
    transport_s     (received − sent) − (returned − arrived)
    itl_max_s, itl_p99_s   over the gaps between the request's consecutive tokens

Each exists for any row that has the stamps in its formula. Percentiles of a trial are taken over
the requests planned in its steady window (results/windows.py), of which over *finished* ones alone (`finished`): a failed or cut-off request has no end to measure, and is counted
in the verdicts instead. Dispatch lag is taken over all requests that were sent.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from results.percentiles import between
from results.records import COMPUTED
from results.token_steps import Steps, TokenRuns, in_steps

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

REQUEST_METRICS = COMPUTED
CENSORED = ("queue_wait_s", "ttft_s", "e2e_s", "delivered_s")  # known to be late where they were cut off
UNSEEN = 1e300  # seconds: beyond anything that was seen
STATISTICS: Mapping[str, float] = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}


def with_metrics(requests: pa.Table, batches: pa.Table | None = None) -> pa.Table:
    """Give request rows (schema REQUESTS) with the metrics above as float64 columns; null where none.

    `batches`: the rows of the same trial that say when steps ended, where token times are steps.
    """
    planned, first, last = (column(requests, name) for name in ("planned_s", "first_token_s", "last_token_s"))
    sent, received = column(requests, "sent_s"), column(requests, "received_s")
    arrived, returned = column(requests, "arrived_s"), column(requests, "returned_s")
    count = column(requests, "output_tokens")
    added = {
        "queue_wait_s": column(requests, "scheduled_s") - planned,
        "ttft_s": first - planned,
        "tpot_s": np.where(count >= 2, (last - first) / np.maximum(count - 1, 1), np.nan),
        "e2e_s": last - planned,
        "held_s": returned - last,
        "delivered_s": returned - planned,
        "dispatch_lag_s": sent - planned,
        "transport_s": (received - sent) - (returned - arrived),
        **_largest_gaps(requests, batches),
    }
    for name, values in added.items():
        requests = requests.append_column(name, pa.array(values, pa.float64(), from_pandas=True))
    return requests


def column(table: pa.Table, name: str) -> Array:
    """Give a numeric column as float64, NaN for null."""
    values = table.column(name).cast(pa.float64()).combine_chunks()
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def finished(requests: pa.Table) -> pa.Table:
    """Give the rows that enter latency percentiles."""
    return requests.filter(pc.equal(requests.column("status"), "finished"))


def gaps_s(requests: pa.Table) -> Array:
    """Pool the gaps between consecutive tokens (inter-token latency, ITL) of all rows; may be empty."""
    stamps, owner = token_stamps(requests)
    gaps: Array = np.diff(stamps)[np.diff(owner) == 0]
    return gaps


def _counted_gaps(requests: pa.Table, batches: pa.Table | None) -> tuple[Array, Counts | None]:
    """The same, and how many of each there are; None: one."""
    if batches is None or not in_steps(requests):
        return gaps_s(requests), None
    return TokenRuns.of_rows(requests).gaps(Steps.of_rows(batches))


def _largest_gaps(requests: pa.Table, batches: pa.Table | None) -> dict[str, Array]:
    """Per request, over its own gaps: the largest, and the p99 with numpy's linear interpolation."""
    if batches is not None and in_steps(requests):
        steps = Steps.of_rows(batches)
        found = TokenRuns.of_rows(requests).largest_gaps(steps, requests.num_rows)
        return dict(zip(("itl_max_s", "itl_p99_s"), found, strict=True))
    stamps, owner = token_stamps(requests)
    same = np.diff(owner) == 0
    gaps, owner = np.diff(stamps)[same], owner[1:][same]
    gaps = gaps[np.lexsort((gaps, owner))]
    count = np.bincount(owner, minlength=requests.num_rows)
    has, first = count > 0, np.cumsum(count) - count
    largest, p99 = np.full(requests.num_rows, np.nan), np.full(requests.num_rows, np.nan)
    largest[has] = gaps[(first + count - 1)[has]]
    place = 0.99 * (count[has] - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, count[has] - 1)
    low, high = gaps[first[has] + below], gaps[first[has] + above]
    p99[has] = between(low, high, place - below)
    return {"itl_max_s": largest, "itl_p99_s": p99}


def token_stamps(requests: pa.Table) -> tuple[Array, npt.NDArray[np.int64]]:
    """Flatten `token_s`: all stamps, and the row that each belongs to."""
    lists = requests.column("token_s").combine_chunks()
    stamps = np.asarray(pc.list_flatten(lists).to_numpy(zero_copy_only=False), dtype=np.float64)
    owner = np.asarray(pc.list_parent_indices(lists).to_numpy(zero_copy_only=False), dtype=np.int64)
    return stamps, owner


def statistics_of(values: Array, counts: Counts | None = None) -> dict[str, float | None]:
    """Give p50, p90, p95, p99 (exact, linear interpolation as numpy's), mean, and count of what exists.

    NaN means that the value does not exist: without any, all but the count (0) are None. Infinity means
    that it exists and was not seen, because the request was cut off: it counts, and a statistic that
    depends on it is None. `counts`: how often each value (then none is NaN) is there.
    """
    if counts is not None:
        return _statistics_of_counted(values, counts)
    values = values[~np.isnan(values)]
    if not len(values):
        return {**dict.fromkeys(STATISTICS), "mean": None, "count": 0.0}
    capped = np.minimum(values, UNSEEN)  # numpy interpolates between finite numbers only
    percentiles = np.percentile(capped, list(STATISTICS.values()))
    return {
        **dict(zip(STATISTICS, map(_known, percentiles), strict=True)),
        "mean": _known(capped.mean()),
        "count": float(len(values)),
    }


def _statistics_of_counted(values: Array, counts: Counts) -> dict[str, float | None]:
    """What there would be of the values written out."""
    order = np.argsort(values)
    values, ranks = values[order], np.cumsum(counts[order])
    total = int(ranks[-1]) if len(ranks) else 0
    if not total:
        return {**dict.fromkeys(STATISTICS), "mean": None, "count": 0.0}
    places = np.array(list(STATISTICS.values())) / 100 * (total - 1)
    below = np.floor(places).astype(np.int64)
    low = values[np.searchsorted(ranks, below, "right")]
    high = values[np.searchsorted(ranks, np.minimum(below + 1, total - 1), "right")]
    percentiles = between(low, high, places - below)
    return {
        **dict(zip(STATISTICS, map(float, percentiles), strict=True)),
        "mean": float(values @ counts[order]) / total,
        "count": float(total),
    }


def _known(value: float) -> float | None:
    return float(value) if value < UNSEEN / 1e9 else None  # however little of it went into a mean


def request_statistics(measured: pa.Table, batches: pa.Table | None = None) -> dict[str, float | None]:
    """Give `<metric>_<statistic>` for every metric (rows as `with_metrics` gives them), and for `itl_s`.

    `batches` as there.
    """
    ended = finished(measured)
    values = {name: column(ended, name) for name in REQUEST_METRICS}
    values |= {name: _censored(measured, name) for name in CENSORED}
    values["dispatch_lag_s"] = column(measured, "dispatch_lag_s")
    found = {metric: statistics_of(of_metric) for metric, of_metric in values.items()}
    found["itl_s"] = statistics_of(*_counted_gaps(ended, batches))
    return {
        f"{metric}_{statistic}": value
        for metric, of_metric in found.items()
        for statistic, value in of_metric.items()
    }


def _censored(measured: pa.Table, name: str) -> Array:
    """Values of finished and unfinished requests; what an unfinished one never reached is infinite.

    A wait or first token that it did reach counts as it is; its end is later than anything that was seen.
    """
    rows = measured.filter(pc.is_in(measured.column("status"), pa.array(["finished", "unfinished"])))
    values = column(rows, name).copy()
    unfinished = pc.equal(rows.column("status"), "unfinished").to_numpy(zero_copy_only=False)
    if name in ("e2e_s", "delivered_s"):
        values[unfinished] = np.inf
    values[unfinished & np.isnan(values)] = np.inf
    return values


def throughput(requests: pa.Table) -> dict[str, float | None]:
    """Give output tokens/s and finished requests/s over first planned arrival → last completion.

    Tokens of requests that did not finish count too, by their own stamps: the server made them. The last
    completion is the last token of any request; None if there was none.
    """
    planned = column(requests, "planned_s")
    last = column(requests, "last_token_s")
    if np.isnan(last).all():
        return {"throughput_tokens_per_s": None, "throughput_requests_per_s": None}
    span_s = float(np.nanmax(last) - planned.min())
    if span_s <= 0:
        return {"throughput_tokens_per_s": None, "throughput_requests_per_s": None}
    return {
        "throughput_tokens_per_s": float(column(requests, "output_tokens").sum()) / span_s,
        "throughput_requests_per_s": finished(requests).num_rows / span_s,
    }


def arrival_rates(requests: pa.Table) -> dict[str, float | None]:
    """Give the offered (planned) and achieved (sent) rate, (N−1) ÷ (last − first), requests/s.

    None with fewer than two arrivals at different times.
    """
    return {
        "offered_rate": _rate(column(requests, "planned_s")),
        "achieved_rate": _rate(column(requests, "sent_s")),
    }


def _rate(times: Array) -> float | None:
    times = times[~np.isnan(times)]
    if len(times) < 2 or times.max() == times.min():
        return None
    return float((len(times) - 1) / (times.max() - times.min()))
