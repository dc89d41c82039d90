"""The fast iteration engine equals the plain loop over steps, to the last bit.

Costs and times are dyadic, so that sums are exact in whatever order they are taken.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.outcomes import FAILED, FINISHED, UNFINISHED
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from strategies.continuous import Continuous
from tests.deployments.virtual.step_by_step import Outcome, StepByStep
from tests.deployments.virtual.token_times import token_times_s

FLAT = Linear(fixed_s=2**-5, per_sequence_s=2**-8, per_prefill_token_s=2**-10)
GROWING = Linear(
    fixed_s=2**-6,
    per_sequence_s=2**-9,
    per_context_token_s=2**-12,
    per_prefill_token_s=2**-9,
    per_prefill_token_sq_s=2**-14,
)


# Made once, for making a strategy takes longer than running a case.
GAPS = st.sampled_from([1, 1, 6, 24])  # the widest
ROWS = st.lists(
    st.tuples(st.integers(0, 24), st.integers(1, 40), st.integers(1, 30), st.integers(0, 10)),
    min_size=1,
    max_size=24,
)
SLOTS = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 8, 8])
BLOCK_TOKENS = st.sampled_from([1, 2, 4, 5, 16])
MOSTLY = st.sampled_from([True] * 7 + [False])
MORE_BLOCKS = st.integers(0, 2**10)
ADMISSION = st.sampled_from(["optimistic", "optimistic", "optimistic", "reserve"])
PREEMPTION = st.sampled_from(["recompute", "swap"])
STEPS = st.sampled_from([FLAT, GROWING])
BEYOND_SLOTS = st.none() | st.integers(0, 40)
CHUNKS = st.none() | st.integers(1, 20)
ORDERS = st.sampled_from(["decode-first", "prefill-first"])


@st.composite
def workloads(draw: st.DrawFn) -> RequestColumns:
    widest = draw(GAPS)
    gaps, prompts, outputs, more = map(np.array, zip(*draw(ROWS), strict=True))
    return RequestColumns(
        planned_s=np.cumsum(gaps % (widest + 1)) / 2**6,
        prompt_tokens=prompts,
        output_tokens=outputs,
        max_new_tokens=outputs + more,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[RequestColumns, Iteration]:
    """A cache, where there is one, mostly holds one to two of the largest request: most cases preempt or wait."""
    requests = draw(workloads())
    slots = draw(SLOTS)
    kv = draw(CACHES)(requests) if draw(MOSTLY) else None
    beyond = draw(BEYOND_SLOTS)
    engine = Iteration(
        step=draw(STEPS),
        max_num_seqs=slots,
        max_num_batched_tokens=None if beyond is None else slots + beyond,
        prefill_chunk=draw(CHUNKS),
        order=draw(ORDERS),
        kv=kv,
    )
    return requests, engine


def cache(
    roomy: bool, more: int, block_tokens: int, admission: str, preemption: str
) -> Callable[..., KVCache]:
    """Of `need` blocks for the largest request: up to as many more if roomy, else 1 to `need`."""

    def of(requests: RequestColumns) -> KVCache:
        need = int((requests.prompt_tokens + requests.max_new_tokens).max()) // block_tokens + 1
        return KVCache(
            blocks=need + more % (need + 1) if roomy else 1 + more % need,
            block_tokens=block_tokens,
            admission=admission,
            preemption=preemption,
            bytes_per_token=2**10,
            swap_bytes_per_s=2.0**20,
        )

    return of


CACHES = st.builds(cache, MOSTLY, MORE_BLOCKS, BLOCK_TOKENS, ADMISSION, PREEMPTION)


def continuous(requests: RequestColumns, engine: Iteration, **more: float) -> Run:
    return simulate(requests, Continuous(max_batch_size=8), engine, max_batch_size=8, occupancy=True, **more)


def assert_same(run: Run, plain: Outcome) -> None:
    for one in plain.sequences:
        assert token_times_s(run, one.index) == one.token_s
        assert run.preemptions[one.index] == one.preemptions
    stamps = [
        (run.scheduled_s, [one.scheduled_s for one in plain.sequences]),
        (run.first_token_s, [one.token_s[0] if one.token_s else math.nan for one in plain.sequences]),
        (run.last_token_s, [one.token_s[-1] if one.token_s else math.nan for one in plain.sequences]),
    ]
    for fast, slow in stamps:
        np.testing.assert_array_equal(fast, np.array(slow))
    counters = run.counters
    assert run.passes == plain.steps
    assert counters.preemptions == plain.preemptions
    assert counters.recomputed_tokens == plain.recomputed_tokens
    assert counters.swapped_bytes == plain.swapped_bytes
    assert counters.peak_blocks == plain.peak_blocks


@settings(max_examples=1500, deadline=None)
@given(case=cases())
def test_the_fast_engine_equals_the_plain_loop(case):
    requests, engine = case
    run, plain = continuous(requests, engine), StepByStep(engine, requests).run()
    assert_same(run, plain)
    assert [FAILED if one.failed else FINISHED for one in plain.sequences] == run.status.tolist()
    np.testing.assert_array_equal(run.returned_s, [one.ended_s for one in plain.sequences])
    assert run.ended_s == plain.ended_s
    assert run.runs["preemptions"].sum() == plain.preemptions


@settings(max_examples=500, deadline=None)
@given(case=cases(), limit=st.integers(0, 200))
def test_what_is_cut_off_keeps_the_tokens_of_whole_steps(case, limit):
    requests, engine = case
    stop_s = float(requests.planned_s[-1]) + limit / 2**7
    run = continuous(requests, engine, drain_limit_s=limit / 2**7)
    plain = StepByStep(engine, requests).run(until_s=stop_s)
    assert_same(run, plain)
    ended = [
        FAILED if one.failed else UNFINISHED if math.isnan(one.ended_s) else FINISHED
        for one in plain.sequences
    ]
    assert run.status.tolist() == ended
    assert run.cut_off == (UNFINISHED in ended)


@pytest.mark.parametrize("order", ["decode-first", "prefill-first"])
@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_the_cases_hold_pressure_on_the_cache(order, preemption):
    """The random cases are worth little if nothing is ever preempted, put off or cut into chunks."""
    rng = np.random.default_rng(5)
    requests = RequestColumns(
        planned_s=np.cumsum(rng.integers(0, 4, 400)) / 2**6,
        prompt_tokens=rng.integers(1, 60, 400),
        output_tokens=rng.integers(1, 90, 400),
        max_new_tokens=np.full(400, 90),
    )
    engine = Iteration(
        step=GROWING,
        max_num_seqs=16,
        max_num_batched_tokens=24,
        prefill_chunk=10,
        order=order,
        kv=KVCache(
            blocks=60, block_tokens=8, preemption=preemption, bytes_per_token=2**10, swap_bytes_per_s=2.0**20
        ),
    )
    run = continuous(requests, engine)
    assert_same(run, StepByStep(engine, requests).run())
    assert run.counters.preemptions > 50
    assert (run.counters.swapped_bytes if preemption == "swap" else run.counters.recomputed_tokens) > 0
