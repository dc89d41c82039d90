"""What makes a folder a sweep's, and the names of what lies in it beside the cells."""

from pathlib import Path

PAGE = "report.html"
SWEEP = "sweep.json"
LOCK = "driver.lock"
MARKS = (SWEEP, LOCK)


def is_sweep(folder: Path) -> bool:
    """Whether a sweep has begun in this folder."""
    return any((folder / mark).is_file() for mark in MARKS)


def sweep_around(path: Path) -> Path | None:
    """The sweep's folder that `path` is inside of, None if it is in none."""
    folder = path.parent.resolve()  # a link at the end of a path is replaced, not followed
    return next((one for one in (folder, *folder.parents) if is_sweep(one)), None)
