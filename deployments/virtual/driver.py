"""The dispatcher driven by events in virtual time: queue → decide → launch → complete, a million at once.

The other driver (deployments/service.py) runs in real time; the dispatcher and the strategies are the very
same. Events of one moment go in the order completion, arrival, decision, and then the engine's next step.

Checked in every run, and an AssertionError if it does not hold: a request is waiting, running or has
ended, and in one of these only; an engine is not idle while the strategy would launch; N requests in the
system over time add up to the time that requests spend in it (Little's law, empty to empty); no stamp is
before its cause; the KV cache is whole when nothing runs.
"""

import gc
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from deployments.dispatcher import Dispatcher, Rejection
from deployments.virtual.batch_log import BatchLog
from deployments.virtual.engine import Engine, EngineSettings
from deployments.virtual.invariants import check_columns, check_little
from deployments.virtual.occupancy import OccupancyLog
from deployments.virtual.outcomes import REJECTED, Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_log import StepLog
from strategies.strategy import Strategy, Waiting


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
        self._outcomes, self._steps = Outcomes(len(requests)), StepLog()
        self._batches, self._batch_id = BatchLog(), self._outcomes.batch_id
        self._occupancy = OccupancyLog() if occupancy else None
        self._engine: Engine = settings.engine(requests, self._outcomes, self._steps, self._occupancy)
        self._dispatcher = Dispatcher(strategy, max_batch_size=max_batch_size, joinable=settings.joinable)
        self._dispatcher.close(len(requests))
        self._cap = max_batch_size
        self._arrivals_s: list[float] = requests.planned_s.tolist()
        self._stop_s = (self._arrivals_s[-1] if self._arrivals_s else 0.0) + drain_limit_s
        self._names = [str(index) for index in range(len(requests))]
        self._ended = 0
        self._request_seconds = 0.0  # ∫N dt

    def run(self) -> Run:
        """Every event in its turn."""
        now_s, cut_off = self._events()
        if cut_off:
            self._engine.abort(now_s)
            for waiting in self._dispatcher.abandon():
                self._outcomes.returned_s[int(waiting.request_id)] = now_s
        return self._result(now_s, cut_off)

    def _events(self) -> tuple[float, bool]:
        """Until nothing is left, or the drain limit: the time, and whether something was cut off."""
        engine, dispatcher = self._engine, self._dispatcher
        prompts: list[int] = self._requests.prompt_tokens.tolist()
        limits: list[int] = self._requests.max_new_tokens.tolist()
        names, arrivals_s = self._names, [*self._arrivals_s, math.inf]
        arrived, arrival_s, before_s = 0, arrivals_s[0], 0.0
        request_seconds, arrive = 0.0, dispatcher.arrive
        last_s = min(self._stop_s, sys.float_info.max)  # infinity is never reached
        while True:
            end_s = engine.end_s
            now_s = min(end_s, arrival_s, dispatcher.wake_s)
            if now_s > last_s:
                inside = arrived - self._ended
                if inside and self._stop_s == math.inf:
                    raise ValueError(f"the strategy would let {inside} requests wait for ever")
                if inside:
                    request_seconds += inside * (self._stop_s - before_s)
                self._request_seconds = request_seconds
                return (self._stop_s, True) if inside else (before_s, False)
            changed = dispatcher.wake_s == now_s
            request_seconds += (arrived - self._ended) * (now_s - before_s)
            before_s = now_s
            if end_s == now_s and (ended := engine.end(now_s)):
                self._finish(ended, now_s)
                changed = True
            quiet_s = now_s if end_s == now_s else min(end_s, dispatcher.wake_s)
            while arrival_s == now_s:
                arrive(Waiting(names[arrived], prompts[arrived], limits[arrived], now_s), now_s)
                arrived += 1
                arrival_s = arrivals_s[arrived]
                changed = True
                if now_s < arrival_s < quiet_s and dispatcher.settled(now_s):  # a Wait holds: nobody is asked
                    request_seconds += (arrived - self._ended) * (arrival_s - now_s)
                    before_s = now_s = arrival_s
            if changed and dispatcher.waiting:
                self._decide(now_s)
            while engine.end_s == math.inf and (failed := engine.begin(now_s)):
                self._finish(failed, now_s)
                self._decide(now_s)
                changed = True
            if changed:
                held = len(dispatcher.waiting) + dispatcher.running
                assert arrived == self._ended + held, f"{arrived} came, {self._ended} ended, {held} are here"
                assert dispatcher.running or dispatcher.settled(now_s), "an idle engine, and nobody was asked"

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
                batch_id = decided.batch_id
                members = [int(waiting[0]) for waiting in decided.requests]
                for index in members:
                    self._batch_id[index] = batch_id
                if failed := self._engine.join(members, now_s):
                    self._finish(failed, now_s)
                    asking = True

    def _finish(self, indices: list[int], now_s: float) -> None:
        """They have ended in the engine, in whatever way."""
        finish, names, batch_id = self._dispatcher.finish, self._names, self._batch_id
        for index in indices:
            finish(names[index], batch_id[index], now_s)
        self._ended += len(indices)

    def _reject(self, rejection: Rejection, now_s: float) -> None:
        index = int(rejection.request.request_id)
        self._outcomes.status[index] = REJECTED
        self._outcomes.errors[index] = (None, rejection.reason)
        self._outcomes.returned_s[index] = now_s
        self._ended += 1

    def _result(self, now_s: float, cut_off: bool) -> Run:
        """The columns, checked."""
        outcomes = self._outcomes
        runs = self._steps.runs()
        first_step, last_step = np.asarray(outcomes.first_step), np.asarray(outcomes.last_step)
        last_token_s = np.asarray(outcomes.last_token_s)
        cut = np.flatnonzero(np.isnan(last_token_s) & (last_step >= 0))
        last_token_s[cut] = runs["end_s"][np.searchsorted(np.cumsum(runs["steps"]), last_step[cut], "right")]
        run = Run(
            requests=self._requests,
            settings=self._settings,
            cap=self._cap,
            scheduled_s=np.asarray(outcomes.scheduled_s),
            first_token_s=np.asarray(outcomes.first_token_s),
            last_token_s=last_token_s,
            returned_s=np.asarray(outcomes.returned_s),
            first_step=first_step,
            last_step=last_step,
            output_tokens=np.asarray(outcomes.output_tokens),
            preemptions=np.asarray(outcomes.preemptions),
            batch_id=np.asarray(outcomes.batch_id),
            status=np.frombuffer(outcomes.status, dtype=np.uint8),
            errors=outcomes.errors,
            silences=outcomes.silences,
            launches=self._batches.launches(),
            runs=runs,
            counters=self._engine.counters,
            cut_off=cut_off,
            ended_s=now_s,
            stretches=tuple(self._occupancy.stretches) if self._occupancy is not None else None,
        )
        run.counters.peak_blocks = int(runs["blocks"].max(initial=0))
        check_columns(run)
        check_little(run, self._request_seconds)
        return run
