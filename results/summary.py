"""From a store to what it found: the one computation behind the page, the table and the exports."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from results.comparisons import changes, knees, ordered, splits
from results.cost import spent, with_cost
from results.drift import with_drift
from results.expectations import expectations
from results.findings import CellSummary, Findings, TrialSummary
from results.goodput import Slo, slos_of
from results.metrics import with_metrics
from results.price import price_of
from results.records import BATCHES, REQUESTS, SETTINGS, SIMULATED, VIRTUAL, Trial
from results.sentences import sentences
from results.store import Store
from results.trial_summary import summarise
from results.windows import common_start, steady_start

Spread: TypeAlias = Callable[..., Iterable[Any]]  # as `map` is
Starts: TypeAlias = Mapping[tuple[float, int], float]  # (rate, repeat) → s

_NOT_SUMMARISED = frozenset({field.name for field in SETTINGS} - {"cell_id"} | {"error", "output_hash"})


def find(store: Store, spread: Spread = map, *, not_before: Starts | None = None) -> Findings:
    """Summarise everything that counts in the store; what was set aside is in `store.problems`.

    `not_before`: where steady windows begin at the earliest, such as those of another sweep.
    `spread`: what maps a function over parts of the store, such as the `map` of a pool of processes. Depends on the rows alone, not on how they were split into files or in which order they are read.
    """
    sweep = store.read_sweep() or {}
    price = price_of(sweep)
    found = with_drift(_summaries(store, spread, not_before or {}))
    summaries = [with_cost(_labelled(one), price) for one in found]
    cells = _cells(one for one in summaries if one.counts)
    found_changes, found_splits = changes(cells), splits(cells)
    return Findings(
        sweep=sweep,
        trials=tuple(summaries),
        cells=tuple(cells),
        changes=tuple(found_changes),
        splits=tuple(found_splits),
        sentences=tuple(sentences(cells, found_changes, found_splits)),
        knees=knees(cells),
        failures=tuple(store.failures()),
        planned_cells=_planned_cells(sweep, len(summaries)),
        slos=slos_of(sweep),
        expectations=expectations(cells),
        invalid=tuple(_cells(one for one in summaries if not one.counts)),
        price=price,
        spent=spent(store, sweep, price),
    )


def what_counts(
    store: Store,
    cell_ids: Collection[str] | None = None,
    *,
    without: Collection[str] = (),
) -> tuple[list[Trial], pa.Table, pa.Table]:
    """Trials, request rows and batch rows of the same attempts: read until nothing more is set aside.

    `without`: columns that are not wanted.
    """
    wanted = [[name for name in schema.names if name not in without] for schema in (REQUESTS, BATCHES)]
    while True:
        before = len(store.problems)
        requests, batches = store.requests(cell_ids, wanted[0]), store.batches(cell_ids, wanted[1])
        trials = store.trials(cell_ids)
        if len(store.problems) == before:
            return trials, requests, batches


def _summaries(store: Store, spread: Spread, not_before: Starts) -> list[TrialSummary]:
    """Every trial, by cell id. Read by rate and repeat, which share a window, so that memory stays small."""
    groups: dict[tuple[float, int], list[str]] = defaultdict(list)
    for trial in store.trials():
        groups[trial.rate, trial.repeat].append(trial.cell_id)
    found: list[TrialSummary] = []
    for summaries, problems in spread(partial(_part, store.root, not_before), groups.values()):
        found += summaries
        store.problems += [problem for problem in problems if problem not in store.problems]
    return sorted(found, key=lambda summary: summary.trial.cell_id)


def _part(root: str, not_before: Starts, cell_ids: list[str]) -> tuple[list[TrialSummary], list[str]]:
    store = Store(root)
    found = what_counts(store, cell_ids, without=_NOT_SUMMARISED)
    return summarise_all(*found, slos_of(store.read_sweep() or {}), not_before), store.problems


def _labelled(summary: TrialSummary) -> TrialSummary:
    """What ran in virtual time says so wherever its backend is named."""
    trial = summary.trial
    return replace(
        summary, trial=trial.model_copy(update={"backend": shown_backend(trial.backend, trial.device)})
    )


def shown_backend(backend: str, device: str) -> str:
    """A backend as findings name it: vllm in virtual time is no vllm."""
    return f"{SIMULATED} {backend}" if device == VIRTUAL and backend != SIMULATED else backend


def with_metrics_by_cell(requests: pa.Table, batches: pa.Table) -> pa.Table:
    """Request rows of many cells with their metrics; both tables are sorted by cell id."""
    batches_of = _by_cell(batches)
    return pa.concat_tables(
        [
            with_metrics(REQUESTS.empty_table()),
            *(with_metrics(rows, batches_of.get(cell)) for cell, rows in _by_cell(requests).items()),
        ]
    )


def _by_cell(table: pa.Table) -> dict[str, pa.Table]:
    """Cut a table that is sorted by cell id."""
    runs = pc.run_end_encode(table.column("cell_id").combine_chunks())
    found, first = {}, 0
    for cell_id, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        found[cell_id] = table.slice(first, end - first)
        first = end
    return found


def summarise_all(
    trials: list[Trial],
    requests: pa.Table,
    batches: pa.Table,
    slos: Sequence[Slo] = (),
    not_before: Starts | None = None,
) -> list[TrialSummary]:
    """Every trial in numbers, in the order given; the tables are sorted by cell id. `not_before` as in `find`.

    What takes the whole sweep to judge (`results.drift`) is left to the caller.
    """
    requests_of, batches_of = _by_cell(requests), _by_cell(batches)
    none = BATCHES.empty_table()
    measured = {
        trial.cell_id: with_metrics(requests_of[trial.cell_id], batches_of.get(trial.cell_id, none))
        for trial in trials
    }
    starts: dict[tuple[float, int], list[float]] = defaultdict(list)
    for key, start_s in (not_before or {}).items():
        starts[key].append(start_s)
    for trial in trials:
        starts[trial.rate, trial.repeat].append(steady_start(measured[trial.cell_id]))
    return [
        summarise(
            trial,
            measured[trial.cell_id],
            batches_of.get(trial.cell_id, none),
            common_start(starts[trial.rate, trial.repeat]),
            slos,
        )
        for trial in trials
    ]


def _cells(summaries: Iterable[TrialSummary]) -> list[CellSummary]:
    """Group repeats."""
    groups: dict[tuple[str, str, str, str, str, float], list[TrialSummary]] = defaultdict(list)
    for one in summaries:
        trial = one.trial
        key = (trial.strategy, trial.setting, trial.backend, trial.model, trial.device, trial.rate)
        groups[key].append(one)
    return ordered(
        [
            CellSummary(
                strategy=strategy,
                setting=setting,
                backend=backend,
                model=model,
                device=device,
                rate=rate,
                trials=tuple(sorted(members, key=lambda one: (one.trial.repeat, one.trial.cell_id))),
            )
            for (strategy, setting, backend, model, device, rate), members in groups.items()
        ]
    )


def _planned_cells(sweep: Mapping[str, object], done: int) -> int:
    planned = sweep.get("planned_cells")
    return planned if isinstance(planned, int) else done
