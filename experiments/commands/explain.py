"""`batchyard explain`: what theory says of a config before anything runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.arguments import RESULTS, AsJson, Config, Results
from experiments.commands.completion import gpus, sweeps
from experiments.console import emit, one_line_errors, show, tell
from experiments.errors import ConfigError
from results.errors import StoreError

if TYPE_CHECKING:
    from experiments.config import SweepConfig

EXAMPLES = (
    "Examples:  batchyard explain experiments/configs/full.yaml --hardware H200  ·  "
    "batchyard explain my.yaml -o theory.html  ·  "
    "batchyard explain my.yaml --sweep results/data/local-0123456789ab --json"
)


def explain(
    config: Config,
    hardware: Annotated[
        str | None,
        typer.Option(
            help="Step times by data sheet: a100-40, a100-80, h100, h200, rtx-3090, rtx-4090 or l4.",
            autocompletion=gpus,
        ),
    ] = None,
    sweep: Annotated[
        Path | None,
        typer.Option(help="Step times as this sweep's folder measured them.", autocompletion=sweeps),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a page with figures too.")
    ] = None,
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Say what theory says of a sweep before anything runs: capacities, waits and batches at each rate.

    Step times: --hardware, else --sweep, else what a sweep of this config measured, else the defaults of the
    simulated engine. Nothing is started, no model is loaded and no hub asked.
    """  # fmt: skip
    with one_line_errors():
        from experiments.config import load
        from experiments.explain.basis import bases
        from experiments.explain.explanation import explain as derive
        from experiments.explain.explanation import to_dict
        from experiments.explain.text import text

        if hardware is not None and sweep is not None:
            raise ConfigError("explain takes step times from one of --hardware and --sweep, got both")
        loaded = load(config)
        for warning in loaded.warnings:
            tell(f"warning: {config}: {warning}")
        info = _measured(loaded, hardware, sweep, results)
        explanation = derive(loaded, bases(loaded, hardware=hardware, sweep=info))
        if as_json:
            emit({**to_dict(explanation), "page": None if output is None else str(output)})
        else:
            for line in text(explanation):
                show(line)
        if output is not None:
            from experiments.explain.page import write

            write(explanation, output)
            (tell if as_json else show)(f"page: {output}")


def _measured(
    config: "SweepConfig", hardware: str | None, sweep: Path | None, results: Path
) -> dict[str, Any] | None:
    """The sweep.json with step times: of the folder that is named, else of the config's own sweep, if it began."""
    from experiments.explain.basis import measured
    from experiments.sweep import sweep_root
    from results.read import open_sweep
    from results.store import Store

    if hardware is not None:
        return None
    if sweep is None:
        return Store(sweep_root(config, results)).read_sweep()
    info = open_sweep(sweep).read_sweep() or {}
    if not measured(info):
        raise StoreError(f"{sweep}/sweep.json has no step times: only arrival_rate: auto measures them")
    return info
