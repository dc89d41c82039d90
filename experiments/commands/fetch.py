"""`batchyard fetch`: bring home what a job has measured."""

import os
import webbrowser
from typing import Annotated

import typer

from experiments.commands.arguments import RESULTS, AsJson, Results, check_results, command
from experiments.commands.job_arguments import HERE, Dashboard, JobName
from experiments.console import emit, one_line_errors, show, tell
from experiments.errors import ConfigError
from results.address import Address
from results.sweep_folder import PAGE

EXAMPLES = (
    "Examples:  batchyard fetch local-0123456789ab-1130-153012 --open  ·  "
    "batchyard fetch local-0123456789ab-1130-153012 --address http://127.0.0.1:8265 --results /data/sweeps"
)


def fetch(
    job: JobName,
    address: Dashboard = HERE,
    results: Results = RESULTS,
    open_it: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a job's results here, also while it runs; what was fetched before is brought up to date.

    Nothing but the cluster's dashboard is needed.
    """
    with one_line_errors():
        if isinstance(results, Address):
            raise ConfigError(
                f"fetch brings results to this machine: --results must be a folder of it, got {results}"
            )
        check_results(results)
        from deployments.ray_jobs import RayJobs
        from experiments.submitted import fetch as bring

        jobs = RayJobs(address)
        try:
            folder = bring(jobs.job(job), jobs, results, tell)
        except KeyboardInterrupt:
            tell("interrupted; nothing was changed that is not whole")
            raise typer.Exit(130) from None
        page = folder / PAGE if os.path.isfile(folder / PAGE) else None
        if as_json:
            emit({"folder": str(folder), "page": None if page is None else str(page)})
        else:
            show(f"results: {folder}")
            draws = command("report", folder)
            show(f"page: none yet; `{draws}` draws it" if page is None else f"page: {page}")
        if open_it and page is not None:
            webbrowser.open(page.resolve().as_uri())
