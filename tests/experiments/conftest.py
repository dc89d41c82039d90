"""Configs and sweeps made in code, so that a test says only what it is about."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from experiments.capacity import resolve_rates
from experiments.cells import Cell, cells, cells_hash
from experiments.cli import app
from experiments.config import SweepConfig, parse
from experiments.inputs import input_hashes
from experiments.rows import settings
from experiments.sweep_record import sweep_root
from results.records import Failure, LaneTime
from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.results import made_sweep as made_sweep_module

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


@pytest.fixture
def short_sweep(config_values: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[..., Path]:
    """`short_sweep(duration_s=2)`: the file of a sweep of a few short cells on the simulated backend."""

    def write(**changes: Any) -> Path:
        short = {
            "model": ...,
            "workload": {
                "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}},
                "output_tokens": {"distribution": "fixed", "tokens": 4},
            },
            "duration_s": 3,
            "repeats": 1,
            "strategies": [
                {"strategy": "naive", "backends": "simulated", "max_batch_size": 2},
                {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 2, "max_wait_ms": 20},
            ],
        }
        path = tmp_path / "made.yaml"
        path.write_text(yaml.safe_dump(config_values(**{**short, **changes})))
        return path

    return write


@pytest.fixture
def started() -> Iterator[Callable[..., CommandProcess]]:
    """`started("sweep", config)`: the command in a process of its own, which ends with the test at the latest."""
    begun: list[CommandProcess] = []

    def start(*arguments: object) -> CommandProcess:
        begun.append(CommandProcess(*arguments))
        return begun[-1]

    yield start
    for one in begun:
        one.kill()


@pytest.fixture(scope="session")
def made_config(config_values: Callable[..., dict[str, Any]]) -> Callable[..., SweepConfig]:
    """The same, parsed."""
    return lambda **changes: parse(config_values(**changes))


@pytest.fixture(scope="session")
def batchyard() -> Callable[..., Result]:
    """`batchyard("ls", "--json")`: the command, run here, wide enough for its help."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=200)

    return run


@pytest.fixture(scope="session")
def made_sweep() -> ModuleType:
    """The module that makes sweeps: `made_sweep.make_sweep(root, repeats=3)`, `request_row`, `make_trial`, …"""
    return made_sweep_module


@pytest.fixture(scope="session")
def begun_sweep() -> Callable[..., Path]:
    """`begun_sweep(config, results, done=2, failed=1)`: a sweep's folder as a driver leaves it that was stopped.

    The first cells are done, the next ones failed; the rest is left.
    """

    def begin(config: SweepConfig, results: Path, *, done: int = 0, failed: int = 0) -> Path:
        resolved = resolve_rates(config, {})
        planned = cells(config, resolved)
        store = Store(sweep_root(config, results))
        store.write_sweep(
            {
                "name": config.name,
                "config_hash": config.config_hash,
                "config": dict(config.as_written),
                "resolved": resolved.to_dict(),
                "measured": {},
                "planned_cells": len(planned),
                "cells_hash": cells_hash(planned),
                "workload_hashes": {},
                "input_hashes": input_hashes(config),
                "provenance": {},
                "created_at": "2026-11-01T10:00:00+00:00",
            }
        )
        for cell in planned[:done]:
            attempt = store.begin_attempt(cell.cell_id)
            row = made_sweep_module.request_row(**_settings(cell), token_s=[0.5, 1.0])
            attempt.write_requests([row])
            knobs = {"strategy": cell.strategy, "setting": cell.setting, **cell.knobs}
            lasts = {"duration_s": cell.duration_s, "drain_limit_s": cell.drain_limit_s}
            held = {"total_s": 7.0, "lane_time": LaneTime(held_s=9.0)}
            attempt.finish(made_sweep_module.make_trial([row], knobs=knobs, **held, **lasts))
        for cell in planned[done : done + failed]:
            attempt = store.begin_attempt(cell.cell_id)
            attempt.fail(
                Failure(
                    cell_id=cell.cell_id,
                    attempt=attempt.number,
                    cause="engine-dead",
                    error="the engine is gone",
                    failed_at="2026-11-01T11:00:00+00:00",
                    lane_time=LaneTime(held_s=3.0),
                )
            )
        return Path(store.root)

    return begin


def _settings(cell: Cell) -> dict[str, Any]:
    return {**settings(cell, "cpu"), "attempt": 1}
