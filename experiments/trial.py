"""One trial: the same requests, at the same moments, through one strategy on a loaded lane.

handshake → warm-up (after a load only, never counted) → step probe → begin → send, open loop → drain, at
most to the drain limit → abort what is left → account → handshake again. Rows are written while it runs, and
once a second a sample says how it stands.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from deployments.backends.backend import Work
from deployments.client import Client
from deployments.clock import handshake
from deployments.cpu_time import CpuTime
from deployments.errors import EngineDead
from deployments.lane_board import Lane
from deployments.lanes import Call
from deployments.places import Place
from deployments.replica import Account, Devices, Progress
from deployments.reserve import Reserve
from deployments.warming import WarmUp
from experiments.cells import Cell
from experiments.errors import TrialError
from experiments.rows import request_id, settings
from experiments.trial_rows import TrialRows
from results import records
from results.attempt import Attempt
from results.records import Clock, Trial
from workloads.request import Request
from workloads.workload import workload_hash

PROBE_PROMPT_TOKENS, PROBE_OUTPUT_TOKENS = 32, 8
PROBE_S, FEWEST_PROBES, MOST_PROBES = 1.0, 2, 8  # as many probes as fit into a second, within these bounds
SAMPLE_EVERY_S = 1.0
PREPARE_DEADLINE_S = 1_800.0  # a deadline for engines that hang: a slow warm-up takes minutes
ABORT_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What a trial sends: the measured requests, and different ones before."""

    requests: tuple[Request, ...]
    warmup: tuple[Request, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How a running trial stands, for whoever watches."""

    cell_id: str
    setting: str
    backend: str
    rate: float
    repeat: int
    lane: str
    elapsed_s: float
    duration_s: float
    sent: int
    planned: int
    waiting: int
    running: int
    tokens_per_s: float


class TrialRun:
    """Measures one cell on one lane; the attempt's rows are written on the way."""

    def __init__(
        self,
        cell: Cell,
        traffic: Traffic,
        lane: Lane,
        call: Call,
        attempt: Attempt,
        *,
        setup: Mapping[str, Any],
        report: Callable[[State], None],
        reserve: Reserve | None = None,
    ) -> None:
        """`setup` is the provenance of the sweep; the lane adds its own. `reserve`: of a backend that pads."""
        self._cell, self._traffic, self._lane, self._call, self._attempt = cell, traffic, lane, call, attempt
        lane_setup = dict(lane.setup or {})
        self._setup = {**setup, **_node(lane.place), "engine": lane_setup}
        self._reserve = reserve
        self._device = cell.accelerator or str(lane_setup.get("device", "unknown"))
        self._settings = settings(cell, self._device)
        attempt.record(self._setup)
        self._trial = f"{cell.cell_id}/{attempt.number}"  # a stray call of an earlier attempt is refused
        self._report = report
        self._begun_s = time.monotonic()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._offset_s = 0.0
        self._rows = TrialRows(attempt, self._settings, self._shift_s)
        self._client = Client(self._generate, self._name, self._rows.take)

    async def run(self) -> Trial:
        """Measure. TrialError if the attempt must not count."""
        cell, requests = self._cell, self._traffic.requests
        if not requests:
            text = f"no request arrives within {cell.duration_s:g} s at {cell.rate:g}/s"
            raise TrialError("no-requests", text, permanent=True)
        async with _deadline(PREPARE_DEADLINE_S, "get ready"):
            clock = await handshake(self._ping)
            self._offset_s = clock.offset_s
            warm_up: WarmUp | None = await self._call(
                "warm", [self._work(request, "warm-up") for request in self._traffic.warmup]
            )
            step_probe_s = await self._probe()
            devices: Devices = await self._call("devices")
            self._record(devices, await self._budget())
            incarnation = await self._call(
                "begin", self._trial, cell.strategy, cell.knobs, cell.knobs["max_batch_size"], len(requests)
            )
        prepared_s = time.monotonic()
        cut_off = await self._serve(requests)
        async with _deadline(ABORT_DEADLINE_S, "end the trial"):
            account: Account = await self._call("end")
            self._check(account, incarnation)
            drift = (await handshake(self._ping)).offset_s - clock.offset_s
        await self._rows.write_rest(account)
        return Trial(
            cell_id=cell.cell_id,
            attempt=self._attempt.number,
            strategy=cell.strategy,
            setting=cell.setting,
            knobs=dict(cell.knobs),
            backend=cell.backend,
            engine=dict(cell.engine),
            model=self._settings["model"],
            device=self._device,
            rate=cell.rate,
            seed=cell.seed,
            repeat=cell.repeat,
            lane=self._lane.name,
            incarnation=incarnation,
            incarnation_end=account.incarnation,
            workload_hash=workload_hash(requests),
            planned_requests=len(requests),
            duration_s=cell.duration_s,
            drain_limit_s=cell.drain_limit_s,
            cut_off=cut_off,
            min_cap=account.min_cap,
            clock=Clock(offset_s=clock.offset_s, uncertainty_s=clock.uncertainty_s, drift_s=drift),
            step_probe_s=step_probe_s,
            memory_bytes=account.memory.peak_bytes,
            memory_kind=account.memory.kind,
            started_at=self._started_at,
            prepare_s=prepared_s - self._begun_s,
            measured_s=self._rows.last_received_s - requests[0].planned_s,
            total_s=time.monotonic() - self._begun_s,
            setup=self._setup,
            warm_up=records.WarmUp(**asdict(warm_up)) if warm_up else None,
            prefix_cache_share=account.cached_share,
            gpu_strangers=tuple(dict.fromkeys((*devices.strangers, *account.strangers))),
        )

    async def _probe(self) -> float:
        """The step time of one request now: the median of several short probes."""
        begun_s, steps_s = time.monotonic(), list[float]()
        while len(steps_s) < FEWEST_PROBES or (
            len(steps_s) < MOST_PROBES and (time.monotonic() - begun_s) * (1 + 1 / len(steps_s)) <= PROBE_S
        ):
            sample = await self._call("measure", 1, PROBE_PROMPT_TOKENS, PROBE_OUTPUT_TOKENS)
            steps_s.append(sample.step_s)
        return statistics.median(steps_s)

    async def _budget(self) -> Mapping[str, Any] | None:
        """What padded batches may take, for the set-up; asked before the trial begins, which keeps to it."""
        if self._reserve is None and "kv_budget_bytes" not in self._cell.engine:
            return None
        workload = self._cell.workload
        row_tokens = workload.prompt_law().maximum + workload.limit_tokens
        found: Mapping[str, Any] | None = await self._call("budget", self._reserve, row_tokens)
        return found

    def _record(self, devices: Devices, budget: Mapping[str, Any] | None) -> None:
        """Into the set-up of every file: the GPUs' clocks and memory as the trial begins, and the budget."""
        if budget is not None:
            self._setup["padded_batches"] = budget
        if devices.state:
            self._setup["gpus_at_start"] = devices.state
        if devices.state or budget is not None:
            self._attempt.record(self._setup)

    async def _serve(self, requests: Sequence[Request]) -> bool:
        """Send and drain; True if the drain limit cut something off."""
        ended = asyncio.Event()
        watch = asyncio.create_task(self._watch())
        flush = asyncio.create_task(self._rows.flush(ended))
        try:
            await self._client.send(requests)
            drained = await self._client.drain(requests[-1].planned_s + self._cell.drain_limit_s)
            self._must_live()  # what is lost is not worth a wait, nor an abort that could only hide why
            if drained:
                return False
            async with _deadline(ABORT_DEADLINE_S, "end its requests"):
                await self._call("abort")
                await self._client.drain(time.monotonic() - self._client.start_s + ABORT_DEADLINE_S)
            return True
        finally:
            self._client.cancel()
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            ended.set()
            await flush  # not cancelled: a thread would go on writing rows that `finish` misses
            await self._rows.write_samples()

    def _must_live(self) -> None:
        if self._client.lost is not None:
            raise EngineDead(self._client.lost)

    def _check(self, account: Account, incarnation: str) -> None:
        self._must_live()
        if account.incarnation != incarnation:
            raise EngineDead("the replica was replaced during the trial")
        rows = self._rows
        if rows.failed == rows.ended:
            raise TrialError("all-failed", f"all {rows.ended} requests failed: {rows.first_error}")

    async def _watch(self) -> None:
        """At its start and once a second: a sample, and for whoever watches how the trial stands."""
        client_cpu = CpuTime(descendants=False)
        before: Progress | None = None
        while True:
            with contextlib.suppress(Exception):  # watching must not end a trial
                progress: Progress = await self._call("progress")
                self._rows.sample(progress, sent=self._client.sent, client_cpu_s=client_cpu.used_s())
                if before is not None:
                    rate = (progress.tokens - before.tokens) / (progress.at_s - before.at_s)
                    self._report(self._state(progress, rate))
                before = progress
            elapsed_s = time.monotonic() - self._client.start_s
            await asyncio.sleep(SAMPLE_EVERY_S - elapsed_s % SAMPLE_EVERY_S)

    def _shift_s(self) -> float:
        """The replica's clock at trial start."""
        return self._offset_s + self._client.start_s

    def _state(self, progress: Progress, tokens_per_s: float) -> State:
        cell = self._cell
        return State(
            cell_id=cell.cell_id,
            setting=cell.setting,
            backend=cell.backend,
            rate=cell.rate,
            repeat=cell.repeat,
            lane=self._lane.name,
            elapsed_s=time.monotonic() - self._client.start_s,
            duration_s=cell.duration_s,
            sent=self._client.sent,
            planned=len(self._traffic.requests),
            waiting=progress.waiting,
            running=progress.running,
            tokens_per_s=tokens_per_s,
        )

    async def _ping(self) -> float:
        return float(await self._call("ping"))

    async def _generate(self, work: Work, max_new_tokens: int) -> Any:
        return await self._call("generate", self._trial, work, max_new_tokens)

    def _name(self, request: Request) -> str:
        return request_id(self._cell.cell_id, request.index)

    def _work(self, request: Request, prefix: str) -> Work:
        return Work(
            request_id=f"{prefix}-{self._name(request)}",
            prompt_ids=request.prompt_ids,
            output_tokens=request.output_tokens,
        )


def _node(place: Place) -> Mapping[str, Any]:
    """Of a cluster, whose nodes differ: where the lane is."""
    return {} if place.node is None else {"node": {"host": place.host, "id": place.node, "kind": place.kind}}


@asynccontextmanager
async def _deadline(seconds: float, what: str) -> AsyncIterator[None]:
    """EngineDead if the block takes longer: a hung engine must not hang the sweep."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            yield
    except TimeoutError:
        if not deadline.expired():
            raise
        raise EngineDead(f"the replica did not {what} within {seconds:g} s") from None
