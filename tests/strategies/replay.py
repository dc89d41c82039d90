"""Two small clocks for the tests: one asks the strategy by hand, one drives the dispatcher.

Events at equal times are processed completion, arrival, decide. The engine is either lockstep (a batch
ends with its longest request) or has unlimited slots (each request ends after its own length).
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deployments.dispatcher import Batch, Dispatcher, Rejection
from strategies.kv_budget import KVBudget
from strategies.strategy import EngineView, Launch, Reject, Strategy, Wait, Waiting

COMPLETION, ARRIVAL, TICK = 0, 1, 2
REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Job:
    """One request of a trace."""

    arrived_s: float
    length_s: float
    prompt_tokens: int = 1
    priority: int = 0
    ttft_target_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Start:
    """One launch or refusal: when, which requests of the trace, why, and when the last of them ended."""

    start_s: float
    members: tuple[int, ...]
    trigger: str
    end_s: float


def job_waits(trace: Sequence[Job], index: int) -> Waiting:
    job = trace[index]
    return Waiting(
        request_id=str(index),
        prompt_tokens=job.prompt_tokens,
        max_new_tokens=1,
        arrived_s=job.arrived_s,
        priority=job.priority,
        ttft_deadline_s=job.arrived_s + job.ttft_target_s,
    )


def ends_of(trace: Sequence[Job], members: Sequence[int], start_s: float, joinable: bool) -> list[float]:
    """When each member leaves the engine."""
    if joinable:
        return [start_s + trace[index].length_s for index in members]
    return [start_s + max(trace[index].length_s for index in members)] * len(members)


def ask_by_hand(
    strategy: Strategy,
    trace: Sequence[Job],
    *,
    cap: int,
    joinable: bool,
    kv: KVBudget | None = None,
    ticks: Iterable[float] = (),
) -> list[Start]:
    """Ask at every event, whatever was promised, and at the extra moments `ticks`. A queue is a list."""
    events: list[tuple[float, int, int]] = [(job.arrived_s, ARRIVAL, i) for i, job in enumerate(trace)]
    events += [(tick_s, TICK, 0) for tick_s in ticks]
    heapq.heapify(events)
    waiting: list[Waiting] = []
    starts: list[Start] = []
    arrived = running = 0
    idle_since_s = -math.inf
    while events:
        now_s = events[0][0]
        while events and events[0][0] == now_s:
            _, kind, index = heapq.heappop(events)
            if kind == COMPLETION:
                running -= 1
                idle_since_s = now_s if running == 0 else idle_since_s
            elif kind == ARRIVAL:
                arrived += 1
                waiting.append(job_waits(trace, index))
        while True:
            view = EngineView(
                running=running,
                idle_since_s=idle_since_s,
                joinable=joinable,
                closed=arrived == len(trace),
                cap=cap,
                kv=kv,
            )
            answer = strategy.decide(now_s, tuple(waiting), view)
            assert answer == strategy.decide(now_s, tuple(waiting), view), "decide is not pure"
            if isinstance(answer, Wait):
                assert answer.until_s > now_s
                if answer.until_s < math.inf:
                    heapq.heappush(events, (answer.until_s, TICK, 0))
                break
            positions = tuple(range(answer.take)) if isinstance(answer.take, int) else answer.take
            assert 1 <= len(positions) <= len(waiting)
            members = tuple(int(waiting[position].request_id) for position in positions)
            waiting = [request for place, request in enumerate(waiting) if place not in positions]
            if isinstance(answer, Reject):
                starts += [Start(now_s, (index,), REJECTED, now_s) for index in members]
                continue
            assert isinstance(answer, Launch)
            assert len(positions) <= cap or answer.trigger == "join"
            waiting = [
                request._replace(skips=request.skips + (int(request.request_id) < max(members)))
                for request in waiting
            ]
            ends = ends_of(trace, members, now_s, joinable)
            running += len(members)
            starts.append(Start(now_s, members, answer.trigger, max(ends)))
            for index, end_s in zip(members, ends, strict=True):
                heapq.heappush(events, (end_s, COMPLETION, index))
    return starts


def drive(
    dispatcher: Dispatcher,
    trace: Sequence[Job],
    *,
    joinable: bool,
    closes_early: bool = False,
    fits: float = math.inf,
) -> list[Start]:
    """Drive the dispatcher as it asks to be: after each event, and at `wake_s`.

    `close` comes before the first request or with the last. The engine holds `fits` requests, and is
    out of memory at once when a batch makes it more.
    """
    completions: list[tuple[float, int, int]] = []
    arrivals = list(range(len(trace)))
    starts: list[Start] = []
    if closes_early:
        dispatcher.close(len(trace))
    while arrivals or completions or dispatcher.wake_s < math.inf:
        now_s = min(
            trace[arrivals[0]].arrived_s if arrivals else math.inf,
            completions[0][0] if completions else math.inf,
            dispatcher.wake_s,
        )
        while completions and completions[0][0] == now_s:
            _, index, batch_id = heapq.heappop(completions)
            dispatcher.finish(str(index), batch_id, now_s)
        while arrivals and trace[arrivals[0]].arrived_s == now_s:
            dispatcher.arrive(job_waits(trace, arrivals.pop(0)), now_s)
            if not arrivals and not closes_early:
                dispatcher.close(len(trace))
        for batch in _launchable(dispatcher, now_s, fits):
            if isinstance(batch, Rejection):
                starts.append(Start(now_s, (int(batch.request.request_id),), REJECTED, now_s))
                continue
            members = tuple(int(request.request_id) for request in batch.requests)
            ends = ends_of(trace, members, now_s, joinable)
            starts.append(Start(batch.launched_s, members, batch.trigger, max(ends)))
            for index, end_s in zip(members, ends, strict=True):
                heapq.heappush(completions, (end_s, index, batch.batch_id))
    return starts


def _launchable(dispatcher: Dispatcher, now_s: float, fits: float) -> Iterator[Batch | Rejection]:
    while decided := dispatcher.poll(now_s):
        for batch in decided:
            if isinstance(batch, Rejection) or dispatcher.running <= fits:
                yield batch
            else:
                assert dispatcher.out_of_memory(batch.batch_id, now_s) == []
