"""The Tune trainable: takes a lane for a cell, measures it, and records how the attempt ended.

Tune reuses the actor from cell to cell and tries a cell again when `step` raises. What can never succeed
(a model that does not load, a bad config) is recorded as permanent and not raised.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ray import tune
from ray.tune.search import BasicVariantGenerator

from deployments import serve_loop
from deployments.errors import ModelError
from deployments.lane_board import Lane, board
from deployments.lanes import Load, are_taken_away, free_lane, occupy, raised_there, while_there
from deployments.reserve import Reserve
from experiments.budget import Purse
from experiments.cells import Cell
from experiments.errors import TrialError
from experiments.failures import cause_of, ends_all, failure_of
from experiments.held import Held
from experiments.traffic import traffic
from experiments.trial import State, Traffic, TrialRun
from results.attempt import Attempt
from results.errors import DiskFull, StoreAway, StoreError, one_line
from results.patience import PATIENCE_S
from results.records import Trial
from results.store import Store
from workloads.errors import WorkloadError

PERMANENT = (ModelError, WorkloadError)
HELD_BACK = "held_back"  # in what is told to Tune
COUNT_EVERY_S = 1.0


class CellTrial(tune.Trainable):
    """One trial after another in one light process beside the driver."""

    def setup(  # type: ignore[override]  # tune.with_parameters adds to its signature
        self, config: dict[str, Any], cells: Mapping[str, Cell], conditions: "Conditions"
    ) -> None:
        """Take over the first cell."""
        self._cells, self._conditions = cells, conditions
        self._cell = cells[config["cell_id"]]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over the next cell."""
        self._cell = self._cells[new_config["cell_id"]]
        return True

    def step(self) -> dict[str, Any]:
        """Run the cell once, unless the budget holds it back; raises if it should be tried again."""
        purse = self._conditions.purse
        if purse is not None and not purse.begin(self._cell):
            return {"done": True, "failed": None, HELD_BACK: True}
        try:
            failed = serve_loop.run(_attempt(self._cell, self._conditions))
        except (DiskFull, StoreAway) as error:  # there is no place for a record of it either
            failed = f"{cause_of(error)}: {one_line(error)}"
        return {"done": True, "failed": failed, HELD_BACK: False}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Tune asks for one before it reuses the actor: there is nothing to save, the store has it all."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing was saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What all trials of a sweep share."""

    root: str  # the store
    isolate: bool  # redeploy for every trial
    setup: Mapping[str, Any]  # provenance
    reserves: Mapping[str, Reserve] = field(default_factory=dict)  # by backend that pads
    purse: Purse | None = None  # what the run may use; None: as much as it takes


async def _attempt(cell: Cell, conditions: Conditions) -> str | None:
    """Why it failed for good, None if it is done; raises if it should be tried again."""
    lanes = board()
    store = Store(conditions.root, wait_s=PATIENCE_S)
    attempt = await asyncio.to_thread(store.begin_attempt, cell.cell_id)
    lane: Lane | None = None
    held = Held()
    try:
        sent = await asyncio.to_thread(traffic, cell)
        lane = held.take(await free_lane(cell.cell_id, cell.lane_key, cell.accelerator))
        await asyncio.to_thread(attempt.took_lane, held.lane_time())
        trial = await while_there(lane, _measure(cell, sent, lane, attempt, conditions))
        attempt.finish(trial.model_copy(update={"lane_time": held.lane_time()}))
        return None
    except PERMANENT as error:
        return _fail(attempt, error, held, permanent=True)
    except DiskFull as error:  # another try at once would end the same way, and the lane is as good as before
        return _fail(attempt, error, held, permanent=False)
    except StoreAway:  # it has been tried again for long enough, and so would be the record of it
        raise
    except Exception as error:
        if await are_taken_away(lanes):
            raise
        permanent = isinstance(error, TrialError) and error.permanent
        if lane is not None and not isinstance(error, TrialError):
            await lanes.condemn.remote(lane.index)
        failed = _fail(attempt, error, held, permanent=permanent)
        if not permanent:
            raise
        return failed
    finally:
        await lanes.release.remote(cell.cell_id)
        if conditions.purse is not None:
            conditions.purse.ended(cell, held.lane_time().held_s)


