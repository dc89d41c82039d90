"""`batchyard capacity`: the largest arrival rate that each setting serves within a service level."""

from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.arguments import (
    RESULTS,
    Address,
    AsJson,
    Config,
    Labels,
    Lanes,
    MaxCost,
    MaxHours,
    OnCpu,
    Results,
    check_results,
    command,
    limits_asked,
    refuse_limits,
    where_asked,
)
from experiments.commands.search import conclude, run, targets
from experiments.commands.step_times import CalibrationFile, Hardware, step_times
from experiments.console import one_line_errors
from experiments.errors import ConfigError
from experiments.largest_rate.search import MOST_TRIALS
from results.address import Place

if TYPE_CHECKING:
    from experiments.config import SweepConfig
    from experiments.simulation.premise import Premise

EXAMPLES = (
    "Examples:  batchyard capacity experiments/configs/local.yaml --slo ttft_p99=2s,e2e_p95=20s  ·  "
    "batchyard capacity my.yaml --slo ttft_p99=500ms --strategy continuous --width 5%  ·  "
    "batchyard capacity my.yaml --slo e2e_p95=5s --dry-run  ·  "
    "batchyard capacity my.yaml --slo e2e_p95=5s --simulate --hardware h100 --json"
)
LEAST_WIDTH, MOST_WIDTH = 0.01, 1.0


def capacity(
    config: Config,
    slo: Annotated[
        str,
        typer.Option(
            help="Percentiles and their limits, by commas: ttft, tpot, itl, e2e, queue_wait or delivered, "
            "as in ttft_p99=500ms,e2e_p95=5s.",
            metavar="<limits>",
        ),
    ],
    width: Annotated[
        str, typer.Option(help="How far apart the two ends of a bracket may be.", metavar="<per cent>")
    ] = "10%",
    max_trials: Annotated[
        int,
        typer.Option(
            help="Of each setting, at most: what contradicts itself for that long is not settled.",
            min=1,
            metavar="<number>",
        ),
    ] = MOST_TRIALS,
    strategy: Annotated[
        list[str] | None, typer.Option(help="Only this strategy; may be given several times.")
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Search in virtual time, without Ray, a model or a GPU.")
    ] = False,
    hardware: Hardware = None,
    calibration: CalibrationFile = None,
    fresh: Annotated[bool, typer.Option(help="Start anew; an earlier run is kept beside it.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be tried and how long it may take; start nothing."),
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
    """Find the largest arrival rate that each setting of a config serves within a service level.

    Bisection on real trials: each setting is first given all requests at once, then rates between which it stops
    keeping the level; an overloaded trial never keeps it. The rates of the config are not used. With --calibration
    a search in virtual time says where to begin. Another level, or a narrower width, goes on from the trials that
    are there. Ctrl-C loses nothing: the same command goes on.
    """  # fmt: skip
    with one_line_errors():
        check_results(results)
        where = where_asked(lanes, address, label, on_cpu=on_cpu)
        limits = limits_asked(max_hours, max_cost)
        if simulate:
            refuse_limits(limits)
        from experiments.config import load
        from experiments.largest_rate.question import Question

        loaded = load(config).on_any_gpu()
        options = _options(slo, width, max_trials, strategy or [], hardware, calibration, simulate=simulate)
        known = _premises(loaded, hardware, calibration, results, simulate=simulate)
        question = Question(
            config=loaded,
            targets=targets(slo),
            width=_width(width),
            max_trials=max_trials,
            strategies=_strategies(loaded, strategy or []),
            premises=known if simulate else None,
            options=tuple(options),
        )
        if dry_run:
            from experiments.largest_rate.dry_run import dry_run as say_plan

            timed = step_times(loaded, "capacity", hardware, calibration, results).bases
            say_plan(question, results, timed, fresh=fresh, as_json=as_json, where=where)
            return
        elsewhere = () if results == RESULTS else ("--results", results)
        again = command("capacity", config, *options, *elsewhere, *where.typed(), *limits.typed())
        outcome = run(question, results, again, known, where, limits, fresh=fresh)
        conclude(question, outcome, again, as_json=as_json)


def _width(text: str) -> float:
    try:
        width = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        width = 0.0
    if not LEAST_WIDTH <= width <= MOST_WIDTH:
        raise ConfigError(f"--width must be 1% to 100%, got {text}")
    return width


def _strategies(config: "SweepConfig", wanted: list[str]) -> tuple[str, ...]:
    there = dict.fromkeys(setting.strategy for setting in config.settings)
    for name in wanted:
        if name not in there:
            raise ConfigError(f"--strategy must be one of the config's ({', '.join(there)}), got {name}")
    return tuple(wanted)


def _premises(
    config: "SweepConfig", hardware: str | None, calibration: Place | None, results: Place, *, simulate: bool
) -> "dict[str, Premise] | None":
    from experiments.simulation.premise import Premise

    if not simulate and hardware is not None:
        raise ConfigError(
            "--hardware needs --simulate: a measured search takes no step times from a data sheet"
        )
    if not simulate and calibration is None:
        return None
    bases = step_times(config, "capacity", hardware, calibration, results).bases
    of_backend = {setting.backend: setting for setting in config.settings}
    return {name: Premise.of(bases[name], setting) for name, setting in of_backend.items()}


def _options(
    slo: str,
    width: str,
    max_trials: int,
    strategies: list[str],
    hardware: str | None,
    calibration: Place | None,
    *,
    simulate: bool,
) -> list[str]:
    given = {"--hardware": hardware, "--calibration": calibration}
    return [
        *("--slo", slo, "--width", width),
        *(["--max-trials", str(max_trials)] if max_trials != MOST_TRIALS else []),
        *(text for name in strategies for text in ("--strategy", name)),
        *(["--simulate"] if simulate else []),
        *(text for name, value in given.items() if value is not None for text in (name, str(value))),
    ]
