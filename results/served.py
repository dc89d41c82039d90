"""What goodput at any SLO needs of one trial, small: of each request that finished, three times and its tokens.

Times are whole numbers of a unit, a power of two of seconds chosen for each column so that almost no two requests with
different values share one. E2E is not kept: it is TTFT + (tokens − 1) · TPOT. A limit is rounded as the values are, so
that a value that many requests share is on the right side of a limit equal to it. For the SLOs that the sweep was
configured with nothing is lost: values are moved by a unit, and E2E is kept as it is, wherever rounding would change
what meets them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from results.goodput import LIMITS, OF_TOKENS, Slo, highest_s
from results.metrics import Array, arrival_rates, column

Codes = npt.NDArray[np.uint32]

_KEPT = ("ttft_ms", "tpot_ms", "itl_ms")
FINEST_S = 2.0**-30
_PARTS = 2**20  # into which the bulk of the values is divided at least
_ALIKE = 5_000  # of so many requests one may share its unit with another value


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Requests of a trial's steady window, those that finished by TTFT; each column is bytes of uint32.

    `units_s`: seconds in a unit of `ttft`, `tpot` and `itl`. `exact_e2e`: (position, seconds) where E2E as made from
    the others is on the wrong side of a configured limit. `itl` is empty unless an SLO limits it. `unknown`: limits
    that one of the requests cannot be judged by.
    """

    offered: int
    offered_rate: float | None
    units_s: tuple[float, float, float]
    ttft: bytes
    tpot: bytes
    itl: bytes
    tokens: bytes
    exact_e2e: tuple[tuple[int, float], ...] = ()
    unknown: tuple[str, ...] = ()


def served(steady: pa.Table, slos: Sequence[Slo]) -> Served:
    """Pack the rows (with metrics) of the requests planned in the steady window."""
    finished = steady.filter(pc.equal(steady.column("status"), "finished"))
    tokens = np.nan_to_num(column(finished, "output_tokens")).astype(np.uint32)
    judged = {key: (tokens >= 2) | (key not in OF_TOKENS) for key in LIMITS}
    times = {key: np.where(judged[key], column(finished, metric), 0.0) for key, (metric, _) in LIMITS.items()}
    limits_ms = {key: [slo.limits[key] for slo in slos if key in slo.limits] for key in LIMITS}
    units = {key: _unit(times[key][judged[key]]) for key in _KEPT}
    codes = {key: _codes(times[key], units[key], limits_ms[key]) for key in _KEPT}
    order = np.lexsort((tokens, codes["tpot_ms"], codes["ttft_ms"]))
    tokens, e2e_s = tokens[order], times["e2e_ms"][order]
    codes = {key: values[order] for key, values in codes.items()}
    least_s = least_e2e(codes["ttft_ms"], codes["tpot_ms"], tokens, units["ttft_ms"], units["tpot_ms"])
    wrong = np.flatnonzero(_differ(e2e_s, least_s, limits_ms["e2e_ms"]))
    return Served(
        offered=steady.num_rows,
        offered_rate=arrival_rates(steady)["offered_rate"] if steady.num_rows else None,
        units_s=(units["ttft_ms"], units["tpot_ms"], units["itl_ms"]),
        ttft=_bytes(codes["ttft_ms"]),
        tpot=_bytes(codes["tpot_ms"]),
        itl=_bytes(codes["itl_ms"]) if limits_ms["itl_ms"] else b"",
        tokens=_bytes(tokens),
        exact_e2e=tuple((int(at), float(e2e_s[at])) for at in wrong),
        unknown=tuple(key for key, values in times.items() if np.isnan(values).any()),
    )


def least_e2e(ttft: Codes, tpot: Codes, tokens: Codes, ttft_unit_s: float, tpot_unit_s: float) -> Array:
    """The least E2E (s) that these may stand for; compared with a limit as it is.

    Units are powers of two, so that a script that does the same has the same numbers.
    """
    gaps = np.maximum(tokens.astype(np.float64) - 1, 0)
    least: Array = np.maximum(ttft - 0.5, 0) * ttft_unit_s + gaps * (np.maximum(tpot - 0.5, 0) * tpot_unit_s)
    return least


def _differ(values_s: Array, kept_s: Array, limits_ms: Sequence[float]) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(values_s), dtype=bool)
    for limit_s in map(highest_s, limits_ms):
        found |= (values_s <= limit_s) != (kept_s <= limit_s)
    return found


def _codes(values_s: Array, unit_s: float, limits_ms: Sequence[float]) -> Codes:
    """Whole units, on the right side of each limit; 0 for what is not known."""
    codes = np.floor(np.maximum(np.nan_to_num(values_s), 0) / unit_s + 0.5)
    for limit_ms in sorted(limits_ms):
        limit = np.floor(limit_ms / 1000 / unit_s + 0.5)
        within = values_s <= highest_s(limit_ms)
        codes = np.where(within, np.minimum(codes, limit), np.maximum(codes, limit + 1))
    return codes.astype(np.uint32)


def _unit(values_s: Array) -> float:
    """The largest power of two of seconds that keeps different values apart, but for a few."""
    values_s = np.sort(np.maximum(values_s[~np.isnan(values_s)], 0))
    if not len(values_s):
        return FINEST_S
    finest = max(FINEST_S, _power(values_s[-1] / 2**30))
    low, high = np.percentile(values_s, [5, 95])
    unit_s = max(finest, _power((high - low) / _PARTS))
    distinct = np.floor(values_s / finest + 0.5)
    while unit_s > finest and _crowd(np.floor(values_s / unit_s + 0.5), distinct) > max(
        1, len(values_s) // _ALIKE
    ):
        unit_s /= 2
    return unit_s


def _crowd(codes: Array, distinct: Array) -> int:
    """The most requests, of several values, in one unit, beside those of its most common value; both sorted."""
    runs = np.flatnonzero(np.diff(distinct, prepend=-1))  # where values begin
    counts = np.diff(runs, append=len(distinct))
    units = np.flatnonzero(np.diff(codes[runs], prepend=-1))  # where units begin, among the values
    return int((np.add.reduceat(counts, units) - np.maximum.reduceat(counts, units)).max())


def _power(seconds: float) -> float:
    return float(2.0 ** np.floor(np.log2(seconds))) if seconds > 0 else 0.0


def _bytes(values: Codes) -> bytes:
    return values.astype("<u4").tobytes()
