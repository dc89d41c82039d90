"""Orders and memory in virtual time: the very strategies, on an engine that charges for padding."""

import math
from dataclasses import replace

import numpy as np
import pytest

from deployments.virtual.driver import simulate
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.outcomes import FINISHED, REJECTED
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from deployments.virtual.tables import batch_tables, request_tables
from strategies.kv_budget import KVBudget
from strategies.registry import create

CAP, COUNT = 8, 600
STEP = Linear(fixed_s=0.02, per_sequence_s=0.0005, per_prefill_token_s=5e-5)


def mixed(*, classes: int = 1, target_s: float = math.inf) -> RequestColumns:
    """More than the engine keeps up with: half the prompts are short, half ten times as long."""
    rng = np.random.default_rng(7)
    return RequestColumns(
        planned_s=np.cumsum(rng.exponential(1 / 20, COUNT)),
        prompt_tokens=np.where(rng.random(COUNT) < 0.5, 32, 320) + rng.integers(0, 16, COUNT),
        output_tokens=np.full(COUNT, 16),
        max_new_tokens=np.full(COUNT, 16),
        priority=rng.integers(0, classes, COUNT),
        ttft_target_s=np.full(COUNT, target_s),
    )


def ran(requests: RequestColumns, budget: KVBudget | None = None, **knobs: object) -> Run:
    strategy = create("dynamic", {"max_batch_size": CAP, "max_wait_ms": 100, **knobs})
    return simulate(requests, strategy, Lockstep(step=STEP, budget=budget), max_batch_size=CAP)


def padding_waste(run: Run) -> float:
    """Of all batches together: the share of their prompts' blocks that is padding."""
    batch, prompts = run.batch_id, run.requests.prompt_tokens
    longest = np.zeros(len(run.launches), dtype=np.int64)
    np.maximum.at(longest, batch, prompts)
    return 1 - prompts.sum() / (run.launches["size"] * longest).sum()


def skips(run: Run) -> np.ndarray:
    """How many batches with a younger request each one saw launched while it waited."""
    youngest = np.zeros(len(run.launches), dtype=np.int64)
    np.maximum.at(youngest, run.batch_id, np.arange(COUNT))
    launched_s = run.launches["launched_s"]
    return np.array(
        [
            ((youngest[:own] > index) & (launched_s[:own] >= run.requests.planned_s[index])).sum()
            for index, own in enumerate(run.batch_id)
        ]
    )


def test_order_length_cuts_padding_and_waiting_and_keeps_its_bound():
    requests = mixed()
    fifo, by_length = ran(requests), ran(requests, order="length")
    assert [padding_waste(run) for run in (fifo, by_length)] == pytest.approx([0.461, 0.084], abs=0.002)
    waits_s = [np.mean(run.scheduled_s - requests.planned_s) for run in (fifo, by_length)]
    assert waits_s == pytest.approx([4.08, 2.09], abs=0.02)
    assert by_length.ended_s < fifo.ended_s
    bounds = (0, 2, 10, 50)
    reached = [skips(ran(requests, order="length", max_skips=bound)).max() for bound in bounds]
    assert reached[:3] == [0, 2, 10]
    assert 10 < reached[3] <= 50
    assert skips(fifo).max() == 0


def test_the_urgent_class_waits_less_and_the_others_keep_their_order():
    requests = mixed(classes=2)
    run = ran(requests, order="priority")
    waits_s = run.scheduled_s - requests.planned_s
    assert waits_s[requests.priority == 0].max() < waits_s[requests.priority == 1].max() / 2
    for priority in (0, 1):
        assert (np.diff(run.scheduled_s[requests.priority == priority]) >= 0).all()


def test_late_requests_are_rejected_with_a_reason_or_served_last():
    requests = mixed(target_s=1.0)
    rejecting = ran(requests, order="deadline", on_expired="reject")
    rejected = rejecting.status == REJECTED
    assert 0 < rejected.sum() < COUNT / 2
    assert {rejecting.errors[index] for index in np.flatnonzero(rejected)} == {
        (None, "its TTFT target had passed before it could be launched")
    }
    assert (rejecting.scheduled_s - requests.planned_s)[~rejected].max() < 1.0
    serving = ran(requests, order="deadline")
    assert (serving.status == FINISHED).all()
    waits_s = serving.scheduled_s - requests.planned_s
    assert (waits_s < 1.0).sum() > 2 * (ran(requests).scheduled_s - requests.planned_s < 1.0).sum()


def test_batches_keep_to_the_budget_and_say_that_memory_ended_them():
    budget = KVBudget(budget_bytes=4 * (336 + 16), bytes_per_token=1)
    run = ran(mixed(), budget)
    tables = batch_tables(run, {})
    rows = [row for table in tables for row in table.to_pylist() if row["kind"] == "batch"]
    for row in rows:
        assert row["size"] * (row["longest_prompt_tokens"] + 16) <= budget.budget_bytes
    assert sum(row["trigger"] == "memory" for row in rows) > len(rows) / 2
    assert (run.status == FINISHED).all()


def test_rows_say_the_class_and_the_target():
    def said(requests: RequestColumns) -> list[tuple[int, float | None]]:
        (table,) = request_tables(ran(requests), {"cell_id": "x"})
        return list(zip(table["priority"].to_pylist(), table["ttft_target_s"].to_pylist(), strict=True))

    terms = mixed(classes=3, target_s=1.5)
    assert said(terms) == [(one, 1.5) for one in terms.priority.tolist()]
    plain = replace(terms, priority=None, ttft_target_s=None)
    assert said(plain) == said(mixed()) == [(0, None)] * COUNT
