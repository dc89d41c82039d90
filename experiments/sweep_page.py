"""The page of one sweep or several, drawn from the rows in their folders, and drawn again while they go on."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.console import Say
from experiments.explain.over_sweep import with_guides
from experiments.reading import side_by_side
from experiments.simulation.occupancy import with_occupancy
from results.address import Place
from results.errors import StoreError
from results.read import folder_names, open_sweep
from results.report import frame, several
from results.report.page import render_all
from results.standing import Standing, standing
from results.store import Store
from results.summary import find
from results.sweep_document import SHOWN, check_sweep

LOOK_S = 2.0  # between two looks at what has ended
FEWEST_REFRESH_S = 10  # a reader's page is not taken away more often
REFRESHES = 3  # times as long as drawing takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a page was drawn of."""

    sweeps: tuple[several.Shown, ...]
    path: Place
    took_s: float
    interrupted: bool = False  # by Ctrl-C, while it was watched

    @property
    def problems(self) -> list[str]:
        """What could not be read, each once."""
        return list(dict.fromkeys(problem for one in self.sweeps for problem in one.store.problems))


def draw(folders: Sequence[Place], path: Place, *, refresh_s: int | None = None) -> Drawn:
    """Draw the page of these sweeps, each given once. StoreError if one is no sweep or the page cannot be written."""
    began_s = time.monotonic()
    stores = [_store(folder) for folder in folders]
    found = [
        (name, with_occupancy(with_guides(find(store, side_by_side), store.place)), store)
        for name, store in zip(folder_names(stores), stores, strict=True)
    ]
    sweeps = several.shown(found)
    frame.write(render_all(sweeps, refresh_s=refresh_s), path)
    return Drawn(sweeps=sweeps, path=path, took_s=time.monotonic() - began_s)


def watch(folders: Sequence[Place], path: Place, say: Say, stop: threading.Event | None = None) -> Drawn:
    """Draw the page again as cells end, until no sweep runs any more; its last version reloads itself no longer.

    `stop`, if it is set, ends it too, and so does Ctrl-C; a second one leaves the page as it is. KeyboardInterrupt if
    there is no page then.
    """
    stop = threading.Event() if stop is None else stop
    refresh_s, seen = FEWEST_REFRESH_S, None
    try:
        while not stop.is_set():
            stands = [standing(folder) for folder in folders]
            if not any(one.state == "running" for one in stands):
                break
            ended = [(len(one.done), one.failed_attempts) for one in stands]
            if seen != (ended, _written_at(path)):  # a sweep draws its page too, and that one does not reload
                drawn = _draw_running(folders, path, refresh_s)
                if drawn is not None:
                    refresh_s = max(FEWEST_REFRESH_S, round(REFRESHES * drawn.took_s))
                say(f"{path}: {_progress(stands)}")
                seen = ended, _written_at(path)
            stop.wait(LOOK_S)
    except KeyboardInterrupt:
        if seen is None:
            raise
        say("no longer watched, the sweep goes on; drawing the page once more, without its reloading")
        return replace(draw(folders, path), interrupted=True)
    return draw(folders, path)


def _draw_running(folders: Sequence[Place], path: Place, refresh_s: int) -> Drawn | None:
    """Draw it; None while a sweep is still timed and has no sweep.json."""
    try:
        return draw(folders, path, refresh_s=refresh_s)
    except StoreError:
        if not all(standing(folder).info for folder in folders):
            return None
        raise


def _written_at(path: Place) -> int | None:
    return path.stat().st_mtime_ns if isinstance(path, Path) and path.is_file() else None


def _progress(stands: Sequence[Standing]) -> str:
    parts = [f"{len(one.done)} of {'?' if one.planned is None else one.planned} cells done" for one in stands]
    return "; ".join(parts)


def _store(folder: Place) -> Store:
    store = open_sweep(folder)
    check_sweep(store.read_sweep() or {}, folder, SHOWN)
    return store
