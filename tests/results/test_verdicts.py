"""Verdicts: when each is given, and how often the overload rule is wrong."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from results.findings import Verdict
from results.metrics import with_metrics
from results.verdicts import backlog, verdicts


def judge(
    made: ModuleType, rows: list[dict[str, Any]], batches: int = 50, **trial: Any
) -> dict[str, Verdict]:
    full = [made.request_row(**{"index": k, **row}) for k, row in enumerate(rows)]
    found = verdicts(made.make_trial(full, **trial), with_metrics(made.request_table(full)), batches)
    return {verdict.name: verdict for verdict in found}


def one_server(load: float, count: int, seed: int) -> list[dict[str, Any]]:
    """M/D/1 by Lindley's recursion: Poisson arrivals at 1/s, each served in `load` seconds."""
    planned = np.cumsum(np.random.default_rng(seed).exponential(size=count))
    free_s, rows = 0.0, []
    for arrival in planned.tolist():
        free_s = max(free_s, arrival) + load
        rows.append({"planned_s": arrival, "token_s": [free_s]})
    return rows


def steady(count: int = 240) -> list[dict[str, Any]]:
    return [{"planned_s": 0.1 * k, "token_s": [0.1 * k + 0.15]} for k in range(count)]


def test_the_backlog_counts_what_is_planned_and_not_finished(made_sweep: ModuleType) -> None:
    rows = [
        {"planned_s": 0.0, "token_s": [0.5, 2.0]},
        {"planned_s": 1.0, "token_s": [1.5]},
        {"planned_s": 2.0, "status": "failed", "returned_s": 2.5},
        {"planned_s": 3.0, "token_s": [3.5], "returned_s": 3.5, "status": "unfinished"},
        {"planned_s": 4.0, "token_s": [9.0]},
    ]
    full = [made_sweep.request_row(**{"index": k, **row}) for k, row in enumerate(rows)]
    found = backlog(made_sweep.request_table(full[::-1]))
    assert found.waiting.tolist() == [1, 2, 1, 1, 2]
    assert found.left_share == 0.4


def test_the_slope_is_requests_left_behind_per_arrival(made_sweep: ModuleType) -> None:
    """Arrivals at 4/s, every second one served at once, the others never."""
    rows = [
        {"planned_s": 0.25 * k, "token_s": [0.25 * k]}
        if k % 2
        else {"planned_s": 0.25 * k, "status": "unfinished"}
        for k in range(400)
    ]
    full = [made_sweep.request_row(**{"index": k, **row}) for k, row in enumerate(rows)]
    assert backlog(made_sweep.request_table(full)).slope == pytest.approx(0.5, rel=1e-3)


def test_a_server_that_keeps_up_gets_no_verdict(made_sweep: ModuleType) -> None:
    assert judge(made_sweep, steady()) == {}


def test_stable_queues_are_seldom_called_overloaded(made_sweep: ModuleType) -> None:
    alarms = sum("overloaded" in judge(made_sweep, one_server(0.9, 500, seed)) for seed in range(200))
    assert alarms <= 10


def test_overloaded_queues_are_found(made_sweep: ModuleType) -> None:
    found = [judge(made_sweep, one_server(1.3, 500, seed)) for seed in range(40)]
    assert sum("overloaded" in names for names in found) >= 32


def test_a_slow_overload_is_found_by_its_slope(made_sweep: ModuleType) -> None:
    found = judge(made_sweep, one_server(1.25, 500, 1))["overloaded"]
    assert "backlog grows 0.2" in found.detail


def test_growth_that_turns_back_is_not_overload(made_sweep: ModuleType) -> None:
    """A burst in the second quarter that drains: slope over all above 0 or not, quarters do not rise."""
    rows = [{"planned_s": 1.0 * k, "token_s": [k + 0.5 + (90 if 100 <= k < 200 else 0)]} for k in range(400)]
    assert judge(made_sweep, rows).keys() == {"not-stationary"}


@pytest.mark.parametrize(("count", "batches"), [(199, 50), (240, 9)])
def test_a_short_trial_is_not_judged(made_sweep: ModuleType, count: int, batches: int) -> None:
    found = judge(made_sweep, steady(count), batches)
    assert found.keys() == {"too-short"}
    assert f"{count} arrivals and {batches} batches" in found["too-short"].detail


@pytest.mark.parametrize(
    ("count", "left", "verdict"),
    [
        (40, 17, "overloaded"),  # more than two batches of 8, and than a quarter
        (40, 16, "too-short"),
        (10, 10, "too-short"),  # all of them can run or gather
        (100, 25, "too-short"),
        (100, 26, "overloaded"),
    ],
)
def test_many_left_at_the_end_of_arrivals_is_overload_at_any_length(
    made_sweep: ModuleType, count: int, left: int, verdict: str
) -> None:
    rows = [
        {"planned_s": 0.1 * k, "token_s": [0.1 * k + (0.01 if k < count - left else 99)]}
        for k in range(count)
    ]
    assert judge(made_sweep, rows, batches=3).keys() - {"not-stationary"} == {verdict}


