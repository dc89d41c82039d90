"""A sweep as a job of a Ray cluster: sent with the code that it runs, looked after by nobody, and brought home.

Its results are in a folder on the cluster's head, outside of what Ray throws away with a job, and named as ever: what is
submitted again goes on where it stopped.
"""

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from deployments.errors import JobError
from deployments.ray_jobs import ENDED, Job, RayJobs
from experiments import packing
from experiments.budget import Limits
from experiments.config import SweepConfig
from experiments.console import Say
from experiments.errors import ConfigError
from experiments.inputs import input_files
from experiments.provenance import COMMIT, commit
from experiments.where import Where
from results.address import Address, place
from results.errors import StoreError, cannot_write
from results.fetched import refuse_another_run, refuse_others, write_mark
from results.lock import refuse_if_driven
from results.place import check_place

_CODE = ("deployments", "experiments", "results", "strategies", "workloads")
AGAIN = "BATCHYARD_AGAIN"  # in a job: the command that goes on, where it was submitted
_SWEEP, _FOLDER = "batchyard_sweep", "batchyard_folder"  # what a job says of itself
_LOOK_EVERY_S = 0.5
_PACK_DEADLINE_S = 600.0
_STOP_S = "60"  # for the trials that run to be ended in good order


def submit(
    config: SweepConfig, path: Path, jobs: RayJobs, where: Where, results: str, limits: Limits, *, again: str
) -> Job:
    """Send it; it begins as soon as the cluster has put it in place. JobError if another sweep has the cluster.

    `again`: what is to be typed here to go on with it, as it says itself when it is stopped.
    """
    limits.check(config)
    if others := [one.id for one in jobs.all() if _SWEEP in one.metadata and one.state not in ENDED]:
        raise JobError(
            f"the cluster at {jobs.address} runs {others[0]}: wait for it, or `{stopping(others[0], jobs.address)}`"
        )
    sweep = f"{config.name}-{config.config_hash}"
    job = f"{sweep}-{datetime.now(UTC):%m%d-%H%M%S}"
    with sent(config, path) as (folder, file):
        jobs.submit(
            _command(file, where, results, limits),
            job=job,
            folder=folder,
            environment={COMMIT: commit(), AGAIN: again, "RAY_JOB_STOP_WAIT_TIME_S": _STOP_S},
            metadata={_SWEEP: sweep, _FOLDER: str(place(results) / sweep)},
        )
    return jobs.job(job)


def stopping(job: str, address: str) -> str:
    """The command that ends it in good order."""
    return f"ray job stop {shlex.quote(job)} --address {shlex.quote(address)}"


def checked(results: str) -> str:
    """Where the head is to put results, as it can be given to it. ConfigError if that is no place of the head's."""
    text = results.removeprefix("file://")
    try:
        found = place(text)
    except StoreError as error:
        raise ConfigError(f"--results: {error}") from None
    if isinstance(found, Address):
        return str(found)
    if not text.startswith(("/", "~/")):
        raise ConfigError(
            f"--results must be a folder of the head, from / or ~/ on, or an address (s3://BUCKET/PREFIX), got {results or 'nothing'}"
        )
    return str(found)


def on_head(folder: str) -> bool:
    """Whether a job's results are on the head, and not at an address."""
    return not isinstance(place(folder), Address)


def folder_of(job: Job) -> str:
    """Where its results are, on the head or at an address. JobError if it is no sweep of ours."""
    try:
        return job.metadata[_FOLDER]
    except KeyError:
        raise JobError(f"{job.id} is no job of `batchyard submit`") from None


def fetch(job: Job, jobs: RayJobs, results: Path, say: Say) -> Path:
    """Bring what there is of its results to a folder in `results`, over what is there of the same sweep; that folder."""
    if isinstance(there := place(folder_of(job)), Address):
        raise JobError(
            f"its results are not on the head: `batchyard report {there} -o page.html` draws their page"
        )
    folder = results / job.metadata[_SWEEP]
    refuse_if_driven(folder)
    refuse_others(folder)
    check_place(folder)
    say(f"packing {folder_of(job)} on the head")
    with _pack(job, jobs) as (packer, made), tempfile.TemporaryDirectory() as temporary:
        pack = Path(temporary, "pack.tar")
        _download(packer, made, jobs, pack, say)
        try:
            results.mkdir(parents=True, exist_ok=True)
            unpack(pack, folder, job.id)
        except OSError as error:
            raise cannot_write(str(folder), error) from error
    return folder


