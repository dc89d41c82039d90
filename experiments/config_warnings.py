"""What a config can run but will not show what it was meant to show: it is told, and goes on."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deployments.backends.registry import BACKENDS
from experiments.document import key_path
from workloads.errors import WorkloadError
from workloads.sharegpt import read_conversations

if TYPE_CHECKING:
    from experiments.config import SweepConfig


def warnings(config: "SweepConfig") -> list[str]:
    """All of them, one line each."""
    return [
        *_unused(config),
        *_unfilled(config),
        *_of_the_order(config),
        *_unequal(config),
        *_of_the_trace(config),
        *_of_the_chats(config),
    ]


def _unused(config: "SweepConfig") -> list[str]:
    used = {setting.backend for setting in config.settings}
    found = [f"backends.{name}: no strategy runs on it" for name in config.backends if name not in used]
    if config.model is not None and not any(BACKENDS[name].needs_model for name in used):
        found.append(f"model: {config.model.name} is not loaded: {', '.join(sorted(used))} needs no model")
    return found


def _of_the_order(config: "SweepConfig") -> list[str]:
    """Orders that are fifo for want of what they order by, and what no strategy orders by."""
    workload = config.workload
    classes = sum(weight > 0 for weight in workload.priority or ())
    lengths = len(workload.prompt_law().values)
    missing = {
        "length": lengths < 2 and "workload.prompts has one length",
        "priority": classes < 2 and "workload.priority names no two classes",
        "deadline": workload.ttft_target_ms is None and "workload.ttft_target_ms is left out",
    }
    found = []
    for index, entry in enumerate(config.strategies):
        knobs = entry.model_extra or {}
        orders = _several(knobs.get("order", "fifo"))
        where = key_path(("strategies", index, "order"))
        found += [f"{where}: {order} is fifo: {missing[order]}" for order in orders if missing.get(order)]
        target_ms, wait_ms = (
            min(workload.ttft_target_ms or (math.inf,)),
            max(_several(knobs.get("max_wait_ms", 0))),
        )
        if "reject" in _several(knobs.get("on_expired", "serve")) and wait_ms >= target_ms:
            late = f"max_wait_ms {wait_ms:g} outlasts workload.ttft_target_ms {target_ms:g}"
            found.append(
                f"{key_path(('strategies', index, 'on_expired'))}: {late}: requests are rejected by an idle engine"
            )
    used = {setting.knobs.get("order", "fifo") for setting in config.settings}
    if classes > 1 and "priority" not in used and len(workload.ttft_target_ms or ()) < 2:
        found.append("workload.priority: no strategy has order: priority")
    if workload.ttft_target_ms is not None and "deadline" not in used:
        found.append("workload.ttft_target_ms: no strategy has order: deadline")
    return found


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _unfilled(config: "SweepConfig") -> list[str]:
    if config.arrival_rate is None or config.duration_s is None:
        return []  # said once they are known
    return _unfilled_at(config, [(rate, config.duration_s) for rate in config.arrival_rate])


def unfilled_now(config: "SweepConfig", rates: Sequence[float], durations_s: Sequence[float]) -> list[str]:
    """The warnings about batch sizes that `warnings` could not give before an `auto` was resolved to these."""
    if config.arrival_rate is not None and config.duration_s is not None:
        return []
    return _unfilled_at(config, list(zip(rates, durations_s, strict=True)))


def _unfilled_at(config: "SweepConfig", loads: Sequence[tuple[float, float]]) -> list[str]:
    """Batch sizes that fewer requests than one batch are expected for, at (requests/s, seconds)."""
    found = []
    for index, entry in enumerate(config.strategies):
        sizes = (entry.model_extra or {})["max_batch_size"]
        looked_at = loads if entry.strategy == "naive" else [max(loads, key=lambda load: load[0] * load[1])]
        for size in sizes if isinstance(sizes, list) else [sizes]:
            low = max((load for load in looked_at if load[0] * load[1] < size), default=None)
            if low is None:
                continue
            rate, duration_s = low
            text = f"{size} is never filled at {rate:g} requests/s, which are {rate * duration_s:.4g} requests in {duration_s:g} s"
            flushed = ": naive would only flush what it has" if entry.strategy == "naive" else ""
            found.append(f"{key_path(('strategies', index, 'max_batch_size'))}: {text}{flushed}")
    return found


def _of_the_trace(config: "SweepConfig") -> list[str]:
    """What was left out or cut of a trace, and where it ends before the arrivals should."""
    workload = config.workload
    if workload.trace is None:
        return []
    found = workload.trace.notes()
    for rate in config.arrival_rate or ():
        if config.duration_s is not None and workload.lasts_s(rate) < config.duration_s:
            over = f"is over after {workload.lasts_s(rate):.4g} s at {rate:.4g} requests/s"
            found.append(f"{over}, before duration_s {config.duration_s:g}")
    return [f"workload.trace: {note}" for note in found]


def _of_the_chats(config: "SweepConfig") -> list[str]:
    """A chat file with fewer texts than a trial has requests: prompts of one trial then repeat each other."""
    from experiments.capacity import REQUESTS  # which knows configs, as they know this

    path = config.workload.prompts.path
    if path is None:
        return []
    try:
        chats = read_conversations(path)
    except WorkloadError:  # said, and refused, where the prompts are made
        return []
    texts = sum(map(len, chats))
    known = config.arrival_rate is not None and config.duration_s is not None
    requests = max(config.arrival_rate or ()) * (config.duration_s or 0) if known else REQUESTS
    if texts >= requests:
        return []
    held = f"{path} holds {texts} texts by people (conversations: {len(chats)})"
    expected = f"{'' if known else 'at least '}{requests:g} requests"
    return [f"workload.prompts.path: {held} for {expected} of a trial: their prompts repeat text"]


def _unequal(config: "SweepConfig") -> list[str]:
    """Engines with unlike CPU threads: what they differ in is then not the engine alone."""
    threads = {s.backend: s.engine.get("threads") for s in config.settings if s.model is not None}
    if len(set(threads.values())) < 2:
        return []
    said = ", ".join(f"{name} {count or 'its default'}" for name, count in sorted(threads.items()))
    return [f"backends: unequal threads ({said}): a comparison of engines compares these too"]
