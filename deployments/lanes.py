"""Lanes: one GPU's place for a deployment. What is loaded in it stays warm from trial to trial.

The lane board is one small Ray actor that knows which lane is taken by whom and what is loaded where; it is
asked by trials and outlives them. Loading and unloading is done by the trial that holds the lane.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from deployments.backends.blocking_call import BlockingCall
from deployments.backends.cpu_threads import cpu_threads
from deployments.errors import BackendError, ModelError, last_line
from deployments.models import ModelSpec
from deployments.replica import Replica

Call = Callable[..., Awaitable[Any]]  # call("method", *args): one method of a replica, near or far

BOARD = "batchyard-lanes"
NAMESPACE = "batchyard"
PLACEMENT_DEADLINE_S = 60.0
ALIVE_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a lane must have loaded for a cell."""

    key: str
    backend: str
    model: ModelSpec | None
    engine: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One lane as the board sees it."""

    index: int
    app: str | None = None  # the Serve application in it
    key: str | None = None  # what that has loaded
    setup: Mapping[str, Any] | None = None
    holder: str | None = None  # the trial that has it now
    condemned: bool = False  # what it had failed a trial, and nothing has been loaded since

    @property
    def name(self) -> str:
        """How rows name the lane."""
        return f"lane-{self.index}"


Doing: TypeAlias = Literal["idle", "preparing", "loading", "measuring", "draining"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """What a lane does now, for whoever watches."""

    name: str
    key: str | None  # what it has loaded
    holder: str | None
    doing: Doing
    for_s: float  # for so long
    state: Mapping[str, Any] | None  # how the trial in it stands, once it sends


class LaneBoard:
    """Which lane is whose. A trial that comes back after a crash gets the lane that it held."""

    def __init__(self, lanes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds, for how long a lane has been doing what it does."""
        self._lanes = [Lane(index=index) for index in range(lanes)]
        self._clock = clock
        self._doing: dict[int, tuple[Doing, float]] = {index: ("idle", clock()) for index in range(lanes)}
        self._loads = 0
        self._broken: dict[str, str] = {}  # lane key → why it can never load
        self._states: dict[str, Mapping[str, Any]] = {}

    def acquire(self, trial: str, key: str) -> Lane | None:
        """A free lane, the one with `key` loaded if possible; None if all are taken."""
        free = [lane for lane in self._lanes if lane.holder in (None, trial)]
        if not free:
            return None

        def place(lane: Lane) -> tuple[bool, bool, bool, bool]:
            return lane.holder != trial, lane.key != key, lane.condemned, lane.key is not None

        lane = min(free, key=place)
        self._states.pop(trial, None)  # of an attempt before this one
        self._does(lane.index, "preparing")
        return self._put(replace(lane, holder=trial))

    def loading(self, index: int) -> Lane:
        """The lane is about to load something: what it has is forgotten, a new application name is given."""
        self._loads += 1
        self._does(index, "loading")
        return self._put(replace(self._lanes[index], app=f"lane-{index}-{self._loads}", key=None, setup=None))

    def loaded(self, index: int, key: str, setup: Mapping[str, Any]) -> Lane:
        """The lane has `key` loaded."""
        self._does(index, "preparing")
        return self._put(replace(self._lanes[index], key=key, setup=setup, condemned=False))

    def condemn(self, index: int) -> None:
        """What the lane has loaded is not to be trusted any more: the next trial loads anew."""
        self._put(replace(self._lanes[index], key=None, setup=None, condemned=True))

    def release(self, trial: str) -> None:
        """The trial does not need its lane any more."""
        for lane in self._lanes:
            if lane.holder == trial:
                self._put(replace(lane, holder=None))
                self._does(lane.index, "idle")
        self._states.pop(trial, None)

    def break_key(self, key: str, why: str) -> None:
        """Nothing with this lane key can ever load: later trials need not try."""
        self._broken[key] = why

    def broken(self, key: str) -> str | None:
        """Why this lane key can never load, if that is known."""
        return self._broken.get(key)

    def report(self, trial: str, state: Mapping[str, Any]) -> None:
        """Take note of how a running trial stands; one that has no lane any more is over."""
        for lane in self._lanes:
            if lane.holder == trial:
                self._states[trial] = state
                self._does(lane.index, "measuring" if state["sent"] < state["planned"] else "draining")

    def view(self) -> list[LaneView]:
        """What each lane does, and how the trial in it stands."""
        now_s = self._clock()
        return [
            LaneView(
                name=lane.name,
                key=lane.key,
                holder=lane.holder,
                doing=(done := self._doing[lane.index])[0],
                for_s=now_s - done[1],
                state=self._states.get(lane.holder or ""),
            )
            for lane in self._lanes
        ]

    def _does(self, index: int, doing: Doing) -> None:
        if self._doing[index][0] != doing:
            self._doing[index] = doing, self._clock()

    def _put(self, lane: Lane) -> Lane:
        self._lanes[lane.index] = lane
        return lane