@contextmanager
def sent(config: SweepConfig, path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with our code, the config and the files that it names; and the config's name there.

    ConfigError if it names a file that cannot be at the same path there.
    """
    root = Path(__file__).resolve().parents[1]
    without = shutil.ignore_patterns("__pycache__", "data")  # results/data
    with tempfile.TemporaryDirectory(prefix="batchyard-sent-") as temporary:
        folder = Path(temporary)
        for package in _CODE:
            shutil.copytree(root / package, folder / package, ignore=without)
        for key, named in input_files(config):
            if Path(named).is_absolute() or ".." in Path(named).parts:
                raise config.error(
                    key, f"{named}: must be a path below the folder that one is in, to go along"
                )
            (folder / named).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(named, folder / named)
        file = f"{config.name}.yaml"
        shutil.copyfile(path, folder / file)
        yield folder, file


def _command(file: str, where: Where, results: str, limits: Limits) -> str:
    """The sweep, to be typed on the head; a home folder stays for its shell to find."""
    options = [shlex.quote(str(one)) for one in replace(where, address="auto").typed()]
    options += map(str, limits.asked())
    home, rest = ("~/", results[2:]) if results.startswith("~/") else ("", results)
    words = [
        "exec python -m experiments sweep",
        shlex.quote(file),
        *options,
        "--results",
        home + shlex.quote(rest),
    ]
    return " ".join(words)


@contextmanager
def _pack(job: Job, jobs: RayJobs) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Its folder as one file on the head, for the length of the block; the job that keeps it, and what it says of it."""
    packer = f"{job.id}-pack-{datetime.now(UTC):%m%d-%H%M%S-%f}"
    with tempfile.TemporaryDirectory(prefix="batchyard-pack-") as temporary:
        script = Path(shutil.copy(packing.__file__, temporary))
        command = f"exec python {script.name} {shlex.quote(folder_of(job))}"
        jobs.submit(command, job=packer, folder=Path(temporary))
    try:
        made = _made(packer, jobs)  # by then it is known where it runs
        yield jobs.job(packer), made
    finally:
        with contextlib.suppress(JobError):  # it ends by itself
            jobs.stop(packer)


def _made(packer: str, jobs: RayJobs) -> dict[str, Any]:
    until_s = monotonic() + _PACK_DEADLINE_S
    while monotonic() < until_s:
        ended = jobs.job(packer).state in ENDED  # before its words are read
        lines = jobs.logs(packer).splitlines()
        for line in lines:
            if line.startswith('{"pack"'):
                return dict(json.loads(line))
        if ended:
            raise JobError(
                f"its results could not be packed: {lines[-1] if lines else jobs.job(packer).message}"
            )
        sleep(_LOOK_EVERY_S)
    raise JobError(f"its results were not packed within {_PACK_DEADLINE_S / 60:g} minutes")


def _download(packer: Job, made: dict[str, Any], jobs: RayJobs, pack: Path, say: Say) -> None:
    whole, told_s = made["bytes"], monotonic()

    def seen(count: int) -> None:
        nonlocal told_s
        if monotonic() - told_s > 5:
            told_s = monotonic()
            say(f"{count / 1e6:.0f} of {whole / 1e6:.0f} MB")

    with pack.open("wb") as into:
        jobs.download(packer, made["pack"], into, seen)
    with pack.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != made["sha256"]:
            raise JobError("what came is not what was packed: try again")


def unpack(pack: Path, folder: Path, job: str) -> None:
    """Beside the folder first, so that each file comes whole; what makes a sweep of it comes last.

    StoreError if what is there is of another run.
    """
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        with tarfile.open(pack) as tar:
            tar.extractall(temporary, filter="data")
        refuse_another_run(folder, Path(temporary))
        folder.mkdir(exist_ok=True)
        write_mark(folder, job)
        came = [path.relative_to(temporary) for path in Path(temporary).rglob("*") if path.is_file()]
        for path in sorted(came, key=lambda path: (path.name in ("done.json", "sweep.json"), path)):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(Path(temporary, path), folder / path)
