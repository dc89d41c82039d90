from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.workloads.written_trace import TICKS_PER_S, write_trace
from workloads.shape import Shape, shape
from workloads.spec import WorkloadSpec
from workloads.workload import generate, warmup, workload_hash

ROWS = 2000
Make = Callable[..., WorkloadSpec]


def recorded() -> list[tuple[int, int, int]]:
    """Bursty arrivals; no two rows have the same lengths."""
    gaps = np.random.default_rng(3).standard_gamma(0.25, ROWS) * TICKS_PER_S
    ticks = np.cumsum(gaps.astype(np.int64))
    return [(int(tick), place + 1, 2 * ROWS - place) for place, tick in enumerate(ticks)]


RECORDED = recorded()
SINCE_FIRST_S = np.array([row[0] - RECORDED[0][0] for row in RECORDED]) / TICKS_PER_S
RATE = (ROWS - 1) / SINCE_FIRST_S[-1]


@pytest.fixture
def replaying(tmp_path: Path) -> Make:
    path = write_trace(tmp_path / "trace.csv", RECORDED)

    def spec(**changes: Any) -> WorkloadSpec:
        return WorkloadSpec.model_validate(
            {"trace": {"path": str(path), **changes}, "prompts": {"source": "random"}}
        )

    return spec


def played(spec: WorkloadSpec, rate: float = RATE, duration_s: float = 1e9, repeat: int = 0) -> Shape:
    return shape(spec, rate=rate, duration_s=duration_s, seed=5, repeat=repeat)


