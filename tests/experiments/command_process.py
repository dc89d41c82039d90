"""`batchyard` in a process of its own, for tests that interrupt, kill or watch it."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & would have it ignored
import sys
from experiments.cli import main
sys.argv[0] = "batchyard"
main()
"""


class CommandProcess:
    """`CommandProcess("sweep", config)`, begun at once."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # a signal to its group is none to the tests
        )

    def wait_for(self, happened: Callable[[], object], deadline_s: float = 120) -> None:
        """Until something has happened that only can while it runs."""
        end_s = time.monotonic() + deadline_s
        while not happened():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end_s, "it did not happen in time"
            time.sleep(0.02)  # a poll of another process: there is nothing to wait on

    def end(self, deadline_s: float = 300) -> tuple[int, str, str]:
        """Its exit code, and what it wrote to standard output and standard error."""
        output, told = self.process.communicate(timeout=deadline_s)
        return self.process.returncode, output, told

    def kill(self) -> None:
        """If it still lives."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
