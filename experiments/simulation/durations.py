"""How long the requests of a simulated cell arrive: at least as long as a verdict needs, which costs nothing there.

A measured period is kept short because it is paid for. In virtual time too few requests would only mean that
a trial is not judged (results/verdicts.py), and that no knee is found. The margins are those of Poisson arrivals:
of 250 expected ones fewer than 200 come in about 1 of 2,000 repeats.
"""

import math
from dataclasses import replace

from experiments.config import SweepConfig
from experiments.consistency import LONGEST_S
from experiments.resolved import Resolved
from results.verdicts import FEWEST_ARRIVALS, FEWEST_BATCHES

REQUESTS = FEWEST_ARRIVALS * 5 // 4  # 250 expected
BATCHES = FEWEST_BATCHES * 6 // 5  # 12 full ones, of the largest setting


def needed_requests(config: SweepConfig) -> int:
    """How many a cell must expect; the same for all settings, which get the same requests."""
    return max(REQUESTS, BATCHES * max(setting.max_batch_size for setting in config.settings))


def lengthened(config: SweepConfig, resolved: Resolved) -> Resolved:
    """The same rates, each for as long as `needed_requests` take at it; a trace ends, and so does a week."""
    needed = needed_requests(config)
    return replace(
        resolved,
        durations_s=tuple(
            max(given_s, min(float(math.ceil(needed / rate)), config.workload.lasts_s(rate), LONGEST_S))
            for rate, given_s in zip(resolved.rates, resolved.durations_s, strict=True)
        ),
    )


def in_words(config: SweepConfig, given: Resolved, now: Resolved) -> str:
    """What became of the durations, for a person: 192 s → 768 s at 0.5 requests/s, …"""
    changed = [
        f"{before_s:g} s → {after_s:g} s at {rate:g} requests/s"
        for rate, before_s, after_s in zip(now.rates, given.durations_s, now.durations_s, strict=True)
        if after_s != before_s
    ]
    return f"{', '.join(changed)}, so that {needed_requests(config)} are expected, which verdicts need"
