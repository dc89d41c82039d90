"""transformers' own manager of continuous batching, its loop watched from inside.

Its public way out, a handler for each request, tells neither a step's end nor a preemption, is not called
for a cancelled request, and stamps in the event loop. So three of its methods are extended instead
(transformers 5.19, `generation/continuous_batching/continuous_api.py`): the loop, its body and its step.
"""

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching.continuous_api import (
    BackgroundThreadStatus,
    ContinuousBatchingManager,
    OutputRouter,
)

from deployments.backends.loaded_model import free_memory, is_out_of_memory
from deployments.backends.paged_passes import PassRecorder
from results.errors import one_line

GREEDY = GenerationConfig(do_sample=False, pad_token_id=0, eos_token_id=-1)  # -1: no id ends a sequence


class Listener(Protocol):
    """What is told in the engine's thread."""

    def finished(self, engine_ids: Sequence[str]) -> None:
        """These have their last token."""
        ...

    def failed(self, engine_id: str, error: str) -> None:
        """This one alone could not be run; the engine goes on."""
        ...

    def out_of_memory(self, engine_ids: Sequence[str], error: str) -> None:
        """A pass did not fit, with these in the engine; it is empty now, and goes on."""
        ...

    def stopped(self, error: BaseException | None) -> None:
        """The loop has ended, and nothing more will come; with an error if it crashed."""
        ...


class PagedManager(ContinuousBatchingManager):  # type: ignore[misc]
    """Has its cache and buffers when made; `begin` starts its thread. `threads`: CPU threads to compute with."""

    def __init__(
        self,
        model: Any,
        config: ContinuousBatchingConfig,
        *,
        threads: int,
        passes: PassRecorder,
        listener: Listener,
    ) -> None:
        super().__init__(model=model, generation_config=GREEDY, continuous_batching_config=config)
        self._threads, self._passes, self._listener = threads, passes, listener
        self.output_router = _Ends(listener, self.background_thread_status)
        with torch.no_grad():
            self.batch_processor = self._create_batch_processor()

    def begin(self) -> None:
        """Start the loop, in a thread that does not keep the interpreter from ending."""
        self.background_thread_status.clear()
        self._generation_thread = threading.Thread(
            target=self._run_generation_loop, name="huggingface-continuous", daemon=True
        )
        self._generation_thread.start()

    def _run_generation_loop(self) -> None:
        torch.set_num_threads(self._threads)  # a setting of the calling thread
        try:
            super()._run_generation_loop()
        finally:
            self._listener.stopped(self.background_thread_status.fatal_error)

    def _generation_loop_body(self, batch_processor: Any, bootstrapping: bool) -> bool:
        # After a preemption nobody is admitted until somebody finishes. If those who ran were cancelled, nobody will.
        if not batch_processor.scheduler.active_requests:
            batch_processor.scheduler.block_new_requests = False
        try:
            return bool(super()._generation_loop_body(batch_processor, bootstrapping))
        except (RuntimeError, MemoryError) as exc:
            if not is_out_of_memory(exc):
                raise
            failure = one_line(exc)
        # Outside the handler, whose traceback would keep the pass's tensors alive.
        resident = list(batch_processor.scheduler.active_requests)
        batch_processor.reset()
        free_memory(self.model.device.type)
        self._listener.out_of_memory(resident, failure)
        return True

    def _generation_step(self) -> None:
        self._passes.began(self.batch_processor)
        if self.model.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # the inputs, which the computing stream does not wait for
        super()._generation_step()  # returns when the device has done it, unless batching is asynchronous
        self._passes.ended(self.batch_processor)


class _Ends(OutputRouter):  # type: ignore[misc]
    """Where the loop delivers what has ended, in place of a queue that nobody empties."""

    def __init__(self, listener: Listener, status: BackgroundThreadStatus) -> None:
        super().__init__()
        self._listener, self._status = listener, status

    def deliver(self, output: Any) -> None:
        """A failure of its own; while the loop stops, everything open is failed, and `stopped` says why."""
        if self._status.local_status == BackgroundThreadStatus.DONT_STOP:
            self._listener.failed(output.request_id, str(output.error))

    def deliver_batch(self, outputs: list[Any]) -> None:
        """What has finished in one step."""
        self._listener.finished([output.request_id for output in outputs])
