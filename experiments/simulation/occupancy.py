"""Who held which slot, for the page of a simulated sweep: run again, because the same seed gives the same run.

One setting of each strategy, all of one batch size where there is one, the static ones on an engine that runs a
batch to its longest row where the sweep has that; the first repeat at every rate, and its first steps.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployments.backends.registry import BACKENDS
from deployments.virtual.run import Run
from experiments.cells import Cell
from experiments.errors import ConfigError
from experiments.simulation.cell_run import columns_of, simulated
from experiments.simulation.engines import engine_of
from experiments.simulation.simulation import Simulation, check_shapes, shape_of
from results.errors import StoreError
from results.findings import Findings, Occupancy, Stretch
from results.records import VIRTUAL
from results.summary import shown_backend
from workloads.errors import WorkloadError
from workloads.shape import Shape

STEPS = 300  # drawn of each
MOST_REQUESTS = 3_000  # of a trial that is run again: the first ones


def with_occupancy(findings: Findings) -> Findings:
    """The findings of a simulated sweep with the slots of some of its trials; others as they are."""
    if "simulated" not in findings.sweep or not findings.trials:
        return findings
    try:
        done = {one.trial.cell_id for one in findings.trials}
        return replace(findings, occupancy=tuple(occupancy_of(findings.sweep, done)))
    except (ConfigError, StoreError, WorkloadError, KeyError, TypeError, ValueError):
        return findings  # a sweep of another version, or one whose trace is gone: a page is not lost for it


def occupancy_of(sweep: Mapping[str, Any], done: Collection[str]) -> Iterator[Occupancy]:
    """Of a sweep.json, among the cells that ran well; the highest rate first.

    Errors as of `Simulation.cells`; ConfigError too where the requests would be others.
    """
    simulation = Simulation.from_info(sweep, "sweep.json")
    planned = [cell for cell in simulation.cells(sweep) if cell.repeat == 0 and cell.cell_id in done]
    if not planned:
        return
    check_shapes(planned, sweep)
    chosen = {(cell.backend, cell.setting) for cell in _chosen(planned)}
    for cell in sorted(planned, key=lambda cell: -cell.rate):
        if (cell.backend, cell.setting) in chosen:
            engine = engine_of(cell, simulation.premises[cell.backend], simulation.config.simulation)
            made = shape_of(cell)
            run = simulated(cell, columns_of(_first(made)), engine, occupancy=True)
            yield _occupancy(cell, run, len(made))


def _chosen(planned: Sequence[Cell]) -> Iterator[Cell]:
    """One cell of each strategy."""
    sizes = [
        {cell.knobs["max_batch_size"] for cell in planned if cell.strategy == strategy}
        for strategy in dict.fromkeys(cell.strategy for cell in planned)
    ]
    shared = set.intersection(*sizes) or {size for one in sizes for size in one}
    size = min(shared)

    def order(cell: Cell) -> tuple[bool, bool, int]:
        own: int = cell.knobs["max_batch_size"]
        return own != size, _is_joined(cell), own

    for strategy in dict.fromkeys(cell.strategy for cell in planned):
        yield min((cell for cell in planned if cell.strategy == strategy), key=order)


def _is_joined(cell: Cell) -> bool:
    return BACKENDS[cell.backend].args_type.model_validate(dict(cell.engine)).joinable


def _first(made: Shape) -> Shape:
    if len(made) <= MOST_REQUESTS:
        return made
    some = slice(0, MOST_REQUESTS)
    return replace(
        made,
        arrival_s=made.arrival_s[some],
        prompt_tokens=made.prompt_tokens[some],
        output_tokens=made.output_tokens[some],
        priority=None if made.priority is None else made.priority[some],
        ttft_target_s=None if made.ttft_target_s is None else made.ttft_target_s[some],
    )


def _occupancy(cell: Cell, run: Run, planned: int) -> Occupancy:
    shown = [one for one in run.stretches or () if one.first_step < STEPS]
    return Occupancy(
        backend=shown_backend(cell.backend, VIRTUAL),
        setting=cell.setting,
        rate=cell.rate,
        repeat=cell.repeat,
        slots=cell.knobs["max_batch_size"],
        steps=min(STEPS, run.passes),
        utilisation=run.utilisation,
        requests=len(run.requests),
        planned=planned,
        stretches=tuple(
            Stretch(
                slot=one.slot,
                request=one.index,
                holding=one.holding,
                first_step=one.first_step,
                end_step=min(one.end_step, STEPS),
            )
            for one in shown
        ),
    )
