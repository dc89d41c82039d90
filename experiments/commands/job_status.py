"""How a submitted job stands: what the cluster says of it, and the last that it said itself."""

from dataclasses import asdict

from experiments.commands.arguments import command
from experiments.commands.shown_standing import when
from experiments.console import emit, show


def show_job(name: str, address: str, *, as_json: bool) -> None:
    """On standard output. JobError if there is no such job, or no cluster."""
    from deployments.ray_jobs import ENDED, RayJobs
    from experiments.submitted import folder_of, on_head

    jobs = RayJobs(address)
    job = jobs.job(name)
    folder, said = folder_of(job), [line for line in jobs.logs(name).splitlines() if line.strip()]
    if as_json:
        emit({**asdict(job), "folder": folder, "last_line": said[-1] if said else None})
        return
    ended = f", ended {when(job.ended_at)}" if job.ended_at else ""
    show(f"{job.id}: {job.state.lower()}, begun {when(job.started_at)}{ended} (UTC)")
    if job.state in ENDED and job.state != "SUCCEEDED":
        show(f"exit code: {'unknown' if job.exit_code is None else job.exit_code}")
    if said:
        show(f"last line: {said[-1]}")
    if on_head(folder):
        show(f"results: {folder} on the head")
        show(f"fetch: {command('fetch', job.id, '--address', address)}")
    else:
        show(f"results: {folder}")
        show(f"page: {command('report', folder, '-o', 'page.html')}")
