"""Laws that the rows of any trial must obey, whatever was measured; where one is broken, a stamp is wrong.

Little's law, from empty to empty (from the first planned arrival until nothing is left), is exact on any run:

    L = λ·W    with L = ∫N dt ÷ T, N the requests in the system, λ = n ÷ T, W = mean of (end − planned)

and so is, for every answer, E2E = TTFT + (n_out − 1)·TPOT. Where each token has its time, the sum of the gaps
stands for (n_out − 1)·TPOT and the number of times for n_out, which the formula alone would prove of itself.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.metrics import Array, column, finished, token_stamps
from results.token_steps import TokenRuns, in_steps

PRECISION = 1e-9  # relative: what sums of floats leave


def littles_law(requests: pa.Table) -> dict[str, float | None]:
    """Give `requests_in_system` (L, the mean of N) and `little_error`, |L ÷ λW − 1|.

    An answer leaves at its last token, what failed or was cut off when it came back. None if nothing ever
    left, or if it all did at the moment it came.
    """
    planned, left = column(requests, "planned_s"), left_s(requests)
    known = ~np.isnan(left)
    planned, left = planned[known], left[known]
    span_s = float(left.max() - planned.min()) if known.any() else 0.0
    sojourns_s = float((left - planned).sum())
    if span_s <= 0 or sojourns_s <= 0:
        return {"requests_in_system": None, "little_error": None}
    times = np.concatenate([planned, left])
    change = np.concatenate([np.ones(len(planned)), -np.ones(len(left))])
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(change[order])
    area = float((inside[:-1] * np.diff(times[order])).sum())
    return {"requests_in_system": area / span_s, "little_error": abs(area / sojourns_s - 1)}


def left_s(requests: pa.Table) -> Array:
    """When each request left the system, in seconds; NaN where it never came back."""
    came_back = pc.coalesce(*(requests.column(name) for name in ("returned_s", "received_s", "last_token_s")))
    ended = pc.equal(requests.column("status"), "finished")
    left = pc.if_else(ended, requests.column("last_token_s"), came_back)
    return column(pa.table({"s": left}), "s").copy()


def identity(measured: pa.Table) -> dict[str, float | None]:
    """Give `identity_error`, the largest |TTFT + (n_out − 1)·TPOT − E2E| ÷ max(1 s, E2E), and `miscounted_requests`.

    Miscounted: answers with more or fewer token times than tokens. Over finished requests, None if there are
    none; rows as `results.metrics.with_metrics` gives them.
    """
    ended = finished(measured)
    if not ended.num_rows:
        return {"identity_error": None, "miscounted_requests": None}
    count, e2e_s = column(ended, "output_tokens"), column(ended, "e2e_s")
    after_s = np.nan_to_num(column(ended, "tpot_s")) * (count - 1)
    times = count
    if in_steps(ended):
        runs = TokenRuns.of_rows(ended)
        times = np.bincount(runs.owner, runs.end - runs.first, minlength=ended.num_rows).astype(np.float64)
    else:
        stamps, owner = token_stamps(ended)
        if len(stamps):
            stamped = np.bincount(owner, minlength=ended.num_rows)
            gaps = np.bincount(
                owner[1:], np.where(np.diff(owner) == 0, np.diff(stamps), 0), minlength=ended.num_rows
            )
            times, after_s = np.where(stamped > 0, stamped, count), np.where(stamped > 0, gaps, after_s)
    error = np.abs(column(ended, "ttft_s") + after_s - e2e_s) / np.maximum(np.abs(e2e_s), 1.0)
    return {
        "identity_error": float(np.nanmax(error)) if not np.isnan(error).all() else None,
        "miscounted_requests": float((times != count).sum()),
    }
