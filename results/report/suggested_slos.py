"""Service levels to begin with where none is configured: limits that tell the settings of the sweep apart.

Of round limits of TTFT, of TTFT with TPOT, and of E2E those are taken within which the settings keep up to the most
different rates, and of such the ones that nearest half of them keep at some rate. A limit that nobody keeps is not suggested, nor one
that says the same as an earlier one.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from results.goodput import Slo, highest_s
from results.report.series import Series
from results.report.within import is_within
from results.served import Served, least_e2e

_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
Kept: TypeAlias = tuple[float | None, ...]  # by series: the largest rate at which it keeps a level


def suggested(series: Sequence[Series]) -> tuple[Slo, ...]:
    """Give at most three, none where no setting keeps any."""
    found: dict[Kept, Slo] = {}
    ttft = _best(series, [Slo(ttft_ms=one) for one in _limits(series, "ttft_s")])
    tpots = _limits(series, "tpot_s")
    both = _best(series, [Slo(ttft_ms=ttft[1].ttft_ms, tpot_ms=one) for one in tpots]) if ttft else None
    e2e = _best(series, [Slo(e2e_ms=one) for one in _limits(series, "e2e_s")])
    for one in (both, ttft, e2e):
        if one is not None:
            found.setdefault(*one)
    return tuple(found.values())


def _best(series: Sequence[Series], among: Iterable[Slo]) -> tuple[Kept, Slo] | None:
    """Give the level that tells most settings apart, with who keeps it up to which rate; None if nobody keeps one."""
    kept = [(tuple(_largest(one, slo) for one in series), slo) for slo in among]
    kept = [one for one in kept if any(rate is not None for rate in one[0])]

    def told(one: tuple[Kept, Slo]) -> tuple[int, float]:
        keepers = sum(rate is not None for rate in one[0])
        return len(set(one[0])), -abs(keepers - len(series) / 2)

    return max(kept, key=told, default=None)


def _limits(series: Sequence[Series], metric: str) -> list[float]:
    """Give the round limits (ms) from the least median to the greatest p99 of what is not overloaded."""
    cells = [cell for one in series for cell in one.cells if not cell.overloaded]
    ends = [[cell.mean(f"{metric}_{of}") for cell in cells] for of in ("p50", "p99")]
    low, high = ([1000 * one for one in end if one is not None and one > 0] for end in ends)
    if not low or not high:
        return []
    powers = range(int(np.floor(np.log10(min(low)))), int(np.ceil(np.log10(max(high)))) + 1)
    limits = [float(f"{step * 10.0**power:.2g}") for power in powers for step in _ROUND]
    return [one for one in limits if min(low) <= one <= 2 * max(high)]


def _largest(one: Series, slo: Slo) -> float | None:
    """The largest rate at which the requests of each repeat on average keep it, as the page counts them."""
    kept = []
    for cell in one.cells:
        shares = [None if trial.served is None else _share(trial.served, slo) for trial in cell.trials]
        known = [share for share in shares if share is not None]
        if len(known) == len(cell.trials) and is_within(sum(known) / len(known)):
            kept.append(cell.rate)
    return max(kept, default=None)


def _share(of: Served, slo: Slo) -> float | None:
    if not of.offered or any(key in of.unknown for key in slo.limits):
        return None
    ttft, tpot, tokens = (np.frombuffer(one, "<u4") for one in (of.ttft, of.tpot, of.tokens))
    met = np.ones(len(tokens), dtype=bool)
    for codes, unit_s, limit_ms in ((ttft, of.units_s[0], slo.ttft_ms), (tpot, of.units_s[1], slo.tpot_ms)):
        if limit_ms is not None:
            met &= codes <= np.floor(limit_ms / 1000 / unit_s + 0.5)
    if slo.e2e_ms is not None:
        met &= least_e2e(ttft, tpot, tokens, *of.units_s[:2]) <= highest_s(slo.e2e_ms)
    return float(met.sum()) / of.offered
