"""The dispatcher driven by events in virtual time: queue → decide → launch → complete, a million at once.

The other driver (deployments/service.py) runs in real time; the dispatcher and the strategies are the very
same. Events of one moment go in the order completion, arrival, decision, and then the engine's next step.
What concerns nobody is not waited for: the engine runs past completions while nothing waits, and requests arrive
together as long as a strategy's Wait holds.

Checked in every run, and an AssertionError if it does not hold: a request is waiting, running or has
ended, and in one of these only; an engine is not idle while the strategy would launch; N requests in the
system over time add up to the time that requests spend in it (Little's law, empty to empty); no stamp is
before its cause; the KV cache is whole when nothing runs.
"""

import gc
import math
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import numpy as np

from deployments.dispatcher import Dispatcher, Rejection
from deployments.virtual.batch_log import BatchLog
from deployments.virtual.engine import EngineSettings
from deployments.virtual.invariants import check_columns, check_little, request_seconds
from deployments.virtual.outcomes import REJECTED, Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from strategies.strategy import Strategy


def simulate(
    requests: RequestColumns,
    strategy: Strategy,
    settings: EngineSettings,
    *,
    max_batch_size: int,
    drain_limit_s: float = math.inf,
    occupancy: bool = False,
) -> Run:
    """Run the requests through the strategy and an engine; seconds from the first moment of the period.

    `drain_limit_s` after the last arrival, what is left is cut off as `unfinished`. ValueError if the
    strategy would wait for ever.
    """
    with _no_cycles():
        return _Driver(requests, strategy, settings, max_batch_size, drain_limit_s, occupancy).run()


