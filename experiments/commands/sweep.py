"""`batchyard sweep` and `batchyard resume`: run what is missing of a sweep, or say what that would be."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.arguments import (
    RESULTS,
    Address,
    AsJson,
    Config,
    Folder,
    Labels,
    Lanes,
    MaxCost,
    MaxHours,
    OnCpu,
    Results,
    check_results,
    command,
    limits_asked,
    must_be_named,
    refuse_limits,
    where_asked,
)
from experiments.commands.outcome import conclude
from experiments.console import one_line_errors, tell
from results.address import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.budget import Limits
    from experiments.config import SweepConfig
    from experiments.where import Where

SWEEP_EXAMPLES = (
    "Examples:  batchyard sweep experiments/configs/local.yaml  ·  "
    "batchyard sweep my.yaml --dry-run  ·  batchyard sweep my.yaml --results /data/sweeps  ·  "
    "batchyard sweep my.yaml --address auto --lanes 4  ·  batchyard sweep my.yaml --max-hours 2 --max-cost 20  ·  batchyard sweep my.yaml --fresh  ·  batchyard sweep my.yaml --json > findings.json"
)
RESUME_EXAMPLES = (
    "Examples:  batchyard resume results/data/local-0123456789ab  ·  "
    "batchyard resume results/data/local-0123456789ab --max-cost 40"
)


def sweep(
    config: Config,
    fresh: Annotated[bool, typer.Option(help="Start anew; an earlier run is kept beside it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run and how long it takes; start nothing.")
    ] = False,
    lanes: Lanes = 0,
    address: Address = None,
    label: Labels = None,
    on_cpu: OnCpu = False,
    max_hours: MaxHours = None,
    max_cost: MaxCost = None,
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Run a sweep, or what is missing of it, and draw its page.

    Ctrl-C, a crash or a lost machine: the same command goes on where it stopped.
    """
    with one_line_errors():
        check_results(results)
        limits = limits_asked(max_hours, max_cost)
        where = where_asked(lanes, address, label, on_cpu=on_cpu)
        from experiments.config import load

        loaded = load(config)
        for warning in loaded.warnings:
            tell(f"warning: {config}: {warning}")
        if dry_run:
            from experiments.dry_run import dry_run as say_plan

            say_plan(loaded, results, fresh=fresh, where=where, as_json=as_json)
            return
        options = [*(("--results", results) if results != RESULTS else ()), *where.typed(), *limits.typed()]
        from experiments.submitted import AGAIN

        again = os.environ.get(AGAIN) or command("sweep", config, *options)
        _run(loaded, results, fresh=fresh, where=where, limits=limits, again=again, as_json=as_json)


def resume(
    folder: Folder,
    lanes: Lanes = 0,
    address: Address = None,
    label: Labels = None,
    on_cpu: OnCpu = False,
    max_hours: MaxHours = None,
    max_cost: MaxCost = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a sweep, or a capacity search, from its results folder, without its config file."""
    with one_line_errors():
        where = where_asked(lanes, address, label, on_cpu=on_cpu)
        limits = limits_asked(max_hours, max_cost)
        from experiments.config import parse
        from results.read import open_sweep
        from results.sweep_document import CONFIGURED, check_sweep

        info = open_sweep(folder).read_sweep() or {}
        check_sweep(info, folder, CONFIGURED)
        again = command("resume", folder, *where.typed(), *limits.typed())
        if "simulated" in info:
            refuse_limits(limits)
        if "capacity" in info:
            from experiments.commands.search import resume as resume_search

            resume_search(info, folder, where, limits, again=again, as_json=as_json)
            return
        if "simulated" in info:
            _resume_simulation(info, folder, again=again, as_json=as_json)
            return
        loaded = parse(info["config"], source=f"{folder}/sweep.json")
        must_be_named(folder, f"{loaded.name}-{loaded.config_hash}")
        root = folder.resolve().parent
        _run(loaded, root, fresh=False, where=where, limits=limits, again=again, as_json=as_json)


def _run(
    config: "SweepConfig",
    results: Place,
    *,
    fresh: bool,
    where: "Where",
    limits: "Limits",
    again: str,
    as_json: bool,
) -> None:
    from experiments.sweep import run_sweep
    from experiments.sweep_record import sweep_root

    try:
        root = sweep_root(config, results)
        outcome = run_sweep(config, root, tell, fresh=fresh, where=where, limits=limits)
    except KeyboardInterrupt:
        tell(f"interrupted; nothing that was done is lost: `{again}` goes on")
        raise typer.Exit(130) from None
    conclude(outcome, again=again, as_json=as_json)


def _resume_simulation(info: "Mapping[str, Any]", folder: Place, *, again: str, as_json: bool) -> None:
    from experiments.commands.simulate import run
    from experiments.simulation.simulation import Simulation

    simulation = Simulation.from_info(info, f"{folder}/sweep.json")
    must_be_named(folder, f"{simulation.name}-{simulation.identity}")
    run(simulation, folder.resolve().parent, fresh=False, again=again, as_json=as_json)
