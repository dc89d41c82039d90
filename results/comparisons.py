"""Which cells are compared: settings on one backend, one setting on two backends, and the split of both.

A backend on which continuous ran is joinable. Going from a static batch on one that is not to continuous
on one that is changes two things at once; the split names what each gives.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from results.findings import CellSummary, Change, Split
from results.statistics import comparable, paired_ratio

# Not to the last completion: the end of a trial hangs on its slowest request, and the 95 % interval of the change held
# the truth in only 80-89 % of 1,000 simulated sweeps of a queue. `tests.benchmarks.coverage` asks it of the strategies.
THROUGHPUT = "steady_throughput_tokens_per_s"
COMPARED_METRICS = (
    THROUGHPUT,
    "ttft_s_p50",
    "ttft_s_p99",
    "ttft_s_mean",
    "e2e_s_p50",
    "e2e_s_p99",
    "delivered_s_p50",
    "delivered_s_p99",
)
STRATEGY_ORDER = ("naive", "dynamic", "continuous")

Seed = tuple[int, int]


def ordered(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Sort cells: static backends first, then by strategy and knobs, then by rate."""
    joinable = joinable_backends(cells)

    def key(cell: CellSummary) -> tuple[object, ...]:
        knobs = cell.trials[0].trial.knobs
        known = cell.strategy in STRATEGY_ORDER
        return (
            cell.model,
            cell.device,
            cell.backend in joinable,
            cell.backend,
            STRATEGY_ORDER.index(cell.strategy) if known else len(STRATEGY_ORDER),
            float(knobs.get("max_batch_size") or 0),
            float(knobs.get("max_wait_ms") or 0),
            cell.setting,
            cell.rate,
        )

    return sorted(cells, key=key)


def joinable_backends(cells: Sequence[CellSummary]) -> set[str]:
    """Give the backends on which continuous ran: nothing else can run it."""
    return {cell.backend for cell in cells if cell.strategy == "continuous"}


def labels(cells: Sequence[CellSummary]) -> dict[int, str]:
    """Give id(cell) → "backend / setting", with model and device only where the sweep has several."""
    models = len({cell.model for cell in cells}) > 1
    devices = len({cell.device for cell in cells}) > 1
    return {
        id(cell): f"{cell.backend} / {cell.setting}"
        + (f" / {cell.model}" if models else "")
        + (f" / {cell.device}" if devices else "")
        for cell in cells
    }


def pairs(cells: Sequence[CellSummary]) -> Iterator[tuple[CellSummary, CellSummary]]:
    """Give every pair that differs in setting or in backend, never in both; cells as `ordered` gives them."""
    for base, other in itertools.combinations(cells, 2):
        if _place(base) != _place(other):
            continue
        if (base.backend == other.backend) != (base.setting == other.setting):
            yield base, other


def changes(cells: Sequence[CellSummary]) -> list[Change]:
    """Give the paired change of every compared metric for every pair; cells as `ordered` gives them."""
    names = labels(cells)
    found = (
        change(metric, base, other, names) for metric in COMPARED_METRICS for base, other in pairs(cells)
    )
    return [one for one in found if one is not None]


def splits(cells: Sequence[CellSummary]) -> list[Split]:
    """Split every total over the repeats that all its cells have, so that its factors multiply exactly."""
    names = labels(cells)
    found = []
    for metric in COMPARED_METRICS:
        for base, twin, goal in _routes(cells):
            shared = set.intersection(*(comparable(by_seed(cell, metric)) for cell in (base, twin, goal)))
            total = change(metric, base, goal, names, only=shared)
            policy = change(metric, twin, goal, names, only=shared)
            engine = change(metric, base, twin, names, only=shared)
            if total and policy and engine:
                found.append(Split(metric=metric, rate=base.rate, total=total, policy=policy, engine=engine))
    return found


def change(
    metric: str,
    base: CellSummary,
    other: CellSummary,
    names: Mapping[int, str],
    only: Collection[Seed] | None = None,
) -> Change | None:
    """Give the change of one metric between two cells of one rate; None if no repeat has both values."""
    ratio = paired_ratio(by_seed(base, metric, only), by_seed(other, metric, only))
    if ratio is None:
        return None
    return Change(
        metric=metric,
        rate=base.rate,
        base=names[id(base)],
        other=names[id(other)],
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        pairs=ratio.pairs,
        censored=base.censored or other.censored,
    )


def by_seed(cell: CellSummary, metric: str, only: Collection[Seed] | None = None) -> dict[Seed, float | None]:
    """Give (repeat, seed) → the value of that repeat."""
    values = {(one.trial.repeat, one.trial.seed): one.metrics.get(metric) for one in cell.trials}
    return {key: value for key, value in values.items() if only is None or key in only}


def knees(cells: Sequence[CellSummary]) -> dict[str, tuple[float | None, float | None]]:
    """Give "backend / setting" → (highest rate kept up with, lowest overloaded).

    The first is sought below the second; either is None if no rate was judged to be on that side: a rate
    whose trials were too short, or of whose repeats only some were overloaded, is on neither.
    """
    names = labels(cells)
    by_name: dict[str, list[CellSummary]] = defaultdict(list)
    for cell in cells:
        by_name[names[id(cell)]].append(cell)
    found = {}
    for name, members in by_name.items():
        over = min((cell.rate for cell in members if cell.overloaded), default=None)
        under = [
            cell.rate
            for cell in members
            if not (cell.overloaded or cell.undecided) and (over is None or cell.rate < over)
        ]
        found[name] = (max(under, default=None), over)
    return found


def _routes(cells: Sequence[CellSummary]) -> Iterator[tuple[CellSummary, CellSummary, CellSummary]]:
    """Give (static on one backend, the same setting on a joinable one, continuous there)."""
    joinable = joinable_backends(cells)
    for base, twin in pairs(cells):
        if base.backend in joinable or twin.backend not in joinable or base.setting != twin.setting:
            continue
        for goal in cells:
            if (
                goal.strategy == "continuous"
                and goal.backend == twin.backend
                and _place(goal) == _place(base)
            ):
                yield base, twin, goal


def _place(cell: CellSummary) -> tuple[str, str, float]:
    return cell.model, cell.device, cell.rate
