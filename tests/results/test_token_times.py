"""Metrics of rows whose token times are steps: those of the same tokens written out, one stamp each."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.attempt import Attempt
from results.errors import StoreError
from results.metrics import request_statistics, statistics_of, with_metrics
from results.records import BATCHES
from results.store import Store
from results.token_steps import Steps
from results.windows import steady_throughput

# 3 steps of 0.5 s, a pause, 4 of 0.25 s and 2 of 0.5 s. A row of TOKENS: first and last of each run of steps that
# made its tokens; an engine does not pause while a request makes tokens.
STEPS = [
    {"kind": "step", "batch_id": 0, "steps": 3, "started_s": 1.0, "ended_s": 2.5},
    {"kind": "step", "batch_id": 3, "steps": 4, "started_s": 4.0, "ended_s": 5.0},
    {"kind": "step", "batch_id": 7, "steps": 2, "started_s": 5.0, "ended_s": 6.0},
]
TOKENS = [[4, 8], [1, 2, 4, 5], [3, 3], [0, 1, 3, 4, 6, 6]]


@pytest.fixture
def batches(made_sweep: ModuleType) -> pa.Table:
    rows = [made_sweep.batch_row(cell_id="cell", attempt=1, size=2, **step) for step in STEPS]
    return pa.Table.from_pylist(rows, schema=BATCHES)


@pytest.fixture
def both(made_sweep: ModuleType, batches: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The same requests with steps and with stamps."""
    steps = Steps.of_rows(batches)
    in_steps, in_stamps = [], []
    for index, runs in enumerate(TOKENS):
        made = [
            step for first, last in zip(runs[::2], runs[1::2], strict=True) for step in range(first, last + 1)
        ]
        stamps = steps.end_of(np.array(made)).tolist()
        row = made_sweep.request_row(index=index, planned_s=0.5 * index, token_s=stamps)
        in_stamps.append(row)
        in_steps.append({**row, "token_s": None, "token_steps": runs})
    return made_sweep.request_table(in_steps), made_sweep.request_table(in_stamps)


def test_every_metric_is_that_of_the_tokens_written_out(
    both: tuple[pa.Table, pa.Table], batches: pa.Table
) -> None:
    steps, stamps = with_metrics(both[0], batches), with_metrics(both[1])
    for name in ("tpot_s", "ttft_s", "itl_max_s", "itl_p99_s"):
        assert steps[name].to_pylist() == pytest.approx(stamps[name].to_pylist(), nan_ok=True)
    found, expected = request_statistics(steps, batches), request_statistics(stamps)
    assert found == pytest.approx(expected)
    assert found["itl_s_count"] == 4 + 3 + 0 + 4


@pytest.mark.parametrize(("start_s", "end_s"), [(1.5, 2.5), (1.6, 4.3), (0.0, 9.0), (4.25, 4.75), (2.6, 3.9)])
def test_tokens_of_a_window_are_counted_by_their_own_time(
    both: tuple[pa.Table, pa.Table], batches: pa.Table, start_s: float, end_s: float
) -> None:
    assert steady_throughput(both[0], start_s, end_s, batches) == pytest.approx(
        steady_throughput(both[1], start_s, end_s)
    )


@given(st.lists(st.tuples(st.floats(0, 1e3), st.integers(1, 7)), max_size=30))
def test_statistics_of_counted_values_are_those_of_all(counted: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in counted])
    counts = np.array([count for _, count in counted], dtype=np.int64)
    found, of_all = statistics_of(values, counts), statistics_of(np.repeat(values, counts))
    assert found.pop("mean") == pytest.approx(of_all.pop("mean"))  # a sum in another order
    assert found == of_all


def attempt_with(made_sweep: ModuleType, folder: Path) -> tuple[Attempt, pa.Table]:
    attempt = Store(folder).begin_attempt("cell")
    rows = [made_sweep.request_row(cell_id="cell", attempt=1, index=index) for index in range(4)]
    return attempt, made_sweep.request_table(rows)


def test_a_table_of_rows_is_written_once(made_sweep: ModuleType, tmp_path: Path) -> None:
    attempt, table = attempt_with(made_sweep, tmp_path)
    attempt.write_request_tables([table.slice(0, 2), table.slice(2)])
    with pytest.raises(StoreError, match="only one row"):
        attempt.write_request_tables([table.slice(3)])
    attempt.finish(made_sweep.make_trial(table.to_pylist()))
    assert Store(tmp_path).requests()["index"].to_pylist() == [0, 1, 2, 3]


def test_a_table_of_another_schema_or_cell_is_refused(made_sweep: ModuleType, tmp_path: Path) -> None:
    attempt, table = attempt_with(made_sweep, tmp_path)
    with pytest.raises(StoreError, match="columns of its schema"):
        attempt.write_request_tables([table.drop_columns(["rate"])])
    with pytest.raises(StoreError, match="columns of its schema"):
        attempt.write_batch_tables([table])
    other = table.set_column(0, table.schema.field("cell_id"), pa.array(["other"] * 4))
    with pytest.raises(StoreError, match="must have cell_id=cell"):
        attempt.write_request_tables([other])
