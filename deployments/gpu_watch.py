"""The GPUs of a lane while it measures: NVML is kept open, because to open it takes longer than to ask.

Who computes on them is told from who may: this process, those below it, and who was seen on them right after
the load, since in a container NVML may know processes by other ids than they have here.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from deployments.errors import DeviceError
from deployments.gpu_claim import strangers
from deployments.gpus import Gpu, reading


class GpuWatch:
    """Made when a model has been loaded, on GPUs that nobody else was on before; none of them is no error."""

    def __init__(self, nvml: Any = None, environment: Mapping[str, str] | None = None) -> None:
        self._open = contextlib.ExitStack()
        try:
            self._read = self._open.enter_context(reading(nvml, environment))
        except DeviceError:
            self._read = tuple
        self._known = {holder.pid for gpu in self.read() for holder in gpu.holders}

    def read(self) -> tuple[Gpu, ...]:
        """How they are now; empty where there are none, or where NVML does not answer any more."""
        try:
            return self._read()
        except DeviceError:
            return ()

    def strangers(self) -> tuple[str, ...]:
        """Who else computes on them now, in one phrase each."""
        return strangers(self.read(), self._known)

    def close(self) -> None:
        """Let NVML go."""
        self._open.close()
