"""Cells on the cores at hand, each in a process of its own; few requests are not worth one.

A cell that is done is in the store, so an interrupted run loses what was under way and no more.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import wait as wait_for
from typing import Any, Self

from deployments.interruption import held
from experiments.cells import Cell
from experiments.errors import SweepFailed
from experiments.simulation.cell_run import run_cell
from experiments.simulation.premise import Premise
from experiments.simulation_entry import SimulationEntry
from results.patience import PATIENCE_S
from results.store import Store
from workloads.shape import Shape, shape
from workloads.spec import WorkloadSpec

ALONE = 20_000  # expected requests, in all: starting processes takes longer
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What all cells share."""

    root: str  # the store
    premises: Mapping[str, Premise]
    entry: SimulationEntry
    setup: Mapping[str, Any]  # provenance


class Workers:
    """Processes, one a core, or none; a context manager. In `spread` it is a `map`."""

    def __init__(self, conditions: Conditions, left: Sequence[Cell]) -> None:
        """None if there is one core, or if `left` is too little for them."""
        self._conditions = conditions
        count = min(len(os.sched_getaffinity(0)), len(left))
        self._pool: ProcessPoolExecutor | None = None
        if count > 1 and sum(cell.rate * cell.duration_s for cell in left) >= ALONE:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                count, mp_context=context, initializer=_begin, initargs=(conditions,)
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is None:
            self._pool.shutdown()
            return
        for process in multiprocessing.active_children():
            process.terminate()  # a cell may take minutes, and is not worth the wait
            process.join()
        # To its end: its thread would close the pipe that Python writes to as it ends (Bad file descriptor).
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, left: Sequence[Cell]) -> Iterator[int]:
        """Run cells; yields how many have ended, at least twice a second. StoreError as the store, or SweepFailed."""
        ordered = sorted(left, key=lambda cell: (cell.repeat, cell.rate))  # those of one shape together
        if self._pool is None:
            for ended, cell in enumerate(ordered, start=1):
                _run(cell, self._conditions)
                yield ended
            return
        with _told_if_killed():
            with _starting():
                running: set[Future[None]] = {self._pool.submit(_run_here, cell) for cell in ordered}
            while running:
                done, running = wait(running, timeout=LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                for one in done:
                    one.result()
                yield len(ordered) - len(running)

    def spread(self, function: Callable[..., Any], *parts: Iterable[Any]) -> Iterator[Any]:
        """Map a function over what can be sent to the processes. SweepFailed if one of them is killed."""
        with _told_if_killed(), _starting():
            found = map(function, *parts) if self._pool is None else self._pool.map(function, *parts)
        with _told_if_killed():
            yield from found


@contextmanager
def _told_if_killed() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise SweepFailed(
            "a process that ran cells was killed, as systems do that run out of memory; nothing that was "
            "done is lost: the same command goes on"
        ) from error


@contextmanager
def _starting() -> Iterator[None]:
    """Processes start whole, and never see Ctrl-C, which a terminal sends to all: their parent ends them."""
    with held():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # they inherit it
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


_conditions: Conditions | None = None  # of this process, if it is one of a pool


def _begin(conditions: Conditions) -> None:
    global _conditions
    _conditions = conditions
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _run_here(cell: Cell) -> None:
    assert _conditions is not None, "the process was not begun"
    _run(cell, _conditions)


def _run(cell: Cell, conditions: Conditions) -> None:
    made = _shape(cell.workload, cell.rate, cell.duration_s, cell.seed, cell.repeat)
    premise, store = conditions.premises[cell.backend], Store(conditions.root, wait_s=PATIENCE_S)
    run_cell(cell, made, premise, conditions.entry, store, conditions.setup)


@lru_cache(maxsize=2)
def _shape(workload: WorkloadSpec, rate: float, duration_s: float, seed: int, repeat: int) -> Shape:
    """Made once for the cells of a rate and repeat, which follow each other."""
    return shape(workload, rate=rate, duration_s=duration_s, seed=seed, repeat=repeat)
