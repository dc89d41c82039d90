"""`batchyard ls`: the sweeps in a results folder."""

from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import RESULTS, AsJson, Results
from experiments.console import emit, one_line_errors, show, table, tell
from results.errors import StoreError

if TYPE_CHECKING:
    from results.standing import Standing

EXAMPLES = "Examples:  batchyard ls  ·  batchyard ls --results /data/sweeps  ·  batchyard ls --json"


def ls(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """List the sweeps: when begun, how many cells are done, failed and planned, whether they run."""
    with one_line_errors():
        from results.standing import standings

        if not results.is_dir() and results != RESULTS:
            raise StoreError(f"--results must be a folder that exists, got {results}")
        found = list(standings(results)) if results.is_dir() else []
        for one in found:
            for problem in one.problems:
                tell(f"warning: {one.name}: {problem}")
        if as_json:
            emit([standing_document(one) for one in found])
        elif found:
            _show(found)
        else:
            show(f"No sweeps in {results}; `batchyard sweep CONFIG` begins one.")


def standing_document(one: "Standing") -> dict[str, Any]:
    """How a sweep stands as plain JSON values."""
    held = one.driver
    return {
        "name": one.name,
        "folder": str(one.folder),
        "state": one.state,
        "begun_at": one.begun_at,
        "driver": held and {"pid": held.pid, "host": held.host, "since": held.since, "alive": held.alive},
        "planned_cells": one.planned,
        "done_cells": len(one.done),
        "failed_cells": len(one.failed),
        "failed_attempts": one.failed_attempts,
        "last_row_at": one.last_row_at,
        "page": None if one.page is None else str(one.page),
        "problems": list(one.problems),
    }


def in_words(one: "Standing") -> str:
    """Its state, with who drives it."""
    held = one.driver
    if one.state == "running" and held is not None:
        return f"running (process {held.pid})"
    if one.state == "elsewhere" and held is not None:
        return f"process {held.pid} on {held.host}, which cannot be seen from here"
    return f"{one.state}, simulated" if "simulated" in one.info else str(one.state)


def when(stamp: str | None) -> str:
    """A stamp (ISO 8601, UTC) as a person reads it."""
    return "–" if stamp is None else stamp[:16].replace("T", " ")


def _show(found: list["Standing"]) -> None:
    rows = [
        (
            one.name,
            when(one.begun_at),
            f"{len(one.done)} of {'?' if one.planned is None else one.planned}",
            str(len(one.failed)),
            in_words(one),
            "–" if one.page is None else str(one.page),
        )
        for one in found
    ]
    titles = ("sweep", "begun (UTC)", "cells done", "failed", "state", "page")
    for line in table(titles, rows, right=len(titles)):
        show(line)
