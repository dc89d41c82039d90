"""The driver of a simulated sweep: begin or go on, run the cells that are missing, draw the page."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deployments.interruption import interruptible
from experiments.cells import Cell
from experiments.console import Say
from experiments.simulation.compilation import compile_engines
from experiments.simulation.pool import Conditions, Workers
from experiments.simulation.simulation import Simulation, check_shapes
from experiments.sweep import Outcome, drawn
from results.earlier_run import refuse_remains
from results.errors import StoreError
from results.lock import SweepLock
from results.store import Store
from results.sweep_document import RESOLVED, check_sweep

QUIET_S = 5.0  # what is over by then shows no progress
PLAIN_EVERY_S = 10.0


def run_simulation(simulation: Simulation, root: str, say: Say) -> Outcome:
    """Run what is missing; returns at once if nothing is. ConfigError, WorkloadError or StoreError, or SweepFailed.

    KeyboardInterrupt, which a polite end is too, loses nothing that was done and leaves no process behind.
    """
    store = Store(root)
    with interruptible(), SweepLock(root, say) as note:
        if note:
            say(note)
        info = _begun(simulation, store)
        planned = simulation.cells(info)
        left = _left(planned, store)
        if info is None:
            info = simulation.info()
            store.write_sweep(info)
        elif left:
            check_shapes(planned, info)
        if 0 < len(left) < len(planned):
            say(f"going on: {len(planned) - len(left)} of {len(planned)} cells are done")
        conditions = Conditions(
            root=root,
            premises=simulation.premises,
            entry=simulation.config.simulation,
            setup=info["provenance"],
        )
        compile_engines(left, conditions.premises, conditions.entry, say)
        with Workers(conditions, left) as workers:
            for _ in _watched(workers.run(left), len(planned), len(planned) - len(left), say):
                pass
            page, findings = drawn(store, workers.spread)
        missing = _left(planned, store)
    return Outcome(
        root=root,
        page=page,
        planned=len(planned),
        done=len(planned) - len(missing),
        ran=len(left) - len(missing),
        findings=findings,
        problems=store.problems,
    )


def _begun(simulation: Simulation, store: Store) -> dict[str, Any] | None:
    info = store.read_sweep()
    if info is None:
        refuse_remains(store)
        return None
    check_sweep(info, store.root, RESOLVED)
    if "simulated" not in info:
        raise StoreError(f"{store.root}/sweep.json is not of a simulated sweep: --fresh starts anew")
    if info["config_hash"] != simulation.identity:
        raise StoreError(
            f"{store.root}/sweep.json is of another sweep ({info['config_hash']}, this one is "
            f"{simulation.identity}): move it away, or --fresh starts anew"
        )
    return info


def _left(planned: Iterable[Cell], store: Store) -> list[Cell]:
    done = store.done_cells()
    return [cell for cell in planned if cell.cell_id not in done]


def _watched(ended: Iterator[int], planned: int, before: int, say: Callable[[str], None]) -> Iterator[int]:
    """Show how far it is, once it has taken some seconds: a bar on a terminal, else a line now and then."""
    console = Console(stderr=True)
    began_s = time.monotonic()
    next_s = began_s + QUIET_S
    bar = Progress(
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=planned, completed=before)
    try:
        for count in ended:
            now_s = time.monotonic()
            if now_s >= next_s and console.is_terminal:
                bar.start()
                next_s = float("inf")
            elif now_s >= next_s and before + count < planned:
                left_s = (now_s - began_s) / count * (planned - before - count) if count else None
                left = "" if left_s is None else f" about {left_s:.0f} s left"
                say(f"[{before + count}/{planned}]{left}")
                next_s = now_s + PLAIN_EVERY_S
            bar.update(task, completed=before + count)
            yield count
    finally:
        if bar.live.is_started:  # else it would leave an empty line
            bar.stop()
        sys.stderr.flush()
