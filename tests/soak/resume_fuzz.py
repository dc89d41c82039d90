"""Is a sweep that was killed again and again the sweep that nobody disturbed?

One measured sweep (the simulated backend, trials of a second) and one in virtual time are each driven to their end
once undisturbed, and once with SIGKILL at random moments of the driver's life, the same command going on each time.
A moment is a phase and a random delay in it, so that short phases have their share. At the end the tables must be
equal: the cells, the row ids, each cell done once, and every column that the clock does not decide; in virtual time
all columns. What was done at a kill is never touched again, and no process is left.

    python -m tests.soak.resume_fuzz --seed 7 --kills 20
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.soak.family import Family
from tests.soak.invariants import account, counted

RUN_S, WAIT_S = 1_800.0, 600.0  # of one run to its end, and of one moment: machines are shared
CELLS_A_REPEAT = 2
CLOCK = frozenset(  # what the clock decides of a measured request; the attempt is chance here
    {
        *("attempt", "sent_s", "arrived_s", "scheduled_s", "first_token_s", "last_token_s", "returned_s"),
        *("received_s", "batch_id", "preemptions", "token_s"),
    }
)
OF_A_TRIAL = (
    *("cell_id", "strategy", "setting", "knobs", "backend", "engine", "model", "device", "rate", "seed"),
    *("repeat", "workload_hash", "planned_requests", "duration_s", "drain_limit_s", "cut_off", "min_cap"),
    *("memory_kind", "counters"),
)
OF_A_SWEEP = ("name", "config_hash", "config", "resolved", "planned_cells", "cells_hash", "workload_hashes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of a driver's life: how it is seen from outside that it has begun, and how long it may last."""

    name: str
    begun: Callable[["Run"], bool]
    lasts_s: float
    share: float  # of the kills


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is killed: the command, its config, and its phases."""

    command: tuple[str, ...]
    config: Mapping[str, Any]
    repeats: int
    phases: Sequence[Phase]
    all_columns: bool  # whether everything must be equal, as in virtual time

    @property
    def cells(self) -> int:
        return CELLS_A_REPEAT * self.repeats


class Run:
    """One life of the driver, as its folder shows it. What was there before is no sign of it."""

    def __init__(self, driver: CommandProcess, results: Path, subject: Subject) -> None:
        self.driver, self.results, self.subject = driver, results, subject
        self._attempts, self._done = self.attempts, self.done
        self._parts = self.parts

    @property
    def attempts(self) -> int:
        return self._count("*/cells/*/*")

    @property
    def done(self) -> int:
        return self._count("*/cells/*/*/done.json")

    @property
    def parts(self) -> int:
        return self._count("*/cells/*/*/*.parquet*")

    @property
    def locked(self) -> bool:
        """Whether this driver holds the sweep."""
        try:
            return f'"pid": {self.driver.process.pid}' in next(self.results.glob("*/driver.lock")).read_text()
        except (StopIteration, OSError):
            return False

    @property
    def began_a_trial(self) -> bool:
        return self.attempts > self._attempts

    @property
    def wrote(self) -> bool:
        return self.parts > self._parts

    @property
    def ended_a_block(self) -> bool:
        return self.done > self._done and self.done % CELLS_A_REPEAT == 0

    @property
    def all_done(self) -> bool:
        return self.done == self.subject.cells

    def _count(self, pattern: str) -> int:
        return sum(1 for _ in self.results.glob(pattern))


ON_RAY = (
    Phase(name="starting", begun=lambda run: True, lasts_s=4.0, share=0.15),
    Phase(name="loading", begun=lambda run: run.locked, lasts_s=8.0, share=0.2),
    Phase(name="measuring", begun=lambda run: run.began_a_trial, lasts_s=2.0, share=0.25),
    Phase(name="writing", begun=lambda run: run.wrote, lasts_s=0.05, share=0.2),
    Phase(name="drawing", begun=lambda run: run.ended_a_block, lasts_s=1.5, share=0.15),
    Phase(name="ending", begun=lambda run: run.all_done, lasts_s=4.0, share=0.05),
)
IN_VIRTUAL_TIME = (
    Phase(name="starting", begun=lambda run: True, lasts_s=2.0, share=0.2),
    Phase(name="loading", begun=lambda run: run.locked, lasts_s=1.0, share=0.2),
    Phase(name="measuring", begun=lambda run: run.began_a_trial, lasts_s=0.3, share=0.3),
    Phase(name="writing", begun=lambda run: run.wrote, lasts_s=0.02, share=0.2),
    Phase(name="ending", begun=lambda run: run.all_done, lasts_s=2.0, share=0.1),
)


def config(name: str, **changes: Any) -> dict[str, Any]:
    """Two cells a repeat."""
    return {
        "name": name,
        "workload": {
            "prompts": {"source": "random", "tokens": {"distribution": "uniform", "low": 2, "high": 12}},
            "output_tokens": {"distribution": "uniform", "low": 1, "high": 6},
        },
        "arrival_rate": [20],
        "duration_s": 1,
        "strategies": [
            {"strategy": "naive", "backends": "simulated", "max_batch_size": 4},
            {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 4, "max_wait_ms": 20},
        ],
        "backends": {"simulated": {"fixed_ms": 2.0, "per_sequence_ms": 0.1}},
        **changes,
    }


def subjects(kills: int) -> list[Subject]:
    """A measured sweep that gets on by about a cell a kill, and one in virtual time."""
    repeats = max(2, kills // 2)
    large = {"arrival_rate": [100], "duration_s": 10}
    return [
        Subject(
            command=("sweep",),
            config=config("measured", repeats=repeats),
            repeats=repeats,
            phases=ON_RAY,
            all_columns=False,
        ),
        Subject(
            command=("simulate", "--no-lengthen", "--repeats", str(max(10, 3 * kills))),
            config=config("virtual", **large),
            repeats=max(10, 3 * kills),
            phases=IN_VIRTUAL_TIME,
            all_columns=True,
        ),
    ]


def moments(phases: Sequence[Phase], kills: int, rng: np.random.Generator) -> Iterator[tuple[Phase, float]]:
    """So many, each phase its share, in random order; those of the end last, for then all must be done."""
    counts = {phase.name: round(kills * phase.share) for phase in phases}
    counts["measuring"] += kills - sum(counts.values())
    drawn = [phase for phase in phases for _ in range(counts[phase.name])]
    order = [drawn[index] for index in rng.permutation(len(drawn))]
    for phase in sorted(order, key=lambda phase: phase.name == "ending"):
        yield phase, float(rng.uniform(0, phase.lasts_s))


class Fuzz:
    """One subject in one folder."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self._subject, self._folder = subject, folder
        self._config = folder / f"{subject.config['name']}.yaml"
        self._config.write_text(yaml.safe_dump(dict(subject.config)))
        self._families: list[Family] = []

    def start(self, results: Path) -> CommandProcess:
        command, *options = self._subject.command
        return CommandProcess(command, self._config, *options, "--results", results)

    def to_the_end(self, results: Path) -> Path:
        """Drive it until it is complete; its folder."""
        driver = self.start(results)
        with Family(driver.process.pid) as family:
            code, _, told = driver.end(RUN_S)
        assert code == 0, told
        self._families.append(family)
        [root] = results.iterdir()
        return root

    def kill(self, results: Path, phase: Phase, delay_s: float) -> str:
        """Kill one driver in that phase; the phase, or "ended" where it was too quick for it."""
        before = self._finished(results)
        driver = self.start(results)
        with Family(driver.process.pid) as family:
            run, end_s = Run(driver, results, self._subject), time.monotonic() + WAIT_S
            while not phase.begun(run) and driver.process.poll() is None:
                assert time.monotonic() < end_s, f"{phase.name} did not begin within {WAIT_S:g} s"
                time.sleep(0.002)  # a poll of another process's folder
            time.sleep(delay_s)
            driver.process.kill()  # nothing happens if it has ended by itself
            code, _, told = driver.end()
        assert code in (0, -signal.SIGKILL), told
        self._families.append(family)
        after = self._finished(results)
        assert before.items() <= after.items(), "what was done has changed"
        return "ended" if code == 0 else phase.name

    def check_processes(self) -> None:
        """AssertionError if a driver left one behind; Ray's own need a while to notice that theirs is gone."""
        left = [process for family in self._families for process in family.left()]
        assert not left, f"processes that outlived their driver: {left}"

    def _finished(self, results: Path) -> dict[str, bytes]:
        return {name: content for root in results.glob("*") for name, content in counted(root).items()}


