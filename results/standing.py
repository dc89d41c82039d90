"""How a sweep stands, read from its folder alone, while it runs or long after: nothing is asked of its driver."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from results.address import Place, place
from results.driver import Driver
from results.errors import StoreError
from results.lock import driver
from results.records import Failure
from results.store import Store
from results.sweep_folder import PAGE, is_sweep, no_sweep

State: TypeAlias = Literal["running", "complete", "stopped", "elsewhere", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One sweep. `failed` are cells whose last attempt failed and that have none that is done."""

    folder: Place
    state: State
    info: Mapping[str, Any]  # sweep.json; empty while the rates are measured
    done: Mapping[str, int]  # cell id → the attempt that counts
    failed: Mapping[str, Failure]  # cell id → why, of its last attempt
    failed_attempts: int  # also of cells that are done by now
    driver: Driver | None  # who holds it, or held it and was killed
    last_row_at: str | None  # when the newest part file was written: ISO 8601, UTC
    problems: tuple[str, ...]  # what could not be read, one line each

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.folder.resolve().name

    @property
    def own_name(self) -> str | None:
        """What its folder must be named to be found by its config; None if that is not known."""
        name, written = self.info.get("name"), self.info.get("config_hash")
        return f"{name}-{written}" if name and written else None

    @property
    def begun_at(self) -> str | None:
        """ISO 8601, UTC: when its cells were known."""
        return self.info.get("created_at")

    @property
    def planned(self) -> int | None:
        """How many cells it has; None if that is not known yet."""
        planned = self.info.get("planned_cells")
        return planned if isinstance(planned, int) else None

    @property
    def page(self) -> Place | None:
        """Its page, if it has been drawn."""
        page = self.folder / PAGE
        return page if page.is_file() else None


def standing(folder: str | os.PathLike[str]) -> Standing:
    """How the sweep in `folder` stands. StoreError if there is none, or its documents cannot be read."""
    path = place(folder)
    held = driver(path)
    store = Store(path)
    info = store.read_sweep()
    if info is None and held is None:
        raise StoreError(no_sweep(path))
    done, failures = store.done_cells(), store.failures()
    last = {failure.cell_id: failure for failure in failures}  # in order of attempts
    planned = (info or {}).get("planned_cells")
    return Standing(
        folder=path,
        state=_state(held, complete=isinstance(planned, int) and len(done) >= planned),
        info=info or {},
        done=done,
        failed={cell: failure for cell, failure in last.items() if cell not in done},
        failed_attempts=len(failures),
        driver=held,
        last_row_at=store.last_row_at(),
        problems=tuple(store.problems),
    )


def standings(results: Place) -> Iterator[Standing]:
    """Every sweep in a results folder, by name; one that cannot be read is there with its problem."""
    folders: Iterable[Place] = results.iterdir()
    for folder in sorted((path for path in folders if path.is_dir()), key=str):
        if is_sweep(folder):
            try:
                yield standing(folder)
            except StoreError as error:
                yield _unreadable(folder, str(error))


def _state(held: Driver | None, *, complete: bool) -> State:
    if held is not None and held.alive:
        return "running"
    if complete:
        return "complete"
    return "elsewhere" if held is not None and held.alive is None else "stopped"


def _unreadable(folder: Place, why: str) -> Standing:
    return Standing(
        folder=folder,
        state="unreadable",
        info={},
        done={},
        failed={},
        failed_attempts=0,
        driver=driver(folder),
        last_row_at=None,
        problems=(why,),
    )
