"""Metrics, by hand."""

import math
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.metrics import (
    arrival_rates,
    column,
    finished,
    gaps_s,
    request_statistics,
    statistics_of,
    throughput,
    with_metrics,
)
from results.store import Store

EIGHT = [
    {"index": k, "planned_s": 0.1 * k, "scheduled_s": 0.5 * k, "token_s": [0.5 * k + 0.5]} for k in range(8)
]


def measured(made: ModuleType, *rows: dict[str, Any]) -> pa.Table:
    return with_metrics(
        made.request_table([made.request_row(**{"index": k, **row}) for k, row in enumerate(rows)])
    )


def test_eight_requests_one_at_a_time(made_sweep: ModuleType) -> None:
    found = request_statistics(measured(made_sweep, *EIGHT))
    assert found["queue_wait_s_mean"] == pytest.approx(1.4)
    assert found["e2e_s_mean"] == pytest.approx(1.9)
    assert found["e2e_s_count"] == 8


def test_first_token_gap_and_end(made_sweep: ModuleType) -> None:
    row = measured(
        made_sweep, {"planned_s": 10.0, "token_s": [10.25, 10.65, 10.75, 11.15, 11.25]}
    ).to_pylist()[0]
    assert row["ttft_s"] == pytest.approx(0.25)
    assert row["tpot_s"] == pytest.approx(0.25)
    assert row["e2e_s"] == pytest.approx(1.25)
    assert row["itl_max_s"] == pytest.approx(0.4)
    assert row["itl_p99_s"] == pytest.approx(np.percentile([0.4, 0.1, 0.4, 0.1], 99))


def test_what_a_batch_holds_back_and_the_way_takes(made_sweep: ModuleType) -> None:
    row = measured(
        made_sweep,
        {
            "planned_s": 1.0,
            "sent_s": 1.002,
            "arrived_s": 1.005,
            "scheduled_s": 1.5,
            "token_s": [2.0, 3.0],
            "returned_s": 5.0,
            "received_s": 5.004,
        },
    ).to_pylist()[0]
    assert row["queue_wait_s"] == pytest.approx(0.5)
    assert row["held_s"] == pytest.approx(2.0)
    assert row["delivered_s"] == pytest.approx(4.0)
    assert row["dispatch_lag_s"] == pytest.approx(0.002)
    assert row["transport_s"] == pytest.approx(0.007)


def test_a_one_token_answer_has_no_time_per_output_token(made_sweep: ModuleType) -> None:
    row = measured(made_sweep, {"planned_s": 0.0, "token_s": [0.5]}).to_pylist()[0]
    assert row["tpot_s"] is None
    assert row["itl_max_s"] is None
    assert row["itl_p99_s"] is None
    assert row["ttft_s"] == row["e2e_s"] == 0.5


def test_what_does_not_exist_is_null_and_never_zero(made_sweep: ModuleType) -> None:
    row = measured(made_sweep, {"status": "unfinished", "arrived_s": None, "sent_s": None}).to_pylist()[0]
    names = (
        "queue_wait_s",
        "ttft_s",
        "tpot_s",
        "e2e_s",
        "held_s",
        "delivered_s",
        "dispatch_lag_s",
        "transport_s",
    )
    assert [row[name] for name in (*names, "itl_max_s", "itl_p99_s")] == [None] * 10


def test_a_request_without_token_stamps_keeps_its_other_metrics(made_sweep: ModuleType) -> None:
    table = measured(
        made_sweep,
        {"token_s": None, "first_token_s": 1.0, "last_token_s": 3.0, "output_tokens": 3},
        {"token_s": [1.0, 1.5]},
    )
    first, second = table.to_pylist()
    assert (first["tpot_s"], first["itl_max_s"]) == (1.0, None)
    assert second["itl_max_s"] == 0.5
    assert gaps_s(table).tolist() == [0.5]


def test_the_last_token_is_the_first_and_the_gaps_after_it(made_store: Store) -> None:
    table = with_metrics(made_store.requests())
    tpot = np.nan_to_num(column(table, "tpot_s"))
    total = column(table, "ttft_s") + (column(table, "output_tokens") - 1) * tpot
    np.testing.assert_allclose(column(table, "e2e_s"), total, rtol=0, atol=1e-9)
    delivered = column(table, "e2e_s") + column(table, "held_s")
    np.testing.assert_allclose(column(table, "delivered_s"), delivered, rtol=0, atol=1e-9)


