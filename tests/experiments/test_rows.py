"""What was seen becomes rows of the store's schema, on the client's time base."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployments.backends.backend import EngineStep, Output
from deployments.client import Exchange
from deployments.dispatcher import Batch
from deployments.service import BatchRun, Reply
from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.resolved import Resolved
from experiments.rows import batch_rows, request_id, request_row, settings, step_rows
from results.attempt import Attempt
from results.records import BATCHES, REQUESTS, SETTINGS
from results.store import Store
from strategies.strategy import Waiting
from workloads.request import Request

SHIFT_S = 10_000.0  # replica stamps are this much ahead of trial start
REQUEST = Request(index=7, planned_s=1.0, prompt_ids=(1, 2, 3), output_tokens=3, max_new_tokens=8)
STAMPS = (
    "arrived_s",
    "scheduled_s",
    "first_token_s",
    "last_token_s",
    "returned_s",
    "batch_id",
    "preemptions",
    "token_s",
    "output_hash",
)


@pytest.fixture
def cell(made_config: Callable[..., SweepConfig]) -> Cell:
    resolved = Resolved(rates=(4.0,), durations_s=(20.0,))
    return next(one for one in cells(made_config(), resolved) if one.strategy == "dynamic")


@pytest.fixture
def attempt(cell: Cell, tmp_path: Path) -> Attempt:
    return Store(tmp_path).begin_attempt(cell.cell_id)


def exchange(output: Output | None, **more: Any) -> Exchange:
    reply = output and Reply(output=output, arrived_s=SHIFT_S + 1.5, batch_id=2)
    return Exchange(request=REQUEST, sent_s=1.25, received_s=4.0, reply=reply, **more)


def output(**given: Any) -> Output:
    fields: dict[str, Any] = {
        "request_id": "x-7",
        "status": "finished",
        "scheduled_s": SHIFT_S + 2.0,
        "token_s": (SHIFT_S + 2.25, SHIFT_S + 2.5, SHIFT_S + 3.0),
        "output_ids": (9, 8, 7),
        "returned_s": SHIFT_S + 3.5,
        "preemptions": 1,
    }
    return Output(**(fields | given))


def test_settings_fill_every_column_that_rows_repeat_but_the_attempt(cell: Cell):
    row = settings(cell, "cpu")
    assert set(row) == {field.name for field in SETTINGS} - {"attempt"}
    assert (row["strategy"], row["max_batch_size"], row["max_wait_ms"], row["timer"]) == (
        "dynamic",
        2,
        50.0,
        "arrival",
    )
    assert (row["cell_id"], row["backend"], row["device"], row["rate"]) == (cell.cell_id, "vllm", "cpu", 4.0)


def test_a_cell_without_a_model_names_none(made_config: Callable[..., SweepConfig]):
    config = made_config(
        model=...,
        strategies=[{"strategy": "naive", "backends": "simulated", "max_batch_size": 2}],
        workload={
            "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 4}},
            "output_tokens": {"distribution": "fixed", "tokens": 2},
        },
    )
    row = settings(cells(config, Resolved(rates=(1.0,), durations_s=(1.0,)))[0], "none")
    assert (row["model"], row["max_wait_ms"], row["timer"]) == ("none", None, None)


def test_a_finished_request_has_all_stamps_from_trial_start(cell: Cell, attempt: Attempt):
    row = request_row(settings(cell, "cpu"), exchange(output()), SHIFT_S)
    assert set(row) == set(REQUESTS.names) - {"attempt", "token_steps"}
    client = (row["planned_s"], row["sent_s"], row["received_s"])
    assert client == (1.0, 1.25, 4.0)
    replica = (row["arrived_s"], row["scheduled_s"], row["first_token_s"], row["last_token_s"])
    assert replica == (1.5, 2.0, 2.25, 3.0)
    assert (row["returned_s"], row["token_s"]) == (3.5, [2.25, 2.5, 3.0])
    assert (row["status"], row["error"], row["cause"]) == ("finished", None, None)
    assert (row["prompt_tokens"], row["target_output_tokens"], row["output_tokens"]) == (3, 3, 3)
    assert (row["batch_id"], row["preemptions"], row["index"]) == (2, 1, 7)
    assert row["request_id"] == request_id(cell.cell_id, 7) == f"{cell.cell_id}-7"
    attempt.write_requests([row])


def test_the_hash_tells_outputs_apart(cell: Cell):
    same = settings(cell, "cpu")
    hashes = [
        request_row(same, exchange(output(output_ids=ids)), SHIFT_S)["output_hash"]
        for ids in ((9, 8, 7), (9, 8, 7), (9, 8, 6), (9, 8))
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_a_call_that_failed_has_no_stamp_of_the_replica(cell: Cell, attempt: Attempt):
    row = request_row(settings(cell, "cpu"), exchange(None, error="gone", cause="ConnectionError"), SHIFT_S)
    assert (row["status"], row["error"], row["cause"]) == ("failed", "gone", "ConnectionError")
    assert (row["sent_s"], row["received_s"], row["output_tokens"]) == (1.25, 4.0, 0)
    assert all(row.get(name) is None for name in STAMPS)
    attempt.write_requests([row])


def test_what_never_ran_is_null_and_not_zero(cell: Cell, attempt: Attempt):
    cut = Output(request_id="x-7", status="unfinished")
    row = request_row(settings(cell, "cpu"), exchange(cut), SHIFT_S)
    assert (row["status"], row["arrived_s"], row["output_tokens"]) == ("unfinished", 1.5, 0)
    never = set(STAMPS) - {"arrived_s", "batch_id"}
    assert all(row[name] is None for name in never)
    attempt.write_requests([row])


def batch_run(outputs: tuple[int, ...], prompts: tuple[int, ...]) -> BatchRun:
    requests = tuple(
        Waiting(request_id=str(index), prompt_tokens=tokens, max_new_tokens=8, arrived_s=SHIFT_S)
        for index, tokens in enumerate(prompts)
    )
    batch = Batch(
        batch_id=3, requests=requests, trigger="age", cap=8, waiting_left=2, launched_s=SHIFT_S + 1.0
    )
    return BatchRun(batch=batch, outputs=outputs, ended_s=SHIFT_S + 2.0, out_of_memory=False)


def test_a_lockstep_batch_knows_its_padding_and_its_waste(cell: Cell, attempt: Attempt):
    run = batch_run((50, 120, 500, 80), (10, 20, 40, 10))
    (row,) = batch_rows(settings(cell, "cpu"), [run], SHIFT_S, lockstep=True)
    assert (row["kind"], row["batch_id"], row["size"], row["trigger"]) == ("batch", 3, 4, "age")
    assert (row["longest_prompt_tokens"], row["prompt_tokens"]) == (40, 80)
    assert (row["longest_output_tokens"], row["output_tokens"]) == (500, 750)
    assert (row["padding_waste"], row["lockstep_waste"]) == (0.5, 0.625)
    assert (row["waiting"], row["cap"], row["out_of_memory"]) == (2, 8, False)
    assert (row["launched_s"], row["ended_s"]) == (1.0, 2.0)
    attempt.write_batches([row])


def test_where_rows_leave_early_nothing_is_padded(cell: Cell, attempt: Attempt):
    rows = list(batch_rows(settings(cell, "cpu"), [batch_run((5, 1), (1, 9))], SHIFT_S, lockstep=False))
    assert [(row["padding_waste"], row["lockstep_waste"]) for row in rows] == [(None, None)]
    attempt.write_batches(rows)


def test_an_engine_step_is_a_row_of_its_own_kind(cell: Cell, attempt: Attempt):
    step = EngineStep(
        end_s=SHIFT_S + 0.5,
        running=4,
        waiting=3,
        tokens=4,
        prefill_tokens=16,
        kv_use=0.25,
        preemptions=1,
    )
    rows = list(step_rows(settings(cell, "cpu"), [step, step], SHIFT_S))
    assert [(row["kind"], row["batch_id"]) for row in rows] == [("step", 0), ("step", 1)]
    assert set(rows[0]) <= set(BATCHES.names)
    assert (rows[0]["size"], rows[0]["waiting"], rows[0]["output_tokens"]) == (4, 3, 4)
    assert (rows[0]["prompt_tokens"], rows[0]["ended_s"], rows[0]["kv_use"]) == (16, 0.5, 0.25)
    attempt.write_batches(rows)


def test_a_row_says_the_class_and_the_target_of_its_request(cell: Cell):
    one = dataclasses.replace(
        exchange(None), request=dataclasses.replace(REQUEST, priority=2, ttft_target_s=0.5)
    )
    rows = [request_row(settings(cell, "cpu"), each, 0.0) for each in (one, exchange(None))]
    assert [(row["priority"], row["ttft_target_s"]) for row in rows] == [(2, 0.5), (0, None)]
