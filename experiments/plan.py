"""What a sweep would do, or has left to do: cells, engine loads and time. Nothing is started or written.

Trials take what `trial_time` says. The constants are of the default sweep on 2 cores: first guesses, and said
to be that.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.virtual.step_model import StepModel
from experiments.capacity import AUTO_RATES, Probe, fewest_requests, probes, resolve_rates
from experiments.cells import Cell, blocks, cells
from experiments.config import SweepConfig
from experiments.explain.basis import SIMULATED, bases, measured
from experiments.resolved import Resolved
from experiments.trial_time import Span, TrialTimes, capacities, took, twin
from results.price import Price
from results.records import LaneTime, Trial

LOAD_S = {"vllm": 40.0, "simulated": 5.0}  # clearing the lane and loading a small model from a local disk
OTHER_LOAD_S = 20.0
TIMING_S = 5.0  # of one engine, once it is loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A sweep of the same name beside this one: an earlier run, or one of a config that was changed since."""

    name: str  # of its folder
    info: Mapping[str, Any]  # its sweep.json
    trials: Sequence[Trial]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cells of a sweep in two parts, done and left, and what the left ones cost on one lane."""

    begun: bool
    rates: tuple[float, ...] | None  # None: `auto`, not measured yet; the rates of `cells` are then 1, 2, 3
    cells: tuple[Cell, ...]
    left: tuple[Cell, ...]
    probes: tuple[Probe, ...]  # what `auto` would measure first
    loads: Mapping[str, int]  # engine loads by lane key, those of the probes too
    measuring: Span  # what the probes take, with their loads
    repeats: Mapping[int, Span]  # by repeat (from 0): what is left of it
    lanes: Mapping[tuple[str, int], Span]  # the same and `measuring`, by kind of GPU and GPUs of a lane
    grows_below: float | None  # automatic durations are longer at rates below this, which are not known yet
    known: int  # cells whose twins are done: their time is not a guess
    capacities_of: (
        str | None
    )  # whose step times the likely time of the other cells rests on; None: of nobody's

    @property
    def whole(self) -> Span:
        """All that is left."""
        return sum(self.repeats.values(), start=self.measuring)

    def cost(self, price: Price) -> Span | None:
        """Of all that is left, in the currency of the price; None where a kind of GPU has none."""
        whole = Span.of(0.0)
        for (kind, gpus), span in self.lanes.items():
            each = price.cost(LaneTime(held_s=1.0, gpus=gpus, kind=kind))
            if each is None:
                return None
            whole += span * each
        return whole


def make_plan(
    config: SweepConfig,
    info: Mapping[str, Any] | None,
    trials: Sequence[Trial],
    earlier: EarlierRun | None = None,
) -> Plan:
    """The plan of a sweep. `info`: its sweep.json if it has begun; `trials`: those that are done."""
    resolved, known_rates = _resolved(config, info)
    planned = cells(config, resolved)
    done = {trial.cell_id for trial in trials}
    left = tuple(cell for cell in planned if cell.cell_id not in done)
    to_time = probes(config) if info is None else ()
    times, capacities_of = trial_times(config, info, trials, earlier)
    warm = to_time[-1].lane_key if to_time else (info or {}).get("measured", {}).get("warm_lane")
    order = [
        [one for one in block if one.cell_id not in done] for block in blocks(planned, config.seed, warm)
    ]
    loads, repeats, lanes = _cost(order, to_time, times, isolate=config.isolate)
    measuring = _sum(load_span(probe.backend, probe.engine) + Span.of(TIMING_S) for probe in to_time)
    first = config.accelerator[0] if config.accelerator else "", config.lane_gpus
    lanes[first] = lanes.get(first, Span.of(0.0)) + measuring
    guessed = not known_rates and config.duration_s is None
    return Plan(
        begun=info is not None,
        rates=resolved.rates if known_rates else None,
        cells=planned,
        left=left,
        probes=to_time,
        loads=loads,
        measuring=measuring,
        repeats=repeats,
        lanes=lanes,
        grows_below=fewest_requests(config) / config.minimum_duration_s if guessed else None,
        known=sum(twin(cell) in times.took_s for cell in left),
        capacities_of=capacities_of,
    )


def trial_times(
    config: SweepConfig,
    info: Mapping[str, Any] | None,
    trials: Sequence[Trial],
    earlier: EarlierRun | None = None,
) -> tuple[TrialTimes, str | None]:
    """What is known of its trials, and in words whose step times their capacities rest on.

    The sweep's own, else those of an earlier run. Where there are none, automatic rates stand to the capacities
    as those of the simulated engine would; of written rates nothing is known then.
    """
    models: dict[str, StepModel] = {name: basis.model for name, basis in bases(config).items()}
    exact = {name: model for name, model in models.items() if name == SIMULATED}
    timed, said = measured(info or {}), "this sweep"
    if not timed and earlier is not None:
        timed, said = measured(earlier.info), earlier.name
    if info is not None or config.arrival_rate is not None:
        took_s = took([*(earlier.trials if earlier else ()), *trials])
        known = TrialTimes(took_s=took_s, capacities=capacities(config, {**exact, **timed}))
        return known, said if timed else "the config" if exact else None
    models |= timed
    places = (float(place) for place in range(1, len(AUTO_RATES) + 1))
    rates = dict(zip(places, resolve_rates(config, models).rates, strict=True))
    known = TrialTimes(capacities=capacities(config, models), rates=rates)
    return known, said if timed else "the simulated engine"


def _resolved(config: SweepConfig, info: Mapping[str, Any] | None) -> tuple[Resolved, bool]:
    """Rates and durations, and whether the rates are those that the sweep will have."""
    if info is not None:
        return Resolved.from_dict(info["resolved"]), True
    if config.arrival_rate is not None:
        return resolve_rates(config, {}), True
    duration_s = config.duration_s or config.minimum_duration_s
    count = len(AUTO_RATES)
    rates = tuple(float(place) for place in range(1, count + 1))
    return Resolved(rates=rates, durations_s=(duration_s,) * count), False


def _cost(
    order: Iterable[Sequence[Cell]], to_time: Sequence[Probe], times: TrialTimes, *, isolate: bool
) -> tuple[Counter[str], dict[int, Span], dict[tuple[str, int], Span]]:
    """Loads by lane key, and the time of each repeat and of each kind of lane, on one that keeps what it has loaded."""
    loads = Counter(probe.lane_key for probe in to_time)
    repeats: dict[int, Span] = {}
    lanes: dict[tuple[str, int], Span] = {}
    loaded = to_time[-1].lane_key if to_time else None
    for block in order:
        for cell in block:
            span = times.of(cell)
            if isolate or cell.lane_key != loaded:
                loads[cell.lane_key] += 1
                span += load_span(cell.backend, cell.engine)
            loaded = cell.lane_key
            repeats[cell.repeat] = repeats.get(cell.repeat, Span.of(0.0)) + span
            lane = cell.accelerator or "", cell.gpus
            lanes[lane] = lanes.get(lane, Span.of(0.0)) + span
    return loads, repeats, lanes


def load_span(backend: str, engine: Mapping[str, Any]) -> Span:
    """Of one engine."""
    return Span.of(LOAD_S.get(backend, OTHER_LOAD_S) + engine.get("load_s", 0.0))


def _sum(spans: Iterable[Span]) -> Span:
    return sum(spans, start=Span.of(0.0))


def to_dict(plan: Plan) -> dict[str, Any]:
    """Plain JSON values."""
    left = {cell.cell_id for cell in plan.left}
    return {
        "begun": plan.begun,
        "rates": list(plan.rates) if plan.rates is not None else "auto",
        "planned_cells": len(plan.cells),
        "done_cells": len(plan.cells) - len(plan.left),
        "cells": [
            {
                # An automatic dtype or rate is part of the id, and is measured first.
                "cell_id": cell.cell_id if plan.begun else None,
                "backend": cell.backend,
                "strategy": cell.strategy,
                "setting": cell.setting,
                "knobs": dict(cell.knobs),
                "rate": cell.rate if plan.rates is not None else "auto",
                "repeat": cell.repeat,
                "duration_s": cell.duration_s,
                "drain_limit_s": cell.drain_limit_s,
                "done": cell.cell_id not in left,
            }
            for cell in plan.cells
        ],
        "loads": [{"lane_key": key, "loads": count} for key, count in plan.loads.items()],
        "engine_loads": sum(plan.loads.values()),
        "auto_measures": [
            {
                "backend": probe.backend,
                "batch_sizes": list(probe.batch_sizes),
                "prompt_tokens": probe.prompt_tokens,
                "reserve": probe.reserve,
            }
            for probe in plan.probes
        ],
        "measuring": dataclasses.asdict(plan.measuring),
        "repeats": [{"repeat": repeat, **dataclasses.asdict(span)} for repeat, span in plan.repeats.items()],
        "whole": dataclasses.asdict(plan.whole),
        "durations_grow_below_rate": plan.grows_below,
        "capacities_of": plan.capacities_of,
    }
