"""How often the 95 % interval of a paired change holds the truth, for real strategies in virtual time.

    python -m tests.benchmarks.coverage [--sweeps 200] [--runs 2000]

Question: an interval from 3, 5 or 10 repeats claims 95 %; does it keep that for p50 and p99 E2E and for throughput,
whose repeats are neither normal nor many? Truth: the mean log ratio over `runs` seeded trials of the same length,
paired by seed as a sweep pairs them. Then `sweeps` of each size, on seeds that the truth has not seen: the share
whose interval holds that truth. A strategy against itself: on the same seeds it is the same run, so here its two sides
have seeds of their own, as two sweeps have noise of their own: the share that shows no difference.

Trials: 300 Poisson arrivals at 0.7 and at 1.3 of what naive serves at most, batches of 8, lognormal outputs of
median 16, an engine that forms its batch anew at each step, default step times. E2E over the common steady window;
throughput over it, and over everything to the last completion, whose end depends on the slowest request alone.
"""

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from deployments.virtual.tables import steps_of, token_runs_of
from results.metrics import statistics_of
from results.statistics import paired_ratio
from results.windows import mser_cut
from strategies.registry import create

SIZE, LONGEST, REQUESTS, LOADS = 8, 96, 300, (0.7, 1.3)
KNOBS = {"naive": {}, "dynamic": {"max_wait_ms": 50}, "continuous": {}}
PAIRS = (("naive", "dynamic"), ("naive", "continuous"), ("dynamic", "continuous"))
METRICS = ("p50 E2E", "p99 E2E", "steady throughput", "throughput to the last completion")
REPEATS = (3, 5, 10)
OF_TRUTH, OF_SWEEPS = 1_000_000, 10_000_000  # where seeds begin

Numbers = dict[str, dict[str, float]]  # strategy → metric → value


def requests(rng: np.random.Generator, rate: float | None) -> RequestColumns:
    """One trial's requests; all at once without a rate."""
    gaps = rng.exponential(1 / rate, REQUESTS) if rate else np.zeros(REQUESTS)
    lengths = np.clip(np.rint(rng.lognormal(np.log(16), 1.0, REQUESTS)), 1, LONGEST)
    return RequestColumns(
        planned_s=np.cumsum(gaps),
        prompt_tokens=rng.integers(16, 49, REQUESTS),
        output_tokens=lengths.astype(np.int64),
        max_new_tokens=np.full(REQUESTS, LONGEST),
    )


def serve(strategy: str, columns: RequestColumns) -> Run:
    """Run them."""
    engine = Iteration(step=Linear(), max_num_seqs=SIZE, max_num_batched_tokens=None)
    made = create(strategy, {"max_batch_size": SIZE, **KNOBS[strategy]})
    return simulate(columns, made, engine, max_batch_size=SIZE)


def capacity() -> float:
    """What naive serves at most, in requests/s."""
    return REQUESTS / serve("naive", requests(np.random.default_rng(0), None)).ended_s


def trial(seed: int, rate: float) -> Numbers:
    """The compared metrics of every strategy on one seed, in their common steady window."""
    columns = requests(np.random.default_rng(seed), rate)
    runs = {strategy: serve(strategy, columns) for strategy in KNOBS}
    cut = max(mser_cut(np.asarray(run.first_token_s) - columns.planned_s) for run in runs.values())
    return {strategy: _numbers(run, columns, cut) for strategy, run in runs.items()}


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


def trials(first: int, count: int, rate: float, what: str) -> list[Numbers]:
    """Consecutive seeds, with a line of progress now and then."""
    found, next_s = [], time.monotonic() + 5
    for seed in range(first, first + count):
        found.append(trial(seed, rate))
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


def report(reference: Sequence[Numbers], runs: Sequence[Numbers]) -> None:
    """A line for each pair and metric, and for each strategy against itself; shares by number of repeats."""
    sweeps = len(runs) // max(REPEATS)
    print("interval holds the truth      of 3      5     10 repeats    truth")
    for metric in METRICS:
        for base, other in PAIRS:
            truth = float(
                np.exp(np.mean([np.log(one[other][metric] / one[base][metric]) for one in reference]))
            )
            sides = [[one[name][metric] for one in runs] for name in (base, other)]
            shares = (held(sides[0][: sweeps * n], sides[1][: sweeps * n], n, truth) for n in REPEATS)
            texts = "  ".join(f"{share:6.1%}" for share in shares)
            print(f"{texts}  ×{truth:.3f}  {other} ÷ {base}, {metric}")
    print("no difference shown")
    for metric in METRICS:
        for strategy in KNOBS:
            values = [one[strategy][metric] for one in runs]
            shares = (held(values[: sweeps * n], _turned(values, sweeps * n, n), n, 1.0) for n in REPEATS)
            print(f"{'  '.join(f'{share:6.1%}' for share in shares)}  {strategy} ÷ itself, {metric}")


def _turned(values: Sequence[float], count: int, by: int) -> list[float]:
    """The first `count` values, each in the place of one of another sweep."""
    return [values[(k + by) % count] for k in range(count)]


def main() -> None:
    """Both loads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--runs", type=int, default=2_000)
    asked = parser.parse_args()
    most = capacity()
    for load in LOADS:
        print(
            f"at {load * most:.2f} req/s, {load} of naive's capacity; {asked.runs} runs, {asked.sweeps} sweeps"
        )
        report(
            trials(OF_TRUTH, asked.runs, load * most, "truth"),
            trials(OF_SWEEPS, asked.sweeps * max(REPEATS), load * most, "sweeps"),
        )


if __name__ == "__main__":
    main()
