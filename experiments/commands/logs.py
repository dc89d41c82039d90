"""`batchyard logs`: what a job has written, and what it writes."""

from time import sleep
from typing import Annotated

import typer

from experiments.commands.job_arguments import HERE, Dashboard, JobName
from experiments.console import one_line_errors, show, tell

EXAMPLES = (
    "Examples:  batchyard logs local-0123456789ab-1130-153012  ·  "
    "batchyard logs local-0123456789ab-1130-153012 --follow --address http://127.0.0.1:8265"
)
LOOK_EVERY_S = 1.0


def logs(
    job: JobName,
    address: Dashboard = HERE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
) -> None:
    """Show what a job has written; Ctrl-C ends the showing, not the job."""
    with one_line_errors():
        from deployments.ray_jobs import ENDED, RayJobs

        jobs, shown = RayJobs(address), 0
        try:
            while True:
                ended = not follow or jobs.job(job).state in ENDED  # before its words are read
                lines = jobs.logs(job).splitlines()
                for line in lines[shown:]:
                    show(line)
                shown = len(lines)
                if ended:
                    return
                sleep(LOOK_EVERY_S)
        except KeyboardInterrupt:
            tell("no longer followed; the job goes on")
            raise typer.Exit(130) from None
