"""The arguments of the commands that speak with a cluster's job API."""

from typing import Annotated

import typer

from deployments.ray_jobs import ADDRESS

JobName = Annotated[str, typer.Argument(metavar="JOB", help="A job, as `submit` printed it.")]
Dashboard = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="<http://HOST:PORT>",
        help="The dashboard of the cluster; `ray dashboard cluster.yaml` brings it here.",
        show_default=True,
    ),
]
HERE = ADDRESS
