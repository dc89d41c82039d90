"""Ctrl-C and a polite end (SIGTERM, as of a batch system or a shutdown) stop what runs in the same clean way."""

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class Signals:
    """Ctrl-C and a polite end raise KeyboardInterrupt once; what comes after them cannot break the ending.

    Nothing happens outside the main thread, where Python allows no handlers.
    """

    def __init__(self) -> None:
        self._ctrl_c = signal.getsignal(signal.SIGINT)
        self._interrupted = False

    def take(self, *numbers: int) -> None:
        """From now on these raise KeyboardInterrupt, if they are the first."""
        self._set(self._interrupt, numbers)

    def ignore(self) -> None:
        """From now on they do nothing."""
        self._set(_nothing, (signal.SIGINT, signal.SIGTERM))

    def give_back(self, polite_end: Any = None) -> None:
        """As they were; a polite end as given, or as Ctrl-C. An interrupted process ignores them to its very end."""
        if self._interrupted:  # Python takes its own handlers away before it ends
            self._set(signal.SIG_IGN, (signal.SIGINT, signal.SIGTERM))
        else:
            self._set(self._ctrl_c, (signal.SIGINT,))
            self._set(_interrupt if polite_end is None else polite_end, (signal.SIGTERM,))

    def _interrupt(self, *_: object) -> None:
        if not self._interrupted:  # two may have come before Python looked
            self._interrupted = True
            self.ignore()
            raise KeyboardInterrupt

    @staticmethod
    def _set(handler: Any, numbers: Iterable[int]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in numbers:
                signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """In this block both raise KeyboardInterrupt, once; after it they are as they were before."""
    earlier, signals = signal.getsignal(signal.SIGTERM), Signals()
    signals.take(signal.SIGINT, signal.SIGTERM)
    try:
        yield
    finally:
        signals.give_back(earlier)


@contextmanager
def held() -> Iterator[None]:
    """What comes in this block, which must not be cut in two, is answered at its end."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _nothing(*_: object) -> None:
    """Unlike SIG_IGN it is not passed on to what is started, and Python does not complain of one that waits."""
