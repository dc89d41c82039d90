"""Laws that hold of any run: Little's, and E2E = TTFT + (n − 1)·TPOT; a wrong stamp breaks them."""

from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from results.conservation import PRECISION, identity, left_s, littles_law
from results.findings import Findings
from results.metrics import with_metrics


def measured(made: ModuleType, *rows: dict[str, Any]) -> pa.Table:
    return with_metrics(
        made.request_table([made.request_row(**{"index": k, **row}) for k, row in enumerate(rows)])
    )


def test_the_mean_in_the_system_is_the_rate_times_the_mean_time_in_it(made_sweep: ModuleType) -> None:
    """From 0 to 4: one request until 1, two until 3, one until 4; λ = 2 ÷ 4, W = 3."""
    found = littles_law(measured(made_sweep, {"token_s": [3.0]}, {"planned_s": 1.0, "token_s": [2.0, 4.0]}))
    assert found == {"requests_in_system": 1.5, "little_error": 0.0}


def test_what_failed_leaves_when_it_came_back_and_what_never_did_is_not_counted(
    made_sweep: ModuleType,
) -> None:
    table = measured(
        made_sweep,
        {"status": "failed", "returned_s": 2.0},
        {"planned_s": 1.0, "token_s": [1.5], "status": "unfinished", "returned_s": 4.0},
        {"planned_s": 1.0, "status": "failed"},
    )
    assert left_s(table)[:2].tolist() == [2.0, 4.0]
    assert littles_law(table)["requests_in_system"] == (2 + 3) / 4


def test_equal_stamps_and_nothing_that_left_give_no_mean(made_sweep: ModuleType) -> None:
    nothing = {"requests_in_system": None, "little_error": None}
    assert littles_law(measured(made_sweep, {"status": "failed"}, {"status": "failed"})) == nothing
    assert littles_law(measured(made_sweep, {"planned_s": 1.0, "token_s": [1.0]})) == nothing


def test_every_trial_of_a_sweep_obeys_both(findings: Findings) -> None:
    for one in findings.trials:
        for name in ("little_error", "identity_error"):
            assert (one.metrics[name] or 0.0) <= PRECISION, name
        assert one.metrics["miscounted_requests"] == 0
        assert (one.metrics["requests_in_system"] or 0) > 0


def test_a_last_token_that_is_not_the_last_of_the_stamps_is_seen(made_sweep: ModuleType) -> None:
    right = {"token_s": [1.0, 1.5, 3.0]}
    assert identity(measured(made_sweep, right))["identity_error"] == 0
    wrong = identity(measured(made_sweep, right, {**right, "last_token_s": 4.0}))
    assert wrong["identity_error"] == pytest.approx(1 / 4)
    assert wrong["miscounted_requests"] == 0


def test_an_answer_with_more_stamps_than_tokens_is_counted(made_sweep: ModuleType) -> None:
    table = measured(made_sweep, {"token_s": [1.0, 2.0, 3.0], "output_tokens": 2}, {"token_s": [1.0]})
    assert identity(table)["miscounted_requests"] == 1


def test_without_stamps_of_tokens_the_formula_is_checked_and_one_token_needs_no_tpot(
    made_sweep: ModuleType,
) -> None:
    bare = {"token_s": None, "first_token_s": 1.0, "last_token_s": 3.0, "output_tokens": 3}
    assert identity(measured(made_sweep, bare, {"token_s": [0.5]})) == {
        "identity_error": 0.0,
        "miscounted_requests": 0.0,
    }


def test_nothing_finished_has_nothing_to_check(made_sweep: ModuleType) -> None:
    found = identity(measured(made_sweep, {"status": "failed"}))
    assert found == {"identity_error": None, "miscounted_requests": None}
