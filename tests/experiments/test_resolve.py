"""Timing an engine for `auto`, without Ray: what a replica answers, and what it raises."""

from collections.abc import Callable
from typing import Any

import pytest

from deployments.errors import BackendError
from deployments.replica import Replica
from experiments.capacity import probes
from experiments.config import SweepConfig
from experiments.resolve import REPEATS, _time


@pytest.fixture
def simulated(made_config: Callable[..., SweepConfig]) -> SweepConfig:
    return made_config(
        model=...,
        arrival_rate="auto",
        duration_s="auto",
        strategies=[{"strategy": "naive", "backends": "simulated", "max_batch_size": 4}],
        backends={"simulated": {"fixed_ms": 1.0, "per_sequence_ms": 0.5}},
        workload={
            "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 4}},
            "output_tokens": {"distribution": "fixed", "tokens": 2},
        },
    )


async def test_the_first_timing_warms_up_and_is_not_used(simulated: SweepConfig):
    (probe,) = probes(simulated)
    replica = Replica()
    await replica.start(probe.backend, probe.model, probe.engine)
    asked: list[Any] = []

    async def call(method: str, *args: Any) -> Any:
        asked.append(args)
        return await getattr(replica, method)(*args)

    samples = await _time(call, probe, 4)
    assert (len(samples), len(asked)) == (REPEATS, REPEATS + 1)
    assert {sample.batch_size for sample in samples} == {4}
    assert {round(sample.step_s, 6) for sample in samples} == {0.003}


@pytest.mark.parametrize(
    ("raised", "told"), [(ValueError("trace\nit broke"), "it broke"), (KeyError(), "KeyError")]
)
async def test_an_engine_that_cannot_be_timed_is_told_in_one_line(
    simulated: SweepConfig, raised: Exception, told: str
):
    async def call(method: str, *args: Any) -> Any:
        wrapped = RuntimeError("a page of coloured traceback")
        wrapped.cause = raised  # as Ray wraps what a replica raises
        raise wrapped

    (probe,) = probes(simulated)
    with pytest.raises(BackendError) as error:
        await _time(call, probe, 4)
    assert str(error.value) == f"simulated could not be timed at batch 4: {told}"
