"""The pretended engines keep the arithmetic of the step model, in real time."""

import asyncio
from typing import Any

import pytest

from deployments.backends.backend import Output, Work
from deployments.backends.engine_args import SimulatedArgs
from deployments.backends.simulated import Simulated
from deployments.backends.simulated_tokens import tokens
from deployments.errors import BackendError
from deployments.virtual.step_model import Linear

FREE = {"fixed_ms": 0.0, "per_sequence_ms": 0.0, "per_1000_prefill_tokens_ms": 0.0}


def work(request_id: str, prompt_tokens: int, output_tokens: int) -> Work:
    return Work(request_id=request_id, prompt_ids=[7] * prompt_tokens, output_tokens=output_tokens)


async def started(**args: Any) -> Simulated:
    backend = Simulated(None, SimulatedArgs(**args))
    await backend.start()
    return backend


async def run(backend: Simulated, *batch: Work) -> dict[str, Output]:
    delivered: list[Output] = []
    await backend.run(batch, delivered.append)
    return {output.request_id: output for output in delivered}


def test_step_time_of_the_defaults() -> None:
    """The figures of the documented cost 22 + 0.35·B + 60·prefill/1000 ms."""
    model = SimulatedArgs().step_model
    assert model.step_s(1) == pytest.approx(0.02235)
    assert model.step_s(32) == pytest.approx(0.0332)
    assert model.step_s(16) == pytest.approx(0.0276)
    assert model.step_s(16, prefill_tokens=4_000) == pytest.approx(0.2676)


def test_the_engine_and_virtual_time_have_the_same_default_costs() -> None:
    costs, defaults = SimulatedArgs().step_model, Linear()
    assert [costs.step_s(b, prefill_tokens=p) for b, p in ((1, 0), (7, 300))] == pytest.approx(
        [defaults.step_s(b, prefill_tokens=p) for b, p in ((1, 0), (7, 300))]
    )


async def test_a_lockstep_batch_is_charged_for_padding_and_finished_rows() -> None:
    backend = await started(
        engine="lockstep", fixed_ms=1.0, per_sequence_ms=0.5, per_1000_prefill_tokens_ms=100.0
    )
    ended = await run(backend, work("a", 10, 2), work("b", 40, 5))
    first_s, decode_s = 1e-3 + 2 * 0.5e-3 + 2 * 40 * 100e-6, 1e-3 + 2 * 0.5e-3
    for request_id, length in (("a", 2), ("b", 5)):
        output = ended[request_id]
        assert output.scheduled_s is not None
        due = [output.scheduled_s + first_s + step * decode_s for step in range(length)]
        assert output.token_s == pytest.approx(due, abs=1e-9)
    assert ended["a"].returned_s == ended["b"].returned_s


async def test_a_cut_lockstep_batch_keeps_the_tokens_that_were_due() -> None:
    backend = await started(engine="lockstep", **FREE | {"fixed_ms": 20.0})
    whole = await run(backend, work("a", 3, 2))
    delivered: list[Output] = []
    open_run = asyncio.create_task(backend.run([work("a", 3, 2), work("b", 3, 3_000)], delivered.append))
    await asyncio.sleep(0.05)  # two steps' worth: this engine is a clock
    await backend.abort()
    await open_run
    a, b = delivered
    assert (a.status, b.status) == ("finished", "unfinished")
    assert a.output_ids == whole["a"].output_ids == b.output_ids[:2]
    assert b.returned_s is not None
    assert b.token_s[-1] <= b.returned_s < b.token_s[-1] + 0.020 + 1e-9, "not one token more was due"


