"""Some trials request by request: who waited, ran and was held when, in which batch, and in which slot.

The rows of at most 20 trials, at most 2,000 requests of each (the first to arrive), are put into the page as one block
of whole numbers, times in units of 0.1 ms; scripts/closeup.js draws from it the bars of one trial, and the slots and
the distributions of all the chosen trials of one rate, which were sent the same requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import pyarrow.compute as pc

from results.findings import Findings, TrialSummary
from results.metrics import column, finished
from results.report import numbers, theme
from results.report.curve_parts import rate_control
from results.report.packed import Block, pack
from results.report.panel import Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import Series, series_of
from results.report.trial_rows import StoreOf, TrialRows, each

MOST_TRIALS = 20
MOST_REQUESTS = 2_000
UNIT_S = 1e-4
NAME = "closeup"
STATES = ("finished", "failed", "unfinished", "rejected")
PHASES: dict[str, str] = {
    "wait": "from its planned arrival until the engine began it",
    "prefill": "until its first token",
    "decode": "until its last token",
    "held": "finished, and kept by its batch",
}
COLOURS = {
    "wait": theme.WAIT,
    "prefill": theme.HOLDINGS["prefill"],
    "decode": theme.HOLDINGS["decode"],
    "held": theme.HOLDINGS["finished"],
}
_HEADINGS = {
    NAME: "One trial, request by request",
    "slots": "Who held a slot, over time",
    "distributions": "How the latencies of one trial are distributed",
}
_HEIGHTS_PX = {NAME: 640, "slots": 520, "distributions": 320}
_NONE_YET = "No trial has finished yet."

Ints = npt.NDArray[np.int64]


def panels(findings: Findings, store_of: StoreOf) -> tuple[tuple[Panel | Absent, ...], tuple[Block, ...]]:
    """Give the three panels and the block that they are drawn from."""
    series = series_of(findings)
    made = list(each(chosen_of(series), store_of))
    if not made:
        return tuple(Absent(name=n, heading=h, reason=_NONE_YET) for n, h in _HEADINGS.items()), ()
    total = sum(len(cell.trials) for one in series for cell in one.cells)
    note = _which(made, total)
    by_rate = list(dict.fromkeys(rows.summary.trial.rate for rows in made))
    rates = rate_control(by_rate)
    busiest = sorted(rates.choices, key=lambda choice: -by_rate[int(choice.value)])
    trials = Control(
        name="trial", choices=tuple(Choice(value=str(n), label=_label(rows)) for n, rows in enumerate(made))
    )
    drawn = (
        _panel(NAME, trials, ("The bars of one trial.",), made, _bars_live(), (_phases(), note)),
        _panel(
            "slots",
            replace(rates, choices=tuple(busiest)),
            ("Slots over time.",),
            made,
            _slots_live(),
            (_slots_note(), note),
        ),
        _panel(
            "distributions", rates, tuple(_METRICS.values()), made, _distributions_live(), (_cdf_note(), note)
        ),
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


def block(made: Sequence[TrialRows], rates: Sequence[float]) -> Block:
    """Pack the trials' requests and batches one after the other, with what each trial is."""
    cut = [packed_requests(rows) for rows in made]
    launched = [packed_batches(rows) for rows in made]
    columns = {name: np.concatenate([one[name] for one in cut]) for name in cut[0]}
    columns |= {name: np.concatenate([one[name] for one in launched]) for name in launched[0]}
    about = {
        "unit_s": UNIT_S,
        "states": STATES,
        "triggers": list(theme.TRIGGERS),
        "rates": list(rates),
        "said": [numbers.rate(rate) for rate in rates],
        "trials": [
            {
                "series": rows.series.key,
                "name": rows.series.name,
                "setting": rows.series.setting,
                "strategy": rows.series.strategy,
                "place": rows.series.place,
                "colour": rows.series.style.colour,
                "dash": rows.series.style.dash,
                "rate": rows.summary.trial.rate,
                "label": _label(rows),
                "heading": _heading(rows),
                "slots": rows.summary.trial.knobs.get("max_batch_size"),
                "requests": len(one["planned"]),
                "planned": rows.requests.num_rows,
                "batches": len(batches["launched"]),
            }
            for rows, one, batches in zip(made, cut, launched, strict=True)
        ],
    }
    return pack(NAME, columns, about=about, deltas=("planned", "launched"))