def start_board(lanes: int) -> Any:
    """The lane board as a named actor; the handle must be kept as long as it is needed."""
    import ray

    actor = ray.remote(num_cpus=0)(LaneBoard)
    return actor.options(name=BOARD, namespace=NAMESPACE).remote(lanes)


def board() -> Any:
    """The handle of the lane board of this Ray."""
    import ray

    return ray.get_actor(BOARD, namespace=NAMESPACE)


async def occupy(lane: Lane, load: Load, *, fresh: bool = False) -> tuple[Lane, Call]:
    """Have `load` in the lane, loading it unless it is there (or `fresh`), and return how to call it.

    ModelError: it can never load (the board remembers). BackendError: it did not, this time.
    """
    lanes = board()
    if lane.key == load.key and lane.app is not None and not fresh and await _alive(lane.app):
        return lane, _call(lane.app)
    if (why := await lanes.broken.remote(load.key)) is not None:
        raise ModelError(why)
    if lane.app is not None:
        await clear(lane.app)
    lane = await lanes.loading.remote(lane.index)
    assert lane.app is not None
    await _deploy(lane.app, load)
    call = _call(lane.app)
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
            await lanes.break_key.remote(load.key, str(cause))
            raise ModelError(str(cause)) from None
        raise BackendError(f"{load.backend} could not be started: {last_line(cause)}") from error
    return await lanes.loaded.remote(lane.index, load.key, setup), call


async def _alive(app: str) -> bool:
    """Whether what was loaded is still there: Serve may have replaced the replica, or the engine died."""
    try:
        await asyncio.wait_for(_call(app)("check"), ALIVE_DEADLINE_S)
    except Exception:  # noqa: BLE001 - whatever it is, the answer is no
        return False
    return True


async def clear(app: str) -> None:
    """Remove an application, closing its backend first; one that is gone already is no error."""
    from ray import serve

    with contextlib.suppress(Exception):  # a dead replica cannot be closed, only deleted
        await asyncio.wait_for(_call(app)("stop"), 45)
    deleting = BlockingCall(lambda: serve.delete(app))
    with contextlib.suppress(Exception):  # it may raise or hang; what comes next has a name of its own
        await asyncio.wait_for(deleting.result(), PLACEMENT_DEADLINE_S)


async def _deploy(app: str, load: Load) -> None:
    """Place one replica. `serve.run` waits for ever for one that cannot be placed: own deadline."""
    import ray
    from ray import serve

    found = ray.cluster_resources()  # type: ignore[no-untyped-call]
    gpus = 1 if found.get("GPU") and load.backend != "simulated" else 0
    threads = str(cpu_threads(load.engine.get("threads")))
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
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": threads}},  # Ray would set 1
        },
    )(Replica)
    running = BlockingCall(lambda: serve.run(deployment.bind(), name=app, route_prefix=None))
    try:
        await asyncio.wait_for(running.result(), PLACEMENT_DEADLINE_S)
    except TimeoutError:
        raise BackendError(f"no place for a replica within {PLACEMENT_DEADLINE_S:g} s") from None


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
