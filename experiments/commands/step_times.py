"""The options that say how long steps take, shared by the commands that measure nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.arguments import Given, some_path
from experiments.commands.completion import calibrations, gpus
from experiments.console import tell
from experiments.errors import ConfigError
from results.address import Place

if TYPE_CHECKING:
    from experiments.config import SweepConfig
    from experiments.explain.basis import Basis

Hardware = Annotated[
    str | None,
    typer.Option(
        help="Step times by data sheet: a100-40, a100-80, h100, h200, rtx-3090, rtx-4090 or l4.",
        autocompletion=gpus,
    ),
]
CalibrationFile = Annotated[
    Given | None,
    typer.Option(
        "--calibration",
        help="Step times as `batchyard calibrate` fitted them to a sweep.",
        autocompletion=calibrations,
        parser=some_path,
        metavar="<path>",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """By backend, and what `arrival_rate: auto` is where they say it; else it is derived from them."""

    bases: "dict[str, Basis]"
    rates: tuple[float, ...]
    of_sweep: bool = False  # a measured one, whose requests a simulation must have to be compared with it


def step_times(
    config: "SweepConfig", command: str, hardware: str | None, calibration: Place | None, results: Place
) -> StepTimes:
    """Of the option that is given, else what the config's own sweep measured, if it began.

    ConfigError if both are given, or what is given does not hold for the config.
    """
    from experiments.calibration.calibration import read
    from experiments.calibration.text import warnings
    from experiments.explain.basis import automatic_rates, bases
    from experiments.sweep_record import sweep_root
    from results.store import Store

    if hardware is not None and calibration is not None:
        raise ConfigError(f"{command} takes step times from one of --hardware and --calibration, got both")
    if hardware is not None:
        return StepTimes(bases=bases(config, hardware=hardware), rates=())
    if calibration is not None:
        known = read(calibration)
        for warning in warnings(known):
            tell(f"warning: {calibration}: {warning}")
        found = bases(config, calibration=known)
        return StepTimes(bases=found, rates=automatic_rates(config, known), of_sweep=True)
    begun = Store(sweep_root(config, results)).read_sweep()
    return StepTimes(bases=bases(config, sweep=begun), rates=(), of_sweep=begun is not None)
