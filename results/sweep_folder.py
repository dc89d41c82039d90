"""What makes a folder a sweep's, and the names of what lies in it beside the cells."""

import os
from pathlib import Path

PAGE = "report.html"
SWEEP = "sweep.json"
LOCK = "driver.lock"
CALIBRATION = "calibration.json"
MARKS = (SWEEP, LOCK)


def is_sweep(folder: Path) -> bool:
    """Whether a sweep has begun in this folder."""
    return any(os.path.isfile(folder / mark) for mark in MARKS)  # unlike `is_file` it raises nothing


def no_sweep(folder: str | os.PathLike[str]) -> str:
    """Why this is no sweep's folder, and what to give instead."""
    path, listed = os.fspath(folder), "give a sweep's folder (`batchyard ls` lists them)"
    if os.path.isfile(path):
        around = sweep_around(Path(path))
        return f"{path}: is a file; {listed if around is None else f'give its folder, {around}'}"
    there = os.path.exists(path) or "://" in path
    return f"{path}: {'holds no sweep.json' if there else 'does not exist'}; {listed}"


def sweep_around(path: Path) -> Path | None:
    """The sweep's folder that `path` is inside of, None if it is in none."""
    folder = path.parent.resolve()  # a link at the end of a path is replaced, not followed
    return next((one for one in (folder, *folder.parents) if is_sweep(one)), None)
