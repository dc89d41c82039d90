"""One block of cells: a Tuner over those that are missing, and what is done about a trial that Tune tells of."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deployments.lane_board import LEAST_SHARE
from deployments.reserve import Reserve
from experiments.budget import Purse
from experiments.cells import Cell
from experiments.config import SweepConfig
from experiments.failures import fail_killed
from experiments.held import held_by
from experiments.progress import SweepProgress
from experiments.provenance import provenance
from experiments.where import Lanes
from results.patience import patience_s
from results.store import Store

if TYPE_CHECKING:
    from ray import tune

    from experiments.runner import Halt


@dataclass(frozen=True, slots=True)
class Driver:
    """What cells are run with."""

    config: SweepConfig
    store: Store
    lanes: Lanes
    reserves: Mapping[str, Reserve]  # by backend that pads
    budget: Any = None  # the actor that says what may begin; None: everything
    purse: Purse | None = None  # and what its trials ask it with


class Told:
    """What is done about what Tune tells of trials. It does so on its own thread, which no wait for a folder may hold up."""

    def __init__(self, driver: Driver, progress: SweepProgress, halt: "Halt") -> None:
        self._driver, self._progress, self._halt = driver, progress, halt
        self.given_up: set[str] = set()  # by Tune, too early

    def failed(self, cell_id: str) -> None:
        """An attempt failed, and the cell is tried again."""
        self._record_killed(cell_id)
        self._tell_budget(cell_id)
        self._progress.say(f"an attempt failed, trying again: {self._why(cell_id)}")

    def lost(self, cell_id: str) -> None:
        """Tune gave the cell up though it was to be tried again."""
        self._record_killed(cell_id)
        self._let_go(cell_id)
        self.given_up.add(cell_id)

    def ended(self, cell_id: str, said: str | None) -> None:
        """The cell is done, or failed for good, which `said` says if its process could."""
        try:
            if self._halt.error is not None:  # stopped with the others, and left
                return
            if self._halt.look(said):
                self._progress.cell_ended(cell_id, failed=said)
                return
            if not (done := bool(self._store().done_cells({cell_id}))):
                self._record_killed(cell_id)
            self._progress.cell_ended(cell_id, failed=None if done else said or self._why(cell_id))
        finally:
            self._let_go(cell_id)

    def _store(self) -> Store:
        """One that waits for no folder, but for an object store as it is given up at once."""
        return Store(self._driver.store.root, wait_s=patience_s(self._driver.store.root))

    def _why(self, cell_id: str) -> str:
        failures = self._store().failures({cell_id})
        return failures[-1].in_words if failures else "its process ended"

    def _record_killed(self, cell_id: str) -> None:
        """The attempt of a process that was killed, which could not."""
        fail_killed(self._store(), cell_id, held_by(self._driver.lanes.board, cell_id))

    def _let_go(self, cell_id: str) -> None:
        """Of the lane and of what was set aside of the budget, which a process that was killed still has."""
        self._driver.lanes.board.release.remote(cell_id)
        self._tell_budget(cell_id)

    def _tell_budget(self, cell_id: str) -> None:
        if self._driver.budget is not None:
            self._driver.budget.ended.remote(cell_id)


def fit(driver: Driver, block: Sequence[Cell], progress: SweepProgress) -> None:
    """Run the cells of one block in their order, until each is done or its tries ran out. DiskFull or StoreAway."""
    for _ in range(1 + driver.config.max_failures):
        lost = _tune(driver, block, progress)
        block = [cell for cell in block if cell.cell_id in lost]
        if not block:
            return
        for cell in block:
            progress.say(f"a trial did not begin, trying again: {cell.in_words}")
    for cell in block:
        progress.cell_ended(cell.cell_id, failed="its process never began")


def _tune(driver: Driver, block: Sequence[Cell], progress: SweepProgress) -> set[str]:
    """One Tuner over the cells; the ids of those that it gave up too early. DiskFull or StoreAway ends it early."""
    from experiments.runner import Halt

    halt = Halt()
    told = Told(driver, progress, halt)
    _tuner(driver, block, told, halt).fit()
    if halt.error is not None:
        raise halt.error
    return told.given_up


def _tuner(driver: Driver, block: Sequence[Cell], told: Told, halt: "Halt") -> "tune.Tuner":
    from ray import tune

    from experiments.runner import AsLanes, Watch

    tries_again, session = driver.config.max_failures, driver.lanes.session
    return tune.Tuner(
        tune.with_resources(_trainable(driver, block), {"cpu": 0, session.beside: LEAST_SHARE}),
        param_space={"cell_id": tune.grid_search([cell.cell_id for cell in block])},
        tune_config=tune.TuneConfig(
            search_alg=AsLanes(driver.lanes.count),
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.config["cell_id"],
            trial_dirname_creator=lambda trial: trial.config["cell_id"],
        ),
        run_config=tune.RunConfig(
            name=f"block-{secrets.token_hex(4)}",
            storage_path=f"{session.folder}/tune",
            failure_config=tune.FailureConfig(max_failures=tries_again),
            callbacks=[Watch(told.ended, told.failed, told.lost, tries_again)],
            stop=halt,
            verbose=0,
        ),
    )


def _trainable(driver: Driver, block: Sequence[Cell]) -> Any:
    """With all that its processes need: the cells, and what they share."""
    from ray import tune

    from experiments.runner import CellTrial, Conditions

    conditions = Conditions(
        root=driver.store.root,
        isolate=driver.config.isolate,
        setup=provenance(),
        reserves=driver.reserves,
        purse=driver.purse,
    )
    return tune.with_parameters(
        CellTrial, cells={cell.cell_id: cell for cell in block}, conditions=conditions
    )
