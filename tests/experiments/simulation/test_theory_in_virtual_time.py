"""The formulas of theory against runs in virtual time: capacities where all requests wait, batches where they keep up."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.kv_cache import Admission, KVCache
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from experiments.theory import (
    Work,
    batch_at,
    gated_capacity,
    iteration_capacity,
    kv_batch,
    lockstep_capacity,
)
from strategies.registry import create
from workloads import lengths

CAP = 32
MODEL = Linear(per_context_token_s=1e-7)
WORK = Work(
    prompts=lengths.uniform(low=16, high=96),
    outputs=lengths.lognormal(median=40, sigma=0.9, minimum=1, maximum=256),
)
LIMIT_TOKENS, BLOCK_TOKENS = 256, 16


def evenly(law: lengths.LengthLaw, count: int) -> NDArray[np.int64]:
    """`count` lengths in the shares of their law, so that their mean is no matter of luck."""
    return law.values[np.searchsorted(law.cumulative, (np.arange(count) + 0.5) / count)]


def run(
    strategy: str,
    engine: Lockstep | Iteration,
    *,
    requests: int,
    cap: int = CAP,
    rate: float = 1e6,
    **knobs: Any,
) -> tuple[RequestColumns, Run]:
    rng = np.random.default_rng(3)
    columns = RequestColumns(
        planned_s=np.cumsum(rng.exponential(1 / rate, requests)),
        prompt_tokens=WORK.prompts.draw(rng, requests),
        output_tokens=rng.permutation(evenly(WORK.outputs, requests)),
        max_new_tokens=np.full(requests, LIMIT_TOKENS),
    )
    chosen = create(strategy, {"max_batch_size": cap, **knobs})
    return columns, simulate(columns, chosen, engine, max_batch_size=cap)


def saturated(strategy: str, engine: Lockstep | Iteration, *, requests: int, cap: int = CAP) -> float:
    """Requests/s while work is left to fill every batch: the middle of a run that has them all at once."""
    returned_s = np.sort(run(strategy, engine, requests=requests, cap=cap)[1].returned_s)
    first, last = requests // 4, requests * 3 // 4
    return float((last - first) / (returned_s[last] - returned_s[first]))


def joined(cap: int = CAP, kv: KVCache | None = None) -> Iteration:
    return Iteration(step=MODEL, max_num_seqs=cap, max_num_batched_tokens=None, kv=kv)


def test_capacity_of_padded_batches():
    assert saturated("naive", Lockstep(step=MODEL), requests=400 * CAP) == pytest.approx(
        lockstep_capacity(WORK, MODEL, CAP), rel=0.02
    )


def test_capacity_of_slots_that_are_filled_again():
    assert saturated("continuous", joined(), requests=8_000) == pytest.approx(
        iteration_capacity(WORK, MODEL, CAP), rel=0.02
    )


def test_capacity_of_gated_batches_whose_rows_leave():
    found = saturated("naive", joined(), requests=400 * CAP)
    assert found == pytest.approx(gated_capacity(WORK, MODEL, CAP), rel=0.02)
    assert found > 1.1 * lockstep_capacity(WORK, MODEL, CAP)


@pytest.mark.parametrize(("admission", "rel"), [("optimistic", 0.1), ("reserve", 0.05)])
def test_capacity_where_the_cache_has_room_for_fewer_than_the_slots(admission: Admission, rel: float):
    """What is preempted is computed again, which theory leaves out."""
    pool = KVCache(blocks=150, block_tokens=BLOCK_TOKENS, admission=admission)
    reserved = WORK.reserved_tokens(LIMIT_TOKENS, BLOCK_TOKENS)
    each = reserved if admission == "reserve" else WORK.held_in_blocks(BLOCK_TOKENS)
    room = kv_batch(pool.blocks * BLOCK_TOKENS, each)
    assert room < 32
    engine = joined(64, pool)
    in_slots = saturated("continuous", engine, requests=6_000, cap=64)
    in_batches = saturated("naive", engine, requests=12_800, cap=64)
    assert in_slots == pytest.approx(iteration_capacity(WORK, MODEL, room), rel=rel)
    assert in_batches == pytest.approx(gated_capacity(WORK, MODEL, 64, room), rel=0.1)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_busy_dynamic_takes_what_arrives_while_as_many_are_served(share: float):
    rate = share * lockstep_capacity(WORK, MODEL, CAP)
    _, found = run("dynamic", Lockstep(step=MODEL), requests=6_000, rate=rate, max_wait_ms=0)
    expected = batch_at(rate, CAP, lambda batch: lockstep_capacity(WORK, MODEL, batch))
    assert found.launches["size"].mean() == pytest.approx(expected, rel=0.2)
