"""`batchyard ls`: the sweeps in a results folder."""

from typing import TYPE_CHECKING

from experiments.commands.arguments import RESULTS, AsJson, Results
from experiments.commands.shown_standing import in_words, standing_document, warnings_of, when
from experiments.console import emit, one_line_errors, show, table, tell
from results.errors import StoreError

if TYPE_CHECKING:
    from results.standing import Standing

EXAMPLES = "Examples:  batchyard ls  ·  batchyard ls --results /data/sweeps  ·  batchyard ls --json"


def ls(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """List the sweeps: when begun, how many cells are done, failed and planned, whether they run."""
    with one_line_errors():
        from results.standing import standings

        there = results.is_dir()
        if not there and results != RESULTS:
            raise StoreError(f"--results must be a folder that exists, got {results}")
        found = list(standings(results)) if there else []
        for one in found:
            for problem in warnings_of(one):
                tell(f"warning: {one.name}: {problem}")
        if as_json:
            emit([standing_document(one) for one in found])
        elif found:
            _show(found)
        else:
            show(f"No sweeps in {results}; `batchyard sweep CONFIG` begins one.")


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
