"""vLLM's own statistics, one row for each iteration of its scheduler.

vLLM calls `record` after it has delivered an iteration's tokens and freed what has finished. So its
count of running requests leaves out the ones that ended in this very pass; they are added again, because
they took a slot in it. Its share of KV blocks in use stays as it is, after freeing.
"""

import time
from collections.abc import Callable
from typing import Any

from deployments.backends.backend import EngineStep


class StepRecorder:
    """A stat logger in vLLM's sense (`vllm.v1.metrics.loggers.StatLoggerBase`), by its methods only."""

    def __init__(self, on_step: Callable[[float], None]) -> None:
        self._on_step = on_step  # called with the end of each iteration, in the event loop
        self._steps: list[EngineStep] = []
        self.peak_kv_use = 0.0  # share of the KV blocks, 0..1

    def factory(self, vllm_config: Any, engine_index: int = 0) -> "StepRecorder":
        """What `AsyncLLM(stat_loggers=[…])` calls to get its logger."""
        return self

    def record(self, scheduler_stats: Any, iteration_stats: Any, *rest: Any, **more: Any) -> None:
        """One iteration. Either part may be None: a pass without output, or output without a pass."""
        end_s = time.monotonic()
        self._on_step(end_s)
        if scheduler_stats is None:
            return
        self.peak_kv_use = max(self.peak_kv_use, scheduler_stats.kv_cache_usage)
        step = _step(end_s, scheduler_stats, iteration_stats)
        if step.tokens or step.prefill_tokens:  # else all that it ran has been aborted meanwhile
            self._steps.append(step)

    def take(self) -> list[EngineStep]:
        """The steps since the last call."""
        taken, self._steps = self._steps, []
        return taken

    def log(self) -> None:
        """Nothing is printed."""

    def log_engine_initialized(self) -> None:
        """Nothing is printed."""

    def record_sleep_state(self, *state: Any) -> None:
        """The engine never sleeps."""


def _step(end_s: float, scheduler: Any, iteration: Any) -> EngineStep:
    details = scheduler.iteration_details  # exact also for the chunks of a long prompt
    return EngineStep(
        end_s=end_s,
        running=scheduler.num_running_reqs + (len(iteration.finished_requests) if iteration else 0),
        waiting=scheduler.num_waiting_reqs + scheduler.num_skipped_waiting_reqs,
        tokens=iteration.num_generation_tokens if iteration else 0,
        prefill_tokens=details.num_ctx_tokens if details else 0,
        kv_use=scheduler.kv_cache_usage,
        preemptions=iteration.num_preempted_reqs if iteration else 0,
        cached_tokens=scheduler.prefix_cache_stats.hits,
    )
