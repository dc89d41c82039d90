"""The driver of a sweep: resolve once, run what is missing in blocks, and draw the page after each block.

The store is the truth and Tune the scheduler: each block is a new Tuner over the cells that have no
`done.json`. Whatever stopped a sweep, the same command goes on with what is missing.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from deployments.errors import BackendError
from experiments.block import Driver, fit
from experiments.budget import NO_LIMITS, Budget, Limit, Limits, Purse, start_budget
from experiments.cells import Cell, blocks, cells
from experiments.config import SweepConfig
from experiments.console import Say
from experiments.cost_so_far import CostSoFar, cost_of, expected_s
from experiments.errors import ConfigError, SweepFailed
from experiments.explain.over_sweep import with_guides
from experiments.plan import trial_times
from experiments.preflight import check
from experiments.progress import SweepProgress
from experiments.reserves import recorded
from experiments.resolved import Resolved
from experiments.running_results import RunningResults
from experiments.simulation.occupancy import with_occupancy
from experiments.sweep_record import begun, cells_of, check_traffic, resolve_and_record, take_added
from experiments.where import HERE, Where, kind_so_far, lanes_of
from results.cost import spent
from results.earlier_run import move_aside
from results.errors import DiskFull, StoreError, one_line
from results.fetched import refuse_copy
from results.findings import Findings
from results.lock import SweepLock, refuse_if_driven
from results.patience import PATIENCE_S
from results.place import check_place
from results.report.page import write_page
from results.store import Store
from results.summary import Spread, find
from results.sweep_folder import PAGE
from workloads.errors import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a sweep stands when the driver stops."""

    root: str
    page: str
    planned: int
    done: int
    ran: int  # cells that this call finished
    findings: Findings
    problems: Sequence[str]  # what could not be read of the store
    stopped_at: Limit | None = None  # what this call was allowed to use, and did

    @property
    def complete(self) -> bool:
        """Whether every cell is done."""
        return self.done == self.planned


def run_sweep(
    config: SweepConfig,
    root: str,
    say: Say,
    *,
    fresh: bool = False,
    where: Where = HERE,
    limits: Limits = NO_LIMITS,
) -> Outcome:
    """Run the cells that are missing; returns at once if there are none. `fresh` keeps an earlier run aside,
    `limits` end it before that.

    ConfigError, StoreError or DeviceError before anything is moved, written or started; then SweepFailed (an
    engine that `auto` must time cannot be loaded) or DiskFull. KeyboardInterrupt loses nothing.
    """
    begun_s, store = time.time(), Store(root)
    limits.check(config)
    refuse_if_driven(root)  # before one waits for GPUs, which that driver would hold
    info = None if fresh else begun(config, store)
    planned = cells_of(config, info)
    if planned is not None and info is not None:
        left = _left(planned, store)
        stopped_at = _held_back(config, store, planned, left, info, limits) if left else None
        if not left or stopped_at is not None:  # no GPU is asked for
            with SweepLock(root, say):
                take_added(config, store)
                return _outcome(root, planned, store, ran=0, stopped_at=stopped_at)
    check_place(root)
    if not fresh:
        refuse_copy(root)
    check(config, say, gpus_here=where.address is None)
    opening = lanes_of(config, where, say, kind=None if info is None else kind_so_far(store.trials()))
    if fresh:
        move_aside(root, say)
    with SweepLock(root, say) as note:
        if note:
            say(note)
        info = begun(config, store)
        planned = cells_of(config, info)
        if planned is not None:
            take_added(config, store)
            left = _left(planned, store)
            if not left:
                return _outcome(root, planned, store, ran=0)
            say(f"going on: {len(planned) - len(left)} of {len(planned)} cells are done")
            check_traffic(planned, info or {})
        with opening as lanes, once_started():
            if info is None or planned is None:
                info = resolve_and_record(config, store, say)
                planned = cells(config, Resolved.from_dict(info["resolved"]))
            before = len(planned) - len(_left(planned, store))
            used = spent(store, info, config.price).cost or 0.0
            budget = start_budget(limits, lanes.session.beside, spent=used, begun_s=begun_s)
            store = Store(root, wait_s=PATIENCE_S)
            stopped_at = _run_blocks(
                Driver(config, store, lanes, recorded(info), budget=budget), planned, info
            )
            ran = len(planned) - len(_left(planned, store)) - before
            return _outcome(root, planned, store, ran=ran, stopped_at=stopped_at)