def test_what_a_strategy_leaves_by_itself_grows_with_its_batches(made_sweep: ModuleType) -> None:
    rows = [{"planned_s": 0.1 * k, "token_s": [0.1 * k + (0.01 if k < 60 else 99)]} for k in range(100)]
    sixteen = {"max_batch_size": 16}
    assert judge(made_sweep, rows, batches=3, knobs=sixteen).keys() == {"overloaded"}
    assert judge(made_sweep, rows[:92], batches=3, knobs=sixteen).keys() == {"too-short"}


def test_a_single_request_is_too_short(made_sweep: ModuleType) -> None:
    assert judge(made_sweep, [{"planned_s": 1.0, "token_s": [1.5]}], batches=1).keys() == {"too-short"}


def test_a_wait_that_never_settles_is_named(made_sweep: ModuleType) -> None:
    """It rises so slowly that the backlog does not."""
    rows = [{"planned_s": 1.0 * k, "token_s": [k + 0.1 + 0.0005 * k]} for k in range(240)]
    assert judge(made_sweep, rows).keys() == {"not-stationary"}


def test_cut_off_requests_are_counted(made_sweep: ModuleType) -> None:
    found = judge(made_sweep, [*steady(), {"planned_s": 24.0, "status": "unfinished"}])
    assert found.keys() == {"unfinished"}
    assert "1 of 241" in found["unfinished"].detail


def test_failures_are_counted_by_cause(made_sweep: ModuleType) -> None:
    failed = [
        {"planned_s": 24.0, "status": "failed", "cause": "OutOfMemory", "returned_s": 24.1},
        {"planned_s": 24.1, "status": "failed", "cause": "OutOfMemory", "returned_s": 24.2},
        {"planned_s": 24.2, "status": "rejected", "cause": None, "returned_s": 24.3},
    ]
    found = judge(made_sweep, [*steady(), *failed])
    assert found.keys() == {"failures"}
    assert found["failures"].detail == "3 of 243 requests failed: 2 × OutOfMemory, 1 × unknown"


def test_all_failed_has_failures_and_no_clock_to_doubt(made_sweep: ModuleType) -> None:
    rows = [{"planned_s": 0.1 * k, "status": "failed", "returned_s": 0.1 * k} for k in range(240)]
    assert judge(made_sweep, rows).keys() == {"failures"}


def test_a_late_client_is_named(made_sweep: ModuleType) -> None:
    def late(lag_s: float, e2e_s: float) -> list[dict[str, Any]]:
        return [
            {"planned_s": 0.1 * k, "sent_s": 0.1 * k + lag_s, "token_s": [0.1 * k + e2e_s]}
            for k in range(240)
        ]

    assert judge(made_sweep, late(0.009, 0.15)).keys() == set()
    assert judge(made_sweep, late(0.011, 0.15)).keys() == {"client-bound"}
    assert judge(made_sweep, late(0.011, 1.15)).keys() == set()  # 1 % of the mean E2E is 11.5 ms
    assert "p99 11.0 ms, limit 10.0 ms" in judge(made_sweep, late(0.011, 0.15))["client-bound"].detail


@pytest.mark.parametrize("drift_s", [0.01, -0.01])
def test_a_vague_clock_is_named(made_sweep: ModuleType, drift_s: float) -> None:
    clock = {"offset_s": 5.0, "uncertainty_s": 0.001, "drift_s": drift_s}
    assert judge(made_sweep, steady(), clock=clock).keys() == {"clock-vague"}  # 5 % of 150 ms is 7.5 ms
    assert judge(made_sweep, steady(), clock={**clock, "drift_s": None}) == {}
    assert judge(made_sweep, steady(), clock={**clock, "uncertainty_s": 0.008}).keys() == {"clock-vague"}


@pytest.mark.parametrize("end", ["two", None])
def test_another_replica_at_the_end_is_named(made_sweep: ModuleType, end: str | None) -> None:
    assert judge(made_sweep, steady(), incarnation_end=end).keys() == {"replica-changed"}


def test_a_gpu_that_others_computed_on_is_named_with_who_that_was(made_sweep: ModuleType) -> None:
    found = judge(made_sweep, steady(), gpu_strangers=("GPU 0: pid 7 (other, 1.0 GiB)",))
    assert found.keys() == {"shared-gpu"}
    assert found["shared-gpu"].detail == "others computed on it: GPU 0: pid 7 (other, 1.0 GiB)"


def test_a_naive_trial_whose_cap_fell_is_named_and_a_dynamic_one_is_not(made_sweep: ModuleType) -> None:
    found = judge(made_sweep, steady(), strategy="naive", min_cap=2)
    assert found["cap-fell"].detail == "out of memory: batches were of at most 2 for a while, not of 8"
    assert judge(made_sweep, steady(), strategy="dynamic", min_cap=2) == {}
