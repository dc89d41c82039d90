"""Some trials request by request, as one block of whole numbers, times in units of 0.1 ms (results/report/closeup.py: which).

Of each trial the first 2,000 requests to arrive; scripts/closeup.js unpacks them.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from results.metrics import column, finished
from results.report import numbers, theme
from results.report.packed import Block, pack
from results.report.trial_rows import TrialRows

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
Ints = npt.NDArray[np.int64]


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
                "label": label(rows),
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


def label(rows: TrialRows) -> str:
    """Name the trial."""
    trial = rows.summary.trial
    return f"{rows.series.name}, {numbers.rate(trial.rate)}, repeat {trial.repeat + 1}"


def means_of(rows: TrialRows) -> dict[str, float | None]:
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
    means, done = means_of(rows), finished(rows.requests).num_rows
    total = rows.requests.num_rows
    if means["wait"] is None:
        return f"{label(rows)}: none of {numbers.count(total, 'request')} has finished"
    runs = [means[phase] for phase in ("prefill", "decode")]
    running = None if None in runs else sum(value for value in runs if value is not None)
    held = f" and is held {numbers.duration(means['held'])}" if means["held"] is not None else ""
    who = "a request" if done == total else f"each of the {done:,} of {total:,} requests that finished"
    return (
        f"{label(rows)}: on average {who} waits {numbers.duration(means['wait'])}, "
        f"runs {numbers.duration(running)}{held}"
    )
