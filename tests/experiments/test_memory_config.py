"""A KV budget in a config: where it belongs, and what is measured for it."""

from collections.abc import Callable
from typing import Any

import pytest

from experiments.capacity import BUDGET, probes
from experiments.config import AUTO, SweepConfig


def test_a_budget_in_bytes_is_of_the_engine_that_pads(
    made_config: Callable[..., SweepConfig],
):
    plain, limited = made_config(), made_config(backends={"huggingface": {"kv_budget_bytes": 10**9}})
    assert all("kv_budget_bytes" not in setting.engine for setting in plain.settings)
    budgets = {setting.backend: setting.engine.get("kv_budget_bytes") for setting in limited.settings}
    assert budgets == {"huggingface": 10**9, "vllm": None}


@pytest.mark.parametrize(
    ("written", "measured"), [({}, True), ({BUDGET: AUTO}, True), ({BUDGET: 10**9}, False)]
)
@pytest.mark.parametrize("rates", [[2.0], "auto"])
def test_a_reserve_is_measured_unless_the_budget_is_given_in_bytes(
    made_config: Callable[..., SweepConfig], written: dict[str, Any], measured: bool, rates: Any
):
    config = made_config(arrival_rate=rates, backends={"huggingface": written})
    found = {probe.backend: probe for probe in probes(config)}
    assert {name for name, probe in found.items() if probe.reserve} == (
        {"huggingface"} if measured else set()
    )
    timed = {name for name, probe in found.items() if probe.batch_sizes}
    assert timed == ({"huggingface", "vllm"} if rates == "auto" else set())


def test_single_rows_need_no_reserve(made_config: Callable[..., SweepConfig]):
    alone = made_config(
        arrival_rate=[2.0], strategies=[{"strategy": "naive", "backends": "huggingface", "max_batch_size": 1}]
    )
    assert probes(alone) == ()
