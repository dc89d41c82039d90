"""A run as tables: every token is where the schema says, and weighted sums equal sums over tokens."""

import numpy as np
import pyarrow as pa
import pytest

from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from deployments.virtual.tables import batch_tables, request_tables, steps_of, token_runs_of
from results.records import BATCHES, REQUESTS
from strategies.registry import create
from tests.deployments.virtual.token_times import token_steps, token_times_s

SETTINGS = {
    "cell_id": "cell",
    "attempt": 1,
    "strategy": "continuous",
    "setting": "continuous · 8",
    "max_batch_size": 8,
    "backend": "vllm",
    "model": "none",
    "device": "none",
    "rate": 10.0,
    "seed": 0,
    "repeat": 0,
}
DYADIC = Linear(fixed_s=2**-6, per_sequence_s=2**-9, per_prefill_token_s=2**-10)
PRESSED = Iteration(
    step=DYADIC,
    max_num_seqs=8,
    max_num_batched_tokens=12,
    order="prefill-first",
    kv=KVCache(blocks=24, block_tokens=4),
)


def a_run(name: str, engine: Lockstep | Iteration, drain_limit_s: float = np.inf, **knobs: float) -> Run:
    rng = np.random.default_rng(3)
    requests = RequestColumns(
        planned_s=np.cumsum(rng.integers(0, 8, 120)) / 2**5,
        prompt_tokens=np.append(rng.integers(1, 30, 119), 500 if isinstance(engine, Iteration) else 5),
        output_tokens=rng.integers(1, 40, 120),
        max_new_tokens=np.full(120, 40),
    )
    strategy = create(name, {"max_batch_size": 8, **knobs})
    return simulate(requests, strategy, engine, max_batch_size=8, drain_limit_s=drain_limit_s)


RUNS = {
    "lockstep": lambda: a_run("dynamic", Lockstep(step=DYADIC, prefill_chunk=8), max_wait_ms=125),
    "pressed": lambda: a_run("continuous", PRESSED),
    "cut off": lambda: a_run("continuous", PRESSED, drain_limit_s=0.5),
}


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]()


def test_the_runs_are_telling():
    pressed, cut = RUNS["pressed"](), RUNS["cut off"]()
    assert len(pressed.silences)
    assert pressed.counters.preemptions > 3
    assert cut.cut_off
    assert {0, 1, 2} == set(cut.status.tolist())


def test_every_request_has_its_row_and_its_steps(run):
    table = pa.concat_tables(request_tables(run, SETTINGS, rows=50))
    assert table.schema.equals(REQUESTS)
    assert len(table) == len(run.requests)
    for index, row in enumerate(table.to_pylist()):
        assert (row["request_id"], row["index"]) == (f"cell-{index}", index)
        flat = row["token_steps"] or []
        steps = [
            step for first, last in zip(flat[::2], flat[1::2], strict=True) for step in range(first, last + 1)
        ]
        assert steps == token_steps(run, index)
        assert len(steps) == row["output_tokens"]
        assert row["planned_s"] == row["sent_s"] == row["arrived_s"] == run.requests.planned_s[index]
        assert (row["error"] is not None) == (row["status"] == "failed")
        times_s = token_times_s(run, index)
        assert [row["first_token_s"], row["last_token_s"]] == (
            [times_s[0], times_s[-1]] if times_s else [None, None]
        )
        assert (row["last_token_s"] is None) == (row["output_tokens"] == 0)
        assert (row["preemptions"] is None) == isinstance(run.settings, Lockstep)


def test_every_batch_and_every_step_has_its_row(run):
    table = pa.concat_tables(batch_tables(run, SETTINGS, rows=40))
    assert table.schema.equals(BATCHES)
    rows = table.to_pylist()
    batches = [row for row in rows if row["kind"] == "batch"]
    steps = [row for row in rows if row["kind"] == "step"]
    for row in batches:
        members = np.flatnonzero(run.batch_id == row["batch_id"])
        prompts, outputs = run.requests.prompt_tokens[members], run.output_tokens[members]
        assert row["size"] == len(members)
        assert (row["prompt_tokens"], row["longest_prompt_tokens"]) == (prompts.sum(), prompts.max())
        assert (row["output_tokens"], row["longest_output_tokens"]) == (outputs.sum(), outputs.max())
        assert row["ended_s"] == run.returned_s[members].max()
        if isinstance(run.settings, Lockstep):
            assert row["padding_waste"] == pytest.approx(1 - prompts.mean() / prompts.max())
            assert row["lockstep_waste"] == pytest.approx(1 - outputs.mean() / outputs.max())
        else:
            assert row["padding_waste"] is row["lockstep_waste"] is None
    assert sum(row["steps"] for row in steps) == run.passes
    made = np.concatenate([token_steps(run, index) for index in range(len(run.requests))])
    for row in steps:
        inside = (made >= row["batch_id"]) & (made < row["batch_id"] + row["steps"])
        assert row["output_tokens"] == inside.sum()
        assert (row["kv_use"] is None) == isinstance(run.settings, Lockstep)
        assert row["ended_s"] > row["started_s"]


def test_gaps_and_windows_are_those_of_the_single_tokens(run):
    steps, tokens = steps_of(run), token_runs_of(run)
    times = [np.array(token_times_s(run, index)) for index in range(len(run.requests))]
    values, weights = tokens.gaps(steps)
    single = np.sort(np.concatenate([np.diff(of_one) for of_one in times]))
    np.testing.assert_array_equal(np.sort(np.repeat(values, weights)), single)
    largest, p99 = tokens.largest_gaps(steps, len(times))
    for index, of_one in enumerate(times):
        gaps = np.diff(of_one)
        if len(gaps):
            assert largest[index] == gaps.max()
            assert p99[index] == pytest.approx(np.percentile(gaps, 99), rel=1e-12)
        else:
            assert np.isnan([largest[index], p99[index]]).all()
    together = np.concatenate(times)
    for window_s in (0.0, 0.4, 1.0, 2.5, run.ended_s / 2, run.ended_s, run.ended_s + 1):
        (made,) = tokens.tokens_before(np.array([steps.ended_by(window_s)]))
        assert made == (together <= window_s).sum()
