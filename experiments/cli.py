"""The command line: what the commands are, and where it begins. Each is a file in experiments/commands/."""

from typing import Annotated

import typer

from deployments.ray_session import prepare_environment
from experiments.commands import (
    calibrate,
    capacity,
    compare,
    explain,
    export,
    fetch,
    listing,
    logs,
    report,
    schema,
    simulate,
    status,
    submit,
    sweep,
)
from experiments.commands.usage import OneLineUsage
from experiments.console import show
from results.unanswered import end_without

app = typer.Typer(cls=OneLineUsage, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)

app.command(epilog=sweep.SWEEP_EXAMPLES)(sweep.sweep)
app.command(epilog=sweep.RESUME_EXAMPLES)(sweep.resume)
app.command(epilog=simulate.EXAMPLES)(simulate.simulate)
app.command(epilog=explain.EXAMPLES)(explain.explain)
app.command(epilog=calibrate.EXAMPLES)(calibrate.calibrate)
app.command(epilog=capacity.EXAMPLES)(capacity.capacity)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=listing.EXAMPLES)(listing.ls)
app.command(epilog=status.EXAMPLES)(status.status)
app.command(epilog=submit.EXAMPLES)(submit.submit)
app.command(epilog=logs.EXAMPLES)(logs.logs)
app.command(epilog=fetch.EXAMPLES)(fetch.fetch)
app.command(epilog=report.EXAMPLES)(report.report)
app.command(epilog=export.EXAMPLES)(export.export)
app.command(epilog=schema.EXAMPLES)(schema.schema)


def _version(wanted: bool) -> None:
    """Of a checkout with its commit, since its version stays the same for long."""
    if wanted:
        from experiments.provenance import version

        show(version())
        raise typer.Exit


@app.callback(
    epilog="Examples:  batchyard sweep experiments/configs/local.yaml  ·  batchyard ls  ·  "
    "batchyard COMMAND --help. Exit codes: 0 done, 1 some cells failed or a budget was reached, an engine could not be timed, "
    "the disk is full or the results folder stayed out of reach, 2 bad input (nothing was started), 130 interrupted (the same command goes on)."
)
def batchyard(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure what the batching strategy of an LLM server does to throughput, latency and memory."""


def main() -> None:
    """Entry point."""
    prepare_environment()  # before anything imports ray
    try:
        app()
    except SystemExit as ended:
        end_without(ended.code)
        raise
