"""A pretended engine: it sleeps in real time as long as the linear step model says, and makes up tokens.

It lets the whole path run without a model. It is never a measurement: its set-up says `simulated`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deployments.backends.backend import EngineStep, Limits, Memory, Output, Work, invalid, refused
from deployments.backends.engine_args import SimulatedArgs
from deployments.backends.simulated_iteration import SimulatedIteration
from deployments.backends.simulated_lockstep import SimulatedLockstep
from deployments.backends.starting import Starting
from deployments.errors import BackendError, EngineDead
from deployments.models import ModelSpec

DEFAULT_SLOTS = 256


class Simulated:
    """Backend (see the protocol). The model is not read: nothing of it is needed."""

    def __init__(self, model: ModelSpec | None, args: SimulatedArgs) -> None:
        self._args = args
        self.joinable = args.engine == "iteration"
        self.limits = Limits(vocabulary=args.vocabulary, context_tokens=args.context_tokens)
        self._starting = Starting()
        self._engine: SimulatedLockstep | SimulatedIteration | None = None

    async def start(self) -> None:
        """Wait `load_s`, as a load would. BackendError at the deadline."""
        await self._starting.run(self._begin())

    async def _begin(self) -> None:
        try:
            await asyncio.wait_for(asyncio.sleep(self._args.load_s), self._args.start_deadline_s)
        except TimeoutError as exc:
            raise BackendError(f"did not load within {self._args.start_deadline_s:g} s") from exc
        self._engine = self._make()

    @property
    def setup(self) -> Mapping[str, Any]:
        """Provenance: that it is simulated, and the arguments."""
        args = self._args
        token_bytes = {"kv_bytes_per_token": args.token_bytes}
        return {"simulated": True, "device": "none", **args.model_dump(), **token_bytes}

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Run what is valid; a refused request is delivered at once."""
        engine = self._started()
        valid = []
        for work in batch:
            if (reason := invalid(work, self.limits)) is None:
                valid.append(work)
            else:
                done(refused(work, reason))
        if valid:
            await engine.run(valid, done)

    async def abort(self) -> None:
        """Cut what runs where it stands."""
        if self._engine is not None:
            await self._engine.abort()

    async def check(self) -> None:
        """EngineDead before `start` and after `close`."""
        self._started()

    def take_steps(self) -> list[EngineStep]:
        """The steps of the iteration engine since the last call."""
        return self._started().take_steps()

    def reset_memory(self) -> None:
        """Nothing to do: there is no memory to measure."""

    def memory(self) -> Memory:
        """None of any kind."""
        return Memory(peak_bytes=None, kind="none")

    async def close(self) -> None:
        """Cut what runs; no task is left."""
        await self._starting.give_up()
        await self.abort()
        self._engine = None

    def _make(self) -> SimulatedLockstep | SimulatedIteration:
        args = self._args
        if args.engine == "lockstep":
            return SimulatedLockstep(args.step_model, args.vocabulary)
        return SimulatedIteration(args.step_model, args.vocabulary, args.max_num_seqs or DEFAULT_SLOTS)

    def _started(self) -> SimulatedLockstep | SimulatedIteration:
        if self._engine is None:
            raise EngineDead("the engine is not running: it was not started, or it was closed")
        return self._engine
