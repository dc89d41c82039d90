"""The options that say how long steps take, shared by the commands that measure nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.arguments import by_name
from experiments.commands.completion import gpus, sweeps
from experiments.errors import ConfigError
from results.errors import StoreError

if TYPE_CHECKING:
    from experiments.config import SweepConfig

Hardware = Annotated[
    str | None,
    typer.Option(
        help="Step times by data sheet: a100-40, a100-80, h100, h200, rtx-3090, rtx-4090 or l4.",
        autocompletion=gpus,
    ),
]
Timed = Annotated[
    Path | None,
    typer.Option(
        "--sweep",
        help="Step times as this sweep's folder measured them.",
        autocompletion=sweeps,
        callback=by_name,
    ),
]


def timed_sweep(
    config: "SweepConfig", command: str, hardware: str | None, sweep: Path | None, results: Path
) -> dict[str, Any] | None:
    """The sweep.json with step times: of the folder that is named, else of the config's own sweep, if it began.

    ConfigError if two options say how long steps take, StoreError if the named sweep does not.
    """
    from experiments.explain.basis import measured
    from experiments.sweep_record import sweep_root
    from results.read import open_sweep
    from results.store import Store

    if hardware is not None and sweep is not None:
        raise ConfigError(f"{command} takes step times from one of --hardware and --sweep, got both")
    if hardware is not None:
        return None
    if sweep is None:
        return Store(sweep_root(config, results)).read_sweep()
    info = open_sweep(sweep).read_sweep() or {}
    if not measured(info):
        raise StoreError(f"{sweep}/sweep.json has no step times: only arrival_rate: auto measures them")
    return info
