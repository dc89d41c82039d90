"""Processes that a test's driver started, found by what they are; a test ends them by id."""

import psutil


def descendants(pid: int, word: str) -> list[psutil.Process]:
    """Living descendants of a process whose title contains `word`."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if (
                word in " ".join(process.cmdline()) + process.name()
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
