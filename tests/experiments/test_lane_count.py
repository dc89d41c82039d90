"""How many lanes a machine has for a config, and the line that refuses more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import experiments.lane_count
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.lane_count import lane_count

SLEEPS = [{"strategy": "naive", "backends": "simulated", "max_batch_size": 2}]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`machine(cores=8, free_gb=4)`."""

    def is_like(*, cores: int = 8, free_gb: float = 4.0) -> None:
        monkeypatch.setattr(experiments.lane_count, "cores", lambda: cores)
        monkeypatch.setattr(
            experiments.lane_count, "cpu_threads", lambda asked: min(asked or cores - 1, cores)
        )
        monkeypatch.setattr(experiments.lane_count, "available_bytes", lambda: int(free_gb * 1e9))

    return is_like


@pytest.fixture
def sleeping(made_config: Callable[..., SweepConfig], random_prompts: Any) -> SweepConfig:
    return made_config(model=..., workload=random_prompts, strategies=SLEEPS)


def test_left_open_it_is_one_for_each_gpu_or_one(
    made_config: Callable[..., SweepConfig], sleeping: SweepConfig
) -> None:
    assert [lane_count(made_config(), 0, gpus) for gpus in (0, 1, 4)] == [1, 1, 4]
    assert [lane_count(sleeping, 0, gpus) for gpus in (0, 4)] == [1, 1]


def test_of_a_model_on_gpus_there_are_no_more_than_gpus(made_config: Callable[..., SweepConfig]) -> None:
    assert lane_count(made_config(), 3, 4) == 3
    with pytest.raises(ConfigError, match=r"^--lanes must be at most 4 here \(one for each GPU .*\), got 5$"):
        lane_count(made_config(), 5, 4)


def test_on_a_cpu_each_has_its_threads_and_the_client_a_core(
    made_config: Callable[..., SweepConfig], machine: Callable[..., None]
) -> None:
    machine(cores=8)
    assert lane_count(made_config(), 1, 0) == 1, "which may have all"
    with pytest.raises(ConfigError, match=r"at most 1 here \(7 threads each, 8 cores, .*; fewer `threads`"):
        lane_count(made_config(), 2, 0)
    narrow = made_config(backends={"huggingface": {"threads": 2}, "vllm": {"threads": 3}})
    assert lane_count(narrow, 2, 0) == 2
    with pytest.raises(ConfigError, match=r"at most 2 here \(3 threads each, "):
        lane_count(narrow, 3, 0)


def test_of_an_engine_that_sleeps_there_are_as_many_as_memory_holds(
    sleeping: SweepConfig, machine: Callable[..., None]
) -> None:
    machine(cores=2, free_gb=3.0)
    assert lane_count(sleeping, 7, 0) == 7
    with pytest.raises(ConfigError, match=r"at most 7 here \(each takes about .* 3\.0 GB are free\), got 8$"):
        lane_count(sleeping, 8, 0)


@pytest.mark.parametrize("given", ["x", "0", "-1", "1.5", ""])
def test_what_is_no_number_of_lanes_is_one_line(
    batchyard: Callable[..., Result], short_sweep: Callable[..., Path], given: str
) -> None:
    result = batchyard("sweep", short_sweep(), "--lanes", given)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"must be auto or a number of lanes, at least 1, got '{given}'" in line


def test_a_dry_run_says_what_so_many_lanes_take(
    batchyard: Callable[..., Result], short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    command = ("sweep", short_sweep(repeats=40), "--results", tmp_path / "none", "--dry-run")
    one, three = batchyard(*command), batchyard(*command, "--lanes", "3")
    assert "lanes: " not in one.stdout.replace("n lanes take", "")
    assert "Time on 3 lanes: " in three.stdout
    assert batchyard(*command, "--lanes", "3", "--json").stdout.count('"lanes": 3') == 1
