"""The steady window: MSER-5, one cut for all strategies, requests by plan and tokens by their own time."""

from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from results.metrics import with_metrics
from results.windows import (
    common_start,
    measured_period,
    mser_cut,
    planned_in,
    settles,
    steady_completions,
    steady_start,
    steady_throughput,
)


def test_a_level_series_is_not_cut() -> None:
    assert mser_cut(np.tile([1.0, 2.0, 3.0, 2.0, 1.0], 20)) == 0


def test_a_start_that_differs_is_cut_where_it_ends() -> None:
    values = np.concatenate([np.full(30, 9.0), np.tile([1.0, 1.2, 0.8, 1.1, 0.9], 40)])
    assert mser_cut(values) == 30


def test_the_cut_minimises_the_squared_error_of_the_mean() -> None:
    values = np.random.default_rng(3).exponential(size=103) + 5 * np.exp(-np.arange(103) / 10)
    means = values[:100].reshape(20, 5).mean(axis=1)
    scores = [means[d:].var() / (20 - d) for d in range(11)]
    assert mser_cut(values) == 5 * int(np.argmin(scores)) > 0


def test_at_most_half_is_cut() -> None:
    assert mser_cut(np.arange(100.0)) == 50


@pytest.mark.parametrize("count", [0, 1, 19])
def test_nothing_is_cut_from_too_little(count: int) -> None:
    assert mser_cut(np.arange(float(count))) == 0


def test_the_steady_window_begins_at_the_planned_time_of_the_first_request_kept(
    made_sweep: ModuleType,
) -> None:
    ttft = [8.0] * 10 + [1.0, 1.2, 0.8, 1.1, 0.9] * 8
    rows = [
        made_sweep.request_row(index=k, planned_s=0.5 * k, token_s=[0.5 * k + wait])
        for k, wait in enumerate(ttft)
    ]
    table = with_metrics(made_sweep.request_table(rows))
    assert measured_period(table) == (0.0, 24.5)
    assert steady_start(table) == 5.0
    assert steady_start(table.take(list(range(50))[::-1])) == 5.0


def test_without_a_first_token_the_window_is_the_measured_period(made_sweep: ModuleType) -> None:
    rows = [made_sweep.request_row(index=k, planned_s=2.0 + k, status="failed") for k in range(30)]
    assert steady_start(with_metrics(made_sweep.request_table(rows))) == 2.0


def test_the_largest_cut_holds_for_all() -> None:
    assert common_start([0.0, 4.5, 2.0]) == 4.5


def test_requests_are_selected_by_plan_and_tokens_by_their_own_time(made_sweep: ModuleType) -> None:
    rows = [
        made_sweep.request_row(index=0, planned_s=0.0, token_s=[1.0, 2.0, 3.0, 4.0]),
        made_sweep.request_row(index=1, planned_s=2.0, token_s=[3.5, 9.0], status="unfinished"),
    ]
    table = made_sweep.request_table(rows)
    assert planned_in(table, 1.0, 4.0).column("index").to_pylist() == [1]
    assert planned_in(table, 5.0, 6.0).num_rows == 0
    assert steady_throughput(table, 2.0, 4.0) == 4 / 2


def test_no_window_or_no_stamps_give_no_throughput(made_sweep: ModuleType) -> None:
    table = made_sweep.request_table(
        [made_sweep.request_row(token_s=None, output_tokens=3, first_token_s=1.0, last_token_s=2.0)]
    )
    assert steady_throughput(table, 0.0, 4.0) is None
    assert steady_throughput(table.slice(0, 0), 4.0, 4.0) is None


def test_a_window_without_tokens_has_throughput_zero(made_sweep: ModuleType) -> None:
    table = made_sweep.request_table([made_sweep.request_row(token_s=[9.0])])
    assert steady_throughput(table, 0.0, 4.0) == 0.0


def test_completions_are_counted_at_their_last_token(made_sweep: ModuleType) -> None:
    rows = [
        made_sweep.request_row(index=0, planned_s=0.0, token_s=[1.0, 2.5]),
        made_sweep.request_row(index=1, planned_s=2.0, token_s=[3.5, 9.0]),
        made_sweep.request_row(index=2, planned_s=2.1, token_s=[3.0], status="unfinished"),
    ]
    table = made_sweep.request_table(rows)
    assert steady_completions(table, 2.0, 4.0) == 1 / 2
    assert steady_completions(table, 4.0, 4.0) is None


def test_a_wait_that_rises_all_along_never_settles(made_sweep: ModuleType) -> None:
    def table(waits: list[float]) -> pa.Table:
        rows = [
            made_sweep.request_row(index=k, planned_s=1.0 * k, token_s=[k + wait])
            for k, wait in enumerate(waits)
        ]
        return with_metrics(made_sweep.request_table(rows))

    assert not settles(table([0.1 * k for k in range(40)]))
    assert settles(table([9.0] * 15 + [1.0] * 25))
    assert not settles(table([9.0] * 20 + [1.0] * 20))
    assert settles(table([0.1 * k for k in range(19)]))  # nothing can be seen in so few
