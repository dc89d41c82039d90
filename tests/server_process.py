"""A server of an object store in a process of its own on this machine, so that it can be stopped and go on."""

import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

DEADLINE_S = 60.0


class ServerProcess(ABC):
    """A Python module that serves a port of the loopback."""

    def __init__(self, log: Path, module: str, *options: str) -> None:
        """`{port}` in an option is where it is to listen."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", module, *(option.format(port=self.port) for option in options)]
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Where it is, and credentials, for whoever is to reach it."""

    @abstractmethod
    def bucket(self) -> str:
        """A new one, with nothing in it, by its address."""

    def stop(self) -> None:
        """It answers nothing, and closes nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """As if nothing had been."""
        self.process.send_signal(signal.SIGCONT)


S = TypeVar("S", bound=ServerProcess)


@contextmanager
def serving(kind: Callable[[Path], S], folder: Path) -> Iterator[S]:
    """One that answers."""
    server = kind(folder / "server.log")
    try:
        end_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", server.port)).close()
                break
            except OSError:
                assert server.process.poll() is None, server.log.read_text()
                assert time.monotonic() < end_s, "the server does not answer"
                time.sleep(0.05)  # a poll of another process: there is nothing to wait on
        yield server
    finally:
        server.go_on()
        server.process.kill()
        server.process.wait()
