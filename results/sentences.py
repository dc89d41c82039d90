"""The comparisons in words.

In an open loop a server that keeps up delivers what is offered, whatever its strategy. So latency is
compared where neither side is overloaded or cut off, at the lowest and the highest such rate, and throughput at the
highest rate of the sweep, overload allowed; each half names its rate. A sentence compares strategies on
one backend, or one setting on two backends; what changes both is split into the two. What qualifies them
stands in notes, so that it need not be said of each.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from results.comparisons import THROUGHPUT, joinable_backends, labels
from results.findings import CellSummary, Change, Sentence, Split, VerdictName
from results.wording import effects, is_mixed, number, place, rates, repeats, times

LATENCY = "e2e_s_p50"

CAVEATS: Mapping[VerdictName, str] = {
    "too-short": "trials were too short to tell whether the queue had settled",
    "not-stationary": "the time to first token had not settled",
    "unfinished": "requests were cut off at the drain limit",
    "failures": "requests failed or were rejected, and latency is that of the others",
    "client-bound": "the client was late",
    "clock-vague": "the clocks agreed only vaguely",
    "drifted": "the machine's speed was not what it was in most trials",
}

OF_LATENCY: frozenset[VerdictName] = frozenset({"not-stationary"})  # throughput is compared all the same

UNLIKE = "They differ in max_batch_size too: what that gives counts as strategy."

Curve = Mapping[float, CellSummary]  # one setting on one backend, by rate
Changes = Mapping[tuple[str, float, str, str], Change]


def sentences(
    cells: Sequence[CellSummary], changes: Sequence[Change], splits: Sequence[Split]
) -> list[Sentence]:
    """Put policy, engine and split comparisons into words; cells as `comparisons.ordered` gives them."""
    names = labels(cells)
    curves: dict[str, dict[float, CellSummary]] = {}
    for cell in cells:
        curves.setdefault(names[id(cell)], {})[cell.rate] = cell
    by_key = {(one.metric, one.rate, one.base, one.other): one for one in changes}
    compared = list(_comparisons(curves, by_key, joinable_backends(cells)))
    compared.sort(key=lambda sentence: sentence.kind != "policy")  # stable: policy before engine
    return [*compared, *_splits(curves, splits)]


def _comparisons(curves: Mapping[str, Curve], changes: Changes, joinable: set[str]) -> Iterator[Sentence]:
    for base, other in combinations(curves, 2):
        one, two = _any(curves[base]), _any(curves[other])
        found = [
            change
            for key, change in changes.items()
            if key[2:] == (base, other) and key[0] in (LATENCY, THROUGHPUT)
        ]
        if not found or (one.strategy == two.strategy and one.backend == two.backend):
            continue
        claim = _claim(curves[base], curves[other], base, other, changes)
        where = f"{place(two)}{repeats(found)}"
        gated = {one.strategy, two.strategy} - {"continuous"} if two.backend in joinable else ()
        unlike = len({cell.trials[0].trial.knobs.get("max_batch_size") for cell in (one, two)}) > 1
        notes = (
            *([gated_note(two.backend)] if gated else ()),
            *([UNLIKE] if unlike and one.strategy != two.strategy else ()),
            *_caveats(curves[base], curves[other]),
        )
        if one.backend == two.backend:
            subject, against = _batching(two).capitalize(), f"{_batching(one)} on the same backend"
            text = f"{subject} {claim} compared to {against} ({two.backend}, {where})."
            yield Sentence(kind="policy", base=base, other=other, text=text, notes=notes)
        else:
            text = (
                f"Under {_batching(two)}, {two.backend} {claim} compared to {one.backend} "
                f"with the same knobs ({where})."
            )
            yield Sentence(kind="engine", base=base, other=other, text=text, notes=notes)


def _claim(base: Curve, other: Curve, base_name: str, other_name: str, changes: Changes) -> str:
    """Say the latency half and the throughput half, each with its rates."""
    shared = sorted(base.keys() & other.keys())
    calm = [rate for rate in shared if not (base[rate].censored or other[rate].censored)]
    at = {rate: changes.get((LATENCY, rate, base_name, other_name)) for rate in calm[:1] + calm[1:][-1:]}
    last = shared[-1]
    load = _overload(base[last], other[last])
    at_last = {last: changes.get((THROUGHPUT, last, base_name, other_name))}
    mixed = is_mixed(one for one in (*at.values(), *at_last.values()) if one is not None)
    parts = effects(at, "p50 E2E latency", mixed=mixed)
    parts += [part + load for part in effects(at_last, "throughput", mixed=mixed)]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _overload(base: CellSummary, other: CellSummary) -> str:
    """Say who was overloaded, as a clause that ends with a comma."""
    if base.overloaded and other.overloaded:
        return ", where both were overloaded,"
    over = base if base.overloaded else other if other.overloaded else None
    if over is None:
        return ""
    return f", where {over.strategy if base.strategy != other.strategy else over.backend} was overloaded,"


def _caveats(base: Curve, other: Curve) -> Iterator[str]:
    """Say what the verdicts on the trials of the rates in the claim put in doubt, a sentence each."""
    shared = sorted(base.keys() & other.keys())
    calm = [rate for rate in shared if not (base[rate].censored or other[rate].censored)]
    if not calm:
        yield "At every rate one of the two was overloaded or cut off, so latency is not compared."
    used = sorted({*calm[:1], *calm[-1:], shared[-1]})
    for name, words in CAVEATS.items():
        at = [
            rate
            for rate in (calm if name in OF_LATENCY else used)
            if rate in used
            and any(trial.has(name) for cell in (base[rate], other[rate]) for trial in cell.trials)
        ]
        if at:
            yield f"At λ = {rates(at)} req/s {words}."


def _splits(curves: Mapping[str, Curve], splits: Sequence[Split]) -> Iterator[Sentence]:
    routes: dict[tuple[str, str], list[Split]] = {}
    for split in splits:
        routes.setdefault((split.total.base, split.total.other), []).append(split)
    for (base, other), members in routes.items():
        one, two = _any(curves[base]), _any(curves[other])
        chosen = _highest(members, THROUGHPUT, "throughput", censored=True)
        chosen += _highest(members, LATENCY, "p50 E2E latency", censored=False)
        if not chosen:
            continue
        mixed = is_mixed(split.total for split, _ in chosen)
        said = "; ".join(_factors(split, words, mixed) for split, words in chosen)
        text = (
            f"From {_batching(one)} on {one.backend} to {_batching(two)} on {two.backend}: {said} "
            f"({place(two)}{repeats(split.total for split, _ in chosen)})."
        )
        notes = (gated_note(two.backend), "What leaving a batch early gives counts as engine.")
        yield Sentence(kind="split", base=base, other=other, text=text, notes=notes)


def _highest(splits: Sequence[Split], metric: str, words: str, *, censored: bool) -> list[tuple[Split, str]]:
    usable = [
        split
        for split in splits
        if split.metric == metric
        and (censored or not (split.total.censored or split.policy.censored or split.engine.censored))
    ]
    return [(max(usable, key=lambda split: split.rate), words)] if usable else []


def _factors(split: Split, words: str, mixed: bool) -> str:
    total, policy, engine = (times(one, mixed=mixed) for one in (split.total, split.policy, split.engine))
    return (
        f"{total} in {words} at λ = {number(split.rate)} req/s = "
        f"{policy} from iteration-level scheduling (policy) times {engine} from the engine"
    )


def gated_note(backend: str) -> str:
    """Say what naive and dynamic are on a backend whose batch is re-formed at each step."""
    return (
        f"On {backend} static batches are gated, not lockstep: the next waits until all of one are done, but a finished "
        "row leaves early, not with the longest."
    )


def _batching(cell: CellSummary) -> str:
    """dynamic · 8 · 200 ms → dynamic batching (8 · 200 ms)."""
    knobs = cell.setting.removeprefix(cell.strategy).strip(" ·")
    return f"{cell.strategy} batching" + (f" ({knobs})" if knobs else "")


def _any(curve: Curve) -> CellSummary:
    return next(iter(curve.values()))
