"""A KV budget in a config: where it belongs, and what cannot be measured yet."""

from collections.abc import Callable

import pytest

from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.preflight import check


def test_a_budget_in_bytes_is_of_the_engine_that_pads(
    made_config: Callable[..., SweepConfig],
):
    plain, limited = made_config(), made_config(backends={"huggingface": {"kv_budget_bytes": 10**9}})
    assert all("kv_budget_bytes" not in setting.engine for setting in plain.settings)
    budgets = {setting.backend: setting.engine.get("kv_budget_bytes") for setting in limited.settings}
    assert budgets == {"huggingface": 10**9, "vllm": None}


def test_a_budget_that_is_not_measured_yet_is_refused_before_anything_is_started(
    made_config: Callable[..., SweepConfig],
):
    config = made_config(backends={"huggingface": {"kv_budget_bytes": "auto"}})
    with pytest.raises(
        ConfigError, match=r"backends\.huggingface\.kv_budget_bytes: must be in bytes.*not measured"
    ):
        check(config, print, offline=True)
