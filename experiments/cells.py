"""Cells: the points of the grid, each with an identity that survives the sweep, and their order.

A cell's id is a hash of everything that was resolved for it (knobs and engine arguments with their
defaults, model, workload, rate, duration, seed), so the same cell is found again on resume and any
change makes another one. Repeats are blocks (Fisher's blocking): within each, every lane key is
visited once, so that neither a drift of the machine nor a reload of the model looks like a strategy.
"""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.backends.engine_args import lane_gpus
from deployments.models import ModelSpec
from experiments.config import SweepConfig
from experiments.resolved import Resolved
from workloads.workload import WorkloadSpec

DRAIN_LIMIT_AT_LEAST_S = 60.0  # default drain limit: the larger of this and the measured period


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the grid: strategy, knobs, backend, model, arrival rate, seed (repeat)."""

    cell_id: str
    strategy: str
    knobs: Mapping[str, Any]  # as resolved, with defaults
    setting: str  # label of strategy and knobs; not part of the id
    backend: str
    engine: Mapping[str, Any]  # engine arguments as resolved; what is absent is the engine's own choice
    model: ModelSpec | None  # None on a backend that loads none
    workload: WorkloadSpec
    rate: float  # requests/s
    duration_s: float
    drain_limit_s: float
    warmup_requests: int
    seed: int  # of the sweep; with `repeat` it seeds the workload, so the cells of a repeat are twins
    repeat: int  # from 0
    accelerator: str | None = None  # the kind of GPU; not part of the id where none was asked for

    @property
    def lane_key(self) -> str:
        """What a lane keeps loaded: cells with equal keys need no reload between them."""
        return lane_key(self.backend, self.model, self.engine)

    @property
    def gpus(self) -> int:
        """Of its lane."""
        return lane_gpus(self.engine)

    @property
    def in_words(self) -> str:
        """Which cell it is, for a person."""
        kind = f"  {self.accelerator}" if self.accelerator else ""
        return f"{self.backend}  {self.setting}{kind}  {self.rate:g} req/s  repeat {self.repeat + 1}"


def lane_key(backend: str, model: ModelSpec | None, engine: Mapping[str, Any]) -> str:
    """Canonical JSON of backend, model and engine arguments."""
    loaded = dataclasses.asdict(model) if model else None
    return _canonical({"backend": backend, "model": loaded, "engine": dict(engine)})


def cells(config: SweepConfig, resolved: Resolved) -> tuple[Cell, ...]:
    """Every cell of the sweep: settings in order of the config, then rates, then repeats."""
    return tuple(
        cell_at(config, resolved, index, rate, duration_s, repeat)
        for index in range(len(config.settings))
        for rate, duration_s in zip(resolved.rates, resolved.durations_s, strict=True)
        for repeat in range(config.repeats)
    )


def cells_hash(planned: Sequence[Cell]) -> str:
    """One hash over the ids of all cells of a sweep."""
    return hashlib.sha256(" ".join(sorted(cell.cell_id for cell in planned)).encode()).hexdigest()[:16]


def blocks(cells: Iterable[Cell], seed: int, first_lane: str | None = None) -> list[list[Cell]]:
    """The order of trials, one list per repeat: each lane key once, its cells in shuffled order.

    `cells` is the whole sweep, also when a part of it is done: what is left keeps the order it had.
    The lane keys are shuffled once and begin one later in each repeat, so that none is always early.
    `first_lane` is the key of the lane that is warm when the sweep begins: repeat 0 begins with it.
    """
    by_repeat: dict[int, list[Cell]] = {}
    for cell in cells:
        by_repeat.setdefault(cell.repeat, []).append(cell)
    keys = {cell.lane_key for of_repeat in by_repeat.values() for cell in of_repeat}
    lanes = sorted(keys, key=lambda key: (key != first_lane, _digest([seed, key])))
    return [_block(by_repeat[repeat], seed, lanes) for repeat in sorted(by_repeat)]


def cell_at(
    config: SweepConfig, resolved: Resolved, index: int, rate: float, duration_s: float, repeat: int
) -> Cell:
    """The cell of the setting `config.settings[index]` at this rate; of `resolved` only the dtype is read."""
    setting = config.settings[index]
    drain_limit_s = config.drain_limit_s
    if drain_limit_s is None:
        drain_limit_s = max(DRAIN_LIMIT_AT_LEAST_S, duration_s)
    cell = Cell(
        cell_id="",
        strategy=setting.strategy,
        knobs=setting.knobs,
        setting=setting.label,
        backend=setting.backend,
        engine=setting.engine,
        model=resolved.fixed(setting.model),
        workload=config.workload,
        rate=rate,
        duration_s=duration_s,
        drain_limit_s=drain_limit_s,
        warmup_requests=config.warmup_requests,
        seed=config.seed,
        repeat=repeat,
        accelerator=setting.accelerator,
    )
    return dataclasses.replace(cell, cell_id=_digest(_identity(cell)))


def _identity(cell: Cell) -> dict[str, Any]:
    fields = {f.name: getattr(cell, f.name) for f in dataclasses.fields(cell)}
    del fields["cell_id"], fields["setting"]
    if cell.accelerator is None:
        del fields["accelerator"]
    fields["model"] = dataclasses.asdict(cell.model) if cell.model else None
    fields["workload"] = cell.workload.model_dump(mode="json")
    return fields


def _block(cells: Sequence[Cell], seed: int, lanes: Sequence[str]) -> list[Cell]:
    """Kinds of GPU take turns, so that the lanes of one do not wait until cells of another are through."""
    turns = {key: number for number, key in enumerate(lanes)}
    shuffled = sorted(cells, key=lambda cell: _digest([seed, cell.repeat, cell.cell_id]))
    before: Counter[tuple[str, str | None]] = Counter()  # cells of the same lane key and kind
    places: dict[str, tuple[int, int]] = {}
    for cell in shuffled:
        alike = cell.lane_key, cell.accelerator
        places[cell.cell_id] = (turns[cell.lane_key] - cell.repeat) % len(lanes), before[alike]
        before[alike] += 1
    return sorted(shuffled, key=lambda cell: places[cell.cell_id])


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:12]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