def packed_requests(rows: TrialRows) -> dict[str, Ints]:
    """Give the first requests to arrive in units of UNIT_S: the planned arrival, and the length of each phase plus 1.

    0: it did not get so far. `stay`: from the planned arrival until it had left. `state`: its place in STATES,
    plus 4 in the steady window. `batch`: its batch plus 1; `prompt` and `output`: tokens.
    """
    planned = column(rows.requests, "planned_s")
    order = np.argsort(planned, kind="stable")[:MOST_REQUESTS]
    start_s = rows.summary.metrics.get("steady_start_s") or 0.0
    stamps = [
        planned,
        *(column(rows.requests, f"{name}_s") for name in ("scheduled", "first_token", "last_token")),
    ]
    units = [_units(stamp[order]) for stamp in stamps]
    left = _units(rows.left_s()[order])
    state = pc.index_in(rows.requests.column("status"), pc.cast(list(STATES), "string")).to_numpy()[order]
    batch = column(rows.requests, "batch_id")[order]
    return {
        "planned": units[0].astype(np.int64),
        **{
            name: _lengths(begin, end)
            for name, (begin, end) in zip(("wait", "prefill", "decode"), pairwise(units), strict=True)
        },
        "stay": np.maximum(left - units[0], 0).astype(np.int64),
        "state": (state + 4 * (planned[order] >= start_s)).astype(np.int64),
        "batch": np.where(np.isnan(batch), 0, batch + 1).astype(np.int64),
        "prompt": column(rows.requests, "prompt_tokens")[order].astype(np.int64),
        "output": column(rows.requests, "output_tokens")[order].astype(np.int64),
    }


def packed_batches(rows: TrialRows) -> dict[str, Ints]:
    """Give the batches that were launched in the same units: number, launch, length, size and trigger plus 1.

    Without those of trigger join: an engine that takes requests at once forms none of them.
    """
    batches = rows.told("batch")
    batches = batches.filter(pc.not_equal(pc.fill_null(batches.column("trigger"), ""), "join"))
    launched, ended = (_units(column(batches, name)) for name in ("launched_s", "ended_s"))
    known = ~np.isnan(launched) & ~np.isnan(ended)
    triggers = pc.index_in(batches.column("trigger"), pc.cast(list(theme.TRIGGERS), "string"))
    trigger = pc.fill_null(triggers, -1).to_numpy() + 1
    return {
        "number": column(batches, "batch_id")[known].astype(np.int64),
        "launched": np.maximum(launched[known], 0).astype(np.int64),
        "lasted": np.maximum(ended - launched, 0)[known].astype(np.int64),
        "size": column(batches, "size")[known].astype(np.int64),
        "trigger": trigger[known].astype(np.int64),
    }


def _units(stamps_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.rint(stamps_s / UNIT_S), dtype=np.float64)


def _lengths(begin: npt.NDArray[np.float64], end: npt.NDArray[np.float64]) -> Ints:
    """Give whole units from one to the other plus 1, 0 where one is unknown; clocks that disagree give no time."""
    length = np.maximum(end - begin, 0) + 1
    return np.where(np.isnan(length), 0, length).astype(np.int64)


def _panel(
    name: str,
    control: Control,
    summaries: Sequence[str],
    made: Sequence[TrialRows],
    live: Mapping[str, object],
    notes: tuple[str, ...],
) -> Panel:
    height = _HEIGHTS_PX[name]
    several = len(summaries) > 1
    charts = tuple(
        Chart(figure=go.Figure(layout={"height": height}), summary=text, title=text if several else "")
        for text in summaries
    )
    return Panel(
        name=name,
        controls=(control,),
        views={control.choices[0].value: View(heading=_HEADINGS[name], charts=charts)},
        table=_table(made),
        notes=notes,
        live=live,
    )


_METRICS = {"ttft": "TTFT", "e2e": "E2E latency", "wait": "queue wait"}


def _bars_live() -> dict[str, object]:
    layout = theme.layout(
        height_px=_HEIGHTS_PX[NAME],
        legend=True,
        barmode="overlay",
        bargap=0.15,
        xaxis=theme.axis("time since the start of the trial (s)", anchor="y"),
        yaxis=theme.axis("request, in order of its batch, then of arrival", domain=[0, 0.9], showgrid=False),
    )
    layout["yaxis2"] = theme.axis(
        "", domain=[0.94, 1], range=[-1, 1], showgrid=False, showticklabels=False, ticks="", fixedrange=True
    )
    return {"phases": PHASES, "colours": COLOURS, "ink": theme.INK, "layout": layout}