def test_requests_in_the_system_add_up_to_their_sojourns(made_store: Store) -> None:
    """Little's law from empty to empty: ∫N dt = Σ sojourns."""
    cell = made_store.trials()[4].cell_id
    table = with_metrics(made_store.requests([cell]))
    planned, last = column(table, "planned_s"), column(table, "last_token_s")
    times = np.concatenate([planned, last])
    step = np.concatenate([np.ones(len(planned)), -np.ones(len(last))])
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(step[order])
    assert inside[-1] == 0
    area = float((inside[:-1] * np.diff(times[order])).sum())
    assert area == pytest.approx(float(column(table, "e2e_s").sum()), rel=1e-12)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_percentiles_are_numpys(values: list[float]) -> None:
    found = statistics_of(np.array([*values, math.nan]))
    for name, percent in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99)):
        assert found[name] == np.percentile(values, percent)
    assert found["mean"] == np.mean(values)
    assert found["count"] == len(values)


@given(st.lists(st.lists(st.floats(0, 10), max_size=8), min_size=1, max_size=6))
def test_gaps_of_each_request_are_numpys(made_sweep: ModuleType, gaps: list[list[float]]) -> None:
    stamps = [np.cumsum([0.5, *own]).tolist() for own in gaps]
    table = measured(made_sweep, *({"token_s": own} for own in stamps))
    for own, row in zip(stamps, table.to_pylist(), strict=True):
        if len(own) < 2:
            assert row["itl_p99_s"] is None
        else:
            assert row["itl_max_s"] == np.diff(own).max()
            assert row["itl_p99_s"] == np.percentile(np.diff(own), 99)


def test_what_was_cut_off_is_later_than_all_that_was_seen(made_sweep: ModuleType) -> None:
    table = measured(
        made_sweep,
        {"token_s": [1.0, 2.0]},
        {"token_s": [3.0, 4.0]},
        {"token_s": [5.0, 6.0]},
        {"token_s": [50.0], "status": "unfinished"},
        {"status": "unfinished"},
        {"status": "failed"},
    )
    found = request_statistics(table)
    assert (found["e2e_s_count"], found["e2e_s_p50"], found["e2e_s_p99"]) == (5, 6.0, None)
    assert (found["ttft_s_p50"], found["ttft_s_p90"], found["ttft_s_mean"]) == (5.0, None, None)
    assert found["tpot_s_count"] == 3
    assert found["dispatch_lag_s_count"] == 6
    assert finished(table).num_rows == 3


def test_all_failed_gives_no_latency_and_no_throughput(made_sweep: ModuleType) -> None:
    table = measured(made_sweep, *({"status": "failed", "planned_s": 0.1 * k} for k in range(3)))
    found = request_statistics(table)
    assert found["ttft_s_p50"] is None
    assert found["ttft_s_count"] == 0
    assert throughput(table) == {"throughput_tokens_per_s": None, "throughput_requests_per_s": None}


def test_throughput_runs_from_the_first_planned_arrival_to_the_last_token(made_sweep: ModuleType) -> None:
    table = measured(
        made_sweep,
        {"planned_s": 2.0, "token_s": [3.0, 4.0]},
        {"planned_s": 3.0, "token_s": [5.0, 6.0, 7.0], "returned_s": 9.0},
        {"planned_s": 3.5, "token_s": [6.0], "status": "unfinished"},
    )
    assert throughput(table) == {"throughput_tokens_per_s": 6 / 5, "throughput_requests_per_s": 2 / 5}


def test_rates_are_counted_between_the_first_and_last_arrival(made_sweep: ModuleType) -> None:
    table = measured(made_sweep, *({"planned_s": 0.5 * k, "sent_s": 1.0 * k} for k in range(5)))
    assert arrival_rates(table) == {"offered_rate": 2.0, "achieved_rate": 1.0}


def test_a_single_request_has_no_rate_but_a_throughput(made_sweep: ModuleType) -> None:
    table = measured(made_sweep, {"planned_s": 1.0, "token_s": [2.0, 3.0]})
    assert arrival_rates(table) == {"offered_rate": None, "achieved_rate": None}
    assert throughput(table)["throughput_tokens_per_s"] == 1.0
