"""How often an interval, and a verdict, is right: of real strategies in virtual time, over thousands of trials.

    python -m tests.benchmarks.coverage [--sweeps 200] [--runs 2000]      about 5 minutes on one core, no timing

1. An interval from 3, 5 or 10 repeats claims 95 %; does it keep that for p50 and p99 E2E and for throughput, whose
   repeats are neither normal nor many? Truth: the mean log ratio over `runs` seeded trials of the same length, paired
   by seed as a sweep pairs them. Then `sweeps` of each size, on seeds that the truth has not seen: the share whose
   interval holds that truth; 90 to 98 % is asked of what is compared, p50 and p99 E2E where all keep up and throughput
   of the steady window.
2. A strategy against itself shows no difference in 95 % of its intervals, if they are right. On the same requests it
   is the very same run, and would be equal always; so its two sides have requests of their own (other seeds, paired at
   random). And two runs of one config: the same requests, each trial on a machine whose steps are all slower or faster
   by a factor of its own (lognormal, σ = 0.1).
3. The overload verdict, of trials of 500 arrivals: false alarms at ρ = 0.9 (at most 5 % is asked), found at ρ = 1.3 (at
   least 80 %), for each strategy at its own capacity; and trials of 199 arrivals are said to be too short.

Found at commit 8da10a3, with 200 sweeps of each size and the truth of 2,000 runs:

    the interval holds the truth         71 of 72 shares are from 90 to 98 %; all together 94.8 %. The other: 89.0 % of
                                         ten repeats, p99 E2E of dynamic ÷ naive at 0.7
    no difference, other requests        90.5 to 98.5 % of the intervals of a share; all together 94.8 %
    no difference, two runs of a config  93.5 to 99.5 %; all together 96.7 %
    overloaded at ρ = 0.9, at 1.3        2.9 and 99.3 % (naive, lockstep), 2.8 and 99.2 % (naive), 2.8 and 99.1 % (dynamic),
                                         1.0 and 98.9 % (continuous), of 1,000 trials each
    too short with 199 arrivals          100 %

Trials of 1 and 2: 300 Poisson arrivals at 0.7 and at 1.3 of what naive serves at most, an engine that forms its batch
anew at each step; the rest in seeded_trials.py. E2E over the common steady window; throughput over it, and over
everything to the last completion, whose end depends on the slowest request alone.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.tables import steps_of, token_runs_of
from results.metrics import statistics_of
from results.statistics import paired_ratio
from results.verdicts import FEWEST_ARRIVALS
from results.windows import mser_cut
from tests.benchmarks.seeded_trials import CASES, KNOBS, capacity, requests, serve, share_judged

REQUESTS, LOADS, SPREAD = 300, (0.7, 1.3), 0.1
PAIRS = (("naive", "dynamic"), ("naive", "continuous"), ("dynamic", "continuous"))
METRICS = ("p50 E2E", "p99 E2E", "steady throughput", "throughput to the last completion")
REPEATS = (3, 5, 10)
ASKED = (0.90, 0.98)
OF_TRUTH, OF_SWEEPS, OF_SPEEDS = 1_000_000, 10_000_000, 20_000_000  # where seeds begin
ARRIVALS, STABLE, OVERLOADED = 500, 0.9, 1.3

Numbers = Mapping[str, Mapping[str, float]]  # strategy → metric → value


def trial(
    seed: int,
    rate: float,
    *,
    strategies: Sequence[str] = tuple(KNOBS),
    count: int = REQUESTS,
    run: int | None = None,
) -> Numbers:
    """The compared metrics of the strategies on one seed, in their common steady window.

    `run`: which run of one config on a machine whose speed differs from trial to trial; None: it does not.
    """
    columns = requests(np.random.default_rng(seed), count, rate)
    speeds = np.ones(len(strategies))
    if run is not None:
        speeds = np.random.default_rng([OF_SPEEDS, seed, run]).lognormal(0, SPREAD, len(strategies))
    runs = {
        name: serve((name, "gated"), columns, slower=float(slower))
        for name, slower in zip(strategies, speeds, strict=True)
    }
    cut = max(mser_cut(np.asarray(one.first_token_s) - columns.planned_s) for one in runs.values())
    return {name: _numbers(one, columns, cut) for name, one in runs.items()}


def _numbers(run: Run, columns: RequestColumns, cut: int) -> dict[str, float]:
    last_s, planned_s = np.asarray(run.last_token_s), columns.planned_s
    e2e = statistics_of((last_s - planned_s)[cut:])
    start_s, end_s = float(planned_s[cut]), float(planned_s[-1])
    steps = steps_of(run)
    edges = np.array([steps.ended_before(start_s), steps.ended_by(end_s)])
    before, by_the_end = token_runs_of(run).tokens_before(edges)
    return {
        "p50 E2E": e2e["p50"] or 0.0,
        "p99 E2E": e2e["p99"] or 0.0,
        "steady throughput": float(by_the_end - before) / (end_s - start_s),
        "throughput to the last completion": float(
            columns.output_tokens.sum() / (last_s.max() - planned_s[0])
        ),
    }


def trials(first: int, count: int, rate: float, what: str, *, run: int | None = None) -> list[Numbers]:
    """Consecutive seeds, with a line of progress now and then."""
    found, next_s = [], time.monotonic() + 5
    for seed in range(first, first + count):
        found.append(trial(seed, rate, run=run))
        if time.monotonic() > next_s:
            print(f"{what}: {len(found)} of {count}", file=sys.stderr, flush=True)
            next_s = time.monotonic() + 20
    return found


def held(base: Sequence[float], other: Sequence[float], repeats: int, truth: float) -> float:
    """Share of sweeps of so many repeats whose interval holds the truth."""
    hits = []
    for start in range(0, len(base) - repeats + 1, repeats):
        seeds = range(start, start + repeats)
        ratio = paired_ratio({k: base[k] for k in seeds}, {k: other[k] for k in seeds})
        assert ratio is not None
        assert ratio.low is not None
        assert ratio.high is not None
        hits.append(ratio.low <= truth <= ratio.high)
    return float(np.mean(hits))


def mean_ratio(reference: Sequence[Numbers], base: str, other: str, metric: str) -> float:
    """What an interval of a change should hold: other ÷ base, geometric mean over seeds."""
    return float(np.exp(np.mean([np.log(one[other][metric] / one[base][metric]) for one in reference])))


def of_changes(reference: Sequence[Numbers], runs: Sequence[Numbers]) -> Iterator[tuple[str, list[float]]]:
    """Name of each pair's change, and the shares of its intervals that hold the truth, by number of repeats."""
    for metric in METRICS:
        for base, other in PAIRS:
            truth = mean_ratio(reference, base, other, metric)
            one, two = ([numbers[name][metric] for numbers in runs] for name in (base, other))
            yield f"{metric}, {other} ÷ {base} = {truth:.3f}", _by_repeats(one, two, truth)