def statistics(arrival_s: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Mean and variation of the gaps, their lag-1 correlation, and the dispersion of counts."""
    gaps = np.diff(arrival_s)
    counts = np.histogram(arrival_s, np.linspace(0, arrival_s[-1], 101))[0]
    lag_1 = np.corrcoef(gaps[:-1], gaps[1:])[0, 1]
    return float(gaps.mean()), gaps.std() / gaps.mean(), float(lag_1), counts.var(ddof=1) / counts.mean()


def test_at_its_own_rate_it_is_what_was_recorded(replaying: Make) -> None:
    made = played(replaying())
    np.testing.assert_allclose(made.arrival_s, SINCE_FIRST_S, atol=1e-9)
    assert made.prompt_tokens.tolist() == [row[1] for row in RECORDED]
    assert made.output_tokens.tolist() == [row[2] for row in RECORDED]
    assert made.max_new_tokens == 2 * ROWS


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_time_scale_of_2_is_twice_as_fast(replaying: Make, scale: float) -> None:
    spec = replaying(time_scale=scale)
    assert spec.trace is not None
    rates = spec.trace.rates()
    assert rates == pytest.approx((scale * RATE,))
    np.testing.assert_allclose(played(spec, rates[0]).arrival_s, SINCE_FIRST_S / scale, atol=1e-9)


@pytest.mark.parametrize("rate", [0.3, 7.0, 500.0])
def test_the_mean_rate_is_as_asked_and_bursts_stay_bursts(replaying: Make, rate: float) -> None:
    mean, *others = statistics(played(replaying(), rate).arrival_s)
    _, *as_recorded = statistics(SINCE_FIRST_S)
    assert mean == pytest.approx(1 / rate, rel=1e-12)
    assert others == pytest.approx(as_recorded, rel=1e-6)
    assert others[0] == pytest.approx(2.0, abs=0.15)
    assert abs(others[1]) < 0.1
    assert others[2] == pytest.approx(4.0, rel=0.4)


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_another_repeat_is_another_stretch_of_the_same_ring(replaying: Make, repeat: int) -> None:
    first, other = played(replaying()), played(replaying(), repeat=repeat)
    start = int(np.flatnonzero(first.prompt_tokens == other.prompt_tokens[0])[0])
    assert start > 0
    for name in ("prompt_tokens", "output_tokens"):
        np.testing.assert_array_equal(getattr(other, name), np.roll(getattr(first, name), -start))
    gaps = np.diff(first.arrival_s, append=ROWS / RATE)
    np.testing.assert_allclose(np.diff(other.arrival_s), np.roll(gaps, -start)[:-1], atol=1e-9)
    assert other.arrival_s[0] >= 0
    assert other.arrival_s[-1] < ROWS / RATE


def test_repeats_offer_the_rate_on_average(replaying: Make) -> None:
    spec, duration_s = replaying(), 20.0
    counts = [len(played(spec, 2.0, duration_s, repeat)) for repeat in range(1, 1500)]
    assert np.mean(counts) == pytest.approx(40.0, abs=4 * np.std(counts) / np.sqrt(len(counts)))


def test_other_seeds_and_repeats_begin_elsewhere_and_equal_ones_do_not(replaying: Make) -> None:
    spec = replaying()
    one, same, other = (
        shape(spec, rate=2.0, duration_s=50.0, seed=seed, repeat=1).prompt_tokens for seed in (1, 1, 2)
    )
    assert one.tolist() == same.tolist() != other.tolist()
    assert played(spec, repeat=1).prompt_tokens[0] != played(spec, repeat=2).prompt_tokens[0]


def test_a_period_shows_the_beginning_and_a_long_one_all_rows_once(replaying: Make) -> None:
    spec = replaying()
    whole, part = played(spec), played(spec, duration_s=100.0)
    assert len(whole) == ROWS
    assert len(part) == np.sum(whole.arrival_s < 100.0) > 10
    np.testing.assert_array_equal(part.arrival_s, whole.arrival_s[: len(part)])
    assert spec.lasts_s(4.0) == ROWS / 4.0
    assert len(played(spec, 4.0, spec.lasts_s(4.0))) == ROWS


def test_longer_prompts_and_outputs_are_cut_and_the_limit_is_what_is_left(replaying: Make) -> None:
    made = played(replaying(max_prompt_tokens=100, max_output_tokens=2500))
    assert made.prompt_tokens.tolist() == [min(100, row[1]) for row in RECORDED]
    assert made.output_tokens.tolist() == [min(2500, row[2]) for row in RECORDED]
    assert made.max_new_tokens == 2500


def test_laws_are_those_of_the_rows(replaying: Make) -> None:
    spec = replaying(max_output_tokens=2500, rows=500, skip_rows=100)
    made = played(spec, 1.0)
    for law, tokens in (
        (spec.prompt_law(), made.prompt_tokens),
        (spec.output_law(), made.output_tokens),
    ):
        assert law.mean() == pytest.approx(tokens.mean())
        assert law.maximum == tokens.max()
    assert len(made) == 500


LAWS = {
    "prompts": {"source": "random", "tokens": {"distribution": "uniform", "low": 8, "high": 40}},
    "output_tokens": {"distribution": "long-tail", "mean": 20, "skew": 0.4, "maximum": 90},
}


@pytest.mark.parametrize("process", ["poisson", "gamma", "constant", "trace"])
@pytest.mark.parametrize("repeat", [0, 3])
def test_a_shape_is_that_of_the_requests(replaying: Make, process: str, repeat: int) -> None:
    arrivals = {"process": process, "cv": 2.0 if process == "gamma" else None}
    spec = (
        replaying(max_prompt_tokens=300)
        if process == "trace"
        else WorkloadSpec.model_validate({**LAWS, "arrivals": arrivals})
    )
    given = {"rate": 3.0, "duration_s": 60.0, "seed": 1, "repeat": repeat}
    made = shape(spec, **given)
    requests = generate(spec, **given, vocabulary=100, encode=None)
    assert len(made) == len(requests) > 50
    assert made.arrival_s.tolist() == [request.planned_s for request in requests]
    assert made.prompt_tokens.tolist() == [len(request.prompt_ids) for request in requests]
    assert made.output_tokens.tolist() == [request.output_tokens for request in requests]
    assert {request.max_new_tokens for request in requests} == {made.max_new_tokens}
    assert made.prompt_tokens.dtype == made.output_tokens.dtype == np.int64


def test_requests_of_a_trace_are_the_same_again_and_differ_between_repeats(replaying: Make) -> None:
    def made(repeat: int) -> str:
        options = {"rate": 3.0, "duration_s": 60.0, "seed": 1, "vocabulary": 100, "encode": None}
        return workload_hash(generate(replaying(max_prompt_tokens=99), **options, repeat=repeat))

    assert made(0) == made(0) != made(1)


def test_warm_up_has_lengths_of_the_trace(replaying: Make) -> None:
    spec = replaying(rows=100)
    extra = warmup(spec, 50, seed=1, repeat=0, vocabulary=100, encode=None)
    assert {len(request.prompt_ids) for request in extra} <= {row[1] for row in RECORDED[:100]}
    assert {request.output_tokens for request in extra} <= {row[2] for row in RECORDED[:100]}


def test_a_recipe_with_a_trace_survives_being_written_and_read(replaying: Make) -> None:
    spec = replaying(time_scale=[1, 2], rows=50)
    assert WorkloadSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_what_was_done_to_the_rows_is_said(tmp_path: Path) -> None:
    rows = [(0, 50, 8), (5, 0, 8), (5, 10, 8), (5, 10, 0), (5, 40, 4), (9, 100, 8)]
    path = write_trace(tmp_path / "trace.csv", rows)
    spec = WorkloadSpec.model_validate({"trace": {"path": str(path), "max_prompt_tokens": 50}})
    assert spec.trace is not None
    assert spec.trace.notes() == [
        "2 rows without prompt or output tokens are left out, the first on line 3",
        "1 of 4 prompts are cut to 50 tokens; 75% of their tokens are left",
        "1 of 4 requests come at the time of the one before",
    ]


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        ([(3, 1, 1)], {}, "path {path}: must hold requests at 2 different times, got 1"),
        ([(3, 1, 1), (3, 2, 2)], {}, "path {path}: must hold requests at 2 different times, got 1"),
        ([(3, 1, 0), (4, 0, 2)], {}, "path {path}: must hold requests at 2 different times, got 0 (2 rows have no prompt or no output tokens)"),
        ([(3, 1, 1), (4, 1, 1)], {"skip_rows": 2}, "path {path}: must hold requests at 2 different times among the chosen rows, got 0"),
        ([(3, 1, 1), (4, 1, 1)], {"time_scale": [1, 2, 1.0]}, "time_scale must hold each value once, got 1 twice"),
        ([(4, 1, 1), (3, 1, 1)], {}, "path {path}:3: TIMESTAMP must not be before the row above, 2023-11-16 18:15:46.0000004, got 2023-11-16 18:15:46.0000003"),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_played_is_refused(
    tmp_path: Path, rows: list[tuple[int, int, int]], changes: dict[str, Any], message: str
) -> None:
    path = write_trace(tmp_path / "trace.csv", rows)
    with pytest.raises(ValidationError) as caught:
        WorkloadSpec.model_validate({"trace": {"path": str(path), **changes}})
    (error,) = caught.value.errors()
    assert error["loc"] == ("trace",)
    assert error["msg"] == f"Value error, {message.format(path=path)}"


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({**LAWS, "output_tokens": None}, "output_tokens is missing"),
        ({**LAWS, "prompts": {"source": "random"}}, "prompts.tokens is missing"),
        ({"arrivals": {"process": "poisson"}, "trace": ...}, "arrivals must be left out with trace, which has its own"),
        ({"prompts": LAWS["prompts"], "trace": ...}, "prompts.tokens must be left out with trace, which has its own"),
        ({"output_tokens": LAWS["output_tokens"], "trace": ...}, "output_tokens must be left out with trace, which has its own"),
        ({"max_new_tokens": 7, "trace": ...}, f"max_new_tokens must be at least the longest output of the trace, {2 * ROWS}, got 7"),
    ],
)  # fmt: skip
def test_lengths_come_from_laws_or_from_a_trace(tmp_path: Path, recipe: dict[str, Any], message: str) -> None:
    given = {"path": str(write_trace(tmp_path / "trace.csv", RECORDED))}
    with pytest.raises(ValidationError) as caught:
        WorkloadSpec.model_validate({key: given if value is ... else value for key, value in recipe.items()})
    (error,) = caught.value.errors()
    assert error["msg"] == f"Value error, {message}"
