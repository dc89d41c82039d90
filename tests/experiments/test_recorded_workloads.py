"""A sweep goes on only with the requests that it began with, at every rate, however close two are."""

from collections.abc import Callable
from typing import Any

import pytest

from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.resolved import Resolved
from experiments.sweep_record import check_traffic, workload_hashes

RATES = (1.0000001, 1.0000002, 4.0)


@pytest.fixture
def planned(made_config: Callable[..., SweepConfig]) -> tuple[Cell, ...]:
    prompts = {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}}
    config = made_config(
        model=...,
        workload={"prompts": prompts, "output_tokens": {"distribution": "fixed", "tokens": 8}},
        strategies=[{"strategy": "naive", "backends": "simulated", "max_batch_size": 2}],
        repeats=1,
    )
    return cells(config, Resolved(rates=RATES, durations_s=(20.0,) * len(RATES)))


def test_rates_that_differ_in_the_eighth_digit_have_requests_of_their_own(planned: tuple[Cell, ...]) -> None:
    assert list(workload_hashes(planned)) == ["1.0000001/0", "1.0000002/0", "4.0/0"]


def test_other_requests_are_refused_and_the_rate_is_named(planned: tuple[Cell, ...]) -> None:
    hashes = workload_hashes(planned)
    check_traffic(planned, {"workload_hashes": hashes})
    changed: dict[str, Any] = {"workload_hashes": {**hashes, "1.0000001/0": "another"}}
    with pytest.raises(ConfigError, match=r"^the requests at rate/repeat 1\.0000001/0 are not those"):
        check_traffic(planned, changed)


def test_a_sweep_that_wrote_its_rates_in_short_goes_on(planned: tuple[Cell, ...]) -> None:
    whole = [cell for cell in planned if cell.rate == 4]
    (value,) = workload_hashes(whole).values()
    check_traffic(whole, {"workload_hashes": {"4/0": value}})
