"""A config with a trace: its rates, its durations, and what is said of its rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from experiments.capacity import resolve_rates
from experiments.cells import cells
from experiments.config import SweepConfig, parse
from experiments.config_schema import config_schema
from experiments.errors import ConfigError
from experiments.traffic import traffic
from tests.workloads.written_trace import TICKS_PER_S, write_trace

ROWS = 100  # one a second, and the last prompt alone is long


@pytest.fixture
def values(tmp_path: Path, config_values: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    rows = [(place * TICKS_PER_S, 10 if place < ROWS - 1 else 90, 5) for place in range(ROWS)]
    path = write_trace(tmp_path / "trace.csv", rows)

    def values(trace: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        workload = {"trace": {"path": str(path), **(trace or {})}, "prompts": {"source": "random"}}
        naive = {"strategy": "naive", "backends": "simulated", "max_batch_size": 4}
        return config_values(workload=workload, model=..., **{"strategies": [naive]} | changes)

    return values


def resolved(config: SweepConfig) -> list[tuple[float, float]]:
    found = resolve_rates(config, {})
    return list(zip(found.rates, found.durations_s, strict=True))


def test_a_time_scale_says_the_rates_in_the_traces_own(values: Callable[..., dict[str, Any]]) -> None:
    config = parse(values({"time_scale": [2, 0.5]}, arrival_rate=..., duration_s=20))
    assert resolved(config) == [(0.5, 20.0), (2.0, 20.0)]
    as_recorded = parse(values({"time_scale": 1}, arrival_rate=...))
    assert {cell.rate for cell in cells(as_recorded, resolve_rates(as_recorded, {}))} == {1.0}


def test_a_trial_ends_where_the_trace_does_and_that_is_said(values: Callable[..., dict[str, Any]]) -> None:
    config = parse(values(arrival_rate=[1, 4], duration_s=60))
    assert resolved(config) == [(1.0, 60.0), (4.0, 25.0)]
    assert config.warnings == ["workload.trace: is over after 25 s at 4 requests/s, before duration_s 60"]
    automatic = parse(values(arrival_rate=[1, 10], duration_s=...))
    assert resolved(automatic) == [(1.0, 40.0), (10.0, 10.0)]
    assert automatic.warnings == []


def test_what_was_cut_is_said(values: Callable[..., dict[str, Any]]) -> None:
    config = parse(values({"max_prompt_tokens": 50}))
    assert config.warnings == [
        "workload.trace: 1 of 100 prompts are cut to 50 tokens; 96% of their tokens are left"
    ]


def test_all_strategies_of_a_repeat_get_the_same_rows(values: Callable[..., dict[str, Any]]) -> None:
    dynamic = {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 4, "max_wait_ms": [5, 9]}
    config = parse(values(strategies=[dynamic], arrival_rate=2))
    made = {(cell.repeat, traffic(cell).requests) for cell in cells(config, resolve_rates(config, {}))}
    assert len(made) == config.repeats == 2
    first = next(requests for repeat, requests in made if repeat == 0)
    assert [request.planned_s for request in first] == pytest.approx(np.arange(40) / 2)


def test_a_law_keeps_the_ids_of_cells_and_a_trace_is_part_of_them(
    values: Callable[..., dict[str, Any]], made_config: Callable[..., SweepConfig]
) -> None:
    of_laws = made_config().workload.model_dump(mode="json")
    assert set(of_laws) == {"arrivals", "prompts", "output_tokens", "max_new_tokens"}
    ids = {
        cells(config, resolve_rates(config, {}))[0].cell_id
        for config in (parse(values()), parse(values({"rows": 50})), parse(values({"skip_rows": 1})))
    }
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("trace", "changes", "fits"),
    [
        ({}, {}, True),
        ({"time_scale": 2.5, "max_prompt_tokens": 64}, {"arrival_rate": ...}, True),
        ({"time_scale": [1, 2], "rows": 50, "skip_rows": 3}, {"arrival_rate": ...}, True),
        ({"time_scale": None}, {}, True),
        ({"time_scale": 0}, {"arrival_rate": ...}, False),
        ({"time_scale": []}, {"arrival_rate": ...}, False),
        ({"time_scale": [1, 1]}, {"arrival_rate": ...}, False),
        ({"rows": 1}, {}, False),
        ({"scale": 2}, {}, False),
        ({"max_output_tokens": 0}, {}, False),
    ],
)
def test_the_schema_says_of_traces_what_the_check_says(
    values: Callable[..., dict[str, Any]], trace: dict[str, Any], changes: dict[str, Any], fits: bool
) -> None:
    given = values(trace, **changes)
    assert Draft202012Validator(config_schema()).is_valid(given) == fits
    if fits:
        parse(given)
    else:
        with pytest.raises(ConfigError, match=r"workload\.trace"):
            parse(given)
