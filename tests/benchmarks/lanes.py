"""What do lanes cost, and what do four of them gain? (about 12 minutes; `--short` 3)

A sweep of equal trials of 20 s on the simulated backend, which sleeps and so takes no core from its neighbours, once
on one lane and once on four. From one trial's end in a lane to the next one's end is the lane's cycle; the share of
it between first planned arrival and last reply is spent measuring. The gain is the time of the whole command's work,
Ray and page included, on one lane ÷ on four: what a sweep's start takes no lane makes shorter, so that this gain
grows with the number of trials. Output: a line each, with the bar that it must reach.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from experiments.config import parse
from experiments.sweep import run_sweep
from experiments.where import Where
from results.records import Trial
from results.store import Store

LANES, CELLS, TRIAL_S = 4, 24, 20  # fewer cells than a default sweep has: its start, half a minute, counts
SHORT_CELLS, SHORT_S = 8, 10
SHARE_BAR, GAIN_BAR = 0.85, 3.3


def config(cells: int, trial_s: float) -> dict[str, Any]:
    """So many cells of one setting: their rates differ by less than can matter."""
    return {
        "name": "lanes",
        "workload": {
            "arrivals": {"process": "constant"},
            "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 32}},
            "output_tokens": {"distribution": "fixed", "tokens": 8},
        },
        "arrival_rate": [round(4 + 0.01 * number, 2) for number in range(cells)],
        "duration_s": trial_s,
        "strategies": [
            {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 8, "max_wait_ms": 20}
        ],
        "repeats": 1,
    }


def sweep(lanes: int, cells: int, trial_s: float) -> tuple[float, list[float]]:
    """How long it took, seconds, and the share of each lane's cycles that was spent measuring."""
    with tempfile.TemporaryDirectory(prefix="batchyard-bench-") as folder:
        begun_s = time.monotonic()
        outcome = run_sweep(parse(config(cells, trial_s)), f"{folder}/lanes", tell, where=Where(lanes=lanes))
        took_s = time.monotonic() - begun_s
        assert outcome.complete
        ended_s = {path.parent.parent.name: path.stat().st_mtime for path in Path(folder).rglob("done.json")}
        trials = sorted(Store(outcome.root).trials(), key=lambda trial: ended_s[trial.cell_id])
    by_lane: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_lane[trial.lane].append(trial)
    assert len(by_lane) == lanes
    shares = [
        trial.measured_s / (ended_s[trial.cell_id] - ended_s[before.cell_id])
        for inside in by_lane.values()
        for before, trial in pairwise(inside)
    ]
    return took_s, shares


def tell(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def held(value: float, bar: float) -> str:
    """Whether a bar is reached, in a word."""
    return "reached" if value >= bar else "MISSED"


def main() -> None:
    """Print two lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help=f"{SHORT_CELLS} trials of {SHORT_S} s")
    cells, trial_s = (SHORT_CELLS, SHORT_S) if parser.parse_args().short else (CELLS, TRIAL_S)
    alone_s, _ = sweep(1, cells, trial_s)
    together_s, shares = sweep(LANES, cells, trial_s)
    share, gain = float(np.mean(shares)), alone_s / together_s
    print(
        f"lane time spent measuring, {cells} trials of {trial_s} s on {LANES} lanes: {share:.1%} "
        f"({min(shares):.1%}–{max(shares):.1%}), at least {SHARE_BAR:.0%}: {held(share, SHARE_BAR)}"
    )
    print(
        f"one lane ÷ {LANES} lanes: {alone_s:.0f} s ÷ {together_s:.0f} s = {gain:.2f}, "
        f"at least {GAIN_BAR}: {held(gain, GAIN_BAR)}"
    )


if __name__ == "__main__":
    main()
