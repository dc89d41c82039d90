"""Batch sizes and why batches were launched, for each series at one arrival rate."""

from collections.abc import Sequence

from results.findings import CellSummary, Findings
from results.report import amounts, numbers, theme
from results.report.amounts import Cell, Value
from results.report.batch_charts import sizes_chart, triggers_chart
from results.report.batch_counts import TRIGGERS, mean_of, shares_of, sizes_of, triggers_of
from results.report.curve_parts import rate_control
from results.report.panel import Absent, Mark, Panel, Table, View
from results.report.series import Series, main_place, rates_of, series_of

_HEADING = "Batch sizes and what released them"
_CACHE = ("KV cache, mean", "KV cache, peak", "preemptions", "recomputed tokens", "swapped")


def panel(findings: Findings) -> Panel | Absent:
    """One view for each arrival rate, the highest first."""
    series = [one for one in series_of(findings) if any(sizes_of(cell) for cell in one.cells)]
    if not series:
        return Absent(name="batches", heading=_HEADING, reason="No batch has been launched yet.")
    rates = [rate for rate in reversed(rates_of(series)) if any(sizes_of(one.at(rate)) for one in series)]
    views = {
        str(position): _view([one for one in series if one.at(rate)], rate)
        for position, rate in enumerate(rates)  # not by the rate as text: near ones read the same
    }
    return Panel(
        name="batches",
        controls=(rate_control(rates),),
        views=views,
        table=_table(series),
        notes=(
            "Naive and dynamic release batches; with continuous batching a dot is the requests resident in an "
            "engine step. Shares and counts are of all repeats together, the mean is that over the repeats. Triggers: "
            + "; ".join(f"{name}: {why}" for name, why in TRIGGERS.items())
            + ".",
            (
                "In the table: KV cache in use as a share of its blocks, over the steps of an engine that tells; preemptions, "
                "tokens computed again and bytes moved to the host and back are sums over the repeats."
            ),
        ),
    )


_NAMED = 4  # settings in a heading


def _view(series: Sequence[Series], rate: float) -> View:
    place = main_place(series)
    means = [
        f"{numbers.number(mean)} with {one.setting}"
        for one in series
        if one.place == place and (mean := mean_of(one.at(rate))) is not None
    ]
    heading = (
        f"At {numbers.rate(rate)} on {place} the mean batch is {', '.join(means[:_NAMED])}"
        f"{f' and {len(means) - _NAMED} more' if len(means) > _NAMED else ''}{_by_memory(series, rate)}"
        if means
        else _HEADING
    )
    return View(heading=heading, charts=(sizes_chart(series, rate, heading), triggers_chart(series, rate)))


def _by_memory(series: Sequence[Series], rate: float) -> str:
    """Say of whose batches memory launched most; nothing where it launched none."""
    shares = {one.name: shares_of(triggers_of(one.at(rate))).get("memory", 0.0) for one in series}
    name, share = max(shares.items(), key=lambda item: item[1])
    return f"; memory launched {100 * share:.0f} % with {name}" if share else ""


def _table(series: Sequence[Series]) -> Table:
    cached = any(cell.trials and _has_cache(cell) for one in series for cell in one.cells)
    used = {name for one in series for cell in one.cells for name in triggers_of(cell)}
    launched = [name for name in theme.TRIGGERS if name in used]
    rows = []
    for one in series:
        for cell in one.cells:
            sizes, triggers = sizes_of(cell), triggers_of(cell)
            rows.append(
                (
                    one.setting,
                    one.place,
                    amounts.rate(cell.rate),
                    amounts.count(sizes.total()),
                    amounts.number(mean_of(cell)),
                    *(amounts.count(end(sizes) if sizes else None) for end in (min, max)),
                    *(amounts.count(triggers[name] if triggers else None) for name in launched),
                    *(amounts.share(cell.mean(name)) for name in ("padding_waste", "lockstep_waste")),
                    *(_cache(cell) if cached else ()),
                )
            )
    columns = (
        "strategy",
        "backend",
        "rate",
        "batches or steps",
        "mean batch size",
        "smallest",
        "largest",
        *(f"by {name}" for name in launched),
        "padding waste",
        "lockstep waste",
        *(_CACHE if cached else ()),
    )
    marks = tuple(Mark(series=(one.key,), rate=cell.rate) for one in series for cell in one.cells)
    return Table(columns=columns, rows=tuple(rows), marks=marks)


def _has_cache(cell: CellSummary) -> bool:
    return any(trial.metrics.get("kv_use_peak") is not None for trial in cell.trials)


def _cache(cell: CellSummary) -> tuple[Cell, ...]:
    """Give what `_CACHE` names: shares of the pool, and sums over the repeats."""
    if not _has_cache(cell):
        return (Value(text=numbers.NOTHING, number=None),) * len(_CACHE)
    peak = max(trial.metrics.get("kv_use_peak") or 0.0 for trial in cell.trials)
    preemptions = [n for trial in cell.trials if (n := trial.metrics.get("kv_preemptions")) is not None]
    counted = [trial.trial.counters for trial in cell.trials if trial.trial.counters]
    sums = [
        sum(one.get(name, 0) for one in counted) if counted else None
        for name in ("recomputed_tokens", "swapped_bytes")
    ]
    return (
        amounts.share(cell.mean("kv_use_mean")),
        amounts.share(peak),
        amounts.count(round(sum(preemptions)) if preemptions else None),
        amounts.count(sums[0]),
        amounts.size(sums[1]),
    )
