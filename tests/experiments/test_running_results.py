"""The results while a sweep runs: those of the table at the end, each cell read once and on its own."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.resolved import Resolved
from experiments.running_results import RunningResults
from results.metrics import with_metrics
from results.records import Trial
from results.store import Store
from results.summary import find
from results.trial_summary import summarise
from results.windows import steady_start
from tests.results import made_sweep


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return made_sweep.make_sweep(tmp_path_factory.mktemp("sweep"), repeats=2)


@pytest.fixture(scope="module")
def planned(store: Store, made_config: Callable[..., SweepConfig]) -> tuple[Cell, ...]:
    """The cells of that store, which has no config."""
    config = made_config(strategies=[{"strategy": "naive", "backends": "vllm", "max_batch_size": 4}])
    any_cell = cells(config, Resolved(rates=(1.0, 4.0), durations_s=(60.0, 60.0)))[0]
    return tuple(
        dataclasses.replace(
            any_cell,
            cell_id=trial.cell_id,
            backend=trial.backend,
            setting=trial.setting,
            rate=trial.rate,
            repeat=trial.repeat,
        )
        for trial in store.trials()
    )


def read_all(results: RunningResults) -> int:
    count = 0
    while results.read_one():
        count += 1
    return count


def alone(store: Store, trial: Trial) -> Mapping[str, float | None]:
    """The metrics of a trial with the window that it has by itself."""
    measured = with_metrics(store.requests({trial.cell_id}))
    batches = store.batches({trial.cell_id})
    return summarise(trial, measured, batches, steady_start(measured)).metrics


def test_with_all_cells_read_they_are_those_of_the_end(store: Store, planned: tuple[Cell, ...]) -> None:
    results = RunningResults(store, planned, ended=store.done_cells())
    assert results.rows() == []
    assert read_all(results) == len(planned)
    wanted = {(cell.backend, cell.setting, cell.rate): cell for cell in find(store).cells}
    rows = results.rows()
    assert [(row.backend, row.setting, row.rate) for row in rows] == list(
        dict.fromkeys((cell.backend, cell.setting, cell.rate) for cell in planned)
    )
    assert len(rows) == len(wanted) > 10
    for row in rows:
        cell = wanted[row.backend, row.setting, row.rate]
        assert (row.done, row.repeats) == (2, 2)
        assert row.tokens_per_s == cell.mean("throughput_tokens_per_s")
        own = [alone(store, trial.trial) for trial in cell.trials]
        assert row.ttft_p50_s == sum(one["ttft_s_p50"] or 0 for one in own) / 2
        assert row.e2e_p50_s == sum(one["e2e_s_p50"] or 0 for one in own) / 2
        assert set(row.reservations) == {v.name for trial in cell.trials for v in trial.verdicts}
    assert {row.reservations for row in rows} == {(), ("not-stationary", "overloaded")}


def test_it_grows_cell_by_cell_and_knows_which_came_last(store: Store, planned: tuple[Cell, ...]) -> None:
    results = RunningResults(store, planned)
    assert not results.read_one()
    first, other = planned[0], next(cell for cell in planned if cell.setting != planned[0].setting)
    results.ended(first.cell_id)
    assert results.rows() == []
    assert results.read_one()
    [row] = results.rows()
    assert (row.setting, row.rate, row.done, row.repeats) == (first.setting, first.rate, 1, 2)
    results.ended(other.cell_id)
    assert results.read_one()
    newest = max(results.rows(), key=lambda one: one.read)
    assert (newest.setting, len(results.rows())) == (other.setting, 2)
    assert not results.read_one()


def test_as_many_are_read_at_once_as_the_time_allows_and_one_at_least(
    store: Store, planned: tuple[Cell, ...]
) -> None:
    results = RunningResults(store, planned, ended=store.done_cells())
    ticks = (
        itertools.count()
    )  # a second a look at the clock: one when it begins, one before each but the first
    assert results.read_within(5.0, clock=lambda: float(next(ticks))) == 5
    assert results.read_within(0.0) == 1
    assert results.read_within(1e9) == len(planned) - 6
    assert results.read_within(1e9) == 0
    assert sum(row.done for row in results.rows()) == len(planned)


def test_a_cell_whose_rows_are_gone_is_passed_over(planned: tuple[Cell, ...], tmp_path: Path) -> None:
    results = RunningResults(Store(tmp_path), planned, ended=[planned[0].cell_id])
    assert results.read_one()
    assert results.rows() == []


def test_no_other_cell_is_read(store: Store, planned: tuple[Cell, ...], tmp_path: Path) -> None:
    only = planned[3]
    place = tmp_path / "cells" / only.cell_id
    place.parent.mkdir()
    place.symlink_to(Path(store.root) / "cells" / only.cell_id)
    for cell in planned[:3]:
        (tmp_path / "cells" / cell.cell_id / "attempt-1").mkdir(parents=True)
        (tmp_path / "cells" / cell.cell_id / "attempt-1" / "done.json").write_text("{")
    alone = Store(tmp_path)
    results = RunningResults(alone, planned, ended=[only.cell_id])
    assert results.read_one()
    assert [(row.setting, row.done) for row in results.rows()] == [(only.setting, 1)]
    assert alone.problems == []