def _slots_live() -> dict[str, object]:
    return {
        "phases": PHASES,
        "colours": COLOURS,
        "layout": theme.layout(height_px=_HEIGHTS_PX["slots"], legend=True, barmode="overlay", bargap=0.12),
        "axis": theme.axis(""),
    }


def _distributions_live() -> dict[str, object]:
    return {
        "metrics": _METRICS,
        "layout": theme.layout(
            height_px=_HEIGHTS_PX["distributions"],
            yaxis=theme.axis("share of requests (%)", range=[0, 102]),
        ),
        "axis": theme.axis("", type="log"),
    }


def _label(rows: TrialRows) -> str:
    trial = rows.summary.trial
    return f"{rows.series.name}, {numbers.rate(trial.rate)}, repeat {trial.repeat + 1}"


def _means(rows: TrialRows) -> dict[str, float | None]:
    """Give the mean length in seconds of each phase, over what finished."""
    done = finished(rows.requests)
    names = ("planned_s", "scheduled_s", "first_token_s", "last_token_s", "returned_s")
    stamps = [column(done, name) for name in names]
    lengths = [end - begin for begin, end in pairwise(stamps)]
    known = [length[~np.isnan(length)] for length in lengths]
    return {
        phase: float(values.mean()) if len(values) else None
        for phase, values in zip(PHASES, known, strict=True)
    }


def _heading(rows: TrialRows) -> str:
    means, done = _means(rows), finished(rows.requests).num_rows
    total = rows.requests.num_rows
    if means["wait"] is None:
        return f"{_label(rows)}: none of {numbers.count(total, 'request')} has finished"
    runs = [means[phase] for phase in ("prefill", "decode")]
    running = None if None in runs else sum(value for value in runs if value is not None)
    held = f" and is held {numbers.duration(means['held'])}" if means["held"] is not None else ""
    who = "a request" if done == total else f"each of the {done:,} of {total:,} requests that finished"
    return (
        f"{_label(rows)}: on average {who} waits {numbers.duration(means['wait'])}, "
        f"runs {numbers.duration(running)}{held}"
    )


def _which(made: Sequence[TrialRows], total: int) -> str:
    """Say which trials were taken, and how much of them."""
    rates = ", ".join(numbers.rate(rate) for rate in sorted({rows.summary.trial.rate for rows in made}))
    cut = sum(rows.requests.num_rows > MOST_REQUESTS for rows in made)
    thinned = (
        f" Of {numbers.count(cut, 'trial')} with more requests the first {MOST_REQUESTS:,} are shown."
        if cut
        else ""
    )
    if len(made) == total:
        return f"All {numbers.count(total, 'trial')} can be chosen.{thinned}"
    return f"{len(made)} of {total} trials are in the page, at most {MOST_TRIALS}: the first repeat at {rates}.{thinned}"


def _phases() -> str:
    said = "; ".join(f"{name}: {meaning}" for name, meaning in PHASES.items())
    return (
        f"A row is a request. {said}. A frame is a batch, from its launch until its end; ticks on top are the planned "
        "arrivals. What did not finish ends in the phase that it had reached. Drag to zoom, double-click to go back."
    )


def _slots_note() -> str:
    return (
        "From the stamps of the requests: each takes the free slot of the lowest number when the engine begins it, and "
        "leaves it when its caller can have it. Slot-time: max_batch_size × the time from the first that began to the last "
        "that left; where a setting keeps up, the rest is capacity that nobody asked for: compare at a rate that overloads. At most one setting of each strategy and backend is drawn: hide settings to see others."
    )


def _cdf_note() -> str:
    return (
        "Of the requests in the steady window of one trial of each setting, on the same arrivals: how many had taken no "
        "longer. What was cut off counts and is never reached, so its line ends below 100 %. Further left is quicker; a "
        "steeper line treats requests more alike."
    )


def _table(made: Sequence[TrialRows]) -> Table:
    rows = []
    for one in made:
        means = _means(one)
        rows.append(
            (
                one.series.setting,
                one.series.place,
                numbers.rate(one.summary.trial.rate),
                str(one.summary.trial.repeat + 1),
                f"{one.requests.num_rows:,}",
                f"{finished(one.requests).num_rows:,}",
                f"{one.told('batch').num_rows:,}",
                *(numbers.duration(means[phase]) for phase in PHASES),
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
    marks = tuple(Mark(series=(one.series.key,), rate=one.summary.trial.rate) for one in made)
    return Table(columns=columns, rows=tuple(rows), marks=marks)
