"""Whether the GPUs are ours to use: nothing is measured beside somebody else's work.

A driver that was killed leaves its replicas on the GPU for some seconds (4 s, a vLLM worker 6 s), so one
that is taken is looked at again for a while before it is refused.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import psutil

from deployments.errors import DeviceError
from deployments.gpu_selection import VARIABLE
from deployments.gpus import Gpu, Holder, visible_gpus

WAIT_S = 20.0
LOOK_EVERY_S = 1.0
UNSEEN_SHARE = 0.1  # of the memory: more than a driver or a desktop uses
LEAST_BYTES = 64 * 2**20  # less than any process that computes has

Look = Callable[[], Sequence[Gpu]]


def claim(
    notify: Callable[[str], None],
    wanted: int | None = None,
    look: Look = visible_gpus,
    *,
    wait_s: float = WAIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Gpu, ...]:
    """The first `wanted` visible GPUs that nobody else computes on; None wants all visible ones.

    DeviceError if there are still too few after `wait_s` seconds. `notify` is told once that, and for what,
    one waits. Blocks.
    """
    end_s = clock() + wait_s
    told = False
    while True:
        gpus = look()
        hands = taken(gpus)
        free = [gpu for gpu in gpus if gpu.label not in hands]
        enough = len(gpus) if wanted is None else wanted
        if len(free) >= enough:
            return tuple(free[:enough])
        if clock() >= end_s:
            raise DeviceError(f"{_listed(hands)}; {_way_out(free, hands, wanted)}")
        if not told:
            notify(f"{_listed(hands)}; waiting for up to {wait_s:g} s")
            told = True
        sleep(LOOK_EVERY_S)


def taken(gpus: Sequence[Gpu]) -> Mapping[str, str]:
    """The GPUs that others compute on, by label, and in one phrase each who that is."""
    ours = _ours()
    return {
        gpu.label: f"GPU {gpu.label} ({gpu.name}) is taken: {who}" for gpu in gpus if (who := _who(gpu, ours))
    }


def strangers(gpus: Sequence[Gpu], known: AbstractSet[int] = frozenset()) -> tuple[str, ...]:
    """Who computes on the GPUs and is neither ours nor one of `known` (process ids), in one phrase each."""
    ours = _ours() | known
    return tuple(f"GPU {gpu.label}: {who}" for gpu in gpus if (who := _others(gpu, ours)))


def _others(gpu: Gpu, ours: AbstractSet[int]) -> str:
    others = [holder for holder in gpu.holders if holder.pid not in ours and _computes(holder)]
    return ", ".join(map(_named, others))


def _who(gpu: Gpu, ours: AbstractSet[int]) -> str:
    """Empty if nobody else is on it."""
    if gpu.holders:
        return _others(gpu, ours)
    if gpu.used_bytes is None or gpu.total_bytes is None or gpu.used_bytes <= UNSEEN_SHARE * gpu.total_bytes:
        return ""
    return f"{_gib(gpu.used_bytes)} of {_gib(gpu.total_bytes)} by processes that cannot be seen from here"


def _ours() -> set[int]:
    me = psutil.Process()
    return {me.pid, *(child.pid for child in me.children(recursive=True))}


def _computes(holder: Holder) -> bool:
    return holder.used_bytes is None or holder.used_bytes >= LEAST_BYTES


def _named(holder: Holder) -> str:
    try:
        name = psutil.Process(holder.pid).name()
    except psutil.Error:  # it has just ended, or is another user's
        name = "unknown"
    used = "" if holder.used_bytes is None else f", {_gib(holder.used_bytes)}"
    return f"pid {holder.pid} ({name}{used})"


def _listed(hands: Mapping[str, str]) -> str:
    return "; ".join(hands.values())


def _way_out(free: Sequence[Gpu], hands: Mapping[str, str], wanted: int | None) -> str:
    if not free:
        return "end it, or wait for it" if len(hands) == 1 else "end them, or wait for them"
    if wanted is not None:
        return f"gpus: {wanted} needs as many that are free, got {len(free)}"
    it = "it" if len(hands) == 1 else "them"
    return f"end {it}, or leave {it} out with {VARIABLE}={','.join(gpu.label for gpu in free)}"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