async def _measure(cell: Cell, sent: Traffic, lane: Lane, attempt: Attempt, conditions: Conditions) -> Trial:
    """Load what the lane does not have, and measure."""
    lanes = board()
    lane, call = await occupy(lane, load_of(cell), fresh=conditions.isolate)

    def report(state: State) -> None:  # by this handle: looking the board up would block the client
        lanes.report.remote(state.cell_id, asdict(state))

    reserve = conditions.reserves.get(cell.backend)
    run = TrialRun(cell, sent, lane, call, attempt, setup=conditions.setup, report=report, reserve=reserve)
    return await run.run()


class Watch(tune.Callback):
    """Tells the driver which cell ended for good, with why it failed if it says so, and which is tried again."""

    def __init__(
        self,
        ended: Callable[[str, str | None], None],
        failed: Callable[[str], None],
        lost: Callable[[str], None],
        tries_again: int,
    ) -> None:
        """`lost`: a cell that Tune gave up though it was to be tried again so often."""
        self._ended, self._failed, self._lost, self._tries_again = ended, failed, lost, tries_again

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks for a restore that never happens here."""
        return {}

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """The cell is done, or failed for ever, or was not begun."""
        if (trial.last_result or {}).get(HELD_BACK):
            return
        self._ended(trial.config["cell_id"], (trial.last_result or {}).get("failed"))

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """An attempt failed, and tries are left."""
        self._failed(trial.config["cell_id"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """The cell's tries ran out, why is in the store, unless its process was killed; or Tune gave up before.

        It does so when a trial was to get an actor that another trial's failure took along.
        """
        if trial.num_failures <= self._tries_again:
            self._lost(trial.config["cell_id"])
        else:
            self._ended(trial.config["cell_id"], None)


class AsLanes(BasicVariantGenerator):
    """The cells in their order, as many at a time as there are lanes, which come and go meanwhile."""

    def __init__(self, lanes: Callable[[], int]) -> None:
        """`lanes` is asked once a second at most: Tune looks at every step."""
        self._lanes, self._counted_s = lanes, time.monotonic()
        super().__init__(max_concurrent=lanes())

    def next_trial(self) -> Any:
        """None while there is no lane for one more, or no cell is left."""
        if time.monotonic() - self._counted_s >= COUNT_EVERY_S:
            self.max_concurrent, self._counted_s = self._lanes(), time.monotonic()
        return super().next_trial()  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles it for a restore that never happens here."""
        return {}

    def save_to_dir(self, dirpath: str, session_str: str = "", **_: Any) -> None:
        """For the same restore."""


class Halt(tune.Stopper):
    """Ends a block at once where nothing more can be written: cells would be measured in vain."""

    def __init__(self) -> None:
        self.error: StoreError | None = None

    def look(self, said: str | None) -> bool:
        """Whether it is over, now that a cell has said why it failed for good."""
        self.error = self.error or ends_all(said)
        return self.error is not None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """A single trial is never stopped."""
        return False

    def stop_all(self) -> bool:
        """Whether it is over."""
        return self.error is not None


def load_of(cell: Cell) -> Load:
    """What a lane must have loaded for a cell."""
    return Load(key=cell.lane_key, backend=cell.backend, model=cell.model, engine=cell.engine)


def _fail(attempt: Attempt, error: BaseException, held: Held, *, permanent: bool) -> str:
    """Record it; what it was."""
    failure = failure_of(attempt, raised_there(error), permanent=permanent, lane_time=held.lane_time())
    attempt.fail(failure)
    return failure.in_words
