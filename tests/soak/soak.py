"""Does a long sweep on four lanes survive that something is killed every few seconds?

200 trials of a second on the simulated backend; at seeded random moments a random victim of a random kind gets
SIGKILL (`kills`). Whatever the driver could not finish, as a cell whose tries ran out, the same command tries again.
At the end every cell must be done exactly once, every other attempt must say why it failed, the store must read
clean, and no replica may be left in a lane that has another, nor any process when it is over.

    python -m tests.soak.soak --seed 7 --cells 40 --every 4
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import yaml

from tests.experiments.command_process import CommandProcess
from tests.soak.family import Family
from tests.soak.invariants import account
from tests.soak.kills import PROCESSES, kill_one, replicas
from tests.soak.resume_fuzz import config

TELL_EVERY_S = 15.0
REPEATS, CELLS_A_RATE = 4, 2  # a repeat is a block, and lanes are full while it has cells left


class Soak:
    """One sweep in one folder."""

    def __init__(self, folder: Path, *, lanes: int, cells: int, every_s: float, end_s: float) -> None:
        self.killed: Counter[str] = Counter()
        self.most_replicas = self.drivers = 0
        self._lanes, self._cells, self._every_s, self._end_s = lanes, cells, every_s, end_s
        self._config, self.results = folder / "soak.yaml", folder / "results"
        rates = [round(20 + 0.1 * number, 1) for number in range(cells // REPEATS // CELLS_A_RATE)]
        written = config("soak", arrival_rate=rates, repeats=REPEATS, max_failures=10)
        self._config.write_text(yaml.safe_dump(written))

    @property
    def done(self) -> int:
        return len(list(self.results.glob("*/cells/*/*/done.json")))

    def drive(self, rng: np.random.Generator) -> None:
        """One driver to its end, with kills on the way. AssertionError if it leaves a process, or time is up."""
        self.drivers += 1
        driver = CommandProcess("sweep", self._config, "--lanes", self._lanes, "--results", self.results)
        try:
            with Family(driver.process.pid) as family:
                self._kill_on_the_way(driver, rng)
                code, _, told = driver.end()
        finally:
            driver.kill()
        assert code in (0, 1), told
        assert "Traceback" not in told, told
        assert not (left := family.left()), f"processes that outlived their driver: {left}"

    def _kill_on_the_way(self, driver: CommandProcess, rng: np.random.Generator) -> None:
        next_s = next_told_s = time.monotonic() + self._every_s
        while driver.process.poll() is None and self.done < self._cells:
            now_s = time.monotonic()
            assert now_s < self._end_s, f"{self.done} of {self._cells} cells were done when time was up"
            if now_s >= next_s and self.done:
                self._kill(driver.process.pid, rng)
                next_s = now_s + float(rng.exponential(self._every_s))
            if now_s >= next_told_s:
                say(f"{self.done} of {self._cells} cells done, {self.killed.total()} kills")
                next_told_s = now_s + TELL_EVERY_S
            time.sleep(0.2)  # a poll of another process's folder
        if driver.process.poll() is None:
            self.most_replicas = max(self.most_replicas, len(replicas(driver.process.pid)))

    def _kill(self, driver: int, rng: np.random.Generator) -> None:
        kind = str(rng.choice(list(PROCESSES)))
        if kill_one(kind, driver, rng):
            self.killed[kind] += 1


def soak(asked: argparse.Namespace, folder: Path) -> str:
    """What was counted, in one line."""
    begun_s, rng = time.monotonic(), np.random.default_rng(asked.seed)
    one = Soak(
        folder,
        lanes=asked.lanes,
        cells=asked.cells,
        every_s=asked.every,
        end_s=begun_s + 60 * asked.minutes,
    )
    while one.done < asked.cells:
        one.drive(rng)
    [root] = one.results.iterdir()
    found = account(root, asked.cells)
    assert one.most_replicas <= asked.lanes, f"{one.most_replicas} replicas in {asked.lanes} lanes"
    by_kind = ", ".join(f"{count} {kind}" for kind, count in sorted(one.killed.items()))
    return (
        f"soak: {by_kind} killed; {found}; drivers: {one.drivers}; no process left; "
        f"{time.monotonic() - begun_s:.0f} s"
    )


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Print the line; exits with 1 at the first thing that does not hold, and keeps the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=int, default=200, help=f"a multiple of {REPEATS * CELLS_A_RATE}")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills, on average")
    parser.add_argument("--minutes", type=float, default=30.0, help="when it is given up")
    asked = parser.parse_args()
    if asked.cells < 1 or asked.cells % (REPEATS * CELLS_A_RATE):
        parser.error(f"--cells must be a multiple of {REPEATS * CELLS_A_RATE}, got {asked.cells}")
    folder = Path(tempfile.mkdtemp(prefix="batchyard-soak-"))
    try:
        print(soak(asked, folder), flush=True)
    except AssertionError as error:
        sys.exit(f"seed {asked.seed}, {folder}: {error}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
