"""Configs made in code, so that a test says only what it is about."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from experiments.config import SweepConfig, parse

VALUES: dict[str, Any] = {
    "name": "made",
    "model": "smollm2-135m",
    "workload": {
        "arrivals": {"process": "poisson"},
        "prompts": {"source": "english", "tokens": {"distribution": "uniform", "low": 16, "high": 64}},
        "output_tokens": {"distribution": "lognormal", "median": 8, "sigma": 0.8, "maximum": 32},
    },
    "arrival_rate": [1, 4],
    "duration_s": 20,
    "strategies": [
        {"strategy": "naive", "backends": ["huggingface", "vllm"], "max_batch_size": 4},
        {"strategy": "dynamic", "backends": "vllm", "max_batch_size": [2, 4], "max_wait_ms": [50, 500]},
        {"strategy": "continuous", "backends": ["vllm"], "max_batch_size": 4},
    ],
    "repeats": 2,
}


@pytest.fixture(scope="session")
def config_values() -> Callable[..., dict[str, Any]]:
    """`config_values(repeats=1)`: a good config with some top-level keys changed; `...` leaves one out."""

    def values(**changes: Any) -> dict[str, Any]:
        merged = copy.deepcopy(VALUES) | changes
        return {key: value for key, value in merged.items() if value is not ...}

    return values


@pytest.fixture(scope="session")
def random_prompts() -> dict[str, Any]:
    """The workload with prompts that need no tokenizer, as `simulated` does."""
    prompts = {"source": "random", "tokens": {"distribution": "uniform", "low": 16, "high": 64}}
    return {**copy.deepcopy(VALUES["workload"]), "prompts": prompts}


@pytest.fixture(scope="session")
def made_config(config_values: Callable[..., dict[str, Any]]) -> Callable[..., SweepConfig]:
    """The same, parsed."""
    return lambda **changes: parse(config_values(**changes))
