"""Queue → decide → launch → complete, as plain logic: no clock, no task, no I/O.

Written once, driven twice: by asyncio in the replica and by a heap in virtual time. A driver tells what
happened (`arrive`, `close`, `finish`, `out_of_memory`, `abandon`), then calls `poll` and launches what it
returns; it calls `poll` again after the next event, or at `wake_s` when nothing happens before. Events of
one moment go in the order completion, arrival, poll. All times are seconds of one clock.

What every strategy must have alike lives here: the cap and its recovery, the return of a batch that ran
out of memory to its place, the count of skips, and the end of arrivals.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strategies.kv_budget import KVBudget
from strategies.strategy import EngineView, Launch, Reject, Strategy, Trigger, Wait, Waiting


class Batch(NamedTuple):
    """Requests to launch together, in the order in which the strategy named them."""

    batch_id: int  # from 0, in order of launch
    requests: tuple[Waiting, ...]
    trigger: Trigger
    cap: int  # at the launch
    waiting_left: int  # requests still waiting after it
    launched_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A request that the strategy refused; `reason` ends in its row."""

    request: Waiting
    reason: str


_made = tuple.__new__  # of a named tuple, from all its values: a third of the time of its constructor


class Dispatcher:
    """The waiting queue of one trial, its strategy, and what is known of the engine.

    Invariants: every request that arrived is waiting, running, finished, rejected or given back, and in
    one of these only; `waiting` is in order of arrival; 1 ≤ `cap` ≤ `max_batch_size`.
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        max_batch_size: int,
        joinable: bool,
        kv: KVBudget | None = None,
        clean_batches_to_recover: int = 20,
    ) -> None:
        """`kv`: what a padded batch may take; an engine that is joined does not pad, and has none."""
        self.cap = max_batch_size
        self.running = 0
        self.waiting: deque[Waiting] = deque()  # the queue as it is now, oldest first: to look at
        self.closed = False  # every arrival of the trial is in
        self.wake_s = math.inf  # when `poll` must be called again at the latest; inf: after the next event
        self._decide = strategy.decide
        self._max_batch_size = max_batch_size
        self._joinable = joinable
        self._kv = None if joinable else kv
        self._clean_batches_to_recover = clean_batches_to_recover
        self._clean_batches = 0
        self._careful = False  # from running out of memory until the cap has recovered
        self._idle_since_s = -math.inf
        self._place: dict[str, int] = {}  # arrival number of each request that is waiting or running
        self._batches: dict[int, Batch] = {}
        self._unfinished: dict[int, int] = {}  # requests of each running batch that have not ended
        self._launched = 0
        self._arrived = 0
        self._expected: int | None = None
        self._promised = False  # the last answer was Wait, and no completion or close ended it
        self._until_waiting: float = math.inf

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.waiting and self.running == 0

    @property
    def awaited(self) -> int | float:
        """How many must arrive until the strategy is to be asked, if nothing else happens before."""
        return self._until_waiting - len(self.waiting) if self._promised and self.waiting else 1

    def arrive(self, request: Waiting, now_s: float) -> None:
        """Append a request to the queue."""
        self.arrive_all((request,))

    def arrive_all(self, requests: Sequence[Waiting]) -> None:
        """Append requests to the queue."""
        place, before = self._place, self._arrived
        for number, request in enumerate(requests, before):
            assert request[0] not in place, f"request {request[0]} is here already"
            place[request[0]] = number
        self._arrived += len(requests)
        self.waiting.extend(requests)
        if self._expected is not None and before < self._expected <= self._arrived:
            self.closed, self._promised = True, False

    def close(self, expected: int) -> None:
        """Announce the end of arrivals: the queue closes when `expected` requests have arrived.

        The closing call can overtake the last request, so the call alone closes nothing.
        """
        self._expected = expected
        self.closed, self._promised = self._arrived >= expected, False

    def poll(self, now_s: float) -> list[Batch | Rejection]:
        """Ask the strategy until it answers Wait; what to launch and what to refuse, in order.

        It is not asked while its last Wait holds, about an empty queue, or while there is no room.
        """
        decided: list[Batch | Rejection] = []
        while self.waiting and not (self._careful and self._is_full()):
            if self._promised and self._wait_holds(now_s):
                return decided
            engine = (self.running, self._idle_since_s, self._joinable, self.closed, self.cap, self._kv)
            answer = self._decide(now_s, self.waiting, _made(EngineView, engine))
            if isinstance(answer, Launch):
                decided.append(self._launch(answer, now_s))
            elif isinstance(answer, Wait):
                self._promise(answer, now_s)
            else:
                decided.extend(self._reject(answer))
        self._promised, self.wake_s = False, math.inf  # an arrival or a completion comes first
        return decided

    def settled(self, now_s: float) -> bool:
        """Whether the strategy was asked, and waits: a driver that finds it is not has to `poll`."""
        return not self.waiting or self._wait_holds(now_s)

    def finish(self, request_id: str, batch_id: int, now_s: float) -> bool:
        """One request of a running batch ended, in any way; True if this ended its batch."""
        self.finish_all([(request_id, batch_id)], now_s)
        return batch_id not in self._batches

    def finish_all(self, ended: Iterable[tuple[str, int]], now_s: float) -> int:
        """Requests of running batches ended, by id and batch, the last of them now; how many."""
        place, unfinished, before = self._place, self._unfinished, len(self._place)
        for request_id, batch_id in ended:
            del place[request_id]
            if left := unfinished[batch_id] - 1:
                unfinished[batch_id] = left
                continue
            del unfinished[batch_id], self._batches[batch_id]
            self._clean_batches += 1
            if self._careful:
                self._recover()
        count = before - len(place)
        self._ran(count, now_s)
        return count

    def out_of_memory(
        self, batch_id: int, now_s: float, *, ran: int | None = None, again: bool = False
    ) -> list[Waiting]:
        """A batch did not fit: lower the cap and put its requests back in their place in the queue.

        cap ← max(1, ⌊min(cap, B) / 2⌋) for a batch of B; until it has recovered it bounds joining too. A
        request that was alone in its batch and in the engine fails instead: it is returned, and is
        forgotten here. Otherwise the list is empty. Where batches join each other B is `ran`, the requests
        in the engine, and a failure lowers the cap once: for its other batches `again` is true.
        """
        batch = self._batches.pop(batch_id)
        size = len(batch.requests)
        assert self._unfinished.pop(batch_id) == size, f"part of batch {batch_id} was delivered"
        failed = size if ran is None else ran
        alone = size == failed == self.running == 1
        self._ran(size, now_s)
        if not again:
            self.cap = max(1, min(self.cap, failed) // 2)
        self._clean_batches, self._careful = 0, True
        if alone:
            del self._place[batch.requests[0].request_id]
            return list(batch.requests)
        self._put_back(batch.requests)
        return []

    def abandon(self) -> list[Waiting]:
        """Empty the queue, as an abort does; what was waiting, oldest first. What runs goes on."""
        abandoned = list(self.waiting)
        self.waiting.clear()
        for request in abandoned:
            del self._place[request.request_id]
        self._promised, self.wake_s = False, math.inf
        return abandoned

    def _is_full(self) -> bool:
        """A joining batch that did not fit would come back unchanged, for ever, unless what is in the
        engine, its own waiting list included, keeps to the fallen cap."""
        return self._joinable and self.running >= self.cap

    def _wait_holds(self, now_s: float) -> bool:
        return self._promised and now_s < self.wake_s and len(self.waiting) < self._until_waiting

    def _promise(self, answer: Wait, now_s: float) -> None:
        self._promised, self.wake_s = True, answer.until_s
        self._until_waiting = math.inf if answer.until_waiting is None else answer.until_waiting
        assert self._wait_holds(now_s), f"{answer} has ended already at {now_s}, {len(self.waiting)} waiting"

    def _launch(self, answer: Launch, now_s: float) -> Batch:
        take, joins = answer.take, self._joinable and answer.trigger == "join"
        if self._careful and joins:
            take = self._trim(take)
        requests = self._take(take)
        size = len(requests)
        assert size <= self.cap or joins, f"{answer} is larger than the cap of {self.cap}"
        assert self.running == 0 or self._joinable, f"{answer} on an engine that cannot be joined"
        if isinstance(take, tuple):
            self._count_skips(max(self._place[request.request_id] for request in requests))
        batch_id = self._launched
        launch = (batch_id, requests, answer.trigger, self.cap, len(self.waiting), now_s)
        batch = _made(Batch, launch)
        self._launched += 1
        self._batches[batch_id] = batch
        self._unfinished[batch_id] = size
        self.running += size
        self._promised = False
        return batch

    def _trim(self, take: int | tuple[int, ...]) -> int | tuple[int, ...]:
        room = self.cap - self.running
        return min(take, room) if isinstance(take, int) else take[:room]

    def _reject(self, answer: Reject) -> list[Rejection]:
        requests = self._take(answer.take)
        for request in requests:
            del self._place[request.request_id]
        self._promised = False
        return [Rejection(request=request, reason=answer.reason) for request in requests]

    def _take(self, take: int | tuple[int, ...]) -> tuple[Waiting, ...]:
        """Remove that many oldest, or the given positions, from the queue."""
        queue = self.waiting
        if isinstance(take, int):
            assert 1 <= take <= len(queue), f"take of {take} with {len(queue)} waiting"
            if take == len(queue):
                requests = (*queue,)
                queue.clear()
                return requests
            return tuple([queue.popleft() for _ in range(take)])
        chosen = set(take)
        valid = bool(take) and len(chosen) == len(take) and min(take) >= 0 and max(take) < len(queue)
        assert valid, f"take of positions {take} with {len(queue)} waiting"
        requests = tuple([queue[position] for position in take])
        self.waiting = deque(request for position, request in enumerate(queue) if position not in chosen)
        return requests

    def _count_skips(self, youngest: int) -> None:
        """A skip: the request of arrival number `youngest` was launched while an older one waited."""
        for position, request in enumerate(self.waiting):
            if self._place[request.request_id] > youngest:
                break
            self.waiting[position] = request._replace(skips=request.skips + 1)

    def _put_back(self, requests: tuple[Waiting, ...]) -> None:
        """Merge by order of arrival; what was taken from the front goes back to the front."""
        back = sorted(requests, key=lambda request: self._place[request.request_id])
        if self.waiting and self._place[back[-1].request_id] > self._place[self.waiting[0].request_id]:
            both = [*back, *self.waiting]
            self.waiting = deque(sorted(both, key=lambda request: self._place[request.request_id]))
        else:
            self.waiting.extendleft(reversed(back))

    def _ran(self, ended: int, now_s: float) -> None:
        self.running -= ended
        self._promised = False
        if self.running == 0:
            self._idle_since_s = now_s

    def _recover(self) -> None:
        """After enough consecutive clean batches since the last change, the cap grows by one."""
        if self._clean_batches >= self._clean_batches_to_recover:
            self.cap = min(self._max_batch_size, self.cap + 1)
            self._careful = self.cap < self._max_batch_size
            self._clean_batches = 0
