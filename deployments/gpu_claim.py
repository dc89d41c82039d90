"""Whether the GPUs are ours to use: nothing is measured beside somebody else's work.

A driver that was killed leaves its replicas on the GPU for some seconds (4 s, a vLLM worker 6 s), so one
that is taken is looked at again for a while before it is refused.
"""

import os
import time
from collections.abc import Callable, Sequence
from importlib import metadata

import psutil  # type: ignore[import-untyped]

from deployments.errors import DeviceError
from deployments.gpu_selection import VARIABLE
from deployments.gpus import Gpu, Holder, visible_gpus

WAIT_S = 20.0
LOOK_EVERY_S = 1.0
UNSEEN_SHARE = 0.1  # of the memory: more than a driver or a desktop uses
LEAST_BYTES = 64 * 2**20  # less than any process that computes has

Look = Callable[[], Sequence[Gpu]]


def require_free(
    notify: Callable[[str], None],
    look: Look = visible_gpus,
    *,
    wait_s: float = WAIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when no visible GPU is taken by others. DeviceError if one still is after `wait_s` seconds.

    `notify` is told once that, and for what, one waits. Blocks.
    """
    end_s = clock() + wait_s
    told = False
    while (why := taken(look())) is not None:
        if clock() >= end_s:
            raise DeviceError(why)
        if not told:
            notify(f"{why.split('; ')[0]}; waiting for up to {wait_s:g} s")
            told = True
        sleep(LOOK_EVERY_S)


def taken(gpus: Sequence[Gpu]) -> str | None:
    """Which GPU is in whose hands and what would be right, in one line; None if all are free."""
    ours = _ours()
    for gpu in gpus:
        others = [holder for holder in gpu.holders if holder.pid not in ours and _computes(holder)]
        who = ", ".join(map(_who, others))
        seen = bool(gpu.holders)
        if not others and not seen and gpu.used_bytes > UNSEEN_SHARE * gpu.total_bytes:
            who = f"{_gib(gpu.used_bytes)} of {_gib(gpu.total_bytes)} by processes that cannot be seen from here"
        if who:
            return f"GPU {gpu.label} ({gpu.name}) is taken: {who}; {_way_out(gpus, gpu)}"
    return None


def require_gpu_for_cuda_vllm(gpus: Sequence[Gpu]) -> None:
    """DeviceError if vLLM here is the CUDA build, which cannot run without a GPU, and none is visible."""
    try:
        version = metadata.version("vllm")  # the CPU build's distribution is named otherwise
    except metadata.PackageNotFoundError:
        return
    if gpus or "cpu" in version:
        return
    hidden = os.environ.get(VARIABLE)
    because = f"{VARIABLE} is {hidden!r}" if hidden is not None else "`nvidia-smi` must list one"
    raise DeviceError(
        f"vllm {version} here is the CUDA build and needs a GPU, and none is visible: {because}; "
        "`make KIND=cpu` makes an environment for CPUs"
    )


def _ours() -> set[int]:
    me = psutil.Process()
    return {me.pid, *(child.pid for child in me.children(recursive=True))}


def _computes(holder: Holder) -> bool:
    return holder.used_bytes is None or holder.used_bytes >= LEAST_BYTES


def _who(holder: Holder) -> str:
    try:
        name = psutil.Process(holder.pid).name()
    except psutil.Error:  # it has just ended, or is another user's
        name = "unknown"
    used = "" if holder.used_bytes is None else f", {_gib(holder.used_bytes)}"
    return f"pid {holder.pid} ({name}{used})"


def _way_out(gpus: Sequence[Gpu], of: Gpu) -> str:
    rest = [gpu.label for gpu in gpus if gpu.label != of.label]
    return f"end it, or leave it out with {VARIABLE}={','.join(rest)}" if rest else "end it, or wait for it"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