async def test_iteration_admits_in_order_into_free_slots_and_frees_them_for_the_next_step() -> None:
    """Two slots; lengths 3, 1, 2: c takes b's slot in the second step, and everything ends in three."""
    backend = await started(engine="iteration", max_num_seqs=2, **FREE)
    ended = await run(backend, work("a", 5, 3), work("b", 6, 1), work("c", 7, 2))
    steps = backend.take_steps()
    assert [(s.running, s.waiting, s.tokens, s.prefill_tokens) for s in steps] == [
        (2, 1, 2, 11),
        (2, 0, 2, 7),
        (2, 0, 2, 0),
    ]
    ends = [step.end_s for step in steps]
    assert list(ended["a"].token_s) == ends
    assert list(ended["b"].token_s) == ends[:1]
    assert list(ended["c"].token_s) == ends[1:]
    assert ended["c"].scheduled_s is not None
    assert ended["c"].scheduled_s >= ends[0]


@pytest.mark.parametrize(("slots", "passes"), [(1, 20), (2, 12), (3, 9), (4, 7), (5, 6)])
async def test_iteration_gives_each_request_the_slot_that_frees_first(slots: int, passes: int) -> None:
    """Lengths 6, 3, 4, 2, 5. On two slots: 6+2 and 3+4+5 = 12 passes; on four: 2+5 = 7."""
    backend = await started(engine="iteration", max_num_seqs=slots, **FREE)
    await run(backend, *(work(str(length), 1, length) for length in (6, 3, 4, 2, 5)))
    assert len(backend.take_steps()) == passes


async def test_each_iteration_step_takes_at_least_its_step_time() -> None:
    backend = await started(
        engine="iteration", fixed_ms=2.0, per_sequence_ms=1.0, per_1000_prefill_tokens_ms=100.0
    )
    ended = await run(backend, work("a", 50, 4), work("b", 50, 4))
    a = ended["a"]
    assert a.scheduled_s is not None
    first_s, decode_s = 2e-3 + 2e-3 + 100 * 100e-6, 4e-3
    for step, stamp in enumerate(a.token_s):
        assert stamp - a.scheduled_s >= first_s + step * decode_s - 1e-3


async def test_a_run_that_begins_during_an_abort_is_served() -> None:
    backend = await started(engine="iteration", **FREE | {"fixed_ms": 1.0})
    delivered: list[Output] = []
    cut_run = asyncio.create_task(backend.run([work("cut", 3, 4_000)], delivered.append))
    await run(backend, work("signal", 3, 1))
    aborting = asyncio.create_task(backend.abort())
    async with asyncio.timeout(30):  # a lost request would never end
        ended, *_ = await asyncio.gather(run(backend, work("late", 3, 2)), aborting, cut_run)
    assert delivered[0].status == "unfinished"
    assert ended["late"].status == "finished"


async def test_a_cancelled_run_gives_its_slot_back() -> None:
    backend = await started(engine="iteration", max_num_seqs=1, **FREE | {"fixed_ms": 1.0})
    delivered: list[Output] = []
    blocking = asyncio.create_task(backend.run([work("blocking", 3, 4_000)], delivered.append))
    await asyncio.sleep(0)
    blocking.cancel()
    assert (await run(backend, work("next", 3, 2)))["next"].status == "finished"
    assert delivered == []
    assert len(backend.take_steps()) < 100, "the next one did not wait for 4,000 steps"


def test_tokens_depend_on_the_prompt_and_its_order() -> None:
    once = tokens([1, 2, 3], 50, 512)
    assert tokens([1, 2, 3], 20, 512) == once[:20]
    assert tokens([3, 2, 1], 50, 512) != once
    assert len(set(once)) > 40
    assert all(0 <= token < 512 for token in once)


async def test_a_load_that_misses_its_deadline_is_an_error() -> None:
    backend = Simulated(None, SimulatedArgs(load_s=60.0, start_deadline_s=0.01))
    with pytest.raises(BackendError, match=r"did not load within 0\.01 s"):
        await backend.start()


async def test_the_setup_says_that_it_is_simulated() -> None:
    backend = await started(fixed_ms=3.0)
    assert backend.setup["simulated"] is True
    assert backend.setup["fixed_ms"] == 3.0
    assert backend.memory().kind == "none"
