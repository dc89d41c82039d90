"""The processes that an engine starts below this one: seen alive, and ended by their own ids."""

import multiprocessing
import time
from collections.abc import Iterable
from multiprocessing import resource_tracker

import psutil

KILL_WAIT_S = 5.0


class ChildProcesses:
    """Those that appear, directly or deeper, after this object was made.

    Only one engine may be started at a time: two that start together would adopt each other's children.
    The resource tracker is left out: it belongs to the interpreter and ends with it.
    """

    def __init__(self) -> None:
        self._before = frozenset(_descendants())
        self._adopted: frozenset[psutil.Process] = frozenset()

    def adopt(self) -> None:
        """What is there now is all there will be. Call once, when the engine has started."""
        self._adopted = self._new()

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the adopted processes, oldest first."""
        return tuple(process.pid for process in sorted(self._adopted, key=lambda one: one.create_time()))

    def gone(self) -> tuple[int, ...]:
        """The ids of the adopted processes that have ended."""
        return tuple(process.pid for process in self._adopted if not _alive(process))

    def end(self, grace_s: float) -> None:
        """Return when none is left: wait `grace_s` seconds, then kill what remains. Blocks."""
        known = self._adopted | self._new()
        for process in _wait(known, grace_s):
            _kill(process)
        _wait(known, KILL_WAIT_S)

    def _new(self) -> frozenset[psutil.Process]:
        return frozenset(_descendants()) - self._before


def _descendants() -> list[psutil.Process]:
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    return [child for child in psutil.Process().children(recursive=True) if child.pid != tracker]


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _wait(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Those that still run after the time is up.

    The direct children are joined by multiprocessing, which would take one that is reaped behind its back
    for a running one. A process whose main thread has ended looks like a zombie, yet cannot be
    reaped before its other threads have ended: joining waits for that too.
    """
    deadline_s = time.monotonic() + timeout_s
    wanted = {process.pid for process in processes}
    for child in multiprocessing.active_children():
        if child.pid in wanted:
            child.join(max(0.0, deadline_s - time.monotonic()))
    alive = [process for process in processes if _alive(process)]
    return list(psutil.wait_procs(alive, timeout=max(0.0, deadline_s - time.monotonic()))[1])


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
