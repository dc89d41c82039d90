"""`batchyard simulate`: a sweep in virtual time, or what is missing of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.arguments import RESULTS, AsJson, Config, Results, check_results, command
from experiments.commands.outcome import conclude
from experiments.commands.step_times import CalibrationFile, Hardware, step_times
from experiments.console import one_line_errors, tell
from results.address import Place

if TYPE_CHECKING:
    from experiments.simulation.simulation import Simulation

EXAMPLES = (
    "Examples:  batchyard simulate experiments/configs/full.yaml --hardware H200  ·  "
    "batchyard simulate my.yaml --calibration results/data/local-0123456789ab/calibration.json  ·  "
    "batchyard simulate my.yaml --repeats 30 --json > findings.json"
)


def simulate(
    config: Config,
    hardware: Hardware = None,
    calibration: CalibrationFile = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Default: 10, or the config's if it has more.")
    ] = None,
    lengthen: Annotated[
        bool | None,
        typer.Option(
            "--lengthen/--no-lengthen",
            help="Whether requests arrive for as long as verdicts need (250 of them, 12 full batches) where the "
            "config's duration is shorter. Default: yes, unless step times are of a measured sweep, whose requests "
            "`compare` must find again.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Start anew; an earlier run is kept beside it.")] = False,
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Run a sweep in virtual time: the same config, strategies, rows and page, without Ray, a model or a GPU.

    huggingface becomes an engine that runs a batch to its longest row, vllm and huggingface-continuous one that
    forms its batch anew at each step. Step times: --hardware, else --calibration, else what a sweep of this config
    measured, else the defaults of the simulated engine. Ctrl-C loses nothing: the same command goes on.
    """  # fmt: skip
    with one_line_errors():
        check_results(results)
        from experiments.config import load
        from experiments.simulation.simulation import Simulation

        loaded = load(config).on_any_gpu()
        for warning in loaded.warnings:
            tell(f"warning: {config}: {warning}")
        times = step_times(loaded, "simulate", hardware, calibration, results)
        options = _options(hardware, calibration, repeats, lengthen)
        if times.rates:
            tell(f"arrival rates: {', '.join(f'{rate:g}' for rate in times.rates)} requests/s, as calibrated")
        simulation = Simulation.of(
            loaded,
            times.bases,
            repeats=repeats,
            rates=times.rates,
            options=options,
            lengthen=not times.of_sweep if lengthen is None else lengthen,
        )
        elsewhere = () if results == RESULTS else ("--results", results)
        again = command("simulate", config, *options, *elsewhere)
        run(simulation, results, fresh=fresh, again=again, as_json=as_json)


def run(simulation: "Simulation", results: Place, *, fresh: bool, again: str, as_json: bool) -> None:
    """Run what is missing and say what was found."""
    from experiments.simulation.run import run_simulation
    from results.earlier_run import move_aside

    root = simulation.root(results)
    for name, premise in simulation.premises.items():
        tell(f"simulated {name}: {premise.text}")
    if simulation.durations is not None:
        tell(f"durations: {simulation.durations}")
    try:
        if fresh:
            move_aside(root, tell)
        outcome = run_simulation(simulation, root, tell)
    except KeyboardInterrupt:
        tell(f"interrupted; nothing that was done is lost: `{again}` goes on")
        raise typer.Exit(130) from None
    conclude(outcome, again=again, as_json=as_json)


def _options(
    hardware: str | None, calibration: Place | None, repeats: int | None, lengthen: bool | None
) -> list[str]:
    given = {"--hardware": hardware, "--calibration": calibration, "--repeats": repeats}
    flags = [] if lengthen is None else ["--lengthen" if lengthen else "--no-lengthen"]
    return [
        *(text for name, value in given.items() if value is not None for text in (name, str(value))),
        *flags,
    ]
