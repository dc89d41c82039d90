"""Theory as lines over arrival rate: delivered throughput, and the M/M/1 guide of each latency.

    throughput   min(λ, μ)·E[o]
    queue wait   what gathers a batch + the M/M/1 wait (its quantile, for a percentile)
    TTFT, E2E    that + the time until the first or the last token in the batch that λ makes

What gathers a batch: naive (N − 1) ÷ 2λ; dynamic at most its wait or until it is full, and less as the engine
is busier, (1 − ρ)·min(w, (N − 1) ÷ λ). Means beside a quantile: a guide to the shape, not a forecast.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from experiments.explain.explanation import Explanation
from experiments.explain.setting_theory import Theory
from experiments.theory import fill_wait_s, ideal_tokens_per_s, mm1_wait_quantile_s, mm1_wait_s
from results.findings import Guide

Place: TypeAlias = tuple[float, float]

POINTS = 60  # of a line
NEARLY = 0.995  # a latency line ends at this utilisation: beyond it there is none
PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def guides(explanation: Explanation) -> tuple[Guide, ...]:
    """Lines for every setting, over the rates of the config."""
    return tuple(_guide(theory, explanation.rates) for theory in explanation.theories)


def grid(rates: Sequence[float]) -> list[float]:
    """Rates that are even on a logarithmic axis, from the lowest to the highest."""
    low, high = min(rates), max(rates)
    if low == high:
        low, high = low / 2, high * 2
    step = (high / low) ** (1 / (POINTS - 1))
    return [low * step**place for place in range(POINTS)]


def gather_s(theory: Theory, rate: float) -> float:
    """How long a request waits for others to fill its batch."""
    if theory.setting.strategy == "naive":
        return fill_wait_s(theory.cap, rate)
    wait_ms = theory.setting.knobs.get("max_wait_ms")
    if wait_ms is None or rate >= theory.capacity:
        return 0.0
    idle = 1 - rate / theory.capacity
    return idle * float(min(wait_ms / 1e3, (theory.cap - 1) / rate))


def _guide(theory: Theory, rates: Sequence[float]) -> Guide:
    mean_output, knee = theory.work.outputs.mean(), theory.capacity
    delivered = [(rate, ideal_tokens_per_s(rate, knee, mean_output)) for rate in _with_knee(rates, knee)]
    requests = [(rate, min(rate, knee)) for rate, _ in delivered]
    lines = {"throughput_tokens_per_s": delivered, "throughput_requests_per_s": requests}
    lines |= dict(_latencies(theory, rates))
    return Guide(
        backend=theory.setting.backend,
        setting=theory.setting.label,
        capacity=knee,
        basis=theory.basis.text,
        lines={name: tuple(points) for name, points in lines.items() if points},
    )


def _with_knee(rates: Sequence[float], knee: float) -> list[float]:
    points = grid(rates)
    return sorted([*points, knee]) if points[0] < knee < points[-1] else points


def _latencies(theory: Theory, rates: Sequence[float]) -> Iterator[tuple[str, list[Place]]]:
    end = NEARLY * theory.capacity
    stable = [rate for rate in _with_knee(rates, end) if rate <= end]
    gathered = {rate: gather_s(theory, rate) for rate in stable}
    served = {rate: theory.service_at(rate) for rate in stable}
    for statistic in ("mean", *PERCENTILES):
        waits = {rate: gathered[rate] + _queued_s(theory, rate, statistic) for rate in stable}
        yield f"queue_wait_s_{statistic}", [(rate, waits[rate]) for rate in stable]
        yield f"ttft_s_{statistic}", [(rate, waits[rate] + served[rate][0]) for rate in stable]
        yield f"e2e_s_{statistic}", [(rate, waits[rate] + served[rate][1]) for rate in stable]


def _queued_s(theory: Theory, rate: float, statistic: str) -> float:
    if statistic == "mean":
        return mm1_wait_s(rate, theory.capacity)
    return mm1_wait_quantile_s(rate, theory.capacity, PERCENTILES[statistic])