def compare(subject: Subject, undisturbed: Path, killed: Path) -> int:
    """AssertionError names the first difference; how many columns were compared."""
    ours, theirs = Store(undisturbed), Store(killed)
    infos = [store.read_sweep() or {} for store in (ours, theirs)]
    for key in OF_A_SWEEP:
        assert infos[0].get(key) == infos[1].get(key), f"sweep.json: {key}"
    trials = [
        [{key: one[key] for key in OF_A_TRIAL} for one in (trial.model_dump() for trial in store.trials())]
        for store in (ours, theirs)
    ]
    assert trials[0] == trials[1], "trials"
    compared = len(OF_A_TRIAL)
    kinds = {"requests": (ours.requests(), theirs.requests())}
    if subject.all_columns:
        kinds["batches"] = (ours.batches(), theirs.batches())
    for kind, (one, other) in kinds.items():
        skipped = {"attempt"} if subject.all_columns else CLOCK
        for name in [name for name in one.column_names if name not in skipped]:
            assert same(one.column(name), other.column(name)), f"{kind}: {name}"
            compared += 1
    return compared


def same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same values in the same order."""
    return bool(one.combine_chunks().equals(other.combine_chunks()))


def fuzz(subject: Subject, kills: int, seed: int, folder: Path) -> str:
    """One line about one subject."""
    begun_s, rng = time.monotonic(), np.random.default_rng(seed)
    one = Fuzz(subject, folder)
    say(f"{subject.config['name']}: {subject.cells} cells, undisturbed")
    undisturbed = one.to_the_end(folder / "undisturbed" / subject.config["name"])
    account(undisturbed, subject.cells)
    results = folder / "killed" / subject.config["name"]
    results.mkdir(parents=True)
    killed: Counter[str] = Counter()
    for number, (phase, delay_s) in enumerate(moments(subject.phases, kills, rng), start=1):
        if phase.name == "ending" and not _complete(results, subject):
            one.to_the_end(results)
        killed[one.kill(results, phase, delay_s)] += 1
        done = len(list(results.glob("*/cells/*/*/done.json")))
        say(f"[{number}/{kills}] {phase.name} + {delay_s:.2f} s: {done} of {subject.cells} cells done")
    root = one.to_the_end(results)
    one.check_processes()
    found = account(root, subject.cells)
    columns = compare(subject, undisturbed, root)
    by_phase = ", ".join(f"{count} {name}" for name, count in killed.items())
    return (
        f"{subject.config['name']}: killed {kills - killed['ended']} times ({by_phase}); {found}; {columns} columns "
        f"equal; no process left; {time.monotonic() - begun_s:.0f} s"
    )


def _complete(results: Path, subject: Subject) -> bool:
    return len(list(results.glob("*/cells/*/*/done.json"))) == subject.cells


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Print a line a subject; exits with 1 at the first thing that does not hold, and keeps the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=50, help="of each of the two sweeps")
    parser.add_argument("--only", choices=("measured", "virtual"), help="one of them alone")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="batchyard-fuzz-"))
    try:
        for subject in subjects(asked.kills):
            if asked.only in (None, subject.config["name"]):
                print(fuzz(subject, asked.kills, asked.seed, folder), flush=True)
    except AssertionError as error:
        sys.exit(f"seed {asked.seed}, {folder}: {error}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
