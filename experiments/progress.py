"""What a person sees while a sweep runs: a live view on a terminal, plain lines elsewhere.

A thread of its own does all of it. The driver's main thread, which Tune blocks, only leaves it notes: a
terminal that is held up, or an error in the drawing, neither delays a sweep nor ends it.
"""

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from rich.console import Console

from deployments.lane_board import LaneView
from experiments.cells import Cell
from experiments.cost_so_far import CostSoFar
from experiments.live_screen import LiveScreen
from experiments.live_view import SPARKS, Snapshot, being_loaded, loads, view
from experiments.running_results import RunningResults
from experiments.time_left import TimeLeft, about
from experiments.trial_time import TrialTimes
from results.errors import StoreError

LIVE_EVERY_S = 1.0
READ_S = 0.2  # of that for reading results: what runs beside is being measured
PLAIN_EVERY_S = 30.0
JOIN_S = 5.0


class SweepProgress:
    """Shows a sweep; a context manager. `cell_ended` and `say` return at once."""

    def __init__(
        self,
        cells: Sequence[Cell],
        left: Sequence[Cell],
        lanes: Callable[[], Sequence[LaneView]],
        results: RunningResults | None = None,
        *,
        at_once: int = 1,
        times: TrialTimes | None = None,
        cost: CostSoFar | None = None,
        console: Console | None = None,
        live: bool | None = None,
    ) -> None:
        """`cells` is the whole sweep, `left` what is to be run, `at_once` how many of them, `times` how long
        they take; `lanes` asks what the lanes do.

        `results`: what has been found, for the live view; `cost`: what the sweep costs, where it has a price. `live`: whether to draw one; by default where
        standard error is a terminal that can, and not in CI.
        """
        self._console = Console(stderr=True) if console is None else console
        self._screen = LiveScreen(self._console) if _can_draw(self._console, live) else None
        self._cells = {cell.cell_id: cell for cell in cells}
        self._left = {cell.cell_id for cell in left}
        self._done, self._failed = len(cells) - len(left), 0
        self._time_left = TimeLeft(left, at_once, times)
        self._ask_lanes, self._results, self._cost = lanes, results, cost
        self._lanes: Sequence[LaneView] = ()
        self._loads = loads(cells)
        self._speeds: dict[str, deque[float]] = {}
        self._notes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._began_s = time.monotonic()

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._notes.put(None)
        try:
            self._thread.join(JOIN_S)
        finally:
            if self._screen is not None:
                self._screen.stop()

    def cell_ended(self, cell_id: str, *, failed: str | None = None) -> None:
        """A cell is done, or its tries ran out and `failed` says why."""
        self._notes.put(partial(self._note_end, cell_id, failed, time.monotonic() - self._began_s))

    def say(self, text: str) -> None:
        """One line, above the view; never broken, so that a path in it stays whole."""
        self._notes.put(partial(self._print, text))

    def _watch(self) -> None:
        """Act on notes as they come, and look about now and then, until told that it is over."""
        next_s = time.monotonic() + (PLAIN_EVERY_S if self._screen is None else 0.0)
        while True:
            try:
                note = self._notes.get(timeout=max(0.0, next_s - time.monotonic()))
            except queue.Empty:
                note = self._look
                next_s = time.monotonic() + (PLAIN_EVERY_S if self._screen is None else LIVE_EVERY_S)
            if note is None:
                break
            self._act(note)
        if self._screen is not None:
            with contextlib.suppress(Exception):
                self._screen.stop()

    def _act(self, note: Callable[[], None]) -> None:
        """Whatever goes wrong here costs the view, not the sweep."""
        try:
            note()
        except Exception as error:  # noqa: BLE001 - a terminal that went away, or a mistake of ours
            screen, self._screen = self._screen, None
            with contextlib.suppress(Exception):
                if screen is not None:
                    screen.stop()
                    self._print(f"the live view ended: {type(error).__name__}: {error}")

    def _look(self) -> None:
        lanes: Sequence[LaneView] | None = None
        with contextlib.suppress(Exception):  # Ray may be slow, or going down
            lanes = self._ask_lanes()
        if self._over.is_set():
            return
        if self._screen is None:
            for lane in lanes or ():
                if lane.state:
                    self._print(_line(lane.state))
                elif coming := being_loaded(lane, self._cells):
                    self._print(f"{lane.name}: loading {coming}, for {lane.for_s:.0f} s now")
            return
        if lanes is not None:
            self._lanes = lanes
            self._listen()
        if self._results is not None:
            with contextlib.suppress(Exception):  # it is read again, and told of, at the end
                self._results.read_within(READ_S)
        self._screen.show(partial(view, self._snapshot()))

    def _listen(self) -> None:
        """Keep the last tokens/s of each trial that runs."""
        states = {str(lane.holder): lane.state for lane in self._lanes if lane.state}
        self._speeds = {trial: self._speeds.get(trial, deque(maxlen=SPARKS)) for trial in states}
        for trial, state in states.items():
            self._speeds[trial].append(state["tokens_per_s"])

    def _snapshot(self) -> Snapshot:
        elapsed_s = time.monotonic() - self._began_s
        return Snapshot(
            done=self._done,
            planned=len(self._cells),
            failed=self._failed,
            elapsed_s=elapsed_s,
            left_s=self._time_left.left_s(elapsed_s),
            lanes=self._lanes,
            cells=self._cells,
            loads=self._loads,
            speeds={trial: tuple(speeds) for trial, speeds in self._speeds.items()},
            results=self._results.rows() if self._results is not None else (),
            cost="" if self._cost is None else self._cost.text(self._cells.values()),
        )

    def _note_end(self, cell_id: str, failed: str | None, now_s: float) -> None:
        if cell_id not in self._left:
            return
        self._left.discard(cell_id)
        done = failed is None
        self._done += done
        self._failed += not done
        self._time_left.ended(cell_id, now_s)
        if self._cost is not None:
            with contextlib.suppress(StoreError):  # it is read again, and told of, at the end
                self._cost.ended(cell_id)
        if done and self._results is not None:
            self._results.ended(cell_id)
        if self._screen is None or not done:
            left = about(self._time_left.left_s(now_s))
            what = self._cells[cell_id].in_words
            cost = "" if self._cost is None else f"  {self._cost.text(self._cells.values())}"
            text = f"{f'done  {what}' if done else f'FAILED  {what}: {failed}'}  {left}".rstrip() + cost
            self._print(f"[{self._done}/{len(self._cells)}] {text}")

    def _print(self, text: str) -> None:
        if self._screen is not None:
            self._screen.say(text)
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _can_draw(console: Console, wanted: bool | None) -> bool:
    if wanted is not None:
        return wanted
    return console.file.isatty() and not console.is_dumb_terminal and not os.environ.get("CI")


def _line(state: Mapping[str, Any]) -> str:
    return (
        f"{state['lane']}: {state['backend']}  {state['setting']}  {state['rate']:g} req/s  "
        f"{state['elapsed_s']:.0f}/{state['duration_s']:.0f} s  sent {state['sent']}/{state['planned']}  "
        f"waiting {state['waiting']}  running {state['running']}  {state['tokens_per_s']:.0f} tokens/s"
    )
