"""What rows say took how long, against cases worked by hand."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from experiments.calibration.observations import TERMS, Observations, iteration_rows, lockstep_rows
from results.records import BATCHES, REQUESTS

SETTINGS: dict[str, Any] = {
    "cell_id": "cell",
    "attempt": 1,
    "strategy": "s",
    "setting": "s",
    "backend": "vllm",
    "model": "m",
    "device": "cpu",
    "rate": 1.0,
    "seed": 0,
    "repeat": 0,
}


def requests(*rows: dict[str, Any]) -> pa.Table:
    """With what every row has."""
    full = [
        {
            **SETTINGS,
            "request_id": str(index),
            "index": index,
            "status": "finished",
            "target_output_tokens": 1,
            "output_tokens": len(row.get("token_s") or []),
            "planned_s": 0.0,
            **row,
        }
        for index, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(full, schema=REQUESTS)


def batches(kind: str, *rows: dict[str, Any]) -> pa.Table:
    full = [{**SETTINGS, "kind": kind, "batch_id": index, "size": 1, **row} for index, row in enumerate(rows)]
    return pa.Table.from_pylist(full, schema=BATCHES)


def told(observed: Observations) -> dict[str, list[float]]:
    return {term: observed.terms[:, place].tolist() for place, term in enumerate(TERMS)}


def batch(launched_s: float, ended_s: float, **more: Any) -> dict[str, Any]:
    return {
        "size": 2,
        "longest_prompt_tokens": 10,
        "longest_output_tokens": 4,
        "launched_s": launched_s,
        "ended_s": ended_s,
        "out_of_memory": False,
        **more,
    }


def test_a_lockstep_batch_is_padded_and_runs_to_its_longest_row():
    served = requests({"prompt_tokens": 10, "batch_id": 0}, {"prompt_tokens": 3, "batch_id": 0})
    found = lockstep_rows(served, batches("batch", batch(1.0, 3.5)))
    assert found.duration_s.tolist() == [2.5]
    assert told(found) == {
        "fixed_s": [4],
        "per_sequence_s": [8],
        "per_context_token_s": [2 * (11 + 12 + 13)],
        "per_prefill_token_s": [20],
        "per_prefill_token_sq_s": [200],
    }


def test_batches_that_were_cut_off_or_out_of_memory_are_left_out():
    served = requests(
        {"prompt_tokens": 5, "batch_id": 0},
        {"prompt_tokens": 5, "batch_id": 1, "status": "unfinished"},
    )
    found = lockstep_rows(served, batches("batch", batch(0, 1), batch(1, 2), batch(2, 3, out_of_memory=True)))
    assert (len(found), found.left_out) == (1, 2)


@pytest.fixture
def stepped() -> tuple[pa.Table, pa.Table]:
    """One request in the steps 0 to 2; one that joins in step 2; and one after an idle second."""
    served = requests(
        {"prompt_tokens": 10, "scheduled_s": 0.5, "token_s": [1.0, 1.2, 1.5]},
        {"prompt_tokens": 20, "scheduled_s": 1.25, "token_s": [1.5, 1.7]},
        {"prompt_tokens": 7, "scheduled_s": 2.8, "token_s": [3.0]},
    )
    ends = [(1.0, 10), (1.2, 0), (1.5, 20), (1.7, 0), (3.0, 7)]
    return served, batches("step", *({"ended_s": end, "prompt_tokens": prompt} for end, prompt in ends))


def test_a_step_begins_where_the_last_one_ended_or_where_its_first_request_was_scheduled(
    stepped: tuple[pa.Table, pa.Table],
):
    found = iteration_rows(*stepped)
    assert found.duration_s == pytest.approx([0.5, 0.2, 0.3, 0.2, 0.2])
    assert told(found) == {
        "fixed_s": [1, 1, 1, 1, 1],
        "per_sequence_s": [1, 1, 2, 1, 1],
        "per_context_token_s": [0, 11, 12, 21, 0],
        "per_prefill_token_s": [10, 0, 20, 0, 7],
        "per_prefill_token_sq_s": [100, 0, 400, 0, 49],
    }


def test_a_prompt_that_takes_several_steps_is_charged_for_its_parts():
    served = requests(
        {"prompt_tokens": 10, "scheduled_s": 0.0, "token_s": [2.0]},
        {"prompt_tokens": 3, "scheduled_s": 1.0, "token_s": [2.0, 3.0]},
    )
    steps = batches(
        "step", *({"ended_s": end, "prompt_tokens": n} for end, n in ((1.0, 6), (2.0, 7), (3.0, 0)))
    )
    found = iteration_rows(served, steps)
    assert found.duration_s == pytest.approx([1, 1, 1])
    assert told(found)["per_sequence_s"] == [1, 2, 1]
    assert told(found)["per_prefill_token_sq_s"] == [36, 100 - 36 + 9, 0]


def test_prompts_that_do_not_add_up_and_a_trial_with_a_preemption_lose_their_steps_with_prompts(
    stepped: tuple[pa.Table, pa.Table],
):
    served, steps = stepped
    rows = steps.to_pylist()
    rows[4]["prompt_tokens"] = 9
    found = iteration_rows(served, pa.Table.from_pylist(rows, schema=BATCHES))
    assert (len(found), found.left_out) == (4, 1)
    rows = steps.to_pylist()
    rows[1]["preemptions"] = 1
    found = iteration_rows(served, pa.Table.from_pylist(rows, schema=BATCHES))
    assert told(found)["per_prefill_token_s"] == [0, 0]


def test_no_steps_are_no_rows():
    assert len(iteration_rows(requests(), batches("step"))) == 0
    assert np.isfinite(lockstep_rows(requests(), batches("batch")).duration_s).all()
