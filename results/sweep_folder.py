"""What makes a folder a sweep's, and the names of what lies in it beside the cells."""

import os

from results.address import Address, Place, place

PAGE = "report.html"
SWEEP = "sweep.json"
LOCK = "driver.lock"
CALIBRATION = "calibration.json"
FETCHED = "fetched.json"  # in a copy of what is measured elsewhere
AT_ONCE = "at-once"  # in a capacity search's: its saturation runs, at no rate that a page could draw
MARKS = (SWEEP, LOCK)


def is_sweep(folder: Place) -> bool:
    """Whether a sweep has begun in this folder."""
    if isinstance(folder, Address):  # where each driver has a lock of its own
        return any(one.base_name.startswith(MARKS) for one in folder.listed())
    return any(os.path.isfile(folder / mark) for mark in MARKS)  # unlike `is_file` it raises nothing


def no_sweep(folder: str | os.PathLike[str]) -> str:
    """Why this is no sweep's folder, and what to give instead."""
    path, listed = place(folder), "give a sweep's folder (`batchyard ls` lists them)"
    if isinstance(path, Address):
        listed = f"give a sweep's folder (`batchyard ls --results {path.parent}` lists them)"
    elif os.path.isfile(path):
        around = sweep_around(path)
        return f"{path}: is a file; {listed if around is None else f'give its folder, {around}'}"
    there = path.exists() if isinstance(path, Address) else os.path.exists(path)
    return f"{path}: {'holds no sweep.json' if there else 'does not exist'}; {listed}"


def sweep_around(path: Place) -> Place | None:
    """The sweep's folder that `path` is inside of, None if it is in none."""
    folder = path.parent.resolve()  # a link at the end of a path is replaced, not followed
    return next((one for one in (folder, *folder.parents) if is_sweep(one)), None)
