"""`batchyard submit`: run a sweep as a job of a Ray cluster, which needs this machine no more."""

from typing import Annotated

import typer

from experiments.commands.arguments import (
    AsJson,
    Config,
    Labels,
    Lanes,
    MaxCost,
    MaxHours,
    OnCpu,
    command,
    limits_asked,
    where_asked,
)
from experiments.commands.job_arguments import HERE, Dashboard
from experiments.console import emit, one_line_errors, show, tell

ON_HEAD = "~/batchyard-results"
EXAMPLES = (
    "Examples:  batchyard submit experiments/configs/full.yaml  ·  "
    "batchyard submit my.yaml --address http://127.0.0.1:8265 --lanes 4  ·  "
    "batchyard submit my.yaml --max-hours 8 --max-cost 20  ·  "
    "batchyard submit my.yaml --results /volume/sweeps  ·  batchyard submit my.yaml --results s3://bucket/sweeps"
)


def submit(
    config: Config,
    address: Dashboard = HERE,
    lanes: Lanes = 0,
    label: Labels = None,
    on_cpu: OnCpu = False,
    max_hours: MaxHours = None,
    max_cost: MaxCost = None,
    results: Annotated[
        str,
        typer.Option(
            metavar="<path>",
            help="Folder of the cluster's head that holds the sweeps' results, or an address that it can write to: "
            "s3://bucket/prefix or gs://.",
        ),
    ] = ON_HEAD,
    as_json: AsJson = False,
) -> None:
    """Run a sweep, or what is missing of it, as a job of a Ray cluster; this machine may go away.

    The code, the config and the files that it names are sent along.
    """
    with one_line_errors():
        from deployments.ray_jobs import RayJobs
        from experiments.config import load
        from experiments.submitted import checked, folder_of, on_head, stopping
        from experiments.submitted import submit as send
        from experiments.where import check_asked

        results = checked(results)
        limits = limits_asked(max_hours, max_cost)
        loaded, where = load(config), where_asked(lanes, None, label, on_cpu=on_cpu)
        for warning in loaded.warnings:
            tell(f"warning: {config}: {warning}")
        limits.check(loaded)
        check_asked(loaded, where)
        tell(f"sending the sweep to {address}")
        options = (
            *(("--address", address) if address != HERE else ()),
            *where.typed(),
            *limits.typed(),
            *(("--results", results) if results != ON_HEAD else ()),
        )
        again = command("submit", config, *options)
        job = send(loaded, config, RayJobs(address), where, results, limits, again=again)
        if as_json:
            emit({"job": job.id, "address": address, "folder": folder_of(job)})
            return
        show(f"job: {job.id}")
        folder = folder_of(job)
        show(f"results: {folder}{' on the head' if on_head(folder) else ''}")
        options = () if address == HERE else ("--address", address)
        for name in ("status", "logs", *(["fetch"] if on_head(folder) else [])):
            at = ("--address", address) if name == "status" else options
            show(f"{command(name, job.id, *at)}")
        show(stopping(job.id, address))
        if not on_head(folder):
            show(command("report", folder, "-o", "page.html"))
