"""Two sweeps cell by cell: what changed from A to B, or how far a simulated one is from a measured one.

Cells match by backend, setting, model and arrival rate; where both sweeps have automatic rates that came out
different, by the place of the rate (lowest, middle, highest), which is said. A backend in virtual time
matches the one that it stands for.

Repeats are paired where both sides were sent the same requests: same seed and repeat, rate, length and number of
requests (and the same hash of them, where both sides are of one kind). The change is that of
`results.statistics.paired_ratio`; without a pair it is the ratio of the means and has no interval.

Steady windows begin at the same moment on both sides, the later one, so that percentiles are of the same requests.

Of two sweeps of which one is simulated, that one is the prediction, whichever is named first, and the change is
its error. Latency of a cell that was overloaded or cut off on either side describes when it was stopped: such
changes are shown, and left out of what is summed up and of what is worse.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from results.comparisons import THROUGHPUT
from results.errors import StoreError
from results.findings import CellSummary, Findings, TrialSummary
from results.records import SIMULATED, VIRTUAL
from results.statistics import FEWEST_PAIRS, paired_ratio
from results.store import Store
from results.summary import find
from results.sweep_changes import Change, Compared, Comparison, is_better_high

METRICS = (THROUGHPUT, "ttft_s_p50", "ttft_s_p99", "e2e_s_p50", "e2e_s_p99")
GOODPUT = "goodput_requests_per_s"  # with @<slo> after it, where a sweep has one
PLACES = ("lowest", "middle", "highest")

Key = tuple[str, str, str, float]


def find_both(a: Store, b: Store) -> tuple[Findings, Findings]:
    """What both found, with steady windows that begin at the same moment for each rate and repeat of both."""
    found = find(a), find(b)
    starts = [_starts(one) for one in found]
    common = {key: max(start_s, starts[1][key]) for key, start_s in starts[0].items() if key in starts[1]}
    if all(one.get(key) == start_s for one in starts for key, start_s in common.items()):
        return found
    return find(a, not_before=common), find(b, not_before=common)


def _starts(findings: Findings) -> dict[tuple[float, int], float]:
    """Where the steady window of a rate and repeat begins."""
    return {
        (one.trial.rate, one.trial.repeat): start_s
        for one in findings.trials
        if (start_s := one.metrics.get("steady_start_s")) is not None
    }


def compare(a: Findings, b: Findings, names: tuple[str, str]) -> Comparison:
    """Compare every cell that both have. StoreError if there is none."""
    name_a, name_b = names
    prediction = is_simulated(a) != is_simulated(b)
    if prediction and is_simulated(a):
        a, b, name_a, name_b = b, a, name_b, name_a
    by_place = _by_place(a, b)
    cells_a, cells_b = _keyed(a, by_place), _keyed(b, by_place)
    shared = [key for key in cells_a if key in cells_b]
    if not shared:
        raise StoreError(
            f"no cell of {name_a} is in {name_b}: cells match by backend, setting, model and rate, and there are "
            f"{_few(cells_a)} in one and {_few(cells_b)} in the other"
        )
    slo = sorted(
        set.intersection(
            *(
                {name for trial in one.trials for name in trial.metrics if name.startswith(GOODPUT)}
                for one in (a, b)
            )
        )
    )
    metrics = (*METRICS, *slo)
    cells = [_compared(cells_a[key], cells_b[key], metrics) for key in shared]
    return Comparison(
        a=name_a,
        b=name_b,
        prediction=prediction,
        metrics=metrics,
        cells=tuple(cells),
        only_a=tuple(_name(cells_a[key]) for key in cells_a if key not in cells_b),
        only_b=tuple(_name(cells_b[key]) for key in cells_b if key not in cells_a),
        simulated=tuple(name for name, one in ((name_a, a), (name_b, b)) if is_simulated(one)),
        notes=tuple(_notes(a, b, cells, by_place=by_place)),
    )


def is_simulated(findings: Findings) -> bool:
    """Whether it ran in virtual time."""
    return "simulated" in findings.sweep


def _by_place(a: Findings, b: Findings) -> bool:
    """Whether automatic rates came out different, as many on both sides."""
    rates = [sorted({cell.rate for cell in one.cells}) for one in (a, b)]
    automatic = all(_config(one).get("arrival_rate", "auto") == "auto" for one in (a, b))
    return automatic and rates[0] != rates[1] and len(rates[0]) == len(rates[1])


def _config(findings: Findings) -> Mapping[str, Any]:
    config = findings.sweep.get("config")
    return config if isinstance(config, Mapping) else {"arrival_rate": "unknown"}


def _keyed(findings: Findings, by_place: bool) -> dict[Key, CellSummary]:
    rates = sorted({cell.rate for cell in findings.cells})
    return {
        (
            _backend(cell),
            cell.setting,
            cell.model,
            float(rates.index(cell.rate)) if by_place else cell.rate,
        ): cell
        for cell in findings.cells
    }


def _backend(cell: CellSummary) -> str:
    return cell.backend.removeprefix(f"{SIMULATED} ") if cell.device == VIRTUAL else cell.backend


def _name(cell: CellSummary) -> str:
    return f"{cell.setting} on {_backend(cell)} at {cell.rate:g} req/s"


def _few(cells: Mapping[Key, CellSummary]) -> str:
    names = [_name(cell) for cell in cells.values()]
    return (
        ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "") if names else "none"
    )


def _compared(a: CellSummary, b: CellSummary, metrics: Sequence[str]) -> Compared:
    of_a, of_b = _by_repeat(a), _by_repeat(b)
    paired = [key for key in of_a if key in of_b and _same_requests(of_a[key], of_b[key])]
    censored = a.censored or b.censored
    return Compared(
        backend=_backend(a),
        strategy=a.strategy,
        setting=a.setting,
        rate_a=a.rate,
        rate_b=b.rate,
        repeats=len(paired),
        stopped_a=a.censored,
        stopped_b=b.censored,
        fails_a=_fails(a),
        fails_b=_fails(b),
        changes={metric: _change(metric, of_a, of_b, paired, censored) for metric in metrics},
    )


def _fails(cell: CellSummary) -> bool:
    return any(verdict.name == "failures" for one in cell.trials for verdict in one.verdicts)


def _by_repeat(cell: CellSummary) -> dict[tuple[int, int], TrialSummary]:
    return {(one.trial.repeat, one.trial.seed): one for one in cell.trials}


def _same_requests(a: TrialSummary, b: TrialSummary) -> bool:
    one, other = a.trial, b.trial
    alike = (one.rate, one.duration_s, one.planned_requests) == (
        other.rate,
        other.duration_s,
        other.planned_requests,
    )
    if (one.device == VIRTUAL) != (other.device == VIRTUAL):
        return alike  # their hashes are of other things
    return alike and one.workload_hash == other.workload_hash


def _change(
    metric: str,
    a: Mapping[tuple[int, int], TrialSummary],
    b: Mapping[tuple[int, int], TrialSummary],
    paired: Sequence[tuple[int, int]],
    censored: bool,
) -> Change:
    values_a = {key: one.metrics.get(metric) for key, one in a.items()}
    values_b = {key: one.metrics.get(metric) for key, one in b.items()}
    both = [key for key in paired if values_a[key] is not None and values_b[key] is not None]
    mean_a = _mean([values_a[key] for key in both] if paired else list(values_a.values()))
    mean_b = _mean([values_b[key] for key in both] if paired else list(values_b.values()))
    if mean_a is None:
        mean_a = _mean(list(values_a.values()))
    if mean_b is None:
        mean_b = _mean(list(values_b.values()))
    found = paired_ratio({key: values_a[key] for key in both}, {key: values_b[key] for key in both})
    ratio = found.ratio if found else None
    if found:  # so that the change is that of what is shown
        mean_a = _geometric_mean([value for key in both if (value := values_a[key]) and values_b[key]])
        mean_b = mean_a * found.ratio
    elif not paired and mean_a and mean_b:
        ratio = mean_b / mean_a
    return Change(
        metric=metric,
        a=mean_a,
        b=mean_b,
        ratio=ratio,
        low=found.low if found else None,
        high=found.high if found else None,
        pairs=found.pairs if found else 0,
        censored=censored and not is_better_high(metric),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _notes(a: Findings, b: Findings, cells: Sequence[Compared], *, by_place: bool) -> list[str]:
    """What qualifies the whole comparison."""
    notes = []
    if is_simulated(a) and is_simulated(b):
        notes.append("both sweeps are simulated: nothing here was measured")
    if by_place:
        rates = dict.fromkeys((cell.rate_a, cell.rate_b) for cell in cells)
        pairs = ", ".join(f"{one:g} and {other:g}" for one, other in sorted(rates))
        notes.append(f"automatic rates came out different and are compared by their place: {pairs} req/s")
    pairs_of = Counter(cell.repeats for cell in cells)
    if unpaired := pairs_of[0]:
        notes.append(
            f"in {unpaired} of {len(cells)} cells no repeat was sent the same requests: ratios of means, no intervals"
        )
    if few := sum(count for repeats, count in pairs_of.items() if 0 < repeats < FEWEST_PAIRS):
        notes.append(
            f"in {few} of {len(cells)} cells fewer than {FEWEST_PAIRS} repeats are paired: no intervals"
        )
    limits = [{trial.trial.drain_limit_s for trial in one.trials} for one in (a, b)]
    if limits[0] != limits[1]:
        said = " and ".join("/".join(f"{limit:g}" for limit in sorted(some)) for some in limits)
        notes.append(f"requests were waited for differently long after the last arrival: {said} s")
    if failing := sum(cell.fails_a or cell.fails_b for cell in cells):
        notes.append(
            f"in {failing} of {len(cells)} cells requests failed: latency is of those that were served"
        )
    cut = sum(one.censored for cell in cells for one in cell.changes.values())
    if cut:
        notes.append(
            f"{cut} latencies are of cells that were overloaded or cut off: they describe when it was stopped (*)"
        )
    return notes
