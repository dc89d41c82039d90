"""A sweep in virtual time whose costs are known: what a calibration must find again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployments.virtual.step_model import Linear
from experiments.config import SweepConfig
from experiments.explain.basis import Basis
from experiments.simulation.run import run_simulation
from experiments.simulation.simulation import Simulation

COSTS = {
    "huggingface": Linear(
        fixed_s=0.030,
        per_sequence_s=0.0007,
        per_context_token_s=2e-6,
        per_prefill_token_s=90e-6,
        per_prefill_token_sq_s=3e-7,
    ),
    "vllm": Linear(
        fixed_s=0.018,
        per_sequence_s=0.0004,
        per_context_token_s=1e-6,
        per_prefill_token_s=70e-6,
        per_prefill_token_sq_s=2e-7,
    ),
}
VALUES: dict[str, Any] = {
    "arrival_rate": [4, 30],
    "duration_s": 6,
    "strategies": [
        {"strategy": "dynamic", "backends": ["huggingface", "vllm"], "max_batch_size": 6, "max_wait_ms": 50},
        {"strategy": "continuous", "backends": "vllm", "max_batch_size": 6},
    ],
}


@pytest.fixture(scope="session")
def known_sweep(made_config: Callable[..., SweepConfig]) -> Callable[..., Path]:
    """`known_sweep(results, simulation={…})`: the folder of a sweep that ran on COSTS."""

    def run(results: Path, **changes: Any) -> Path:
        config = made_config(**{**VALUES, **changes})
        bases = {name: Basis(model=costs, kind="assumed", text="known") for name, costs in COSTS.items()}
        simulation = Simulation.of(config, bases, repeats=2)
        root = simulation.root(results)
        run_simulation(simulation, root, lambda _: None)
        return Path(root)

    return run


@pytest.fixture(scope="session")
def known(known_sweep: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that cuts its prompts into chunks."""
    return known_sweep(tmp_path_factory.mktemp("known"), simulation={"max_num_batched_tokens": 48})
