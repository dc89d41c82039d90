"""How full the KV cache of a trial was, and what its engine put off for want of blocks, from its batch rows.

Shares of the pool are over engine steps, a row counting as often as the steps that it stands for. Preemptions
are counted where the engine tells of them.
"""

import numpy as np
import pyarrow as pa

from results.metrics import column


def kv_cache(batches: pa.Table) -> dict[str, float | None]:
    """`kv_use_mean`, `kv_use_peak` and `kv_preemptions`; None where no step tells of a KV cache."""
    use = column(batches, "kv_use")
    told = ~np.isnan(use)
    if not told.any():
        return {"kv_use_mean": None, "kv_use_peak": None, "kv_preemptions": None}
    steps = np.nan_to_num(column(batches, "steps")[told], nan=1.0)
    put_off = column(batches, "preemptions")[told]
    return {
        "kv_use_mean": float(np.average(use[told], weights=steps)) if steps.sum() else None,
        "kv_use_peak": float(use[told].max()),
        "kv_preemptions": None if np.isnan(put_off).all() else float(np.nansum(put_off)),
    }
