"""`batchyard sweep` and `batchyard resume`: run what is missing of a sweep, or say what that would be."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.arguments import (
    RESULTS,
    AsJson,
    Config,
    Folder,
    Lanes,
    Results,
    check_results,
    command,
    must_be_named,
)
from experiments.commands.outcome import conclude
from experiments.console import one_line_errors, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.config import SweepConfig

SWEEP_EXAMPLES = (
    "Examples:  batchyard sweep experiments/configs/local.yaml  ·  "
    "batchyard sweep my.yaml --dry-run  ·  batchyard sweep my.yaml --results /data/sweeps  ·  "
    "batchyard sweep my.yaml --fresh  ·  batchyard sweep my.yaml --json > findings.json"
)
RESUME_EXAMPLES = "Example:  batchyard resume results/data/local-0123456789ab"


def sweep(
    config: Config,
    fresh: Annotated[bool, typer.Option(help="Start anew; an earlier run is kept beside it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run and how long it takes; start nothing.")
    ] = False,
    lanes: Lanes = 0,
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Run a sweep, or what is missing of it, and draw its page.

    Ctrl-C, a crash or a lost machine: the same command goes on where it stopped.
    """
    with one_line_errors():
        check_results(results)
        from experiments.config import load

        loaded = load(config)
        for warning in loaded.warnings:
            tell(f"warning: {config}: {warning}")
        if dry_run:
            from experiments.dry_run import dry_run as say_plan

            say_plan(loaded, results, fresh=fresh, lanes=lanes, as_json=as_json)
            return
        options = [*(("--results", results) if results != RESULTS else ()), *_lanes_again(lanes)]
        again = command("sweep", config, *options)
        _run(loaded, results, fresh=fresh, lanes=lanes, again=again, as_json=as_json)


def resume(folder: Folder, lanes: Lanes = 0, as_json: AsJson = False) -> None:
    """Go on with a sweep, or a capacity search, from its results folder, without its config file."""
    with one_line_errors():
        from experiments.config import parse
        from results.read import open_sweep
        from results.sweep_document import CONFIGURED, check_sweep

        info = open_sweep(folder).read_sweep() or {}
        check_sweep(info, folder, CONFIGURED)
        again = command("resume", folder, *_lanes_again(lanes))
        if "capacity" in info:
            from experiments.commands.capacity import resume as resume_search

            resume_search(info, folder, again=again, as_json=as_json)
            return
        if "simulated" in info:
            _resume_simulation(info, folder, again=again, as_json=as_json)
            return
        loaded = parse(info["config"], source=f"{folder}/sweep.json")
        must_be_named(folder, f"{loaded.name}-{loaded.config_hash}")
        _run(loaded, folder.resolve().parent, fresh=False, lanes=lanes, again=again, as_json=as_json)


def _lanes_again(lanes: int) -> tuple[object, ...]:
    return ("--lanes", lanes) if lanes else ()


def _run(config: "SweepConfig", results: Path, *, fresh: bool, lanes: int, again: str, as_json: bool) -> None:
    from experiments.sweep import run_sweep
    from experiments.sweep_record import sweep_root

    try:
        outcome = run_sweep(config, sweep_root(config, results), tell, fresh=fresh, asked_lanes=lanes)
    except KeyboardInterrupt:
        tell(f"interrupted; nothing that was done is lost: `{again}` goes on")
        raise typer.Exit(130) from None
    conclude(outcome, again=again, as_json=as_json)


def _resume_simulation(info: "Mapping[str, Any]", folder: Path, *, again: str, as_json: bool) -> None:
    from experiments.commands.simulate import run
    from experiments.simulation.simulation import Simulation

    simulation = Simulation.from_info(info, f"{folder}/sweep.json")
    must_be_named(folder, f"{simulation.name}-{simulation.identity}")
    run(simulation, folder.resolve().parent, fresh=False, again=again, as_json=as_json)