def of_itself(runs: Sequence[Numbers], again: Sequence[Numbers] | None) -> Iterator[tuple[str, list[float]]]:
    """Likewise for each strategy against itself: the same seeds run again, or other seeds of the same runs."""
    for metric in METRICS:
        for name in KNOBS:
            one = [numbers[name][metric] for numbers in runs]
            # Another ten sweeps' seeds: none is paired with itself, whatever the number of repeats.
            two = (
                [numbers[name][metric] for numbers in again]
                if again
                else [*one[max(REPEATS) :], *one[: max(REPEATS)]]
            )
            yield f"{metric}, {name}", _by_repeats(one, two, 1.0)


def _by_repeats(base: Sequence[float], other: Sequence[float], truth: float) -> list[float]:
    sweeps = len(base) // max(REPEATS)
    return [held(base[: sweeps * count], other[: sweeps * count], count, truth) for count in REPEATS]


def show(title: str, rows: Iterator[tuple[str, list[float]]]) -> None:
    """A table, and how many of its shares are as asked."""
    print(f"\n{title}\n   3 repeats      5     10")
    every = []
    for name, shares in rows:
        every += shares
        print(f"  {'  '.join(f'{share:7.1%}' for share in shares)}   {name}")
    low, high = ASKED
    inside = sum(low <= share <= high for share in every)
    print(f"  {inside} of {len(every)} are from {low:.0%} to {high:.0%}; all together {np.mean(every):.1%}")


def show_overload(count: int) -> None:
    """The third question, a line for each strategy on its engine."""
    print(f"\noverload verdict, of {count} trials each, and too-short with {FEWEST_ARRIVALS - 1} arrivals")
    print(f"  at ρ = {STABLE}   at {OVERLOADED}   too short")
    for case in CASES:
        false, true = (
            share_judged("overloaded", case, load, ARRIVALS, count) for load in (STABLE, OVERLOADED)
        )
        short = share_judged("too-short", case, STABLE, FEWEST_ARRIVALS - 1, count // 5)
        print(f"  {false:8.1%}  {true:7.1%}  {short:9.1%}   {case[0]}, {case[1]}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """All three."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--runs", type=int, default=2_000)
    asked = parser.parse_args(arguments)
    for load in LOADS:
        rate, count = load * capacity(("naive", "gated")), asked.sweeps * max(REPEATS)
        print(
            f"\nAt {rate:.2f} req/s, {load} of naive's capacity; {asked.runs} runs, {asked.sweeps} sweeps of 10"
        )
        runs = trials(OF_SWEEPS, count, rate, "sweeps")
        show(
            "the interval of a change holds the truth",
            of_changes(trials(OF_TRUTH, asked.runs, rate, "truth"), runs),
        )
        show("no difference shown: a strategy against itself, other requests", of_itself(runs, None))
        both = [trials(OF_SWEEPS, count, rate, "two runs of one config", run=k) for k in range(2)]
        show("no difference shown: two runs of one config", of_itself(*both))
    show_overload(5 * asked.sweeps)


if __name__ == "__main__":
    main()
