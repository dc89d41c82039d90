"""Resolving `auto`: a few seconds of measuring on the lanes that the sweep will use, recorded once.

Step times, for rates that are automatic; and of an engine that pads the reserve, for a KV budget that is. Where
that is not asked for by name a reserve that cannot be measured is told, and its batches have no limit.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from deployments import serve_loop
from deployments.errors import BackendError, ModelError, last_line
from deployments.idle_engine import Sample
from deployments.lane_board import board
from deployments.lanes import Call, Load, free_lane, occupy, raised_there, while_there
from deployments.models import Dtype, pick_dtype, weakest
from deployments.places import NODE_LABEL, Place
from deployments.virtual.step_model import StepModel
from experiments.capacity import BUDGET, Probe, fit, probes, resolve_rates, to_record
from experiments.config import SweepConfig
from experiments.held import Held
from experiments.reserves import RESERVES, measured_reserve
from experiments.resolved import Resolved
from results.price import TIMED
from results.records import LaneTime

OUTPUT_TOKENS = 8
REPEATS = 2  # of each timing; the first warms up and is not used
HOLDER = "resolve"
LOAD_TRIES, LOAD_AGAIN_S = 3, 5.0


async def resolve(config: SweepConfig, notify: Callable[[str], None]) -> tuple[Resolved, dict[str, Any]]:
    """Resolve dtype, rates and durations; with what they were derived from, for the record, by backend.

    `warm_lane` in it is the key of the lane that is loaded when this returns. ModelError or BackendError if
    an engine cannot be loaded.
    """
    times: dict[str, StepModel] = {}
    record: dict[str, Any] = {}
    reserves: dict[str, Any] = {}
    used: list[LaneTime] = []
    lanes = board()
    dtype = await _dtype(config, await lanes.places.remote())
    for probe in probes(config, dtype):
        notify(f"measuring {_what(probe)}: {probe.backend}")
        held = Held()
        kind = config.accelerator[0] if config.accelerator else None
        load = Load(key=probe.lane_key, backend=probe.backend, model=probe.model, engine=probe.engine)
        try:
            call = await _loaded(load, kind, held, probe, notify)
            if call is None:
                continue
            samples = [sample for size in probe.batch_sizes for sample in await _time(call, probe, size)]
            if probe.reserve:
                longest = config.workload.prompt_law().maximum
                reserves[probe.backend] = await measured_reserve(call, probe, longest, notify)
        finally:
            used.append(held.lane_time())
            await lanes.release.remote(HOLDER)
        if samples:
            times[probe.backend] = fitted = fit(samples)
            record[probe.backend] = {
                "samples": [asdict(sample) for sample in samples],
                "step_times": to_record(fitted),
            }
        record["warm_lane"] = probe.lane_key
    record |= {RESERVES: reserves} if reserves else {}
    record |= {TIMED: _together(used)} if used else {}
    return replace(resolve_rates(config, times), dtype=dtype), record


def _together(used: Sequence[LaneTime]) -> dict[str, Any]:
    """How long the lanes of all probes were held: they are of one kind."""
    whole = used[0].model_copy(update={"held_s": sum(one.held_s for one in used)})
    return whole.model_dump(mode="json")


def _what(probe: Probe) -> str:
    parts = ["step times"] if probe.batch_sizes else []
    return " and ".join([*parts, *(["the memory of a padded batch"] if probe.reserve else [])])


async def _loaded(
    load: Load, kind: str | None, held: Held, probe: Probe, notify: Callable[[str], None]
) -> Call | None:
    """None where the engine cannot be loaded and nobody asked by name for what is measured: its trials say so."""
    try:
        return await _load(load, kind, held, notify)
    except BackendError:
        if probe.batch_sizes or BUDGET in probe.engine:
            raise
        return None


async def _load(load: Load, kind: str | None, held: Held, notify: Callable[[str], None]) -> Call:
    """A device that a killed driver held is free again only some seconds later: try a few times.

    A lane that can never load it is not tried again.
    """
    left = LOAD_TRIES
    while True:
        lane = await free_lane(HOLDER, load.key, kind)
        if held.lane is None:
            held.take(lane)
        try:
            return (await while_there(lane, occupy(lane, load)))[1]
        except BackendError as error:
            left -= 1
            if isinstance(error, ModelError) or not left:
                raise
            notify(f"{error}; trying again")
            await asyncio.sleep(LOAD_AGAIN_S)


async def _time(call: Any, probe: Probe, batch_size: int) -> list[Sample]:
    try:
        taken: list[Sample] = [
            await call("measure", batch_size, probe.prompt_tokens, OUTPUT_TOKENS) for _ in range(1 + REPEATS)
        ]
    except Exception as error:
        cause = raised_there(error)
        text = f"{probe.backend} could not be timed at batch {batch_size}: {last_line(cause)}"
        raise BackendError(text) from error
    return taken[1:]


async def _dtype(config: SweepConfig, places: Sequence[Place]) -> Dtype | None:
    """What `auto` is on the devices that the lanes have: asked on each node, where all of its lanes' are seen."""
    import ray

    if all(setting.model is None or setting.model.dtype != "auto" for setting in config.settings):
        return None
    of_node: dict[str | None, list[Place]] = {}
    for place in places:
        of_node.setdefault(place.node, []).append(place)
    asked = []
    for node, here in of_node.items():
        gpus = sum(place.gpus for place in here if place.gpu)
        pick = ray.remote(num_cpus=0, num_gpus=gpus)(pick_dtype)
        if node is not None:
            pick = pick.options(label_selector={NODE_LABEL: node})
        asked.append(pick.remote("cuda" if gpus else "cpu"))
    return weakest(await asyncio.gather(*asked))


def run(config: SweepConfig, notify: Callable[[str], None]) -> tuple[Resolved, dict[str, Any]]:
    """`resolve`, for a caller without a loop."""
    return serve_loop.run(resolve(config, notify))
