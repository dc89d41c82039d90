"""The shape of a workload: when requests come and how long they are, in columns, without their prompts.

What a simulation needs of a million requests. `workload.generate` adds prompts to exactly this.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from workloads import classes
from workloads.arrivals import Times, arrival_times, check_period
from workloads.replay import replay
from workloads.spec import WorkloadSpec
from workloads.streams import Streams
from workloads.trace_spec import TraceSpec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """Requests in order of arrival; place i of every column is request i."""

    arrival_s: Times  # planned, in [0, duration_s), never decreasing
    prompt_tokens: NDArray[np.int64]  # at least 1
    output_tokens: NDArray[np.int64]  # at least 1; for the backend alone
    max_new_tokens: int  # the declared limit of every request
    priority: NDArray[np.int64] | None = None  # class of each request; None: there are no classes
    ttft_target_s: NDArray[np.float64] | None = None  # None: there are no targets

    def __len__(self) -> int:
        return len(self.arrival_s)


def shape(spec: WorkloadSpec, *, rate: float, duration_s: float, seed: int, repeat: int) -> Shape:
    """The requests planned in [0, duration_s) at `rate` per second; may be none.

    WorkloadError if the recipe cannot be followed.
    """
    streams = Streams.of(seed, repeat)
    check_period(rate, duration_s)
    if spec.trace is not None:
        made = _recorded(spec, spec.trace, rate, duration_s, streams, repeat)
    else:
        made = _drawn(spec, rate, duration_s, streams)
    return _with_terms(made, spec, streams)


def _drawn(spec: WorkloadSpec, rate: float, duration_s: float, streams: Streams) -> Shape:
    planned = arrival_times(
        spec.arrivals.process,
        rate=rate,
        duration_s=duration_s,
        cv=spec.arrivals.cv,
        rng=streams.arrivals,
    )
    return Shape(
        arrival_s=planned,
        prompt_tokens=spec.prompt_law().draw(streams.prompt_tokens, len(planned)),
        output_tokens=spec.output_law().draw(streams.output_tokens, len(planned)),
        max_new_tokens=spec.limit_tokens,
    )


def _recorded(
    spec: WorkloadSpec, trace_spec: TraceSpec, rate: float, duration_s: float, streams: Streams, repeat: int
) -> Shape:
    trace = trace_spec.trace()
    begin = streams.arrivals.random() if repeat else 0.0
    planned, rows = replay(trace, rate=rate, duration_s=duration_s, begin=begin)
    return Shape(
        arrival_s=planned,
        prompt_tokens=trace.prompt_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        max_new_tokens=spec.limit_tokens,
    )


def _with_terms(made: Shape, spec: WorkloadSpec, streams: Streams) -> Shape:
    """The same requests with their classes and targets, where there are any."""
    drawn = classes.draw(spec.priority or (1.0,), streams.classes, len(made))
    return replace(
        made,
        priority=None if spec.priority is None else drawn,
        ttft_target_s=None if spec.ttft_target_ms is None else classes.targets_s(spec.ttft_target_ms, drawn),
    )
