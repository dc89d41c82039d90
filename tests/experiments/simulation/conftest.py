"""A small config that is simulated in a second, as a file and as an object."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.config import SweepConfig
from experiments.explain.basis import bases
from experiments.simulation.simulation import Simulation

SMALL: dict[str, Any] = {
    "arrival_rate": [4, 60],
    "duration_s": 10,
    "strategies": [
        {"strategy": "naive", "backends": "huggingface", "max_batch_size": 4},
        {"strategy": "dynamic", "backends": ["huggingface", "vllm"], "max_batch_size": 4, "max_wait_ms": 50},
        {"strategy": "continuous", "backends": "vllm", "max_batch_size": 4},
    ],
}


@pytest.fixture(scope="session")
def written(config_values: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """`written(folder, repeats=2)`: the small config as a file."""

    def write(folder: Path, **changes: Any) -> Path:
        path = folder / "made.yaml"
        path.write_text(yaml.safe_dump(config_values(**{**SMALL, **changes})), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def small(made_config: Callable[..., SweepConfig]) -> Callable[..., Simulation]:
    """`small(repeats=2, seed=1)`: the small config, ready to run on the defaults."""

    def make(*, repeats: int = 2, hardware: str | None = None, **changes: Any) -> Simulation:
        config = made_config(**{**SMALL, **changes})
        return Simulation.of(config, bases(config, hardware=hardware), repeats=repeats)

    return make
