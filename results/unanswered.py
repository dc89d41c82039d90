"""Requests to an object store, which nothing can interrupt: made in a thread each, so that who asks can be.

Ctrl-C reaches a program between two of its own steps, and a request in pyarrow lasts until it is answered or given up:
up to 20 s (S3) or two minutes (Google Cloud Storage) of a server that says nothing. Whoever is interrupted leaves it
behind, and a process that ends does not wait for it.
"""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_threads: list[threading.Thread] = []


def interruptibly(act: Callable[[], T]) -> T:
    """What `act` gives or raises. Ctrl-C is for the main thread alone, so others need none beside them."""
    if threading.current_thread() is not threading.main_thread():
        return act()
    return begun(act).result()


def begun(act: Callable[[], T]) -> "Future[T]":
    """It is being done; nobody must wait for it."""
    future: Future[T] = Future()

    def do() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            future.set_exception(error)

    thread = threading.Thread(target=do, daemon=True)
    _threads[:] = [one for one in _threads if one.is_alive()] + [thread]
    thread.start()
    return future


def end_without(code: object) -> None:
    """End this process now if a request was left behind, for pyarrow would wait for it; else do nothing.

    `code` as of SystemExit.
    """
    if any(thread.is_alive() for thread in _threads):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
