"""One request's tokens on their way from the EngineCore, each stamped with the step it came in.

vLLM puts what a step brought into a collector for each request, and adds the next step's tokens to it if
the request's task has not run by then. So the stamping does not wait for the task: `stamp` looks into the
collector at the end of each step, and the task later takes the tokens out.
"""

import time
from typing import Any


class Stream:
    """Ids and stamps so far, of one `vllm.v1.engine.output_processor.RequestOutputCollector`."""

    def __init__(self, collector: Any) -> None:
        self._collector = collector
        self.ids: list[int] = []
        self.token_s: list[float] = []
        self.returned_s: float | None = None
        self.finish_reason: str | None = None
        self.metrics: Any = None

    @property
    def engine_id(self) -> str:
        """vLLM's own id of this request."""
        return str(self._collector.request_id)

    def stamp(self, now_s: float) -> None:
        """Stamp what has arrived since the last step, without taking it."""
        arrived = getattr(self._collector.output, "outputs", None)  # None, an output or an exception
        if arrived:
            self._stamp_up_to(len(self.ids) + len(arrived[0].token_ids), now_s)

    async def read(self) -> None:
        """Take the tokens until the request has ended. Raises what vLLM gives instead of them."""
        finished = False
        while not finished:
            delta = await self._collector.get()
            self.returned_s = time.monotonic()
            self.ids.extend(delta.outputs[0].token_ids)
            self._stamp_up_to(len(self.ids), self.returned_s)
            self.finish_reason = delta.outputs[0].finish_reason
            self.metrics = delta.metrics
            finished = delta.finished

    def _stamp_up_to(self, tokens: int, now_s: float) -> None:
        self.token_s.extend([now_s] * (tokens - len(self.token_s)))
