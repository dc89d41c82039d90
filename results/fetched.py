"""What was brought home from where it was measured is a copy: nothing else is measured into it, or laid over it.

Attempts are numbered in each place for itself, so those of two machines would take each other's names, and be one sweep.
"""

import json
import os
from pathlib import Path

from results.address import Address, place
from results.errors import StoreError, one_line
from results.sweep_folder import FETCHED, SWEEP, is_sweep


def write_mark(folder: Path, job: str) -> None:
    """Say that this folder is a copy, and of which job."""
    (folder / FETCHED).write_text(json.dumps({"job": job}))


def fetched_of(folder: str | os.PathLike[str]) -> str | None:
    """The job whose results were fetched to this folder; None if it is no copy."""
    path = place(folder)
    return None if isinstance(path, Address) else _said(path / FETCHED, "job")


def refuse_copy(folder: str | os.PathLike[str]) -> None:
    """StoreError if what is missing would be measured into a copy."""
    if (job := fetched_of(folder)) is not None:
        raise StoreError(
            f"{folder} was fetched from the job {job}: `batchyard submit` goes on with it there; to measure here, "
            "--fresh keeps it aside"
        )


def refuse_others(folder: Path) -> None:
    """StoreError where what is fetched would be laid over what was measured here."""
    if is_sweep(folder) and fetched_of(folder) is None:
        raise StoreError(f"{folder} holds results that were not fetched{_ELSEWHERE}")


def refuse_another_run(folder: Path, came: Path) -> None:
    """StoreError where what came is of a run that began anew, as on another cluster, and not of the one that is here."""
    here = _said(folder / SWEEP, "created_at")
    if here is not None and _said(came / SWEEP, "created_at") != here:
        raise StoreError(f"{folder} holds what was fetched of another run, begun {here}{_ELSEWHERE}")


_ELSEWHERE = ": move it away, or give another folder with --results"


def _said(path: Path, key: str) -> str | None:
    """What a document says there; None if there is no document. StoreError if that cannot be told."""
    try:
        return str(json.loads(path.read_text())[key])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise StoreError(f"{path} must be JSON with {key}: {one_line(error)}") from error
