"""The engines of virtual time are machine code, made by the first run on a machine and kept for the next ones."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np

from deployments.virtual.outcomes import Outcomes
from deployments.virtual.request_columns import RequestColumns
from experiments.cells import Cell
from experiments.console import Say
from experiments.simulation.engines import engine_of
from experiments.simulation.premise import Premise
from experiments.simulation_entry import SimulationEntry

TOLD_AFTER_S = 2.0


def compile_engines(
    cells: Iterable[Cell], premises: Mapping[str, Premise], entry: SimulationEntry, say: Say
) -> None:
    """Have what these cells run kept, so that not every process of a pool compiles it; said if that takes a while."""
    one_each = {cell.backend: cell for cell in cells}
    one = np.ones(1, dtype=np.int64)
    request = RequestColumns(planned_s=np.zeros(1), prompt_tokens=one, output_tokens=one, max_new_tokens=one)
    with _told(say):
        for backend, cell in one_each.items():
            with suppress(ValueError):  # an engine that could not move: its cells will say so
                engine_of(cell, premises[backend], entry).engine(request, Outcomes(1), occupancy=False)


@contextmanager
def _told(say: Say) -> Iterator[None]:
    told = threading.Timer(TOLD_AFTER_S, say, ["compiling the engines of virtual time, the first time only"])
    told.daemon = True
    told.start()
    try:
        yield
    finally:
        told.cancel()
