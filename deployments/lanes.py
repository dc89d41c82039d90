"""Lanes: one GPU's place for a deployment. What is loaded in it stays warm from trial to trial.

Loading and unloading is done by the trial that holds the lane; who that is, the lane board knows.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from deployments.backends.blocking_call import BlockingCall
from deployments.backends.cpu_threads import cpu_threads
from deployments.errors import BackendError, LaneGone, LoadError, ModelError, last_line
from deployments.lane_board import Lane, board
from deployments.models import ModelSpec
from deployments.places import NODE_LABEL, Place
from deployments.replica import Replica

Call = Callable[..., Awaitable[Any]]  # call("method", *args): one method of a replica, near or far
T = TypeVar("T")

PLACEMENT_DEADLINE_S = 60.0
ALIVE_DEADLINE_S = 30.0
POLL_S = 0.5
THERE_EVERY_S = 2.0
NO_LANE_DEADLINE_S = 1_800.0  # a rented GPU takes minutes to come up


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a lane must have loaded for a cell."""

    key: str
    backend: str
    model: ModelSpec | None
    engine: Mapping[str, Any]


async def free_lane(holder: str, key: str, kind: str | None = None) -> Lane:
    """Wait for a lane (of this `kind` of GPU). BackendError if for half an hour there is none at all."""
    lanes = board()
    since_s = asyncio.get_running_loop().time()
    while True:
        lane: Lane | None = await lanes.acquire.remote(holder, key, kind)
        if lane is not None:
            for app in await lanes.orphans.remote():
                await _delete(app)
            return lane
        now_s = asyncio.get_running_loop().time()
        if any(kind in (None, place.kind) for place in await lanes.places.remote()):
            since_s = now_s
        elif now_s - since_s > NO_LANE_DEADLINE_S:
            raise BackendError(f"no {kind or 'GPU'} came up within {NO_LANE_DEADLINE_S / 60:g} minutes")
        await asyncio.sleep(POLL_S)


async def while_there(lane: Lane, doing: Coroutine[Any, Any, T]) -> T:
    """Do it; LaneGone as soon as the lane's node is, of whose replica calls would hear nothing for minutes."""
    if lane.place.node is None:
        return await doing
    lanes, task = board(), asyncio.ensure_future(doing)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=THERE_EVERY_S)
            if not task.done() and not await lanes.there.remote(lane.index):
                raise LaneGone(f"the node of {lane.name}, {lane.place.host}, is gone")
        return await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


async def occupy(lane: Lane, load: Load, *, fresh: bool = False) -> tuple[Lane, Call]:
    """Have `load` in the lane, loading it unless it is there (or `fresh`), and return how to call it.

    ModelError: it can never load, on any lane (the board remembers). BackendError: it did not, this time or here.
    """
    lanes = board()
    if lane.key == load.key and lane.app is not None and not fresh and await _alive(lane.app):
        return lane, _call(lane.app)
    if (why := await lanes.broken.remote(lane.index, load.key)) is not None:
        raise ModelError(why)
    if lane.app is not None:
        await clear(lane.app)
    empty: Lane | None = await lanes.loading.remote(lane.index)
    if empty is None or empty.app is None:
        raise LaneGone(f"{lane.name} is gone")
    await _deploy(empty.app, load, empty.place)
    call = _call(empty.app)
    deadline_s = float(load.engine["start_deadline_s"])
    try:
        setup = await asyncio.wait_for(
            call("start", load.backend, load.model, load.engine), deadline_s + PLACEMENT_DEADLINE_S
        )
    except TimeoutError:
        raise BackendError(f"{load.backend} did not load within {deadline_s:g} s") from None
    except Exception as error:
        cause = raised_there(error)
        if isinstance(cause, ModelError):
            if await lanes.break_key.remote(lane.index, load.key, str(cause)):
                raise ModelError(str(cause)) from None
            raise LoadError(
                f"{load.backend} cannot be loaded on {lane.name}, {lane.place.host}: {cause}"
            ) from None
        raise BackendError(f"{load.backend} could not be started: {last_line(cause)}") from error
    loaded: Lane | None = await lanes.loaded.remote(lane.index, load.key, setup)
    if loaded is None:
        raise LaneGone(f"{lane.name} is gone")
    return loaded, call


async def _alive(app: str) -> bool:
    """Whether what was loaded is still there: Serve may have replaced the replica, or the engine died."""
    try:
        await asyncio.wait_for(_call(app)("check"), ALIVE_DEADLINE_S)
    except Exception:  # noqa: BLE001 - whatever it is, the answer is no
        return False
    return True


async def are_taken_away(lanes: Any) -> bool:
    """Whether the driver ends, and with it the lanes: what a trial loses then is no failure of its attempt."""
    from ray.exceptions import RayError

    try:
        return not await lanes.is_open.remote()
    except RayError:  # the board goes with its driver
        return True


async def clear(app: str) -> None:
    """Remove an application, closing its backend first; one that is gone already is no error."""
    with contextlib.suppress(Exception):  # a dead replica cannot be closed, only deleted
        await asyncio.wait_for(_call(app)("stop"), 45)
    await _delete(app)


async def _delete(app: str) -> None:
    from ray import serve

    deleting = BlockingCall(lambda: serve.delete(app))
    with contextlib.suppress(Exception):  # it may raise or hang; what comes next has a name of its own
        await asyncio.wait_for(deleting.result(), PLACEMENT_DEADLINE_S)


async def _deploy(app: str, load: Load, place: Place) -> None:
    """Put one replica there. `serve.run` waits for ever for one that cannot be placed: own deadline.

    On a cluster a lane is a GPU, or several of one node, whatever runs on it; on one machine the simulated engine
    needs none. Ray gives one process GPUs of one node alone, so that they need no placement group.
    """
    from ray import serve

    gpus = place.gpus if place.gpu and (place.node is not None or load.backend != "simulated") else 0
    threads = str(cpu_threads(load.engine.get("threads"), place.cores))
    deployment = serve.deployment(
        num_replicas=1,
        logging_config={"log_level": "WARNING", "enable_access_log": False},  # a line for each request
        max_ongoing_requests=100_000,
        max_queued_requests=-1,
        graceful_shutdown_timeout_s=2,
        graceful_shutdown_wait_loop_s=0.5,
        max_constructor_retry_count=1,
        health_check_timeout_s=60,
        ray_actor_options={
            "num_cpus": 0,
            "num_gpus": gpus,
            **({"label_selector": {NODE_LABEL: place.node}} if place.node is not None else {}),
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": threads}},  # Ray would set 1
        },
    )(Replica)
    running = BlockingCall(lambda: serve.run(deployment.bind(), name=app, route_prefix=None))
    try:
        await asyncio.wait_for(running.result(), PLACEMENT_DEADLINE_S)
    except TimeoutError:
        raise BackendError(f"no place for a replica within {PLACEMENT_DEADLINE_S:g} s") from None
    except Exception as error:  # Serve's and Ray's own, of many classes
        raise BackendError(f"no replica could be started: {last_line(error)}") from error


def _call(app: str) -> Call:
    from ray import serve

    handle = serve.get_app_handle(app)
    methods: dict[str, Any] = {}  # Serve makes options anew at each look-up

    async def call(method: str, *args: Any) -> Any:
        if method not in methods:
            methods[method] = getattr(handle, method)
        return await methods[method].remote(*args)

    return call


def raised_there(error: BaseException) -> BaseException:
    """What a replica raised, without what Ray wraps around it."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
