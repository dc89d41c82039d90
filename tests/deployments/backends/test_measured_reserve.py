"""The reserve and the budget of a real padded engine, in a replica that is near."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from deployments.backends import available_memory
from deployments.models import ModelSpec
from deployments.replica import Replica

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(tiny_model: Path) -> AsyncIterator[Replica]:
    started = Replica()
    spec = ModelSpec(name=str(tiny_model), dtype="float32")
    await started.start("huggingface", spec, {"threads": 1})
    yield started
    await started.stop()


async def test_a_measured_reserve_leaves_a_budget_of_at_most_half_of_the_memory(replica: Replica):
    reserve = await replica.measure_reserve(64)
    assert reserve is not None
    assert [one.tokens for one in reserve.peaks] == [2 * 66, 4 * 66]
    available = available_memory.available_bytes()
    assert available is not None
    found = await replica.budget(reserve, 128)
    assert found is not None
    assert found["free_bytes"] == found["kv_budget_bytes"] + found["reserve_bytes"]
    assert 0 < found["kv_budget_bytes"] <= found["free_bytes"] <= 0.6 * available  # others take and give too
    again = await replica.budget(reserve, 128)
    assert again == found  # once for each load


async def test_an_engine_that_forms_its_batch_anew_has_no_reserve():
    replica = Replica()
    await replica.start("simulated", None, {"engine": "iteration"})
    assert await replica.measure_reserve(64) is None
    assert await replica.budget(None, 128) is None
    await replica.stop()