@contextmanager
def once_started() -> Iterator[None]:
    """What goes wrong from here on is no bad input any more, which promises that nothing was started."""
    try:
        yield
    except DiskFull:
        raise
    except (ConfigError, StoreError, WorkloadError, BackendError) as error:
        raise SweepFailed(one_line(error)) from error


def draw(store: Store) -> str:
    """Write the page of a sweep into its folder; its path."""
    return drawn(store)[0]


def drawn(store: Store, spread: Spread = map) -> tuple[str, Findings]:
    """The same, and what is on the page. `spread` as in `find`."""
    path, findings = str(store.place / PAGE), find(store, spread)
    shown = with_occupancy(with_guides(findings, store.place))
    store.patience.ask(lambda: write_page(shown, store, path))
    return path, findings


def _left(planned: Sequence[Cell], store: Store) -> list[Cell]:
    done = store.done_cells()
    return [cell for cell in planned if cell.cell_id not in done]


def _run_blocks(driver: Driver, planned: Sequence[Cell], info: Mapping[str, Any]) -> Limit | None:
    """Until every cell is done, or its tries ran out, or the budget holds one back; which limit did."""
    config, store = driver.config, driver.store
    left = _left(planned, store)
    warm = info["measured"].get("warm_lane")
    results = RunningResults(Store(store.root), planned, ended=store.done_cells())
    times, _ = trial_times(config, info, store.trials())
    takes_s = expected_s(planned, (cell.cell_id for cell in left), times, config.seed, warm)
    price = config.price
    cost = None if price is None else CostSoFar(Store(store.root), info, price, takes_s)
    if driver.budget is not None:
        driver = replace(driver, purse=Purse(budget=driver.budget, expected_s=takes_s, price=price))
    lanes = driver.lanes
    with SweepProgress(
        planned, left, lanes.views, results, at_once=lanes.count(), times=times, cost=cost
    ) as progress:
        for whole in blocks(planned, config.seed, first_lane=warm):
            block = [cell for cell in whole if cell in left]
            if not block:
                continue
            fit(driver, block, progress)
            done = len(planned) - len(_left(planned, store))
            progress.say(f"repeat {block[0].repeat + 1}: {done} of {len(planned)} cells done, {_page(store)}")
            if (limit := _reached(driver)) is not None:
                return limit
    return None


def _held_back(
    config: SweepConfig,
    store: Store,
    planned: Sequence[Cell],
    left: Sequence[Cell],
    info: Mapping[str, Any],
    limits: Limits,
) -> Limit | None:
    """The limit for which not even the first of the cells that are left could begin."""
    times, _ = trial_times(config, info, store.trials())
    takes_s = expected_s(planned, (cell.cell_id for cell in left), times, config.seed)
    first = next(iter(takes_s))
    [cell] = [cell for cell in left if cell.cell_id == first]
    budget = Budget(limits, spent=spent(store, info, config.price).cost or 0.0, begun_s=time.time())
    cost = None if config.price is None else cost_of(cell, takes_s[first], config.price)
    budget.begin(first, takes_s[first], cost or 0.0)
    return budget.reached()


def _reached(driver: Driver) -> Limit | None:
    if driver.budget is None:
        return None
    import ray

    limit: Limit | None = ray.get(driver.budget.reached.remote())
    return limit


def _page(store: Store) -> str:
    """Where the page so far is; one that cannot be drawn does not end what is being measured."""
    try:
        return f"page: {draw(store)}"
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of the page, whatever it is
        return f"the page could not be drawn: {one_line(error)}"


def _outcome(
    root: str, planned: Sequence[Cell], store: Store, *, ran: int, stopped_at: Limit | None = None
) -> Outcome:
    left = _left(planned, store)
    page, findings = drawn(store)
    done = len(planned) - len(left)
    return Outcome(
        root=root,
        page=page,
        planned=len(planned),
        done=done,
        ran=ran,
        findings=findings,
        problems=store.problems,
        stopped_at=stopped_at,
    )
