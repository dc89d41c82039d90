"""The largest rate at which a setting kept an SLO: at least 99 % of the offered requests, and not overloaded."""

from collections.abc import Sequence
from dataclasses import dataclass

from results.goodput import Slo
from results.report import numbers
from results.report.series import Series

WITHIN = 0.99
"""Of the offered requests: the mean over repeats of their share that met the SLO."""
SHARE = f"{100 * WITHIN:g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """What each setting serves within one SLO: the share of what is offered, at each rate."""

    slo: str
    columns: tuple[str, ...]
    rates: tuple[float | None, ...]  # that each column is of, where it is of one
    rows: tuple[tuple[Series, tuple[str, ...]], ...]


def is_within(share: float | None) -> bool:
    """Whether so large a share of the offered requests keeps an SLO; a billionth less is rounding."""
    return share is not None and share >= WITHIN - 1e-9


def largest_within(one: Series, slo: Slo) -> float | None:
    """Give that rate (req/s); None if there is none. Naive may keep an SLO in a band alone: it waits where few arrive."""
    kept = [
        cell.rate
        for cell in one.cells
        if not cell.overloaded and is_within(cell.mean(slo.of("goodput_share")))
    ]
    return max(kept, default=None)


def goodput(slo: Slo, series: Sequence[Series], rates: Sequence[float]) -> Goodput:
    """Give the table of one SLO; `rates` are its last columns."""
    rows = []
    for one in series:
        shares = [None if cell is None else cell.mean(slo.of("goodput_share")) for cell in map(one.at, rates)]
        served = [
            value for cell in one.cells if (value := cell.mean(slo.of("goodput_requests_per_s"))) is not None
        ]
        largest = largest_within(one, slo)
        rows.append(
            (
                one,
                (
                    "at none" if largest is None else numbers.rate(largest),
                    numbers.rate(max(served)) if served else numbers.NOTHING,
                    *map(numbers.share, shares),
                ),
            )
        )
    columns = (
        "strategy",
        f"largest rate for {SHARE}",
        "highest goodput",
        *(f"share within the SLO at {numbers.rate(rate)}" for rate in rates),
    )
    return Goodput(slo=slo.text, columns=columns, rates=(None, None, None, *rates), rows=tuple(rows))
