"""What a sweep has found so far: means over the repeats that are done, by backend, setting and rate.

Each ended cell is read once, and nothing else of the store with it. The numbers are those of the table at
the end, because the same functions make them; only what needs other cells is left to the end: the steady window
that all cells of a rate share (here each has its own), the comparisons, and whether the machine drifted.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from experiments.cells import Cell
from results.findings import CellSummary, TrialSummary
from results.metrics import with_metrics
from results.store import Store
from results.trial_summary import summarise
from results.windows import steady_start


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One backend, setting and rate, as far as its repeats are done."""

    backend: str
    setting: str
    rate: float
    done: int
    repeats: int
    tokens_per_s: float | None
    ttft_p50_s: float | None
    e2e_p50_s: float | None
    reservations: tuple[str, ...]
    read: int  # the how-manieth cell was its last: the largest is the newest


class RunningResults:
    """Reads ended cells a few at a time, so that whoever watches can do it between two looks."""

    def __init__(self, store: Store, cells: Iterable[Cell], ended: Iterable[str] = ()) -> None:
        """`cells` is the whole sweep, `ended` the ids of those that are done already."""
        self._store = store
        self._keys = {cell.cell_id: _key(cell) for cell in cells}
        self._repeats = Counter(self._keys.values())
        self._groups: dict[_Key, list[TrialSummary]] = {key: [] for key in self._repeats}
        self._read: dict[_Key, int] = {}
        self._unread = deque(ended)
        self._count = 0

    def ended(self, cell_id: str) -> None:
        """A cell is done; it is read when its turn comes."""
        self._unread.append(cell_id)

    def read_within(self, budget_s: float, clock: Callable[[], float] = time.monotonic) -> int:
        """Read ended cells until the time is up, but one at least; how many. After a resume there are many."""
        began_s, count = clock(), 0
        while (not count or clock() - began_s < budget_s) and self.read_one():
            count += 1
        return count

    def read_one(self) -> bool:
        """Read the ended cell that has waited longest; False if none waits. Errors are the store's."""
        if not self._unread:
            return False
        cell_id = self._unread.popleft()
        trials, requests = self._store.trials({cell_id}), self._store.requests({cell_id})
        if not trials or not requests.num_rows:
            return True
        measured = with_metrics(requests)
        one = summarise(trials[0], measured, self._store.batches({cell_id}), steady_start(measured))
        key = self._keys[cell_id]
        if not one.has("replica-changed"):
            self._count += 1
            self._groups[key].append(one)
            self._read[key] = self._count
        return True

    def rows(self) -> list[Result]:
        """What there is, in the order of the sweep."""
        return [
            _result(key, trials, self._repeats[key], self._read[key])
            for key, trials in self._groups.items()
            if trials
        ]


_Key = tuple[str, str, str, float]


def _key(cell: Cell) -> _Key:
    return cell.model.name if cell.model else "", cell.backend, cell.setting, cell.rate


def _result(key: _Key, trials: list[TrialSummary], repeats: int, read: int) -> Result:
    first = trials[0].trial
    cell = CellSummary(
        strategy=first.strategy,
        setting=first.setting,
        backend=first.backend,
        model=first.model,
        device=first.device,
        rate=first.rate,
        trials=tuple(trials),
    )
    names = {verdict.name for trial in trials for verdict in trial.verdicts}
    return Result(
        backend=key[1],
        setting=key[2],
        rate=key[3],
        done=len(trials),
        repeats=repeats,
        tokens_per_s=cell.mean("throughput_tokens_per_s"),
        ttft_p50_s=cell.mean("ttft_s_p50"),
        e2e_p50_s=cell.mean("e2e_s_p50"),
        reservations=tuple(sorted(names, key=lambda name: (name == "too-short", name))),
        read=read,
    )
