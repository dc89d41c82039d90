"""`batchyard status`: how one sweep stands, from another terminal while it runs, or after it was killed."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.arguments import AsJson, Folder
from experiments.commands.shown_standing import go_on, in_words, standing_document, warnings_of, when
from experiments.console import emit, one_line_errors, show, table, tell
from experiments.errors import ConfigError
from results.address import Place
from results.fetched import fetched_of

if TYPE_CHECKING:
    from experiments.cells import Cell
    from experiments.cost_so_far import CostSoFar
    from results.standing import Standing

_JOB = re.compile(r"-\d{4}-\d{6}$")  # how the name of a job ends
EXAMPLES = (
    "Examples:  batchyard status results/data/local-0123456789ab  ·  "
    "batchyard status results/data/local-0123456789ab --json  ·  "
    "batchyard status local-0123456789ab-1130-153012 --address http://127.0.0.1:8265"
)


def status(
    folder: Folder,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="<http://HOST:PORT>", help="Of a job on the cluster whose dashboard this is, by its name."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how a sweep stands: cells done, left and failed, its driver, and how to go on."""
    with one_line_errors():
        if address is not None:
            from experiments.commands.job_status import show_job

            show_job(folder.name, address, as_json=as_json)
            return
        _refuse_job(folder)
        from results.standing import standing

        one = standing(folder)
        cells, lanes = _cells(one), _lanes(one)
        cost = _cost(one, cells)
        for problem in warnings_of(one):
            tell(f"warning: {problem}")
        if as_json:
            emit(_document(one, cells) | {"lanes": lanes, "cost": _cost_document(one, cells, cost)})
        else:
            _show(one, cells, lanes, cost)


def _refuse_job(folder: Place) -> None:
    if isinstance(folder, Path) and _JOB.search(folder.name) and not os.path.exists(folder):
        raise ConfigError(
            f"{folder}: does not exist; of a job give --address too, its cluster's dashboard (http://127.0.0.1:8265 "
            "where `ray dashboard` brings it)"
        )


def _cells(one: "Standing") -> "Sequence[Cell]":
    """The cells of its config; none if that cannot be known (another version made them, or none are known yet)."""
    from experiments.config import parse
    from experiments.errors import ConfigError
    from experiments.simulation.simulation import Simulation
    from experiments.sweep_record import begun, cells_of
    from results.errors import StoreError, one_line
    from results.store import Store
    from results.sweep_document import CONFIGURED, check_sweep
    from workloads.errors import WorkloadError

    if not one.info or "capacity" in one.info:  # a search makes its cells as it goes
        return ()
    try:
        check_sweep(one.info, one.folder, CONFIGURED)
        if "simulated" in one.info:
            return Simulation.from_info(one.info, f"{one.folder}/sweep.json").cells(one.info)
        config = parse(one.info["config"], source=f"{one.folder}/sweep.json")
        return cells_of(config, begun(config, Store(one.folder))) or ()
    except (ConfigError, StoreError, WorkloadError, KeyError, TypeError, ValueError) as error:
        tell(f"warning: its cells are only counted: {one_line(error)}")
        return ()


def _lanes(one: "Standing") -> dict[str, int]:
    """Cells done in each lane, by its name."""
    from results.store import Store

    count = Counter(trial.lane for trial in Store(one.folder).trials() if trial.lane)
    return dict(sorted(count.items()))


def _cost(one: "Standing", cells: "Sequence[Cell]") -> "CostSoFar | None":
    """What it has cost and will; None without a price, and in virtual time."""
    from experiments.config import parse
    from experiments.cost_so_far import CostSoFar, expected_s
    from experiments.plan import trial_times
    from results.price import price_of
    from results.store import Store

    price, store = price_of(one.info), Store(one.folder)
    if price is None or "simulated" in one.info:
        return None
    takes_s: dict[str, float] = {}
    if cells:
        config = parse(one.info["config"], source=f"{one.folder}/sweep.json")
        times, _ = trial_times(config, one.info, store.trials())
        left = [cell.cell_id for cell in cells if cell.cell_id not in one.done]
        takes_s = expected_s(cells, left, times, config.seed)
    return CostSoFar(store, one.info, price, takes_s)


def _cost_document(
    one: "Standing", cells: "Sequence[Cell]", cost: "CostSoFar | None"
) -> dict[str, Any] | None:
    from experiments.cost_so_far import cost_document

    if cost is None:
        return None
    known = bool(cells) or one.state == "complete"
    return cost_document(cost.spent, cost.price, cost.left(cells) if known else None)


