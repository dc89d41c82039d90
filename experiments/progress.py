"""What a person sees while a sweep runs: a bar with time left and the running trials, or plain lines."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from experiments.cells import Cell

OVERHEAD_S = 8.0  # a first guess of what a trial costs beside its arrivals; measured as the sweep goes on
PLAIN_EVERY_S = 30.0


class SweepProgress:
    """Shows a sweep from the driver while Tune blocks its main thread; a context manager."""

    def __init__(
        self, cells: Sequence[Cell], left: Sequence[Cell], states: Callable[[], Sequence[Mapping[str, Any]]]
    ) -> None:
        """`cells` is the whole sweep, `left` what is to be run; `states` asks how running trials stand."""
        self._console = Console(stderr=True)
        self._left = {cell.cell_id: cell for cell in left}
        self._states = states
        self._spent_s = self._planned_done_s = 0.0
        self._finished = len(cells) - len(left)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}"),
            console=self._console,
        )
        self._task = self._bar.add_task("sweep", total=len(cells), completed=self._finished, eta="")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._began_s = self._plain_s = time.monotonic()

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def cell_ended(self, cell_id: str, *, done: bool) -> None:
        """A cell is done, or its tries ran out."""
        cell = self._left.pop(cell_id, None)
        if cell is None:
            return
        self._finished += done
        self._planned_done_s += cell.duration_s
        self._spent_s = time.monotonic() - self._began_s
        self._bar.update(self._task, completed=self._finished, eta=self._eta())
        if not self._console.is_terminal or not done:
            text = f"{'done' if done else 'FAILED'}  {_name(cell)}  {self._eta()}".rstrip()
            self.say(f"[{self._finished}/{self._bar.tasks[0].total:g}] {text}")

    def say(self, text: str) -> None:
        """One line, beside the bar; never broken, so that a path in it stays whole."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _eta(self) -> str:
        left = list(self._left.values())  # at once: the other thread takes cells out
        planned_s = sum(cell.duration_s for cell in left)
        if not left:
            return ""
        factor = self._spent_s / self._planned_done_s if self._planned_done_s else 1.0
        seconds = planned_s * factor if self._planned_done_s else planned_s + OVERHEAD_S * len(left)
        return f"about {max(1, round(seconds / 60))} min left"

    def _watch(self) -> None:
        if not self._console.is_terminal:
            while not self._stop.wait(PLAIN_EVERY_S):
                for state in self._ask():
                    self.say(_line(state))
            return
        with Live(self._render([]), console=self._console, refresh_per_second=2, transient=True) as live:
            while not self._stop.wait(1):
                live.update(self._render(self._ask()))

    def _ask(self) -> Sequence[Mapping[str, Any]]:
        try:
            return self._states()
        except Exception:  # noqa: BLE001 - Ray may be going down; watching must not end a sweep
            return []

    def _render(self, states: Sequence[Mapping[str, Any]]) -> Group:
        self._bar.update(self._task, eta=self._eta())
        return Group(self._bar, *(Text(f"  {_line(state)}") for state in states))


def _name(cell: Cell) -> str:
    return f"{cell.backend}  {cell.setting}  {cell.rate:g} req/s  repeat {cell.repeat + 1}"


def _line(state: Mapping[str, Any]) -> str:
    return (
        f"{state['lane']}: {state['backend']}  {state['setting']}  {state['rate']:g} req/s  "
        f"{state['elapsed_s']:.0f}/{state['duration_s']:.0f} s  sent {state['sent']}/{state['planned']}  "
        f"waiting {state['waiting']}  running {state['running']}  {state['tokens_per_s']:.0f} tokens/s"
    )
