"""One driver a sweep where results lie in an object store, which has no links, and pyarrow no conditional writes.

Each driver writes a lock of its own beside the others', and holds the sweep if it then sees no other. Who lists
after a write sees it (S3, Google Cloud Storage and MinIO are consistent so), so of two drivers at most one holds it:
the one that wrote last sees the other. If both see each other both step back, and try again after a random pause.

A lock is written again every so often, which is a sign of life to other hosts. One that shows none is not taken
over, for its driver may only be cut off: who is refused is told how long ago it was, and what to delete.
"""

import contextlib
import os
import random
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from results.address import Address, head, opened
from results.attempt import move_into_place
from results.driver import Driver, refuse_or_explain, this_driver
from results.errors import StoreError
from results.sweep_folder import LOCK
from results.unanswered import begun, interruptibly

BEAT_S = 20.0
DEAD_S = 90.0  # without a sign of life; a service that is out of reach is waited for as long
TRIES = 5
PAUSE_S = 1.0  # at most, of one that steps back
SILENT_S, GIVE_BACK_S, LOOK_EVERY_S = 1.0, 5.0, 0.1


class ObjectLock:
    """The locks in a sweep's folder, one of which may be ours."""

    def __init__(self, root: Address, *, beat_s: float = BEAT_S) -> None:
        self._root, self._beat_s = root, beat_s
        self._mine = root / f"{LOCK}.{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._over = threading.Event()
        self._beating: threading.Thread | None = None

    def take(self) -> str | None:
        """Hold it; what was taken over, if anything. StoreError names the driver that holds it."""
        for _ in range(TRIES):
            self.refuse()
            self._write()
            try:
                notes = self._explained()
            except StoreError:  # there was none a moment ago: it may step back too
                self._delete(self._mine)
                time.sleep(random.uniform(0, PAUSE_S))
                continue
            for lock in notes:
                self._delete(lock)
            self._beating = threading.Thread(target=self._beat, daemon=True)
            self._beating.start()
            return next(iter(notes.values()), None)
        self.refuse()
        raise StoreError(f"{self._root}: another driver begins at the same time; try again")

    def release(self, say: Callable[[str], None] | None = None) -> None:
        """Give it back, or leave it where the service does not answer: this host then takes it over.

        `say` is told what is waited for, and Ctrl-C ends that.
        """
        self._over.set()
        given = begun(self._give_back)
        if _within(given, SILENT_S):
            return
        tell = say or (lambda _: None)
        with asked_to_leave() as leave:
            tell(
                f"waiting for {self._root} to take its lock back, {GIVE_BACK_S:g} s at most; Ctrl-C leaves it there"
            )
            end_s = time.monotonic() + GIVE_BACK_S
            while not _within(given, LOOK_EVERY_S) and not leave.is_set() and time.monotonic() < end_s:
                pass
        if not given.done():
            tell(
                f"the lock stays: on this host the next driver takes it over, on another it is told to delete {self._mine}"
            )

    def _give_back(self) -> None:
        if self._beating is not None:
            self._beating.join()
        self._delete(self._mine)

    def refuse(self) -> None:
        """StoreError where another holds it."""
        self._explained()

    def driver(self) -> Driver | None:
        """Who holds it, or held it; of one on another host a sign of life says that it is alive."""
        for lock, seen in self._others().items():
            if (found := Driver.of(_text(lock))) is not None:
                return replace(found, alive=True) if found.alive is None and _age_s(seen) < DEAD_S else found
        return None

    def _explained(self) -> dict[Address, str]:
        """The locks of drivers that have ended on this host, with what to say; StoreError of another."""
        found = {}
        for lock, seen in self._others().items():
            text = _text(lock)
            if not text:  # given back meanwhile
                continue
            found[lock] = refuse_or_explain(text, lock, self._root, word=f", last seen {_ago(_age_s(seen))}")
        return found

    def _others(self) -> dict[Address, datetime]:
        """Their locks, and when each was written last."""
        listed = {self._root / one.base_name: one.mtime for one in self._root.listed()}
        return {
            lock: seen
            for lock, seen in listed.items()
            if lock.name.startswith(f"{LOCK}.") and lock != self._mine
        }

    def _write(self) -> None:
        interruptibly(lambda: move_into_place(*opened(self._mine), this_driver().encode()))

    def _delete(self, lock: Address) -> None:
        filesystem, path = opened(lock)
        with contextlib.suppress(OSError):  # it is gone
            interruptibly(lambda: filesystem.delete_file(path))

    def _beat(self) -> None:
        while not self._over.wait(self._beat_s):
            # Out of reach, or gone: deleted by somebody who was told to.
            with contextlib.suppress(StoreError):
                if self._mine.exists():
                    self._write()


def _within(future: Future[None], span_s: float) -> bool:
    return future in wait([future], span_s).done


@contextmanager
def asked_to_leave() -> Iterator[threading.Event]:
    """Set by Ctrl-C in this block, also where who ends ignores it."""
    leave = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield leave
        return
    earlier = signal.signal(signal.SIGINT, lambda *_: leave.set())
    try:
        yield leave
    finally:
        signal.signal(signal.SIGINT, earlier)


def _text(lock: Address) -> str:
    try:
        return head(lock).decode(errors="replace")
    except OSError:
        return ""


def _age_s(seen: datetime) -> float:
    return (datetime.now(UTC) - seen).total_seconds()


def _ago(age_s: float) -> str:
    return "just now" if age_s < DEAD_S else f"{age_s / 60:.0f} minutes ago"
