"""Model bandwidth utilisation by hand, and null where something about it is not known."""

from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from results.bandwidth import of_trial, utilisation
from results.records import BATCHES

ENGINE = {"weight_bytes": 1_000, "kv_cache_bytes": 4_000, "bandwidth_bytes_per_s": 10_000.0}


def steps(made: ModuleType, *rows: dict[str, Any]) -> pa.Table:
    full = [made.batch_row(kind="step", **{"batch_id": k, **row}) for k, row in enumerate(rows)]
    return pa.Table.from_pylist(full, schema=BATCHES)


def trial(made: ModuleType, **engine: Any) -> Any:
    return made.make_trial([made.request_row(token_s=[1.0])], setup={"engine": ENGINE | engine})


def test_bytes_moved_over_what_the_device_could_have_moved() -> None:
    found = utilisation(1_000, np.array([1_000.0, 3_000.0]), np.array([0.5, 0.5]), 10_000)
    assert found == (2 * 1_000 + 4_000) / (1.0 * 10_000)
    assert utilisation(1_000, np.array([]), np.array([]), 10_000) is None


def test_a_trial_counts_its_decode_steps_alone(made_sweep: ModuleType) -> None:
    """Left out: the first step and the one after idling, whose start is not known, and one that prefills."""
    table = steps(
        made_sweep,
        {"size": 2, "ended_s": 1.0, "kv_use": 0.1},
        {"size": 2, "ended_s": 1.5, "kv_use": 0.25},
        {"size": 3, "ended_s": 2.5, "kv_use": 0.5, "prompt_tokens": 16},
        {"size": 0, "ended_s": 3.0, "kv_use": 0.0},
        {"size": 1, "ended_s": 9.0, "kv_use": 0.5},
    )
    assert of_trial(trial(made_sweep), table) == pytest.approx((1_000 + 0.25 * 4_000) / (0.5 * 10_000))


def test_a_row_for_several_steps_counts_as_many(made_sweep: ModuleType) -> None:
    table = steps(made_sweep, {"size": 1, "steps": 4, "started_s": 0.0, "ended_s": 2.0, "kv_use": 0.25})
    assert of_trial(trial(made_sweep), table) == pytest.approx(2_000 / 5_000)


@pytest.mark.parametrize("unknown", list(ENGINE))
def test_it_is_null_where_a_fact_is_not_known(made_sweep: ModuleType, unknown: str) -> None:
    table = steps(made_sweep, {"size": 1, "started_s": 0.0, "ended_s": 0.5, "kv_use": 0.25})
    assert of_trial(trial(made_sweep), table) is not None
    assert of_trial(trial(made_sweep, **{unknown: None}), table) is None
    assert of_trial(trial(made_sweep), table.slice(0, 0)) is None