def _document(one: "Standing", cells: "Sequence[Cell]") -> dict[str, Any]:
    return standing_document(one) | {
        "left_cells": _left(one),
        "rates": one.info.get("resolved", {}).get("rates"),
        "durations_s": one.info.get("resolved", {}).get("durations_s"),
        "failed": [
            failure.model_dump(mode="json", exclude={"schema_version"}) for failure in one.failed.values()
        ],
        "cells": [
            {
                "cell_id": cell.cell_id,
                "backend": cell.backend,
                "setting": cell.setting,
                "rate": cell.rate,
                "repeat": cell.repeat,
                "state": _state(one, cell.cell_id),
            }
            for cell in cells
        ],
        "go_on": _go_on(one),
    }


def _show(
    one: "Standing", cells: "Sequence[Cell]", lanes: "Mapping[str, int]", cost: "CostSoFar | None"
) -> None:
    show(f"{one.name}: {in_words(one)}")
    for backend, said in (one.info.get("simulated") or {}).get("backends", {}).items():
        show(f"simulated, not measured: {backend}: {said['text']}")
    if (search := one.info.get("capacity")) is not None:
        answered = sum(answer["complete"] for answer in search["answers"])
        show(
            f"search: {answered} of {len(search['answers'])} settings have their bracket, {len(one.done)} trials done"
        )
    elif one.planned is None:
        show("cells: not known yet, its engines are timed first")
    else:
        show(
            f"cells: {len(one.done)} of {one.planned} done, {len(one.failed)} failed, "
            f"{_left(one)} left; attempts that failed: {one.failed_attempts}"
        )
        rates = one.info.get("resolved", {}).get("rates", [])
        if rates:
            show(f"rates: {', '.join(f'{rate:g}' for rate in rates)} requests/s")
    if cells:
        for line in _table(one, cells):
            show(line)
    if cost is not None:
        show(f"cost: {cost.text(cells)}; {cost.spent.gpu_hours:.3g} GPU hours{_unrecorded(cost)}")
    if len(lanes) > 1:
        show(f"cells done in lanes: {', '.join(f'{lane} {count}' for lane, count in lanes.items())}")
    named = {cell.cell_id: cell.in_words for cell in cells}
    for cell_id, failure in one.failed.items():
        show(f"failed: {named.get(cell_id, cell_id)}: {failure.in_words}")
    if one.driver is not None:
        ended = {True: "", False: ", has ended", None: ", cannot be seen from here"}[one.driver.alive]
        show(f"driver: process {one.driver.pid} on {one.driver.host} since {when(one.driver.since)}{ended}")
    show(f"begun: {when(one.begun_at)}, last row: {when(one.last_row_at)} (UTC)")
    if (job := fetched_of(one.folder)) is not None:
        show(f"fetched: from {job}, as it stood then")
    show(f"page: {one.page or 'none yet'}")
    if (again := _go_on(one)) is not None:
        show(f"go on: {again}")


def _table(one: "Standing", cells: "Sequence[Cell]") -> list[str]:
    """Cells done of each setting (down) at each rate (across)."""
    groups: dict[tuple[str, str], dict[float, list[bool]]] = {}
    for cell in cells:
        of_rate = groups.setdefault((cell.backend, cell.setting), {})
        of_rate.setdefault(cell.rate, []).append(cell.cell_id in one.done)
    rates = sorted({cell.rate for cell in cells})
    rows = [
        (*group, *(f"{sum(of_rate[rate])}/{len(of_rate[rate])}" for rate in rates))
        for group, of_rate in groups.items()
    ]
    return table(("backend", "strategy", *(f"{rate:g}/s" for rate in rates)), rows, right=2)


def _unrecorded(cost: "CostSoFar") -> str:
    count = cost.spent.unrecorded
    return f", attempts that run or were killed until the last that they wrote: {count}" if count else ""


def _left(one: "Standing") -> int | None:
    """Cells that are neither done nor failed."""
    return None if one.planned is None else max(0, one.planned - len(one.done) - len(one.failed))


def _state(one: "Standing", cell_id: str) -> str:
    if cell_id in one.done:
        return "done"
    return "failed" if cell_id in one.failed else "left"


def _go_on(one: "Standing") -> str | None:
    """The command that runs what is missing; None if nothing is, or somebody does."""
    if one.state in ("complete", "running"):
        return None
    if not one.info:  # not resolved yet
        return "batchyard sweep CONFIG"
    return go_on(one.folder) if one.name == one.own_name else None
