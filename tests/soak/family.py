"""All processes that a driver ever had, so that what it leaves behind is found when it is gone."""

import threading
import time
from types import TracebackType
from typing import Self

import psutil

LOOK_EVERY_S = 0.2
GONE_S = 120.0  # what Ray's agents take after their driver was killed


class Family:
    """Watches a driver's descendants; a context manager, to be entered while the driver lives."""

    def __init__(self, pid: int) -> None:
        self._driver, self._seen = psutil.Process(pid), set[psutil.Process]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def left(self, within_s: float = GONE_S) -> list[psutil.Process]:
        """Those that still live after so long; psutil knows a process by its start too, not by its number alone."""
        end_s = time.monotonic() + within_s
        while (living := [one for one in self._seen if _lives(one)]) and time.monotonic() < end_s:
            time.sleep(LOOK_EVERY_S)  # psutil.wait_procs fails on one that goes while it opens it
        return living

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            try:
                self._seen |= set(self._driver.children(recursive=True))
            except psutil.NoSuchProcess:
                return


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
