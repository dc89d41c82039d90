"""Some trials request by request: who waited, ran and was held when, in which batch, and in which slot.

The rows of at most 20 trials are put into the page once (results/report/trial_block.py); three figures are drawn from
them: the bars of one trial, and the slots and the distributions of all the chosen trials of one rate, which were sent
the same requests.
"""

from collections.abc import Sequence
from dataclasses import replace

from results.findings import Findings, TrialSummary
from results.metrics import finished
from results.report import amounts, distributions, numbers, slots, trial_bars, trial_block
from results.report.amounts import Cell
from results.report.curve_parts import rate_control
from results.report.packed import Block
from results.report.panel import Absent, Choice, Control, Mark, Panel, Table
from results.report.series import Series, series_of
from results.report.trial_block import PHASES, block, label, means_of
from results.report.trial_rows import StoreOf, TrialRows, each

MOST_TRIALS = 20
_FIGURES = (trial_bars, slots, distributions)
_NONE_YET = "No trial has finished yet."


def panels(findings: Findings, store_of: StoreOf) -> tuple[tuple[Panel | Absent, ...], tuple[Block, ...]]:
    """Give the three panels and the block that they are drawn from."""
    series = series_of(findings)
    made = list(each(chosen_of(series), store_of))
    if not made:
        return tuple(Absent(name=one.NAME, heading=one.HEADING, reason=_NONE_YET) for one in _FIGURES), ()
    total = sum(len(cell.trials) for one in series for cell in one.cells)
    note, table = _which(made, total), _table(made)
    by_rate = list(dict.fromkeys(rows.summary.trial.rate for rows in made))
    rates = rate_control(by_rate)
    busiest = tuple(sorted(rates.choices, key=lambda choice: -by_rate[int(choice.value)]))
    trials = Control(
        name="trial",
        choices=tuple(
            Choice(value=str(n), label=label(rows), mark=_mark(rows)) for n, rows in enumerate(made)
        ),
    )
    drawn = (
        trial_bars.panel(trials, table, note),
        slots.panel(replace(rates, choices=busiest), table, note),
        distributions.panel(rates, table, note),
    )
    return drawn, (block(made, by_rate),)


def chosen_of(series: Sequence[Series]) -> list[tuple[Series, TrialSummary]]:
    """Give at most MOST_TRIALS trials of the first repeat: of a middle rate, the highest and the lowest.

    One setting of each strategy and place at all three comes before the others at any, so that rates can be compared too.
    """
    rates = sorted({cell.rate for one in series for cell in one.cells})
    wanted = list(dict.fromkeys([rates[(len(rates) - 1) // 2], rates[-1], rates[0]] if rates else []))
    firsts = {(one.strategy, one.place): one.key for one in reversed(series)}.values()
    found = [
        (rank, one, min(cell.trials, key=lambda trial: trial.trial.repeat))
        for rank, rate in enumerate(wanted)
        for one in series
        if (cell := one.at(rate)) is not None
    ]
    kept = sorted(found, key=lambda item: item[1].key not in firsts)[:MOST_TRIALS]
    return [item[1:] for item in found if item in kept]


def _which(made: Sequence[TrialRows], total: int) -> str:
    """Say which trials were taken, and how much of them."""
    rates = ", ".join(numbers.rate(rate) for rate in sorted({rows.summary.trial.rate for rows in made}))
    cut = sum(rows.requests.num_rows > trial_block.MOST_REQUESTS for rows in made)
    thinned = (
        f" Of {numbers.count(cut, 'trial')} with more requests the first {trial_block.MOST_REQUESTS:,} are shown."
        if cut
        else ""
    )
    exact = f" Times are kept to {numbers.duration(trial_block.UNIT_S)}, in the CSV too."
    if len(made) == total:
        return f"All {numbers.count(total, 'trial')} can be chosen.{thinned}{exact}"
    return f"{len(made)} of {total} trials are in the page, at most {MOST_TRIALS}: the first repeat at {rates}.{thinned}{exact}"


def _mark(rows: TrialRows) -> Mark:
    return Mark(series=(rows.series.key,), rate=rows.summary.trial.rate)


def _table(made: Sequence[TrialRows]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in made:
        means = means_of(one)
        rows.append(
            (
                one.series.setting,
                one.series.place,
                amounts.rate(one.summary.trial.rate),
                amounts.count(one.summary.trial.repeat + 1),
                *map(amounts.count, (one.requests.num_rows, finished(one.requests).num_rows)),
                amounts.count(one.told("batch").num_rows),
                *(amounts.duration(means[phase]) for phase in PHASES),
            )
        )
    columns = (
        "strategy",
        "backend",
        "rate",
        "repeat",
        "requests",
        "finished",
        "batches",
        *(f"mean {phase}" for phase in PHASES),
    )
    marks = tuple(map(_mark, made))
    return Table(columns=columns, rows=tuple(rows), marks=marks)