@contextmanager
def _no_cycles() -> Iterator[None]:
    """Without the collector of reference cycles: a run makes none, and looking for them costs a third."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Driver:
    """One run; requests go by their index, and by its text where the dispatcher wants an id."""

    def __init__(
        self,
        requests: RequestColumns,
        strategy: Strategy,
        settings: EngineSettings,
        max_batch_size: int,
        drain_limit_s: float,
        occupancy: bool,
    ) -> None:
        self._requests, self._settings = requests, settings
        self._outcomes, self._batches = Outcomes(len(requests)), BatchLog()
        self._engine = settings.engine(requests, self._outcomes, occupancy=occupancy)
        self._dispatcher = Dispatcher(
            strategy, max_batch_size=max_batch_size, joinable=settings.joinable, kv=settings.budget
        )
        self._dispatcher.close(len(requests))
        self._cap = max_batch_size
        self._arrivals_s: list[float] = [*requests.planned_s.tolist(), math.inf]
        self._stop_s = (self._arrivals_s[-2] if len(requests) else 0.0) + drain_limit_s
        self._names = list(map(str, range(len(requests))))
        self._batch_of = [-1] * len(requests)
        self._ended = 0
        self._refused_s: list[float] = []  # when requests ended that the engine never ran

    def run(self) -> Run:
        """Every event in its turn."""
        now_s = self._events()
        cut_off = self._ended < len(self._requests)
        if cut_off:
            self._engine.abort(now_s)
            for waiting in self._dispatcher.abandon():
                self._outcomes.rows["returned_s"][int(waiting.request_id)] = now_s
        return self._result(now_s, cut_off)

    def _events(self) -> float:
        """Until nothing is left, or the drain limit; the time."""
        engine, dispatcher, arrivals_s = self._engine, self._dispatcher, self._arrivals_s
        coming = self._requests.waiting(self._names)
        now_s, arrived, last_arrival = 0.0, 0, len(arrivals_s) - 2
        last_s = min(self._stop_s, sys.float_info.max)  # infinity is never reached
        while True:
            waits = bool(dispatcher.waiting)
            asked = arrived
            if waits and arrived <= last_arrival:
                asked = int(min(arrived + dispatcher.awaited - 1, last_arrival))
            event_s = min(arrivals_s[asked], dispatcher.wake_s)
            over = event_s > last_s
            if over:
                at_s, ended = engine.run(now_s, last_s, math.inf, waits)
            else:
                at_s, ended = engine.run(now_s, event_s, event_s, waits)
            if ended:
                self._finish(ended, at_s)
            if ended and waits:
                now_s = at_s
            elif over:
                return self._over(arrived, at_s)
            else:
                now_s = event_s
            if arrivals_s[arrived] <= now_s:
                first, arrived = arrived, arrived + 1
                if arrivals_s[arrived] <= now_s:
                    arrived = bisect_right(arrivals_s, now_s, arrived)
                dispatcher.arrive_all([*islice(coming, arrived - first)])
            if dispatcher.waiting:
                self._decide(now_s)
            held = len(dispatcher.waiting) + dispatcher.running
            assert arrived == self._ended + held, f"{arrived} came, {self._ended} ended, {held} are here"
            assert dispatcher.running or dispatcher.settled(now_s), "an idle engine, and nobody was asked"

    def _over(self, arrived: int, now_s: float) -> float:
        """When it is over: with the last event, or at the drain limit."""
        inside = arrived - self._ended
        if inside and self._stop_s == math.inf:
            raise ValueError(f"the strategy would let {inside} requests wait for ever")
        return self._stop_s if inside else now_s

    def _decide(self, now_s: float) -> None:
        """What the strategy launches now joins the engine."""
        asking = True
        while asking:
            asking = False
            for decided in self._dispatcher.poll(now_s):
                if isinstance(decided, Rejection):
                    self._reject(decided, now_s)
                    continue
                self._batches.add(decided)
                members, batch_id, batch_of = [], decided[0], self._batch_of
                for waiting in decided[1]:
                    index = int(waiting[0])
                    members.append(index)
                    batch_of[index] = batch_id
                if failed := self._engine.join(members, now_s):
                    self._refused_s += [now_s] * len(failed)
                    self._finish(failed, now_s)
                    asking = True

    def _finish(self, indices: list[int], now_s: float) -> None:
        """They have ended in the engine, in whatever way, the last of them now."""
        names, batches = map(self._names.__getitem__, indices), map(self._batch_of.__getitem__, indices)
        self._ended += self._dispatcher.finish_all(zip(names, batches, strict=True), now_s)

    def _reject(self, rejection: Rejection, now_s: float) -> None:
        index = int(rejection.request.request_id)
        self._outcomes.end(index, REJECTED, None, rejection.reason, now_s)
        self._refused_s.append(now_s)
        self._ended += 1

    def _result(self, now_s: float, cut_off: bool) -> Run:
        """The columns, checked."""
        record, rows = self._engine.close(), self._outcomes.rows
        runs, last_token_s = record.runs, rows["last_token_s"]
        cut = np.flatnonzero(np.isnan(last_token_s) & (rows["last_step"] >= 0))
        last_token_s[cut] = runs["end_s"][
            np.searchsorted(np.cumsum(runs["steps"]), rows["last_step"][cut], "right")
        ]
        run = Run(
            requests=self._requests,
            settings=self._settings,
            cap=self._cap,
            scheduled_s=rows["scheduled_s"],
            first_token_s=rows["first_token_s"],
            last_token_s=last_token_s,
            returned_s=rows["returned_s"],
            first_step=rows["first_step"],
            last_step=rows["last_step"],
            output_tokens=rows["output_tokens"],
            preemptions=rows["preemptions"],
            batch_id=np.array(self._batch_of, dtype=np.int64),
            status=rows["status"],
            errors=self._outcomes.errors,
            silences=record.silences,
            launches=self._batches.launches(),
            runs=runs,
            counters=record.counters,
            cut_off=cut_off,
            ended_s=now_s,
            stretches=record.stretches,
        )
        check_columns(run)
        left_s = np.concatenate([record.left_s, self._refused_s])
        check_little(run, request_seconds(self._requests.planned_s, left_s, now_s))
        return run
