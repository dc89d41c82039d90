"""The reserve of an engine that cannot be measured: told and lived without, unless it was asked for by name."""

from collections.abc import Callable
from typing import Any

import pytest

from deployments.errors import BackendError
from deployments.reserve import Peak, fit
from experiments.capacity import BUDGET, Probe, probes
from experiments.config import AUTO, SweepConfig
from experiments.reserves import RESERVES, measured_reserve, recorded

FOUND = fit(
    Peak(rows=2, prompt_tokens=8, new_tokens=2, peak_bytes=5_000),
    Peak(rows=4, prompt_tokens=8, new_tokens=2, peak_bytes=9_000),
    100,
)
WHY = "neither its memory nor what a token of cache takes is known"


def answers(found: Any) -> Callable[..., Any]:
    async def call(method: str, prompt_tokens: int) -> Any:
        assert (method, prompt_tokens) == ("measure_reserve", 64)
        if isinstance(found, Exception):
            raise found
        return found

    return call


@pytest.fixture
def probe_of(made_config: Callable[..., SweepConfig]) -> Callable[..., Probe]:
    def make(**engine: Any) -> Probe:
        config = made_config(arrival_rate=[2.0], backends={"huggingface": engine})
        return probes(config)[0]

    return make


async def test_what_is_found_is_recorded_and_read_again(probe_of: Callable[..., Probe]):
    told: list[str] = []
    record = await measured_reserve(answers(FOUND), probe_of(), 64, told.append)
    assert recorded({"measured": {RESERVES: {"huggingface": record}}}) == {"huggingface": FOUND}
    assert told == []


@pytest.mark.parametrize(("found", "why"), [(None, WHY), (RuntimeError("trace\nit broke"), "it broke")])
async def test_what_cannot_be_measured_is_told(probe_of: Callable[..., Probe], found: Any, why: str):
    told: list[str] = []
    record = await measured_reserve(answers(found), probe_of(), 64, told.append)
    text = f"huggingface: the memory of a padded batch could not be measured ({why})"
    assert told == [f"warning: {text}: its batches have no limit"]
    assert recorded({"measured": {RESERVES: {"huggingface": record}}}) == {}
    with pytest.raises(BackendError) as error:
        await measured_reserve(answers(found), probe_of(**{BUDGET: AUTO}), 64, told.append)
    assert str(error.value) == f"{text}: give kv_budget_bytes in bytes"


def test_a_sweep_that_measured_none_has_none():
    assert recorded({"measured": {}}) == recorded({}) == {}
